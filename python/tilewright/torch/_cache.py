# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: operators that write to a paged KV cache. Schemas say what is mutated: the caches, and of
operators with `_quantize` behind their name the scales, which are found. None has a gradient."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from . import _autograd
from ._operators import _define
from ._rows import _PLAN

_NO_GRADIENT = "what it writes to the cache has no gradient: detach what it reads"
_CACHES = "Tensor(a!) key_cache, Tensor(b!)? value_cache, Tensor slot_mapping"
_LAYOUTS = 'str key_layout="nhd", str value_layout="nhd"'
_READ = "str? scales=None, Tensor? key_scale=None, Tensor? value_scale=None"


def _kv_cache_write_quantize(*args: Any, **options: Any) -> None:
    *rest, key_scale, value_scale = args
    _core.kv_cache_write(*rest, scales="token", key_scale=key_scale, value_scale=value_scale, **options)


def _fake_nothing(*args: Any, **options: Any) -> None:
    return None


def _fake_q(q: torch.Tensor, *args: Any, out_dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    torch._check(q.dim() == 3, lambda: "qk_norm_rope_cache: argument 'q' needs rank 3: [T, heads, D]")
    codes = options.get("q_scale") is not None
    return q.new_empty(q.shape, dtype=out_dtype or (torch.float8_e4m3fn if codes else q.dtype))


def _into(*args: Any, q_out: torch.Tensor, **options: Any) -> None:
    _core.qk_norm_rope_cache(*args, out=q_out, **options)


def _define_cache(schema: str, kernel: Any, fake: Any) -> None:
    _define(schema, kernel, fake, _autograd.refuser(schema.split("(")[0], _NO_GRADIENT))


_define_cache(
    f"kv_cache_write(Tensor key, Tensor? value, {_CACHES}, *, {_LAYOUTS}, {_READ}, {_PLAN}) -> ()",
    _core.kv_cache_write,
    _fake_nothing,
)
_define_cache(
    f"kv_cache_write_quantize(Tensor key, Tensor? value, {_CACHES}, Tensor(c!) key_scale, Tensor(d!)? value_scale, *, "
    f"{_LAYOUTS}, {_PLAN}) -> ()",
    _kv_cache_write_quantize,
    _fake_nothing,
)
_define_cache(
    "mla_cache_write(Tensor kv_c, Tensor k_pe, Tensor(a!) cache, Tensor slot_mapping, *, Tensor? scale=None, "
    f"{_PLAN}) -> ()",
    _core.mla_cache_write,
    _fake_nothing,
)


def _kv_cache_copy_blocks(cache: torch.Tensor, mapping: torch.Tensor, **options: Any) -> None:
    _core.kv_cache_copy(cache, cache, mapping, **options)


_define_cache(
    f"kv_cache_copy_blocks(Tensor(a!) cache, Tensor mapping, *, {_PLAN}) -> ()", _kv_cache_copy_blocks, _fake_nothing
)
_define_cache(
    f"kv_cache_swap_blocks(Tensor source, Tensor(a!) destination, Tensor mapping, *, {_PLAN}) -> ()",
    _core.kv_cache_copy,
    _fake_nothing,
)
_define_cache(
    "kv_cache_gather(Tensor cache, Tensor block_table, Tensor cumulative_lengths, Tensor(a!) out, *, "
    f'str layout="nhd", str? scales=None, Tensor? scale=None, {_PLAN}) -> ()',
    _core.kv_cache_gather,
    _fake_nothing,
)
_HEADS = (
    f"Tensor q, Tensor k, Tensor? v, {_CACHES}, *, bool norm=True, Tensor? q_weight=None, Tensor? k_weight=None, "
    "float eps=1e-06, bool unit_offset=False, Tensor? cos=None, Tensor? sin=None, Tensor? positions=None, "
    f'bool interleaved=False, int[]? sections=None, str section_order="runs", {_LAYOUTS}, {_READ}, '
    f"str? q_scales=None, Tensor? q_scale=None, {_PLAN}"
)
_define_cache(f"qk_norm_rope_cache({_HEADS}, ScalarType? out_dtype=None) -> Tensor", _core.qk_norm_rope_cache, _fake_q)
_define_cache(f"qk_norm_rope_cache.into({_HEADS}, Tensor(c!) q_out) -> ()", _into, _fake_nothing)
