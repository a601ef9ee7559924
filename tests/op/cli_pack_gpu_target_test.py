# SPDX-License-Identifier: MIT
"""Packs for a GPU, made on a machine without one: prebuild compiles for the target, and a process without NVRTC finds
the kernel. The GPU is a driver that only writes down what it is asked for."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import class_folder, main, own_environment, run  # noqa: E402

PROBLEM = "64x96x128:bf16"
FAKE_DRIVER = pathlib.Path(os.environ["TILEWRIGHT_BINARY_DIR"]) / "tests" / "libfake_cuda.so"


class Packs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = class_folder(cls)
        if not FAKE_DRIVER.exists():
            raise unittest.SkipTest("the fake driver is not built")
        if "NVRTC" in cls.run_program("prebuild", "--gemm", PROBLEM, "--target", "sm_90a").stderr:
            raise unittest.SkipTest("no NVRTC")

    @classmethod
    def run_program(cls, *arguments, **environment):
        nvrtc = {"TILEWRIGHT_NVRTC": os.environ.get("TILEWRIGHT_NVRTC")}
        return run(arguments, own_environment(cls.folder) | nvrtc | environment)

    def json(self, *arguments, **environment):
        result = self.run_program(*arguments, "--json", **environment)
        self.assertEqual(result.returncode, 0, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return json.loads(result.stdout)

    def test_a_gpus_kernel_is_found_without_nvrtc(self):
        pack = self.folder / "gpu.twpack"
        built = self.json("prebuild", "--gemm", PROBLEM, "--target", "sm_90a", "--out", str(pack))
        self.assertEqual(built["failed"], 0)
        keys = [row["key"] for row in built["kernels"]]
        without = {
            "TILEWRIGHT_CUDA_DRIVER": str(FAKE_DRIVER),
            "TILEWRIGHT_NVRTC": "/nonexistent/libnvrtc.so",
            "TILEWRIGHT_CACHE_DIR": str(self.folder / "empty"),
        }
        explain = ("explain", "--device", "cuda:0", "--gemm", PROBLEM)
        self.assertFalse(self.json(*explain, **without)["choices"][0]["built"])
        best = self.json(*explain, TILEWRIGHT_PACKS=str(pack), **without)["choices"][0]
        self.assertTrue(best["built"])
        self.assertIn(best["recipe"].split("@")[0], keys)

    def test_an_amd_gpus_kernels_are_packed_without_one(self):
        pack = self.folder / "amd.twpack"
        result = self.run_program("prebuild", "--gemm", PROBLEM, "--target", "gfx942", "--out", str(pack), "--json")
        if "no clang for AMD GPUs" in result.stderr + result.stdout:
            self.skipTest("no clang for amdgcn")
        self.assertEqual(result.returncode, 0, result.stderr)
        built = json.loads(result.stdout)
        self.assertEqual(built["failed"], 0)
        self.assertTrue(pack.exists())
        self.assertTrue(any("gemm/gemm_amd/gfx942/" in row["key"] for row in built["kernels"]))

    def test_a_kernel_that_writes_nothing_does_not_pass(self):
        result = self.run_program(
            "verify", "--device", "cuda:0", "--gemm", PROBLEM, "--json", TILEWRIGHT_CUDA_DRIVER=str(FAKE_DRIVER)
        )
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertGreater(json.loads(result.stdout)["failed"], 0)

    def test_devices_are_listed_and_named(self):
        fake = {"TILEWRIGHT_CUDA_DRIVER": str(FAKE_DRIVER)}
        self.assertEqual([d["device"] for d in self.json("devices", **fake)["devices"]], ["cpu", "cuda:0", "cuda:1"])
        one = self.json("devices", "--device", "cuda:1", **fake)["devices"]
        self.assertEqual([(d["device"], d["part"], d["units"]) for d in one], [("cuda:1", "h200", 132)])
        for device in ("cuda:7", "gpu", "cuda:x"):
            self.assertNotEqual(self.run_program("devices", "--device", device, **fake).returncode, 0)


if __name__ == "__main__":
    main()
