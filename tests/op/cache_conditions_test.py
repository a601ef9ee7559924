# SPDX-License-Identifier: MIT
"""A kernel that must be compiled where the code cache is in trouble: right results, and one warning at most."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import class_folder, main, needs_avx2, own_environment, run  # noqa: E402

PROBLEM = "2x512x256:bf16:packed"
NOBODY = 65534


class Conditions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        needs_avx2()
        cls.folder = class_folder(cls)
        off = {"TILEWRIGHT_JIT": "off", "TILEWRIGHT_CACHE_DIR": str(cls.folder / "empty")}
        choices = json.loads(cls.run_program(["explain", "--gemm", PROBLEM, "--json"], off).stdout)["choices"]
        cls.recipe = next(choice["recipe"] for choice in choices if not choice["built"])
        if cls.verify({"TILEWRIGHT_CACHE_DIR": str(cls.folder / "warm")}).returncode != 0:
            raise unittest.SkipTest("no compiler")

    @classmethod
    def run_program(cls, arguments, environment, before=()):
        own = {"TILEWRIGHT_CPU_TARGET": "x86-64-v3", "TILEWRIGHT_LOG": "warn"}
        return run(arguments, own_environment(cls.folder) | own | environment, before)

    @classmethod
    def verify(cls, environment, before=()):
        arguments = ["verify", "--gemm", PROBLEM, "--recipe", cls.recipe, "--seeds", "1", "--json"]
        return cls.run_program(arguments, environment, before)

    def works(self, environment, warnings, before=()):
        """Returns what was warned of."""
        result = self.verify(environment, before)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(json.loads(result.stdout)["failed"], 0)
        lines = [line for line in result.stderr.splitlines() if line.startswith("tilewright warn")]
        self.assertEqual(len(lines), warnings, result.stderr)
        self.assertNotIn("tilewright error", result.stderr)
        return "".join(lines)

    def root(self, name):
        path = self.folder / name
        path.mkdir()
        path.chmod(0o700)
        return path

    def as_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root can set this up")

    def test_a_root_that_works_warns_of_nothing(self):
        self.works({"TILEWRIGHT_CACHE_DIR": str(self.folder / "fresh")}, 0)

    def test_no_home(self):
        nowhere = dict.fromkeys(["HOME", "XDG_CACHE_HOME", "TILEWRIGHT_CACHE_DIR"])
        self.assertIn("HOME", self.works(nowhere, 1))

    def test_a_root_that_others_can_write_to(self):
        root = self.root("open")
        root.chmod(0o777)
        self.assertIn("others may write", self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 1))
        self.assertEqual(list(root.iterdir()), [])

    def test_a_folder_below_the_root_that_others_can_write_to(self):
        root = self.root("inner")
        (root / "abi1").mkdir()
        (root / "abi1").chmod(0o777)
        self.assertIn("others may write", self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 1))

    def test_a_root_of_another_user(self):
        self.as_root()
        root = self.root("foreign")
        os.chown(root, NOBODY, NOBODY)
        self.assertIn("belongs to user", self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 1))

    def test_a_root_that_is_a_file(self):
        path = self.folder / "file"
        path.write_text("", encoding="utf-8")
        self.works({"TILEWRIGHT_CACHE_DIR": str(path)}, 1)

    def mounted(self, root, options):
        """A command before the program: in a mount namespace of its own, `root` is a file system with these options."""
        self.as_root()
        if shutil.which("unshare") is None:
            self.skipTest("unshare not found")
        script = f'mount -t tmpfs -o {options} none "{root}" || exit 77; shift 0; exec "$@"'
        before = ["unshare", "-m", "sh", "-c", script, "sh"]
        if subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this system does not let tests mount")
        return before

    def test_a_full_disk(self):
        root = self.root("full")
        before = self.mounted(root, "size=16k,mode=0700")
        self.assertIn("takes no new entries", self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 1, before))

    def test_a_read_only_root(self):
        root = self.root("readonly")
        before = self.mounted(root, "ro,mode=0700")
        self.assertIn("read only", self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 1, before))

    def test_a_damaged_entry(self):
        root = self.folder / "damaged"
        shutil.copytree(self.folder / "warm", root)
        root.chmod(0o700)
        binary = next(root.rglob("instance.so"))
        binary.write_bytes(binary.read_bytes()[:-100])
        self.assertIn("counts as a miss", self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 1))
        self.works({"TILEWRIGHT_CACHE_DIR": str(root)}, 0)

    def test_a_compiler_that_is_gone(self):
        for jit in ("off", "on"):
            gone = {"TILEWRIGHT_CXX": "/nowhere/c++", "TILEWRIGHT_JIT": jit}
            self.works({"TILEWRIGHT_CACHE_DIR": str(self.folder / "warm")} | gone, 0)

    def test_times_in_the_future(self):
        root = self.folder / "future"
        shutil.copytree(self.folder / "warm", root)
        root.chmod(0o700)
        for path in root.rglob("*"):
            os.utime(path, (4e9, 4e9))
        self.works({"TILEWRIGHT_CACHE_DIR": str(root), "TILEWRIGHT_JIT": "off"}, 0)


if __name__ == "__main__":
    main()
