# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: operators on rows. A schema has a fixed number of results, so that a function of tilewright is
several operators: a norm behind the sum with a residual has `add_` before its name, what finds scales `_quantize`
behind it. Each has an overload `into`, which writes tensors that the caller gives and returns nothing; these may be
those that it reads, where the function may work in place. Gradients are refused, not lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .._errors import InvalidArgument
from . import _autograd
from ._operators import _FLOAT4, _define

_NO_GRADIENT = "it has no gradient: detach what it reads"
_FLOAT8_SCALE = getattr(torch, "float8_e8m0fnu", None)

# What stands in every schema.
_PLAN = 'str recipe="", int units=0'
_FOUND = 'str quant="row", int group=0, str rounding="down"'  # scales that are found


def define_rows(
    name: str, arguments: str, dtypes: str, written: tuple[str, ...], call: Any, fake: Any, record: Any
) -> None:
    """The operator `name` with new results, and `name.into`. `arguments` of both end with keywords; `written` are the
    results' names there. The function's `out` is another: Dynamo takes no strided tensor for a keyword of that name."""
    results = ", ".join(["Tensor"] * len(written))
    result = results if len(written) == 1 else f"({results})"
    keywords = f"{arguments}, {dtypes}" if dtypes else arguments
    _define(f"{name}({keywords}) -> {result}", call, fake, record)

    def into(*args: Any, **options: Any) -> None:
        if "_quantize" in name or name == "quantize":  # groups are as long as their scales' dtype wants them
            options["scale_dtype"] = options["scale"].dtype
        options["out"] = options.pop(written[0])
        call(*args, **options)

    def fake_into(*args: Any, **options: Any) -> None:
        return None

    tensors = ", ".join(f"Tensor({'abc'[i]}!) {each}" for i, each in enumerate(written))
    refuse = _autograd.refuser(name, "a call that writes given tensors records no gradient")
    _define(f"{name}.into({arguments}, {tensors}) -> ()", into, fake_into, refuse)


# ---- Results without values ------------------------------------------------------------------------------------------


def _output(x: torch.Tensor, columns: Any, out_dtype: torch.dtype | None, codes: bool) -> torch.Tensor:
    """[..., columns], or pairs of codes of 4 bits; `codes` are e4m3 unless said."""
    dtype = out_dtype or (torch.float8_e4m3fn if codes else x.dtype)
    if dtype != _FLOAT4:
        return x.new_empty((*x.shape[:-1], columns), dtype=dtype)
    torch._check(columns % 2 == 0, lambda: "pairs of e2m1 need an even last size")
    return x.new_empty((*x.shape[:-1], columns // 2), dtype=dtype)


def _scales(x: torch.Tensor, columns: Any, quant: str, scale_dtype: torch.dtype | None, group: int) -> torch.Tensor:
    dtype = scale_dtype or torch.float32
    if quant in ("tensor", "dynamic"):
        return x.new_empty((1,), dtype=dtype)
    if quant == "row":
        return x.new_empty((*x.shape[:-1], 1), dtype=dtype)
    size = group or (32 if dtype == _FLOAT8_SCALE else 128)
    return x.new_empty((*x.shape[:-1], (columns + size - 1) // size), dtype=dtype)


def _check_rows(op: str, x: torch.Tensor, **others: torch.Tensor | None) -> None:
    torch._check(x.dim() >= 1, lambda: f"{op}: argument 'x' needs rank 1 or more")
    for name, t in others.items():
        if t is not None:
            want = x.shape if name == "residual" else x.shape[-1:]
            torch._check(t.shape == want, lambda n=name, s=t.shape, w=want: f"{op}: '{n}' has shape {s}, expected {w}")


def _finding(op: str, kernel: Callable[..., Any], finds: bool) -> Callable[..., Any]:
    """The function with the `quant` that an operator stands for: scales that are found, or one that is given."""

    def call(*args: Any, **options: Any) -> Any:
        if finds:
            quant = options.setdefault("quant", "row")  # the dispatcher passes no argument that has its default
            if quant not in ("row", "group"):
                raise InvalidArgument(f"{op}: argument 'quant' is {quant!r}, allowed: row, group")
        elif options.get("scale") is not None:
            options["quant"] = "tensor"
        return kernel(*args, **options)

    return call


# ---- Norms -----------------------------------------------------------------------------------------------------------


def _define_norm(name: str, kernel: Callable[..., Any], leading: str, columns: str) -> None:
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
                _autograd.refuser(op, _NO_GRADIENT),
            )


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


# ---- Element by element ----------------------------------------------------------------------------------------------


def _define_elementwise(name: str, kernel: Callable[..., Any], tensors: str) -> None:
    def fake(x: torch.Tensor, *_: Any, out_dtype: torch.dtype | None = None, **__: Any) -> torch.Tensor:
        return _output(x, x.shape[-1], out_dtype, False)

    define_rows(
        name,
        f"{tensors}, *, {_PLAN}",
        "ScalarType? out_dtype=None",
        ("result",),
        kernel,
        fake,
        _autograd.refuser(name, _NO_GRADIENT),
    )


_define_elementwise("add", _core.add, "Tensor x, Tensor b")
_define_elementwise("mul", _core.mul, "Tensor x, Tensor b")
_define_elementwise("cast", _core.cast, "Tensor x")


def _fake_transpose(x: torch.Tensor, **_: Any) -> torch.Tensor:
    torch._check(x.dim() >= 2, lambda: "transpose: argument 'x' needs rank 2 or more: [..., M, N]")
    return x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2]))


