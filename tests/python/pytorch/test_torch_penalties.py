# SPDX-License-Identifier: MIT
"""apply_penalties and transpose against PyTorch: vLLM's formula, in place and not; views, gradients."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import tilewright  # noqa: E402
import tilewright.torch  # noqa: E402  (registers torch.ops.tilewright)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(13)


def bins(tokens, vocabulary):
    counts = torch.zeros(tokens.shape[0], vocabulary + 1, dtype=torch.long)
    return counts.scatter_add_(1, tokens.long(), torch.ones_like(tokens, dtype=torch.long))[:, :vocabulary]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("tokens", [torch.int32, torch.int64])
def test_penalties_are_those_of_vllm(in_place, tokens):
    rows, vocabulary = 4, 9000
    logits = torch.randn(rows, vocabulary)
    prompt = torch.randint(0, vocabulary + 1, (rows, 200)).to(tokens)  # vLLM pads with the vocabulary's size
    output = torch.randint(0, 40, (rows, 300)).to(tokens)
    repetition, presence, frequency = torch.rand(rows) + 0.5, torch.randn(rows), torch.randn(rows)
    counts = bins(output, vocabulary)
    seen = (bins(prompt, vocabulary) > 0) | (counts > 0)
    scale = torch.where(seen, repetition[:, None], torch.ones(rows, vocabulary))
    want = torch.where(logits > 0, logits / scale, logits * scale)
    want = want - frequency[:, None] * counts - presence[:, None] * (counts > 0)
    out = logits if in_place else None
    got = tilewright.apply_penalties(
        logits, prompt, output, repetition=repetition, presence=presence, frequency=frequency, out=out
    )
    assert (got is logits) == in_place
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_counts_are_tokens_that_were_counted():
    logits, output = torch.randn(3, 500), torch.randint(0, 500, (3, 60), dtype=torch.int32)
    frequency = torch.rand(3)
    want = tilewright.apply_penalties(logits, output_tokens=output, frequency=frequency)
    counts = bins(output, 500).int()
    assert torch.equal(tilewright.apply_penalties(logits, output_counts=counts, frequency=frequency), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float8_e4m3fn])
def test_transposes_are_those_of_pytorch(dtype):
    x = (torch.randn(2, 3, 70, 33) * 9).to(dtype)
    assert torch.equal(
        tilewright.transpose(x).view(torch.uint8), x.view(x.dtype).transpose(-1, -2).contiguous().view(torch.uint8)
    )
    # Heads before tokens, from tokens before heads.
    view = x.transpose(0, 1)
    assert torch.equal(
        tilewright.transpose(view).view(torch.uint8), view.transpose(-1, -2).contiguous().view(torch.uint8)
    )


def test_the_gradient_is_the_way_back():
    x = torch.randn(3, 5, 7, requires_grad=True)
    y, weight = torch.ops.tilewright.transpose(x), torch.randn(3, 7, 5)
    (grad,) = torch.autograd.grad((y * weight).sum(), x)
    assert torch.equal(grad, weight.transpose(1, 2))


def test_refusals_name_the_argument():
    with pytest.raises(tilewright.InvalidArgument, match="'presence' has 2 rows, 'logits' has 3"):
        tilewright.apply_penalties(torch.zeros(3, 4), presence=torch.zeros(2))
    with pytest.raises(tilewright.InvalidArgument, match="'x' has rank 1, allowed: 2"):
        tilewright.transpose(torch.zeros(3))
