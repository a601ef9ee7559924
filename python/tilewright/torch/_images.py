# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: operators on images, [N, C, ...], and their gradients, found by one operator from what was
given. Results have x's layout: positions or channels are neighbours."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from . import _autograd
from ._operators import _define
from ._rows import _PLAN, define_rows

_ops = torch.ops.tilewright


def _has_channels_last(x: torch.Tensor) -> bool:
    if x.dim() < 3 or x.shape[1] == 1 or x.stride(1) != 1:
        return False
    steps = [step for size, step in zip(x.shape[2:], x.stride()[2:]) if size != 1]
    return bool(steps) and steps[-1] != 1


def _like(x: torch.Tensor) -> torch.Tensor:
    if not _has_channels_last(x):
        return x.new_empty(x.shape)
    return x.new_empty((x.shape[0], *x.shape[2:], x.shape[1])).movedim(-1, 1)


def _laid_out_as(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """`given` in x's layout."""
    if _has_channels_last(x):
        return given.movedim(1, -1).contiguous().movedim(-1, 1)
    return given.contiguous()


def _check_images(op: str, x: torch.Tensor, groups: int, **channels: torch.Tensor | None) -> None:
    torch._check(x.dim() >= 2, lambda: f"{op}: argument 'x' needs rank 2 or more: [N, C, ...]")
    torch._check(
        groups > 0 and x.shape[1] % groups == 0, lambda: f"{op}: 'groups' is {groups}, of {x.shape[1]} channels"
    )
    for name, t in channels.items():
        shape = x.shape[1:2] if t is None else t.shape
        message = f"{op}: argument '{name}' has another shape than [C]"
        torch._check(shape == x.shape[1:2], lambda message=message: message)


def _fake_group_norm(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    **_: Any,
) -> torch.Tensor:
    _check_images("group_norm", x, groups, weight=weight, bias=bias)
    return _like(x)


def _group_norm_backward(
    x: torch.Tensor, *args: Any, weight_gradient: bool = True, bias_gradient: bool = False, **options: Any
) -> tuple[torch.Tensor, ...]:
    """What is not asked for is empty."""
    results = _core.group_norm_backward(x, *args, dweight=weight_gradient, dbias=bias_gradient, **options)
    return tuple(x.new_empty(0) if result is None else result for result in results)


def _fake_group_norm_backward(
    x: torch.Tensor,
    dy: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    weight_gradient: bool = True,
    bias_gradient: bool = False,
    **_: Any,
) -> tuple[torch.Tensor, ...]:
    op = "group_norm_backward"
    _check_images(op, x, groups, weight=weight, bias=bias)
    torch._check(dy.shape == x.shape, lambda: f"{op}: 'dy' has shape {dy.shape}, expected {x.shape}")
    channel = x if weight is None else weight
    dweight = channel.new_empty(x.shape[1:2] if weight_gradient and weight is not None else 0)
    dbias = (channel if bias is None else bias).new_empty(x.shape[1:2] if bias_gradient else 0)
    return _like(x), dweight, dbias


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        groups: int,
        options: dict[str, Any],
        plan: dict[str, Any],
    ) -> Any:
        ctx.save_for_backward(x, weight, bias)
        ctx.groups, ctx.options = groups, options
        return _ops.group_norm.default(x, groups, weight, bias, **options, **plan)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:  # type: ignore[override]
        x, weight, bias = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        dx, dweight, dbias = _ops.group_norm_backward.default(
            x,
            _laid_out_as(x, dy),
            ctx.groups,
            weight,
            bias,
            weight_gradient=needs_weight,
            bias_gradient=needs_bias,
            **ctx.options,
        )
        gradients = (dx if needs_x else None, dweight if needs_weight else None, dbias if needs_bias else None)
        return (*gradients, None, None, None)


def _record(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    activation: str = "none",
    recipe: str = "",
    units: int = 0,
    programmatic_edge: bool = False,
) -> torch.Tensor:
    options = {"eps": eps, "activation": activation}
    plan = {"recipe": recipe, "units": units, "programmatic_edge": programmatic_edge}
    return _GroupNorm.apply(x, weight, bias, groups, options, plan)  # type: ignore[no-any-return]


_GROUPS = 'int groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, *, str activation="none"'
define_rows("group_norm", f"Tensor x, {_GROUPS}, {_PLAN}", "", ("result",), _core.group_norm, _fake_group_norm, _record)
_define(
    f"group_norm_backward(Tensor x, Tensor dy, {_GROUPS}, bool weight_gradient=True, bool bias_gradient=False, "
    f"{_PLAN}) -> (Tensor, Tensor, Tensor)",
    _group_norm_backward,
    _fake_group_norm_backward,
    _autograd.refuser("group_norm_backward", "a gradient has none of its own: detach what it reads"),
)
