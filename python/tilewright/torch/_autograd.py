# SPDX-License-Identifier: MIT
"""Gradients: what the products of torch.ops.tilewright do under the dispatch key Autograd.

A product that autograd records is one tilewright gemm, with its bias, whose backward is two more. Activation, gate,
scales, c and steps are then PyTorch's own operators on its float32 result, rounded once at the end as the fused kernel
rounds. A product that nobody records goes to the fused kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import functional

from .._errors import InvalidArgument
from .._frameworks import has_tangent

_ops = torch.ops.tilewright


_NARROW_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2, getattr(torch, "float4_e2m1fn_x2", torch.float8_e5m2))


def result_dtype(a: torch.dtype) -> torch.dtype:
    """That of a result whose out_dtype nobody gave."""
    if a in _NARROW_FLOATS:
        return torch.bfloat16
    return torch.float32 if a == torch.int8 else a


# ---- The product -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """What a product is made with besides tensors. Packed weights have `sizes`: n and batch."""

    alpha: float
    out_dtype: torch.dtype
    sizes: tuple[int, int] | None
    options: dict[str, Any]  # of the backward products too
    forward_options: dict[str, Any]


def _matrix(x: torch.Tensor) -> torch.Tensor:
    """[.., rows, columns] with all rows in one dimension."""
    return x.reshape(-1, x.shape[-1])


def _product_like(shape: tuple[int, ...], a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    """a @ b, summed over the leading dimensions that an operand of `shape` was broadcast along."""
    whole = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    if whole == tuple(shape):
        return _ops.gemm.default(a, b, **options)  # type: ignore[no-any-return]
    return _ops.gemm.default(a, b, out_dtype=torch.float32, **options).sum_to_size(shape).to(a.dtype)  # type: ignore[no-any-return]


class _Product(torch.autograd.Function):
    """alpha * a @ b + bias for a [.., M, K] and b [.., K, N], or b packed, which has no gradient."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, call: _Call) -> torch.Tensor:
        needs_a, needs_b = ctx.needs_input_grad[:2]
        # A frozen weight keeps no input alive, and the first layer no weight.
        ctx.save_for_backward(a if needs_b else None, b if needs_a else None)
        ctx.call, ctx.dtype, ctx.a_shape, ctx.b_shape = call, a.dtype, a.shape, b.shape
        ctx.b_rows = call.sizes is not None or b.stride(-2) != 1
        ctx.bias = None if bias is None else (bias.shape, bias.dtype)
        options = {"bias": bias, "alpha": call.alpha, "out_dtype": call.out_dtype}
        options.update(call.options, **call.forward_options)
        if call.sizes is None:
            return _ops.gemm.default(a, b, **options)  # type: ignore[no-any-return]
        n, batch = call.sizes
        return _ops.gemm_packed.default(a, b, n, batch=batch, **options)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b = ctx.saved_tensors
        options = {"alpha": ctx.call.alpha, **ctx.call.options}
        grad_a = grad_b = grad_bias = None
        if ctx.needs_input_grad[2]:
            shape, dtype = ctx.bias
            grad_bias = grad.sum_to_size(shape).to(dtype)
        grad = grad.to(ctx.dtype).contiguous()
        if b is not None:
            plain = b if ctx.call.sizes is None else _plain(b, ctx.a_shape[-1], ctx.call.sizes, ctx.dtype)
            grad_a = _product_like(ctx.a_shape, grad, plain.mT, **options)
        if a is not None:
            grad_b = _weight_gradient(ctx.b_shape, ctx.b_rows, a, grad, options)
        return grad_a, grad_b, grad_bias, None


