// SPDX-License-Identifier: MIT
// A recipe in short, for tables that people read.
#pragma once

#include <string>

namespace tilewright::cli {

// "gemm/gemm_cpu/x86-64-v4-amx/dtype=bf16/dtype=bf16:mma=amx_bf16:tile_m=32:prefetch=0@block_m=64" ->
// "gemm_cpu amx_bf16 tile_m=32 block_m=64": the family, then what the signature does not say; zeros are left out.
std::string short_recipe(const std::string& recipe);

}  // namespace tilewright::cli
