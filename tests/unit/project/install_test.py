# SPDX-License-Identifier: MIT
"""scripts/install does what it was asked, and nothing that it was not asked."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))


class Arguments(unittest.TestCase):
    """Of a copy in an empty folder, which shows what was made."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/install", self.root / "scripts/install")

    def install(self, *arguments):
        done = subprocess.run(
            [self.root / "scripts/install", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "NO_INSTALL": "1"},
            timeout=60,
        )
        self.assertFalse((self.root / "build").exists(), "it went on to look and to install")
        return done

    def test_help_prints_how_it_is_used_and_installs_nothing(self):
        for argument in ("--help", "-h"):
            done = self.install(argument)
            self.assertEqual(done.returncode, 0, done.stderr)
            for word in ("--lint", "--bench", "NO_TORCH=1", "NO_INSTALL=1"):
                self.assertIn(word, done.stdout)
            self.assertNotIn("#", done.stdout)
            self.assertNotIn("pipefail", done.stdout)

    def test_an_unknown_argument_is_refused_wherever_it_stands(self):
        for arguments in (("--no-torch",), ("--lint", "--benhc"), ("lint",)):
            done = self.install(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f"'{arguments[-1]}'", done.stderr)
            for allowed in ("--lint", "--bench", "--help"):
                self.assertIn(allowed, done.stderr.split("allowed:")[1])


if __name__ == "__main__":
    unittest.main()
