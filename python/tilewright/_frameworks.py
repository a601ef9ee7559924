# SPDX-License-Identifier: MIT
"""What differs from framework to framework. Imports one only when the caller already works with it."""

from __future__ import annotations

import sys
from typing import Any

from ._errors import InvalidArgument

# Framework of src/tensor/type_traits.hpp.
OTHER, TORCH, NUMPY, JAX = range(4)

_FULL_NAMES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i8": "int8",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e8m0": "float8_e8m0fnu",
    "e2m1": "float4_e2m1fn_x2",
}
# Of new tensors; no argument takes a dtype of numbers or bytes.
_MADE_NAMES = {**_FULL_NAMES, "i32": "int32", "u8": "uint8"}


def _class(module: str, name: str) -> type | None:
    """A class of a module that the process has imported, or None."""
    return getattr(sys.modules.get(module), name, None)


def _own_exchange(kind: type) -> bool:
    """Whether the class that brings DLPack's exchange table is at least as derived as the one that brings __dlpack__: a
    subclass that changes only the latter means what it says there."""
    for base in kind.__mro__:
        names = vars(base)
        if "__dlpack_c_exchange_api__" in names:
            return True
        if "__dlpack__" in names:
            return False
    return False


def classify(kind: type) -> tuple[int, bool, bool, bool]:
    """Of a type: its framework; whether it is the framework's own tensor and no subclass that may change what a tensor
    means; whether DLPack's exchange table may be used; whether it is a tensor at all."""
    tensor = _class("torch", "Tensor")
    if tensor is not None and issubclass(kind, tensor):
        plain = kind in (tensor, _class("torch.nn", "Parameter"))
        return TORCH, plain, plain, True
    array = _class("numpy", "ndarray")
    if array is not None and issubclass(kind, array):
        # A masked array's mask would be ignored.
        masked = _class("numpy.ma", "MaskedArray")
        return NUMPY, kind is array, False, masked is None or not issubclass(kind, masked)
    if (kind.__module__ or "").split(".")[0] in ("jax", "jaxlib"):
        return JAX, False, False, True
    return OTHER, False, _own_exchange(kind), hasattr(kind, "__dlpack__")


def dtype_name(dtype: Any) -> str:
    """ "bf16" or "bfloat16", of a text, a torch.dtype, a numpy.dtype or a scalar type such as jax.numpy.bfloat16."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(getattr(dtype, "dtype", None), "name", None)
    if not isinstance(name, str):
        name = getattr(dtype, "__name__", None) or str(dtype)
    return name.rsplit(".", 1)[-1]


def short_dtype_name(dtype: Any, op: str) -> str:
    """tilewright's name of a dtype, in whichever of its names."""
    name = dtype_name(dtype)
    for short, full in _FULL_NAMES.items():
        if name in (short, full):
            return short
    raise InvalidArgument(f"{op}: dtype {name} is none of: {', '.join(_FULL_NAMES)}")


def _numpy_bfloat16(like: Any, op: str) -> Any:
    if like.dtype.name == "bfloat16":
        return like.dtype
    try:
        import ml_dtypes
    except ImportError:
        raise InvalidArgument(
            f"{op}: argument 'out_dtype' is bfloat16, which NumPy has only with the package ml_dtypes"
        ) from None
    return ml_dtypes.bfloat16


# torch.dtype by tilewright's name; filled at the first tensor of torch.
_torch_dtypes: dict[str, Any] = {}


def torch_dtype(name: str) -> Any:
    if not _torch_dtypes:
        torch = sys.modules["torch"]
        # Older versions have not all of them.
        _torch_dtypes.update({short: getattr(torch, full, None) for short, full in _MADE_NAMES.items()})
    return _torch_dtypes[name]


def torch_stream(device: int) -> int:
    """The address of PyTorch's current stream of a GPU."""
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream


def low_words(framework: int, x: Any) -> Any:
    """An i32 view of an int64 tensor's low halves; other tensors as they are."""
    pairs = words(framework, x)
    return x if pairs is x else pairs[..., 0]


def words(framework: int, x: Any) -> Any:
    """An i32 view [..., 2] of an int64 tensor's words; other tensors as they are."""
    if dtype_name(x.dtype) != "int64" or framework not in (TORCH, NUMPY):
        return x
    return x[..., None].view(sys.modules["torch"].int32 if framework == TORCH else "int32")


def empty(framework: int, like: Any, shape: tuple[int, ...], dtype: str, op: str) -> Any:
    """A new tensor of the framework, and on the device, of `like`."""
    if framework == TORCH:
        if torch_dtype(dtype) is None:
            raise InvalidArgument(f"{op}: this PyTorch has no torch.{_FULL_NAMES[dtype]}")
        if dtype == "e2m1":  # two elements each
            if shape[-1] % 2:
                raise InvalidArgument(f"{op}: pairs of e2m1 have no last size {shape[-1]}")
            shape = (*shape[:-1], shape[-1] // 2)
        return sys.modules["torch"].empty(shape, dtype=torch_dtype(dtype), device=like.device)
    if framework == NUMPY:
        numpy = sys.modules["numpy"]
        if dtype not in ("f32", "f16", "bf16", "i8", "i32"):
            raise InvalidArgument(f"{op}: NumPy has no {_FULL_NAMES[dtype]}")
        return numpy.empty(shape, _numpy_bfloat16(like, op) if dtype == "bf16" else _MADE_NAMES[dtype])
    if framework == JAX:
        return sys.modules["jax"].numpy.empty(shape, _MADE_NAMES[dtype], device=like.device)
    kind = type(like)
    raise InvalidArgument(
        f"{op}: argument 'out' is missing, and tilewright makes no {kind.__module__}.{kind.__qualname__}: pass out="
    )


def empty_image(framework: int, like: Any, shape: tuple[int, ...], dtype: str, op: str, channels_last: bool) -> Any:
    """The same, [N, C, ...], of which positions or channels are neighbours."""
    if not channels_last:
        return empty(framework, like, shape, dtype, op)
    made = empty(framework, like, (shape[0], *shape[2:], shape[1]), dtype, op)
    return made.movedim(-1, 1) if framework == TORCH else sys.modules["numpy"].moveaxis(made, -1, 1)


def to_jax(buffer: Any) -> Any:
    """The JAX array that takes over a tilewright._core.Buffer."""
    import jax

    return jax.dlpack.from_dlpack(buffer)


def has_tangent(tensor: Any) -> bool:
    """Of a torch tensor while a level of forward mode is open: whether it carries a derivative."""
    import torch
    from torch.autograd import forward_ad

    return torch._C._is_fwd_grad_enabled() and forward_ad.unpack_dual(tensor).tangent is not None
