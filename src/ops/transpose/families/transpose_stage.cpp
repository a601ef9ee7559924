// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ops/transpose/families/transpose_families.hpp"

namespace tilewright {

Stage transpose_stage(const TransposeProblem& p, long long grid, std::shared_ptr<const LoadedKernel> kernel) {
  TransposeArgs args{};
  std::ranges::copy(p.batch, args.batch);
  std::copy_n(p.x.begin(), kTransposeBatch, args.stride_x);
  std::copy_n(p.out.begin(), kTransposeBatch, args.stride_out);
  args.m = p.m, args.n = p.n, args.row_x = p.x[kTransposeBatch], args.row_out = p.out[kTransposeBatch];
  args.grid = grid, args.bytes = dtype_bits(p.dtype) / 8;
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  for (const auto& [slot, offset] :
       {std::pair{kTransposeX, offsetof(TransposeArgs, x)}, {kTransposeOut, offsetof(TransposeArgs, out)}}) {
    stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  }
  return stage;
}

}  // namespace tilewright
