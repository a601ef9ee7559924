#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The suite of a GPU, on the driver that only writes down: no row can run there, and none is dropped silently."""

import csv
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from program import BUILD, CHECK_FAILED, OK, SANITIZERS, Program, main  # noqa: E402

DRIVER = BUILD / "tests" / "libfake_cuda.so"
ENVIRONMENT = {"TILEWRIGHT_CUDA_DRIVER": str(DRIVER)}
# NVRTC's own threads are not instrumented: ThreadSanitizer sees races in it, LeakSanitizer stumbles over it.
if "TILEWRIGHT_NVRTC" in os.environ and not SANITIZERS:
    ENVIRONMENT["TILEWRIGHT_NVRTC"] = os.environ["TILEWRIGHT_NVRTC"]


@unittest.skipUnless(DRIVER.exists(), "the fake driver is not built")
@unittest.skipIf(
    "thread" in SANITIZERS, "what ThreadSanitizer keeps of the fake GPU's memory exceeds that of a machine"
)
class GpuSuite(Program):
    def test_rows_that_cannot_run_are_listed_with_the_reason(self):
        out = self.folder / "rows.csv"
        arguments = ("bench", "--suite", "gemm", "--device", "cuda:0", "--seconds", "0.01", "--out", str(out))
        result = self.json(*arguments, "--only", "m=16:n=2112,m=16:n=7168:k=2048:a=bf16", **ENVIRONMENT)
        self.assertEqual(result["rows"], [])
        self.assertEqual(len(out.read_text(encoding="utf-8").splitlines()), 1)
        bf16 = [row for row in result["skipped"] if row["regime"] == "bf16 m=16"]
        self.assertEqual(len(bf16), 2)
        for row in result["skipped"]:
            self.assertRegex(row["shape"], r"^m=16:n=\d+:k=\d+:a=")
            self.assertTrue(row["reason"])

    def test_every_problem_of_the_suite_can_be_tuned_or_is_counted_as_left_out(self):
        arguments = ("tune", "--suite", "gemm", "--device", "cuda:0", "--dry-run", "--csv")
        result = self.run_program(*arguments, **ENVIRONMENT)
        self.assertEqual(result.returncode, OK, result.stderr)
        for dtype, rows in (("bf16", 45 + 36 + 28 + 3 + 2), ("i8", 21)):
            self.assertEqual(len(re.findall(rf"^m=\S*:a={dtype}", result.stdout, re.MULTILINE)), rows, dtype)
        left_out = re.search(r"(\d+) rows of the suite are left out", result.stderr)
        e4m3 = len(re.findall(r"^m=\S*:a=e4m3", result.stdout, re.MULTILINE))
        self.assertEqual(e4m3 + (int(left_out.group(1)) if left_out else 0), 2 * (25 + 20 + 6))

    def test_the_suite_of_quantised_products_is_another_one_on_gpus(self):
        arguments = ("tune", "--suite", "quant", "--dry-run", "--csv")
        result = self.run_program(*arguments, "--device", "cuda:0", **ENVIRONMENT)
        self.assertEqual(result.returncode, OK, result.stderr)
        scaled = re.findall(r"^m=\S*:a=e4m3\S*:scale_a=f32\.1x128\S*:scale_b=f32\.128x128", result.stdout, re.MULTILINE)
        self.assertEqual(len(scaled), 5 * (4 + 4 + 1 + 1))
        on_cpus = self.run_program(*arguments)
        self.assertEqual(on_cpus.returncode, OK, on_cpus.stderr)
        for weights in ("b=u4", "b=i4", "b=i8", "b=e2m1"):
            self.assertEqual(len(re.findall(rf"m=\d+:n=\d+:k=\d+:a=bf16:{weights}:", on_cpus.stdout)), 8, weights)

    def test_kernels_are_compiled_before_any_is_measured_and_a_gpu_that_runs_none_gets_no_row(self):
        arguments = ("tune", "--gemm", "16x256x256:bf16", "--device", "cuda", "--budget", "10")
        result = self.json(*arguments, "--table", str(self.folder / "rows.csv"), code=CHECK_FAILED, **ENVIRONMENT)
        reason = result["failures"][0]["reason"]
        if "compiling is off" in reason:
            self.skipTest("no NVRTC")
        self.assertGreater(result["compiled"], 0)
        self.assertGreater(result["compile_ahead_seconds"], 0)
        self.assertIn("launch with", reason)
        self.assertFalse((self.folder / "rows.csv").exists())


class RealGpu(Program):
    """On a GPU, where there is one."""

    def setUp(self):
        super().setUp()
        found = self.run_program("devices", "--device", "cuda")
        if found.returncode != OK:
            self.skipTest(found.stderr.strip())

    def test_a_problem_is_tuned_and_its_row_is_benched(self):
        table = self.folder / "gemm.csv"
        tuned = self.json(
            "tune", "--gemm", "16x512x512:bf16", "--device", "cuda:0", "--budget", "8", "--table", str(table)
        )
        self.assertGreater(tuned["measured"], 0)
        row = next(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
        self.assertRegex(row["power"], r"clock=\d+")
        self.assertGreater(float(row["us"]), 0)
        arguments = ("bench", "--gemm", "16x512x512:bf16", "--device", "cuda:0", "--seconds", "0.1", "--untuned")
        result = self.json(*arguments, TILEWRIGHT_TUNED=str(table))
        bench = result["rows"][0]
        self.assertEqual((bench["device"], bench["edges"]), ("cuda:0", "plain"))
        self.assertIn(bench["kernel"], (row["recipe"], row["own_recipe"]))
        self.assertGreater(bench["limit_frac"], 0)
        self.assertTrue(result["limits"])


if __name__ == "__main__":
    main()
