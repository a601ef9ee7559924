# SPDX-License-Identifier: MIT
"""Weights of 4 and 8 bits beside activations of 16, against PyTorch's product of the dequantised values."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


def pairs(values):
    """Integers as bytes, two each along the last dimension, the even one in the low nibble; an odd last one alone."""
    codes = (values & 15).to(torch.uint8)
    if codes.shape[-1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    return codes[..., 0::2] | codes[..., 1::2] << 4


def check(d, want, dtype):
    assert d.dtype == dtype
    assert ((d.double() - want).abs() <= 2.0**-8 * want.abs() + 1e-4 * want.abs().max()).all()


RANGES = {"i4": (-8, 8), "u4": (0, 16), "i8": (-128, 128)}


def weights(kind, n, k):
    """A random weight [n, k] as a call takes it, its options, and its integers."""
    wide = torch.randint(*RANGES[kind], (n, k))
    if kind == "i8":
        return wide.to(torch.int8), {}, wide
    return pairs(wide), {"b_dtype": kind}, wide


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("zero_type", [None, "own", torch.float16])
@pytest.mark.parametrize(("m", "n", "k", "group"), [(1, 40, 256, 128), (5, 33, 288, 32), (3, 16, 320, 64)])
def test_a_linear_layer(kind, zero_type, m, n, k, group):
    x = torch.randn(m, k).bfloat16()
    weight, options, wide = weights(kind, n, k)
    groups = -(-k // group)
    scale = (torch.rand(n, groups) + 0.25).half()
    zero, points = None, torch.zeros(n, groups)
    if zero_type == "own":
        points = torch.randint(*RANGES[kind], (n, groups))
        zero = points.to(torch.int8) if kind == "i8" else pairs(points)
    elif zero_type is not None:
        points = zero = torch.randn(n, groups).to(zero_type)
    spread = [t.double().repeat_interleave(group, 1)[:, :k] for t in (points, scale)]
    want = x.double() @ ((wide.double() - spread[0]) * spread[1]).T
    options.update(scale_group_b=(1, group))
    check(tilewright.linear(x, weight, scale_b=scale, zero_b=zero, **options), want, torch.bfloat16)
    # gemm takes B, its scales and its zero points as [K, N].
    turned = None if zero is None else zero.T
    check(tilewright.gemm(x, weight.T, scale_b=scale.T, zero_b=turned, **options), want, torch.bfloat16)
    # Zero points as AWQ and GPTQ have them: neighbours along N.
    if zero_type == "own" and kind != "i8":
        along_n = pairs(points.T.contiguous())
        check(tilewright.gemm(x, weight.T, scale_b=scale.T, zero_b=along_n, **options), want, torch.bfloat16)


def test_a_scale_for_each_channel_alone():
    x = torch.randn(4, 96).half()
    for kind in RANGES:
        weight, options, wide = weights(kind, 24, 96)
        scale = torch.rand(24) + 0.25
        want = x.double() @ (wide.double() * scale.double()[:, None]).T
        check(tilewright.linear(x, weight, scale_b=scale, **options), want, torch.float16)
    # Leading dimensions.
    y = x.reshape(2, 2, 96)
    check(tilewright.linear(y, weight, scale_b=scale, **options), want.reshape(2, 2, 24), torch.float16)


def test_operators_know_shapes_and_types():
    import tilewright.torch as tt

    x = torch.randn(3, 128).bfloat16()
    weight, options, wide = weights("u4", 20, 128)
    scale, points = (torch.rand(20, 1) + 0.25).half(), torch.randint(0, 16, (20, 1))
    options.update(scale_b=scale, zero_b=pairs(points), scale_group_b=(1, 128))
    want = x.double() @ ((wide.double() - points.double()) * scale.double()).T
    check(tt.linear(x, weight, **options), want, torch.bfloat16)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        fake["scale_group_b"] = [1, 128]
        made = torch.ops.tilewright.linear(mode.from_tensor(x), mode.from_tensor(weight), **fake)
        assert made.shape == (3, 20)
        assert made.dtype == torch.bfloat16
    y = x.detach().requires_grad_()
    with pytest.raises(tilewright.InvalidArgument, match="weights of integers record no gradient"):
        tt.linear(y, weight, **options)


def test_pairs_without_neighbours_are_refused_when_packed():
    tt = pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
    apart = torch.zeros(4, 6, 2, dtype=torch.uint8)[..., 0]
    with pytest.raises(tilewright.InvalidArgument, match=r"'b' has strides \[12, 2\], allowed: 1 in the dimension"):
        tt.pack_weights(apart, layout="nk", b_dtype="u4")


def test_refusals_name_the_argument():
    x = torch.randn(4, 64).bfloat16()
    weight, _, _ = weights("u4", 8, 64)
    scale = torch.ones(8, 2)
    grouped = {"scale_b": scale, "scale_group_b": (1, 32)}
    for options, words in [
        ({"b_dtype": "u8"}, "'b_dtype' is 'u8', allowed: None, 'i4', 'u4'"),
        (grouped, r"argument 'weight': dlpack: dtype is uint8; views have"),
        ({"b_dtype": "u4", "zero_b": scale}, "'zero_b' needs scales of groups along K"),
        ({"b_dtype": "u4", "zero_b": scale.to(torch.uint8), **grouped}, "expected pairs of u4 that make"),
        ({"b_dtype": "u4", "zero_b": scale[:4], **grouped}, r"'zero_b' has shape \[2, 4\], expected \[2, 8\]"),
    ]:
        with pytest.raises(tilewright.InvalidArgument, match=words):
            tilewright.linear(x, weight, **options)
    with pytest.raises(tilewright.InvalidArgument, match="'b_dtype' is u4, and 'weight' is bf16, allowed: uint8"):
        tilewright.linear(x, torch.ones(8, 64).bfloat16(), b_dtype="u4")
    with pytest.raises(tilewright.InvalidArgument, match="'b' is u4 and 'a' is f32"):
        tilewright.linear(x.float(), weight, b_dtype="u4")


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_packed_weights(kind, batch):
    import tilewright.torch as tt

    n, k, group = 40, 256, 64
    made = [weights(kind, n, k) for _ in range(3 if batch else 1)]
    weight = torch.stack([w for w, _, _ in made]) if batch else made[0][0]
    wide = torch.stack([w for _, _, w in made]) if batch else made[0][2]
    scale = (torch.rand(*batch, n, k // group) + 0.25).half()
    x = torch.randn(*batch, 2, k).bfloat16()
    want = x.double() @ (wide.double() * scale.double().repeat_interleave(group, -1)).mT
    scaled = {"scale_b": scale.mT, "scale_group_b": (1, group)}
    options = {"layout": "nk", **made[0][1]}
    packed = tilewright.pack_weights(weight, **options)
    assert (packed.n, packed.k, packed.batch, packed.dtype) == (n, k, 3 if batch else 1, kind)
    check(tilewright.gemm(x, packed, **scaled), want, torch.bfloat16)
    turned = tilewright.pack_weights(weight.mT, **{**options, "layout": "kn"})
    assert turned.to_bytes() == packed.to_bytes()
    back = torch.zeros_like(weight)
    packed.unpack(back, layout="nk")
    assert torch.equal(back, weight)

    torch.library.opcheck(torch.ops.tilewright.pack_weights, (weight,), options)
    stored = tt.pack_weights(weight, **options)
    assert stored.numpy().tobytes() == packed.to_bytes()
    check(tt.gemm_packed(x, stored, n, batch=3 if batch else 1, **scaled), want, torch.bfloat16)
    assert torch.equal(tt.unpack_weights(stored, weight.shape, dtype=weight.dtype, layout="nk"), weight)


def test_what_bytes_hold_is_asked_for_when_they_are_packed():
    weight = torch.zeros(16, 32, dtype=torch.uint8)
    with pytest.raises(tilewright.InvalidArgument, match="b_dtype' is 'i3', allowed: None, 'i4', 'u4'"):
        tilewright.pack_weights(weight, b_dtype="i3")
    with pytest.raises(tilewright.InvalidArgument, match="b_dtype' is i4, and 'b' is bf16, allowed: uint8"):
        tilewright.pack_weights(weight.bfloat16(), b_dtype="i4")
    with pytest.raises(tilewright.InvalidArgument):
        tilewright.pack_weights(weight)
