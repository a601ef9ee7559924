// SPDX-License-Identifier: MIT
// What host and grouped_sm90_dequant share: its arguments, and how rows of groups become entries of A. Its config is
// gemm_sm90_dequant's, without splits. Freestanding.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
#include "grouped_gemm/grouped_gemm_args.hpp"

namespace tilewright {

// At most `tokens` rows of one group. All entries of all groups stand in each block's shared memory, and their rows of A, where they
// are rearranged, in the workspace.
struct alignas(16) GroupedDequantEntry {
  int group, row, rows, pad;  // row: of A and D (contiguous), of the group (masked)
};
// At most. Where tiles are wide there are many rows, and shared memory left.
constexpr int grouped_dequant_most_entries(int tokens) { return tokens == 128 ? 2048 : 512; }
inline constexpr int kGroupedDequantStep = 8;        // rows of a group are cut in multiples of so many
inline constexpr int kGroupedDequantLaneGroups = 4;  // that a lane reads at once

struct GroupedSm90DequantArgs {
  GemmSm90DequantArgs product;
  GroupArgs groups;
  int most_entries;  // of groups that do not overlap
};

// Behind what a block of gemm_sm90_dequant has: the entries, and how many there are.
constexpr int grouped_sm90_dequant_shared_bytes(const GemmSm90DequantConfig& c) {
  return (gemm_sm90_dequant_shared_bytes(c) + 15) / 16 * 16 +
         grouped_dequant_most_entries(c.tokens) * static_cast<int>(sizeof(GroupedDequantEntry)) + 16;
}

// Entries that groups of together `rows` rows may have, of `most` each.
constexpr int64 grouped_dequant_entries(int64 groups, int64 rows, int64 most, int tokens) {
  const int64 apart = groups + rows / tokens, each = groups * ((most + tokens - 1) / tokens);
  return apart < each ? apart : each;
}

constexpr const char* grouped_sm90_dequant_refusal(const GemmSm90DequantConfig& c) {
  if (c.splits != 1) return "groups have no parts along K: splits is not 1";
  if (c.blocks != 1) return "groups have one block on a multiprocessor: blocks is not 1";
  if (c.warpgroups == 4 && c.tokens > 16 && narrow_weights_fold(c) && c.scale_row == 0) {
    return "four warpgroups that bring scales step by step have no registers for so many rows";
  }
  return gemm_sm90_dequant_refusal(c);
}

}  // namespace tilewright
