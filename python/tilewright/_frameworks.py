# SPDX-License-Identifier: MIT
"""What differs from framework to framework. Imports one only when the caller already works with it."""

from __future__ import annotations

import sys
from typing import Any

from ._errors import InvalidArgument

# Framework of src/tensor/type_traits.hpp.
OTHER, TORCH, NUMPY, JAX = range(4)

_FULL_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


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
        _torch_dtypes.update({short: getattr(torch, full) for short, full in _FULL_NAMES.items()})
    return _torch_dtypes[name]


def torch_stream(device: int) -> int:
    """The address of PyTorch's current stream of a GPU."""
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream


def empty(framework: int, like: Any, shape: tuple[int, ...], dtype: str, op: str) -> Any:
    """A new tensor of the framework, and on the device, of `like`."""
    if framework == TORCH:
        return sys.modules["torch"].empty(shape, dtype=torch_dtype(dtype), device=like.device)
    if framework == NUMPY:
        numpy = sys.modules["numpy"]
        return numpy.empty(shape, _numpy_bfloat16(like, op) if dtype == "bf16" else _FULL_NAMES[dtype])
    if framework == JAX:
        return sys.modules["jax"].numpy.empty(shape, _FULL_NAMES[dtype], device=like.device)
    kind = type(like)
    raise InvalidArgument(
        f"{op}: argument 'out' is missing, and tilewright makes no {kind.__module__}.{kind.__qualname__}: pass out="
    )


def to_jax(buffer: Any) -> Any:
    """The JAX array that takes over a tilewright._core.Buffer."""
    import jax

    return jax.dlpack.from_dlpack(buffer)
