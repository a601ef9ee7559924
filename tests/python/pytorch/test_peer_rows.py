# SPDX-License-Identifier: MIT
"""What scripts/peer_torch_rows.py times beside suite `memory` is the function that tilewright computes."""

import pathlib
import sys

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
from peer_torch_rows import RowProblem  # noqa: E402  a script's, beside it


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(2)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors
    yield
    torch.set_num_threads(threads)


def problem_of(text, m, n):
    op, _, fields = text.partition(" ")
    fields = fields if op == "rope" else f"m={m}:n={n}:{fields}"
    return RowProblem(torch, f"{op};{fields.replace(':', ';')}", m, n, rotations=2)


def floats(codes, scale):
    values = codes.float()
    if scale.numel() == 1:
        return values * scale
    groups = scale.shape[-1]
    return (values.unflatten(-1, (groups, -1)) * scale.unsqueeze(-1)).flatten(-2)


NORMS = [
    ("x=bf16:weight=bf16:out=bf16", {}),
    ("x=f32:weight=f32:out=f32", {}),
    ("x=bf16:residual=bf16:weight=bf16:bias=bf16:out=bf16", {}),
    ("x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group:scale=f32:group=128", {"quant": "group"}),
    ("x=bf16:weight=bf16:out=i8:quant=row:scale=f32", {"quant": "row", "out_dtype": "i8"}),
]


@pytest.mark.parametrize("op", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize(("text", "options"), NORMS)
def test_norms(op, text, options):
    problem = problem_of(f"{op} {text}", 300, 256)
    got = problem.function(None, problem.weights[1])
    if problem.residual is not None:
        options = {**options, "residual": problem.residual}
    eps = 1e-6 if op == "rms_norm" else 1e-5
    want = getattr(tilewright, op)(problem.weights[0][0], eps=eps, **problem.columns, **options)
    want = want if isinstance(want, tuple) else (want,)
    if "quant" in options:
        assert got[0].dtype == want[0].dtype and got[1].shape == want[-1].shape
        got, want = [floats(got[0], got[1]), got[-1]], [floats(want[0], want[-1]), *want[1:-1]]
    for g, w in zip(got, want):  # roundings of bf16 and of codes stand in other places
        torch.testing.assert_close(g.float(), w.float(), rtol=0.13, atol=0.06)
        assert (g.float() - w.float()).abs().mean() < 0.02


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("gate=separated:activation=silu:out=bf16", {}),
        ("gate=separated:activation=gelu_tanh:out=bf16", {"activation": "gelu_tanh"}),
        ("gate=interleaved:activation=silu:out=bf16", {"gate": "interleaved"}),
        ("activation=relu:squared=1:out=bf16", {"activation": "relu", "squared": True, "gate": "none"}),
        ("gate=separated:activation=silu:out=e4m3:quant=group:scale=f32:group=128", {"quant": "group"}),
    ],
)
def test_activations(text, options):
    problem = problem_of(f"act_and_mul x=bf16:{text}", 300, 256)
    (x,) = problem.weights[0]
    got, want = problem.function(None, (x,)), tilewright.act_and_mul(x, **options)
    got, want = (floats(*got[:2]), floats(*want)) if "quant" in options else (got[0], want)
    torch.testing.assert_close(got.float(), want.float(), rtol=0.13, atol=0.06)
    assert (got.float() - want.float()).abs().mean() < 0.02


@pytest.mark.parametrize("text", ["dweight=f32", "dweight=f32:dbias=f32:dresidual=1"])
@pytest.mark.parametrize("op", ["rms_norm_backward", "layer_norm_backward"])
def test_gradients_of_norms(op, text):
    problem = problem_of(f"{op} x=f32:residual=f32:weight=f32:out=f32:{text}", 300, 256)
    (x,) = problem.weights[0]
    dbias = "dbias" in text
    got = problem.function(None, (x,))
    eps = 1e-6 if op == "rms_norm_backward" else 1e-5
    want = getattr(tilewright, op)(x, problem.dy, **problem.columns, eps=eps, dresidual=problem.added, dbias=dbias)
    for g, w in zip(got, want):
        assert (g is None) == (w is None)
        if g is not None:
            torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_gradients_of_activations(activation):
    text = f"act_and_mul_backward x=bf16:residual=bf16:gate=separated:activation={activation}:out=bf16"
    problem = problem_of(text, 300, 256)
    (x,) = problem.weights[0]
    want = tilewright.act_and_mul_backward(x, problem.dy, activation)
    torch.testing.assert_close(problem.function(None, (x,))[0].float(), want.float(), rtol=0.03, atol=0.06)


def test_the_loss_and_its_gradient():
    problem = problem_of("cross_entropy x=f32:out=f32", 300, 256)
    (x,) = problem.weights[1]
    loss, gradient = problem.function(None, (x,))
    want = tilewright.cross_entropy(x, problem.targets)
    torch.testing.assert_close(loss, want[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient, want[1], rtol=1e-4, atol=1e-6)
    with torch.inference_mode():  # as the script calls it
        torch.testing.assert_close(problem.function(None, problem.weights[0])[1], gradient)


@pytest.mark.parametrize("log", [False, True])
def test_softmax(log):
    problem = problem_of("softmax x=bf16:out=f32" + (":log=1" if log else ""), 300, 256)
    got, want = (
        problem.function(None, problem.weights[0])[0],
        tilewright.softmax(*problem.weights[0], dtype="f32", log=log),
    )
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quant", ["row", "group", "dynamic", "block"])
@pytest.mark.parametrize("out", ["e4m3", "i8"])
def test_quantisers(quant, out):
    problem = problem_of(f"quantize x=bf16:out={out}:quant={quant}:scale=f32:group=128", 256, 256)
    (x,) = problem.weights[0]
    codes, scale, _ = problem.function(None, (x,))
    want_codes, want_scale = tilewright.quantize(x, quant, out_dtype=out)
    assert codes.dtype == want_codes.dtype
    torch.testing.assert_close(scale.reshape(want_scale.shape), want_scale)
    # Of the quotient and of the product with 1 / scale a few lie on two sides of a rounding.
    assert (codes.view(torch.uint8) == want_codes.view(torch.uint8)).float().mean() > 0.99


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved):
    text = "rope m=1x300x5:n=64:x=bf16:residual=bf16:out=bf16:heads=4:dims=64:table=f32:table_rows=300:st=32"
    problem = problem_of(text + (":interleaved=1" if interleaved else ""), 1500, 64)
    q, k = problem.weights[0]
    assert q.shape == (300, 4, 64) and k.shape == (300, 1, 64)
    got = problem.function(None, (q, k))
    for g, w in zip(got, tilewright.rope(q, *problem.tables, k=k, interleaved=interleaved)):
        torch.testing.assert_close(g.float(), w.float(), rtol=0.02, atol=0.04)


@pytest.mark.parametrize(
    "text",
    [
        "rms_norm x=bf16:smooth=bf16:out=bf16",
        "rms_norm x=bf16:out=e2m1:quant=group:scale=e8m0:group=32",
        "rope m=1x300x5:n=64:x=bf16:residual=bf16:out=bf16:heads=4:dims=32:table=f32:table_rows=300:st=16",
    ],
)
def test_what_is_not_timed_is_refused(text):
    with pytest.raises(ValueError, match="not timed in torch"):
        problem_of(text, 300, 64)
