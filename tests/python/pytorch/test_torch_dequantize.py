# SPDX-License-Identifier: MIT
"""dequantize against PyTorch's own products, bit for bit, and as quantize's way back."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(17)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.int8])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_product_of_codes_and_scales_is_rounded_once(dtype, out_dtype):
    codes = torch.randint(-100, 100, (5, 130), dtype=torch.int8)
    codes = codes if dtype == torch.int8 else codes.view(dtype)
    row, one, group = torch.rand(5, 1), torch.rand(1), torch.rand(5, 2)
    wide = group.repeat_interleave(128, 1)[:, :130]
    for scale, quant, by in ((row, "row", row), (one, "tensor", one), (group, "group", wide)):
        got = tilewright.dequantize(codes, scale, quant, out_dtype=out_dtype)
        want = (codes.float() * by).to(out_dtype)
        assert got.dtype == out_dtype and torch.equal(got.nan_to_num(7), want.nan_to_num(7))


@pytest.mark.parametrize("quant", ["row", "tensor", "group"])
def test_it_is_the_way_back(quant):
    x = torch.randn(7, 300)
    codes, scale = tilewright.quantize(x, quant, out_dtype=torch.int8)
    back = tilewright.dequantize(codes, scale, quant)
    assert back.dtype == torch.float32 and (back - x).abs().max() <= scale.max() * 0.501


def test_numpy_arrays_and_given_results_work():
    numpy = pytest.importorskip("numpy")
    codes = numpy.arange(-6, 6, dtype=numpy.int8).reshape(3, 4)
    scale = numpy.array([1, 2, 0.5], dtype=numpy.float32)
    out = numpy.empty((3, 4), dtype=numpy.float16)
    assert tilewright.dequantize(codes, scale, out=out) is out
    assert (out == codes * scale[:, None]).all()


def test_refusals_are_exceptions():
    with pytest.raises(tilewright.InvalidArgument, match="'x' is f32, allowed: e4m3"):
        tilewright.dequantize(torch.randn(4, 8), torch.ones(4))
