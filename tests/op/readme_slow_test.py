# SPDX-License-Identifier: MIT
"""Every command that README.md shows with its output runs, in a folder of its own, against this build."""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import ROOT, SANITIZERS  # noqa: E402


@unittest.skipIf(SANITIZERS, "a sanitizer's build; the commands are run against the plain one")
class Readme(unittest.TestCase):
    def test_every_command_runs(self):
        words = [sys.executable, str(ROOT / "scripts" / "readme_outputs"), "--check"]
        result = subprocess.run(words, capture_output=True, text=True)
        if result.returncode == 77:
            self.skipTest(result.stdout.strip())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