class _Transpose(torch.autograd.Function):
    """Its gradient is its own way back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, options: dict[str, Any]) -> Any:
        ctx.options = options
        return torch.ops.tilewright.transpose.default(x, **options)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _Transpose.apply(grads[0].contiguous(), {}), None


def _record_transpose(x: torch.Tensor, **options: Any) -> Any:
    return _Transpose.apply(x, options)


define_rows("transpose", f"Tensor x, *, {_PLAN}", "", ("result",), _core.transpose, _fake_transpose, _record_transpose)


# ---- Activations -----------------------------------------------------------------------------------------------------


def _gated_columns(op: str, x: torch.Tensor, gate: str) -> Any:
    _check_rows(op, x)
    if gate == "none":
        return x.shape[-1]
    torch._check(x.shape[-1] % 2 == 0, lambda: f"{op}: argument 'gate' needs an even last size, got {x.shape[-1]}")
    return x.shape[-1] // 2


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
define_rows(
    "act_and_mul",
    f"{_ACTIVATION}, Tensor? scale=None, {_PLAN}",
    "ScalarType? out_dtype=None",
    ("result",),
    _finding("act_and_mul", _core.act_and_mul, finds=False),
    _fake_act_and_mul,
    _autograd.refuser("act_and_mul", _NO_GRADIENT),
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


# ---- Codes and scales ------------------------------------------------------------------------------------------------


def _quantize(x: torch.Tensor, quant: str = "row", **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    # A scale beside "tensor" would be one that is read.
    return _core.quantize(x, "dynamic" if quant == "tensor" else quant, **options)  # type: ignore[arg-type]


def _fake_quantize(
    x: torch.Tensor,
    quant: str = "row",
    *,
    group: int = 0,
    smooth: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_rows("quantize", x, smooth=smooth)
    return _output(x, x.shape[-1], out_dtype, True), _scales(x, x.shape[-1], quant, scale_dtype, group)


def _quantize_static(x: torch.Tensor, scale: torch.Tensor, **options: Any) -> torch.Tensor:
    codes: torch.Tensor = _core.quantize(x, "tensor", scale=scale, **options)[0]
    return codes


def _fake_quantize_static(
    x: torch.Tensor,
    scale: torch.Tensor,
    *,
    smooth: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    **_: Any,
) -> torch.Tensor:
    _check_rows("quantize_static", x, smooth=smooth)
    return _output(x, x.shape[-1], out_dtype, True)


define_rows(
    "quantize",
    f'Tensor x, str quant="row", *, int group=0, str rounding="down", Tensor? smooth=None, {_PLAN}',
    "ScalarType? out_dtype=None, ScalarType? scale_dtype=None",
    ("result", "scale"),
    _quantize,
    _fake_quantize,
    _autograd.refuser("quantize", _NO_GRADIENT),
)
define_rows(
    "quantize_static",
    f"Tensor x, Tensor scale, *, Tensor? smooth=None, {_PLAN}",
    "ScalarType? out_dtype=None",
    ("result",),
    _quantize_static,
    _fake_quantize_static,
    _autograd.refuser("quantize_static", _NO_GRADIENT),
)


# ---- And back --------------------------------------------------------------------------------------------------------


def _fake_dequantize(
    x: torch.Tensor,
    scale: torch.Tensor,
    quant: str = "row",
    *,
    out_dtype: torch.dtype | None = None,
    **_: Any,
) -> torch.Tensor:
    _check_rows("dequantize", x)
    pairs = 2 if x.dtype == _FLOAT4 else 1
    return x.new_empty((*x.shape[:-1], x.shape[-1] * pairs), dtype=out_dtype or torch.float32)


define_rows(
    "dequantize",
    f'Tensor x, Tensor scale, str quant="row", *, int group=0, {_PLAN}',
    "ScalarType? out_dtype=None",
    ("result",),
    _core.dequantize,
    _fake_dequantize,
    _autograd.refuser("dequantize", _NO_GRADIENT),
)
