// SPDX-License-Identifier: MIT
// What host and GEMM kernels share: enums, the argument struct, the packed-weight layout. Freestanding.
//
//   D[b,m,n] = steps( gate( act( alpha * scale_a * scale_b * sum_k A[b,m,k] B[b,k,n] + beta * C + bias ) ) )
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/fields.hpp"
#include "tile/common/major.hpp"

namespace tilewright {

using int64 = long long;

enum class Activation : unsigned char { kNone, kRelu, kGelu, kGeluTanh, kSilu, kSigmoid, kTanh, kHardswish, kClamp };
inline constexpr const char* kActivationNames[] = {"none",    "relu", "gelu",      "gelu_tanh", "silu",
                                                   "sigmoid", "tanh", "hardswish", "clamp"};
constexpr const char* const* enum_names(Activation) { return kActivationNames; }
constexpr int enum_count(Activation) { return 9; }

// Gated pairs over a fused gate-up weight of N = 2 I columns: D[m,i] = activation(gate) * up, [M, I].
enum class GateMode : unsigned char {
  kNone,
  kSeparated,    // gate = columns [0, I), up = columns [I, 2 I)
  kInterleaved,  // gate = column 2 i, up = column 2 i + 1
};
inline constexpr const char* kGateModeNames[] = {"none", "separated", "interleaved"};
constexpr const char* const* enum_names(GateMode) { return kGateModeNames; }
constexpr int enum_count(GateMode) { return 3; }

enum class StepKind : unsigned char { kNone, kActivation, kAdd, kMultiply };
inline constexpr const char* kStepKindNames[] = {"none", "act", "add", "mul"};
constexpr const char* const* enum_names(StepKind) { return kStepKindNames; }
constexpr int enum_count(StepKind) { return 4; }

inline constexpr int kMaxSteps = 6;

// int32 sums of int8 products are exact up to here; longer sums belong to the generic kernels.
inline constexpr int64 kMaxExactI8K = 131071;

// An operand of the epilogue. Strides in elements; 0 broadcasts (bias: stride_m = 0; per-token scale: stride_n = 0).
struct EpilogueOperand {
  const void* data;  // null = absent
  int64 stride_batch, stride_m, stride_n;
  DType dtype;
};

// One step after the linear part, in order: an activation, or a combination with an extra D-tensor.
struct EpilogueStep {
  StepKind kind;
  Activation activation;
  float low, high;  // clamp bounds
  EpilogueOperand operand;
};

// The linear part and its activation come first, then the gate, then the steps.
struct GemmEpilogueArgs {
  float alpha, beta;
  EpilogueOperand scale_a, scale_b, c, bias;  // [M, N] before the gate
  Activation activation;                      // with a gate: applied to the gate half only
  GateMode gate;
  float low, high;  // clamp bounds of `activation`
  int step_count;
  EpilogueStep steps[kMaxSteps];  // [M, N] or, with a gate, [M, I]
  void* d;
  int64 stride_d_batch, stride_d_m, stride_d_n;
  DType d_dtype;
};

struct GemmArgs {
  int64 m, n, k, batch;  // n counts B's columns (2 I with a gate)
  const void* a;         // [batch, M, K] by strides, in elements
  int64 stride_a_batch, stride_a_m, stride_a_k;
  const void* b;                                 // [batch, K, N] by strides, or packed
  int64 stride_b_batch, stride_b_k, stride_b_n;  // packed: stride_b_batch in bytes, others unused
  DType a_dtype, b_dtype;
  bool b_packed;
  void* workspace;  // 64-byte aligned
  // Knobs: how, at run time.
  int64 block_m, block_n, block_k;  // cache blocking
  GemmEpilogueArgs epilogue;
};

// ---- Packed weights -------------------------------------------------------------------------------------------------
// B [K, N] in panels of 16 columns; inside a panel, lines of 16 columns x kp consecutive k:
//   [ceil(N/16)] [lines] [16 n] [kp k],   kp = 1 (f32, f16), 2 (bf16), 4 (i8); lines = ceil(K/kp) rounded up to 16
// A line is 64 bytes (f16: 32), so 16 lines are one AMX tile of B, and one line is one vector for dot products. The
// layout depends on the dtype only: one copy serves every M, every instruction set and every blocking. Padding is zero.
// i8 panels are followed by int32 column sums [ceil(N/16) * 16]: the unsigned x signed dot product needs them.
// A 64-byte header stands in front (GemmPackedHeader), so that a packed weight can be stored and recognised.
inline constexpr int kPanelColumns = 16;
inline constexpr int kPanelLineGroup = 16;
inline constexpr unsigned kPackedMagic = 0x42575754;  // "TWWB"
inline constexpr unsigned short kPackedVersion = 1;

struct GemmPackedHeader {
  unsigned magic;
  unsigned short version;
  DType dtype;
  unsigned char kp;
  int64 n, k, batch;
  int64 batch_bytes;  // from one batch entry's panels to the next one's
  int64 total_bytes;  // header included
  unsigned char reserved[16];
};
static_assert(sizeof(GemmPackedHeader) == 64);

constexpr int packed_kp(DType dtype) { return dtype == DType::kI8 ? 4 : dtype == DType::kBf16 ? 2 : 1; }
constexpr int64 packed_line_bytes(DType dtype) { return dtype == DType::kF16 ? 32 : 64; }
constexpr int64 packed_lines(DType dtype, int64 k) {
  const int kp = packed_kp(dtype);
  const int64 lines = (k + kp - 1) / kp;
  return (lines + kPanelLineGroup - 1) / kPanelLineGroup * kPanelLineGroup;
}
constexpr int64 packed_panel_bytes(DType dtype, int64 k) { return packed_lines(dtype, k) * packed_line_bytes(dtype); }
constexpr int64 packed_panels(int64 n) { return (n + kPanelColumns - 1) / kPanelColumns; }
// Panels, and for i8 the column sums.
constexpr int64 packed_batch_bytes(DType dtype, int64 n, int64 k) {
  const int64 sums = dtype == DType::kI8 ? packed_panels(n) * kPanelColumns * 4 : 0;
  return packed_panels(n) * packed_panel_bytes(dtype, k) + sums;
}

// Packs B [batch, K, N] of any strides. `packed` is what follows the header.
struct GemmPackArgs {
  int64 n, k, batch;
  const void* b;
  int64 stride_b_batch, stride_b_k, stride_b_n;  // in elements
  void* packed;                                  // 64-byte aligned
  int64 packed_batch_bytes;                      // packed_batch_bytes(dtype, n, k) or more
  DType dtype;
};

// ---- CPU configs ----------------------------------------------------------------------------------------------------

// The instruction that multiplies. Names are those of arch_specs.json.
enum class CpuMma : unsigned char {
  kFmaAvx2,    // f32 FMA, 8 lanes; bf16 and f16 widened
  kFmaAvx512,  // f32 FMA, 16 lanes; bf16 and f16 widened
  kDotBf16,    // vdpbf16ps
  kDotI8Avx2,  // widened to i16, vpmaddwd
  kDotI8,      // vpdpbusd, A offset by 128
  kAmxBf16,    // tdpbf16ps
  kAmxI8,      // tdpbssd
};
inline constexpr const char* kCpuMmaNames[] = {"fma_avx2",    "fma_avx512", "dot_bf16", "dot_i8_avx2",
                                               "dot_i8_vnni", "amx_bf16",   "amx_i8"};
constexpr const char* const* enum_names(CpuMma) { return kCpuMmaNames; }
constexpr int enum_count(CpuMma) { return 7; }

struct GemmCpuConfig {
  static constexpr const char* kTypeName = "GemmCpuConfig";
  DType dtype;  // of A and B
  CpuMma mma;
  int tile_m;    // rows of the register tile
  int tile_n;    // columns of the register tile, a multiple of 16
  int prefetch;  // lines of B fetched ahead; 0 = left to the hardware

