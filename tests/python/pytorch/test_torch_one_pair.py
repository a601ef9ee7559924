# SPDX-License-Identifier: MIT
"""Rows of one byte, which holds two values of 4 bits: both dimensions have stride 1."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tt = pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
import tilewright  # noqa: E402

FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)
pytestmark = pytest.mark.skipif(FLOAT4 is None, reason="this PyTorch has no float4_e2m1fn_x2")
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def codes(*shape):
    return torch.arange(3, 3 + 41 * torch.Size(shape).numel(), 41).to(torch.uint8).reshape(shape)


def floats(t):
    """Of bytes [M, 1] the [M, 2] values."""
    return VALUES[torch.cat([t & 15, t >> 4], -1).long()]


@pytest.mark.parametrize("module", [tilewright, tt], ids=["tilewright", "torch"])
def test_linear_takes_pairs_along_k(module):
    x, w = codes(5, 1), codes(7, 1)
    wanted = floats(x) @ floats(w).T
    torch.testing.assert_close(module.linear(x.view(FLOAT4), w.view(FLOAT4)).float(), wanted, rtol=1e-2, atol=1e-2)
    integers = (torch.cat([w & 15, w >> 4], -1)).float()
    rows = torch.randn(5, 2).bfloat16()
    y = module.linear(rows, w, b_dtype="u4")
    torch.testing.assert_close(y.float(), rows.float() @ integers.T, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("module", [tilewright, tt], ids=["tilewright", "torch"])
def test_gemm_takes_pairs_of_b_along_the_dimension_that_agrees_with_k(module):
    w = codes(6, 1)
    a = torch.randn(5, 2).bfloat16()
    along_k = module.gemm(a, w.T, b_dtype="u4")
    integers = torch.cat([w & 15, w >> 4], -1).float()
    torch.testing.assert_close(along_k.float(), a.float() @ integers.T, rtol=2e-2, atol=2e-2)
    wide = torch.randn(5, 6).bfloat16()
    along_n = module.gemm(wide, w, b_dtype="u4")
    torch.testing.assert_close(along_n.float(), wide.float() @ integers, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("quant", ["row", "group"])
def test_rows_of_two_are_quantised_and_come_back(quant):
    x = torch.tensor([[6.0, -3], [1, 0.5], [-6, 6], [4, 2], [0.25, 1.5]])
    quantised, scale = tilewright.quantize(x, quant, out_dtype="e2m1")
    assert quantised.shape == (5, 1) and scale.shape == (5, 1)
    back = tilewright.dequantize(quantised, scale, quant)
    torch.testing.assert_close(back, x, rtol=0.3, atol=0)
    torch.testing.assert_close(back, floats(quantised.view(torch.uint8)) * scale)


def test_a_fake_product_has_the_shape_of_the_true_one():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, w = codes(4, 1).view(FLOAT4), codes(5, 1).view(FLOAT4)
    with FakeTensorMode() as mode:
        fake = tt.linear(mode.from_tensor(x), mode.from_tensor(w))
    assert fake.shape == tt.linear(x, w).shape == (4, 5)
