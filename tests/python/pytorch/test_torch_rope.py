# SPDX-License-Identifier: MIT
"""rope against its formula in PyTorch: both orders of pairs, queries and keys together, in place, and back."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


def tables(rows, dims):
    angles = torch.arange(rows)[:, None] * 10000.0 ** (-torch.arange(0, dims, 2) / dims)
    return angles.cos(), angles.sin()


def turned(x, cos, sin, interleaved):
    dims = 2 * cos.shape[-1]
    x, rest = x.float()[..., :dims], x.float()[..., dims:]
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    first, second = a * cos - b * sin, b * cos + a * sin
    both = torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)
    return torch.cat((both, rest), -1)


def check(got, want):
    assert got.shape == want.shape
    torch.testing.assert_close(got.float(), want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dims", [64, 48])
def test_queries_and_keys_turn_by_their_positions(dtype, interleaved, dims):
    q, k = torch.randn(2, 7, 6, 64, dtype=dtype), torch.randn(2, 7, 2, 64, dtype=dtype)
    cos, sin = tables(40, dims)
    positions = torch.randint(0, 40, (2, 7), dtype=torch.int32)
    c, s = cos[positions.long()][:, :, None], sin[positions.long()][:, :, None]
    got_q, got_k = tilewright.rope(q, cos, sin, k=k, positions=positions, interleaved=interleaved)
    check(got_q, turned(q, c, s, interleaved))
    check(got_k, turned(k, c, s, interleaved))
    # Heads before tokens, as a view; without positions tokens are counted.
    got = tilewright.rope(q.transpose(1, 2).contiguous().transpose(1, 2), cos, sin, interleaved=interleaved)
    check(got, turned(q, cos[:7, None], sin[:7, None], interleaved))


def test_packed_heads_turn_in_place_and_back():
    qkv = torch.randn(9, 8, 32)
    before = qkv.clone()
    q, k = qkv[:, :4], qkv[:, 4:6]
    cos, sin = tables(9, 32)
    tilewright.rope(q, cos, sin, k=k, out=q, k_out=k)
    check(qkv[:, :6], turned(before[:, :6], cos[:, None], sin[:, None], False))
    assert torch.equal(qkv[:, 6:], before[:, 6:])
    tilewright.rope(q, cos, sin, k=k, out=q, k_out=k, inverse=True)
    torch.testing.assert_close(qkv, before, rtol=1e-5, atol=1e-5)


def test_positions_of_64_bits_are_taken():
    q, positions = torch.randn(3, 2, 16), torch.tensor([4, 0, 2])
    cos, sin = tables(5, 16)
    want = turned(q, cos[positions, None], sin[positions, None], False)
    check(tilewright.rope(q, cos, sin, positions=positions), want)


def test_refusals_are_exceptions():
    cos, sin = tables(5, 16)
    with pytest.raises(tilewright.InvalidArgument, match="expected one dtype"):
        tilewright.rope(torch.randn(3, 2, 16), cos, sin, k=torch.randn(3, 1, 16, dtype=torch.float16))
