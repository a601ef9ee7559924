# SPDX-License-Identifier: MIT
"""quantize against PyTorch's own casts, bit for bit."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(13)


def fake_codes(x, scale, dtype):
    quotient = x.float() / scale
    if dtype == torch.int8:
        return quotient.round().clamp(-128, 127).to(torch.int8)
    limit = torch.finfo(dtype).max
    return quotient.clamp(-limit, limit).to(dtype)


def largest(dtype):
    return 127 if dtype == torch.int8 else torch.finfo(dtype).max


DTYPES = [torch.float8_e4m3fn, torch.float8_e5m2, torch.int8]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7, 33), (2, 3, 128), (4, 1000)])
def test_a_scale_for_each_token_and_its_codes_are_torchs(dtype, shape):
    x = torch.randn(shape, dtype=torch.bfloat16)
    codes, scale = tilewright.quantize(x, out_dtype=dtype)
    want = x.float().abs().amax(-1, keepdim=True) / largest(dtype)
    assert torch.equal(scale, want)
    assert torch.equal(codes.view(torch.int8), fake_codes(x, want, dtype).view(torch.int8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_scale_for_the_tensor_is_found_or_given(dtype):
    x = torch.randn(65, 300)
    codes, scale = tilewright.quantize(x, "tensor", out_dtype=dtype)
    want = x.abs().amax() / largest(dtype)
    assert scale.shape == (1,) and torch.equal(scale[0], want)
    assert torch.equal(codes.view(torch.int8), fake_codes(x, want, dtype).view(torch.int8))
    given = torch.tensor([0.01])
    codes, same = tilewright.quantize(x, "tensor", scale=given, out_dtype=dtype)
    assert same is given
    assert torch.equal(codes.view(torch.int8), fake_codes(x, given, dtype).view(torch.int8))


def test_groups_and_scales_along_m_have_the_same_codes():
    x = torch.randn(6, 300)
    codes, scale = tilewright.quantize(x, "group")
    assert scale.shape == (6, 3)
    along_m = torch.empty(3, 6).mT
    same, _ = tilewright.quantize(x, "group", scale=along_m)
    assert torch.equal(along_m, scale) and torch.equal(same.view(torch.int8), codes.view(torch.int8))
    wide = scale.repeat_interleave(128, 1)[:, :300]
    assert torch.equal(codes.view(torch.int8), fake_codes(x, wide, torch.float8_e4m3fn).view(torch.int8))


def test_blocks_of_rows_and_columns_share_a_scale_and_go_into_linear():
    weight = torch.randn(3, 300, 200)
    codes, scale = tilewright.quantize(weight, "block")
    assert scale.shape == (3, 3, 2)
    wide = scale.repeat_interleave(128, 1)[:, :300].repeat_interleave(128, 2)[:, :, :200]
    for row, column in ((0, 0), (2, 1)):
        block = weight[:, 128 * row : 128 * row + 128, 128 * column : 128 * column + 128]
        assert torch.equal(scale[:, row, column], block.abs().amax((1, 2)) / 448)
    assert torch.equal(codes.view(torch.int8), fake_codes(weight, wide, torch.float8_e4m3fn).view(torch.int8))
    assert torch.equal(tilewright.dequantize(codes, scale, "block"), codes.float() * wide)

    x = torch.randn(5, 200)
    x_codes, x_scale = tilewright.quantize(x, "group")
    y = tilewright.linear(
        x_codes,
        codes[0],
        scale_a=x_scale,
        scale_b=scale[0],
        scale_group_a=(1, 128),
        scale_group_b=(128, 128),
        out_dtype=torch.float32,
    )
    want = tilewright.dequantize(x_codes, x_scale, "group") @ (codes[0].float() * wide[0]).T
    assert torch.allclose(y, want, rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this PyTorch has no pairs of e2m1")
def test_nvfp4_has_scales_in_two_levels_which_are_found_or_given():
    x = torch.randn(6, 320, dtype=torch.bfloat16)
    fp4 = {"out_dtype": torch.float4_e2m1fn_x2, "scale_dtype": torch.float8_e4m3fn}
    codes, scale, of_tensor = tilewright.quantize(x, "group", find_tensor_scale=True, **fp4)
    values = x.float().unflatten(1, (-1, 16))
    assert torch.equal(of_tensor[0], x.float().abs().amax() / (448 * 6))
    want = (values.abs().amax(-1) / 6 / of_tensor).to(torch.float8_e4m3fn)
    assert torch.equal(scale.view(torch.uint8), want.view(torch.uint8))

    # The nearest of e2m1's values; of two the one of the even code.
    quotient = values / (want.float() * of_tensor)[..., None]
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    apart = (quotient.abs()[..., None] - grid).abs()
    nearest = torch.where(apart == apart.amin(-1, keepdim=True), torch.arange(8) % 2 + 1, 9).argmin(-1)
    expected = (nearest + 8 * (quotient.signbit())).flatten(1).to(torch.uint8)
    packed = expected[:, ::2] | expected[:, 1::2] << 4
    assert torch.equal(codes.view(torch.uint8), packed)

    same, _ = tilewright.quantize(x, "group", tensor_scale=of_tensor, **fp4)
    assert torch.equal(same.view(torch.uint8), codes.view(torch.uint8))
    back = tilewright.dequantize(codes, scale, "group", tensor_scale=of_tensor)
    assert torch.equal(back, (grid[nearest] * quotient.sign() * (want.float() * of_tensor)[..., None]).flatten(1))
    normed, norm_scale = tilewright.rms_norm(x, quant="group", tensor_scale=of_tensor, **fp4)
    assert normed.shape == codes.shape and norm_scale.shape == scale.shape


def test_refusals_are_exceptions():
    with pytest.raises(tilewright.InvalidArgument, match="'quant' is none, allowed"):
        tilewright.quantize(torch.randn(4, 8), "none")
