# SPDX-License-Identifier: MIT
"""Gradients of norms and of act_and_mul: as functions, recorded by autograd, and compiled, against PyTorch's own."""

import numpy as np
import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
functional, ops = torch.nn.functional, torch.ops.tilewright
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(14)
    torch.compiler.reset()


def close(got, want, dtype, scale=1.0):
    tolerance = TOLERANCE[dtype] * scale
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


def reference(name, x, weight, bias, eps, unit_offset=False):
    """In float64, where autograd follows it."""
    if name == "layer_norm":
        x = x - x.mean(-1, keepdim=True)
    y = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    y = y if weight is None else y * (weight + 1 if unit_offset else weight)
    return y if bias is None else y + bias


def leaves(*tensors):
    return [None if t is None else t.detach().clone().requires_grad_() for t in tensors]


def doubles(*tensors):
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_functions_give_pytorchs_gradients(name, dtype):
    x, dy, weight = torch.randn(3, 5, 96).to(dtype), torch.randn(3, 5, 96).to(dtype), torch.randn(96)
    added = torch.randn(3, 5, 96).to(dtype)
    given = doubles(x, weight, torch.zeros(96))
    reference(name, *given, 1e-5).backward(dy.double())
    function = getattr(tilewright, f"{name}_backward")
    dx, dweight, dbias = function(x, dy, weight, 1e-5, dresidual=added, dbias=True)
    assert dx.dtype == dtype and dweight.dtype == dbias.dtype == torch.float32
    close(dx, given[0].grad + added.double(), dtype)
    close(dweight, given[1].grad, torch.float32)
    close(dbias, given[2].grad, torch.float32)
    # Without a weight there is no gradient of it; tensors that are given are written, x's memory too.
    dx, dweight, dbias = function(x, dy, eps=1e-5)
    assert dweight is None and dbias is None
    twin, into = x.clone(), torch.empty(96, dtype=torch.bfloat16)
    same, dweight, _ = function(twin, dy, weight, 1e-5, dx=twin, dweight=into)
    assert same is twin and dweight is into
    close(twin, given[0].grad, dtype)
    close(into, given[1].grad, torch.bfloat16)


def test_arrays_of_numpy_have_gradients():
    x, dy, weight = (np.random.default_rng(3).standard_normal(shape, np.float32) for shape in ((4, 33), (4, 33), (33,)))
    dx, dweight, dbias = tilewright.layer_norm_backward(x, dy, weight, dbias=True)
    given = doubles(*map(torch.from_numpy, (x, weight)), torch.zeros(33))
    reference("layer_norm", *given, 1e-5).backward(torch.from_numpy(dy).double())
    for got, want in zip((dx, dweight, dbias), given):
        close(torch.from_numpy(got), want.grad, torch.float32)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_norms_record_their_gradients(name, adds, dtype, compiled):
    x, residual = torch.randn(4, 6, 80).to(dtype), torch.randn(4, 6, 80) if adds else None
    weight, bias = torch.randn(80), torch.randn(80).to(dtype)

    def norm(x, residual, weight, bias):
        options = {"bias": bias, "unit_offset": True, "out_dtype": torch.float32}
        if residual is None:
            return getattr(ops, name)(x, weight=weight, eps=1e-3, **options), 0 * x
        return getattr(ops, f"add_{name}")(x, residual, weight=weight, eps=1e-3, **options)

    def loss(y, total):
        return (y * y.detach().cos()).sum() + (total * 0.5).float().sum()

    got = leaves(x, residual, weight, bias)
    run = torch.compile(norm, fullgraph=True, backend="aot_eager") if compiled else norm
    loss(*run(*got)).backward()
    want = doubles(x, residual, weight, bias)
    total = want[0] if residual is None else want[0] + want[1]
    loss(reference(name, total, want[2], want[3], 1e-3, unit_offset=True), total if adds else 0 * total).backward()
    for g, w, scale in zip(got, want, (1, 1, 8, 8)):
        if g is not None:
            assert g.grad.dtype == g.dtype
            close(g.grad, w.grad, dtype, scale)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("columns", [torch.float32, torch.bfloat16, None])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_a_biass_gradient_is_not_rounded_to_the_weights_dtype(name, columns, compiled):
    x, dy = torch.randn(512, 64).bfloat16(), (torch.randn(512, 64) + 1).bfloat16()
    weight, bias = None if columns is None else torch.ones(64, dtype=columns), torch.zeros(64, requires_grad=True)

    def norm(x, bias):
        return getattr(ops, name)(x, weight, bias=bias)

    run = torch.compile(norm, fullgraph=True, backend="aot_eager") if compiled else norm
    run(x, bias).backward(dy)
    assert bias.grad.dtype == torch.float32
    close(bias.grad, dy.double().sum(0), torch.float32)


