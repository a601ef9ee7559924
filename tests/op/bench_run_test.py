#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command bench and its peers: rows, columns, comparisons. Problems are tiny or few; no time is checked."""

import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import ENVIRONMENT, NOT_FOUND, OK, PROGRAM, SANITIZERS, Program, main  # noqa: E402

# The columns of every bench of the project, then the interval of the ratio.
COLUMNS = (
    "op,shape,dtype,device,threads,regime,edges,kernel,us,spread,tflops,gbps,limit_frac,peer,peer_us,ratio,rel_err,"
    "ratio_low,ratio_high"
)


class Bench(Program):
    def test_rows_have_the_columns_of_the_design(self):
        out = self.folder / "deep" / "rows.csv"
        arguments = ["bench", "--gemm", "4x64x64:f32", "--seconds", "0.05", "--peer", "none"]
        printed = self.check(OK, *arguments, "--out", str(out), "--csv")
        self.assertEqual(out.read_text(encoding="utf-8").splitlines()[0], COLUMNS)
        self.assertEqual(out.read_text(encoding="utf-8"), printed)
        row = next(csv.DictReader(io.StringIO(printed)))
        self.assertEqual((row["op"], row["dtype"], row["device"], row["edges"]), ("gemm", "f32", "cpu", "plain"))
        self.assertGreater(float(row["us"]), 0)
        self.assertGreater(float(row["limit_frac"]), 0)
        self.assertLess(float(row["rel_err"]), 1e-5)
        self.assertEqual((row["peer"], row["ratio"]), ("", ""))
        # The shape is a problem text: a row can be run again.
        self.json("explain", "--problem", row["shape"])

    def test_a_peer_is_timed_in_pairs(self):
        self.fake_torch()
        result = self.json("bench", "--gemm", "4x64x64:f32", "--peer", "torch", "--seconds", "0.05", "--threads", "1")
        row = result["rows"][0]
        self.assertEqual((row["peer"], row["threads"]), ("PyTorch 9.8.7", 1))
        self.assertGreater(row["peer_us"], 0)
        self.assertGreater(row["ratio"], 0)
        self.assertGreater(result["regimes"][0]["ratio"], 0)

    def test_a_quantised_layer_is_compared_where_torch_has_one(self):
        self.fake_torch()
        w4, w8 = "m=1:n=64:k=128:b=i4:scale_b=f16.1x128", "m=1:n=64:k=128:b=i8:scale_b=f32"
        a8w8 = "m=4:n=64:k=64:a=i8:scale_a=f32:scale_b=f32:d=bf16:packed=1"
        nobody = ["m=1:n=64:k=128:b=e2m1:scale_b=e8m0.1x32", w8.replace("f32", "f16.1x64"), w4 + ":a=f16"]
        problems = [word for text in [w4, w8, a8w8, *nobody] for word in ("--problem", text)]
        rows = self.json("bench", *problems, "--peer", "torch", "--seconds", "0.05", "--threads", "1")["rows"]
        self.assertEqual([row["peer"] for row in rows], ["PyTorch 9.8.7"] * 3 + [None] * 3)

    def test_operators_on_rows_are_compared_where_torch_is_asked_for_them(self):
        self.fake_torch()
        plain, strided = "rms_norm m=4:n=64:x=bf16:weight=bf16", "rms_norm m=4:n=64:x=bf16:sx=0.0.80"
        problems = [word for text in (plain, strided, plain + ":smooth=bf16") for word in ("--problem", text)]
        arguments = ["bench", *problems, "--peer", "torch", "--seconds", "0.05", "--threads", "1", "--json"]
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual([row["peer"] for row in json.loads(result.stdout)["rows"]], ["PyTorch 9.8.7", None, None])
        self.assertIn("rms_norm with smooth is not timed in torch", result.stderr)

    def test_a_lowered_cpu_target_holds_for_peers_too(self):
        seen = self.folder / "seen"
        names = ("ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE")
        self.fake_torch(failure=f"import os; open({str(seen)!r}, 'w').write(str([os.environ.get(n) for n in {names}]))")
        arguments = ["bench", "--gemm", "4x64x64:f32", "--peer", "torch", "--seconds", "0.05"]
        self.check(OK, *arguments, TILEWRIGHT_CPU_TARGET="x86-64-v3")
        self.assertEqual(seen.read_text(encoding="utf-8"), "['AVX2', 'Haswell']")
        # What the user set stays.
        self.check(OK, *arguments, TILEWRIGHT_CPU_TARGET="x86-64-v3", ONEDNN_MAX_CPU_ISA="SSE41")
        self.assertEqual(seen.read_text(encoding="utf-8"), "['SSE41', 'Haswell']")

    def test_a_problem_that_torch_has_not_is_timed_alone(self):
        self.fake_torch()
        row = self.json("bench", "--gemm", "4x64x64:f32:act=gelu", "--peer", "torch", "--seconds", "0.05")["rows"][0]
        self.assertIsNone(row["peer"])
        self.assertGreater(row["us"], 0)

    def test_a_peer_that_fails_costs_the_comparison_only(self):
        self.fake_torch(failure="raise RuntimeError('no such kernel')")
        result = self.run_program("bench", "--gemm", "4x64x64:f32", "--peer", "torch", "--seconds", "0.05", "--json")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn("no such kernel", result.stderr)
        self.assertIsNone(json.loads(result.stdout)["rows"][0]["peer"])

    SUITE = ("bench", "--suite", "gemm", "--seconds", "0.01", "--peer", "none", "--threads", "1")

    def test_a_suite_without_the_rows_that_are_asked_for_says_so(self):
        error = self.check(NOT_FOUND, *self.SUITE, "--only", "m=65:")
        self.assertIn("--only m=65:", error)

    @unittest.skipIf(SANITIZERS, "a sanitizer's build takes minutes over the smallest such row")
    def test_rows_of_a_suite_are_picked_and_compared_with_their_plain_product(self):
        out = self.folder / "deep" / "rows.csv"
        result = self.json(
            *self.SUITE, "--only", "m=64:n=14336:k=4096:a=bf16:layout=rcr:packed=1:bias", "--out", str(out)
        )
        # On one core and on all: --threads makes both the same.
        self.assertEqual([row["peer"] for row in result["rows"]], ["plain GEMM"] * 2)
        for row in result["rows"]:
            self.assertEqual(row["regime"], "bias+gelu over plain")
            self.assertLessEqual(row["ratio_low"], row["ratio"])
            self.assertLessEqual(row["ratio"], row["ratio_high"])
        self.assertEqual(result["regimes"][0]["rows"], 2)
        self.assertEqual(len(out.read_text(encoding="utf-8").splitlines()), 3)


