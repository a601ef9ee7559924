# SPDX-License-Identifier: MIT
"""gemm on NumPy arrays: every dtype, epilogue part and stride, against float64."""

import numpy as np
import pytest
import reference
import tilewright

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape, dtype=np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 33, 40), (5, 17, 3), (16, 64, 128), (70, 130, 257)])
def test_plain_product(dtype, m, n, k):
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    d = tilewright.gemm(a, b)
    assert isinstance(d, np.ndarray)
    assert d.dtype == dtype
    reference.check(d, a, b)


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b, bias = (normal(*shape).astype(ml_dtypes.bfloat16) for shape in ((9, 40), (40, 21), (21,)))
    d = tilewright.gemm(a, b, bias=bias)
    assert d.dtype == ml_dtypes.bfloat16
    reference.check(d, a, b, bias=bias)
    reference.check(tilewright.gemm(a, b, out_dtype="float32"), a, b)
    out = np.empty((9, 21), ml_dtypes.bfloat16)
    assert tilewright.gemm(a, b, out=out) is out
    reference.check(out, a, b)


@pytest.mark.parametrize("out_dtype", ["float32", "f16", np.float16, np.dtype("float32")])
def test_out_dtype_by_text_and_by_numpy_type(out_dtype):
    a, b = normal(4, 32), normal(32, 8)
    d = tilewright.gemm(a, b, out_dtype=out_dtype)
    assert d.dtype == (np.float16 if "16" in str(out_dtype) else np.float32)
    reference.check(d, a, b)


@pytest.mark.parametrize("activation", [None, "none", *reference.ACTIVATIONS, ("clamp", -0.5, 0.75)])
def test_bias_and_every_activation(activation):
    a, b, bias = normal(7, 24), normal(24, 19), normal(19)
    d = tilewright.gemm(a, b, bias=bias, activation=activation)
    reference.check(d, a, b, bias=bias, activation=activation)


def test_alpha_beta_and_c():
    a, b, c = normal(6, 20), normal(20, 11), normal(6, 11)
    options = {"alpha": 0.5, "beta": -2.0, "c": c}
    reference.check(tilewright.gemm(a, b, **options), a, b, **options)
    # beta = 0 does not read c.
    c[:] = np.nan
    reference.check(tilewright.gemm(a, b, beta=0, c=c), a, b)


def test_c_is_added_where_nobody_says_how_often():
    a, b, c = normal(6, 20), normal(20, 11), normal(6, 11)
    for options in ({}, {"beta": None}):
        reference.check(tilewright.gemm(a, b, c=c, **options), a, b, beta=1.0, c=c)


@pytest.mark.parametrize("gate", ["separated", "interleaved"])
@pytest.mark.parametrize("activation", ["silu", "gelu", None])
def test_gated_pairs(gate, activation):
    a, b, bias = normal(5, 32), normal(32, 28), normal(28)
    options = {"gate": gate, "activation": activation, "bias": bias}
    d = tilewright.gemm(a, b, **options)
    assert d.shape == (5, 14)
    reference.check(d, a, b, **options)


def test_steps_run_in_the_order_given():
    a, b, first, second = normal(5, 16), normal(16, 12), normal(5, 12), normal(12)
    for steps in (
        [("add", first), "relu", ("mul", second)],
        (("mul", second), ("add", first), ("clamp", -1.0, 1.0)),
        ["relu", "tanh", ("add", first), ("add", first), ("mul", first), "sigmoid"],
    ):
        reference.check(tilewright.gemm(a, b, steps=steps), a, b, steps=steps)


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
def test_int8_with_scales(out_dtype):
    a = RNG.integers(-128, 128, (9, 130), dtype=np.int8)
    b = RNG.integers(-128, 128, (130, 35), dtype=np.int8)
    per_token = RNG.uniform(1e-3, 2e-3, (9, 1)).astype(np.float32)
    per_channel = RNG.uniform(1e-2, 2e-2, 35).astype(np.float32)
    d = tilewright.gemm(a, b, scale_a=per_token, scale_b=per_channel, out_dtype=out_dtype)
    reference.check(d, a, b, scale_a=per_token, scale_b=per_channel)
    # A number scales the whole tensor.
    d = tilewright.gemm(a, b, scale_a=0.25, scale_b=np.float32(0.5).reshape(()))
    assert d.dtype == np.float32
    reference.check(d, a, b, scale_a=0.25, scale_b=0.5)


def test_allowing_tf32_changes_no_bit_on_a_cpu():
    a, b = normal(5, 70), normal(70, 9)
    np.testing.assert_array_equal(tilewright.gemm(a, b, allow_tf32=True), tilewright.gemm(a, b))
    assert "allow_tf32=1" in tilewright.explain(a, b, allow_tf32=True)


