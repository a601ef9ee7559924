# SPDX-License-Identifier: MIT
"""bench/call_overhead.py runs and writes what docs/python.md says it does. No time is checked."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))


def test_calls_and_their_parts_are_printed_and_written(tmp_path):
    path = tmp_path / "calls.json"
    command = [sys.executable, ROOT / "bench" / "call_overhead.py", "--rounds", "1", "--json", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    cases = {row["case"] for row in document["calls"]}
    assert {"NumPy, out=", "NumPy, out=, packed weights", "NumPy, a new result"} <= cases
    assert set(document["parts"]["NumPy"]) == {"bind", "tensors", "gemm", "kernel", "interpreter"}
    if "PyTorch is not installed" not in done.stdout:
        assert {"torch, out=", "torch.ops.tilewright.gemm.out", "tilewright.torch.Linear"} <= cases
    for case in cases:
        assert case in done.stdout
