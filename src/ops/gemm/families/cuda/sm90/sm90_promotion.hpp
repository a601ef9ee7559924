// SPDX-License-Identifier: MIT
// How the families of wgmma sum products of 8-bit floats: which ways a problem allows.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gemm/sm90/gemm_sm90_promotion.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// Ok, or why neither family serves such types and scales: whole bytes of one type with scales in the epilogue, or 8-bit
// floats with f32 scales of 1 x 128 of A and 128 x 128 of B.
Status check_sm90_product(const GemmProblem& problem);

// `wgmma` with what it does besides: rounds to tf32; of 8-bit floats sums tiles of K apart, or cuts sums to fewer bits.
std::string sm90_order(DType dtype, Promotion promote, std::string_view wgmma);
// The values of `promote` that may serve the problem, the fastest first.
std::span<const Promotion> sm90_promotions(const GemmProblem& problem);
// Ok, or why a kernel that promotes, or does not, cannot serve the problem.
Status check_sm90_promotion(const GemmProblem& problem, Promotion promote);

}  // namespace tilewright
