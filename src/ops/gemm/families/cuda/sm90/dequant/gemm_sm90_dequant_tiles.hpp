// SPDX-License-Identifier: MIT
// Tiles of gemm_sm90_dequant, their configs and their launch: what its family and that of groups share.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.hpp"
#include "dispatch/plan.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

struct DequantTile {
  int rows, tokens, warpgroups, stages, blocks;  // stages are the most; what does not fit is left out
  int few_stages = 0;                            // with which some problems are faster; 0: none
};
std::span<const DequantTile> dequant_tiles_of(const GemmProblem& problem);
// What no tile can do, this one cannot.
const DequantTile& least_dequant_tile(const GemmProblem& problem);

// Bytes that a row's scales take where those of a tile come whole; 0 where they do not lie so, or are more than a kernel has place for.
int dequant_scale_row(const GemmProblem& problem);
// With all of the tile's stages.
GemmSm90DequantConfig dequant_config(const GemmProblem& problem, const DequantTile& tile, int splits, int scale_row);
// Bytes of the workspace: A's rows, rearranged, in so many entries.
int64_t dequant_workspace_bytes(const GemmProblem& problem, const GemmSm90DequantConfig& config, int64_t entries);

// Whether blocks of a multiprocessor find place for their stages.
bool dequant_fits_shared(const GemmSm90DequantConfig& config);
// Null, or why the target does not run the kernel of a config that is legal.
const char* dequant_target_refusal(const GemmSm90DequantConfig& config, const ArchSpec& arch);
// Ok, or why no kernel of dense products takes the problem, however many rows it has.
Status check_dequant_problem(const GemmProblem& problem, const DeviceSpec& device);
// Whether the device multiplies A's type, and operands have types, strides and sizes that the copy engine brings.
Status check_dequant_operands(const GemmProblem& problem, const DeviceSpec& device);
// Whether a kernel takes the problem's weights as they lie, and their scales as it brings them.
Status check_dequant_weights(const GemmProblem& problem, const GemmSm90DequantConfig& config);

// The order in which a tile's sums are added, where no other block has part of them.
std::string dequant_order(const GemmSm90DequantConfig& config);

// The launch but for its grid and shared memory; its arguments begin with a GemmSm90DequantArgs, whose product is `args` but for what
// follows from the problem. `exchange_bytes`: of sums on their way.
Stage dequant_stage(const GemmProblem& problem, const GemmSm90DequantConfig& config, GemmSm90SkinnyArgs args,
                    int64_t exchange_bytes, std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
