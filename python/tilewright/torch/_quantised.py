# SPDX-License-Identifier: MIT
"""Layers whose weights are integers of 4 or 8 bits, as quantised checkpoints store them, for inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from .. import _core
from . import _operators  # noqa: F401  (registers torch.ops.tilewright)
from ._functions import Activation, _text, pack_weights, unpack_weights
from ._plain_state import PlainStateDict

_linear = torch.ops.tilewright.linear.default
_linear_packed = torch.ops.tilewright.linear_packed.default

_PACKED_GROUPS = (32, 64, 128)  # that kernels of packed weights have
_CUDA_PACKED_K = 64  # what K is a multiple of in kernels of NVIDIA GPUs


class _QuantisedModule(nn.Module):
    """What stands beside a weight of integers, wherever that lies."""

    scale: torch.Tensor
    zero: torch.Tensor | None
    order: torch.Tensor | None
    bias: torch.Tensor | None
    weight_dtype: Literal["u4", "i4", "i8"]
    in_features: int
    out_features: int
    group_size: int
    activation: str | None

    def _ordered(self, x: torch.Tensor) -> torch.Tensor:
        if self.order is not None:
            return x.index_select(-1, self.order)
        return x if x.is_contiguous() else x.contiguous()

    def _options(self) -> dict[str, Any]:
        return {
            "scale_b": self.scale.T,
            "zero_b": None if self.zero is None else self.zero.T,
            "scale_group_b": [1, self.group_size],
            "b_dtype": self._nibbles(),
        }

    def _nibbles(self) -> str | None:
        return None if self.weight_dtype == "i8" else self.weight_dtype

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"activation={self.activation!r}, weight={self.weight_dtype}, group_size={self.group_size}"
        )


class QuantisedLinear(_QuantisedModule):
    """activation(x @ ((weight - zero) * scale).T + bias) for x of float16 or bfloat16.

    Buffers: `weight`, two u4 or i4 a byte, [out, in / 2] uint8, or [out, in] int8; `scale` [groups, out]; `zero`, pairs
    [groups, out / 2] of uint8, or [groups, out], or None; `order` [in], the inputs that the columns of the weight stand
    for, or None. A state_dict holds them as they are.
    """

    weight: torch.Tensor

    def __init__(
        self,
        weight: torch.Tensor,
        scale: torch.Tensor,
        *,
        dtype: Literal["u4", "i4", "i8"],
        group_size: int,
        zero: torch.Tensor | None = None,
        order: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        activation: Activation = None,
    ) -> None:
        super().__init__()
        self.weight_dtype = dtype
        self.group_size = group_size
        self.activation = _text(activation)
        self.in_features = weight.shape[1] if dtype == "i8" else 2 * weight.shape[1]
        self.out_features = weight.shape[0]
        for name, tensor in (("weight", weight), ("scale", scale), ("zero", zero), ("order", order), ("bias", bias)):
            self.register_buffer(name, tensor)

    @classmethod
    def from_awq(
        cls,
        qweight: torch.Tensor,
        qzeros: torch.Tensor | None,
        scales: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        activation: Activation = None,
    ) -> QuantisedLinear:
        """Of an AWQ checkpoint: qweight int32 [in, out / 8], qzeros int32 [groups, out / 8], scales [groups, out]."""
        return cls._of("awq", 4, qweight.shape[0], qweight, qzeros, scales, None, bias, activation)

    @classmethod
    def from_gptq(
        cls,
        qweight: torch.Tensor,
        qzeros: torch.Tensor | None,
        scales: torch.Tensor,
        g_idx: torch.Tensor | None = None,
        *,
        bits: Literal[4, 8] = 4,
        v2: bool = False,
        bias: torch.Tensor | None = None,
        activation: Activation = None,
    ) -> QuantisedLinear:
        """Of a GPTQ checkpoint: qweight int32 [in bits / 32, out], qzeros int32 [groups, out bits / 32], scales
        [groups, out], g_idx int32 [in]. `v2`: zero points are stored as they are (checkpoint_format "gptq_v2"), not
        less one."""
        name = "gptq_v2" if v2 else "gptq"
        return cls._of(name, bits, qweight.shape[0] * 32 // bits, qweight, qzeros, scales, g_idx, bias, activation)

    @classmethod
    def _of(
        cls,
        name: Literal["awq", "gptq", "gptq_v2"],
        bits: int,
        depth: int,
        qweight: torch.Tensor,
        qzeros: torch.Tensor | None,
        scales: torch.Tensor,
        g_idx: torch.Tensor | None,
        bias: torch.Tensor | None,
        activation: Activation,
    ) -> QuantisedLinear:
        device = scales.device
        words = qweight.detach().cpu()
        zero_words = None if qzeros is None else qzeros.detach().cpu()
        index = None if g_idx is None else g_idx.detach().to("cpu", torch.int32)
        groups, columns = scales.shape
        if depth % 2 and bits == 4:
            raise ValueError(f"{cls.__name__}: a weight of 4 bits has {depth} inputs, allowed: an even number")
        size = -(-depth // groups)
        if index is not None:
            size = int(torch.bincount(index.long()).max())
        half = 1 << (bits - 1)

        # Zero points decide how the weight is held: signed without any where all are half of the range.
        zero = torch.empty((groups, columns), dtype=torch.float16)
        order = torch.empty(depth, dtype=torch.int32)
        weight = torch.empty(
            (columns, depth if bits == 8 else depth // 2), dtype=torch.int8 if bits == 8 else torch.uint8
        )
        options: dict[str, Any] = {"group_index": index, "order_out": order, "layout": "nk"}
        dtype = "i8" if bits == 8 else "u4"
        nibbles = None if bits == 8 else dtype
        _core.import_weights(name, words, weight, zeros=zero_words, zero_out=zero.T, dtype=nibbles, **options)
        plain = 0 if bits == 8 else half
        held: torch.Tensor | None
        if bool((zero == plain).all()):
            held = None
            if bits == 4:
                dtype = "i4"
                _core.import_weights(name, words, weight, zeros=zero_words, dtype="i4", **options)
        elif bits == 4 and columns % 2 == 0 and bool((zero < 16).all()):
            codes = zero.to(torch.uint8)
            held = codes[:, 0::2] | codes[:, 1::2] << 4
        elif bool((zero <= 127).all()):
            held = zero.to(torch.int8)
        else:
            held = zero
        identity = torch.equal(order, torch.arange(depth, dtype=torch.int32))
        return cls(
            weight.to(device),
            scales.detach().clone(),
            dtype=dtype,  # type: ignore[arg-type]
            group_size=size,
            zero=None if held is None else held.to(device),
            order=None if identity else order.to(device),
            bias=None if bias is None else bias.detach().clone(),
            activation=activation,
        )

    def packed(self) -> PackedQuantisedLinear:
        """The same function with its weight packed for the device that it is on."""
        return PackedQuantisedLinear(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _linear(  # type: ignore[no-any-return]
            self._ordered(x), self.weight, self.bias, self.activation, **self._options()
        )


class PackedQuantisedLinear(PlainStateDict, _QuantisedModule):
    """A QuantisedLinear whose weight is packed: on CPUs any, on NVIDIA GPUs of 4 bits; groups of 32, 64 or 128.

    It shares the other buffers. Its state_dict is a QuantisedLinear's, and each loads the other's; on another device it
    is packed anew.
    """

    def __init__(self, layer: QuantisedLinear) -> None:
        super().__init__()
        if layer.group_size not in _PACKED_GROUPS:
            allowed = ", ".join(map(str, _PACKED_GROUPS))
            raise ValueError(f"{type(self).__name__}: groups of {layer.group_size}, allowed: {allowed}")
        self.weight_dtype = layer.weight_dtype
        self.group_size = layer.group_size
        self.activation = layer.activation
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.register_buffer("packed", self._pack(layer.weight), persistent=False)
        for name in ("scale", "zero", "order", "bias"):
            self.register_buffer(name, getattr(layer, name))
        self.train(layer.training)

    @property
    def weight(self) -> torch.Tensor:
        """The plain weight, as QuantisedLinear has it, unpacked anew each time."""
        return unpack_weights(self.packed, self._shape(), dtype=self._dtype(), layout="nk")

    def set_weight(self, weight: torch.Tensor) -> None:
        """Packs a weight as QuantisedLinear has it."""
        self.packed = self._pack(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _linear_packed(  # type: ignore[no-any-return]
            self._ordered(x), self.packed, self.out_features, self.bias, self.activation, **self._options()
        )

    def _pack(self, weight: torch.Tensor) -> torch.Tensor:
        name = type(self).__name__
        if tuple(weight.shape) != self._shape() or weight.dtype != self._dtype():
            raise ValueError(
                f"{name}: weight is {weight.dtype} {tuple(weight.shape)}, expected {self._dtype()} {self._shape()}"
            )
        if weight.is_cuda and self.in_features % _CUDA_PACKED_K:
            raise ValueError(
                f"{name}: {self.in_features} inputs on {weight.device}, allowed: multiples of {_CUDA_PACKED_K}"
            )
        return pack_weights(weight.detach(), layout="nk", b_dtype=self._nibbles())

    def _shape(self) -> tuple[int, int]:
        return self.out_features, self.in_features if self.weight_dtype == "i8" else self.in_features // 2

    def _dtype(self) -> torch.dtype:
        return torch.int8 if self.weight_dtype == "i8" else torch.uint8

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        # Devices pack each in their own way.
        device = fn(self.packed.new_empty(0)).device
        if device == self.packed.device:
            return super()._apply(fn, recurse)
        weight = self.weight.to(device)
        super()._apply(fn, recurse)
        self.set_weight(weight)
        return self
