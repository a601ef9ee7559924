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
_PLAN = 'str recipe="", int units=0, bool programmatic_edge=False'
_FOUND = 'str quant="row", int group=0, str rounding="down", Tensor? tensor_scale=None'  # scales that are found
_TURNED = "Tensor? smooth=None, int hadamard=0, Tensor? random_state=None"  # what quantize does beside


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
    if quant == "block":
        torch._check(x.dim() >= 2, lambda: "blocks need rank 2 or more")
        return x.new_empty((*x.shape[:-2], (x.shape[-2] + 127) // 128, (columns + 127) // 128), dtype=dtype)
    size = group or {_FLOAT8_SCALE: 32, torch.float8_e4m3fn: 16}.get(dtype, 128)
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


# ---- Transposed ------------------------------------------------------------------------------------------------------


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


# ---- Codes and scales ------------------------------------------------------------------------------------------------


def _quantize(x: torch.Tensor, quant: str = "row", **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    # A scale beside "tensor" would be one that is read.
    codes, scale = _core.quantize(x, "dynamic" if quant == "tensor" else quant, **options)  # type: ignore[arg-type]
    return codes, scale


def _quantize_nvfp4(x: torch.Tensor, **options: Any) -> tuple[torch.Tensor, ...]:
    return _core.quantize(x, "group", out_dtype="e2m1", scale_dtype="e4m3", find_tensor_scale=True, **options)


def _fake_quantize_nvfp4(
    x: torch.Tensor, *, smooth: torch.Tensor | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _check_rows("quantize_nvfp4", x, smooth=smooth)
    scale = _scales(x, x.shape[-1], "group", torch.float8_e4m3fn, 0)
    return _output(x, x.shape[-1], _FLOAT4, True), scale, x.new_empty((1,), dtype=torch.float32)


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
    f"Tensor x, {_FOUND.replace('int group', '*, int group')}, {_TURNED}, {_PLAN}",
    "ScalarType? out_dtype=None, ScalarType? scale_dtype=None",
    ("result", "scale"),
    _quantize,
    _fake_quantize,
    _autograd.refuser("quantize", _NO_GRADIENT),
)
define_rows(
    "quantize_nvfp4",
    f"Tensor x, *, {_TURNED}, {_PLAN}",
    "",
    ("result", "scale", "tensor_scale"),
    _quantize_nvfp4,
    _fake_quantize_nvfp4,
    _autograd.refuser("quantize_nvfp4", _NO_GRADIENT),
)
define_rows(
    "quantize_static",
    f"Tensor x, Tensor scale, *, {_TURNED}, {_PLAN}",
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
    f'Tensor x, Tensor scale, str quant="row", *, Tensor? tensor_scale=None, int group=0, {_PLAN}',
    "ScalarType? out_dtype=None",
    ("result",),
    _core.dequantize,
    _fake_dequantize,
    _autograd.refuser("dequantize", _NO_GRADIENT),
)
