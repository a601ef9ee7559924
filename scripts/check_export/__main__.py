# SPDX-License-Identifier: MIT
"""Runs plans that `tilewright export` wrote for AMD GPUs in tinygrad's emulator of instructions, which shares nothing
with tilewright, and compares with NumPy in float64 (docs/export.md)."""

import argparse
import collections
import ctypes
import mmap
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "examples" / "export_loader")]

import numpy as np  # noqa: E402
import problems  # noqa: E402
from code_object import CodeObject, Kernel  # noqa: E402
from plan import Plan, fill_arguments  # noqa: E402
from reference import decode, half_unit, random_raw, reference, storage  # noqa: E402
from supplied import Supplied  # noqa: E402

GUARD, POISON = 4096, 0xA5
ARCHITECTURES = {"gfx9": "cdna", "gfx11": "rdna3", "gfx12": "rdna4"}


class GuardedBuffer:
    """Bytes with a guard zone on both sides."""

    def __init__(self, size):
        self.size = size
        self.memory = mmap.mmap(-1, size + 2 * GUARD)
        self.array = np.frombuffer(self.memory, np.uint8)
        self.array[:] = POISON
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + GUARD

    @property
    def bytes(self):
        return self.array[GUARD : GUARD + self.size]

    def guards_hold(self):
        return bool((self.array[:GUARD] == POISON).all() and (self.array[GUARD + self.size :] == POISON).all())


def view(buffer, values):
    """A tensor of the plan as [batch, rows, columns]; what does not vary is repeated."""
    strides = [stride * values.itemsize for stride in buffer["strides"]]
    return np.lib.stride_tricks.as_strided(values, buffer["shape"], strides)


def launch(emulator, plan, buffers, scalars):
    target = plan.json["target"]
    architecture = next(name for prefix, name in ARCHITECTURES.items() if target.startswith(prefix))
    addresses = {name: buffer.address for name, buffer in buffers.items()}
    for stage in plan.stages:
        code = CodeObject(plan.code(stage))
        kernel = Kernel(code, stage["kernel"])
        if kernel.scratch_bytes:
            raise ValueError("the kernel has scratch, which all waves share in the emulator")
        if not kernel.keeps_subnormals:
            raise ValueError("the kernel flushes subnormals; the emulator is set to keep them")
        arguments = fill_arguments(stage, addresses, scalars)
        kernarg = GuardedBuffer(len(arguments))
        kernarg.bytes[:] = np.frombuffer(arguments, np.uint8)
        emulator.run_asm(
            kernel.entry,
            0,
            *stage["grid"],
            *stage["block"],
            kernarg.address,
            kernel.resources(stage["dynamic_shared_bytes"]),
            kernel.scratch_bytes,
            architecture,
            kernel.user_registers(kernarg.address),
        )


def compare(plan, buffers, scalars):
    """(largest share of the allowed error, elements beyond it)."""
    described = plan.buffers

    def values(name):
        if name not in described:
            return None
        dtype = described[name]["dtype"]
        return view(described[name], decode(dtype, buffers[name].bytes.view(storage(dtype))))

    text = dict(item.split("=") for item in plan.json["problem"].split(":"))
    terms = {name: values(name) for name in ("scale_a", "scale_b", "c", "bias")}
    a, b = values("a"), values("b")
    if described.get("scale_a", {}).get("dtype") == "e8m0":  # of groups along K
        k = a.shape[2]
        a = a * np.repeat(terms.pop("scale_a"), 32, 2)[:, :, :k]
        b = b * np.repeat(terms.pop("scale_b"), 32, 1)[:, :k]
    terms |= {name: scalars.get(name) for name in ("alpha", "beta")}
    terms["activation"] = text.get("act", "none")
    exact = described["a"]["dtype"] == "i8"
    # Matrix instructions of gfx90a flush f16's subnormals.
    smallest = 2.0**-14 if plan.json["target"] == "gfx90a" and described["a"]["dtype"] == "f16" else 0.0
    expected, error = reference(a, b, a.shape[2], exact, terms, smallest)
    result = values("d")
    allowed = error + half_unit(described["d"]["dtype"], expected)
    with np.errstate(invalid="ignore"):
        share = np.abs(result - expected) / allowed
    return float(np.max(np.where(np.isnan(share), np.inf, share))), int((~(share <= 1)).sum())


