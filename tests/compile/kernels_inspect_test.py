# SPDX-License-Identifier: MIT
"""tilewright kernels inspect: what it prints of kernels for AMD and NVIDIA GPUs, none of which is here, and what it
refuses."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import ENVIRONMENT, NOT_FOUND, USAGE, class_folder, main, own_environment, run  # noqa: E402

PROBLEM = "256x256x256:bf16"
CPU_KEY = "gemm/gemm_cpu/x86-64-v3/dtype=bf16/dtype=bf16:mma=fma_avx2:tile_m=6:tile_n=16:prefetch=0"


class Inspect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = class_folder(cls)

    def run_program(self, *arguments):
        nvrtc = {"TILEWRIGHT_NVRTC": os.environ.get("TILEWRIGHT_NVRTC")}
        return run(arguments, own_environment(self.folder) | nvrtc)

    def json(self, *arguments):
        result = self.run_program(*arguments, "--json")
        missing = ("jit: no compiler", "jit: no clang for AMD GPUs", "NVRTC")
        if result.returncode != 0 and any(words in result.stderr for words in missing):
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return json.loads(result.stdout)

    def recipe(self, device):
        for choice in self.json("explain", "--device", device, "--gemm", PROBLEM)["choices"]:
            if "/gemm_amd/" in choice["recipe"]:
                return choice["recipe"]
        self.fail(f"no kernel of gemm_amd for {device}")

    def test_a_kernel_for_an_amd_gpu_and_the_same_for_another(self):
        recipe = self.recipe("emu:gfx942")
        found = self.json("kernels", "inspect", recipe)
        self.assertEqual(found["target"], "gfx942")
        self.assertEqual(found["key"], recipe.split("@")[0])
        self.assertEqual((found["wave_size"], found["vgpr_spills"], found["scratch_bytes"]), (64, 0, 0))
        self.assertGreaterEqual(found["workgroups"], 1)
        if "code_problem" in found:
            self.skipTest(found["code_problem"])
        matrix = [row for row in found["mix"] if row["class"] == "matrix"]
        self.assertTrue(matrix and all(row["name"].startswith("v_mfma_f32_") and row["cycles"] > 0 for row in matrix))
        pipes = {row["pipe"]: row["cycles"] for row in found["pipes"]}
        self.assertEqual(max(pipes.values()), pipes[found["limit"]])
        self.assertAlmostEqual(found["matrix_busy"], pipes["matrix"] / pipes[found["limit"]])
        self.assertGreater(found["matrix_busy"], 0)
        lds = sum(row["bytes"] for row in found["mix"] if row["class"] in ("lds_read", "lds_write", "direct_to_lds"))
        self.assertAlmostEqual(found["lds_bytes_per_matrix"], lds / sum(row["count"] for row in matrix))

        other = self.json("kernels", "inspect", recipe, "--target", "gfx90a", "--shared", "32768")
        self.assertEqual((other["target"], other["launch_lds_bytes"]), ("gfx90a", 32768))
        held = {row["limit"]: row["workgroups"] for row in other["occupancy"]}
        self.assertLessEqual(held["lds"], 2)
        text = self.run_program("kernels", "inspect", recipe).stdout
        self.assertRegex(text, r"(?m)^limit +\w+: \d+ cycles")
        self.assertRegex(text, r"(?m)^matrix pipe +[\d.]+ % busy")

    def test_a_kernel_for_an_nvidia_gpu(self):
        keys = [row["key"] for row in self.json("prebuild", "--gemm", PROBLEM, "--target", "sm_90a")["kernels"]]
        for key in keys:
            if key.split("/")[2] != "sm_90a":
                continue
            found = self.json("kernels", "inspect", key)
            self.assertGreater(found["registers"], 0)
            self.assertEqual((found["local_bytes"], found["spill_instructions"]), (0, 0))
            return
        self.skipTest(f"no kernel for sm_90a among {keys}")

    def test_what_has_no_gpu_code_is_refused(self):
        for key, code, words in (
            ("gemm", USAGE, "op/family/target"),
            ("gemm/gemm_amd/gfx1/dtype=bf16/x=1", NOT_FOUND, "gfx1"),
            ("gemm/no_family/gfx942/dtype=bf16/x=1", NOT_FOUND, "gemm_amd"),
            ("no_op/gemm_amd/gfx942/dtype=bf16/x=1", NOT_FOUND, "gemm"),
            ("gemm/gemm_cublaslt/sm_90a/dtype=bf16/x=1", ENVIRONMENT, "vendor"),
            (CPU_KEY, ENVIRONMENT, "CPU"),
        ):
            result = self.run_program("kernels", "inspect", key)
            self.assertIn(words, result.stderr, key)
            self.assertEqual(result.returncode, code, result.stderr)


if __name__ == "__main__":
    main()
