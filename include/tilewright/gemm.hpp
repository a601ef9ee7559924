// SPDX-License-Identifier: MIT
// gemm: D = steps(gate(act(alpha * scale_a * scale_b * A B + beta * C + bias))); scales of blocks along K stand inside the
// sum: sum_k (A scale_a)((B - zero_b) scale_b).
//
// Shapes: A [.., M, K], B [.., K, N], D [.., M, N]; with a gate, N = 2 I and D is [.., M, I]. At most one batch
// dimension; a batch of 1 or an absent one broadcasts. Any strides; a weight stored as [N, K] is passed transposed
// (TensorView::transposed()), as torch.nn.functional.linear does.
// Dtypes: A and B both f32, f16, bf16, i8, e4m3, e5m2 or e2m1; 8- and 4-bit floats also with each other, and with f16 or
// bf16; B also i8, i4 or u4 where A is f16 or bf16. Everything else f32, f16 or bf16; scales of blocks also e8m0 or e4m3.
// Accumulation: f32, i32 for i8 x i8.
// 4-bit elements lie two a byte, the even one in the low nibble: shapes and strides count elements.
// Sizes: M is bucketed, N, K and batch are exact. Size 0 is legal: an empty D is left alone, K = 0 sums to 0.
// Aliasing: D may be the same memory as C or as a step's tensor with the same strides; it may not overlap any other input.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gemm/gemm_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

// One step after the linear part and the gate, in the order given.
struct GemmStep {
  StepKind kind = StepKind::kNone;
  Activation activation = Activation::kNone;  // kActivation
  float low = 0, high = 0;                    // Activation::kClamp
  TensorView tensor;                          // kAdd, kMultiply: broadcastable to D

  static GemmStep add(const TensorView& tensor) { return {StepKind::kAdd, Activation::kNone, 0, 0, tensor}; }
  static GemmStep multiply(const TensorView& tensor) { return {StepKind::kMultiply, Activation::kNone, 0, 0, tensor}; }
  static GemmStep activate(Activation activation, float low = 0, float high = 0) {
    return {StepKind::kActivation, activation, low, high, {}};
  }
};

struct GemmOptions {
  bool deterministic = false;     // bitwise equal from run to run on the same device, whatever the thread count
  bool batch_invariant = false;   // a row's bits do not depend on M, on its place, or on the unit budget
  bool allow_tf32 = false;        // f32 A and B may be rounded to tf32 (ten bits of mantissa) where that is faster
  bool allow_fast_accum = false;  // sums of 8-bit floats may keep fewer bits than f32 has where that is faster
  std::string recipe;             // force this recipe (text form); "" = choose
};

// Which values share a scale: `outer` rows of A, or columns of B, and `k` values along K (0: all of them). docs/scales.md
// has the usual ones: {1, 128} with {128, 128}, {1, 32} of e8m0 (MX), {1, 16} of e4m3 (NVFP4) ...
struct ScaleGroup {
  int64_t outer = 1;  // 1 or 128
  int64_t k = 0;      // 0, 16, 32, 64 or 128; the last group of K may be short
};

struct GemmCall {
  TensorView a;  // [.., M, K]
  TensorView b;  // [.., K, N], or packed by gemm_pack_weights
  TensorView d;  // [.., M, N] or [.., M, I]
  float alpha = 1;
  TensorView scale_a;  // scalar, [M, 1] or [.., M, 1], f32; of groups: [.., ceil(M / outer), ceil(K / k)]
  TensorView scale_b;  // scalar, [N] or [.., 1, N], f32; of groups: [.., ceil(K / k), ceil(N / outer)]
  ScaleGroup scale_group_a, scale_group_b;
  TensorView zero_b;  // zero points of B = i8, i4, u4: i8, i4, u4, f32, f16 or bf16, one beside each scale of a group
  float beta = 0;     // 0: C is not read
  TensorView c;       // broadcastable to [.., M, N]
  TensorView bias;    // [N] or broadcastable to [.., M, N]
  Activation activation = Activation::kNone;  // with a gate: of the gate half
  float low = 0, high = 0;                    // Activation::kClamp
  GateMode gate = GateMode::kNone;
  std::vector<GemmStep> steps;  // at most kMaxSteps
  GemmOptions options;
};

// Runs now (CPU) or enqueues on exec.stream. Allocates nothing once the problem has been seen.
TILEWRIGHT_API Status gemm(Context& context, const GemmCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time: the next gemm() of this problem only launches. Data pointers may be null.
TILEWRIGHT_API Status gemm_prepare(Context& context, const GemmCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> gemm_query(Context& context, const GemmCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> gemm_explain(Context& context, const GemmCall& call, const Exec& exec = {});
// The same function in float64, slowly: the yardstick of every kernel. CPU tensors only.
TILEWRIGHT_API Status gemm_reference(const GemmCall& call);

// ---- Packed weights: one copy serves every M and every kernel of the device kind --------------------------------------
// Of f32, f16, bf16 and i8 on CPUs and AMD GPUs; of i4, u4 and e2m1 on CPUs and, in another layout, on NVIDIA GPUs.

// Bytes of the packed form of B [batch, K, N], header included, that `device` makes.
TILEWRIGHT_API Result<int64_t> gemm_packed_bytes(DType dtype, int64_t n, int64_t k, int64_t batch = 1,
                                                 DeviceId device = {});
// Packs B [K, N] or [batch, K, N] (any strides) into `out`, 64-byte aligned, of gemm_packed_bytes() bytes. The result is
// position-independent: it may be stored in a file and mapped back. B on a GPU is packed there, `out` is in its memory;
// the call waits for what the device still does, and for the end. A copy of the bytes serves every device; 4 bits packed on a CPU the
// CPUs, on an NVIDIA GPU those: their sizes differ.
TILEWRIGHT_API Status gemm_pack_weights(Context& context, const TensorView& b, void* out, int64_t out_bytes);
// Recognises packed bytes (magic, version, sizes) and makes the view that GemmCall::b takes.
TILEWRIGHT_API Result<TensorView> gemm_packed_view(void* data, int64_t bytes);
// The same of bytes in a device's memory; waits for what the device still does.
TILEWRIGHT_API Result<TensorView> gemm_packed_view(Context& context, DeviceId device, void* data, int64_t bytes);
// The view of bytes that are known to hold such weights, for calls that cannot wait to read it from the header: `bytes` is what
// gemm_packed_bytes() says of them.
TILEWRIGHT_API Result<TensorView> gemm_packed_view_as(DeviceId device, void* data, int64_t bytes, DType dtype,
                                                      int64_t n, int64_t k, int64_t batch = 1);
// The way back, exactly, to any strides, on the CPU's units: what a GPU has is copied there first, and back to its memory. Memory of
// a GPU between the elements of `b` is written with what it held.
TILEWRIGHT_API Status gemm_unpack_weights(Context& context, const TensorView& packed, const TensorView& b);

}  // namespace tilewright
