# SPDX-License-Identifier: MIT
"""Commands of the program that run kernels: what they print, store, resume. Problems are tiny; no time is checked."""

import json
import pathlib
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import CHECK_FAILED, ENVIRONMENT, NOT_FOUND, OK, ROOT, USAGE, Program, compiler_works, main  # noqa: E402


class Verify(Program):
    def test_every_kernel_of_a_problem_passes(self):
        result = self.json("verify", "--gemm", "5x40x70:bf16:packed", "--gemm", "9x33x65:f32", TILEWRIGHT_JIT="off")
        self.assertGreaterEqual(len(result["results"]), 4)
        for row in result["results"]:
            self.assertTrue(row["passed"], row)
            self.assertLessEqual(row["worst_ratio"], 1, row)
        self.assertEqual(result["failed"], 0)
        self.assertEqual(result["checked"], len(result["results"]))

    def test_one_recipe(self):
        recipe = self.json("explain", "--gemm", "9x33x65:f32")["choices"][-1]["recipe"]
        result = self.json("verify", "--gemm", "9x33x65:f32", "--recipe", recipe, "--seeds", "1")
        self.assertEqual([row["recipe"] for row in result["results"]], [recipe])

    def test_a_recipe_that_is_none_is_refused(self):
        self.check(USAGE, "verify", "--gemm", "9x33x65:f32", "--recipe", "fast please")


class Prebuild(Program):
    def test_kernels_are_compiled_once(self):
        arguments = ["prebuild", "--gemm", "3x64x64:f32", "--candidates", "4", "--jobs", "2"]
        if not compiler_works(self.environment):
            self.skipTest("no compiler")
        first, second = self.json(*arguments), self.json(*arguments)
        self.assertEqual(first["failed"], 0)
        self.assertEqual(second["compiled"], 0)
        self.assertEqual(second["was_built"], first["was_built"] + first["compiled"])
        info = self.json("cache", "info")
        self.assertEqual(info["count"], first["compiled"])
        self.assertEqual(self.json("cache", "verify")["damaged"], 0)

    def test_without_a_compiler_it_is_an_environment_error(self):
        result = self.json("explain", "--gemm", "3x64x64:f32", TILEWRIGHT_CXX="/nonexistent/c++")
        if all(choice["built"] for choice in result["choices"]):
            self.skipTest("every candidate is built in")
        arguments = ["prebuild", "--gemm", "3x64x64:f32", "--candidates", "0"]
        self.assertIn("compile", self.check(ENVIRONMENT, *arguments, TILEWRIGHT_CXX="/nonexistent/c++"))

    def test_a_damaged_entry_is_found(self):
        self.json("prebuild", "--gemm", "3x64x64:f32", "--candidates", "3")
        objects = sorted((self.folder / "cache").rglob("*.so"))
        if not objects:
            self.skipTest("nothing was compiled")
        objects[0].write_bytes(b"not an object")
        result = self.json("cache", "verify", code=CHECK_FAILED)
        self.assertEqual(result["damaged"], 1)
        self.assertFalse(result["entries"][0]["valid"])
        self.check(OK, "cache", "prune")
        self.assertEqual(self.json("cache", "info")["count"], 0)