def _plain(packed: torch.Tensor, k: int, sizes: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    n, batch = sizes
    return _ops.unpack_weights(packed, [k, n] if batch == 1 else [batch, k, n], dtype=dtype)  # type: ignore[no-any-return]


def _weight_gradient(
    shape: tuple[int, ...], rows: bool, a: torch.Tensor, grad: torch.Tensor, options: dict[str, Any]
) -> torch.Tensor:
    """a.T @ grad, in the memory order that b has: autograd would copy another one into that of the parameter."""
    if all(size == 1 for size in shape[:-2]):  # every row of a has met the same b
        a, grad = _matrix(a), _matrix(grad)
        product = _ops.gemm.default(a.mT, grad, **options) if rows else _ops.gemm.default(grad.mT, a, **options).mT
        return product.reshape(shape)  # type: ignore[no-any-return]
    if rows:
        return _product_like(shape, a.mT, grad, **options)
    return _product_like((*shape[:-2], shape[-1], shape[-2]), grad.mT, a, **options).mT


# ---- The epilogue ----------------------------------------------------------------------------------------------------

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": functional.hardswish,
}
_CLAMP = re.compile(r"clamp\(([^,]+), *([^,]+)\)")


def _activate(op: str, name: str, activation: str | None, x: torch.Tensor) -> torch.Tensor:
    if activation is None:
        return x
    if activation in _ACTIVATIONS:
        return _ACTIVATIONS[activation](x)
    clamp = _CLAMP.fullmatch(activation)
    try:
        low, high = map(float, clamp.groups() if clamp else ())
    except ValueError:
        raise InvalidArgument(
            f"{op}: argument '{name}' is {activation!r}, allowed: {', '.join(_ACTIVATIONS)}, clamp(low, high)"
        ) from None
    return x.clamp(low, high)


def _gated(op: str, gate: str, activation: str | None, x: torch.Tensor) -> torch.Tensor:
    if gate == "separated":
        gates, ups = x.chunk(2, -1)
    elif gate == "interleaved":
        gates, ups = x[..., 0::2], x[..., 1::2]
    else:
        raise InvalidArgument(f"{op}: argument 'gate' is {gate!r}, allowed: None, none, separated, interleaved")
    return _activate(op, "activation", activation, gates) * ups


