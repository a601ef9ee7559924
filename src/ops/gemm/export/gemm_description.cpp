// SPDX-License-Identifier: MIT
#include "ops/gemm/export/gemm_description.hpp"

#include <fmt/format.h>

#include "ops/gemm/export/gemm_args_fields.hpp"

namespace tilewright {
namespace {

constexpr const char* kMeaning =
    "D[b,m,n] = steps(gate(act(alpha * scale_a * scale_b * sum_k A[b,m,k] B[b,k,n] + beta * C + bias)))";

// With zero points.
constexpr const char* kZeroMeaning =
    "D[b,m,n] = steps(gate(act(alpha * sum_k (A[b,m,k] scale_a)((B[b,k,n] - zero_b) scale_b) + beta * C + bias)))";

// With scales of groups along K.
constexpr const char* kScaledMeaning =
    "D[b,m,n] = steps(gate(act(alpha * sum_k (A[b,m,k] scale_a)(B[b,k,n] scale_b) + beta * C + bias)))";

CallBuffer buffer(uint16_t slot, std::string name, std::string meaning, DType dtype, std::array<int64_t, 3> shape,
                  std::array<int64_t, 3> strides) {
  int64_t last = 0;
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    empty = empty || shape[i] == 0;
    last += (shape[i] - 1) * strides[i];
  }
  CallBuffer made;
  made.slot = slot;
  made.name = std::move(name);
  made.meaning = std::move(meaning);
  made.dtype = dtype;
  made.shape = shape;
  made.strides = strides;
  made.bytes = empty ? 0 : dtype_bytes(dtype, last + 1);
  return made;
}

class Describer {
 public:
  explicit Describer(const GemmProblem& problem) : p_(problem) { out_.meaning = kMeaning; }

  CallDescription run() {
    add_matrices();
    if (p_.has_block_scales()) out_.meaning = p_.zero_b.present() ? kZeroMeaning : kScaledMeaning;
    add_scale_a();
    add_of_columns(kSlotScaleB, "scale_b", p_.scale_b);
    add_of_columns(kSlotZeroB, "zero_b", p_.zero_b);
    operand(kSlotC, "c", "added, times beta", p_.c, p_.n);
    operand(kSlotBias, "bias", "added", p_.bias, p_.n);
    if (p_.has_alpha) scalar(kScalarAlpha, "alpha", "factor of the product");
    if (p_.c.present()) scalar(kScalarBeta, "beta", "factor of C");
    if (p_.activation == Activation::kClamp) bounds(kScalarLow, "");
    for (int i = 0; i < p_.step_count; ++i) {
      const StepProblem& step = p_.steps[i];
      const std::string prefix = fmt::format("step{}", i);
      operand(static_cast<uint16_t>(kSlotStep0 + i), prefix, fmt::format("of step {}", i), step.operand, p_.out_n());
      if (step.activation == Activation::kClamp) bounds(kScalarStep0 + 2 * i, prefix + "_");
    }
    return std::move(out_);
  }

