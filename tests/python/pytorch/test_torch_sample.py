# SPDX-License-Identifier: MIT
"""sample and top_k against PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_greedy_rows_have_the_largest_logit(dtype):
    logits = torch.randn(9, 1003).to(dtype)
    want = logits.float().argmax(-1)
    assert torch.equal(
        logits.gather(1, tilewright.sample(logits, greedy=True).long()[:, None]), logits.gather(1, want[:, None])
    )
    ids = torch.empty(9, dtype=torch.int64)
    cold = tilewright.sample(logits, torch.arange(9), temperature=torch.zeros(9), out=ids)
    assert cold is ids and torch.equal(ids, tilewright.sample(logits, greedy=True).long())


def test_draws_stay_within_what_is_left_and_repeat():
    logits, rows = torch.randn(500) * 3, 4000
    batch, seeds = logits.expand(rows, 500), torch.arange(rows)
    top_k, top_p = torch.full((rows,), 20, dtype=torch.int32), torch.full((rows,), 0.9)
    logarithms = torch.empty(rows)
    ids = tilewright.sample(batch, seeds, top_k=top_k, top_p=top_p, log_probabilities=logarithms)
    shares, order = torch.softmax(logits.double(), 0).sort(descending=True)
    kept = int((shares.cumsum(0) - shares < 0.9 - 1e-5).sum().clamp(max=20)) + 1  # one more may be within rounding
    assert set(ids.tolist()) <= set(order[: min(kept, 20)].tolist())
    torch.testing.assert_close(logarithms, torch.log_softmax(logits, 0)[ids.long()])
    assert torch.equal(ids[7:9], tilewright.sample(batch[7:9], seeds[7:9], top_k=top_k[7:9], top_p=top_p[7:9]))
    assert not torch.equal(ids, tilewright.sample(batch, seeds, offsets=seeds * 0 + 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_top_k_sorts_with_ties_to_the_smaller_index(dtype):
    x = torch.randn(5, 3000).to(dtype)
    values, indices = tilewright.top_k(x, 100)
    want, order = x.float().sort(dim=1, descending=True, stable=True)
    assert torch.equal(values.float(), want[:, :100]) and torch.equal(indices.long(), order[:, :100])
    short, places = tilewright.top_k(x, 4, lengths=torch.tensor([2, 0, 9, 9, 9], dtype=torch.int32))
    assert places[0, 2:].tolist() == [-1, -1] and places[1].tolist() == [-1] * 4 and torch.isinf(short[1]).all()


def test_refusals_name_the_argument():
    with pytest.raises(tilewright.InvalidArgument, match="'seeds' is missing"):
        tilewright.sample(torch.zeros(3, 4))
    with pytest.raises(tilewright.InvalidArgument, match="'top_p' is f64|'top_p'"):
        tilewright.sample(torch.zeros(3, 4), torch.arange(3), top_p=torch.ones(3, dtype=torch.int32))
    with pytest.raises(tilewright.InvalidArgument, match="'k' is 5000, allowed: 1 to 2048"):
        tilewright.top_k(torch.zeros(3, 4), 5000)
