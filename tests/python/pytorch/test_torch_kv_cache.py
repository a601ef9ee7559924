# SPDX-License-Identifier: MIT
"""kv_cache_write, mla_cache_write and qk_norm_rope_cache against the same in PyTorch, and as torch operators."""

import pytest
import tilewright

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tilewright.torch", reason="PyTorch is older than 2.4")
ops = torch.ops.tilewright
T, Q, H, D, BLOCKS, BLOCK = 7, 4, 2, 32, 3, 8
SLOTS = [9, 0, -1, 23, 24, 5, 2**32 + 1]  # the third, fifth and last are nobody's
KNOWN = [0, 1, 3, 5]


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(8)
    torch.compiler.reset()


def heads(count, dtype=torch.bfloat16):
    return torch.randn(T, count, D).to(dtype)


def caches(dtype=torch.bfloat16):
    return [torch.zeros(BLOCKS, BLOCK, H, D, dtype=dtype) for _ in range(2)]


def slots(dtype=torch.int64):
    return torch.tensor(SLOTS).to(dtype) if dtype == torch.int64 else torch.tensor(SLOTS[:-1] + [-1], dtype=dtype)


def stored(x, like):
    want = torch.zeros_like(like).view(-1, *like.shape[2:])
    for t in KNOWN:
        want[SLOTS[t]] = x[t].to(like.dtype)
    return want.view_as(like)


