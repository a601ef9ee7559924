# SPDX-License-Identifier: MIT
"""Modules with packed weights, for inference. A state_dict holds plain weights, under torch.nn.Linear's keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from . import _operators  # noqa: F401  (registers torch.ops.tilewright)
from ._functions import Activation, _text, pack_weights, unpack_weights
from ._plain_state import PlainStateDict

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_linear_packed = torch.ops.tilewright.linear_packed.default


class _PackedModule(PlainStateDict):
    """A weight [out rows, in_features] in packed form, and a bias. What follows the weight, a subclass says."""

    bias: torch.Tensor | None

    def __init__(self, rows: int, in_features: int, bias: bool, dtype: torch.dtype | None, device: Any) -> None:
        super().__init__()
        self.rows = rows
        self.in_features = in_features
        self.dtype = dtype or torch.get_default_dtype()
        weight = torch.zeros((rows, in_features), dtype=self._checked(self.dtype), device=device)
        self.register_buffer("packed", pack_weights(weight, layout="nk"), persistent=False)
        self.register_buffer("bias", weight.new_zeros(rows) if bias else None)

    @property
    def weight(self) -> torch.Tensor:
        """The plain weight, unpacked anew each time."""
        return unpack_weights(self.packed, (self.rows, self.in_features), dtype=self.dtype, layout="nk")

    def set_weight(self, weight: torch.Tensor) -> None:
        """Packs a weight [out rows, in_features]; the module takes its dtype."""
        if weight.shape != (self.rows, self.in_features):
            raise ValueError(f"weight has shape {tuple(weight.shape)}, expected {(self.rows, self.in_features)}")
        self.dtype = self._checked(weight.dtype)
        self.packed = pack_weights(weight.detach(), layout="nk")

    def _where_it_is_packed(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.to(self.packed.device, self.dtype)

    def _product(self, x: torch.Tensor, activation: str | None, **options: Any) -> torch.Tensor:
        # The operator copies no input, and refuses what its strides cannot express; a layer takes whatever comes.
        if not x.is_contiguous():
            x = x.contiguous()
        # Module.__getattr__ would search for each of them, and take half a microsecond.
        buffers = self._buffers
        return _linear_packed(  # type: ignore[no-any-return]
            x, buffers["packed"], self.rows, buffers["bias"], activation, **options
        )

    def _checked(self, dtype: torch.dtype) -> torch.dtype:
        if dtype not in _DTYPES:
            raise ValueError(f"{type(self).__name__}: dtype is {dtype}, allowed: {', '.join(map(str, _DTYPES))}")
        return dtype

    def _take(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.set_weight(weight)
        if bias is not None:
            self.bias = bias.detach().clone()

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        # Packed bytes have no dtype that .to() or .half() would change: ask what becomes of the weight's.
        dtype = fn(torch.empty(0, dtype=self.dtype, device=self.packed.device)).dtype
        if dtype != self.dtype:
            self.set_weight(self.weight.to(self._checked(dtype)))
        return super()._apply(fn, recurse)


class Linear(_PackedModule):
    """activation(x @ weight.T + bias): torch.nn.Linear with an activation. Zero until weights are loaded."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: Activation = None,
        *,
        dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(out_features, in_features, bias, dtype, device)
        self.out_features = out_features
        self.activation = _text(activation)

    @classmethod
    def from_linear(cls, linear: nn.Linear, activation: Activation = None) -> Linear:
        """The same function as `linear`, with its weight packed."""
        bias = linear.bias is not None
        module = cls(
            linear.in_features,
            linear.out_features,
            bias,
            activation,
            dtype=linear.weight.dtype,
            device=linear.weight.device,
        )
        module._take(linear.weight, linear.bias)
        return module.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._product(x, self.activation)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"activation={self.activation!r}, dtype={self.dtype}"
        )


class GatedLinear(_PackedModule):
    """activation(x @ gate.T) * (x @ up.T) in one product: the first half of a gated MLP. Its weight is [2 I, K], the
    gate's rows first, as a fused gate-up layer has it."""

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        bias: bool = False,
        activation: Activation = "silu",
        *,
        dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> None:
        super().__init__(2 * hidden_features, in_features, bias, dtype, device)
        self.hidden_features = hidden_features
        self.activation = _text(activation)

    @classmethod
    def from_linears(cls, gate: nn.Linear, up: nn.Linear, activation: Activation = "silu") -> GatedLinear:
        """Of two layers, as Llama has them."""
        if gate.weight.shape != up.weight.shape or (gate.bias is None) != (up.bias is None):
            raise ValueError(f"gate is {gate}, up is {up}: their shapes and biases must agree")
        bias = None if gate.bias is None else torch.cat([gate.bias.detach(), up.bias.detach()])
        return cls._of(torch.cat([gate.weight.detach(), up.weight.detach()]), bias, activation, gate.training)

    @classmethod
    def from_linear(cls, gate_up: nn.Linear, activation: Activation = "silu") -> GatedLinear:
        """Of one fused layer, the gate's rows first, as Phi-3 has it."""
        if gate_up.out_features % 2 != 0:
            raise ValueError(f"gate_up is {gate_up}: out_features must be even")
        return cls._of(gate_up.weight, gate_up.bias, activation, gate_up.training)

    @classmethod
    def _of(
        cls, weight: torch.Tensor, bias: torch.Tensor | None, activation: Activation, training: bool
    ) -> GatedLinear:
        module = cls(
            weight.shape[1],
            weight.shape[0] // 2,
            bias is not None,
            activation,
            dtype=weight.dtype,
            device=weight.device,
        )
        module._take(weight, bias)
        return module.train(training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._product(x, self.activation, gate="separated")

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, hidden_features={self.hidden_features}, bias={self.bias is not None}, "
            f"activation={self.activation!r}, dtype={self.dtype}"
        )


def convert(model: nn.Module, select: Callable[[str, nn.Linear], bool] | None = None) -> nn.Module:
    """Replaces every torch.nn.Linear of the model (those that `select(name, layer)` chooses) by a Linear, in place, and
    returns the model. Subclasses of torch.nn.Linear, and dtypes that tilewright has not, stay as they are."""
    replaced: dict[nn.Module, Linear] = {}

    def packed(name: str, layer: nn.Module | None) -> Linear | None:
        if type(layer) is not nn.Linear or layer.weight.dtype not in _DTYPES:
            return None
        if select is not None and not select(name, layer):
            return None
        if layer not in replaced:
            replaced[layer] = Linear.from_linear(layer)
        return replaced[layer]

    root = packed("", model)
    if root is not None:
        return root
    for name, parent in list(model.named_modules()):
        # named_children() would pass by the second name that a tied layer has here.
        for child, layer in list(parent._modules.items()):
            module = packed(f"{name}.{child}" if name else child, layer)
            if module is not None:
                setattr(parent, child, module)
    return model
