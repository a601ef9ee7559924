# SPDX-License-Identifier: MIT
"""rope where tokens have several positions, as models of images and video turn them, and where sequences are packed."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import tilewright.torch  # noqa: E402  (registers torch.ops.tilewright)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(12)


def frequencies(dims):
    return 10000.0 ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)


def tables(rows, *dims):
    angles = torch.cat([torch.arange(rows)[:, None] * frequencies(d) for d in dims], -1)
    return angles.cos().float(), angles.sin().float()


def halves_turned(x, angles):
    a, b = x.double().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def check(got, want):
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


# Angles [tokens, 1, pairs] as transformers' Qwen2-VL and Qwen3-VL make them from [axes, tokens].
def mrope(positions, sections, interleaved):
    angles = positions.double()[:, :, None] * frequencies(2 * sum(sections))
    if not interleaved:
        parts = angles.split(sections, -1)
        return torch.cat([part[i] for i, part in enumerate(parts)], -1)[:, None]
    mixed = angles[0].clone()
    for axis, offset in enumerate((1, 2), start=1):
        take = slice(offset, sections[axis] * 3, 3)
        mixed[:, take] = angles[axis][:, take]
    return mixed[:, None]


@pytest.mark.parametrize("sections, order", [([16, 24, 24], "runs"), ([24, 20, 20], "interleaved")])
def test_mrope_is_that_of_qwen(sections, order):
    q, k = torch.randn(9, 6, 128), torch.randn(9, 2, 128)
    positions = torch.randint(0, 50, (3, 9))
    cos, sin = tables(50, 128)
    got_q, got_k = tilewright.rope(q, cos, sin, k=k, positions=positions, sections=sections, section_order=order)
    angles = mrope(positions, sections, order == "interleaved")
    check(got_q, halves_turned(q, angles))
    check(got_k, halves_turned(k, angles))


def test_parts_of_a_head_turn_by_frame_height_and_width():
    q, positions = torch.randn(2, 12, 3, 96), torch.randint(0, 20, (3, 2, 12), dtype=torch.int32)
    cos, sin = tables(20, 32, 40, 24)
    got = tilewright.rope(q, cos, sin, positions=positions, sections=(16, 20, 12), section_order="parts")
    parts = [
        halves_turned(x, positions[axis].double()[..., None, None] * frequencies(x.shape[-1]))
        for axis, x in enumerate(q.split((32, 40, 24), -1))
    ]
    check(got, torch.cat(parts, -1))


def test_packed_sequences_count_their_tokens_from_an_offset():
    q, lengths = torch.randn(10, 2, 16), torch.tensor([0, 3, 3, 8], dtype=torch.int32)
    offsets = torch.tensor([5, 1, 2], dtype=torch.int32)
    cos, sin = tables(30, 16)
    positions = torch.tensor([5, 6, 7, 2, 3, 4, 5, 6, 0, 0])
    want = halves_turned(q, positions.double()[:, None, None] * frequencies(16))
    check(tilewright.rope(q, cos, sin, cumulative_lengths=lengths, offsets=offsets), want)


def test_all_queries_of_dual_chunk_attention_are_one_call():
    chunk, local, rows = 12, 4, 40
    length, p = chunk - local, torch.arange(rows)
    of_forms = (
        p % length,
        (p % length + length).clamp(max=chunk),
        torch.full_like(p, min(2 * length - 1, chunk)),
        p % length + length,
        p % length + chunk,
    )
    cos, sin = (t[torch.cat(of_forms)] for t in tables(2 * chunk, 16))  # [5 rows, pairs]
    q, positions = torch.randn(7, 3, 16), torch.randint(0, rows, (7,))
    of_rows = (positions[:, None] + rows * torch.arange(5)).int()
    out = torch.empty(7, 3, 5 * 16)  # as vLLM has them: one behind the other
    views = out.view(7, 3, 5, 16).transpose(1, 2)
    tilewright.rope(q[:, None].expand(7, 5, 3, 16), cos, sin, positions=of_rows, out=views)
    for form, at in enumerate(of_forms):
        want = halves_turned(q, at[positions].double()[:, None, None] * frequencies(16))
        check(out[..., 16 * form : 16 * (form + 1)], want)


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_turn_back(packed):
    q, k = (torch.randn(6, heads, 32, requires_grad=True) for heads in (3, 1))
    cos, sin = tables(12, 32)
    where = {"positions": torch.randint(0, 12, (2, 6), dtype=torch.int32), "sections": [10, 6]}
    if packed:
        where = {"cumulative_lengths": torch.tensor([0, 4, 6], dtype=torch.int32)}
    turned = torch.ops.tilewright.rope_qk(q, k, cos, sin, **where)
    grads = torch.autograd.grad(turned, (q, k), (turned[0].detach(), turned[1].detach()))
    torch.testing.assert_close(grads[0], q.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads[1], k.detach(), rtol=1e-5, atol=1e-5)

    compiled = torch.compile(
        lambda x: torch.ops.tilewright.rope(x, cos, sin, **where), fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(q), turned[0])


def test_sections_are_refused_by_name():
    cos, sin = tables(5, 16)
    with pytest.raises(
        tilewright.InvalidArgument, match="'section_order' is rows, allowed: 'runs', 'interleaved', 'parts'"
    ):
        tilewright.rope(torch.randn(3, 2, 16), cos, sin, sections=[4, 4], section_order="rows")
    with pytest.raises(tilewright.InvalidArgument, match="up to 4 numbers"):
        tilewright.rope(torch.randn(3, 2, 16), cos, sin, sections=[2, 2, 2, 1, 1])
