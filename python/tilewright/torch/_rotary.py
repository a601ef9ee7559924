# SPDX-License-Identifier: MIT
"""torch.ops.tilewright.rope, and rope_qk, which turns queries and keys in one launch: both with gradients, which are
those of the results turned back."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .._errors import InvalidArgument
from ._rows import _PLAN, define_rows

_ops = torch.ops.tilewright
_WHERE = ("positions", "cumulative_lengths", "offsets")  # tensors that say where tokens are


def _rope_qk(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **options: Any) -> Any:
    return _core.rope(q, cos, sin, k=k, **options)


def _check(op: str, q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    torch._check(q.dim() >= 2, lambda: f"{op}: argument 'q' needs rank 2 or more: [..., heads, D]")
    torch._check(
        cos.dim() == 2 and cos.shape == sin.shape, lambda: f"{op}: 'cos' and 'sin' have shapes {cos.shape}, {sin.shape}"
    )


def _fake_rope(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **_: Any) -> torch.Tensor:
    _check("rope", q, cos, sin)
    return q.new_empty(q.shape)


def _fake_rope_qk(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    _check("rope_qk", q, cos, sin)
    torch._check(
        k.dim() == q.dim() and k.shape[:-2] == q.shape[:-2] and k.shape[-1] == q.shape[-1],
        lambda: f"rope_qk: 'q' and 'k' have shapes {q.shape}, {k.shape}",
    )
    return q.new_empty(q.shape), k.new_empty(k.shape)


class _Turn(torch.autograd.Function):
    """Heads by the angles of their tokens: an orthogonal map, of which the gradient is the map back."""

    @staticmethod
    def forward(
        ctx: Any,
        cos: torch.Tensor,
        sin: torch.Tensor,
        where: tuple[torch.Tensor | None, ...],
        inverse: bool,
        options: dict[str, Any],
        *heads: torch.Tensor,
    ) -> Any:
        ctx.save_for_backward(cos, sin, *where)
        ctx.inverse, ctx.options = inverse, options
        op = _ops.rope.default if len(heads) == 1 else _ops.rope_qk.default
        return op(*heads, cos, sin, **dict(zip(_WHERE, where, strict=True)), inverse=inverse, **options)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        cos, sin, *where = ctx.saved_tensors
        turned = _turn(cos, sin, tuple(where), not ctx.inverse, ctx.options, *(grad.contiguous() for grad in grads))
        return (None, None, None, None, None, *(turned if isinstance(turned, tuple) else (turned,)))


def _turn(
    cos: Any, sin: Any, where: tuple[Any, ...], inverse: bool, options: dict[str, Any], *heads: torch.Tensor
) -> Any:
    return _Turn.apply(cos, sin, where, inverse, options, *heads)


def _record(
    op: str,
    heads: tuple[torch.Tensor, ...],
    cos: torch.Tensor,
    sin: torch.Tensor,
    inverse: bool = False,
    **options: Any,
) -> Any:
    for name, table in (("cos", cos), ("sin", sin)):
        if table.requires_grad:
            raise InvalidArgument(f"{op}: argument '{name}' requires grad, and tables have no gradient: detach it")
    where = tuple(options.pop(name, None) for name in _WHERE)
    return _turn(cos, sin, where, inverse, options, *heads)


def _record_rope(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **options: Any) -> Any:
    return _record("rope", (q,), cos, sin, **options)


def _record_rope_qk(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **options: Any) -> Any:
    return _record("rope_qk", (q, k), cos, sin, **options)


_OPTIONS = (
    "*, Tensor? positions=None, bool interleaved=False, bool inverse=False, int[]? sections=None, "
    f'str section_order="runs", Tensor? cumulative_lengths=None, Tensor? offsets=None, {_PLAN}'
)
define_rows(
    "rope", f"Tensor q, Tensor cos, Tensor sin, {_OPTIONS}", "", ("q_out",), _core.rope, _fake_rope, _record_rope
)
define_rows(
    "rope_qk",
    f"Tensor q, Tensor k, Tensor cos, Tensor sin, {_OPTIONS}",
    "",
    ("q_out", "k_out"),
    _rope_qk,
    _fake_rope_qk,
    _record_rope_qk,
)
