# SPDX-License-Identifier: MIT
# Types of the extension module. Tensors are anything with DLPack: torch.Tensor, numpy.ndarray, jax.Array.
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypedDict, TypeVar, final, overload

from typing_extensions import Unpack

class _Tensor(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

_T = TypeVar("_T", bound=_Tensor)
_Out = TypeVar("_Out", bound=_Tensor)

_ActivationName = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish"]
_Activation = _ActivationName | tuple[Literal["clamp"], float, float] | None
_SectionOrder = Literal["runs", "interleaved", "parts"]
_Gate = Literal["none", "separated", "interleaved"] | None
_Step = _Activation | tuple[Literal["add", "mul"], _Tensor]
_Layout = Literal["kn", "nk"]
_WeightFormat = Literal["awq", "gptq", "gptq_v2", "aiter", "aiter_scales"]
_DtypeName = Literal["f32", "f16", "bf16", "i8"]
# "float32", "bf16", torch.float16, numpy.float32, jax.numpy.bfloat16 ...
_OutDtype = Any

class _GemmOptions(TypedDict, total=False):
    """Keywords that every gemm takes, after bias, activation and out."""

    out_dtype: _OutDtype | None
    alpha: float
    beta: float | None
    c: _Tensor | None
    scale_a: _Tensor | float | None
    scale_b: _Tensor | float | None
    scale_group_a: Sequence[int] | None
    scale_group_b: Sequence[int] | None
    zero_b: _Tensor | None
    b_dtype: Literal["i4", "u4"] | None
    gate: _Gate
    steps: Sequence[_Step]
    deterministic: bool
    batch_invariant: bool
    allow_tf32: bool
    allow_fast_accum: bool
    recipe: str | None
    units: int
    programmatic_edge: bool

class _Plan(TypedDict, total=False):
    recipe: str
    units: int
    programmatic_edge: bool

class _OpOptions(_GemmOptions, total=False):
    step_tensors: Sequence[_Tensor] | None

class _PackedOpOptions(_OpOptions, total=False):
    batch: int

@final
class PackedWeights:
    """Weights in the layout that kernels stream; made by pack_weights(). Stands for B [K, N], or [batch, K, N]."""

    @property
    def k(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def dtype(self) -> _DtypeName: ...
    @property
    def nbytes(self) -> int: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: Any) -> PackedWeights: ...
    @staticmethod
    def from_buffer(data: Any) -> PackedWeights: ...
    @staticmethod
    def from_tensor(data: _Tensor) -> PackedWeights: ...
    def unpack(self, out: _Tensor, *, layout: _Layout = "kn") -> None: ...

@final
class QueryResult:
    """What would run, and why."""

    @property
    def source(self) -> Literal["forced", "tuned", "bucket", "cost", "generic"]: ...
    @property
    def recipe(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def built(self) -> bool: ...
    @property
    def fallback(self) -> bool: ...
    @property
    def predicted_us(self) -> float: ...

class Buffer:
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@overload
def gemm(
    a: _T,
    b: _Tensor | PackedWeights,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: None = None,
    **options: Unpack[_GemmOptions],
) -> _T: ...
@overload
def gemm(
    a: _Tensor,
    b: _Tensor | PackedWeights,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _Out,
    **options: Unpack[_GemmOptions],
) -> _Out: ...
def grouped_gemm(
    a: _T,
    b: _Tensor | PackedWeights,
    *,
    mode: Literal["contiguous", "masked", "ragged_k"] = "contiguous",
    sizes: _Tensor | None = None,
    offsets: _Tensor | None = None,
    alignment: int = 1,
    gather: _Tensor | None = None,
    scatter: _Tensor | None = None,
    status: _Tensor | None = None,
    expected_rows: int = 0,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _Tensor | None = None,
    **options: Unpack[_GemmOptions],
) -> _T: ...
@overload
def linear(
    x: _T,
    weight: _Tensor | PackedWeights,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    *,
    out: None = None,
    **options: Unpack[_GemmOptions],
) -> _T: ...
@overload
def linear(
    x: _Tensor,
    weight: _Tensor | PackedWeights,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    *,
    out: _Out,
    **options: Unpack[_GemmOptions],
) -> _Out: ...
def prepare(
    a: _Tensor,
    b: _Tensor | PackedWeights,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _Tensor | None = None,
    **options: Unpack[_GemmOptions],
) -> None: ...
def query(
    a: _Tensor,
    b: _Tensor | PackedWeights,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _Tensor | None = None,
    **options: Unpack[_GemmOptions],
) -> QueryResult: ...
def explain(
    a: _Tensor,
    b: _Tensor | PackedWeights,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _Tensor | None = None,
    **options: Unpack[_GemmOptions],
) -> str: ...
def rms_norm(
    x: _T,
    weight: _Tensor | None = None,
    eps: float | None = None,
    *,
    bias: _Tensor | None = None,
    residual: _Tensor | None = None,
    residual_out: _Tensor | None = None,
    out: _Tensor | None = None,
    out_dtype: Any = None,
    quant: Literal["none", "tensor", "row", "group"] | None = None,
    scale: _Tensor | None = None,
    scale_dtype: Any = None,
    tensor_scale: _Tensor | None = None,
    group: int = 0,
    rounding: Literal["down", "up", "ceil", "even"] | None = None,
    smooth: _Tensor | None = None,
    unit_offset: bool = False,
    round_before_weight: bool = False,
    **plan: Unpack[_Plan],
) -> Any: ...
def layer_norm(
    x: _T,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    eps: float | None = None,
    *,
    residual: _Tensor | None = None,
    residual_out: _Tensor | None = None,
    out: _Tensor | None = None,
    out_dtype: Any = None,
    quant: Literal["none", "tensor", "row", "group"] | None = None,
    scale: _Tensor | None = None,
    scale_dtype: Any = None,
    tensor_scale: _Tensor | None = None,
    group: int = 0,
    rounding: Literal["down", "up", "ceil", "even"] | None = None,
    smooth: _Tensor | None = None,
    unit_offset: bool = False,
    round_before_weight: bool = False,
    **plan: Unpack[_Plan],
) -> Any: ...
def act_and_mul(
    x: _T,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu", "sigmoid", "tanh", "hardswish", "none"] | None = "silu",
    *,
    gate: Literal["none", "separated", "interleaved"] | None = "separated",
    squared: bool = False,
    limit: float = 0.0,
    alpha: float = 1.0,
    up_offset: float = 0.0,
    out: _Tensor | None = None,
    out_dtype: Any = None,
    quant: Literal["none", "tensor", "row", "group"] | None = None,
    scale: _Tensor | None = None,
    scale_dtype: Any = None,
    tensor_scale: _Tensor | None = None,
    group: int = 0,
    rounding: Literal["down", "up", "ceil", "even"] | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def act_and_mul_backward(
    x: _T,
    dy: _Tensor,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu", "sigmoid", "tanh", "hardswish", "none"] | None = "silu",
    *,
    gate: Literal["none", "separated", "interleaved"] | None = "separated",
    squared: bool = False,
    limit: float = 0.0,
    alpha: float = 1.0,
    up_offset: float = 0.0,
    dx: Any = None,
    **plan: Unpack[_Plan],
) -> _T: ...
def rms_norm_backward(
    x: _T,
    dy: _Tensor,
    weight: _Tensor | None = None,
    eps: float | None = None,
    *,
    dresidual: _Tensor | None = None,
    unit_offset: bool = False,
    dx: Any = None,
    dweight: Any = True,
    dbias: Any = False,
    **plan: Unpack[_Plan],
) -> tuple[_T, Any, Any]: ...
def layer_norm_backward(
    x: _T,
    dy: _Tensor,
    weight: _Tensor | None = None,
    eps: float | None = None,
    *,
    dresidual: _Tensor | None = None,
    unit_offset: bool = False,
    dx: Any = None,
    dweight: Any = True,
    dbias: Any = False,
    **plan: Unpack[_Plan],
) -> tuple[_T, Any, Any]: ...
def rope(
    q: _T,
    cos: _Tensor,
    sin: _Tensor,
    *,
    k: _Tensor | None = None,
    positions: _Tensor | None = None,
    interleaved: bool = False,
    inverse: bool = False,
    sections: Sequence[int] | None = None,
    section_order: _SectionOrder | None = None,
    cumulative_lengths: _Tensor | None = None,
    offsets: _Tensor | None = None,
    out: _Tensor | None = None,
    k_out: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def group_norm(
    x: _T,
    groups: int,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: Literal["none", "silu"] | None = None,
    out: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def group_norm_backward(
    x: _T,
    dy: _Tensor,
    groups: int,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: Literal["none", "silu"] | None = None,
    dx: Any = None,
    dweight: Any = True,
    dbias: Any = False,
    **plan: Unpack[_Plan],
) -> tuple[_T, Any, Any]: ...
def transpose(x: _T, *, out: _Tensor | None = None, **plan: Unpack[_Plan]) -> Any: ...
def softmax(
    x: _T,
    dim: int = -1,
    dtype: Any = None,
    *,
    log: bool = False,
    scale: float = 1.0,
    out: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def cross_entropy(
    x: _T,
    target: _Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    grad_scale: float = 1.0,
    factor: _Tensor | None = None,
    gradient: bool = True,
    loss: _Tensor | None = None,
    lse: _Tensor | None = None,
    out: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> tuple[Any, Any]: ...
def moe_routing(
    logits: _T,
    k: int,
    *,
    bias: _Tensor | None = None,
    score: str = "softmax",
    renormalise: bool = False,
    scale: float = 1.0,
    groups: int = 1,
    topk_groups: int = 1,
    group_score: str = "two_largest",
    first_expert: int = 0,
    local_experts: int = 0,
    out: _Tensor | None = None,
    ids: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> tuple[Any, Any]: ...
def sample(
    logits: _T,
    seeds: _Tensor | None = None,
    *,
    temperature: _Tensor | None = None,
    top_k: _Tensor | None = None,
    top_p: _Tensor | None = None,
    min_p: _Tensor | None = None,
    offsets: _Tensor | None = None,
    joint: str = "original_mass",
    greedy: bool = False,
    out: _Tensor | None = None,
    log_probabilities: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def apply_penalties(
    logits: _T,
    prompt_tokens: _Tensor | None = None,
    output_tokens: _Tensor | None = None,
    *,
    repetition: _Tensor | None = None,
    presence: _Tensor | None = None,
    frequency: _Tensor | None = None,
    prompt_counts: _Tensor | None = None,
    output_counts: _Tensor | None = None,
    out: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def top_k(
    x: _T,
    k: int,
    *,
    lengths: _Tensor | None = None,
    out: _Tensor | None = None,
    indices: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> tuple[Any, Any]: ...
def quantize(
    x: _T,
    quant: Literal["tensor", "row", "group", "dynamic", "block"] = "row",
    *,
    out: _Tensor | None = None,
    out_dtype: Any = None,
    scale: _Tensor | None = None,
    scale_dtype: Any = None,
    tensor_scale: _Tensor | None = None,
    find_tensor_scale: bool = False,
    group: int = 0,
    rounding: Literal["down", "up", "ceil", "even"] | None = None,
    smooth: _Tensor | None = None,
    hadamard: Literal[0, 16, 32, 64, 128] = 0,
    random_state: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> tuple[Any, ...]: ...
def dequantize(
    x: _Tensor,
    scale: _Tensor,
    quant: Literal["tensor", "row", "group", "dynamic", "block"] = "row",
    *,
    out: _Tensor | None = None,
    out_dtype: Any = None,
    tensor_scale: _Tensor | None = None,
    group: int = 0,
    **plan: Unpack[_Plan],
) -> Any: ...
def gated_rms_norm(
    x: _T,
    z: _Tensor,
    weight: _Tensor | None = None,
    eps: float = 1e-5,
    *,
    norm_group: int = 0,
    norm_before_gate: bool = False,
    out: Any = None,
    out_dtype: Any = None,
    quant: Literal["none", "tensor", "row", "group"] | None = None,
    scale: Any = None,
    scale_dtype: Any = None,
    tensor_scale: _Tensor | None = None,
    group: int = 0,
    rounding: Literal["down", "up", "ceil", "even"] | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def add(x: _T, b: _Tensor, *, out: Any = None, out_dtype: Any = None, **plan: Unpack[_Plan]) -> _T: ...
def mul(x: _T, b: _Tensor, *, out: Any = None, out_dtype: Any = None, **plan: Unpack[_Plan]) -> _T: ...
def cast(x: _T, out_dtype: Any = None, *, out: Any = None, **plan: Unpack[_Plan]) -> _T: ...

_CacheLayout = Literal["nhd", "hnd", "key_packed", "value_transposed", "value_packed"]
_CacheScales = Literal["none", "tensor", "head", "token"]

def kv_cache_write(
    key: _Tensor,
    value: _Tensor | None,
    key_cache: _Tensor,
    value_cache: _Tensor | None,
    slot_mapping: _Tensor,
    *,
    key_layout: _CacheLayout = "nhd",
    value_layout: _CacheLayout = "nhd",
    scales: _CacheScales | None = None,
    key_scale: _Tensor | None = None,
    value_scale: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> None: ...
def mla_cache_write(
    kv_c: _Tensor,
    k_pe: _Tensor,
    cache: _Tensor,
    slot_mapping: _Tensor,
    *,
    scale: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> None: ...
def kv_cache_copy(from_: _Tensor, to: _Tensor, mapping: _Tensor, **plan: Unpack[_Plan]) -> None: ...
def kv_cache_gather(
    cache: _Tensor,
    block_table: _Tensor,
    cumulative_lengths: _Tensor,
    out: _Tensor,
    *,
    layout: _CacheLayout = "nhd",
    scales: _CacheScales | None = None,
    scale: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> None: ...
def qk_norm_rope_cache(
    q: _T,
    k: _Tensor,
    v: _Tensor | None,
    key_cache: _Tensor,
    value_cache: _Tensor | None,
    slot_mapping: _Tensor,
    *,
    norm: bool = True,
    q_weight: _Tensor | None = None,
    k_weight: _Tensor | None = None,
    eps: float = 1e-6,
    unit_offset: bool = False,
    cos: _Tensor | None = None,
    sin: _Tensor | None = None,
    positions: _Tensor | None = None,
    interleaved: bool = False,
    sections: Sequence[int] | None = None,
    section_order: Literal["runs", "interleaved"] | None = None,
    key_layout: _CacheLayout = "nhd",
    value_layout: _CacheLayout = "nhd",
    scales: _CacheScales | None = None,
    key_scale: _Tensor | None = None,
    value_scale: _Tensor | None = None,
    out: _Tensor | None = None,
    out_dtype: Any = None,
    q_scales: _CacheScales | None = None,
    q_scale: _Tensor | None = None,
    **plan: Unpack[_Plan],
) -> Any: ...
def pack_weights(
    b: _Tensor, *, layout: _Layout = "kn", b_dtype: Literal["i4", "u4"] | None = None
) -> PackedWeights: ...
def packed_nbytes(dtype: str, n: int, k: int, batch: int = 1, device: str = "cpu") -> int: ...
def pack_weights_into(
    b: _Tensor, out: _Tensor, *, layout: _Layout = "kn", b_dtype: Literal["i4", "u4"] | None = None
) -> None: ...
def import_weights(
    format: _WeightFormat,
    weight: _Tensor,
    out: _Tensor,
    *,
    zeros: _Tensor | None = None,
    group_index: _Tensor | None = None,
    zero_out: _Tensor | None = None,
    order_out: _Tensor | None = None,
    dtype: Literal["i4", "u4"] | None = None,
    layout: _Layout = "kn",
) -> None: ...
def export_weights(
    format: _WeightFormat,
    b: _Tensor,
    out: _Tensor,
    *,
    zero_b: _Tensor | None = None,
    zeros_out: _Tensor | None = None,
    group_index_out: _Tensor | None = None,
    dtype: Literal["i4", "u4"] | None = None,
    layout: _Layout = "kn",
) -> None: ...
def devices() -> list[dict[str, Any]]: ...
def counters() -> dict[str, int]: ...
def tables_digest() -> str: ...
def version() -> str: ...

# What the torch operators and bench/call_overhead.py call.

def op_gemm(
    a: _T,
    b: _Tensor,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _T | None = None,
    **options: Unpack[_OpOptions],
) -> _T: ...
def op_linear(
    x: _T,
    weight: _Tensor,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    *,
    out: _T | None = None,
    **options: Unpack[_OpOptions],
) -> _T: ...
def op_gemm_packed(
    a: _T,
    packed: _Tensor,
    n: int,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _T | None = None,
    **options: Unpack[_PackedOpOptions],
) -> _T: ...
def op_linear_packed(
    x: _T,
    packed: _Tensor,
    n: int,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    *,
    out: _T | None = None,
    **options: Unpack[_PackedOpOptions],
) -> _T: ...
def call_parts(
    a: _Tensor,
    b: _Tensor | PackedWeights,
    *,
    bias: _Tensor | None = None,
    activation: _Activation = None,
    out: _Tensor | None = None,
    **options: Unpack[_GemmOptions],
) -> dict[str, float]: ...
