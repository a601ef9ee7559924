# SPDX-License-Identifier: MIT
"""Weights packed once, stored in a file, mapped back, and used for every batch size."""

import mmap
import pathlib
import tempfile

import numpy as np
import tilewright

rng = np.random.default_rng(0)
weight = rng.integers(-127, 128, (48, 128), dtype=np.int8)  # [N, K]
weight_scale = rng.uniform(0.01, 0.02, 48).astype(np.float32)

packed = tilewright.pack_weights(weight, layout="nk")
print(packed, f"{packed.nbytes} bytes")

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "weight.bin"
    path.write_bytes(packed.to_bytes())
    with path.open("rb") as file:
        mapped = tilewright.PackedWeights.from_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

for tokens in (1, 16, 33):
    x = rng.integers(-127, 128, (tokens, 128), dtype=np.int8)
    x_scale = rng.uniform(0.01, 0.02, (tokens, 1)).astype(np.float32)
    y = tilewright.linear(x, mapped, scale_a=x_scale, scale_b=weight_scale)
    want = x_scale.astype(np.float64) * weight_scale * (x.astype(np.float64) @ weight.T)
    error = np.abs(y - want).max() / np.abs(want).max()
    print(f"M = {tokens}: relative error {error:.1e}")
    assert error < 1e-6, error

print("ok")
