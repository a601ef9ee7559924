# SPDX-License-Identifier: MIT
"""act_and_mul against PyTorch's own activations, with gates of both kinds and quantised outputs."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
functional = torch.nn.functional
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
ACTIVATIONS = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "sigmoid": torch.sigmoid,
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


def check(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_it_is_the_activation_times_the_other_half(dtype, name):
    x = torch.randn(3, 5, 66, dtype=dtype)
    gate, up = x.float().chunk(2, -1)
    check(tilewright.act_and_mul(x, name), (ACTIVATIONS[name](gate) * up).to(dtype))
    gate, up = x[..., ::2].float(), x[..., 1::2].float()
    check(tilewright.act_and_mul(x, name, gate="interleaved"), (ACTIVATIONS[name](gate) * up).to(dtype))
    check(tilewright.act_and_mul(x, name, gate="none"), ACTIVATIONS[name](x.float()).to(dtype))


def test_relu_squared_stands_alone():
    x = torch.randn(4, 100)
    check(tilewright.act_and_mul(x, "relu", gate="none", squared=True), torch.relu(x) ** 2)


def test_gpt_oss_limits_its_gates():
    x = 6 * torch.randn(4, 128)
    gate, up = x[..., ::2].clamp(max=7), x[..., 1::2].clamp(-7, 7)
    want = gate * torch.sigmoid(1.702 * gate) * (up + 1)
    check(tilewright.act_and_mul(x, "silu", gate="interleaved", limit=7, alpha=1.702, up_offset=1), want)


def test_rows_are_read_where_they_lie_and_written_in_place():
    wide = torch.randn(6, 3, 80)
    x = wide[:, 1]
    want = functional.silu(x[:, :40]) * x[:, 40:]
    out = x[:, :40]
    assert tilewright.act_and_mul(x, out=out) is out
    check(wide[:, 1, :40], want)
    assert tilewright.act_and_mul(torch.randn(0, 8)).shape == (0, 4)


def test_codes_times_scales_are_the_values():
    x = torch.randn(9, 600)
    want = functional.silu(x[:, :300]) * x[:, 300:]
    codes, scale = tilewright.act_and_mul(x, quant="row", out_dtype=torch.int8)
    assert codes.dtype == torch.int8 and scale.shape == (9, 1)
    assert ((codes * scale - want).abs() <= 0.5001 * scale).all()
    codes, scale = tilewright.act_and_mul(x, quant="group")
    assert codes.dtype == torch.float8_e4m3fn and scale.shape == (9, 3)
    wide = scale.repeat_interleave(128, 1)[:, :300]
    assert ((codes.float() * wide - want).abs() <= want.abs() / 15 + wide * 2.0**-10).all()


def test_refusals_are_exceptions():
    x = torch.randn(4, 8)
    with pytest.raises(tilewright.InvalidArgument, match="even last size"):
        tilewright.act_and_mul(x[:, :7])
    with pytest.raises(tilewright.InvalidArgument, match="'activation' is swish, allowed"):
        tilewright.act_and_mul(x, "swish")