@pytest.mark.filterwarnings("ignore:Input")  # is not a double
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_pass_pytorchs_numeric_check(name):
    x, weight, bias = leaves(torch.randn(3, 12), torch.randn(12), torch.randn(12))
    call = {"weight": weight, "bias": bias, "eps": 1e-3}
    inputs = (x, weight, bias)

    def norm(x, weight, bias):
        return getattr(ops, name)(x, **{**call, "weight": weight, "bias": bias})

    assert torch.autograd.gradcheck(
        norm, inputs, eps=2e-3, atol=2e-3, rtol=2e-3, check_undefined_grad=False, nondet_tol=0
    )


def test_only_what_asks_for_a_gradient_gets_one_and_a_sum_alone_passes_it_on():
    x, residual, weight = torch.randn(5, 32), torch.randn(5, 32, requires_grad=True), torch.randn(32)
    y, total = ops.add_rms_norm(x, residual, weight)
    total.sum().backward()
    assert torch.equal(residual.grad, torch.ones(5, 32)) and x.grad is None and weight.grad is None
    one = weight.clone().requires_grad_()
    ops.rms_norm(x, one).sum().backward()
    close(one.grad, reference("rms_norm", x.double(), None, None, torch.finfo(torch.float32).eps).sum(0), torch.float32)
    with pytest.raises(tilewright.InvalidArgument, match="rms_norm: an argument requires grad, and there is none with"):
        ops.rms_norm(x, one, smooth=weight)


ACTIVATIONS = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": functional.hardswish,
    "none": lambda x: x,
}


def activated(x, name, gate, squared, limit, alpha, up_offset):
    gates, ups = x, 1
    if gate == "separated":
        gates, ups = x.chunk(2, -1)
    elif gate == "interleaved":
        gates, ups = x[..., 0::2], x[..., 1::2]
    if limit:
        gates = gates.clamp(max=limit)
        ups = ups if gate == "none" else ups.clamp(-limit, limit)
    value = gates * torch.sigmoid(alpha * gates) if alpha != 1 else ACTIVATIONS[name](gates)
    value = value.square() if squared else value
    return value if gate == "none" else value * (ups + up_offset)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gate", ["none", "separated", "interleaved"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_record_their_gradients(name, gate, dtype):
    x = (3 * torch.randn(4, 5, 64)).to(dtype)
    cases = [(False, 0.0, 1.0, 0.0), (name != "none", 2.5, 1.0, 1.0)]
    if name == "silu":
        cases.append((False, 7.0, 1.702, 1.0))
    for squared, limit, alpha, up_offset in cases:
        options = {"squared": squared, "limit": limit, "alpha": alpha, "up_offset": up_offset}
        (want,) = doubles(x)
        y = activated(want, name, gate, **options)
        dy = torch.randn(y.shape).to(dtype)
        y.backward(dy.double())
        (got,) = leaves(x)
        ops.act_and_mul(got, name, gate=gate, **options).backward(dy)
        close(got.grad, want.grad, dtype)
        assert torch.equal(tilewright.act_and_mul_backward(x, dy, name, gate=gate, **options), got.grad)


def test_a_compiled_activation_has_the_same_gradient():
    def step(x):
        return ops.act_and_mul(x, "silu", gate="interleaved", limit=7.0, alpha=1.702, up_offset=1.0).sum()

    got, want = leaves(*[torch.randn(6, 64)] * 2)
    torch.compile(step, fullgraph=True, backend="aot_eager")(got).backward()
    step(want).backward()
    assert torch.equal(got.grad, want.grad)


def test_opcheck_passes():
    x, dy, weight = torch.randn(6, 32), torch.randn(6, 32), torch.randn(32)
    for name in ("rms_norm", "layer_norm"):
        backward = getattr(ops, f"{name}_backward").default
        torch.library.opcheck(backward, (x, dy, weight, 1e-5), {"dresidual": x, "bias_gradient": True})
        torch.library.opcheck(backward, (x, dy), {})
        torch.library.opcheck(backward, (x, dy, weight), {"bias_gradient": True, "bias_dtype": torch.bfloat16})
        torch.library.opcheck(getattr(ops, name).default, leaves(x, weight))
        torch.library.opcheck(getattr(ops, f"add_{name}").default, leaves(x, dy, weight))
    torch.library.opcheck(ops.act_and_mul_backward.default, (torch.randn(6, 64), dy, "gelu"), {"gate": "interleaved"})
    torch.library.opcheck(ops.act_and_mul.default, leaves(x), {})


def test_refusals_are_exceptions():
    x, dy = torch.randn(6, 32), torch.randn(6, 32)
    with pytest.raises(tilewright.InvalidArgument, match="rms_norm_backward: argument 'dy' has shape"):
        tilewright.rms_norm_backward(x, dy[:3])
    with pytest.raises(tilewright.InvalidArgument, match="'dresidual' is bf16, expected f32"):
        tilewright.layer_norm_backward(x, dy, dresidual=dy.bfloat16())
    with pytest.raises(tilewright.InvalidArgument, match="act_and_mul_backward: argument 'dy' has shape"):
        tilewright.act_and_mul_backward(x, dy)
    with pytest.raises(tilewright.InvalidArgument, match="rms_norm_backward: an argument requires grad"):
        ops.rms_norm_backward(x.requires_grad_(), dy)
