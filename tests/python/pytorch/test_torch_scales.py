# SPDX-License-Identifier: MIT
"""Scales of groups along K, 4-bit floats and mixed types, against PyTorch's product of the dequantised values."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

if not (hasattr(torch, "float8_e8m0fnu") and hasattr(torch, "float4_e2m1fn_x2")):
    pytest.skip("PyTorch has no float8_e8m0fnu and float4_e2m1fn_x2", allow_module_level=True)

FLOAT4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def values(rows, k, dtype):
    """Random [rows, k] of a dtype, and the same in float64."""
    if dtype is not torch.float4_e2m1fn_x2:
        made = torch.randn(rows, k).to(dtype)
        return made, made.double()
    codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8)
    wide = torch.stack([FLOAT4[(codes & 15).long()], FLOAT4[(codes >> 4).long()]], dim=-1)
    return codes.view(dtype), wide.reshape(rows, k)


def scales(rows, k, group, dtype):
    """Random scales of [rows, k], and the factor of each value in float64."""
    shape = (-(-rows // group[0]), -(-k // group[1]))
    if dtype is torch.float8_e8m0fnu:
        made = torch.randint(120, 134, shape, dtype=torch.uint8).view(dtype)
        wide = torch.exp2(made.view(torch.uint8).double() - 127)
    else:
        made = (torch.rand(shape) + 0.25).to(dtype)
        wide = made.double()
    wide = wide.repeat_interleave(group[0], 0)[:rows].repeat_interleave(group[1], 1)[:, :k]
    return made, wide


def check(d, want):
    assert d.dtype == torch.bfloat16
    error = (d.double() - want).abs()
    assert (error <= 2.0**-8 * want.abs() + 1e-4 * want.abs().max()).all()


E4M3, E2M1, E8M0 = torch.float8_e4m3fn, torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
MODES = {
    "deepseek": (E4M3, E4M3, (1, 128), (128, 128), torch.float32),
    "mxfp8": (E4M3, torch.float8_e5m2, (1, 32), (1, 32), E8M0),
    "mxfp4": (E2M1, E2M1, (1, 32), (1, 32), E8M0),
    "nvfp4": (E2M1, E2M1, (1, 16), (1, 16), E4M3),
    "a8w4": (E4M3, E2M1, (1, 32), (1, 32), E8M0),
    "groups": (torch.bfloat16, torch.bfloat16, (1, 64), (1, 32), torch.float16),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 130, 256), (33, 48, 140)])
def test_a_linear_layer_with_scaled_groups(mode, m, n, k):
    a_type, b_type, a_group, b_group, scale_type = MODES[mode]
    (x, wide_x), (weight, wide_weight) = values(m, k, a_type), values(n, k, b_type)
    (scale_a, factor_a), (scale_b, factor_b) = scales(m, k, a_group, scale_type), scales(n, k, b_group, scale_type)
    groups = {"scale_group_a": a_group, "scale_group_b": b_group}
    want = 0.5 * ((wide_x * factor_a) @ (wide_weight * factor_b).T)
    check(tilewright.linear(x, weight, scale_a=scale_a, scale_b=scale_b, alpha=0.5, **groups), want)
    # gemm takes B and its scales as [K, N]; A's scales may lie in any order.
    turned = scale_a.view(torch.uint8).T.contiguous().T.view(E8M0) if scale_type is E8M0 else scale_a
    b = {"b": weight.T, "scale_b": scale_b.T}
    check(tilewright.gemm(x, scale_a=turned, alpha=0.5, **b, **groups), want)


def test_weights_of_four_bits_with_bf16_rows_of_any_leading_dimensions():
    (weight, wide), (scale_b, factor) = values(40, 96, E2M1), scales(40, 96, (1, 32), E8M0)
    x = torch.randn(2, 3, 96).bfloat16()
    want = x.double() @ (wide * factor).T
    check(tilewright.linear(x, weight, scale_b=scale_b, scale_group_b=(1, 32)), want)
    check(tilewright.linear(x[0, 0], weight, scale_b=scale_b, scale_group_b=(1, 32)), want[0, 0])
    # Rows with scales of their own become one dimension with them, or a batch.
    scale_a, factor_a = scales(6, 96, (1, 32), torch.float32)
    want = (x.double() * factor_a.reshape(2, 3, 96)) @ (wide * factor).T
    options = {"scale_b": scale_b, "scale_group_b": (1, 32), "scale_group_a": [1, 32]}
    check(tilewright.linear(x, weight, scale_a=scale_a.reshape(2, 3, 3), **options), want)
    check(
        tilewright.linear(x.transpose(0, 1), weight, scale_a=scale_a.reshape(2, 3, 3).transpose(0, 1), **options),
        want.transpose(0, 1),
    )


def test_weights_of_four_bits_are_packed_by_function_and_operator():
    import tilewright.torch as tt

    (weight, wide), (scale_b, factor) = values(40, 96, E2M1), scales(40, 96, (1, 32), E8M0)
    x = torch.randn(3, 96).bfloat16()
    options = {"scale_b": scale_b, "scale_group_b": (1, 32)}
    want = x.double() @ (wide * factor).T
    function = tilewright.pack_weights(weight, layout="nk")
    assert (function.n, function.k, function.dtype) == (40, 96, "e2m1")
    check(tilewright.linear(x, function, **options), want)
    packed = tt.pack_weights(weight, layout="nk")
    assert packed.numpy().tobytes() == function.to_bytes()
    assert torch.equal(tt.pack_weights(weight.T, layout="kn"), packed)
    check(tt.linear_packed(x, packed, 40, **options), want)
    back = tt.unpack_weights(packed, weight.shape, dtype=E2M1, layout="nk")
    assert torch.equal(back.view(torch.uint8), weight.view(torch.uint8))
    with torch._subclasses.FakeTensorMode() as mode:
        assert tt.pack_weights(mode.from_tensor(weight), layout="nk").shape == packed.shape


def test_operators_know_shapes_and_types():
    import tilewright.torch as tt

    (weight, wide), (scale_b, factor) = values(40, 96, E2M1), scales(40, 96, (1, 32), E8M0)
    x, wide_x = values(8, 96, E4M3)
    options = {"scale_b": scale_b, "scale_group_b": (1, 32)}
    check(tt.linear(x, weight, **options), wide_x @ (wide * factor).T)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in (x, weight)]
        made = torch.ops.tilewright.linear(*fake, scale_b=mode.from_tensor(scale_b), scale_group_b=[1, 32])
        assert made.shape == (8, 40)
        assert made.dtype == torch.bfloat16
    y = torch.randn(8, 96, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(tilewright.InvalidArgument, match="scales of groups record no gradient"):
        tt.linear(y, weight, **options)


def test_refusals_name_the_argument():
    x, weight = torch.randn(4, 64).bfloat16(), torch.randn(8, 64).bfloat16()
    scale = torch.ones(8, 2)
    for options, words in [
        ({"scale_b": scale, "scale_group_b": (1, 24)}, "'scale_group_b' is 1 x 24, allowed: 1 or 128 x 16, 32, 64"),
        ({"scale_b": scale, "scale_group_b": (1, 64)}, r"'scale_b' has shape \[2, 8\], expected \[1, 8\]"),
        ({"scale_b": scale, "scale_group_b": 32}, "'scale_group_b' is 32, allowed: None, or two integers"),
        ({"scale_group_b": (1, 32)}, "'scale_b' is missing and 'scale_group_b' is 1 x 32"),
        ({"scale_b": scale.to(torch.int8), "scale_group_b": (1, 32)}, "'scale_b' is i8, allowed for groups along K"),
    ]:
        with pytest.raises(tilewright.InvalidArgument, match=words):
            tilewright.linear(x, weight, **options)
