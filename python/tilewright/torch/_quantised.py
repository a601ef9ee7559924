# SPDX-License-Identifier: MIT
"""Layers whose weights are integers of 4 or 8 bits, as quantised checkpoints store them, for inference."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from .. import _core
from . import _operators  # noqa: F401  (registers torch.ops.tilewright)
from ._functions import Activation, _text

_linear = torch.ops.tilewright.linear.default


class QuantisedLinear(nn.Module):
    """activation(x @ ((weight - zero) * scale).T + bias) for x of float16 or bfloat16.

    Buffers: `weight`, two u4 or i4 a byte, [out, in / 2] uint8, or [out, in] int8; `scale` [groups, out]; `zero`, pairs
    [groups, out / 2] of uint8, or [groups, out], or None; `order` [in], the inputs that the columns of the weight stand
    for, or None. A state_dict holds them as they are.
    """

    weight: torch.Tensor
    scale: torch.Tensor
    zero: torch.Tensor | None
    order: torch.Tensor | None
    bias: torch.Tensor | None

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

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.order is not None:
            x = x.index_select(-1, self.order)
        elif not x.is_contiguous():
            x = x.contiguous()
        return _linear(  # type: ignore[no-any-return]
            x,
            self.weight,
            self.bias,
            self.activation,
            scale_b=self.scale.T,
            zero_b=None if self.zero is None else self.zero.T,
            scale_group_b=[1, self.group_size],
            b_dtype=None if self.weight_dtype == "i8" else self.weight_dtype,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"activation={self.activation!r}, weight={self.weight_dtype}, group_size={self.group_size}"
        )
