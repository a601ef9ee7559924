# SPDX-License-Identifier: MIT
"""grouped_gemm on NumPy arrays and PyTorch tensors, against a product of each group."""

import numpy as np
import pytest
import tilewright

RNG = np.random.default_rng(11)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def i32(*numbers):
    return np.array(numbers, np.int32)


def test_groups_one_after_another():
    a, b = normal(10, 16), normal(3, 16, 7)
    expected = np.concatenate([a[:4] @ b[0], a[4:4] @ b[1], a[4:9] @ b[2]])
    for groups in ({"sizes": i32(4, 0, 5)}, {"offsets": i32(0, 4, 4, 9)}, {"offsets": i32(4, 4, 9)}):
        out = np.full((10, 7), -7, np.float32)
        assert tilewright.grouped_gemm(a, b, out=out, **groups) is out
        np.testing.assert_allclose(out[:9], expected, rtol=1e-5, atol=1e-5)
        assert (out[9] == -7).all()
    d = tilewright.grouped_gemm(a, b, sizes=i32(4, 0, 5), bias=normal(3, 7), activation="relu")
    assert d.shape == (10, 7) and (d[:9] >= 0).all()


def test_aligned_groups_and_status():
    a, b, status = normal(8, 16), normal(2, 16, 7), np.zeros(1, np.int32)
    out = np.full((8, 7), -7, np.float32)
    tilewright.grouped_gemm(a, b, sizes=i32(3, 9), alignment=4, status=status, out=out)
    np.testing.assert_allclose(out[4:], a[4:] @ b[1], rtol=1e-5, atol=1e-5)
    assert (out[3] == -7).all() and status[0] == 1


def test_masked_groups():
    a, b, status = normal(3, 5, 16), normal(3, 7, 16), np.zeros(1, np.int32)
    d = tilewright.grouped_gemm(a, b.transpose(0, 2, 1), mode="masked", sizes=i32(5, 0, 2), status=status)
    assert d.shape == (3, 5, 7) and status[0] == 0
    np.testing.assert_allclose(d[0], a[0] @ b[0].T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(d[2, :2], a[2, :2] @ b[2].T, rtol=1e-5, atol=1e-5)


def test_packed_weights_of_every_group():
    a, b = normal(10, 16), normal(3, 16, 7)
    packed = tilewright.pack_weights(b)
    assert packed.batch == 3
    d = tilewright.grouped_gemm(a, packed, sizes=i32(4, 0, 6))
    np.testing.assert_allclose(d, np.concatenate([a[:4] @ b[0], a[4:] @ b[2]]), rtol=1e-5, atol=1e-5)


def test_weight_gradients():
    x, dy = normal(9, 6), normal(9, 7)
    d = tilewright.grouped_gemm(x.T, dy, mode="ragged_k", sizes=i32(2, 0, 7))
    np.testing.assert_allclose(
        d, np.stack([x[:2].T @ dy[:2], np.zeros((6, 7)), x[2:].T @ dy[2:]]), rtol=1e-5, atol=1e-5
    )


def test_indices_of_rows():
    a, b, rows = normal(6, 16), normal(2, 16, 7), i32(5, 1, 0, 3)
    d = tilewright.grouped_gemm(a, b, sizes=i32(1, 3), gather=rows)
    expected = np.stack([a[5] @ b[0], a[1] @ b[1], a[0] @ b[1], a[3] @ b[1]])
    np.testing.assert_allclose(d, expected, rtol=1e-5, atol=1e-5)
    out = np.ones((6, 7), np.float32)
    tilewright.grouped_gemm(a, b, sizes=i32(1, 3), gather=rows, scatter=rows, c=out, beta=1.0, out=out)
    np.testing.assert_allclose(out[rows], expected + 1, rtol=1e-5, atol=1e-5)
    assert (out[[2, 4]] == 1).all()


def test_refusals_are_invalid_arguments():
    a, b = normal(4, 16), normal(2, 16, 7)
    for arguments, message in (
        ({}, "argument 'sizes' is missing"),
        ({"sizes": i32(1, 2, 3)}, r"argument 'sizes' has shape \[3\], expected \[2\]"),
        ({"sizes": i32(1, 2), "mode": "sparse"}, "argument 'mode' is 'sparse'"),
        ({"sizes": i32(1, 2), "scatter": i32(0, 1, 2, 3)}, "argument 'out' is missing"),
        ({"sizes": i32(1, 2), "mode": "masked"}, "argument 'a' has rank 2, allowed in mode masked: 3"),
    ):
        with pytest.raises(tilewright.InvalidArgument, match=message):
            tilewright.grouped_gemm(a, b, **arguments)


def test_torch_tensors_as_torch_has_them():
    torch = pytest.importorskip("torch")
    a = torch.randn(12, 32, dtype=torch.bfloat16)
    weight = torch.randn(3, 16, 32, dtype=torch.bfloat16)
    offs = torch.tensor([5, 5, 12], dtype=torch.int32)
    d = tilewright.grouped_gemm(a, weight.transpose(1, 2), offsets=offs)
    assert d.dtype == torch.bfloat16 and d.shape == (12, 16)
    expected = torch.cat([a[:5].float() @ weight[0].T.float(), a[5:].float() @ weight[2].T.float()])
    torch.testing.assert_close(d.float(), expected, rtol=2e-2, atol=2e-2)
