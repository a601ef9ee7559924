# SPDX-License-Identifier: MIT
"""torch.ops.tilewright: schemas, kernels for CPU and CUDA (functions of the extension module, no Python between),
fakes, gradients.

A schema has the arguments of the extension module's function, by its signature. It has no tuples: a clamp is the text
"clamp(low, high)", and the steps "add" and "mul" take their tensors from step_tensors in order. Packed weights are a
uint8 tensor, and `n` and `batch` say what its header says, because a fake tensor has no header to read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import torch

from .. import _core
from .._errors import InvalidArgument
from . import _autograd

if not hasattr(torch.library, "register_fake"):
    raise ImportError(f"tilewright.torch needs PyTorch 2.4 or later, found {torch.__version__}")

# PyTorch 2.13 and later write the fake of what is tagged so, and know that `out` is only written.
OUT_TAG = getattr(torch.Tag, "out", None)

# Kept: an operator lives as long as its library.
_library = torch.library.Library("tilewright", "FRAGMENT")


def _result(
    op: str,
    a: torch.Tensor,
    lead: tuple[Any, ...],
    n: Any,
    out_dtype: torch.dtype | None = None,
    gate: str | None = None,
    **_: Any,
) -> torch.Tensor:
    """A result without values: shape [lead.., M, N or I], row-major."""
    if gate in (None, "none"):
        columns = n
    else:
        torch._check(n % 2 == 0, lambda: f"{op}: argument 'gate' needs an even N, got N = {n}")
        columns = n // 2
    dtype = out_dtype or _autograd.result_dtype(a.dtype)
    return a.new_empty((*lead, columns), dtype=dtype)


_FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)
_SMALL_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2, _FLOAT4)


def _may_multiply(a: torch.dtype, b: torch.dtype) -> bool:
    if a == b:
        return True
    if b in (torch.int8, torch.uint8):  # integers, in bytes or two a byte
        return a in (torch.float16, torch.bfloat16)
    known = (*_SMALL_FLOATS, torch.float16, torch.bfloat16)
    return a in known and b in known and (a in _SMALL_FLOATS or b in _SMALL_FLOATS)


def _pair_dimension(t: torch.Tensor, depth: Any = None) -> int:
    """The dimension along which pairs of 4-bit elements are neighbours; of two the last, or the one before, where that
    makes `depth` of it."""
    strides, shape, last = t.stride(), t.shape, t.dim() - 1
    if depth is not None and 2 * shape[-2] == depth and (strides[-2] == 1 or shape[-2] == 1):
        return last - 1
    if strides[-1] == 1:
        return last
    return ([i for i in range(last) if strides[i] == 1 and shape[i] != 1] or [last])[-1]


def _sizes(t: torch.Tensor, depth: Any = None) -> tuple[Any, ...]:
    """The shape in elements: pairs of 4-bit ones count as two."""
    if t.dtype not in (_FLOAT4, torch.uint8):
        return tuple(t.shape)
    along = _pair_dimension(t, depth)
    return tuple(2 * size if i == along else size for i, size in enumerate(t.shape))


def _check_product(op: str, a: torch.Tensor, b: torch.Tensor, k: Any) -> None:
    depth = _sizes(a)[-1]
    torch._check(depth == k, lambda: f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} differ in K: {depth}, {k}")
    torch._check(_may_multiply(a.dtype, b.dtype), lambda: f"{op}: dtypes {a.dtype} and {b.dtype} differ")


def _fake_gemm(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "gemm: arguments 'a' and 'b' need rank 2 or more")
    *_, k, n = _sizes(b, _sizes(a)[-1])
    _check_product("gemm", a, b, k)
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _result("gemm", a, (*lead, a.shape[-2]), n, **options)


def _fake_linear(x: torch.Tensor, weight: torch.Tensor, *_: Any, **options: Any) -> torch.Tensor:
    torch._check(weight.dim() == 2 and x.dim() >= 1, lambda: "linear: argument 'weight' needs rank 2, 'x' 1 or more")
    n, k = _sizes(weight)
    _check_product("linear", x, weight, k)
    return _result("linear", x, tuple(x.shape[:-1]), n, **options)


def _fake_gemm_packed(a: torch.Tensor, packed: torch.Tensor, n: Any, *, batch: Any = 1, **options: Any) -> torch.Tensor:
    torch._check(
        a.dim() >= 2 and packed.dim() == 1, lambda: "gemm_packed: argument 'a' needs rank 2 or more, 'packed' 1"
    )
    lead = a.shape[:-2] if batch == 1 else torch.broadcast_shapes(a.shape[:-2], (batch,))
    return _result("gemm_packed", a, (*lead, a.shape[-2]), n, **options)


def _fake_linear_packed(x: torch.Tensor, packed: torch.Tensor, n: Any, *_: Any, **options: Any) -> torch.Tensor:
    torch._check(
        x.dim() >= 1 and packed.dim() == 1, lambda: "linear_packed: argument 'x' needs rank 1 or more, 'packed' 1"
    )
    return _result("linear_packed", x, tuple(x.shape[:-1]), n, **options)


def _fake_out(*args: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
    return out


Layout = Literal["kn", "nk"]
_SHORT_NAMES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    **({_FLOAT4: "e2m1"} if _FLOAT4 is not None else {}),
}


def packed_nbytes(b: torch.Tensor, layout: Layout, b_dtype: str | None) -> int:
    """Bytes that these weights take when packed where they are."""
    size = [int(s) for s in b.shape]
    if b.dtype is _FLOAT4 or b_dtype is not None:  # two elements each, along the dimension of stride 1
        if 1 not in b.stride():
            raise InvalidArgument(
                f"pack_weights: argument 'b' has strides {list(b.stride())}, allowed: 1 in the dimension of its pairs"
            )
        size[_pair_dimension(b)] *= 2
    first, second = size[-2], size[-1]
    k, n = (first, second) if layout == "kn" else (second, first)
    device = "cpu" if b.device.type != "cuda" else "hip" if torch.version.hip else "cuda"
    dtype = b_dtype or _SHORT_NAMES.get(b.dtype, str(b.dtype))
    return _core.packed_nbytes(dtype, n, k, size[0] if len(size) == 3 else 1, device)


def _pack(b: torch.Tensor, *, layout: Layout = "kn", b_dtype: Any = None) -> torch.Tensor:
    packed = torch.empty(packed_nbytes(b, layout, b_dtype), dtype=torch.uint8, device=b.device)
    _core.pack_weights_into(b, packed, layout=layout, b_dtype=b_dtype)
    return packed


def _fake_pack(b: torch.Tensor, *, layout: Layout = "kn", b_dtype: str | None = None) -> torch.Tensor:
    torch._check(b.dim() in (2, 3), lambda: f"pack_weights: argument 'b' has rank {b.dim()}, allowed: 2, 3")
    return b.new_empty((packed_nbytes(b, layout, b_dtype),), dtype=torch.uint8)


def _unpack(packed: torch.Tensor, size: list[int], *, dtype: torch.dtype, layout: Layout = "kn") -> torch.Tensor:
    weight = torch.empty(size, dtype=dtype, device=packed.device)
    _core.PackedWeights.from_tensor(packed).unpack(weight, layout=layout)
    return weight


def _fake_unpack(packed: torch.Tensor, size: list[Any], *, dtype: torch.dtype, layout: Layout = "kn") -> torch.Tensor:
    return packed.new_empty(size, dtype=dtype)


# ---- Schemas and registration ----------------------------------------------------------------------------------------

# Types in a schema, by the parameter's name; all others are tensors.
_TYPES = {
    "bias": "Tensor?",
    "activation": "str?",
    "out_dtype": "ScalarType?",
    "alpha": "float",
    "beta": "float?",
    "c": "Tensor?",
    "scale_a": "Tensor?",
    "scale_b": "Tensor?",
    "scale_group_a": "int[]?",
    "scale_group_b": "int[]?",
    "zero_b": "Tensor?",
    "b_dtype": "str?",
    "gate": "str?",
    "steps": "str[]?",
    "step_tensors": "Tensor[]?",
    "deterministic": "bool",
    "batch_invariant": "bool",
    "allow_tf32": "bool",
    "allow_fast_accum": "bool",
    "recipe": "str?",
    "units": "int",
    "programmatic_edge": "bool",
    "n": "SymInt",
    "batch": "SymInt",
}


def _inputs(kernel: Callable[..., Any], without: tuple[str, ...]) -> str:
    """The arguments of a schema, from the signature of a function of the extension module."""
    texts: list[str] = []
    keywords = False
    for name, parameter in inspect.signature(kernel).parameters.items():
        if name in without:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            texts.append("*")
        kind = _TYPES.get(name, "Tensor")
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={None if kind.endswith('?') else parameter.default}"
        texts.append(text)
    return ", ".join(texts)


def _define(schema: str, kernel: Any, fake: Any, record: Any, tags: tuple[Any, ...] = ()) -> None:
    name = schema.split("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag, *tags))
    for key in ("CPU", "CUDA"):
        _library.impl(name, kernel, key)
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.tilewright, base), overload or "default")
    _library.impl(name, _autograd.autograd_kernel(base, op, kernel, record), "Autograd", with_keyset=True)
    if fake is not None:
        torch.library.register_fake(f"tilewright::{name}", fake, lib=_library)


def _define_product(name: str, kernel: Any, fake: Any, record: Any) -> None:
    """An operator and its out variant, as PyTorch's own have one. The latter takes its dtype from `out` and has no
    out_dtype; Inductor of PyTorch 2.13, which would otherwise call it in place of the former, mixes up the arguments of
    operators with optional ones."""
    _define(f"{name}({_inputs(kernel, ('out',))}) -> Tensor", kernel, fake, record)
    tagged = OUT_TAG is not None
    _define(
        f"{name}.out({_inputs(kernel, ('out', 'out_dtype'))}, Tensor(a!) out) -> Tensor(a!)",
        kernel,
        None if tagged else _fake_out,
        _autograd.refuser(name, "a call with 'out' records no gradient, as PyTorch's own with out= record none"),
        (OUT_TAG,) if tagged else (),
    )


_define_product("gemm", _core.op_gemm, _fake_gemm, _autograd.record_gemm)
_define_product("linear", _core.op_linear, _fake_linear, _autograd.record_linear)
_define_product("gemm_packed", _core.op_gemm_packed, _fake_gemm_packed, _autograd.record_gemm_packed)
_define_product("linear_packed", _core.op_linear_packed, _fake_linear_packed, _autograd.record_linear_packed)
_define(
    'pack_weights(Tensor b, *, str layout="kn", str? b_dtype=None) -> Tensor',
    _pack,
    _fake_pack,
    _autograd.refuser("pack_weights", "packed weights are constants of autograd: pass b.detach()"),
)
_define(
    'unpack_weights(Tensor packed, SymInt[] size, *, ScalarType dtype, str layout="kn") -> Tensor',
    _unpack,
    _fake_unpack,
    _autograd.refuser("unpack_weights", "packed weights are constants of autograd"),
)
