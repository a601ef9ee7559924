# SPDX-License-Identifier: MIT
"""A plan of an AMD GPU, launched by examples/export_loader through HIP's functions. Behind them stands the emulation,
which takes what the host's compiler made of the same kernel: that is put in the place of the code object. Results are
right, and nothing is read that plan.json does not say to write."""

import json
import operator
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import BUILD, ROOT, SANITIZERS, class_folder, main, own_environment, run  # noqa: E402

FAKE_HIP = BUILD / "tests" / "libfake_hip.so"
LOADER = ROOT / "examples" / "export_loader" / "launch_plan.py"
M, N, K, BATCH = 17, 33, 130, 2


FORMATS = {"f32": "f", "f16": "e"}


def numbers(dtype, count, seed):
    """Such as the type holds exactly."""
    source = random.Random(seed)
    return unpack(dtype, pack(dtype, [source.uniform(-1, 1) for _ in range(count)]))


def pack(dtype, values):
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def unpack(dtype, data):
    return struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data)


@unittest.skipIf(SANITIZERS, "a sanitizer's library cannot be loaded into Python")
class HipLoader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = class_folder(cls)
        if not FAKE_HIP.exists():
            raise unittest.SkipTest("the fake HIP library is not built")
        cls.environment = own_environment(cls.folder)

    def run_program(self, *arguments):
        result = run(arguments, self.environment)
        if "needs a compiler" in result.stderr or "no clang" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def export(self, target, *arguments):
        """The plan, with emulated objects in the place of code objects."""
        folder = self.folder / f"{target}.plan"
        self.run_program("export", "gemm", "--arch", target, *arguments, "--out", folder)
        plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        emulated = ("--device", f"emu:{target}", "--problem", plan["problem"], "--recipe", plan["recipe"])
        self.run_program("verify", *emulated, "--seeds", 1)
        entries = json.loads(self.run_program("cache", "info", "--json"))["entries"]
        objects = [file for entry in entries for file in pathlib.Path(entry["path"]).glob("*.so") if entry["valid"]]
        for kernel in plan["kernels"]:
            made = [file for file in objects if kernel["symbol"].encode() in file.read_bytes()]
            self.assertEqual(len(made), 1, f"{kernel['symbol']}: {objects}")
            shutil.copy(made[0], folder / kernel["file"])
        return folder, plan

    def launch(self, target, folder, inputs):
        command = [sys.executable, LOADER, folder, "--library", FAKE_HIP, "--output", f"d={folder / 'd.bin'}"]
        for name, data in inputs.items():
            (folder / f"{name}.bin").write_bytes(data)
            command += ["--input", f"{name}={folder / name}.bin"]
        words, told = [str(word) for word in command], self.environment | {"FAKE_HIP_TARGET": target}
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=told)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return unpack("f32", (folder / "d.bin").read_bytes())

    def check(self, target, dtype, split):
        size = ("--m", M, "--n", N, "--k", K, "--batch", BATCH, "--split-k", split)
        options = ("--dtype", dtype, "--d-dtype", "f32", "--bias", "f32", "--act", "relu")
        folder, plan = self.export(target, *size, *options)
        self.assertEqual(len(plan["stages"]), 2 if split > 1 else 1)
        a, b, bias = numbers(dtype, BATCH * M * K, 1), numbers(dtype, BATCH * N * K, 2), numbers("f32", N, 3)
        inputs = {"a": pack(dtype, a), "b": pack(dtype, b), "bias": pack("f32", bias)}
        d = self.launch(target, folder, inputs)
        for row in range(BATCH * M):
            for column in range(N):
                line = (row // M * N + column) * K
                product = sum(map(operator.mul, a[row * K : row * K + K], b[line : line + K]))
                self.assertAlmostEqual(d[row * N + column], max(product + bias[column], 0), delta=1e-4)

    def test_one_stage_on_cdna(self):
        self.check("gfx942", "f32", 1)

    def test_two_stages_on_cdna(self):
        self.check("gfx942", "f32", 2)

    def test_two_stages_on_rdna(self):
        self.check("gfx1201", "f16", 2)


if __name__ == "__main__":
    main()
