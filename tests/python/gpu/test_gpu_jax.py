# SPDX-License-Identifier: MIT
"""gemm of JAX arrays on a GPU: taken and given back through DLPack."""

import os

import numpy as np
import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other tests want memory too
jax = pytest.importorskip("jax", reason="JAX is not installed")
try:
    GPUS = jax.devices("cuda")
except RuntimeError:
    pytest.skip("no CUDA device for JAX", allow_module_level=True)

import tilewright  # noqa: E402

jnp = jax.numpy
RNG = np.random.default_rng(5)


def normal(*shape, dtype=jnp.bfloat16, device=GPUS[0]):
    return jax.device_put(jnp.asarray(RNG.standard_normal(shape).astype(np.float32), dtype=dtype), device)


def check(d, a, b):
    expected = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    error = np.abs(np.asarray(d, np.float64) - expected).max() / np.abs(expected).max()
    assert error < 1e-2, error


@pytest.mark.parametrize("device", GPUS, ids=str)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_the_result_is_a_jax_array_on_the_same_gpu(dtype, device):
    a, b = normal(40, 64, dtype=dtype, device=device), normal(64, 72, dtype=dtype, device=device)
    d = tilewright.gemm(a, b)
    assert isinstance(d, jax.Array) and d.dtype == dtype and d.devices() == {device}
    check(d, a, b)
    # It is an ordinary array: JAX computes with it at once.
    np.testing.assert_array_equal(np.asarray(d + d, np.float32), 2 * np.asarray(d, np.float32))


def test_inputs_that_are_still_being_computed_are_waited_for():
    x = normal(1024, 1024, dtype=jnp.float32)
    for _ in range(20):
        x = x @ x / 32
        x = x / jnp.max(jnp.abs(x))
    check(tilewright.gemm(x, jnp.eye(1024)), x, np.eye(1024))


def test_results_stay_as_they_are():
    a, b = normal(64, 64), normal(64, 64)
    first = tilewright.gemm(a, b)
    kept = np.array(first, np.float32)
    for _ in range(20):
        tilewright.gemm(normal(64, 64), b)
        jnp.zeros((64, 64), jnp.bfloat16).block_until_ready()
    np.testing.assert_array_equal(np.asarray(first, np.float32), kept)


def test_a_jax_array_of_a_gpu_is_no_out():
    a, b = normal(3, 8), normal(8, 16)
    with pytest.raises(tilewright.InvalidArgument, match="immutable"):
        tilewright.gemm(a, b, out=jnp.zeros((3, 16), jnp.bfloat16))


def test_arrays_of_two_devices_are_refused_with_both():
    cpu = jax.device_put(normal(8, 16), jax.devices("cpu")[0])
    with pytest.raises(tilewright.InvalidArgument, match="cuda:0.*cpu|cpu.*cuda:0"):
        tilewright.gemm(normal(3, 8), cpu)
