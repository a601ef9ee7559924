# SPDX-License-Identifier: MIT
"""moe_routing against the lines of PyTorch that models have for it."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(21)


def logits(tokens, experts, dtype):
    """No two of a token are equal: PyTorch's topk promises nothing of ties."""
    ranks = torch.rand(tokens, experts).argsort(-1)
    return ((ranks - experts // 2) / 16).to(dtype)


def check(got, weights, ids):
    assert got[0].dtype == torch.float32 and got[1].dtype == torch.int32
    torch.testing.assert_close(got[1].long(), ids)
    torch.testing.assert_close(got[0], weights.float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("experts, k", [(8, 2), (60, 4), (128, 8)])
def test_softmax_of_all_and_of_the_chosen(dtype, experts, k):
    x = logits(37, experts, dtype)
    weights, ids = torch.softmax(x.float(), -1).topk(k)
    check(tilewright.moe_routing(x, k), weights, ids)
    check(tilewright.moe_routing(x, k, renormalise=True), weights / weights.sum(-1, keepdim=True), ids)
    chosen, ids = x.float().topk(k)
    check(tilewright.moe_routing(x, k, renormalise=True), torch.softmax(chosen, -1), ids)
    check(tilewright.moe_routing(x, k, score="sigmoid"), torch.sigmoid(chosen), ids)
    roots = torch.nn.functional.softplus(chosen).sqrt()
    check(tilewright.moe_routing(x, k, score="sqrt_softplus", scale=2), 2 * roots, ids)


def deepseek(x, bias, k, groups, topk_groups, scale):
    """DeepSeek-V3's, with minus infinity where groups are masked."""
    scores = x.float().sigmoid()
    biased = scores + bias
    best = biased.reshape(len(x), groups, -1).topk(2).values.sum(-1).topk(topk_groups).indices
    closed = torch.ones(len(x), groups).scatter(1, best, 0).bool().repeat_interleave(x.shape[1] // groups, 1)
    ids = biased.masked_fill(closed, -float("inf")).topk(k).indices
    weights = scores.gather(1, ids)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * scale, ids


@pytest.mark.parametrize("dtype", DTYPES)
def test_deepseek_v3(dtype):
    x = logits(33, 256, dtype)
    bias = torch.randn(256) - 3
    got = tilewright.moe_routing(x, 8, bias=bias, score="sigmoid", groups=8, topk_groups=4, renormalise=True, scale=2.5)
    check(got, *deepseek(x, bias, 8, 8, 4, 2.5))


def test_local_experts_and_strides():
    wide = logits(9, 80, torch.float32)
    x = wide[:, :64]
    weights, ids = tilewright.moe_routing(x.contiguous(), 6)
    assert torch.equal(tilewright.moe_routing(x, 6)[1], ids)
    local = tilewright.moe_routing(x, 6, first_expert=16, local_experts=16)
    mine = (ids >= 16) & (ids < 32)
    assert torch.equal(local[1], torch.where(mine, ids - 16, -1))
    assert torch.equal(local[0], torch.where(mine, weights, 0.0))
    numpy = pytest.importorskip("numpy")
    assert numpy.array_equal(tilewright.moe_routing(x.contiguous().numpy(), 6)[1], ids.numpy())


def test_refusals_are_exceptions():
    with pytest.raises(tilewright.InvalidArgument, match="'k' is 5, allowed: 1 to 4"):
        tilewright.moe_routing(torch.zeros(3, 4), 5)
    with pytest.raises(tilewright.InvalidArgument, match="'score' is tanh, allowed: 'softmax'"):
        tilewright.moe_routing(torch.zeros(3, 4), 2, score="tanh")
    with pytest.raises(tilewright.InvalidArgument, match="rank 1"):
        tilewright.moe_routing(torch.zeros(3), 2)
