# SPDX-License-Identifier: MIT
"""gemm on JAX arrays: immutable inputs in, a JAX array out."""

import numpy as np
import pytest
import reference
import tilewright

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy

RNG = np.random.default_rng(3)


def normal(*shape, dtype=jnp.float32):
    return jnp.asarray(RNG.standard_normal(shape).astype(np.float32), dtype=dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_the_result_is_a_jax_array_of_the_same_dtype(dtype):
    a, b, bias = normal(6, 40, dtype=dtype), normal(40, 17, dtype=dtype), normal(17, dtype=dtype)
    d = tilewright.gemm(a, b, bias=bias, activation="silu")
    assert isinstance(d, jax.Array)
    assert d.dtype == dtype
    reference.check(d, a, b, bias=bias, activation="silu")
    # It is an ordinary array: JAX computes with it.
    np.testing.assert_allclose(np.asarray(d + d, np.float32), 2 * np.asarray(d, np.float32))


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2])
def test_eight_bit_floats_give_bfloat16(dtype):
    a, b, scale_a = normal(6, 40, dtype=dtype), normal(40, 17, dtype=dtype), jnp.full((6, 1), 0.5, jnp.float32)
    d = tilewright.gemm(a, b, scale_a=scale_a)
    assert d.dtype == jnp.bfloat16
    reference.check(d, a, b, scale_a=scale_a)


def test_the_result_outlives_its_inputs():
    d = tilewright.gemm(normal(64, 64), jnp.eye(64))
    kept = np.array(d)
    for _ in range(50):
        tilewright.gemm(normal(64, 64), normal(64, 64))
    np.testing.assert_array_equal(np.asarray(d), kept)


def test_out_dtype_by_jax_type():
    a, b = normal(3, 8), normal(8, 4)
    d = tilewright.gemm(a, b, out_dtype=jnp.bfloat16)
    assert d.dtype == jnp.bfloat16
    reference.check(d, a, b)


def test_inputs_that_are_still_being_computed_are_waited_for():
    x = normal(400, 400)
    for _ in range(10):
        x = x @ x / 20
        x = x / jnp.max(jnp.abs(x))
    reference.check(tilewright.gemm(x, jnp.eye(400)), x, np.eye(400))


def test_batches():
    a, b = normal(2, 3, 5, 8), normal(2, 3, 8, 4)
    reference.check(tilewright.gemm(a, b), a, b)


def test_a_jax_array_is_no_out():
    a, b = normal(3, 8), normal(8, 4)
    with pytest.raises(tilewright.InvalidArgument, match="immutable"):
        tilewright.gemm(a, b, out=jnp.zeros((3, 4)))
    out = np.empty((3, 4), np.float32)
    assert tilewright.gemm(a, b, out=out) is out
    reference.check(out, a, b)


def test_tracing_is_refused_with_the_way_out():
    with pytest.raises(tilewright.InvalidArgument, match="traced by JAX"):
        jax.jit(lambda a, b: tilewright.gemm(a, b))(normal(3, 8), normal(8, 4))


def test_packed_weights_of_a_jax_array():
    a, b = normal(5, 24, dtype=jnp.bfloat16), normal(24, 40, dtype=jnp.bfloat16)
    reference.check(tilewright.gemm(a, tilewright.pack_weights(b)), a, b)
