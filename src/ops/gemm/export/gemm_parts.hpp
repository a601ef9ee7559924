// SPDX-License-Identifier: MIT
// In how many parts a recipe cuts K, and the recipe that cuts it in about as many as are asked for.
#pragma once

#include <span>

#include "dispatch/choice/dispatcher.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// 1: none. 0: K is not cut evenly (stream-K).
int64_t gemm_parts_of_k(const GemmProblem& problem, const KernelFamily& family, const RecipeStep& step);

// Of the choices' kernels, with knobs for it: the nearest to `parts` (1 or more), of these the cheapest. Refuses where no
// kernel cuts K of this problem.
Result<Recipe> choose_gemm_parts(const GemmProblem& problem, const DeviceSpec& device,
                                 std::span<const KernelFamily* const> families, std::span<const Choice> choices,
                                 int64_t parts);

}  // namespace tilewright
