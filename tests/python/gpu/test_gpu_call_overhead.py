# SPDX-License-Identifier: MIT
"""bench/cuda/cuda_call_overhead.py runs and writes what docs/python.md says it does. No time is checked."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch not found")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device for PyTorch", allow_module_level=True)

ROOT = pathlib.Path(os.environ.get("TILEWRIGHT_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))


def test_calls_are_printed_and_written_beside_the_bare_launch(tmp_path):
    path = tmp_path / "calls.json"
    command = [sys.executable, ROOT / "bench" / "cuda" / "cuda_call_overhead.py", "16", "64", "128", "--rounds", "2"]
    done = subprocess.run([*command, "--json", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    assert (document["m"], document["n"], document["k"]) == (16, 64, 128)
    rows = {row["case"]: row for row in document["calls"]}
    assert rows.pop("bare launch, torch.cuda._sleep(0)")["above_us"] == 0
    assert {"tilewright.gemm(a, b, out=out)", "torch.mm(a, b, out=out)"} <= set(rows)
    for case, row in rows.items():
        assert case in done.stdout and row["us"] > 0
