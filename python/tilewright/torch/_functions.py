# SPDX-License-Identifier: MIT
"""gemm and linear with the arguments of tilewright.gemm and tilewright.linear, through torch.ops.tilewright: the same
results, and torch.compile sees one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import torch

from ._operators import OUT_TAG  # and registers torch.ops.tilewright

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._core import _GemmOptions as GemmOptions

Activation = Union[str, "tuple[str, float, float]", None]
Step = Union[Activation, "tuple[str, torch.Tensor]"]
Scale = Union[torch.Tensor, float, None]

_ops = torch.ops.tilewright


def _text(activation: Activation) -> str | None:
    """ "clamp(0.0, 6.0)" for a clamp: a schema has no tuples."""
    if isinstance(activation, tuple):
        name, low, high = activation
        return f"{name}({float(low)!r}, {float(high)!r})"
    return activation


def _schema_options(
    *,
    alpha: float = 1.0,
    scale_a: Scale = None,
    scale_b: Scale = None,
    steps: Sequence[Step] = (),
    **options: Any,
) -> dict[str, Any]:
    """Keywords of an operator: numbers among the scales join alpha, steps are parted into words and tensors."""
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if isinstance(scale, torch.Tensor):
            options[name] = scale
        elif scale is not None:
            alpha = alpha * scale
    if alpha != 1.0:
        options["alpha"] = alpha
    if steps:
        words: list[str] = []
        tensors: list[torch.Tensor] = []
        for step in steps:
            if isinstance(step, tuple) and isinstance(step[1], torch.Tensor):
                words.append(step[0])
                tensors.append(step[1])
            else:
                words.append(_text(step) or "none")
        options["steps"] = words
        if tensors:
            options["step_tensors"] = tensors
    return options


def _run(op: Any, out: torch.Tensor | None, arguments: tuple[Any, ...], options: Any) -> torch.Tensor:
    if options:
        options = _schema_options(**options)
    if out is None:
        return op.default(*arguments, **options)  # type: ignore[no-any-return]
    if OUT_TAG is not None or not torch.compiler.is_compiling():
        return op.out(*arguments, out=out, **options)  # type: ignore[no-any-return]
    # A PyTorch that cannot trace an out variant.
    return out.copy_(op.default(*arguments, **options))


def _epilogue(bias: torch.Tensor | None, activation: Activation, options: Any) -> dict[str, Any]:
    """Keywords, which PyTorch's dispatcher takes long to match: only those that say something."""
    if bias is not None:
        options["bias"] = bias
    if activation is not None:
        options["activation"] = _text(activation)
    return options  # type: ignore[no-any-return]


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: Activation = None,
    out: torch.Tensor | None = None,
    **options: Unpack[GemmOptions],
) -> torch.Tensor:
    """tilewright.gemm as an operator: D = steps(gate(activation(alpha * a @ b + beta * c + bias)))."""
    return _run(_ops.gemm, out, (a, b), _epilogue(bias, activation, options))


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: Activation = None,
    *,
    out: torch.Tensor | None = None,
    **options: Unpack[GemmOptions],
) -> torch.Tensor:
    """tilewright.linear as an operator: activation(x @ weight.T + bias), with weight [N, K]."""
    return _run(_ops.linear, out, (x, weight, bias, _text(activation)), options)


def gemm_packed(
    a: torch.Tensor,
    packed: torch.Tensor,
    n: int,
    *,
    batch: int = 1,
    bias: torch.Tensor | None = None,
    activation: Activation = None,
    out: torch.Tensor | None = None,
    **options: Unpack[GemmOptions],
) -> torch.Tensor:
    """gemm with what pack_weights() gave for B [K, n], or [batch, K, n]."""
    keywords = _epilogue(bias, activation, options)
    if batch != 1:
        keywords["batch"] = batch
    return _run(_ops.gemm_packed, out, (a, packed, n), keywords)


def linear_packed(
    x: torch.Tensor,
    packed: torch.Tensor,
    n: int,
    bias: torch.Tensor | None = None,
    activation: Activation = None,
    *,
    out: torch.Tensor | None = None,
    **options: Unpack[GemmOptions],
) -> torch.Tensor:
    """linear with what pack_weights(weight, layout="nk") gave for a weight [n, K]."""
    return _run(_ops.linear_packed, out, (x, packed, n, bias, _text(activation)), options)


def pack_weights(b: torch.Tensor, *, layout: str = "kn", b_dtype: str | None = None) -> torch.Tensor:
    """The packed bytes of b [K, N] ("kn") or of a linear layer's weight [N, K] ("nk"), as a uint8 tensor.

    b_dtype: "i4" or "u4" of a uint8 tensor that holds two each."""
    return _ops.pack_weights(b, layout=layout, b_dtype=b_dtype)  # type: ignore[no-any-return]


def unpack_weights(
    packed: torch.Tensor, size: Sequence[int], *, dtype: torch.dtype, layout: str = "kn"
) -> torch.Tensor:
    """The plain weights, exactly those that were packed; integers of 4 bits as bytes, two each."""
    return _ops.unpack_weights(packed, size, dtype=dtype, layout=layout)  # type: ignore[no-any-return]