def tables(rows=16):
    angles = torch.arange(rows)[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    return angles.cos(), angles.sin()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_tokens_go_to_their_slots_and_nowhere_else(dtype):
    key, value, (key_cache, value_cache) = heads(H), heads(H), caches()
    assert tilewright.kv_cache_write(key, value, key_cache, value_cache, slots(dtype)) is None
    assert torch.equal(key_cache, stored(key, key_cache)) and torch.equal(value_cache, stored(value, value_cache))


def test_slots_may_be_strided_and_caches_permuted():
    key, value, (key_cache, value_cache) = heads(H), heads(H), caches()
    every_other = torch.stack([slots(), slots() * 0], 1)[:, 0]
    hnd = [c.permute(0, 2, 1, 3) for c in (key_cache, value_cache)]
    tilewright.kv_cache_write(key, value, *hnd, every_other, key_layout="hnd", value_layout="hnd")
    assert torch.equal(key_cache, stored(key, key_cache)) and torch.equal(value_cache, stored(value, value_cache))


def test_codes_times_scales_are_the_values_nearly():
    key, value, codes = heads(H), heads(H), caches(torch.int8)
    scales = [torch.zeros(BLOCKS, BLOCK, H) for _ in range(2)]
    tilewright.kv_cache_write(key, value, *codes, slots(), scales="token", key_scale=scales[0], value_scale=scales[1])
    for x, c, s in zip((key, value), codes, scales):
        want = stored(x, torch.zeros(c.shape))
        assert torch.allclose(c * s[..., None], want, atol=want.abs().max().item() / 200)
    one, e4m3 = torch.tensor([0.5]), caches(torch.float8_e4m3fn)
    tilewright.kv_cache_write(key, value, *e4m3, slots(), key_scale=one, value_scale=one)
    assert torch.equal(e4m3[0].float(), stored(key.float() / 0.5, e4m3[0]).float())


def test_mla_rows_hold_both_parts():
    kv_c, k_pe, cache = torch.randn(T, 48), torch.randn(T, 16), torch.zeros(BLOCKS, BLOCK, 64)
    tilewright.mla_cache_write(kv_c, k_pe, cache, slots())
    assert torch.equal(cache, stored(torch.cat([kv_c, k_pe], -1), cache))


def reference(q, weight, cos, sin, positions, eps=1e-6):
    x = q.float()
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    c, s = cos[positions][:, None], sin[positions][:, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def test_queries_and_keys_are_normalised_and_turned():
    packed = torch.randn(T, Q + 2 * H, D)
    q, k, v = packed.split([Q, H, H], 1)
    weights, (cos, sin), positions = torch.rand(2, D) + 0.5, tables(), torch.randint(0, 16, (T,))
    key_cache, value_cache = caches(torch.float32)
    want = reference(q, weights[0], cos, sin, positions), reference(k, weights[1], cos, sin, positions)
    value = v.clone()
    options = {"q_weight": weights[0], "k_weight": weights[1], "cos": cos, "sin": sin, "positions": positions}
    y = tilewright.qk_norm_rope_cache(q, k, v, key_cache, value_cache, slots(), **options, out=q)
    assert y is q
    torch.testing.assert_close(q, want[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(key_cache, stored(want[1], key_cache), rtol=1e-5, atol=1e-5)
    assert torch.equal(value_cache, stored(value, value_cache))


@pytest.mark.parametrize("order", ["runs", "interleaved"])
def test_queries_and_keys_turn_by_several_positions(order):
    q, k, v = torch.randn(T, Q, D), torch.randn(T, H, D), torch.randn(T, H, D)
    (cos, sin), positions = tables(), torch.randint(0, 16, (3, T))
    sections = [cos.shape[1] - 2 * (cos.shape[1] // 3), cos.shape[1] // 3, cos.shape[1] // 3]
    turn = {"positions": positions, "sections": sections, "section_order": order}
    key_cache, value_cache = caches(torch.float32)
    y = ops.qk_norm_rope_cache(q, k, v, key_cache, value_cache, slots(), norm=False, cos=cos, sin=sin, **turn)
    want_q, want_k = tilewright.rope(q, cos, sin, k=k, **turn)
    torch.testing.assert_close(y, want_q, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(key_cache, stored(want_k, key_cache), rtol=1e-5, atol=1e-5)


def test_blocks_are_copied_swapped_and_skipped():
    cache, other = (
        torch.randn(BLOCKS, BLOCK, H, D).to(torch.float8_e4m3fn),
        torch.zeros(BLOCKS, BLOCK, H, D).to(torch.float8_e4m3fn),
    )
    before = cache.clone()
    ops.kv_cache_copy_blocks(cache, torch.tensor([[0, 2], [-1, 1]]))
    want = before.view(torch.uint8).clone()
    want[2] = want[0]
    assert torch.equal(cache.view(torch.uint8), want)
    ops.kv_cache_swap_blocks(cache, other, torch.tensor([[2, 0], [1, -1]], dtype=torch.int32))
    assert torch.equal(other[0].view(torch.uint8), want[0]) and not other[1:].view(torch.uint8).any()


@pytest.mark.parametrize("layout", ["nhd", "hnd"])
def test_tokens_of_requests_are_gathered_and_widened(layout):
    cache, scale = torch.randn(BLOCKS, BLOCK, H, D).to(torch.float8_e4m3fn), torch.tensor([0.5])
    table, lengths = torch.tensor([[2, 0], [1, -1]], dtype=torch.int32), torch.tensor([0, 11, 15], dtype=torch.int32)
    out = torch.zeros(15, H, D, dtype=torch.bfloat16)
    view = cache if layout == "nhd" else cache.permute(0, 2, 1, 3)
    tilewright.kv_cache_gather(view, table, lengths, out, layout=layout, scale=scale)
    rows = torch.cat([cache[2], cache[0][:3], cache[1][:4]])
    assert torch.equal(out, (rows.float() * 0.5).to(torch.bfloat16))


def cases():
    key, value, one = heads(H), heads(H), torch.tensor([0.02])
    scales = [torch.zeros(BLOCKS, BLOCK, H) for _ in range(2)]
    q, (cos, sin) = heads(Q), tables()
    angles = {"cos": cos, "sin": sin, "positions": torch.arange(T)}
    codes = caches(torch.int8)
    return {
        "kv_cache_write": (ops.kv_cache_write, (key, value, *caches(), slots()), {}),
        "kv_cache_write-key": (ops.kv_cache_write, (key, None, caches()[0], None, slots()), {}),
        "kv_cache_write-scale": (
            ops.kv_cache_write,
            (key, value, *codes, slots()),
            {"key_scale": one, "value_scale": one},
        ),
        "kv_cache_write_quantize": (ops.kv_cache_write_quantize, (key, value, *codes, slots(), *scales), {}),
        "mla_cache_write": (
            ops.mla_cache_write,
            (torch.randn(T, 48), torch.randn(T, 16), torch.zeros(BLOCKS, BLOCK, 64), slots()),
            {},
        ),
        "kv_cache_copy_blocks": (ops.kv_cache_copy_blocks, (torch.randn(4, 3, 8), torch.tensor([[0, 2], [-1, 1]])), {}),
        "kv_cache_swap_blocks": (
            ops.kv_cache_swap_blocks,
            (torch.randn(4, 24), torch.randn(3, 24), torch.tensor([[3, 2], [1, 0]])),
            {},
        ),
        "kv_cache_gather": (
            ops.kv_cache_gather,
            (
                torch.randn(4, 2, 16),
                torch.tensor([[3, 1]], dtype=torch.int32),
                torch.tensor([0, 3], dtype=torch.int32),
                torch.zeros(3, 16),
            ),
            {},
        ),
        "qk_norm_rope_cache": (ops.qk_norm_rope_cache, (q, key, value, *caches(), slots()), angles),
        "qk_norm_rope_cache-codes": (
            ops.qk_norm_rope_cache,
            (q, key, value, *codes, slots()),
            {"norm": False, "key_scale": one, "value_scale": one, "q_scale": one, "out_dtype": torch.int8},
        ),
    }


@pytest.mark.parametrize("case", cases())
def test_opcheck_passes_and_a_compiled_call_has_the_same_bits(case):
    op, arguments, options = cases()[case]
    torch.library.opcheck(op.default, arguments, options)

    def run(function):
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        result = function(*given, **options)
        return [t for t in (*given, result) if isinstance(t, torch.Tensor)]

    compiled = torch.compile(lambda *a, **o: op(*a, **o), fullgraph=True, backend="aot_eager")
    got, want = run(compiled), run(op)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert torch.equal(g.view(torch.uint8), w.view(torch.uint8))


def test_into_writes_the_given_queries():
    q, key, value = heads(Q), heads(H), heads(H)
    want = ops.qk_norm_rope_cache(q, key, value, *caches(), slots())
    torch.library.opcheck(
        ops.qk_norm_rope_cache.into, (q, key, value, *caches(), slots()), {"q_out": torch.empty_like(q)}
    )
    ops.qk_norm_rope_cache.into(q, key, value, *caches(), slots(), q_out=q)
    assert torch.equal(q, want)


def test_gradients_are_refused():
    key = heads(H).requires_grad_()
    with pytest.raises(tilewright.InvalidArgument, match="has no gradient"):
        ops.kv_cache_write(key, heads(H), *caches(), slots())


def test_refusals_name_argument_and_value():
    with pytest.raises(tilewright.InvalidArgument, match="'key_layout' is nchw, allowed: 'nhd', 'hnd'"):
        tilewright.kv_cache_write(heads(H), heads(H), *caches(), slots(), key_layout="nchw")
