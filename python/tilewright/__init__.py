# SPDX-License-Identifier: MIT
"""tilewright: operators for AI inference and training, on tensors of PyTorch, NumPy and JAX.

Importing this package imports no framework, starts no thread, compiles nothing and prints nothing.
"""

from ._core import (
    PackedWeights,
    QueryResult,
    act_and_mul,
    counters,
    devices,
    explain,
    export_weights,
    gemm,
    grouped_gemm,
    import_weights,
    kv_cache_copy,
    kv_cache_gather,
    kv_cache_write,
    layer_norm,
    linear,
    mla_cache_write,
    moe_routing,
    pack_weights,
    prepare,
    qk_norm_rope_cache,
    quantize,
    query,
    rms_norm,
    rope,
    softmax,
    tables_digest,
    version,
)
from ._errors import Error, InvalidArgument

__version__ = version()

__all__ = [
    "Error",
    "InvalidArgument",
    "PackedWeights",
    "QueryResult",
    "act_and_mul",
    "counters",
    "devices",
    "explain",
    "export_weights",
    "gemm",
    "grouped_gemm",
    "import_weights",
    "kv_cache_copy",
    "kv_cache_gather",
    "kv_cache_write",
    "layer_norm",
    "linear",
    "mla_cache_write",
    "moe_routing",
    "pack_weights",
    "prepare",
    "qk_norm_rope_cache",
    "quantize",
    "query",
    "rms_norm",
    "rope",
    "softmax",
    "tables_digest",
    "version",
]
