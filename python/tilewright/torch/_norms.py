# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: norms and their gradients. A norm that autograd records keeps what it normalised, x or the sum,
and its weight; backward is one operator, which adds the sum's gradient and finds those of weight and bias in the same
pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from .._errors import InvalidArgument
from . import _autograd
from ._operators import _define
from ._rows import _FOUND, _NO_GRADIENT, _PLAN, _check_rows, _finding, _output, _scales, define_rows

_ops = torch.ops.tilewright


# ---- Gradients -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """What a norm is made with besides tensors."""

    name: str
    eps: float
    unit_offset: bool
    options: dict[str, Any]  # of the forward pass alone


class _Norm(torch.autograd.Function):
    """A norm of x, or of x + residual, which is then another result."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        call: _Call,
    ) -> Any:
        options = {"weight": weight, "bias": bias, "eps": call.eps, "unit_offset": call.unit_offset, **call.options}
        ctx.set_materialize_grads(False)
        ctx.call, ctx.x_dtype, ctx.bias_dtype = call, x.dtype, None if bias is None else bias.dtype
        if residual is None:
            y = getattr(_ops, call.name).default(x, **options)
            ctx.save_for_backward(x, weight)
            return y
        y, total = getattr(_ops, f"add_{call.name}").default(x, residual, **options)
        ctx.save_for_backward(total, weight)
        return y, total

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None, dtotal: torch.Tensor | None = None) -> Any:  # type: ignore[override]
        total, weight = ctx.saved_tensors
        needs_x, needs_residual, needs_weight, needs_bias, _ = ctx.needs_input_grad
        dx, dweight, dbias = dtotal, None, None
        if dy is not None:
            dx, dweight, dbias = getattr(_ops, f"{ctx.call.name}_backward").default(
                total,
                dy.contiguous(),
                weight,
                ctx.call.eps,
                dresidual=None if dtotal is None else dtotal.contiguous(),
                unit_offset=ctx.call.unit_offset,
                weight_gradient=needs_weight,
                bias_gradient=needs_bias,
                bias_dtype=ctx.bias_dtype,
            )
        return (
            dx.to(ctx.x_dtype) if needs_x and dx is not None else None,
            dx if needs_residual else None,
            dweight if needs_weight else None,
            dbias if needs_bias else None,
            None,
        )


def _recorder(name: str, order: Sequence[str], adds: bool) -> Callable[..., Any]:
    """`order`: the optional arguments that may stand without their names."""
    positional = ("x", "residual", *order) if adds else ("x", *order)
    op = f"add_{name}" if adds else name

    def record(*args: Any, **options: Any) -> Any:
        given = {**dict(zip(positional, args)), **options}
        for factor in ("smooth", "scale"):
            if given.pop(factor, None) is not None:
                raise InvalidArgument(
                    f"{op}: an argument requires grad, and there is none with '{factor}'; or call under torch.no_grad()"
                )
        x, eps = given.pop("x"), given.pop("eps", None)
        if eps is None:
            eps = torch.finfo(x.dtype).eps if name == "rms_norm" else 1e-5
        tensors = (given.pop("residual", None), given.pop("weight", None), given.pop("bias", None))
        return _Norm.apply(x, *tensors, _Call(name, eps, given.pop("unit_offset", False), given))

    return record


# ---- Operators -------------------------------------------------------------------------------------------------------


def _define_norm(name: str, kernel: Callable[..., Any], leading: str, columns: str) -> None:
    order = re.findall(r"(\w+)=", leading)

    def add(x: torch.Tensor, residual: torch.Tensor, *rest: Any, **options: Any) -> Any:
        return kernel(x, *rest, residual=residual, **options)

    def fake(op: str, adds: bool, finds: bool) -> Any:
        def call(
            x: torch.Tensor,
            *positional: Any,
            bias: torch.Tensor | None = None,
            smooth: torch.Tensor | None = None,
            scale: torch.Tensor | None = None,
            out_dtype: torch.dtype | None = None,
            quant: str = "row",
            scale_dtype: torch.dtype | None = None,
            group: int = 0,
            **_: Any,
        ) -> Any:
            residual = positional[0] if adds else None
            tensors = [t for t in positional[adds:] if isinstance(t, torch.Tensor)]
            _check_rows(op, x, residual=residual, bias=bias, smooth=smooth, weight=tensors[0] if tensors else None)
            results = [_output(x, x.shape[-1], out_dtype, finds or scale is not None)]
            if residual is not None:
                results.append(residual.new_empty(residual.shape))
            if finds:
                results.append(_scales(x, x.shape[-1], quant, scale_dtype, group))
            return tuple(results) if len(results) > 1 else results[0]

        return call

    for adds in (False, True):
        for finds in (False, True):
            op = ("add_" if adds else "") + name + ("_quantize" if finds else "")
            tensors = f"Tensor x, {'Tensor residual, ' if adds else ''}{leading}"
            options = f"{columns}Tensor? smooth=None, bool unit_offset=False, bool round_before_weight=False"
            scales = _FOUND if finds else "Tensor? scale=None"
            define_rows(
                op,
                f"{tensors}, *, {options}, {scales}, {_PLAN}",
                "ScalarType? out_dtype=None" + (", ScalarType? scale_dtype=None" if finds else ""),
                ("result",) + (("residual_out",) if adds else ()) + (("scale",) if finds else ()),
                _finding(op, add if adds else kernel, finds),
                fake(op, adds, finds),
                _autograd.refuser(op, _NO_GRADIENT) if finds else _recorder(name, order, adds),
            )


def _define_backward(name: str, kernel: Callable[..., Any]) -> None:
    """x is what was normalised: with a residual the sum. What is not asked for is empty. The bias' gradient is of the
    weight's dtype unless said."""

    def call(
        x: torch.Tensor,
        *args: Any,
        weight_gradient: bool = True,
        bias_gradient: bool = False,
        bias_dtype: torch.dtype | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor, ...]:
        dbias: Any = bias_gradient
        if bias_gradient and bias_dtype is not None:
            dbias = x.new_empty(x.shape[-1:], dtype=bias_dtype)
        results = kernel(x, *args, dweight=weight_gradient, dbias=dbias, **options)
        return tuple(x.new_empty(0) if result is None else result for result in results)

    def fake(
        x: torch.Tensor,
        dy: torch.Tensor,
        weight: torch.Tensor | None = None,
        eps: float | None = None,
        *,
        weight_gradient: bool = True,
        bias_gradient: bool = False,
        bias_dtype: torch.dtype | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, ...]:
        _check_rows(name, x, weight=weight)
        torch._check(dy.shape == x.shape, lambda: f"{name}: 'dy' has shape {dy.shape}, expected {x.shape}")
        columns = x if weight is None else weight
        wanted = ((weight_gradient and weight is not None, columns.dtype), (bias_gradient, bias_dtype or columns.dtype))
        sums = [x.new_empty(x.shape[-1:], dtype=dtype) if want else x.new_empty(0) for want, dtype in wanted]
        return x.new_empty(x.shape), *sums

    _define(
        f"{name}(Tensor x, Tensor dy, Tensor? weight=None, float? eps=None, *, Tensor? dresidual=None, "
        f"bool unit_offset=False, bool weight_gradient=True, bool bias_gradient=False, ScalarType? bias_dtype=None, "
        f"{_PLAN}) -> (Tensor, Tensor, Tensor)",
        call,
        fake,
        _autograd.refuser(name, "a gradient has none of its own: detach what it reads"),
    )