 private:
  void add_matrices() {
    out_.buffers.push_back(buffer(kSlotA, "a", "A, [batch, M, K]", p_.a_dtype, {p_.batch, p_.m, p_.k},
                                  {p_.stride_a_batch, p_.stride_a_m, p_.stride_a_k}));
    out_.buffers.back().alignment = 16 >> p_.shortfall_a;
    CallBuffer b = buffer(kSlotB, "b", "B, [batch, K, N]", p_.b_dtype, {p_.batch, p_.k, p_.n},
                          {p_.stride_b_batch, p_.stride_b_k, p_.stride_b_n});
    if (p_.b_packed) {
      b.meaning = fmt::format("B, [batch, K, N], packed: {} as gemm_pack_weights makes them",
                              p_.b_packed == kPackedFragments ? "fragments" : "panels");
      b.bytes = (p_.stride_b_batch == 0 ? 0 : p_.batch - 1) * p_.stride_b_batch + packed_entry_bytes(p_);
    }
    b.alignment = p_.b_packed ? 64 : 16 >> p_.shortfall_b;
    out_.buffers.push_back(std::move(b));
    out_.buffers.push_back(buffer(kSlotD, "d", "D, [batch, M, N]", p_.d_dtype, {p_.batch, p_.m, p_.out_n()},
                                  {p_.stride_d_batch, p_.stride_d_m, p_.stride_d_n}));
    out_.buffers.back().output = true;
    out_.buffers.back().alignment = 16 >> p_.shortfall_d;
  }
  static std::string scale_meaning(const ScaleProblem& s, const char* rows) {
    if (!s.blocked()) return fmt::format("of {}; a stride of 0: the same for all", rows);
    return fmt::format("one for {} of {} and {} values along K", s.outer, rows, s.k);
  }
  void add_scale_a() {
    const ScaleProblem& s = p_.scale_a;
    if (!s.present()) return;
    const ScaleCounts counts = scale_counts(s, p_.m, p_.k);
    out_.buffers.push_back(buffer(kSlotScaleA, "scale_a", scale_meaning(s, "A's rows"), s.dtype,
                                  {p_.batch, counts.outer, s.blocked() ? counts.k : p_.n},
                                  {s.stride_batch, s.stride_outer, s.stride_k}));
  }
  void add_of_columns(uint16_t slot, const char* name, const ScaleProblem& s) {
    if (!s.present()) return;
    const ScaleCounts counts = scale_counts(s, p_.n, p_.k);
    out_.buffers.push_back(buffer(slot, name, scale_meaning(s, "B's columns"), s.dtype,
                                  {p_.batch, s.blocked() ? counts.k : p_.m, counts.outer},
                                  {s.stride_batch, s.stride_k, s.stride_outer}));
  }
  void operand(uint16_t slot, const std::string& name, const std::string& meaning, const OperandProblem& o,
               int64_t columns) {
    if (!o.present()) return;
    out_.buffers.push_back(
        buffer(slot, name, meaning, o.dtype, {p_.batch, p_.m, columns}, {o.stride_batch, o.stride_m, o.stride_n}));
    out_.buffers.back().alignment = 16 >> o.shortfall;
  }
  void scalar(int slot, const std::string& name, const std::string& meaning) {
    out_.scalars.push_back({static_cast<uint16_t>(slot), name, meaning});
  }
  void bounds(int slot, const std::string& prefix) {
    scalar(slot, prefix + "low", "lower bound of clamp");
    scalar(slot + 1, prefix + "high", "upper bound of clamp");
  }

  const GemmProblem& p_;
  CallDescription out_;
};

}  // namespace

CallDescription describe_gemm_call(const GemmProblem& problem) { return Describer(problem).run(); }

Result<ArgStruct> describe_gemm_args(std::string_view family) {
  if (family == "gemm_sm90") return describe_struct<GemmSm90Args>("GemmSm90Args");
  if (family == "gemm_sm90_skinny") return describe_struct<GemmSm90SkinnyArgs>("GemmSm90SkinnyArgs");
  if (family == "gemm_sm90_dequant") return describe_struct<GemmSm90DequantArgs>("GemmSm90DequantArgs");
  if (family == "gemm_sm90_dequant_many") {
    return describe_struct<GemmSm90DequantManyArgs>("GemmSm90DequantManyArgs");
  }
  if (family == "gemm_amd") return describe_struct<GemmAmdArgs>("GemmAmdArgs");
  if (family == "gemv_dequant_gpu") return describe_struct<GemvDequantGpuArgs>("GemvDequantGpuArgs");
  if (family == "gemm_generic_gpu") return describe_struct<GemmScaledArgs>("GemmScaledArgs");
  if (family == "gemv_amd") return describe_struct<GemvAmdArgs>("GemvAmdArgs");
  for (const std::string_view plain : {"gemm_portable", "gemv_gpu", "gemv_dot_gpu"}) {
    if (family == plain) return describe_struct<GemmArgs>("GemmArgs");
  }
  return Status(StatusCode::kUnsupported,
                fmt::format("gemm: '{}' has no kernels whose arguments are described", family));
}

}  // namespace tilewright
