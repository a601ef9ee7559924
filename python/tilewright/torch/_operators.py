# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: schemas, CPU kernels (functions of the extension module, no Python between) and fakes.

A schema has no tuples: a clamp is the text "clamp(low, high)", and the steps "add" and "mul" take their tensors from
step_tensors in order. Packed weights are a uint8 tensor, and `n` and `batch` say what its header says, because a fake
tensor has no header to read.
"""

from __future__ import annotations

from typing import Any, Literal

import torch

from .. import _core
from .._errors import InvalidArgument

if not hasattr(torch.library, "register_fake"):
    raise ImportError(f"tilewright.torch needs PyTorch 2.4 or later, found {torch.__version__}")

_OPTIONS = (
    "ScalarType? out_dtype=None, float alpha=1.0, float beta=0.0, Tensor? c=None, "
    "Tensor? scale_a=None, Tensor? scale_b=None, str? gate=None, str[]? steps=None, Tensor[]? step_tensors=None, "
    "bool deterministic=False, bool batch_invariant=False, str? recipe=None, int units=0"
)
_GEMM_OPTIONS = f"*, Tensor? bias=None, str? activation=None, {_OPTIONS}"
_LINEAR_OPTIONS = f"Tensor? bias=None, str? activation=None, *, {_OPTIONS}"
_PACKED_SIZES = "SymInt n, SymInt batch=1"

# PyTorch 2.13 and later write the fake of what is tagged so, and know that `out` is only written.
OUT_TAG = getattr(torch.Tag, "out", None)

# Kept: an operator lives as long as its library.
_library = torch.library.Library("tilewright", "FRAGMENT")


def _check_grad(op: str, tensors: dict[str, torch.Tensor | None]) -> None:
    """The rule of the real kernels, at tracing: what autograd would record is refused, never silently lost."""
    if not torch.is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad:
            raise InvalidArgument(
                f"{op}: argument '{name}' requires grad, and tilewright records no gradient: call it under "
                "torch.no_grad() or torch.inference_mode()"
            )


def _result(
    op: str,
    a: torch.Tensor,
    lead: tuple[Any, ...],
    n: Any,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
    c: torch.Tensor | None = None,
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    gate: str | None = None,
    **_: Any,
) -> torch.Tensor:
    """A result without values: shape [lead.., M, N or I], row-major."""
    first = "x" if op.startswith("linear") else "a"
    _check_grad(op, {first: a, "bias": bias, "c": c, "scale_a": scale_a, "scale_b": scale_b})
    if gate in (None, "none"):
        columns = n
    else:
        torch._check(n % 2 == 0, lambda: f"{op}: argument 'gate' needs an even N, got N = {n}")
        columns = n // 2
    dtype = out_dtype or (torch.float32 if a.dtype == torch.int8 else a.dtype)
    return a.new_empty((*lead, columns), dtype=dtype)


def _check_product(op: str, a: torch.Tensor, b: torch.Tensor, k: Any) -> None:
    torch._check(
        a.shape[-1] == k, lambda: f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} differ in K: {a.shape[-1]}, {k}"
    )
    torch._check(a.dtype == b.dtype, lambda: f"{op}: dtypes {a.dtype} and {b.dtype} differ")


def _fake_gemm(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "gemm: arguments 'a' and 'b' need rank 2 or more")
    _check_product("gemm", a, b, b.shape[-2])
    _check_grad("gemm", {"b": b})
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _result("gemm", a, (*lead, a.shape[-2]), b.shape[-1], **options)


def _fake_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    **options: Any,
) -> torch.Tensor:
    torch._check(weight.dim() == 2 and x.dim() >= 1, lambda: "linear: argument 'weight' needs rank 2, 'x' 1 or more")
    _check_product("linear", x, weight, weight.shape[-1])
    _check_grad("linear", {"weight": weight})
    return _result("linear", x, tuple(x.shape[:-1]), weight.shape[0], bias=bias, **options)


def _fake_gemm_packed(a: torch.Tensor, packed: torch.Tensor, *, n: Any, batch: Any = 1, **options: Any) -> torch.Tensor:
    torch._check(
        a.dim() >= 2 and packed.dim() == 1, lambda: "gemm_packed: argument 'a' needs rank 2 or more, 'packed' 1"
    )
    lead = a.shape[:-2] if batch == 1 else torch.broadcast_shapes(a.shape[:-2], (batch,))
    return _result("gemm_packed", a, (*lead, a.shape[-2]), n, **options)


def _fake_linear_packed(
    x: torch.Tensor,
    packed: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    *,
    n: Any,
    batch: Any = 1,
    **options: Any,
) -> torch.Tensor:
    torch._check(
        x.dim() >= 1 and packed.dim() == 1, lambda: "linear_packed: argument 'x' needs rank 1 or more, 'packed' 1"
    )
    return _result("linear_packed", x, tuple(x.shape[:-1]), n, bias=bias, **options)


def _fake_out(*args: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
    return out


_PACK_SCHEMA = 'pack_weights(Tensor b, *, str layout="kn") -> Tensor'
_UNPACK_SCHEMA = 'unpack_weights(Tensor packed, SymInt[] size, *, ScalarType dtype, str layout="kn") -> Tensor'
Layout = Literal["kn", "nk"]
_SHORT_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8"}


def packed_nbytes(size: tuple[int, ...], dtype: torch.dtype, layout: Layout) -> int:
    """Bytes that weights of this size take when packed."""
    first, second = size[-2], size[-1]
    k, n = (first, second) if layout == "kn" else (second, first)
    return _core.packed_nbytes(
        _SHORT_NAMES.get(dtype, str(dtype)), int(n), int(k), int(size[0]) if len(size) == 3 else 1
    )


def _pack(b: torch.Tensor, *, layout: Layout = "kn") -> torch.Tensor:
    packed = torch.empty(packed_nbytes(tuple(b.shape), b.dtype, layout), dtype=torch.uint8, device=b.device)
    _core.pack_weights_into(b, packed, layout=layout)
    return packed


def _fake_pack(b: torch.Tensor, *, layout: Layout = "kn") -> torch.Tensor:
    torch._check(b.dim() in (2, 3), lambda: f"pack_weights: argument 'b' has rank {b.dim()}, allowed: 2, 3")
    return b.new_empty((packed_nbytes(tuple(b.shape), b.dtype, layout),), dtype=torch.uint8)


def _unpack(packed: torch.Tensor, size: list[int], *, dtype: torch.dtype, layout: Layout = "kn") -> torch.Tensor:
    weight = torch.empty(size, dtype=dtype, device=packed.device)
    _core.PackedWeights.from_tensor(packed).unpack(weight, layout=layout)
    return weight


def _fake_unpack(packed: torch.Tensor, size: list[Any], *, dtype: torch.dtype, layout: Layout = "kn") -> torch.Tensor:
    return packed.new_empty(size, dtype=dtype)


def _define(name: str, inputs: str, kernel: Any, fake: Any) -> None:
    """An operator and its out variant, as PyTorch's own have one. The latter takes its dtype from `out` and has no
    out_dtype; Inductor of PyTorch 2.13, which would otherwise call it in place of the former, mixes up the arguments of
    operators with optional ones."""
    tags = (torch.Tag.pt2_compliant_tag,)
    _library.define(f"{name}({inputs}) -> Tensor", tags=tags)
    _library.impl(name, kernel, "CPU")
    torch.library.register_fake(f"tilewright::{name}", fake, lib=_library)
    inputs = inputs.replace(" ScalarType? out_dtype=None,", "")
    _library.define(
        f"{name}.out({inputs}, Tensor(a!) out) -> Tensor(a!)", tags=tags if OUT_TAG is None else (*tags, OUT_TAG)
    )
    _library.impl(f"{name}.out", kernel, "CPU")
    if OUT_TAG is None:
        torch.library.register_fake(f"tilewright::{name}.out", _fake_out, lib=_library)


def _register() -> None:
    _define("gemm", f"Tensor a, Tensor b, {_GEMM_OPTIONS}", _core.op_gemm, _fake_gemm)
    _define("linear", f"Tensor x, Tensor weight, {_LINEAR_OPTIONS}", _core.op_linear, _fake_linear)
    _define(
        "gemm_packed",
        f"Tensor a, Tensor packed, {_GEMM_OPTIONS}, {_PACKED_SIZES}",
        _core.op_gemm_packed,
        _fake_gemm_packed,
    )
    _define(
        "linear_packed",
        f"Tensor x, Tensor packed, {_LINEAR_OPTIONS}, {_PACKED_SIZES}",
        _core.op_linear_packed,
        _fake_linear_packed,
    )
    for schema, kernel, fake in ((_PACK_SCHEMA, _pack, _fake_pack), (_UNPACK_SCHEMA, _unpack, _fake_unpack)):
        name = schema.split("(")[0]
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(name, kernel, "CPU")
        torch.library.register_fake(f"tilewright::{name}", fake, lib=_library)


_register()
