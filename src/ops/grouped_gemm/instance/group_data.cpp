// SPDX-License-Identifier: MIT
#include "ops/grouped_gemm/instance/group_data.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace tilewright {
namespace {

enum class Spread : uint8_t { kEven, kRandom, kOneGroup, kUneven };

using Random = std::mt19937_64;

int64_t below(Random& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(limit, 1)));
}

// `count` things on `groups` groups.
std::vector<int64_t> spread_out(Spread spread, int64_t count, int64_t groups, Random& random) {
  std::vector<int64_t> sizes(static_cast<size_t>(groups), 0);
  if (groups == 0) return sizes;
  if (spread == Spread::kOneGroup) {
    sizes[static_cast<size_t>(below(random, groups))] = count;
    return sizes;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t group = spread == Spread::kEven ? i % groups : below(random, groups);
    if (spread == Spread::kUneven) group = std::min(group, below(random, groups));
    ++sizes[static_cast<size_t>(group)];
  }
  return sizes;
}

int64_t capacity_of(const GroupedGemmProblem& p) { return p.mode == GroupMode::kRaggedK ? p.gemm.k : p.gemm.m; }

int32_t number(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)); }

void draw_indices(const GroupedGemmProblem& p, Spread spread, Random& random, GroupData& data) {
  const auto rows = static_cast<size_t>(p.gemm.m);
  if (p.has_gather) {
    data.gather.resize(rows);
    for (int32_t& at : data.gather) at = p.a_rows == 0 ? -1 : number(below(random, p.a_rows));
  }
  if (p.has_scatter) {
    std::vector<int32_t> all(static_cast<size_t>(p.d_rows));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(rows, -1);
    data.scatter = std::move(all);
  }
  if (spread != Spread::kUneven || rows < 3) return;
  std::vector<int32_t>& index = p.has_gather ? data.gather : data.scatter;
  if (index.empty()) return;
  index[static_cast<size_t>(below(random, p.gemm.m))] = -1;
  index[static_cast<size_t>(below(random, p.gemm.m))] = number(p.has_gather ? p.a_rows : p.d_rows);
}

}  // namespace

GroupData draw_groups(const GroupedGemmProblem& p, uint64_t seed) {
  constexpr Spread kSpreads[] = {Spread::kEven, Spread::kRandom, Spread::kOneGroup, Spread::kUneven};
  const Spread spread = kSpreads[seed % 4];
  Random random(seed * 0x9E3779B97F4A7C15ull + 5);
  const int64_t groups = p.gemm.batch, capacity = capacity_of(p);
  GroupData data;
  draw_indices(p, spread, random, data);

  int64_t rows = p.likely_rows();
  if (spread == Spread::kUneven) rows -= rows / 4;
  std::vector<int64_t> sizes = spread_out(spread, rows / p.alignment, groups, random);
  for (int64_t& size : sizes) size = size * p.alignment - (size == 0 ? 0 : below(random, p.alignment));
  if (p.mode == GroupMode::kMasked) {
    for (int64_t& size : sizes) size = std::min(size, capacity);
    if (spread == Spread::kUneven && groups > 1) sizes[0] = capacity + 5, sizes[1] = -3;
  }
  // Rows that are left lie between groups where both numbers are said; else the last group reaches past the end.
  const int64_t used = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const int64_t gap = p.extents == GroupExtents::kBoth ? (capacity - used) / std::max<int64_t>(groups, 1) : 0;
  if (spread == Spread::kUneven && p.mode != GroupMode::kMasked && groups > 0) sizes.back() += capacity - used + 2;
  int64_t at = 0;
  for (size_t g = 0; g < sizes.size(); ++g) {
    if (p.has_sizes()) data.sizes.push_back(number(sizes[g]));
    if (p.extents == GroupExtents::kOffsets || p.extents == GroupExtents::kBoth) data.offsets.push_back(number(at));
    at += sizes[g];
    if (p.extents == GroupExtents::kEnds) data.offsets.push_back(number(at));
    at += gap;
  }
  if (p.extents == GroupExtents::kOffsets) data.offsets.push_back(number(at));
  return data;
}

// Written for itself: kernels are measured against it.
GroupPlaces place_groups(const GroupedGemmProblem& p, const GroupData& data) {
  GroupPlaces places;
  const int64_t capacity = capacity_of(p);
  int64_t next = 0;
  for (size_t g = 0; g < static_cast<size_t>(p.gemm.batch); ++g) {
    int64_t begin = 0, end = 0;
    if (p.mode == GroupMode::kMasked) {
      end = data.sizes[g];
    } else if (p.extents == GroupExtents::kSizes) {
      begin = next, end = next + data.sizes[g];
    } else if (p.extents == GroupExtents::kOffsets) {
      begin = data.offsets[g], end = data.offsets[g + 1];
    } else if (p.extents == GroupExtents::kEnds) {
      begin = g == 0 ? 0 : data.offsets[g - 1], end = data.offsets[g];
    } else {
      begin = data.offsets[g], end = begin + data.sizes[g];
    }
    GroupRange range{std::clamp<int64_t>(begin, 0, capacity), 0};
    if (begin >= 0 && begin <= capacity && end > begin) range.count = std::min(end, capacity) - begin;
    // Without rows at a place that is none, nothing was asked for.
    const bool nothing = end == begin && begin >= 0;
    places.clamped = places.clamped || (!nothing && (range.begin != begin || range.begin + range.count != end));
    next = std::min<int64_t>((range.begin + range.count + p.alignment - 1) / p.alignment * p.alignment, capacity);
    places.ranges.push_back(range);
  }
  for (const auto& [index, rows] : {std::pair{&data.gather, p.a_rows}, {&data.scatter, p.d_rows}}) {
    for (const int32_t at : *index) places.clamped = places.clamped || at >= rows;
  }
  return places;
}

GroupPlaces::Row place_row(const GroupedGemmProblem& p, const GroupData& data, int64_t row) {
  GroupPlaces::Row place{row, row};
  if (p.has_gather) place.a = data.gather[static_cast<size_t>(row)];
  if (p.has_scatter) place.d = data.scatter[static_cast<size_t>(row)];
  if (place.a < 0 || place.a >= p.a_rows || place.d < 0 || place.d >= p.d_rows) return {-1, -1};
  return place;
}

}  // namespace tilewright
