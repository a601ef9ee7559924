# SPDX-License-Identifier: MIT
"""Gradients of torch.ops.tilewright: against PyTorch's in float64, by finite differences, compiled, and refused."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tt = pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
import tilewright  # noqa: E402

ops = torch.ops.tilewright
functional = torch.nn.functional
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
RELATIVE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)
    torch.compiler.reset()


def leaf(*shape, dtype=torch.float32):
    return (torch.randn(*shape) * 0.5).to(dtype).requires_grad_()


def doubles(tensors):
    return [None if t is None else t.detach().double().requires_grad_(t.requires_grad) for t in tensors]


def check_gradients(function, reference, tensors, dtype=torch.float32):
    """Value and gradients of function(*tensors) are those of reference() on float64 copies."""
    copies = doubles(tensors)
    got, want = function(*tensors), reference(*copies)
    relative = RELATIVE[dtype]
    torch.testing.assert_close(got.double(), want, rtol=relative, atol=relative)
    direction = torch.randn(got.shape)
    got.backward(direction.to(got.dtype))
    want.backward(direction.to(got.dtype).double())
    for tensor, copy in zip(tensors, copies):
        if tensor is None or not tensor.requires_grad:
            assert tensor is None or tensor.grad is None
            continue
        assert tensor.grad.dtype == tensor.dtype
        assert tensor.grad.shape == tensor.shape
        scale = copy.grad.abs().max().item() + 1
        torch.testing.assert_close(tensor.grad.double(), copy.grad, rtol=relative, atol=relative * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(48,), (5, 48), (2, 3, 48)])
def test_linear_has_the_gradients_of_torch_linear(shape, dtype):
    x, weight, bias = leaf(*shape, dtype=dtype), leaf(20, 48, dtype=dtype), leaf(20, dtype=dtype)
    check_gradients(tt.linear, functional.linear, (x, weight, bias), dtype)
    assert weight.grad.is_contiguous()
    with torch.no_grad():
        inference = tt.linear(x, weight, bias)
    assert torch.equal(tt.linear(x, weight, bias), inference)


@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_a_frozen_tensor_gets_no_gradient_and_the_others_do(frozen):
    tensors = [leaf(5, 16), leaf(8, 16), leaf(8)]
    for index in frozen:
        tensors[index].requires_grad_(False)
    check_gradients(tt.linear, functional.linear, tensors)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 16), (16, 8)),
        ((3, 5, 16), (16, 8)),
        ((2, 1, 5, 16), (16, 8)),
        ((3, 5, 16), (1, 16, 8)),
        ((3, 5, 16), (3, 16, 8)),
        ((5, 16), (3, 16, 8)),
        ((1, 16), (16, 1)),
    ],
)
def test_gemm_sums_over_what_was_broadcast(a, b):
    check_gradients(tt.gemm, torch.matmul, (leaf(*a), leaf(*b)))
    # B with K contiguous, as a weight's transpose has it.
    check_gradients(lambda x, y: tt.gemm(x, y.mT), lambda x, y: x @ y.mT, (leaf(*a), leaf(*b[:-2], b[-1], b[-2])))


ACTIVATIONS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": functional.hardswish,
    ("clamp", -0.5, 0.75): lambda x: x.clamp(-0.5, 0.75),
}


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_every_activation_has_a_gradient(activation):
    reference = ACTIVATIONS[activation]
    check_gradients(
        lambda x, w, b: tt.linear(x, w, b, activation),
        lambda x, w, b: reference(functional.linear(x, w, b)),
        (leaf(7, 24), leaf(10, 24), leaf(10)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_whole_epilogue_has_gradients(dtype):
    def reference(a, b, bias, c, scale_a, scale_b, up):
        h = 0.5 * scale_a * scale_b * (a @ b) + 0.25 * c + bias
        return (functional.silu(h[:, :6]) * h[:, 6:] * up).relu() + up

    def function(a, b, bias, c, scale_a, scale_b, up):
        steps = [("mul", up), "relu", ("add", up)]
        options = {"alpha": 0.5, "beta": 0.25, "c": c, "scale_a": scale_a, "scale_b": scale_b, "gate": "separated"}
        return tt.gemm(a, b, bias=bias, activation="silu", steps=steps, **options)

    a, b, bias, c, up = (leaf(*shape, dtype=dtype) for shape in ((5, 16), (16, 12), (12,), (5, 12), (5, 6)))
    tensors = (a, b, bias, c, leaf(5, 1), leaf(12), up)
    check_gradients(function, reference, tensors, dtype)
    # Without grad the fused kernel computes the same.
    with torch.no_grad():
        fused = function(*tensors)
    torch.testing.assert_close(function(*tensors), fused, rtol=RELATIVE[dtype], atol=RELATIVE[dtype])


def test_c_without_beta_is_added_and_has_a_gradient():
    a, b, c = leaf(5, 16), leaf(16, 12), leaf(5, 12)
    check_gradients(lambda a, b, c: tt.gemm(a, b, c=c), lambda a, b, c: a @ b + c, (a, b, c))
    with torch.no_grad():
        torch.testing.assert_close(tt.gemm(a, b, c=c), torch.addmm(c, a, b), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(tt.gemm(a, b, c=c, beta=0.0), a @ b, rtol=1e-4, atol=1e-4)


def test_an_interleaved_gate_has_gradients():
    check_gradients(
        lambda a, b: tt.gemm(a, b, activation="gelu", gate="interleaved"),
        lambda a, b: functional.gelu((a @ b)[:, 0::2]) * (a @ b)[:, 1::2],
        (leaf(5, 16), leaf(16, 12)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_packed_weights_pass_the_gradient_of_the_input_on(dtype):
    weight, bias = torch.randn(20, 48).to(dtype), leaf(20, dtype=dtype)
    packed = tt.pack_weights(weight, layout="nk")
    check_gradients(
        lambda x, b: tt.linear_packed(x, packed, 20, b, "gelu"),
        lambda x, b: functional.gelu(functional.linear(x, weight.double(), b)),
        (leaf(2, 5, 48, dtype=dtype), bias),
        dtype,
    )
    b = torch.randn(3, 16, 8).to(dtype)
    batched = tt.pack_weights(b)
    check_gradients(
        lambda a: tt.gemm_packed(a, batched, 8, batch=3),
        lambda a: a @ b.double(),
        (leaf(3, 5, 16, dtype=dtype),),
        dtype,
    )


def test_a_converted_model_trains_what_is_not_packed():
    model = torch.nn.Sequential(torch.nn.Linear(16, 12), torch.nn.LayerNorm(12), torch.nn.Linear(12, 4))
    x = torch.randn(6, 16)
    model(x).square().sum().backward()
    want = model[1].weight.grad.clone()
    model.zero_grad()
    tt.convert(model)(x).square().sum().backward()
    torch.testing.assert_close(model[1].weight.grad, want, rtol=1e-4, atol=1e-4)
    with pytest.raises(tilewright.InvalidArgument, match=r"packed weights are constants of autograd: pass b\.detach"):
        tt.pack_weights(leaf(4, 8))


def finite_difference_cases():
    packed = tt.pack_weights(torch.randn(6, 4))
    return {
        "linear": (lambda x, w, b: tt.linear(x, w, b, "tanh"), ((3, 6), (4, 6), (4,))),
        "gemm": (lambda a, b: tt.gemm(a, b, alpha=0.5), ((2, 3, 6), (2, 6, 4))),
        "gate": (lambda a, b: tt.gemm(a, b, activation="silu", gate="separated"), ((3, 6), (6, 4))),
        "packed": (lambda a: tt.gemm_packed(a, packed, 4), ((3, 6),)),
    }


@pytest.mark.parametrize("case", finite_difference_cases())
def test_gradients_are_those_of_finite_differences_the_second_too(case):
    function, shapes = finite_difference_cases()[case]
    tensors = tuple(leaf(*shape) for shape in shapes)
    limits = {"eps": 1e-2, "atol": 2e-2, "rtol": 2e-2, "nondet_tol": 0.0}
    with pytest.warns(UserWarning, match="double precision"):
        assert torch.autograd.gradcheck(function, tensors, fast_mode=True, **limits)
        assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True, **limits)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_layer_has_the_gradients_of_the_plain_one(dynamic):
    weight, bias = leaf(24, 16), leaf(24)
    packed = tt.pack_weights(torch.randn(8, 24), layout="nk")

    def step(x):
        return tt.linear_packed(tt.linear(x, weight, bias, "gelu"), packed, 8).square().sum()

    compiled = torch.compile(step, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for m in (3, 5, 8):
        x = leaf(m, 16)
        want = torch.autograd.grad(step(x), (x, weight, bias))
        got = torch.autograd.grad(compiled(x), (x, weight, bias))
        for one, other in zip(got, want):
            torch.testing.assert_close(one, other)


def test_inductor_compiles_forward_and_backward():
    a, b = leaf(4, 16), leaf(16, 8)
    want = torch.autograd.grad(tt.gemm(a, b), (a, b), torch.ones(4, 8))
    got = torch.autograd.grad(torch.compile(tt.gemm, fullgraph=True)(a, b), (a, b), torch.ones(4, 8))
    for one, other in zip(got, want):
        torch.testing.assert_close(one, other)


def test_checkpointing_recomputes_the_operator():
    x, weight = leaf(5, 16), torch.randn(8, 16)
    torch.utils.checkpoint.checkpoint(tt.linear, x, weight, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, weight.sum(0).expand(5, 16), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "shapes", "options"),
    [
        (ops.linear.default, ((5, 16), (8, 16), (8,)), {}),
        (ops.gemm.default, ((3, 5, 16), (16, 8)), {"activation": "silu", "gate": "separated"}),
    ],
)
def test_opcheck_passes_where_gradients_are_recorded(op, shapes, options):
    torch.library.opcheck(op, tuple(leaf(*shape) for shape in shapes), options)


def test_a_frozen_weight_keeps_no_input_alive_for_the_backward_pass():
    x, weight = leaf(5, 16), leaf(8, 16)
    saved = []
    for needs in ((True, False), (False, True), (True, True)):
        x.requires_grad_(needs[0])
        weight.requires_grad_(needs[1])
        found = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, found=found: found.append(t.data_ptr()) or t, lambda t: t
        ):
            tt.linear(x, weight)
        saved.append(set(found))
    assert saved == [{weight.data_ptr()}, {x.data_ptr()}, {x.data_ptr(), weight.data_ptr()}]


def test_what_records_no_gradient_refuses_and_says_what_does():
    x, weight, out = leaf(3, 16), torch.randn(8, 16), torch.empty(3, 8)
    with pytest.raises(tilewright.InvalidArgument, match=r"'x' requires grad.*tilewright\.torch record one"):
        tilewright.linear(x, weight)
    with pytest.raises(tilewright.InvalidArgument, match="'out' records no gradient"):
        tt.linear(x, weight, out=out)
    with pytest.raises(Exception, match="'out' records no gradient"):
        torch.compile(lambda x: tt.linear(x, weight, out=out), fullgraph=True, backend="aot_eager")(x)
    with pytest.raises(
        tilewright.InvalidArgument, match=r"'activation' is 'gellu', allowed: none, relu.*clamp\(low, high\)"
    ):
        ops.linear(x, weight, None, "gellu")
    with pytest.raises(tilewright.InvalidArgument, match=r"'steps\[0\]' is 'add'.*no tensor left"):
        ops.linear(x, weight, steps=["add"])
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(tt.linear(x, weight), tilewright.linear(x, weight))
            assert tt.linear(x, weight, out=out) is out


def test_lazily_negated_tensors_are_resolved():
    z = torch.randn(3, 16, dtype=torch.complex64)
    x, weight = z.conj().imag, torch.randn(8, 16)
    assert x.is_neg()
    torch.testing.assert_close(tt.linear(x, weight), functional.linear(x, weight), rtol=1e-4, atol=1e-4)
