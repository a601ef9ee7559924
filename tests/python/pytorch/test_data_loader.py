# SPDX-License-Identifier: MIT
"""Workers of torch.utils.data.DataLoader call tilewright on weights that the parent packed and used."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

DATA_LOADER = """
import sys
import torch, tilewright

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.weight = torch.eye(256) * 2
        self.packed = tilewright.pack_weights(self.weight)
    def __len__(self):
        return 6
    def __getitem__(self, index):
        x = torch.full((200, 256), float(index))
        return tilewright.gemm(x, self.packed) + tilewright.gemm(x, self.weight)

def main():
    torch.set_num_threads(2)
    rows = Rows()
    want = [rows[i] for i in range(6)]
    method, workers = sys.argv[1], int(sys.argv[2])
    loader = torch.utils.data.DataLoader(rows, None, num_workers=workers, multiprocessing_context=method)
    for found, row in zip(loader, want):
        assert torch.equal(found, row)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_of_a_data_loader(method, workers, tmp_path):
    program = pathlib.Path(tmp_path) / "loader.py"
    program.write_text(DATA_LOADER)
    done = subprocess.run(
        [sys.executable, program, method, str(workers)],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
