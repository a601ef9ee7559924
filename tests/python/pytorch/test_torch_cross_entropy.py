# SPDX-License-Identifier: MIT
"""cross_entropy and its gradient against PyTorch's own."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
functional, ops = torch.nn.functional, torch.ops.tilewright
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(12)
    torch.compiler.reset()


def data(rows, n, dtype=torch.float32, index=torch.int64):
    target = torch.randint(0, n, (rows,), dtype=index)
    target[1::3] = -100
    return 3 * torch.randn(rows, n, dtype=dtype), target


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_losses_and_gradients_are_pytorchs(dtype, index, smoothing):
    x, target = data(7, 301, dtype, index)
    twin = x.detach().float().clone().requires_grad_()
    want = functional.cross_entropy(twin, target.long(), reduction="none", label_smoothing=smoothing)
    want.sum().backward()
    loss, gradient = tilewright.cross_entropy(x, target, label_smoothing=smoothing)
    torch.testing.assert_close(loss, want.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.float(), twin.grad, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert gradient.dtype == dtype
    # In place, and of a sum of the squares of logarithms.
    lse = torch.empty(7)
    loss, same = tilewright.cross_entropy(x, target, z_loss=0.5, lse=lse, out=x)
    assert same is x
    torch.testing.assert_close(lse, twin.detach().logsumexp(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_backward_is_pytorchs(reduction, shape, scale):
    x, target = data(6, 66)
    got, want = (x.clone().requires_grad_() for _ in range(2))
    one = tilewright.torch.cross_entropy(got.view(*shape, 66), target.view(shape), reduction=reduction)
    other = functional.cross_entropy(want, target, reduction=reduction).view(one.shape)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    (scale * one).sum().backward()
    (scale * other).sum().backward()
    torch.testing.assert_close(got.grad, want.grad, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        again = tilewright.torch.cross_entropy(x.view(*shape, 66), target.view(shape), reduction=reduction)
    assert torch.equal(again, one.detach())


def test_z_loss_has_its_gradient():
    x, target = data(6, 66)
    got, want = (x.clone().requires_grad_() for _ in range(2))
    tilewright.torch.cross_entropy(got, target, z_loss=0.01).backward()
    kept = target != -100
    total = functional.cross_entropy(want, target) + 0.01 * (want.logsumexp(-1)[kept] ** 2).mean()
    total.backward()
    torch.testing.assert_close(got.grad, want.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_scaled_mean_of_narrow_logits_is_neither_cut_to_zero_nor_infinite(dtype, compiled):
    x, target = torch.randn(512, 4096).to(dtype), torch.randint(0, 4096, (512,))
    want = x.float().requires_grad_()
    functional.cross_entropy(want, target).backward()
    got = x.clone().requires_grad_()
    step = tilewright.torch.cross_entropy
    step = torch.compile(step, fullgraph=True, backend="aot_eager") if compiled else step
    (step(got, target) * 65536).backward()
    assert got.grad.dtype == dtype
    error = (got.grad.float() / 65536 - want.grad).norm() / want.grad.norm()
    assert error < (3e-4 if dtype == torch.float16 else 4e-3)
    assert (got.grad != 0).all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_gradient_that_would_be_followed_is_refused_not_lost(reduction):
    x, target = data(5, 40)
    x.requires_grad_()
    loss = tilewright.torch.cross_entropy(x, target, reduction=reduction).sum()
    with pytest.raises(tilewright.InvalidArgument, match="cross_entropy: .* its gradient has none of its own"):
        torch.autograd.grad(loss + x.square().sum(), x, create_graph=True)
    (again,) = torch.autograd.grad(tilewright.torch.cross_entropy(x, target), x)
    assert not again.requires_grad


def test_opcheck_passes_and_a_compiled_loss_is_the_same():
    x, target = data(5, 40)
    torch.library.opcheck(ops.cross_entropy.default, (x, target))
    torch.library.opcheck(ops.cross_entropy_gradient.default, (x, target), {"factor": torch.tensor([0.5])})
    grad = torch.empty(5, 40)
    loss = torch.empty(5)
    ops.cross_entropy_gradient.into(x, target, loss=loss, gradient=grad)
    assert all(torch.equal(a, b) for a, b in zip((loss, grad), ops.cross_entropy_gradient(x, target)))

    def step(x):
        return tilewright.torch.cross_entropy(x, target)

    got, want = (x.clone().requires_grad_() for _ in range(2))
    one, other = torch.compile(step, fullgraph=True, backend="aot_eager")(got), step(want)
    torch.testing.assert_close(one, other)
    one.backward()
    other.backward()
    torch.testing.assert_close(got.grad, want.grad)


def test_refusals_are_exceptions():
    x, target = data(5, 40)
    with pytest.raises(tilewright.InvalidArgument, match="'label_smoothing' is 3"):
        tilewright.cross_entropy(x, target, label_smoothing=3)
    with pytest.raises(tilewright.InvalidArgument, match="'reduction' is 'max'"):
        tilewright.torch.cross_entropy(x, target, reduction="max")
    with pytest.raises(tilewright.InvalidArgument, match="'target' has shape"):
        tilewright.cross_entropy(x, target[:3])