class Peers(Program):
    """Libraries that may be missing: what they answer, when they are there."""

    REQUEST = (
        "m=9:n=32:k=64:dtype={0}:weight={0}:group=0:packed={1}:scaled={2}:rows=:threads={3}:rotations=2:repetitions=3"
    )

    def ask(self, kind, library, *lines):
        # Leaks of another library are not ours to find, and looking for them among its threads can crash the looker.
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
        result = subprocess.run(
            [PROGRAM, "peer-worker", kind, "--library", library],
            input="".join(line + "\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=os.environ | {"ASAN_OPTIONS": options},
        )
        if result.returncode != OK:
            self.assertEqual(result.returncode, NOT_FOUND, result.stderr)
            self.skipTest(f"{kind}: {result.stderr.strip()}")
        return result.stdout.splitlines()

    def test_openblas_multiplies_f32_only(self):
        lines = self.ask(
            "openblas",
            "libopenblas.so.0",
            "hello",
            self.REQUEST.format("f32", 0, 0, 1),
            self.REQUEST.format("f32", 0, 0, 2).replace("m=9", "m=1"),
            self.REQUEST.format("bf16", 0, 0, 1),
            "nonsense",
        )
        self.assertRegex(lines[0], r"^peer OpenBLAS \d")
        self.assertRegex(lines[1], r"^us \d")
        self.assertRegex(lines[2], r"^us \d")
        self.assertIn("'bf16', allowed: f32", lines[3])
        self.assertRegex(lines[4], r"^error ")

    def test_onednn_multiplies_packed_and_plain_at_any_number_of_threads(self):
        requests = [
            self.REQUEST.format(dtype, packed, scaled, threads)
            for dtype, scaled in [("f32", 0), ("i8", 0), ("i8", 1)]
            for packed in (0, 1)
            for threads in (1, 2)
        ]
        for library in ("libdnnl.so.2", "libdnnl.so.3"):
            with self.subTest(library=library):
                lines = self.ask("onednn", library, "hello", *requests, "m=0" + requests[0][3:])
                self.assertRegex(lines[0], r"^peer oneDNN \d")
                for request, answer in zip(requests, lines[1:]):
                    self.assertRegex(answer, r"^us \d", request)
                self.assertRegex(lines[-1], r"^error ")

    def test_a_library_that_is_none_is_not_found(self):
        for kind in ("openblas", "onednn"):
            result = self.run_program("peer-worker", kind, "--library", "/nonexistent.so")
            self.assertEqual(result.returncode, NOT_FOUND)
            self.assertIn("/nonexistent.so", result.stderr)

    def test_a_peer_that_is_asked_for_must_be_there(self):
        environment = {"TILEWRIGHT_ONEDNN": "/nonexistent.so"}
        error = self.check(ENVIRONMENT, "bench", "--gemm", "4x64x64:f32", "--peer", "onednn", **environment)
        self.assertIn("--peer onednn: oneDNN is not installed", error)


if __name__ == "__main__":
    main()
