# SPDX-License-Identifier: MIT
"""Layers of AWQ and GPTQ checkpoints, against PyTorch's product of the dequantised values."""

import copy

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tw = pytest.importorskip("tilewright.torch", reason="PyTorch is too old")

AWQ_COLUMNS = [0, 2, 4, 6, 1, 3, 5, 7]  # of the nibbles of a word


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)


def words(codes, bits, dim, order=None):
    """int32 words of neighbours along `dim`, from the lowest bits up."""
    lanes = 32 // bits
    parts = codes.unflatten(dim, (-1, lanes)).movedim(dim + 1, -1).long()
    if order is not None:
        parts = parts[..., order]
    shifts = torch.arange(lanes) * bits
    value = (parts << shifts).sum(-1)
    return torch.where(value >= 2**31, value - 2**32, value).to(torch.int32)


def checkpoint(kind, bits, depth, columns, groups, zeros=None):
    """What a checkpoint holds of a random weight, and the dequantised weight [depth, columns]."""
    codes = torch.randint(0, 1 << bits, (depth, columns))
    less = 1 if kind == "gptq" else 0
    if zeros is None:
        zeros = torch.randint(less, (1 << bits) + less, (groups, columns))
    scales = ((torch.rand(groups, columns) + 0.25) / (1 << bits)).half()
    if kind == "awq":
        stored = words(codes, 4, 1, AWQ_COLUMNS), words(zeros, 4, 1, AWQ_COLUMNS)
    else:
        stored = words(codes, bits, 0), words(zeros - less, bits, 1)
    return stored, scales, codes, zeros


def check(layer, x, codes, zeros, scales, group_of):
    want = x.double() @ ((codes - zeros[group_of]).double() * scales.double()[group_of])
    got = layer(x)
    assert got.dtype == x.dtype
    tolerance = 2.0**-8 if x.dtype == torch.bfloat16 else 2.0**-10
    assert ((got.double() - want).abs() <= tolerance * want.abs() + 2e-4 * want.abs().max()).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_layer_of_awq(dtype):
    (qweight, qzeros), scales, codes, zeros = checkpoint("awq", 4, 256, 48, 2)
    layer = tw.QuantisedLinear.from_awq(qweight, qzeros, scales.to(dtype))
    assert (layer.in_features, layer.out_features, layer.weight_dtype) == (256, 48, "u4")
    assert layer.zero.dtype == torch.uint8
    check(layer, torch.randn(3, 256, dtype=dtype), codes, zeros, scales.to(dtype), torch.arange(256) // 128)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("act_order", [False, True])
def test_a_layer_of_gptq(bits, kind, act_order):
    (qweight, qzeros), scales, codes, zeros = checkpoint(kind, bits, 256, 40, 4)
    group_of = torch.arange(256) // 64
    if act_order:
        group_of = group_of[torch.randperm(256)]
    layer = tw.QuantisedLinear.from_gptq(
        qweight, qzeros, scales, group_of.int(), bits=bits, v2=kind == "gptq_v2", bias=torch.zeros(40).half()
    )
    assert (layer.order is not None) == act_order
    check(layer, torch.randn(2, 5, 256, dtype=torch.float16), codes, zeros, scales, group_of)


def test_symmetric_checkpoints_have_no_zero_points():
    for bits, dtype in ((4, "i4"), (8, "i8")):
        half = torch.full((2, 16), 1 << (bits - 1))
        (qweight, qzeros), scales, codes, zeros = checkpoint("gptq", bits, 64, 16, 2, zeros=half)
        layer = tw.QuantisedLinear.from_gptq(qweight, qzeros, scales, bits=bits)
        assert layer.zero is None
        assert layer.weight_dtype == dtype
        check(layer, torch.randn(4, 64, dtype=torch.float16), codes, zeros, scales, torch.arange(64) // 32)


def test_a_layer_moves_saves_and_compiles():
    (qweight, qzeros), scales, codes, zeros = checkpoint("awq", 4, 128, 16, 1)
    layer = tw.QuantisedLinear.from_awq(qweight, qzeros, scales, activation="relu")
    x = torch.randn(3, 128, dtype=torch.float16)
    want = layer(x)
    state = layer.state_dict()
    assert set(state) == {"weight", "scale", "zero"}
    other = tw.QuantisedLinear.from_awq(torch.zeros_like(qweight), qzeros, scales, activation="relu")
    other.load_state_dict(state)
    assert torch.equal(other(x), want)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), want)
    assert "weight=u4, group_size=128" in repr(layer)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("act_order", [False, True])
