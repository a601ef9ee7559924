# SPDX-License-Identifier: MIT
"""Forward-mode derivatives and the transforms of torch.func."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
forward_ad = torch.autograd.forward_ad
ops = torch.ops.tilewright
WEIGHT, TARGET = torch.linspace(-1, 1, 20).view(5, 4), torch.tensor([0, 1, 2])

# By the name of the operator.
OPERATORS = {
    "linear": lambda x: tilewright.torch.linear(x, WEIGHT),
    "linear_packed": tilewright.torch.Linear(4, 2),
    "gemm": lambda x: ops.gemm(WEIGHT, x.mT, bias=torch.zeros(3), steps=["add"], step_tensors=[torch.zeros(5, 3)]),
    "rms_norm": lambda x: ops.rms_norm(x),
    "softmax": lambda x: ops.softmax(x),
    "cross_entropy": lambda x: ops.cross_entropy(x, TARGET),
}
FUNCTIONS = {
    "linear": lambda x: tilewright.linear(x, WEIGHT),
    "rms_norm": lambda x: tilewright.rms_norm(x),
    "group_norm": lambda x: tilewright.group_norm(x, 2),
}


def given():
    torch.manual_seed(15)
    return torch.randn(3, 4), torch.randn(3, 4)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_tangent_is_refused_with_the_operators_name_not_lost(name, requires_grad):
    x, tangent = given()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.requires_grad_(requires_grad), tangent)
        with pytest.raises(tilewright.InvalidArgument, match=f"^{name}: an argument has a tangent"):
            OPERATORS[name](dual)
        with torch.no_grad(), pytest.raises(tilewright.InvalidArgument, match=f"^{name}: an argument has a tangent"):
            OPERATORS[name](dual)
        OPERATORS[name](x.detach())


def test_a_tangent_in_a_list_is_refused_not_lost():
    x, tangent = given()
    with forward_ad.dual_level(), pytest.raises(tilewright.InvalidArgument, match="gemm: an argument has a tangent"):
        ops.gemm(x, WEIGHT.mT[:, :4], steps=["add"], step_tensors=[forward_ad.make_dual(x, tangent)])


@pytest.mark.parametrize("transform", ["jvp", "jacfwd"])
@pytest.mark.parametrize("name", OPERATORS)
def test_transforms_of_forward_mode_are_refused_not_zero(name, transform):
    x, tangent = given()
    with pytest.raises(tilewright.InvalidArgument, match=f"^{name}: an argument has a tangent"):
        if transform == "jvp":
            torch.func.jvp(OPERATORS[name], (x,), (tangent,))
        else:
            torch.func.jacfwd(OPERATORS[name])(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_without_autograd_refuse_a_tangent(name):
    x, tangent = given()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        for grad in (torch.enable_grad, torch.no_grad):
            with grad(), pytest.raises(tilewright.InvalidArgument, match=f"^{name}: argument 'x' has a tangent"):
                FUNCTIONS[name](dual)
        FUNCTIONS[name](x)


def test_a_functions_own_derivative_may_call_what_has_none():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return tilewright.linear(x, WEIGHT)

        @staticmethod
        def jvp(ctx, tangent):
            return tilewright.linear(tangent, WEIGHT)

    x, tangent = given()
    with forward_ad.dual_level():
        y = forward_ad.unpack_dual(Scaled.apply(forward_ad.make_dual(x, tangent)))
    torch.testing.assert_close(y.tangent, tangent @ WEIGHT.mT)


def test_vmap_calls_an_operator_for_each_entry_and_keeps_gradients():
    x = torch.randn(3, 2, 4, requires_grad=True)
    y = torch.func.vmap(lambda one: tilewright.torch.linear(one, WEIGHT))(x)
    torch.testing.assert_close(y, x @ WEIGHT.mT)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, WEIGHT.sum(0).expand(3, 2, 4))


def test_transforms_of_reverse_mode_are_refused():
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda x: tilewright.torch.linear(x, WEIGHT).sum())(given()[0])
