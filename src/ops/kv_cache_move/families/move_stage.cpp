// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kv_cache/cache_move_args.hpp"
#include "ops/kv_cache_move/families/move_families.hpp"

namespace tilewright {
namespace {

PagedTensor paged_argument(const PagedProblem& t) {
  return {nullptr,
          t.block,
          t.head,
          t.position,
          t.position_run,
          t.element,
          t.element_run,
          static_cast<int>(t.positions),
          static_cast<int>(t.elements),
          false};
}
// Whether heads of both lie one behind the other, so that they are one.
bool heads_join(const CacheMoveProblem& p) {
  const auto joins = [&p](const PagedProblem& t) { return t.element == 1 && t.elements == p.n && t.head == p.n; };
  const bool shares = p.scales == CacheScales::kNone || p.scales == CacheScales::kTensor;
  return p.heads > 1 && shares && joins(p.from) && joins(p.to) && p.heads * p.n <= int64_t{1} << 30;
}

}  // namespace

Stage move_stage(const CacheMoveOp& op, const CacheMoveProblem& given, long long grid,
                 std::shared_ptr<const LoadedKernel> kernel) {
  CacheMoveProblem p = given;
  if (heads_join(p)) {
    p.n *= p.heads, p.heads = 1;
    p.from.elements = p.to.elements = p.n;
  }
  CacheMoveArgs args{};
  args.rows = p.items * p.heads * (op.pairs ? p.block_size : 1), args.n = p.n,
  args.heads = std::max<int64_t>(p.heads, 1);
  args.from_blocks = p.from_blocks, args.to_blocks = p.to_blocks, args.block_size = std::max<int64_t>(p.block_size, 1);
  args.from = paged_argument(p.from), args.to = paged_argument(p.to);
  args.scale = {nullptr, p.scale_block, p.scale_position, p.scale_head, p.scales};
  args.stride_index = p.stride_index, args.stride_column = p.stride_column;
  args.requests = p.requests, args.columns = p.columns, args.wide = p.wide != 0;
  args.in = p.in, args.out = p.out, args.grid = grid;
  args.pieces = denominator(static_cast<unsigned>(std::max<int64_t>(p.n / move_piece_elements(p), 1)));

  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](bool present, uint16_t slot, size_t offset) {
    if (present) stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  };
  pointer(true, kMoveFrom, offsetof(CacheMoveArgs, from) + offsetof(PagedTensor, data));
  pointer(true, kMoveTo, offsetof(CacheMoveArgs, to) + offsetof(PagedTensor, data));
  pointer(true, kMoveIndex, offsetof(CacheMoveArgs, index));
  pointer(!op.pairs, kMoveLengths, offsetof(CacheMoveArgs, lengths));
  pointer(p.scales != CacheScales::kNone, kMoveScale, offsetof(CacheMoveArgs, scale) + offsetof(PagedScale, data));
  return stage;
}

}  // namespace tilewright