class Tune(Program):
    ARGUMENTS = ["tune", "--gemm", "2x64x128:f32", "--gemm", "2x64x128:bf16:packed", "--budget", "1"]

    def test_rows_are_stored_resumed_and_reported(self):
        self.fake_torch()
        report = self.folder / "deep" / "report.html"
        first = self.run_program(*self.ARGUMENTS, "--report", str(report), "--json")
        self.assertEqual(first.returncode, OK, first.stderr)
        result = json.loads(first.stdout)
        self.assertEqual(result["report"], str(report))
        self.assertEqual([row["k"] for row in result["rows"]], [128, 128])
        for row in result["rows"]:
            self.assertGreater(row["us"], 0)
            self.assertGreater(row["untuned_gain"], 0)
            self.assertGreater(row["limit_frac"], 0)
            self.assertEqual(row["peer"], "PyTorch 9.8.7")
            self.assertLessEqual(row["ratio_low"], row["ratio"])
            self.assertLessEqual(row["ratio"], row["ratio_high"])
            self.assertLess(row["rel_err"], 1e-2)
        page = report.read_text(encoding="utf-8")
        self.assertIn("<svg", page)
        self.assertIn("PyTorch 9.8.7", page)
        self.assertNotIn("http://", page.replace("http://www.w3.org", ""))

        # The table of the user holds the rows, dispatch uses them, the registry knows them as verified.
        self.assertEqual(len(result["tables"]), 1)
        table = pathlib.Path(result["tables"][0]).read_text(encoding="utf-8")
        for row in result["rows"]:
            self.assertIn(row["recipe"], table)
        choice = self.json("explain", "--gemm", "2x64x128:f32")["choices"][0]
        self.assertEqual((choice["source"], choice["recipe"]), ("tuned", result["rows"][0]["recipe"]))
        key = choice["recipe"].split("@")[0]
        entries = self.json("kernels", "--filter", key)["entries"]
        self.assertIn("device", [entry["verification"] for entry in entries if entry["key"] == key])

        # A second run takes everything from the journal; a report needs no run.
        second = self.run_program(*self.ARGUMENTS, "--json")
        self.assertEqual(json.loads(second.stdout)["rows"], result["rows"])
        self.assertNotIn("limits of the device", second.stderr)
        again = self.folder / "again.html"
        rendered = self.json("report", "--out", str(again))
        self.assertEqual(rendered["rows"], result["rows"])
        self.assertIn("<svg", again.read_text(encoding="utf-8"))

    def test_without_pytorch_the_column_is_empty_and_one_line_says_so(self):
        result = self.run_program(*self.ARGUMENTS)
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual(result.stderr.count("PyTorch is not installed"), 1)
        self.assertRegex(result.stdout, r"PyTorch +error")
        self.assertIn("rows stored in", result.stdout)

    def test_progress_names_each_layer_once(self):
        shapes = self.folder / "shapes.csv"
        shapes.write_text(
            textwrap.dedent("""\
                model,layer,op,N,K,dtype,scheme,notes
                Toy,knee,gemm,64,64,bf16,none,tp=1
                Toy,elbow,gemm,64,128,bf16,none,tp=1
                Toy,elbow,gemm,64,128,fp8_e4m3,per_token,tp=1
                Toy,lm_head,gemm,64,64,bf16,none,tp=1
                Toy,knee,gemm,32,64,bf16,none,tp=2
            """),
            encoding="utf-8",
        )
        result = self.run_program("tune", "--shapes", str(shapes), "--tokens", "1,3", "--budget", "1", "--json")
        self.assertEqual(result.returncode, OK, result.stderr)
        rows = [(row["layer"], row["tokens"], row["n"]) for row in json.loads(result.stdout)["rows"]]
        self.assertEqual(rows, [("knee", 1, 64), ("knee", 3, 64), ("elbow", 1, 64), ("elbow", 3, 64)])
        self.assertEqual(result.stderr.count("knee, 1 token "), 1)
        self.assertIn("1 row of quantised layers left out", result.stderr)

    def test_rows_of_other_thread_counts_stand_beside_each_other(self):
        arguments = ["tune", "--gemm", "2x64x128:f32", "--budget", "1"]
        self.json(*arguments, "--threads", "1")
        self.json("report", "--threads", "1")
        if self.json("devices")["devices"][0]["units"] > 1:
            self.assertIn("nothing has been tuned", self.check(NOT_FOUND, "report"))


class Demo(unittest.TestCase):
    def test_the_script_calls_the_command_as_it_is(self):
        script = (ROOT / "scripts" / "demo").read_text(encoding="utf-8")
        for word in ["tune", "--model llama-3.1-8b", "--tokens 1,16,128", "--budget", "--report"]:
            self.assertIn(word, script)


if __name__ == "__main__":
    main()
