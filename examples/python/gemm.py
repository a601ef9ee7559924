# SPDX-License-Identifier: MIT
"""gelu(x @ weight.T + bias) on NumPy arrays, and on PyTorch tensors and JAX arrays where they are installed."""

import math
from typing import Any

import numpy as np
import tilewright

rng = np.random.default_rng(0)
x = rng.standard_normal((4, 64), dtype=np.float32)
weight = rng.standard_normal((32, 64), dtype=np.float32)
bias = rng.standard_normal(32, dtype=np.float32)

y = x.astype(np.float64) @ weight.T + bias
want = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))


def check(name: str, got: Any) -> None:
    error = np.abs(np.asarray(got, dtype=np.float64) - want).max()
    print(f"{name}: {type(got).__module__}.{type(got).__name__} {tuple(got.shape)}, largest error {error:.1e}")
    assert error < 1e-4, error


check("NumPy", tilewright.linear(x, weight, bias, "gelu"))

# The same as gemm: b is [K, N], here a view of the weight; `out` is written in place.
out = np.empty((4, 32), np.float32)
tilewright.gemm(x, weight.T, bias=bias, activation="gelu", out=out)
check("out=", out)

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
else:
    check("PyTorch", tilewright.linear(torch.from_numpy(x), torch.from_numpy(weight), torch.from_numpy(bias), "gelu"))

try:
    import jax.numpy as jnp
except ImportError:
    print("JAX is not installed")
else:
    check("JAX", tilewright.linear(jnp.asarray(x), jnp.asarray(weight), jnp.asarray(bias), "gelu"))

print("ok")
