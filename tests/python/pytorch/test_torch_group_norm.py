# SPDX-License-Identifier: MIT
"""group_norm of PyTorch tensors: what F.group_norm gives, in both layouts, with its gradients, compiled and not."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import tilewright.torch  # noqa: E402, F401

functional = torch.nn.functional
ops = torch.ops.tilewright


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)


def images(channels_last, *shape, dtype=torch.float32):
    x = torch.randn(shape).to(dtype)
    return x.contiguous(memory_format=torch.channels_last) if channels_last else x


def expected(x, groups, weight, bias, activation):
    y = functional.group_norm(x, groups, weight, bias)
    return functional.silu(y) if activation == "silu" else y


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_are_those_of_torch_and_keep_the_layout(channels_last, activation, dtype):
    x = images(channels_last, 2, 12, 9, 7, dtype=dtype)
    weight, bias = torch.randn(12), torch.randn(12)
    want = expected(x.float(), 4, weight, bias, activation)
    got = tilewright.group_norm(x, 4, weight, bias, activation=activation)
    assert got.stride() == x.stride() and got.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(got.float(), want, rtol=tolerance, atol=tolerance)
    out = torch.empty_like(x)
    ops.group_norm.into(x, 4, weight, bias, activation=activation, result=out)
    assert torch.equal(out, got)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_torch(channels_last, activation, compiled):
    x, dy = images(channels_last, 2, 12, 9, 7), torch.randn(2, 12, 9, 7)
    weight, bias = torch.randn(12), torch.randn(12)
    found = []
    for function in (
        lambda *t: ops.group_norm(t[0], 4, t[1], t[2], activation=activation),
        lambda *t: expected(t[0], 4, t[1], t[2], activation),
    ):
        tensors = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
        run = torch.compile(function, fullgraph=True, backend="aot_eager") if compiled else function
        run(*tensors).backward(dy)
        found.append([t.grad for t in tensors])
    for got, want in zip(*found):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_opcheck_passes_where_channels_are_last():
    x, weight, bias = images(True, 2, 6, 5, 4), torch.randn(6), torch.randn(6)
    torch.library.opcheck(ops.group_norm.default, (x, 2, weight, bias), {"activation": "silu"})
    torch.library.opcheck(ops.group_norm.default, (x.requires_grad_(), 2, weight.requires_grad_()), {})
    wanted = {"weight_gradient": True, "bias_gradient": True}
    torch.library.opcheck(ops.group_norm_backward.default, (x.detach(), x.detach(), 2, weight.detach(), bias), wanted)


def test_what_needs_no_gradient_has_none():
    x, weight = images(True, 2, 6, 5, 5).requires_grad_(), torch.randn(6)
    ops.group_norm(x, 3, weight).sum().backward()
    assert weight.grad is None and x.grad.shape == x.shape
    dx, dweight, dbias = tilewright.group_norm_backward(x.detach(), x.detach(), 3, weight, dbias=True)
    assert dx.stride() == x.stride() and dweight.shape == dbias.shape == (6,)


def test_other_layouts_are_refused_by_name():
    x = torch.randn(2, 6, 8, 8)
    with pytest.raises(tilewright.InvalidArgument, match="group_norm: argument 'x' has strides"):
        tilewright.group_norm(x[..., ::2], 3)
    with pytest.raises(tilewright.InvalidArgument, match="argument 'groups' is 4, allowed: divisors of the 6 channels"):
        tilewright.group_norm(x, 4)
    with pytest.raises(tilewright.InvalidArgument, match="argument 'activation' is gelu, allowed: none, silu"):
        tilewright.group_norm(x, 3, activation="gelu")


def test_numpy_images_keep_their_layout():
    numpy = pytest.importorskip("numpy")
    x = numpy.random.default_rng(1).standard_normal((2, 5, 4, 6), numpy.float32)
    moved = numpy.moveaxis(x, -1, 1)
    got = tilewright.group_norm(moved, 2)
    assert got.strides == moved.strides
    want = functional.group_norm(torch.from_numpy(moved.copy()), 2).numpy()
    numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
