# SPDX-License-Identifier: MIT
"""torch.ops.tilewright.cross_entropy, and the function that sums losses: the gradient is made with the loss, while the
logits are at hand, and backward is left with a factor."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .._errors import InvalidArgument
from . import _autograd
from ._rows import _NO_GRADIENT, _PLAN, _check_rows, define_rows

_ops = torch.ops.tilewright
_OPTIONS = "int ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0"


def _check_loss(op: str, x: torch.Tensor, target: torch.Tensor) -> None:
    _check_rows(op, x)
    torch._check(target.shape == x.shape[:-1], lambda: f"{op}: 'target' has shape {target.shape}, 'x' {x.shape}")


def _cross_entropy(x: torch.Tensor, target: torch.Tensor, *, out: torch.Tensor | None = None, **options: Any) -> Any:
    return _core.cross_entropy(x, target, gradient=False, loss=out, **options)[0]


def _fake_cross_entropy(x: torch.Tensor, target: torch.Tensor, **_: Any) -> torch.Tensor:
    _check_loss("cross_entropy", x, target)
    return x.new_empty(x.shape[:-1], dtype=torch.float32)


def _with_gradient(
    x: torch.Tensor,
    target: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    gradient: torch.Tensor | None = None,
    **options: Any,
) -> Any:
    return _core.cross_entropy(x, target, loss=out, out=gradient, **options)


def _fake_with_gradient(x: torch.Tensor, target: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    _check_loss("cross_entropy_gradient", x, target)
    return x.new_empty(x.shape[:-1], dtype=torch.float32), x.new_empty(x.shape)


_refuse_second = _autograd.refuser("cross_entropy", "its gradient has none of its own: leave create_graph out")


def _check_first_order() -> None:
    """The gradient is made under the forward pass, where autograd does not see what it is made of."""
    # Backends over AOTAutograd, inductor too, refuse this themselves; while they trace, grad is on.
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        _refuse_second()


class _Losses(torch.autograd.Function):
    """The loss of each row."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
        loss, gradient = _ops.cross_entropy_gradient.default(x, target, **options)
        ctx.save_for_backward(gradient)
        return loss  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        _check_first_order()
        (gradient,) = ctx.saved_tensors
        return (gradient * grad.unsqueeze(-1)).to(gradient.dtype), None, None


class _Total(torch.autograd.Function):
    """Their sum, or times `factor` their mean."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, target: torch.Tensor, factor: torch.Tensor | None, options: dict[str, Any]
    ) -> torch.Tensor:
        # f16 holds a mean over many rows only behind the scale of the loss, which comes with backward.
        late = x.dtype == torch.float16
        loss, gradient = _ops.cross_entropy_gradient.default(x, target, factor=None if late else factor, **options)
        ctx.save_for_backward(gradient, factor if late else None)
        return loss.sum() if factor is None else loss.sum() * factor.squeeze(0)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        _check_first_order()
        gradient, factor = ctx.saved_tensors
        # What is multiplied by one stays as it is; nobody asks the device inside a graph.
        captured = torch.compiler.is_compiling() or (grad.is_cuda and torch.cuda.is_current_stream_capturing())
        if factor is not None or captured or grad.item() != 1:
            # In f32, rounded once: PyTorch rounds a scalar on a GPU to the gradient's dtype first.
            gradient = _ops.mul.default(gradient, grad.reshape(1) if factor is None else grad.reshape(1) * factor)
        return gradient, None, None, None


def _record(x: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    return _Losses.apply(x, target, options)  # type: ignore[no-any-return]


define_rows(
    "cross_entropy",
    f"Tensor x, Tensor target, *, {_OPTIONS}, {_PLAN}",
    "",
    ("result",),
    _cross_entropy,
    _fake_cross_entropy,
    _record,
)
define_rows(
    "cross_entropy_gradient",
    f"Tensor x, Tensor target, *, {_OPTIONS}, float grad_scale=1.0, Tensor? factor=None, {_PLAN}",
    "",
    ("loss", "gradient"),
    _with_gradient,
    _fake_with_gradient,
    _autograd.refuser("cross_entropy_gradient", _NO_GRADIENT),
)


def cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> torch.Tensor:
    """functional.cross_entropy of logits x [..., N] and targets [...], classes last. The mean is over rows that are
    not ignored. Where x requires a gradient it is made here, and kept for backward in the place of x."""
    options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "z_loss": z_loss}
    if reduction == "none":
        return _ops.cross_entropy.default(x, target, **options)  # type: ignore[no-any-return]
    if reduction not in ("sum", "mean"):
        raise InvalidArgument(f"cross_entropy: argument 'reduction' is {reduction!r}, allowed: none, sum, mean")
    factor = (target != ignore_index).sum(dtype=torch.float32).reciprocal().reshape(1) if reduction == "mean" else None
    if x.requires_grad and torch.is_grad_enabled():
        return _Total.apply(x, target, factor, options)  # type: ignore[no-any-return]
    loss = _ops.cross_entropy.default(x, target, **options).sum()
    return loss if factor is None else loss * factor.squeeze(0)  # type: ignore[no-any-return]
