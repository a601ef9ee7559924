// SPDX-License-Identifier: MIT
// Scales and zero points of blocks along K: from a call's tensor and from text to ScaleProblem, and back to text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

enum class ScaleSide : uint8_t { kA, kB, kZeroB };

// One operand's scales, or its zero points, in a call; `problem` has its sizes.
struct ScaleArgument {
  ScaleSide side;
  const TensorView& tensor;
  ScaleGroup group;
};
Status read_block_scale(const GemmProblem& problem, const ScaleArgument& argument, bool check_addresses,
                        DeviceId device, ScaleProblem& scale);
// A scale of rows varies along N, or one of columns along M.
Status refuse_varying_scale(ScaleSide side);
// Group sizes, dtype and reach of both operands' scales and of the zero points.
Status check_gemm_scales(const GemmProblem& problem);

// The strides of row-major [batch, M or N, K] groups: a weight's scales lie as the weight, [N, K].
void set_usual_strides(const GemmProblem& problem, ScaleSide side, ScaleProblem& scale);
// At `problem`'s sizes what `was` is at those of `from`: broadcast, or contiguous in the same order.
void resize_scale(const GemmProblem& from, const GemmProblem& problem, ScaleSide side, const ScaleProblem& was,
                  ScaleProblem& scale);

// "f32", "f32.batch.m.n" (strides); "e8m0.1x32", "e8m0.1x32.batch.outer.k"; zero points: "u4", "u4.batch.outer.k".
std::string print_scale(const GemmProblem& problem, ScaleSide side, const ScaleProblem& scale);
Status parse_scale(const GemmProblem& problem, ScaleSide side, std::span<const std::string_view> parts,
                   ScaleProblem& scale);

}  // namespace tilewright
