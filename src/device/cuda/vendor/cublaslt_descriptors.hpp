// SPDX-License-Identifier: MIT
// A multiplication as the descriptors that cuBLASLt reads.
#pragma once

#include "device/cuda/vendor/cublaslt.hpp"

namespace tilewright::cuda {

struct LtDescriptors {
  LtMatmulDescriptor matmul;  // pointers in it are of no meaning, but for their alignment
  LtLayout a, b, c, d;
};

// i32 products have scales of that type, all others f32.
constexpr LtType lt_scale_type(LtCompute compute) { return compute == LtCompute::kI32 ? LtType::kI32 : LtType::kF32; }

Result<LtDescriptors> lt_describe(const LtLibrary& library, const LtProblem& problem);
Result<LtPreference> lt_preference(const LtLibrary& library, const LtProblem& problem, int64_t workspace_bytes);
// Equal texts, equal problems.
std::string lt_problem_text(const LtProblem& problem);

}  // namespace tilewright::cuda
