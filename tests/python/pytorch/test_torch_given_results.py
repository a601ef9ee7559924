# SPDX-License-Identifier: MIT
"""What autograd checks of tensors that stand behind a result which tilewright makes."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

X, Q, TABLE = torch.linspace(-1, 1, 256).view(4, 64), torch.linspace(-1, 1, 64).view(4, 2, 8), torch.ones(4, 4)
WEIGHT, TARGET = torch.ones(64), torch.zeros(4, dtype=torch.int32)
NVFP4 = {"out_dtype": "e2m1", "scale_dtype": "e4m3"}

# By the name of the argument: the call, and the tensor that it writes.
WRITTEN = {
    "residual_out": (lambda t: tilewright.rms_norm(X, residual=X, residual_out=t), torch.empty(4, 64)),
    "scale of a norm": (lambda t: tilewright.layer_norm(X, quant="row", scale=t), torch.empty(4, 1)),
    "scale of act_and_mul": (lambda t: tilewright.act_and_mul(X, quant="row", scale=t), torch.empty(4, 1)),
    "scale of quantize": (lambda t: tilewright.quantize(X, scale=t), torch.empty(4, 1)),
    "tensor_scale": (
        lambda t: tilewright.quantize(X, "group", tensor_scale=t, find_tensor_scale=True, **NVFP4),
        torch.empty(1),
    ),
    "lse": (lambda t: tilewright.cross_entropy(X, TARGET, lse=t), torch.empty(4)),
    "out of cross_entropy": (lambda t: tilewright.cross_entropy(X, TARGET, out=t), torch.empty(4, 64)),
    "indices": (lambda t: tilewright.top_k(X, 2, indices=t), torch.empty(4, 2, dtype=torch.int32)),
    "ids": (lambda t: tilewright.moe_routing(X, 2, ids=t), torch.empty(4, 2, dtype=torch.int32)),
    "log_probabilities": (
        lambda t: tilewright.sample(X, torch.arange(4), log_probabilities=t),
        torch.empty(4),
    ),
    "k_out": (lambda t: tilewright.rope(Q, TABLE, TABLE, k=Q, k_out=t), torch.empty(4, 2, 8)),
    "dweight": (lambda t: tilewright.rms_norm_backward(X, X, WEIGHT, dweight=t), torch.empty(64)),
    "dbias": (lambda t: tilewright.layer_norm_backward(X, X, WEIGHT, dweight=False, dbias=t), torch.empty(64)),
    "dweight of group_norm": (lambda t: tilewright.group_norm_backward(X, X, 2, WEIGHT, dweight=t), torch.empty(64)),
    "dbias of group_norm": (
        lambda t: tilewright.group_norm_backward(X, X, 2, WEIGHT, dweight=False, dbias=t),
        torch.empty(64),
    ),
}
READ = {
    "norm": lambda t: tilewright.rms_norm(X, quant="tensor", scale=t),
    "act_and_mul": lambda t: tilewright.act_and_mul(X, quant="tensor", scale=t),
    "quantize": lambda t: tilewright.quantize(X, "tensor", scale=t),
    "tensor_scale": lambda t: tilewright.quantize(X, "group", tensor_scale=t, **NVFP4),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_autograd_notices_that_a_later_result_is_written(name):
    call, made = WRITTEN[name]
    given = made.clone()
    version = given._version
    call(given)
    assert given._version > version


@pytest.mark.parametrize("name", [name for name in WRITTEN if WRITTEN[name][1].is_floating_point()])
def test_a_later_result_that_requires_grad_is_refused(name):
    call, made = WRITTEN[name]
    with pytest.raises(tilewright.InvalidArgument, match=f"argument '{name.split()[0]}' requires grad"):
        call(made.clone().requires_grad_())
    with torch.no_grad():
        call(made.clone().requires_grad_())


@pytest.mark.parametrize("name", READ)
def test_a_scale_that_is_read_behind_a_result_does_not_lose_its_gradient(name):
    with pytest.raises(tilewright.InvalidArgument, match="scale' requires grad"):
        READ[name](torch.ones(1, requires_grad=True))
    READ[name](torch.ones(1))


def test_backward_raises_where_a_later_result_overwrote_what_it_kept():
    kept = torch.randn(4, 64, requires_grad=True).exp()
    tilewright.rms_norm(X, residual=kept.detach(), residual_out=kept.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()
