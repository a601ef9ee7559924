# SPDX-License-Identifier: MIT
"""rms_norm against PyTorch's own, with residuals, quantised outputs and strided inputs."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


def check(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1,), (7, 33), (2, 3, 128), (4, 1000), (0, 8)])
def test_it_is_torchs_function(dtype, shape):
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(shape[-1], dtype=dtype)
    check(tilewright.rms_norm(x, weight), torch.nn.functional.rms_norm(x, shape[-1:], weight))
    check(tilewright.rms_norm(x, eps=1e-3), torch.nn.functional.rms_norm(x, shape[-1:], eps=1e-3))
    out = torch.empty_like(x)
    assert tilewright.rms_norm(x, weight, out=out) is out


def test_heads_inside_a_packed_tensor_are_normalised_where_they_lie():
    qkv = torch.randn(5, 12, 64)
    q = qkv[:, 4:8]
    want = torch.nn.functional.rms_norm(q, (64,))
    check(tilewright.rms_norm(q), want)
    tilewright.rms_norm(q, out=q)
    check(qkv[:, 4:8], want)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_residual_is_added_and_comes_out(dtype):
    x, residual = torch.randn(6, 256, dtype=dtype), torch.randn(6, 256, dtype=dtype)
    weight = torch.randn(256, dtype=dtype)
    y, added = tilewright.rms_norm(x, weight, 1e-6, residual=residual)
    assert torch.equal(added, x + residual)
    check(y, torch.nn.functional.rms_norm(x + residual, (256,), weight, 1e-6))


def test_gemmas_weight_is_one_more():
    x, weight = torch.randn(3, 64), torch.randn(64)
    check(
        tilewright.rms_norm(x, weight, 1e-6, unit_offset=True),
        torch.nn.functional.rms_norm(x, (64,), weight + 1, 1e-6),
    )


def test_codes_times_scales_are_the_values():
    x = torch.randn(9, 300)
    want = torch.nn.functional.rms_norm(x, (300,), eps=1e-6)
    codes, scale = tilewright.rms_norm(x, eps=1e-6, quant="row", out_dtype=torch.int8)
    assert codes.dtype == torch.int8 and scale.shape == (9, 1)
    assert ((codes * scale - want).abs() <= 0.5001 * scale).all()
    codes, scale = tilewright.rms_norm(x, eps=1e-6, quant="group")
    assert codes.dtype == torch.float8_e4m3fn and scale.shape == (9, 3)
    wide = codes.float() * scale.repeat_interleave(128, 1)[:, :300]
    assert ((wide - want).abs() <= want.abs() / 15 + scale.repeat_interleave(128, 1)[:, :300] * 2.0**-10).all()


def test_microscaled_codes_have_powers_of_two():
    if not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip("this PyTorch has no float8_e8m0fnu")
    x = torch.randn(4, 96)
    want = torch.nn.functional.rms_norm(x, (96,), eps=1e-6)
    codes, scale = tilewright.rms_norm(x, eps=1e-6, quant="group", scale_dtype="e8m0", rounding="up")
    assert scale.shape == (4, 3) and scale.dtype == torch.float8_e8m0fnu
    factor = torch.exp2(scale.view(torch.uint8).float() - 127).repeat_interleave(32, 1)
    assert ((codes.float() * factor - want).abs() <= want.abs() / 15 + factor * 2.0**-10).all()


def test_refusals_are_exceptions():
    x = torch.randn(4, 8)
    with pytest.raises(tilewright.InvalidArgument, match="'weight' has shape"):
        tilewright.rms_norm(x, torch.randn(9))
    with pytest.raises(tilewright.InvalidArgument, match="'quant' is block, allowed"):
        tilewright.rms_norm(x, quant="block")
    with pytest.raises(tilewright.InvalidArgument, match="dtype float64"):
        tilewright.rms_norm(x, out_dtype=torch.float64)