def _follow(op: str, x: torch.Tensor, steps: Sequence[str], tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    left = iter(tensors)
    for i, step in enumerate(steps):
        if step in ("add", "mul"):
            tensor = next(left, None)
            if tensor is None:
                raise InvalidArgument(f"{op}: argument 'steps[{i}]' is {step!r}, and 'step_tensors' has no tensor left")
            x = x + tensor if step == "add" else x * tensor
        else:
            x = _activate(op, f"steps[{i}]", step, x)
    if next(left, None) is not None:
        raise InvalidArgument(f"{op}: argument 'step_tensors' has {len(tensors)} entries, 'steps' takes fewer")
    return x


def _recorded(
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    sizes: tuple[int, int] | None,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    c: torch.Tensor | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    scale_group_a: Sequence[int] | None = None,
    scale_group_b: Sequence[int] | None = None,
    zero_b: torch.Tensor | None = None,
    b_dtype: str | None = None,
    gate: str | None = None,
    steps: Sequence[str] | None = None,
    step_tensors: Sequence[torch.Tensor] | None = None,
    batch_invariant: bool = False,
    recipe: str | None = None,
    **options: Any,
) -> torch.Tensor:
    """The operator, such that autograd can follow it."""
    if a.dtype in _NARROW_FLOATS and (a.requires_grad or b.requires_grad):
        raise InvalidArgument(
            f"{op}: {a.dtype} is too narrow for a gradient: pass detached operands, or call under torch.no_grad()"
        )
    if not b.is_floating_point() and sizes is None and a.is_floating_point():
        raise InvalidArgument(
            f"{op}: weights of integers record no gradient: pass detached tensors, or call under torch.no_grad()"
        )
    if scale_group_a is not None or scale_group_b is not None or zero_b is not None or b_dtype is not None:
        raise InvalidArgument(
            f"{op}: scales of groups record no gradient: pass detached tensors, or call under torch.no_grad()"
        )
    dtype = out_dtype or result_dtype(a.dtype)
    scales = [scale for scale in (scale_a, scale_b) if scale is not None]
    gate = None if gate == "none" else gate
    if beta is None:
        beta = 0.0 if c is None else 1.0
    bare = activation in (None, "none") and not (gate or scales or steps or step_tensors or beta)
    forward_options = {"recipe": recipe, "batch_invariant": batch_invariant}
    call = _Call(alpha, dtype if bare else torch.float32, sizes, options, forward_options)
    x = _Product.apply(a, b, None if scales else bias, call)
    if bare:
        return x  # type: ignore[no-any-return]
    for scale in scales:
        x = x * scale
    if beta:
        if c is None:
            raise InvalidArgument(f"{op}: argument 'c' is missing, and 'beta' is {beta}")
        x = x + beta * c.float()
    if scales and bias is not None:
        x = x + bias
    x = _gated(op, gate, activation, x) if gate else _activate(op, "activation", activation, x)
    return _follow(op, x, steps or (), step_tensors or ()).to(dtype)


def record_gemm(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    return _recorded("gemm", a, b, None, **options)


def record_gemm_packed(
    a: torch.Tensor, packed: torch.Tensor, n: int, *, batch: int = 1, **options: Any
) -> torch.Tensor:
    return _recorded("gemm_packed", a, packed, (n, batch), **options)


def _rows(record: Callable[..., torch.Tensor], x: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """A linear layer takes a vector too."""
    return record(x, *args, **options) if x.dim() > 1 else record(x.unsqueeze(0), *args, **options).squeeze(0)


def record_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    **options: Any,
) -> torch.Tensor:
    return _rows(record_gemm, x, weight.mT, bias=bias, activation=activation, **options)


def record_linear_packed(
    x: torch.Tensor,
    packed: torch.Tensor,
    n: int,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    **options: Any,
) -> torch.Tensor:
    return _rows(record_gemm_packed, x, packed, n, bias=bias, activation=activation, **options)


# ---- The dispatch key ------------------------------------------------------------------------------------------------


def _tensors(*args: Any, **options: Any) -> Iterator[torch.Tensor]:
    for value in (*args, *options.values()):
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, torch.Tensor):
                yield one


def _find_requires_grad(*args: Any, **options: Any) -> bool:
    return any(tensor.requires_grad for tensor in _tensors(*args, **options))


def _refuse_tangents(op: str, *args: Any, **options: Any) -> None:
    if any(has_tangent(tensor) for tensor in _tensors(*args, **options)):
        raise InvalidArgument(f"{op}: an argument has a tangent, and there are no derivatives in forward mode")


def refuser(op: str, why: str) -> Callable[..., Any]:
    """In the place of a record function: what cannot be recorded is refused, never silently lost."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise InvalidArgument(f"{op}: an argument requires grad, and {why}; or call under torch.no_grad()")

    return refuse


def autograd_kernel(
    name: str, overload: Callable[..., Any], kernel: Callable[..., Any], record: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel of an operator under the key Autograd."""
    grad_enabled, below_autograd = torch._C.is_grad_enabled, torch._C._AutoDispatchBelowAutograd
    requires_grad = getattr(torch._C, "_any_requires_grad", _find_requires_grad)  # newer ones search in C++
    rest = torch._C._after_ADInplaceOrView_keyset
    kernels = (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)
    # By the keys of a call: whether the next kernel is the device's, with no mode and no wrapper between.
    next_is_kernel: dict[int, bool] = {}

    def run(keys: Any, *args: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0:
            _refuse_tangents(name, *args, **options)
        if grad_enabled() and requires_grad(*args, **options):
            return record(*args, **options)
        # Dispatching once more would take as long as everything else before the kernel.
        bits = keys.raw_repr()
        if bits not in next_is_kernel:
            next_is_kernel[bits] = (keys & rest).highestPriorityTypeId() in kernels
        if next_is_kernel[bits]:
            return kernel(*args, **options)
        with below_autograd():
            return overload(*args, **options)

    return run