_define_backward("rms_norm_backward", _core.rms_norm_backward)
_define_backward("layer_norm_backward", _core.layer_norm_backward)
_define_norm("rms_norm", _core.rms_norm, "Tensor? weight=None, float? eps=None", "Tensor? bias=None, ")
_define_norm("layer_norm", _core.layer_norm, "Tensor? weight=None, Tensor? bias=None, float? eps=None", "")


def _fake_gated_rms_norm(
    x: torch.Tensor,
    z: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    **_: Any,
) -> torch.Tensor:
    _check_rows("gated_rms_norm", x, weight=weight)
    torch._check(z.shape == x.shape, lambda: f"gated_rms_norm: 'z' has shape {z.shape}, expected {x.shape}")
    return _output(x, x.shape[-1], out_dtype, scale is not None)


def _fake_gated_rms_norm_quantize(
    x: torch.Tensor,
    z: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    quant: str = "row",
    group: int = 0,
    out_dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_rows("gated_rms_norm_quantize", x, weight=weight)
    return _output(x, x.shape[-1], out_dtype, True), _scales(x, x.shape[-1], quant, scale_dtype, group)


_GATED_NORM = (
    "Tensor x, Tensor z, Tensor? weight=None, float eps=1e-05, *, int norm_group=0, bool norm_before_gate=False"
)
define_rows(
    "gated_rms_norm",
    f"{_GATED_NORM}, Tensor? scale=None, {_PLAN}",
    "ScalarType? out_dtype=None",
    ("result",),
    _finding("gated_rms_norm", _core.gated_rms_norm, finds=False),
    _fake_gated_rms_norm,
    _autograd.refuser("gated_rms_norm", _NO_GRADIENT),
)
define_rows(
    "gated_rms_norm_quantize",
    f"{_GATED_NORM}, {_FOUND}, {_PLAN}",
    "ScalarType? out_dtype=None, ScalarType? scale_dtype=None",
    ("result", "scale"),
    _finding("gated_rms_norm_quantize", _core.gated_rms_norm, finds=True),
    _fake_gated_rms_norm_quantize,
    _autograd.refuser("gated_rms_norm_quantize", _NO_GRADIENT),
)
