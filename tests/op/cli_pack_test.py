# SPDX-License-Identifier: MIT
"""Packs from end to end: prebuild writes one, and a process without a compiler, without a cache folder and with
compiling off chooses the pack's kernel and computes right results with it."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import class_folder, compiler_works, main, needs_avx2, own_environment, run  # noqa: E402

# AVX2 code runs on every machine that runs these tests, and its best kernel for two rows is never linked in.
PROBLEM = "2x4096x512:bf16:packed"
AVX2 = {"TILEWRIGHT_CPU_TARGET": "x86-64-v3"}
NO_COMPILER = {"TILEWRIGHT_CXX": "/nonexistent/c++", "TILEWRIGHT_JIT": "off", **AVX2}


class Packs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        needs_avx2()
        cls.folder = class_folder(cls)
        if not compiler_works(own_environment(cls.folder)):
            raise unittest.SkipTest("no compiler")
        cls.pack = cls.folder / "a.twpack"
        cls.built = cls.json("prebuild", "--gemm", PROBLEM, "--target", "x86-64-v3", "--out", cls.pack, **AVX2)

    @classmethod
    def run_program(cls, *arguments, **environment):
        return run(arguments, own_environment(cls.folder) | environment)

    @classmethod
    def json(cls, *arguments, **environment):
        result = cls.run_program(*arguments, "--json", **environment)
        if result.returncode != 0:
            raise AssertionError(f"{arguments}\n{result.stdout}\n{result.stderr}")
        return json.loads(result.stdout)

    def test_the_pack_holds_what_was_compiled(self):
        self.assertEqual(self.built["failed"], 0)
        self.assertGreaterEqual(self.built["compiled"], 1)
        self.assertEqual(self.built["packs"][0]["entries"], self.built["compiled"])

    def test_the_kernel_of_the_pack_is_chosen_and_right_without_a_compiler(self):
        keys = [row["key"] for row in self.built["kernels"]]
        where = {**NO_COMPILER, "TILEWRIGHT_CACHE_DIR": str(self.folder / "empty")}
        without = self.json("explain", "--gemm", PROBLEM, **where)["choices"]
        self.assertFalse(any(choice["built"] for choice in without if choice["recipe"].split("@")[0] in keys))
        where["TILEWRIGHT_PACKS"] = str(self.pack)
        best = self.json("explain", "--gemm", PROBLEM, **where)["choices"][0]
        self.assertIn(best["recipe"].split("@")[0], keys)
        self.assertTrue(best["built"])
        verified = self.json("verify", "--gemm", PROBLEM, "--recipe", best["recipe"], **where)
        self.assertEqual((verified["failed"], verified["checked"]), (0, 1))
        # Found by its folder too.
        where["TILEWRIGHT_PACKS"] = str(self.folder)
        self.assertTrue(self.json("explain", "--gemm", PROBLEM, **where)["choices"][0]["built"])

    def test_a_damaged_pack_is_a_miss_with_one_warning(self):
        damaged = self.folder / "damaged"
        damaged.mkdir()
        data = bytearray(self.pack.read_bytes())
        data[-1000] ^= 1
        (damaged / "a.twpack").write_bytes(data)
        where = {**NO_COMPILER, "TILEWRIGHT_CACHE_DIR": str(self.folder / "empty"), "TILEWRIGHT_LOG": "warn"}
        where["TILEWRIGHT_PACKS"] = str(damaged)
        result = self.run_program("explain", "--gemm", PROBLEM, "--json", **where)
        self.assertEqual(result.returncode, 0, result.stderr)
        keys = [row["key"] for row in self.built["kernels"]]
        for choice in json.loads(result.stdout)["choices"]:
            self.assertFalse(choice["built"] and choice["recipe"].split("@")[0] in keys)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        self.assertIn("a.twpack", result.stderr)

    def test_a_folder_gets_one_pack_a_target(self):
        out = self.folder / "targets"
        targets = ["x86-64-v3", "x86-64-v4"]
        self.json("prebuild", "--gemm", PROBLEM, "--target", ",".join(targets), "--out", f"{out}/", **AVX2)
        for path in out.glob("*.twpack"):
            self.assertIn(path.stem, targets)
        self.assertTrue((out / "x86-64-v3.twpack").is_file())

    def test_a_kernel_that_fails_leaves_no_pack(self):
        out = self.folder / "none.twpack"
        where = {**NO_COMPILER, "TILEWRIGHT_CACHE_DIR": str(self.folder / "empty")}
        result = self.run_program("prebuild", "--gemm", PROBLEM, "--target", "x86-64-v3", "--out", out, **where)
        self.assertNotEqual(result.returncode, 0)
        self.assertFalse(out.exists())

    def test_profiles_are_refused_by_name(self):
        result = self.run_program("prebuild", "--profile", "everything")
        self.assertEqual(result.returncode, 2)
        for name in ("none", "inference", "training", "all"):
            self.assertIn(name, result.stderr)
        self.assertIn("x86-64-v3", self.run_program("prebuild", "--profile", "all", "--target", "z80").stderr)

    def test_tuned_rows_of_a_file_are_built(self):
        key = self.built["kernels"][0]["key"]
        header = (
            "op,target,part,units,core,epilogue,sizes,bucket,recipe,us,spread,untuned_us,gflops,rel_error,samples,"
            "library,compiler,driver,date"
        )
        row = f"gemm,x86-64-v3,zen3,8,c,none,m=1,m<=1,{key},1,0,1,1,0,9,0.1,gcc,-,2026-01-01"
        table = self.folder / "table.csv"
        table.write_text(f"{header}\n{row}\n", encoding="utf-8")
        out = self.folder / "table.twpack"
        built = self.json("prebuild", "--table", table, "--target", "x86-64-v3", "--out", out, **AVX2)
        self.assertEqual([line["key"] for line in built["kernels"]], [key])


if __name__ == "__main__":
    main()
