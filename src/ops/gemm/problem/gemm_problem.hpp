// SPDX-License-Identifier: MIT
// GemmProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "dispatch/operator.hpp"
#include "gemm/gemm_args.hpp"
#include "gemm/gemm_packed_layout.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {

// An epilogue operand, broadcast to [batch, M, N]: stride 0 where it does not vary.
struct OperandProblem {
  int64_t stride_batch = 0, stride_m = 0, stride_n = 0;
  DType dtype = DType::kNone;  // kNone = absent
  uint8_t shortfall = 0;       // of C and the bias, as GemmProblem's
  uint8_t reserved[6] = {};
  bool present() const { return dtype != DType::kNone; }
};

// The scales of A or B, or B's zero points: one for `outer` rows of A, or columns of B, and `k` values along K.
struct ScaleProblem {
  int64_t stride_batch = 0, stride_outer = 0, stride_k = 0;  // from one scale to the next; 0 where it does not vary
  DType dtype = DType::kNone;                                // kNone = absent
  uint8_t outer = 1, k = 0;                                  // k = 0: all of K, which is the epilogue's work
  uint8_t shortfall = 0;                                     // of scales of groups, as GemmProblem's
  uint8_t reserved[4] = {};
  bool present() const { return dtype != DType::kNone; }
  constexpr bool blocked() const { return k != 0; }
};
// How many there are along M or N, and along K.
struct ScaleCounts {
  int64_t outer, k;
};
constexpr ScaleCounts scale_counts(const ScaleProblem& s, int64_t all_outer, int64_t all_k) {
  if (!s.blocked()) return {all_outer, 1};
  return {(all_outer + s.outer - 1) / s.outer, (all_k + s.k - 1) / s.k};
}

struct StepProblem {
  OperandProblem operand;
  StepKind kind = StepKind::kNone;
  Activation activation = Activation::kNone;
  uint8_t reserved[6] = {};
};

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0, batch = 1;  // n: columns of B
  int64_t stride_a_batch = 0, stride_a_m = 0, stride_a_k = 0;
  int64_t stride_b_batch = 0, stride_b_k = 0, stride_b_n = 0;  // packed: stride_b_batch in bytes
  int64_t stride_d_batch = 0, stride_d_m = 0, stride_d_n = 0;
  ScaleProblem scale_a, scale_b;
  ScaleProblem zero_b;  // of the groups of scale_b
  OperandProblem c, bias;
  StepProblem steps[kMaxSteps];
  DType a_dtype = DType::kNone, b_dtype = DType::kNone, d_dtype = DType::kNone;
  uint8_t b_packed = 0;  // in panels; kPackedFragments: in those of NVIDIA GPUs
  Activation activation = Activation::kNone;
  GateMode gate = GateMode::kNone;
  uint8_t step_count = 0;
  uint8_t has_alpha = 0;  // alpha != 1
  uint8_t deterministic = 0, batch_invariant = 0;
  uint8_t allow_tf32 = 0;        // f32 only
  uint8_t allow_fast_accum = 0;  // 8-bit floats only
  // By how many powers of two a pointer misses alignment to 16 bytes; 0 on CPUs, where no kernel asks.
  uint8_t shortfall_a = 0, shortfall_b = 0, shortfall_d = 0;
  uint8_t programmatic_edge = 0;  // GPU: the calls are launched so (Exec): other kernels are the fastest then

  int64_t out_n() const { return gate == GateMode::kNone ? n : n / 2; }  // columns of D
  bool has_block_scales() const { return scale_a.blocked() || scale_b.blocked(); }
};

// Whether weights of this type have a packed form; that of 4 bits is for CPUs, and e2m1 has one for NVIDIA GPUs.
constexpr bool is_packable(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kI8 ||
         dtype == DType::kI4 || dtype == DType::kU4 || dtype == DType::kF4E2M1;
}
inline constexpr const char* kPackableNames = "f32, f16, bf16, i8, i4, u4, e2m1";
// Types of B that are integers beside an A of floats: only its weights are quantised.
constexpr bool is_weight_integer(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI4 || dtype == DType::kU4;
}
// D's dtype where nothing else is said: that of A, bf16 for 8- and 4-bit types.
constexpr DType usual_d_dtype(DType a) { return dtype_bits(a) <= 8 ? DType::kBf16 : a; }

// Where a call's addresses and scalars stand in CallBindings.
enum GemmPointerSlot : uint16_t { kSlotA, kSlotB, kSlotD, kSlotScaleA, kSlotScaleB, kSlotC, kSlotBias, kSlotStep0 };
inline constexpr uint16_t kSlotZeroB = kSlotStep0 + kMaxSteps;
inline constexpr int kGemmPointerSlots = kSlotZeroB + 1;
inline constexpr uint8_t kPackedFragments = 2;
// Of an entry of a batch of packed weights.
int64_t packed_entry_bytes(const GemmProblem& problem);

enum GemmScalarSlot : uint16_t { kScalarAlpha, kScalarBeta, kScalarLow, kScalarHigh, kScalarStep0 };
inline constexpr int kGemmScalarSlots = kScalarStep0 + 2 * kMaxSteps;

struct GemmBindings {
  std::array<const void*, kGemmPointerSlots> pointers{};
  std::array<float, kGemmScalarSlots> scalars{};
};

// Reads a call into a new problem and new bindings: shapes, dtypes, devices and (when `check_addresses`) null pointers of
// operands are checked. Sizes and strides are not: that is validate_gemm_problem, which a problem needs once.
Status read_gemm_call(const GemmCall& call, bool check_addresses, GemmProblem& problem, GemmBindings& bindings);
// All of it: reads, validates, and (when `check_addresses`) looks at null pointers and aliasing.
Status make_gemm_problem(const GemmCall& call, bool check_addresses, GemmProblem& problem, GemmBindings& bindings);

// The part of validation that needs no call: dtypes, sizes, extents within 2^62 bytes, D's own overlap. A problem from text
// passes through it too.
Status validate_gemm_problem(const GemmProblem& problem);
// Ok, or why a kernel does not serve that multiplies whole bytes of one type and has scales in its epilogue only.
Status check_plain_product(const GemmProblem& problem);
// Sizes whose products cannot overflow.
Status check_gemm_extents(const GemmProblem& problem);

// "m=16:n=4096:k=4096:batch=1:a=bf16:b=bf16:d=bf16:layout=rcr:packed=1:bias=bf16:act=gelu". A stride stands only where
// it differs from the contiguous one of `layout`.
std::string print_gemm_problem(const GemmProblem& problem);
Result<GemmProblem> parse_gemm_problem(std::string_view text);
// "f32.1x128": dtype, outer and k of scales of blocks; "f32" of others.
std::string scale_mode_text(const ScaleProblem& scale);

// The same signature at other sizes, with contiguous strides.
GemmProblem resize_gemm_problem(const GemmProblem& from, int64_t m, int64_t n, int64_t k);

ProblemSignature gemm_signature(const GemmProblem& problem);
double gemm_operations(const GemmProblem& problem);
double gemm_bytes_moved(const GemmProblem& problem);

}  // namespace tilewright