def test_a_packed_layer_is_the_same_function(bits, zeros, act_order):
    points = None if zeros else torch.full((4, 40), 1 << (bits - 1))
    (qweight, qzeros), scales, codes, points = checkpoint("gptq", bits, 256, 40, 4, zeros=points)
    group_of = torch.arange(256) // 64
    if act_order:
        group_of = group_of[torch.randperm(256)]
    layer = tw.QuantisedLinear.from_gptq(
        qweight, qzeros, scales, group_of.int(), bits=bits, bias=torch.zeros(40).half(), activation=None
    ).eval()
    packed = layer.packed()
    assert not packed.training and repr(packed) == repr(layer).replace("QuantisedLinear", "PackedQuantisedLinear")
    check(packed, torch.randn(2, 5, 256, dtype=torch.float16), codes, points, scales, group_of)
    assert torch.equal(packed.weight, layer.weight)
    compiled = torch.compile(packed, fullgraph=True, backend="eager")
    x = torch.randn(3, 256, dtype=torch.float16)
    assert torch.equal(compiled(x), packed(x))
    assert torch.equal(copy.deepcopy(packed)(x), packed(x))


def test_plain_and_packed_layers_load_each_others_state():
    (qweight, qzeros), scales, *_ = checkpoint("awq", 4, 128, 16, 1)
    layer = tw.QuantisedLinear.from_awq(qweight, qzeros, scales)
    x = torch.randn(3, 128, dtype=torch.float16)
    other = tw.QuantisedLinear.from_awq(torch.zeros_like(qweight), qzeros, scales / 2).packed()
    for assign in (False, True):
        other.load_state_dict(layer.state_dict(), assign=assign)
        assert torch.equal(other(x), layer.packed()(x))
    state = other.state_dict()
    assert set(state) == set(layer.state_dict())
    back = tw.QuantisedLinear.from_awq(torch.zeros_like(qweight), qzeros, scales)
    back.load_state_dict(state)
    assert torch.equal(back(x), layer(x))
    missing = {name: tensor for name, tensor in state.items() if name != "weight"}
    with pytest.raises(RuntimeError, match="Missing key.*weight"):
        other.load_state_dict(missing)
    with pytest.raises(RuntimeError, match="While packing 'weight'"):
        other.load_state_dict({**state, "weight": state["weight"][:8]})


def test_groups_that_no_packed_kernel_has_are_refused():
    (qweight, qzeros), scales, *_ = checkpoint("awq", 4, 256, 16, 1)
    with pytest.raises(ValueError, match="groups of 256, allowed: 32, 64, 128"):
        tw.QuantisedLinear.from_awq(qweight, qzeros, scales).packed()


def test_words_go_back_as_they_came():
    (qweight, qzeros), scales, codes, zeros = checkpoint("awq", 4, 64, 16, 2)
    weight, zero = torch.empty(16, 32, dtype=torch.uint8), torch.empty(2, 8, dtype=torch.uint8)
    tilewright.import_weights("awq", qweight, weight, zeros=qzeros, zero_out=zero.T, dtype="u4", layout="nk")
    assert torch.equal(weight & 15, codes.T[:, 0::2].byte())
    back, zeros_back = torch.empty_like(qweight), torch.empty_like(qzeros)
    tilewright.export_weights("awq", weight, back, zero_b=zero.T, zeros_out=zeros_back, dtype="u4", layout="nk")
    assert torch.equal(back, qweight)
    assert torch.equal(zeros_back, qzeros)


def test_refusals_name_the_argument():
    (qweight, qzeros), scales, _, _ = checkpoint("gptq", 4, 64, 16, 2)
    out = torch.empty(16, 32, dtype=torch.uint8)
    for options, error in [
        ({"format": "exl2"}, "weight format 'exl2' is none of: awq, gptq"),
        ({"dtype": "u8"}, "'dtype' is 'u8', allowed: None, 'i4', 'u4'"),
        ({"layout": "mn"}, "'layout' is 'mn', allowed: 'kn'"),
        ({"zeros": qzeros}, "argument 'zero_b' is needed"),
        ({"out": out.T}, r"argument 'weight' has shape \[8, 16\], expected"),
    ]:
        arguments = {"format": "gptq", "weight": qweight, "out": out, "dtype": "u4", "layout": "nk", **options}
        with pytest.raises(tilewright.InvalidArgument, match=error):
            tilewright.import_weights(**arguments)
