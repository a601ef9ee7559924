# SPDX-License-Identifier: MIT
"""Every command that README.md shows with its output runs, in a folder of its own, against this build."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TILEWRIGHT_BINARY_DIR", ROOT / "build"))


class Readme(unittest.TestCase):
    def test_every_command_runs(self):
        cache = BUILD / "CMakeCache.txt"
        if cache.exists() and "TILEWRIGHT_SANITIZE:STRING=\n" not in cache.read_text(encoding="utf-8"):
            self.skipTest("a sanitizer's build; the commands are run against the plain one")
        words = [sys.executable, str(ROOT / "scripts" / "readme_outputs"), "--check"]
        result = subprocess.run(words, capture_output=True, text=True)
        if result.returncode == 77:
            self.skipTest(result.stdout.strip())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
