// SPDX-License-Identifier: MIT
#include "device/cuda/vendor/cublaslt_descriptors.hpp"

#include <fmt/format.h>

namespace tilewright::cuda {
namespace {

// Sets attributes until one is refused.
template <class Object, class Attribute>
class Attributes {
 public:
  using Set = LtStatus (*)(Object*, Attribute, const void*, size_t);
  Attributes(Object& object, Set set, LtStatus& status) : object_(object), set_(set), status_(status) {}
  template <class Value>
  void operator()(Attribute attribute, Value value) {
    if (status_ == LtStatus::kSuccess) status_ = set_(&object_, attribute, &value, sizeof(value));
  }

 private:
  Object& object_;
  const Set set_;
  LtStatus& status_;
};

LtStatus describe_matrix(const LtLibrary& l, const LtMatrix& m, int64_t batch, LtLayout& layout) {
  LtStatus status = l.cublasLtMatrixLayoutInit_internal(&layout, sizeof(layout), m.type, static_cast<uint64_t>(m.rows),
                                                        static_cast<uint64_t>(m.columns), m.leading);
  Attributes set(layout, l.cublasLtMatrixLayoutSetAttribute, status);
  if (batch > 1) {
    set(LtLayoutAttribute::kBatchCount, static_cast<int32_t>(batch));
    set(LtLayoutAttribute::kBatchStride, m.batch_stride);
  }
  return status;
}

LtStatus describe_product(const LtLibrary& l, const LtProblem& p, LtMatmulDescriptor& descriptor) {
  LtStatus status =
      l.cublasLtMatmulDescInit_internal(&descriptor, sizeof(descriptor), p.compute, lt_scale_type(p.compute));
  Attributes set(descriptor, l.cublasLtMatmulDescSetAttribute, status);
  const auto transpose = [](bool yes) { return yes ? LtTranspose::kTransposed : LtTranspose::kNone; };
  set(LtMatmulAttribute::kTransposeA, transpose(p.transpose_a));
  set(LtMatmulAttribute::kTransposeB, transpose(p.transpose_b));
  const uint32_t epilogue = p.activation | (p.has_bias ? kLtEpilogueBias : 0);
  set(LtMatmulAttribute::kEpilogue, epilogue != 0 ? epilogue : kLtEpilogueDefault);
  // Heuristics read from an address how those to come are aligned.
  if (p.has_bias) {
    set(LtMatmulAttribute::kBiasPointer, uintptr_t{p.bias_alignment});
    set(LtMatmulAttribute::kBiasType, p.bias_type);
    if (p.batch > 1) set(LtMatmulAttribute::kBiasBatchStride, p.bias_batch_stride);
  }
  for (const auto& [scale, pointer, mode] :
       {std::tuple{p.scale_a, LtMatmulAttribute::kScaleA, LtMatmulAttribute::kScaleModeA},
        std::tuple{p.scale_b, LtMatmulAttribute::kScaleB, LtMatmulAttribute::kScaleModeB}}) {
    if (scale == LtScale::kNone) continue;
    const bool blocked = scale == LtScale::kRows128 || scale == LtScale::kBlocks128;
    set(pointer, blocked ? uintptr_t{16} : uintptr_t{sizeof(float)});
    switch (scale) {
      case LtScale::kVector: set(mode, LtScaleMode::kVector); break;
      case LtScale::kRows128: set(mode, LtScaleMode::kRows128); break;
      case LtScale::kBlocks128: set(mode, LtScaleMode::kBlocks128); break;
      default: break;
    }
  }
  if (p.fast_accumulation) set(LtMatmulAttribute::kFastAccumulation, int8_t{1});
  if (p.units > 0) set(LtMatmulAttribute::kUnits, p.units);
  return status;
}

std::string matrix_text(const LtMatrix& m) {
  return fmt::format("{} {}x{}/{}+{}@{}", static_cast<int>(m.type), m.rows, m.columns, m.leading, m.batch_stride,
                     m.alignment);
}

}  // namespace

Result<LtDescriptors> lt_describe(const LtLibrary& l, const LtProblem& p) {
  LtDescriptors made{};
  LtStatus status = describe_product(l, p, made.matmul);
  const auto matrix = [&](const LtMatrix& m, LtLayout& layout) {
    if (status == LtStatus::kSuccess) status = describe_matrix(l, m, p.batch, layout);
  };
  matrix(p.a, made.a);
  matrix(p.b, made.b);
  matrix(p.has_c ? p.c : p.d, made.c);
  matrix(p.d, made.d);
  if (Status s = lt_check(l, status, "cuBLASLt: descriptors"); !s) return s;
  return made;
}

Result<LtPreference> lt_preference(const LtLibrary& l, const LtProblem& p, int64_t workspace_bytes) {
  LtPreference made{};
  LtStatus status = l.cublasLtMatmulPreferenceInit_internal(&made, sizeof(made));
  Attributes set(made, l.cublasLtMatmulPreferenceSetAttribute, status);
  set(LtPreferenceAttribute::kWorkspaceBytes, static_cast<uint64_t>(workspace_bytes));
  set(LtPreferenceAttribute::kReductionMask, p.reductions);
  set(LtPreferenceAttribute::kAlignmentA, p.a.alignment);
  set(LtPreferenceAttribute::kAlignmentB, p.b.alignment);
  set(LtPreferenceAttribute::kAlignmentC, p.has_c ? p.c.alignment : p.d.alignment);
  set(LtPreferenceAttribute::kAlignmentD, p.d.alignment);
  if (Status s = lt_check(l, status, "cuBLASLt: preferences"); !s) return s;
  return made;
}

std::string lt_problem_text(const LtProblem& p) {
  return fmt::format("{}|{}|{}|{}|{}{}{} {} {} {}|{} {} {}|{}{}{}|{} {} {}", matrix_text(p.a), matrix_text(p.b),
                     matrix_text(p.c), matrix_text(p.d), p.transpose_a, p.transpose_b, p.has_c, p.batch,
                     static_cast<int>(p.compute), p.activation, p.has_bias, static_cast<int>(p.bias_type),
                     p.bias_batch_stride, static_cast<int>(p.scale_a), static_cast<int>(p.scale_b), p.fast_accumulation,
                     p.reductions, p.units, p.bias_alignment);
}

}  // namespace tilewright::cuda
