// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstring>

#include "ops/top_k/families/top_k_families.hpp"

namespace tilewright {

Stage top_k_stage(const TopKProblem& p, const TopKArgs& with, std::shared_ptr<const LoadedKernel> kernel) {
  TopKArgs args = with;
  args.rows = p.rows, args.n = p.n, args.k = static_cast<int>(p.k), args.stride = p.stride;
  args.stride_values = p.stride_values, args.stride_indices = p.stride_indices, args.dtype = p.x;
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](uint16_t slot, size_t offset) {
    stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  };
  pointer(kTopKX, offsetof(TopKArgs, x));
  if (p.lengths != 0) pointer(kTopKLengths, offsetof(TopKArgs, lengths));
  if (p.values != 0) pointer(kTopKValues, offsetof(TopKArgs, values));
  pointer(kTopKIndices, offsetof(TopKArgs, indices));
  return stage;
}

}  // namespace tilewright
