// SPDX-License-Identifier: MIT
// What host and grouped GEMM kernels share: how the device says where groups lie, and the argument struct. Freestanding.
//
//   contiguous   D[r,n]   = sum_k A[r,k] B[g,k,n]       for rows r of group g
//   masked       D[g,m,n] = sum_k A[g,m,k] B[g,k,n]     for m < counts[g]
//   ragged_k     D[g,m,n] = sum over t of group g of A[m,t] B[t,n]
//
// with gemm's scales, activation, gate and steps. The batch index of GemmArgs is the group.
#pragma once

#include "gemm/gemm_scale_args.hpp"

namespace tilewright {

enum class GroupMode : unsigned char { kContiguous, kMasked, kRaggedK };
inline constexpr const char* kGroupModeNames[] = {"contiguous", "masked", "ragged_k"};
constexpr const char* const* enum_names(GroupMode) { return kGroupModeNames; }
constexpr int enum_count(GroupMode) { return 3; }

// What the device knows of groups that lie one after another.
enum class GroupExtents : unsigned char {
  kSizes,    // sizes[G]: each begins where the one before ended, rounded up to the alignment
  kOffsets,  // offsets[G + 1]: group g is [offsets[g], offsets[g + 1])
  kEnds,     // offsets[G]: group g is [offsets[g - 1], offsets[g]), the first begins at 0
  kBoth,     // offsets[G] or more, sizes[G]: group g is [offsets[g], offsets[g] + sizes[g])
};
inline constexpr const char* kGroupExtentsNames[] = {"sizes", "offsets", "ends", "both"};
constexpr const char* const* enum_names(GroupExtents) { return kGroupExtentsNames; }
constexpr int enum_count(GroupExtents) { return 4; }

// The value of the status word where a group reached past the capacity, or an index past the rows. Never written else.
inline constexpr int kGroupsClamped = 1;

struct GroupArgs {
  const int* sizes;  // null where the extents need none
  const int* offsets;
  const int* gather;   // row of A of each row; null: the row itself. Below 0: the row is left out
  const int* scatter;  // row of D of each row, likewise
  int* status;         // null: nobody asks
  int64 stride_sizes, stride_offsets, stride_gather, stride_scatter;
  int64 a_rows, d_rows;  // of A and D: what indices stay below
  int64 alignment;
  EpilogueOperand row_scale;  // where there are indices: A's scale of all of K, by row of A; the epilogue has none then
  GroupMode mode;
  GroupExtents extents;
};

struct GroupedGemmArgs {
  GemmScaledArgs scaled;
  GroupArgs groups;
};

// The numbers of one group as they stand in memory: where it begins (not kSizes), and its size or its end.
struct GroupNumbers {
  int first, second;
};
constexpr GroupNumbers group_numbers(const GroupArgs& a, int64 group) {
  const auto size = [&a](int64 g) { return a.sizes[g * a.stride_sizes]; };
  const auto offset = [&a](int64 g) { return a.offsets[g * a.stride_offsets]; };
  switch (a.extents) {
    case GroupExtents::kSizes: return {0, size(group)};
    case GroupExtents::kOffsets: return {offset(group), offset(group + 1)};
    case GroupExtents::kEnds: return {group == 0 ? 0 : offset(group - 1), offset(group)};
    default: return {offset(group), size(group)};
  }
}

// Rows [begin, begin + count), in ragged_k values along K.
struct GroupRange {
  int64 begin, count;
};

// Groups in order. Whatever the numbers say, a range lies in [0, capacity).
struct GroupWalk {
  int64 capacity;    // rows there are; masked: of one group
  int64 cursor = 0;  // kSizes: where the next one begins
  bool clamped = false;

  constexpr GroupRange next(const GroupArgs& a, GroupNumbers numbers) {
    int64 begin = a.mode == GroupMode::kMasked ? 0 : a.extents == GroupExtents::kSizes ? cursor : numbers.first;
    const bool is_end = a.extents == GroupExtents::kOffsets || a.extents == GroupExtents::kEnds;
    int64 count = is_end ? static_cast<int64>(numbers.second) - begin : numbers.second;
    if (begin < 0 || begin > capacity || count < 0) {
      clamped = clamped || begin < 0 || count != 0;
      begin = begin < 0 ? 0 : begin > capacity ? capacity : begin;
      count = 0;
    }
    if (count > capacity - begin) {
      clamped = true;
      count = capacity - begin;
    }
    if (a.extents == GroupExtents::kSizes) {
      const int64 end = begin + count, rounded = (end + a.alignment - 1) / a.alignment * a.alignment;
      cursor = rounded < capacity ? rounded : capacity;
    }
    return {begin, count};
  }
};

constexpr GroupWalk group_walk(const GroupedGemmArgs& a) {
  return {a.groups.mode == GroupMode::kRaggedK ? a.scaled.gemm.k : a.scaled.gemm.m};
}

// The row of A or D that an index names; -1: none. `clamped` is set where it lies past the rows.
constexpr int64 indexed_row(const int* index, int64 stride, int64 row, int64 rows, bool& clamped) {
  if (index == nullptr) return row;
  const int64 at = index[row * stride];
  if (at >= rows) clamped = true;
  return at >= 0 && at < rows ? at : -1;
}

}  // namespace tilewright
