# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: operators on rows of logits."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from . import _autograd
from ._rows import _NO_GRADIENT, _PLAN, _check_rows, define_rows

# ---- Softmax ---------------------------------------------------------------------------------------------------------


def _fake_softmax(x: torch.Tensor, dim: int = -1, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    _check_rows("softmax", x)
    return x.new_empty(x.shape, dtype=dtype or x.dtype)


define_rows(
    "softmax",
    f"Tensor x, int dim=-1, *, bool log=False, float scale=1.0, {_PLAN}",
    "ScalarType? dtype=None",
    ("result",),
    _core.softmax,
    _fake_softmax,
    _autograd.refuser("softmax", _NO_GRADIENT),
)


# ---- Routing ---------------------------------------------------------------------------------------------------------


def _fake_moe_routing(
    logits: torch.Tensor, k: int, *, bias: torch.Tensor | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    torch._check(logits.dim() == 2, lambda: "moe_routing: argument 'logits' needs rank 2")
    if bias is not None:
        torch._check(bias.shape == logits.shape[-1:], lambda: "moe_routing: argument 'bias' needs a number an expert")
    shape = (logits.shape[0], k)
    return logits.new_empty(shape, dtype=torch.float32), logits.new_empty(shape, dtype=torch.int32)


define_rows(
    "moe_routing",
    'Tensor logits, int k, *, Tensor? bias=None, str score="softmax", bool renormalise=False, float scale=1.0, '
    'int groups=1, int topk_groups=1, str group_score="two_largest", int first_expert=0, int local_experts=0, '
    f"{_PLAN}",
    "",
    ("weights", "ids"),
    _core.moe_routing,
    _fake_moe_routing,
    _autograd.refuser("moe_routing", _NO_GRADIENT),
)


# ---- Sampling --------------------------------------------------------------------------------------------------------


def _fake_sample(logits: torch.Tensor, seeds: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    torch._check(logits.dim() == 2, lambda: "sample: argument 'logits' needs rank 2")
    for name, t in {"seeds": seeds, **options}.items():
        if isinstance(t, torch.Tensor):
            torch._check(t.shape == logits.shape[:1], lambda n=name: f"sample: argument '{n}' needs a number a row")
    return logits.new_empty(logits.shape[:1], dtype=torch.int32)


define_rows(
    "sample",
    "Tensor logits, Tensor? seeds=None, *, Tensor? temperature=None, Tensor? top_k=None, Tensor? top_p=None, "
    'Tensor? min_p=None, Tensor? offsets=None, str joint="original_mass", bool greedy=False, '
    f"{_PLAN}",
    "",
    ("ids",),
    _core.sample,
    _fake_sample,
    _autograd.refuser("sample", _NO_GRADIENT),
)


def _fake_apply_penalties(logits: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    torch._check(logits.dim() == 2, lambda: "apply_penalties: argument 'logits' needs rank 2: [B, V]")
    return logits.new_empty(logits.shape)


define_rows(
    "apply_penalties",
    "Tensor logits, Tensor? prompt_tokens=None, Tensor? output_tokens=None, *, Tensor? repetition=None, "
    "Tensor? presence=None, Tensor? frequency=None, Tensor? prompt_counts=None, Tensor? output_counts=None, "
    f"{_PLAN}",
    "",
    ("result",),
    _core.apply_penalties,
    _fake_apply_penalties,
    _autograd.refuser("apply_penalties", _NO_GRADIENT),
)


# ---- The largest of rows ---------------------------------------------------------------------------------------------


def _fake_top_k(
    x: torch.Tensor, k: int, *, lengths: torch.Tensor | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    torch._check(x.dim() == 2, lambda: "top_k: argument 'x' needs rank 2")
    if lengths is not None:
        torch._check(lengths.shape == x.shape[:1], lambda: "top_k: argument 'lengths' needs a number a row")
    shape = (x.shape[0], k)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int32)


define_rows(
    "top_k",
    f"Tensor x, int k, *, Tensor? lengths=None, {_PLAN}",
    "",
    ("values", "indices"),
    _core.top_k,
    _fake_top_k,
    _autograd.refuser("top_k", _NO_GRADIENT),
)
