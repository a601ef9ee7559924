# SPDX-License-Identifier: MIT
"""examples/export_loader against tilewright itself: what it launches from a plan.json is, byte for byte, what a call of
the same recipe launches. The GPU is a driver that only writes down what it is asked for."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import BUILD, ROOT, SANITIZERS, class_folder, main, own_environment, run  # noqa: E402

sys.path.insert(0, str(ROOT / "examples" / "export_loader"))
from plan import Plan, fill_arguments  # noqa: E402

FAKE_DRIVER = BUILD / "tests" / "libfake_cuda.so"
LOADER = ROOT / "examples" / "export_loader" / "launch_plan.py"
# What verify's calls have where the problem has the scalar at all.
SCALARS = {"alpha": 0.75, "beta": -1.25, "low": -0.5, "high": 0.75}


@unittest.skipIf(SANITIZERS, "a sanitizer's library cannot be loaded into Python")
class Loader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = class_folder(cls)
        if not FAKE_DRIVER.exists():
            raise unittest.SkipTest("the fake driver is not built")
        cls.environment = own_environment(cls.folder) | {"TILEWRIGHT_NVRTC": os.environ.get("TILEWRIGHT_NVRTC")}

    def export(self, name, *arguments):
        folder = self.folder / name
        target = ("--arch", "sm_90a", "--part", "h200")
        result = run(["export", "gemm", *target, *arguments, "--out", folder], self.environment)
        if "needs a compiler" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        return Plan(folder)

    def traced(self, name, plan):
        """The environment of a program whose launches of the plan's kernel are written down, and the file."""
        stage = plan.stages[0]
        self.assertEqual({s["kernel"] for s in plan.stages}, {stage["kernel"]})
        trace = self.folder / f"{name}.trace"
        return trace, {
            "FAKE_CUDA_TRACE": str(trace),
            "FAKE_CUDA_KERNEL": f"{stage['kernel']}={stage['arguments']['bytes']}",
        }

    @staticmethod
    def lines(trace, kind):
        return [json.loads(line)[kind] for line in trace.read_text().splitlines() if kind in json.loads(line)]

    def launched_by_tilewright(self, name, plan):
        """Of a call of the same problem with the same recipe."""
        trace, settings = self.traced(f"{name}.tilewright", plan)
        call = ("--problem", plan.json["problem"], "--recipe", plan.json["recipe"], "--seeds", 1)
        on_fake = self.environment | settings | {"TILEWRIGHT_CUDA_DRIVER": str(FAKE_DRIVER)}
        result = run(["verify", "--device", "cuda:0", *call], on_fake)
        self.assertEqual(result.returncode, 1, result.stderr)  # kernels do nothing: their results are wrong
        sizes = [self.value(plan, size) for size in ("m", "n", "k", "batch")]
        launches = [
            launch
            for launch in self.lines(trace, "launch")
            if [self.read(plan, launch, size, "<q") for size in ("m", "n", "k", "batch")] == sizes
        ]
        return launches, self.lines(trace, "map")

    def launched_by_the_loader(self, name, plan):
        trace, settings = self.traced(f"{name}.loader", plan)
        command = [sys.executable, str(LOADER), str(plan.folder), "--library", str(FAKE_DRIVER)]
        for scalar in plan.scalars:
            command += ["--scalar", f"{scalar}={self.scalar(scalar)}"]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, env=dict(os.environ) | settings
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.endswith("ok\n"))
        return self.lines(trace, "launch"), self.lines(trace, "map")

    @staticmethod
    def scalar(name):
        return SCALARS[name.split("_")[-1]]

    @staticmethod
    def field(plan, name):
        fields = plan.stages[0]["arguments"]["fields"]
        return next(field for field in fields if field["name"].removeprefix("gemm.") == name)

    def value(self, plan, name):
        return self.field(plan, name)["value"]

    def read(self, plan, launch, name, form):
        return struct.unpack_from(form, bytes.fromhex(launch["args"]), self.field(plan, name)["offset"])[0]

    def addresses(self, plan, launches):
        """Where a program put its buffers: each has one address, and no two have the same."""
        found = {}
        for stage, launch in zip(plan.stages, launches):
            data = bytes.fromhex(launch["args"])
            for field in stage["arguments"]["fields"]:
                name = field.get("buffer") or field.get("tensor_map", {}).get("buffer")
                if name:
                    address = struct.unpack_from("<Q", data, field["offset"])[0] - field.get("add", 0)
                    self.assertEqual(found.setdefault(name, address), address, field)
                    self.assertNotEqual(address, 0, field)
        self.assertEqual(len(set(found.values())), len(found), found)
        self.assertEqual(set(found), set(plan.buffers))
        return found

    @staticmethod
    def fake_map(tensor_map, address):
        """As the fake driver makes them."""
        del tensor_map
        return struct.pack("<Q", address) + b"\x5a" * 120

    def compare(self, name, *arguments):
        plan = self.export(name, *arguments)
        scalars = {scalar: self.scalar(scalar) for scalar in plan.scalars}
        own, own_maps = self.launched_by_tilewright(name, plan)
        self.assertGreaterEqual(len(own), len(plan.stages))
        others, maps = self.launched_by_the_loader(name, plan)
        self.assertEqual(len(others), len(plan.stages))
        for launches in (own[: len(plan.stages)], others):
            addresses = self.addresses(plan, launches)
            for stage, launch in zip(plan.stages, launches):
                for ours, theirs in (
                    ("grid", "grid"),
                    ("block", "block"),
                    ("cluster", "cluster"),
                    ("dynamic_shared_bytes", "shared_bytes"),
                ):
                    self.assertEqual(stage[ours], launch[theirs])
                filled = fill_arguments(stage, addresses, scalars, self.fake_map)
                self.assertEqual(filled.hex(), launch["args"])
        for made in maps:
            self.assertIn(made, own_maps)
        return plan

    def test_tensor_maps_and_clusters(self):
        plan = self.compare("sm90", "--m", 512, "--n", 768, "--k", 256, "--batch", 2)
        self.assertIn("/gemm_sm90/", plan.json["recipe"])
        self.assertTrue(any("tensor_map" in field for field in plan.stages[0]["arguments"]["fields"]))

    def test_parts_that_meet_in_the_workspace_and_at_zeros(self):
        plan = self.compare("split", "--m", 512, "--n", 768, "--k", 8192, "--split-k", 4, "--scale-a", "per-token")
        self.assertEqual(plan.buffers["zeros"]["initial"], "zeros")

    # verify begins with smaller problems, and a kernel that does nothing ends it there: these are the first of them.
    def test_two_stages_with_bias_and_activation(self):
        size = ("--m", 33, "--n", 97, "--k", 259, "--split-k", 2)
        plan = self.compare("portable", *size, "--bias", "bf16", "--act", "silu")
        self.assertIn("/gemm_portable/", plan.json["recipe"])
        self.assertEqual(len(plan.stages), 2)

    def test_scalars_and_steps_of_the_generic_kernel(self):
        text = "m=5:n=97:k=259:a=f16:layout=crr:c=bf16:bias=f32:alpha=1:act=clamp:steps=mul.f32+act.clamp"
        generic = "gemm/gemm_generic_gpu/sm_90a/any/run_time=1"
        plan = self.compare("generic", "--problem", text, "--recipe", generic)
        self.assertEqual(plan.scalars, ["alpha", "beta", "low", "high", "step1_low", "step1_high"])

    def test_what_is_missing_or_too_short_is_said(self):
        plan = self.export("short", "--problem", "m=4:n=4:k=16:a=f32:alpha=1")
        command = [sys.executable, str(LOADER), str(plan.folder), "--library", str(FAKE_DRIVER)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("scalars are missing: alpha", result.stderr)
        (self.folder / "a.bin").write_bytes(b"12")
        command += ["--scalar", "alpha=1", "--input", f"a={self.folder / 'a.bin'}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        self.assertIn("a: 2 bytes, the plan wants 256", result.stderr)


if __name__ == "__main__":
    main()
