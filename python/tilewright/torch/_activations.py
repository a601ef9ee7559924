# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: activations with their gates, and their gradient, found by one operator from what was given."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .._errors import InvalidArgument
from . import _autograd
from ._operators import _define
from ._rows import _FOUND, _NO_GRADIENT, _PLAN, _check_rows, _finding, _output, _scales, define_rows

_ops = torch.ops.tilewright


def _gated_columns(op: str, x: torch.Tensor, gate: str) -> Any:
    _check_rows(op, x)
    if gate == "none":
        return x.shape[-1]
    torch._check(x.shape[-1] % 2 == 0, lambda: f"{op}: argument 'gate' needs an even last size, got {x.shape[-1]}")
    return x.shape[-1] // 2


class _ActAndMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, activation: str, options: dict[str, Any], plan: dict[str, Any]) -> Any:
        ctx.save_for_backward(x)
        ctx.activation, ctx.options = activation, options
        return _ops.act_and_mul.default(x, activation, **options, **plan)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        dx = _ops.act_and_mul_backward.default(x, dy.contiguous(), ctx.activation, **ctx.options)
        return dx, None, None, None


def _record(
    x: torch.Tensor,
    activation: str = "silu",
    *,
    scale: torch.Tensor | None = None,
    recipe: str = "",
    units: int = 0,
    programmatic_edge: bool = False,
    out_dtype: torch.dtype | None = None,
    **options: Any,
) -> torch.Tensor:
    if scale is not None:
        raise InvalidArgument(
            "act_and_mul: an argument requires grad, and there is none with 'scale'; or call under torch.no_grad()"
        )
    plan = {"recipe": recipe, "units": units, "programmatic_edge": programmatic_edge, "out_dtype": out_dtype}
    return _ActAndMul.apply(x, activation, options, plan)  # type: ignore[no-any-return]


def _fake_backward(
    x: torch.Tensor, dy: torch.Tensor, activation: str = "silu", *, gate: str = "separated", **_: Any
) -> torch.Tensor:
    want = (*x.shape[:-1], _gated_columns("act_and_mul_backward", x, gate))
    torch._check(dy.shape == want, lambda: f"act_and_mul_backward: 'dy' has shape {dy.shape}, expected {want}")
    return x.new_empty(x.shape)


def _fake_act_and_mul(
    x: torch.Tensor,
    activation: str = "silu",
    *,
    gate: str = "separated",
    scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    **_: Any,
) -> torch.Tensor:
    return _output(x, _gated_columns("act_and_mul", x, gate), out_dtype, scale is not None)


def _fake_act_and_mul_quantize(
    x: torch.Tensor,
    activation: str = "silu",
    *,
    gate: str = "separated",
    quant: str = "row",
    group: int = 0,
    out_dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    columns = _gated_columns("act_and_mul_quantize", x, gate)
    return _output(x, columns, out_dtype, True), _scales(x, columns, quant, scale_dtype, group)


_ACTIVATION = (
    'Tensor x, str activation="silu", *, str gate="separated", bool squared=False, float limit=0.0, float alpha=1.0, '
    "float up_offset=0.0"
)
_define(
    f"act_and_mul_backward({_ACTIVATION.replace('Tensor x', 'Tensor x, Tensor dy')}, {_PLAN}) -> Tensor",
    _core.act_and_mul_backward,
    _fake_backward,
    _autograd.refuser("act_and_mul_backward", "a gradient has none of its own: detach what it reads"),
)
define_rows(
    "act_and_mul",
    f"{_ACTIVATION}, Tensor? scale=None, {_PLAN}",
    "ScalarType? out_dtype=None",
    ("result",),
    _finding("act_and_mul", _core.act_and_mul, finds=False),
    _fake_act_and_mul,
    _record,
)
define_rows(
    "act_and_mul_quantize",
    f"{_ACTIVATION}, {_FOUND}, {_PLAN}",
    "ScalarType? out_dtype=None, ScalarType? scale_dtype=None",
    ("result", "scale"),
    _finding("act_and_mul_quantize", _core.act_and_mul, finds=True),
    _fake_act_and_mul_quantize,
    _autograd.refuser("act_and_mul_quantize", _NO_GRADIENT),
)
