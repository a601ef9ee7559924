// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ops/kv_cache/families/cache_families.hpp"
#include "tile/common/quantise.hpp"

namespace tilewright {

std::vector<CacheProblem> usual_cache_problems(const CacheOp& op) {
  std::vector<CacheProblem> problems;
  const auto add = [&](DType x, DType cache, bool norm) {
    CacheProblem p;
    p.tokens = 4096, p.block_size = 16, p.blocks = 4096;
    p.x = x, p.cache = cache, p.norm = norm;
    if (op.queries) p.q = x, p.table = DType::kF32, p.dims = 128, p.table_rows = 4096, p.stride_table = 64;
    if (norm) p.weight = x, p.q_weight = p.k_weight = 1;
    if (is_quantised(cache)) p.scales = CacheScales::kTensor;
    constexpr int64_t kHeads[] = {64, 8, 8};
    for (int tensor = op.queries ? kCacheQueries : kCacheKeys; tensor < kCacheTensors; ++tensor) {
      CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
      h.heads = kHeads[tensor], h.n = 128, h.stride_token = h.heads * h.n, h.stride_head = h.n;
      h.out = paged_contiguous(CacheLayout::kNhd, h.heads, h.n, p.block_size_of(tensor), 1);
    }
    p.stride_slot = 1;
    problems.push_back(p);
  };
  for (const DType x : {DType::kF32, DType::kF16, DType::kBf16}) add(x, x, false);
  add(DType::kBf16, DType::kF8E4M3, false);
  if (op.queries) add(DType::kBf16, DType::kBf16, true), add(DType::kBf16, DType::kF8E4M3, true);
  return problems;
}

bool has_pieces(const CacheProblem& p, int tensor) {
  const PagedProblem& o = p.heads[static_cast<size_t>(tensor)].out;
  if (p.unaligned || o.element != 1 || o.elements % kRowPiece != 0) return false;
  return std::ranges::all_of(std::array{o.block, o.head, o.position, o.position_run, o.element_run},
                             [](int64_t stride) { return stride % kRowPiece == 0; });
}

Stage cache_stage(const CacheProblem& p, int each, long long grid, std::shared_ptr<const LoadedKernel> kernel,
                  bool stream) {
  CacheArgs args{};
  args.tokens = p.tokens, args.sets = p.tokens * p.all_heads() / each;
  args.blocks = p.blocks, args.block_size = p.block_size;
  if (args.sets > 0) args.token_sets = denominator(static_cast<unsigned>(p.all_heads() / each));
  if (p.block_size > 0) args.block_slots = denominator(static_cast<unsigned>(p.block_size));
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
    const CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
    CacheHeads& to = args.heads[tensor];
    const PagedProblem& o = h.out;
    to.stride_token = h.stride_token, to.stride_head = h.stride_head;
    to.heads = static_cast<int>(h.heads), to.n = static_cast<int>(h.n);
    to.out = {nullptr,
              o.block,
              o.head,
              o.position,
              o.position_run,
              o.element,
              o.element_run,
              static_cast<int>(o.positions),
              static_cast<int>(o.elements),
              has_pieces(p, tensor)};
    to.scale = {nullptr, h.scale_block, h.scale_position, h.scale_head, p.scales_of(tensor)};
    const bool turned = tensor != kCacheValues && h.present();
    to.normed = turned && p.norm, to.turned = turned && p.turns() && p.dims > 0;
  }
  args.stride_slot = p.stride_slot, args.wide_slots = p.wide_slots != 0;
  RowRotation& r = args.rotation;
  r.table_rows = p.table_rows, r.stride_table = p.stride_table, r.dims = p.dims;
  r.table = p.table, r.interleaved = p.interleaved != 0;
  r.stride_axis = p.stride_axis;
  set_sections(p.section_pairs, p.sections, r);
  r.stride_position[1] = p.stride_position, args.wide_positions = p.wide_positions != 0;
  args.unit_offset = p.unit_offset != 0;
  args.x = p.x, args.q = p.q, args.cache = p.cache, args.weight = p.weight, args.grid = grid, args.stream = stream;

  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](bool present, size_t slot, size_t offset) {
    if (!present) return;
    stage.patches.push_back({ArgPatch::Kind::kPointer, static_cast<uint16_t>(slot), static_cast<uint32_t>(offset)});
  };
  for (size_t i = 0; i < kCacheTensors; ++i) {
    const size_t heads = offsetof(CacheArgs, heads) + i * sizeof(CacheHeads);
    const bool present = p.heads[i].present();
    pointer(present, kCacheIn + i, heads + offsetof(CacheHeads, in));
    pointer(present, kCacheOut + i, heads + offsetof(CacheHeads, out) + offsetof(PagedTensor, data));
    pointer(present && p.scales_of(static_cast<int>(i)) != CacheScales::kNone, kCacheScale + i,
            heads + offsetof(CacheHeads, scale) + offsetof(PagedScale, data));
  }
  const size_t q = offsetof(CacheArgs, heads), k = q + sizeof(CacheHeads);
  pointer(p.q_weight != 0, kCacheQWeight, q + offsetof(CacheHeads, weight));
  pointer(p.k_weight != 0, kCacheKWeight, k + offsetof(CacheHeads, weight));
  pointer(true, kCacheSlots, offsetof(CacheArgs, slots));
  const size_t rotation = offsetof(CacheArgs, rotation);
  pointer(p.turns(), kCacheCosine, rotation + offsetof(RowRotation, cosine));
  pointer(p.turns(), kCacheSine, rotation + offsetof(RowRotation, sine));
  pointer(p.positions != 0, kCachePositions, rotation + offsetof(RowRotation, positions));
  stage.patches.push_back({ArgPatch::Kind::kScalar, 0, static_cast<uint32_t>(offsetof(CacheArgs, eps))});
  return stage;
}

}  // namespace tilewright
