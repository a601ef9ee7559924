# SPDX-License-Identifier: MIT
"""tilewright for PyTorch: operators that torch.compile knows, and modules with packed weights.

Importing this registers torch.ops.tilewright.*; importing tilewright alone never imports torch.
"""

from . import _activations as _activations  # registers operators, as the next do
from . import _cache as _cache
from . import _images as _images
from . import _logits as _logits
from . import _norms as _norms
from . import _rotary as _rotary  # and those of _rows
from ._functions import gemm, gemm_packed, linear, linear_packed, pack_weights, unpack_weights
from ._loss import cross_entropy
from ._modules import GatedLinear, Linear, convert
from ._quantised import PackedQuantisedLinear, QuantisedLinear

__all__ = [
    "GatedLinear",
    "Linear",
    "PackedQuantisedLinear",
    "QuantisedLinear",
    "convert",
    "cross_entropy",
    "gemm",
    "gemm_packed",
    "linear",
    "linear_packed",
    "pack_weights",
    "unpack_weights",
]