def test_allowing_fast_accumulation_changes_no_bit_on_a_cpu():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = normal(5, 70).astype(ml_dtypes.float8_e4m3fn), normal(9, 70).astype(ml_dtypes.float8_e4m3fn).T
    np.testing.assert_array_equal(tilewright.gemm(a, b, allow_fast_accum=True), tilewright.gemm(a, b))
    assert "allow_fast_accum=1" in tilewright.explain(a, b, allow_fast_accum=True)
    a, b = normal(5, 70), normal(70, 9)  # other types know no such thing
    assert "allow_fast_accum" not in tilewright.explain(a, b, allow_fast_accum=True).splitlines()[0]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_floats_of_ml_dtypes_with_scales(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(ml_dtypes, name)
    a, b = normal(9, 130).astype(dtype), normal(35, 130).astype(dtype).T
    per_token = RNG.uniform(0.5, 2, (9, 1)).astype(np.float32)
    per_channel = RNG.uniform(0.5, 2, 35).astype(np.float32)
    d = tilewright.gemm(a, b, scale_a=per_token, scale_b=per_channel)
    assert d.dtype == ml_dtypes.bfloat16
    reference.check(d, a, b, scale_a=per_token, scale_b=per_channel)
    d = tilewright.gemm(a, b, scale_a=0.25, out_dtype=np.float32)
    reference.check(d, a, b, scale_a=0.25)
    with pytest.raises(tilewright.InvalidArgument, match="both must have one dtype"):
        tilewright.gemm(a, normal(130, 35).astype(ml_dtypes.bfloat16))
    with pytest.raises(tilewright.InvalidArgument, match="allowed: f32, f16, bf16, i8"):
        tilewright.pack_weights(b)


@pytest.mark.parametrize("a_order", ["C", "F"])
@pytest.mark.parametrize("b_order", ["C", "F"])
@pytest.mark.parametrize("d_order", ["C", "F"])
def test_orders_of_memory(a_order, b_order, d_order):
    a = np.asarray(normal(13, 50), order=a_order)
    b = np.asarray(normal(50, 22), order=b_order)
    out = np.empty((13, 22), np.float32, order=d_order)
    assert tilewright.gemm(a, b, out=out) is out
    reference.check(out, a, b)


def test_slices_steps_and_reversed_views():
    a = normal(40, 60)[3:23:2, ::3]
    b = normal(80, 30)[10:30, ::-1]
    storage = np.full((22, 64), 7, np.float32)
    out = storage[1:21:2, 2:62:2]
    tilewright.gemm(a, b, out=out)
    reference.check(out, a, b)
    untouched = np.ones(storage.shape, bool)
    untouched[1:21:2, 2:62:2] = False
    assert (storage[untouched] == 7).all()


def test_read_only_inputs_are_fine_and_a_read_only_out_is_not():
    a, b, out = normal(3, 8), normal(8, 5), normal(3, 5)
    for array in (a, b, out):
        array.setflags(write=False)
    reference.check(tilewright.gemm(a, b), a, b)
    with pytest.raises(tilewright.InvalidArgument, match="'out' is read-only"):
        tilewright.gemm(a, b, out=out)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 4, 3), (2, 0, 3), (2, 4, 0)])
def test_empty_sizes(m, n, k):
    bias = normal(n)
    d = tilewright.gemm(normal(m, k), normal(k, n), bias=bias)
    assert d.shape == (m, n)
    np.testing.assert_array_equal(d, np.broadcast_to(bias, (m, n)))


def test_linear_takes_the_weight_transposed():
    x, weight, bias = normal(6, 30), normal(14, 30), normal(14)
    d = tilewright.linear(x, weight, bias, "relu")
    reference.check(d, x, weight.T, bias=bias, activation="relu")
    d = tilewright.linear(x[0], weight, bias=bias)
    assert d.shape == (14,)
    reference.check(d, x[0], weight.T, bias=bias)


def test_unaligned_data():
    raw = np.zeros(4 * 200 + 4, np.uint8)
    a = np.frombuffer(raw.data, np.float32, 60, offset=4).reshape(6, 10)
    a[:] = normal(6, 10)
    b = normal(11 * 10).reshape(11, 10)[1:].T
    reference.check(tilewright.gemm(a, b), a, b)


def test_memory_order_of_the_result_is_row_major():
    d = tilewright.gemm(normal(3, 4), normal(4, 5))
    assert d.flags.c_contiguous
    assert d.flags.owndata or d.base is not None


@pytest.mark.parametrize("options", [{"deterministic": True}, {"batch_invariant": True}])
def test_promised_options_repeat_bit_for_bit(options):
    a, b = normal(33, 300), normal(300, 48)
    whole = tilewright.gemm(a, b, **options)
    for units in (1, 2):
        np.testing.assert_array_equal(tilewright.gemm(a, b, units=units, **options), whole)
    if "batch_invariant" in options:
        for rows in (1, 2, 17):
            np.testing.assert_array_equal(tilewright.gemm(a[5 : 5 + rows], b, **options), whole[5 : 5 + rows])
