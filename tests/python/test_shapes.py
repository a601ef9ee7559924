# SPDX-License-Identifier: MIT
"""Leading dimensions: broadcast as in NumPy, viewed as one, never copied."""

import numpy as np
import pytest
import reference
import tilewright

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((1, 3, 4), (2, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4, 6), (6, 5)),
        ((2, 3, 4, 6), (1, 1, 6, 5)),
        ((2, 3, 4, 6), (2, 3, 6, 5)),
        ((4, 6), (2, 3, 6, 5)),
        ((1, 1, 4, 6), (2, 3, 6, 5)),
        ((2, 1, 3, 1, 4, 6), (2, 1, 3, 1, 6, 5)),
        ((1, 1, 1, 4), (1, 4, 5)),
        ((0, 3, 4, 6), (6, 5)),
        ((2, 0, 4, 6), (2, 0, 6, 5)),
        ((2, 3, 0, 6), (6, 5)),
    ],
)
def test_leading_dimensions_broadcast(a, b):
    a, b = normal(*a), normal(*b)
    reference.check(tilewright.gemm(a, b), a, b)
    shape = reference.gemm(a, b).shape
    c, bias, step = normal(*shape), normal(shape[-1]), normal(*shape[-2:])
    options = {"beta": 0.5, "c": c, "bias": bias, "steps": [("add", step), ("mul", c)]}
    reference.check(tilewright.gemm(a, b, **options), a, b, **options)


def test_scales_follow_the_leading_dimensions():
    a = RNG.integers(-20, 20, (2, 3, 4, 32), dtype=np.int8)
    b = RNG.integers(-20, 20, (32, 6), dtype=np.int8)
    for scale_a in (normal(2, 3, 4, 1), normal(4, 1), normal(2, 3, 1, 1), normal(1)):
        options = {"scale_a": scale_a, "scale_b": normal(6)}
        reference.check(tilewright.gemm(a, b, **options), a, b, **options)


def test_views_whose_leading_dimensions_are_one_in_memory():
    storage = normal(2, 3, 8, 32)
    a = storage[:, :, :4, ::2]  # leading dimensions merge, rows do not follow them
    b = normal(16, 5)
    reference.check(tilewright.gemm(a, b), a, b)
    out = np.full((2, 3, 8, 5), 9, np.float32)
    tilewright.gemm(a, b, out=out[:, :, :4])
    reference.check(out[:, :, :4], a, b)
    assert (out[:, :, 4:] == 9).all()


def test_views_whose_leading_dimensions_are_not_are_refused_not_copied():
    a = normal(3, 2, 4, 6).transpose(1, 0, 2, 3)
    with pytest.raises(tilewright.InvalidArgument, match=r"'a' has shape \[2, 3, 4, 6\].*copies no input.*contiguous"):
        tilewright.gemm(a, normal(6, 5))
    a = np.ascontiguousarray(a)
    with pytest.raises(tilewright.InvalidArgument, match="'out' has shape"):
        tilewright.gemm(a, normal(6, 5), out=np.empty((3, 2, 4, 5), np.float32).transpose(1, 0, 2, 3))
    # Broadcasting only the outer of two leading dimensions needs two strides.
    with pytest.raises(tilewright.InvalidArgument, match="'b'"):
        tilewright.gemm(a, normal(3, 6, 5))


def test_a_gate_halves_the_last_dimension_of_batches_too():
    a, b = normal(2, 3, 4, 6), normal(6, 10)
    options = {"gate": "interleaved", "activation": "silu", "steps": [("add", normal(2, 3, 4, 5))]}
    reference.check(tilewright.gemm(a, b, **options), a, b, **options)


def test_linear_over_any_rank():
    weight, bias = normal(7, 6), normal(7)
    for shape in ((6,), (4, 6), (3, 4, 6), (2, 3, 4, 6), (2, 1, 3, 4, 6)):
        x = normal(*shape)
        reference.check(tilewright.linear(x, weight, bias), x, weight.T, bias=bias)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((4,), (4, 5), "'a' has rank 1"),
        ((3, 4), (4,), "'b' has rank 1"),
        ((3, 4), (5, 6), "K = 4"),
        ((2, 3, 4), (3, 4, 5), "do not broadcast"),
        ((1,) * 7 + (3, 4), (4, 5), "ndim is 9"),
    ],
)
def test_shapes_that_do_not_fit_are_named(a, b, message):
    with pytest.raises(tilewright.InvalidArgument, match=message):
        tilewright.gemm(normal(*a), normal(*b))


@pytest.mark.parametrize("name", ["bias", "c"])
@pytest.mark.parametrize("shape", [(4,), (2, 5), (3, 3, 5), (2, 2, 3, 5)])
def test_an_operand_that_does_not_broadcast_is_named(name, shape):
    options = {name: normal(*shape), "beta": 1.0, "c": normal(3, 5)}
    options.update({name: normal(*shape)})
    with pytest.raises(tilewright.InvalidArgument, match=name):
        tilewright.gemm(normal(2, 3, 4), normal(4, 5), **options)


@pytest.mark.parametrize("shape", [(3, 4), (5, 3), (1, 3, 5), (3,)])
def test_an_out_of_another_shape_is_refused(shape):
    with pytest.raises(tilewright.InvalidArgument, match=r"'out' has shape .* expected \[3, 5\]"):
        tilewright.gemm(normal(3, 4), normal(4, 5), out=np.empty(shape, np.float32))


def test_results_are_written_into_parts_of_larger_ones():
    # q, k and v of one product, each a view of it.
    x, w = normal(5, 32), normal(8 + 4 + 4, 32)
    whole = tilewright.linear(x, w)
    for part, weight in zip(np.split(whole, [8, 12], axis=1), np.split(w, [8, 12])):
        assert part.base is not None
        reference.check(part, x, weight.T)
        reference.check(tilewright.gemm(part, normal(part.shape[1], 3) * 0), part, np.zeros((part.shape[1], 3), "f4"))

    # Heads beside what is not theirs: columns [head][s of the product | r of something else].
    m, heads, s, r, c = 5, 3, 8, 4, 32
    latent, expand = normal(m, c), normal(heads, s, c)
    keys = np.full((m, heads, s + r), 7, np.float32)
    tilewright.gemm(latent, expand.swapaxes(1, 2), out=keys.swapaxes(0, 1)[..., :s])
    for head in range(heads):
        reference.check(np.ascontiguousarray(keys[:, head, :s]), latent, expand[head].T)
    assert (keys[..., s:] == 7).all()
