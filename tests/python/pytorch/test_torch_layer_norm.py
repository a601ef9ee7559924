# SPDX-License-Identifier: MIT
"""layer_norm against PyTorch's own, with residuals, quantised outputs and strided inputs."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(12)


def check(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1,), (7, 33), (2, 3, 128), (4, 1000), (0, 8)])
def test_it_is_torchs_function(dtype, shape):
    x, weight, bias = (torch.randn(s, dtype=dtype) for s in (shape, shape[-1:], shape[-1:]))
    layer_norm = torch.nn.functional.layer_norm
    check(tilewright.layer_norm(x), layer_norm(x, shape[-1:]))
    check(tilewright.layer_norm(x, weight), layer_norm(x, shape[-1:], weight))
    check(tilewright.layer_norm(x, weight, bias, 1e-3), layer_norm(x, shape[-1:], weight, bias, 1e-3))
    out = torch.empty_like(x)
    assert tilewright.layer_norm(x, weight, out=out) is out


def test_heads_inside_a_packed_tensor_are_normalised_where_they_lie():
    qkv = torch.randn(5, 12, 64) + 3
    q = qkv[:, 4:8]
    want = torch.nn.functional.layer_norm(q, (64,))
    tilewright.layer_norm(q, out=q)
    check(qkv[:, 4:8], want)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_residual_is_added_and_comes_out(dtype):
    x, residual = torch.randn(6, 256, dtype=dtype), torch.randn(6, 256, dtype=dtype)
    y, added = tilewright.layer_norm(x, residual=residual)
    assert torch.equal(added, x + residual)
    check(y, torch.nn.functional.layer_norm(x + residual, (256,)))


def test_codes_times_scales_are_the_values():
    x = torch.randn(9, 300)
    want = torch.nn.functional.layer_norm(x, (300,))
    codes, scale = tilewright.layer_norm(x, quant="row", out_dtype=torch.int8)
    assert ((codes * scale - want).abs() <= 0.5001 * scale).all()


def test_refusals_are_exceptions():
    with pytest.raises(tilewright.InvalidArgument, match="layer_norm: argument 'bias' has shape"):
        tilewright.layer_norm(torch.randn(4, 8), torch.randn(8), torch.randn(9))
