# SPDX-License-Identifier: MIT
"""The Python examples run as a user runs them, each in a process of its own."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_finds_its_results_right(example, tmp_path):
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("ok\n")


def test_there_are_examples():
    assert EXAMPLES