def check(emulator, folder, random):
    plan = Plan(folder)
    buffers = {name: GuardedBuffer(buffer["bytes"]) for name, buffer in plan.buffers.items()}
    for name, buffer in plan.buffers.items():
        if buffer["role"] == "input":
            raw = random_raw(buffer["dtype"], buffer["bytes"] // storage(buffer["dtype"])().itemsize, random)
            buffers[name].bytes[:] = raw.view(np.uint8)
        elif buffer.get("initial") == "zeros":
            buffers[name].bytes[:] = 0
        else:
            buffers[name].bytes[:] = 0xFF  # NaN in every type
    scalars = {name: float(np.float32(random.uniform(0.5, 1.5))) for name in plan.scalars}
    launch(emulator, plan, buffers, scalars)
    share, wrong = compare(plan, buffers, scalars)
    broken = [name for name, buffer in buffers.items() if not buffer.guards_hold()]
    return plan, share, wrong, broken


def short_recipe(plan):
    """Family, tile, instruction and knobs of the first key."""
    fields = dict(
        item.split("=", 1) for item in plan.json["recipe"].replace("@", ":").replace(" ", ":").split(":") if "=" in item
    )
    names = ("mma", "tile_m", "tile_n", "tile_k", "waves", "waves_m", "waves_n", "direct", "split_k", "workers")
    kept = [f"{name}={fields[name]}" for name in names if fields.get(name, "0") != "0"]
    return " ".join([plan.json["recipe"].split("/")[1], *kept])


def load_emulator(tinygrad):
    sys.path.insert(0, str(tinygrad))
    # The emulator compiles each kind of instruction with clang.
    if "CC" not in os.environ:
        names = ["clang", *(f"clang-{version}" for version in range(30, 13, -1))]
        os.environ["CC"] = next((name for name in names if shutil.which(name)), "clang")
    try:
        from test.mockgpu.amd import emu  # noqa: PLC0415
    except ImportError as error:
        sys.exit(f"check_export: no emulator below {tinygrad}: {error}")
    emu._get_ftz_lib = lambda: (None, 0)  # noqa: SLF001  descriptors ask for subnormals, which it would flush
    return emu


def arguments_of_call():
    parser = argparse.ArgumentParser(prog="check_export", description=__doc__)
    parser.add_argument("--tinygrad", required=True, type=pathlib.Path, help="a checkout of tinygrad (with its tests)")
    parser.add_argument("--program", default=ROOT / "build" / "bin" / "tilewright", help="tilewright (%(default)s)")
    parser.add_argument("--target", action="append", choices=tuple(problems.DTYPES), help="all five when not given")
    parser.add_argument("--count", type=int, default=12, help="problems drawn for each target (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of problems and data (the time)")
    parser.add_argument("--largest", type=int, default=160, help="M and N up to this, K up to twice (%(default)s)")
    parser.add_argument("--problem", help="this one instead of drawn ones")
    parser.add_argument("--recipe", help="and this recipe")
    return parser.parse_args()


def export(call, target, text, random, folder):
    """Ok, or why there is no plan."""
    options = ["--recipe", call.recipe] if call.recipe else []
    if not call.problem:
        options = problems.choose_kernel(random, call.program, target, text)
    command = [call.program, "export", "gemm", "--arch", target, "--problem", text, *options, "--out", folder]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return made.stderr.strip() if made.returncode else None


def run_one(call, emulator, target, number, random):
    """(problem, kernel, launches, share of the bound, verdict)."""
    text = call.problem or problems.draw(random, target, number, call.largest)
    with tempfile.TemporaryDirectory() as folder:
        refused = export(call, target, text, random, folder)
        if refused:
            return text, "-", 0, 0.0, f"not exported: {refused}"
        kernel = short_recipe(Plan(folder))
        try:
            plan, share, wrong, broken = check(emulator, folder, random)
        except (RuntimeError, ValueError, NotImplementedError, KeyError) as error:
            return text, kernel, 0, 0.0, f"not run: {error}"
    verdict = f"FAIL: {wrong} elements" if wrong else "pass"
    if broken:
        verdict = f"FAIL: writes beside {', '.join(broken)}"
    return plan.json["problem"], kernel, len(plan.stages), share, verdict


def main():
    call = arguments_of_call()
    emulator = load_emulator(call.tinygrad)
    done = collections.Counter()
    print(f"seed {call.seed}")
    print(f"{'target':7} {'problem':70} {'kernel':70} launches of bound result")
    for target in call.target or problems.DTYPES:
        supplied = Supplied(emulator, target)
        remove = supplied.install()
        for number in range(call.first, call.first + (1 if call.problem else call.count)):
            random = np.random.default_rng([call.seed, list(problems.DTYPES).index(target), number])
            text, kernel, launches, share, verdict = run_one(call, emulator, target, number, random)
            done[verdict.split(":")[0]] += 1
            print(f"{target:7} {text:70} {kernel:70} {launches:8} {share:8.3f} {verdict}", flush=True)
        remove()
        names = ", ".join(f"{name} ({count})" for name, count in sorted(supplied.counts.items())) or "nothing"
        print(f"{target:7} supplied: {names}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(done.items())))
    return 1 if done["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