  bool operator==(const GemmCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("mma", self.mma);
    visit("tile_m", self.tile_m);
    visit("tile_n", self.tile_n);
    visit("prefetch", self.prefetch);
  }
};

struct GemvCpuConfig {
  static constexpr const char* kTypeName = "GemvCpuConfig";
  DType dtype;
  CpuMma mma;
  bool packed;  // packed weights, or plain [N, K] rows with K contiguous
  int rows;     // rows of A handled together (M rounds up to a multiple)
  int panels;   // packed: panels of 16 columns streamed together; plain: rows of B
  int prefetch;

  bool operator==(const GemvCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("mma", self.mma);
    visit("packed", self.packed);
    visit("rows", self.rows);
    visit("panels", self.panels);
    visit("prefetch", self.prefetch);
  }
};

// ---- GPU configs ----------------------------------------------------------------------------------------------------

// How much of the epilogue a GPU kernel is compiled for.
enum class EpilogueKind : unsigned char {
  kPlain,  // D = sum
  kLinear,  // D = gate(act(alpha * scale_a[row] * scale_b[column] * sum + bias[column])): operands may be absent or scalar
  kFull,  // everything, activation included, at run time
};
inline constexpr const char* kEpilogueKindNames[] = {"plain", "linear", "full"};
constexpr const char* const* enum_names(EpilogueKind) { return kEpilogueKindNames; }
constexpr int enum_count(EpilogueKind) { return 3; }

struct GemmEpilogueConfig {
  static constexpr const char* kTypeName = "GemmEpilogueConfig";
  EpilogueKind kind;
  Activation activation;  // kLinear; kFull reads it from the arguments
  GateMode gate;
  DType d_dtype;  // kNone: read from the arguments

  bool operator==(const GemmEpilogueConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
  }
};

// How gemm_portable multiplies. Names are those of arch_specs.json.
enum class PortableMma : unsigned char {
  kFma,   // f32 by fused multiply-adds
  kMma,   // mma.sync
  kTf32,  // mma.sync on f32 rounded to tf32: only where the caller allows it
};
inline constexpr const char* kPortableMmaNames[] = {"fma", "mma", "mma_tf32"};
constexpr const char* const* enum_names(PortableMma) { return kPortableMmaNames; }
constexpr int enum_count(PortableMma) { return 3; }

struct GemmPortableConfig {
  static constexpr const char* kTypeName = "GemmPortableConfig";
  DType dtype;  // of A and B
  PortableMma mma;
  Major a_major, b_major;
  int a_copy, b_copy;          // bytes of a copy to shared memory, 16 or 4; 0 = by elements, of any strides
  int tile_m, tile_n, tile_k;  // of a block
  int warps_m, warps_n;
  int stages;
  EpilogueKind epilogue;
  Activation activation;
  GateMode gate;
  DType d_dtype;

  bool operator==(const GemmPortableConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("mma", self.mma);
    visit("a_major", self.a_major);
    visit("b_major", self.b_major);
    visit("a_copy", self.a_copy);
    visit("b_copy", self.b_copy);
    visit("tile_m", self.tile_m);
    visit("tile_n", self.tile_n);
    visit("tile_k", self.tile_k);
    visit("warps_m", self.warps_m);
    visit("warps_n", self.warps_n);
    visit("stages", self.stages);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
  }
  constexpr GemmEpilogueConfig epilogue_config() const { return {epilogue, activation, gate, d_dtype}; }
};

}  // namespace tilewright
