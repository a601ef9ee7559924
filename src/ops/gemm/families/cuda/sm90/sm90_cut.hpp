// SPDX-License-Identifier: MIT
// How the families of few rows cut their weights among blocks: what is no legal cut.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

// Ok, or why K = `k` cannot be cut in `splits` parts so.
Status check_sm90_cut(const GemmSm90SkinnyCut& cut, int splits, int64_t k);

}  // namespace tilewright
