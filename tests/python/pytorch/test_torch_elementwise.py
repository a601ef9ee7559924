# SPDX-License-Identifier: MIT
"""gated_rms_norm, add, mul and cast against the same in PyTorch, and as torch operators."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
ops = torch.ops.tilewright


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(9)
    torch.compiler.reset()


def gated(x, z, weight, eps, group, before):
    gate = torch.nn.functional.silu(z.double())
    value = x.double() if before else x.double() * gate
    rows = value.unflatten(-1, (-1, group or x.shape[-1]))
    value = (rows / (rows.square().mean(-1, keepdim=True) + eps).sqrt()).flatten(-2) * weight.double()
    return value * gate if before else value


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("group", [0, 32])
def test_gated_rms_norm_is_mambas(group, before):
    x, z, weight = torch.randn(3, 5, 96), torch.randn(3, 5, 96), torch.randn(96)
    y = tilewright.gated_rms_norm(x, z, weight, norm_group=group, norm_before_gate=before)
    torch.testing.assert_close(y.double(), gated(x, z, weight, 1e-5, group, before), rtol=1e-5, atol=1e-5)
    wide = x.bfloat16(), z.bfloat16(), weight
    want = gated(*wide, 1e-5, group, before)
    torch.testing.assert_close(
        ops.gated_rms_norm(*wide, norm_group=group, norm_before_gate=before).double(), want, rtol=1e-2, atol=1e-2
    )


def test_scales_of_groups_lie_within_those_of_the_norm():
    x, z = torch.randn(4, 512), torch.randn(4, 512)
    codes, scale = tilewright.gated_rms_norm(x, z, norm_group=256, quant="group")
    assert scale.shape == (4, 4)
    want = tilewright.gated_rms_norm(x, z, norm_group=256)
    torch.testing.assert_close(codes.float() * scale.repeat_interleave(128, -1), want, rtol=0.07, atol=0.02)


@pytest.mark.parametrize("shape", [(4, 6, 32), (32,), (1,), (6, 1), (4, 1, 1), (4, 1, 32), ()])
@pytest.mark.parametrize("name", ["add", "mul"])
def test_arithmetic_broadcasts_as_pytorch_does(name, shape):
    x, b = torch.randn(4, 6, 32), torch.randn(shape)
    assert torch.equal(getattr(tilewright, name)(x, b), getattr(torch, name)(x, b))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_casts_round_as_pytorch_does(dtype):
    x = torch.randn(7, 33)
    assert torch.equal(tilewright.cast(x, dtype).float(), x.to(dtype).float())
    assert torch.equal(tilewright.cast(x.bfloat16(), dtype).float(), x.bfloat16().to(dtype).float())


def cases():
    x, z, weight = torch.randn(6, 128), torch.randn(6, 128), torch.randn(128)
    return {
        "gated_rms_norm": (ops.gated_rms_norm, (x, z, weight), {"norm_group": 64}),
        "gated_rms_norm_quantize": (ops.gated_rms_norm_quantize, (x, z), {"quant": "group"}),
        "add": (ops.add, (x, weight), {"out_dtype": torch.bfloat16}),
        "mul": (ops.mul, (x, z), {}),
        "cast": (ops.cast, (x,), {"out_dtype": torch.bfloat16}),
    }


@pytest.mark.parametrize("case", cases())
def test_opcheck_passes_and_a_compiled_call_has_the_same_bits(case):
    op, arguments, options = cases()[case]
    torch.library.opcheck(op.default, arguments, options)
    compiled = torch.compile(lambda *a: op(*a, **options), fullgraph=True, backend="aot_eager")
    got, want = compiled(*arguments), op(*arguments, **options)
    for g, w in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
        assert torch.equal(g.view(torch.uint8), w.view(torch.uint8))


def test_into_writes_the_given_tensor_and_gradients_are_refused():
    x, b = torch.randn(6, 128), torch.randn(128)
    want = x + b
    ops.add.into(x, b, result=x)
    assert torch.equal(x, want)
    with pytest.raises(tilewright.InvalidArgument, match="has no gradient"):
        ops.mul(x.requires_grad_(), b)
