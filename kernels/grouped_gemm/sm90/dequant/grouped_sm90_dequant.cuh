// SPDX-License-Identifier: MIT
// grouped_sm90_dequant: GEMM of groups for Hopper, A in 16 bits and narrow weights that are widened in registers. It is gemm_sm90_dequant,
// whose entries of A are up to `tokens` rows of one group each. Each block reads all groups' numbers first; a group without rows has no
// entry, and nobody reads its weights.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant.cuh"
#include "gemm/sm90/skinny/gemm_sm90_skinny_view.cuh"
#include "grouped_gemm/sm90/dequant/grouped_sm90_dequant_args.hpp"
#include "grouped_gemm/sm90/grouped_sm90_lanes.cuh"
#include "grouped_gemm/sm90/grouped_sm90_schedule.hpp"

namespace tilewright {

// Tiles of all entries, those of an entry one after another; each block takes every so many-th. `kInOrder`: A comes as it lies.
template <bool kInOrder>
class GroupedDequantWork {
 public:
  __device__ __forceinline__ GroupedDequantWork(const GroupedDequantEntry* entries, int count, unsigned tiles,
                                                unsigned chunks)
      : entries_(entries),
        chunks_(static_cast<int>(chunks)),
        tiles_(tiles),
        at_(sm90::cluster_id()),
        end_(static_cast<unsigned>(count) * tiles) {}

  __device__ __forceinline__ bool take(SkinnySegment& s) {
    if (at_ >= end_) return false;
    s.entry = static_cast<int>(at_ / tiles_);
    s.tile = static_cast<int>(at_ - s.entry * tiles_);
    s.k0 = 0, s.k1 = chunks_;
    at_ += sm90::cluster_count();
    s.batch = entries_[s.entry].group;
    if constexpr (!kInOrder) return true;
    s.row = entries_[s.entry].row;
    // Every entry has rows: who asks so waits for what was loaded here, and not beside an arrival.
    return entries_[s.entry].rows > 0;
  }
  __device__ __forceinline__ SkinnyShare share(const SkinnySegment&) const { return {0, 0, 1}; }

 private:
  const GroupedDequantEntry* entries_;
  int chunks_;
  unsigned tiles_, at_, end_;
};

template <GemmSm90DequantConfig kConfig>
class GroupedDequantGroups {
 public:
  using Work = GroupedDequantWork<gemm_sm90_dequant_in_order(kConfig)>;

  __device__ __forceinline__ GroupedDequantGroups(const GroupedSm90DequantArgs& args, unsigned char* memory)
      : args_(args),
        entries_(reinterpret_cast<GroupedDequantEntry*>(memory)),
        count_(reinterpret_cast<int*>(memory +
                                      grouped_dequant_most_entries(kConfig.tokens) * sizeof(GroupedDequantEntry))) {}

  // One warp walks the groups: each lane writes the entries of its own. All threads of the block.
  __device__ __forceinline__ void find(int warp) const {
    wait_for_previous_kernel();
    if (warp == 0) {
      const GemmArgs& gemm = args_.product.product.gemm;
      GroupedTiles<GroupedSm90Lanes, kGroupedDequantStep, kConfig.tokens, kGroupedDequantLaneGroups> tiles(
          args_.groups, gemm.m, gemm.batch, 1, 1);
      const int found = tiles.each_group([&](int group, int begin, int rows, int first) {
        const GroupedRows cut = grouped_rows(rows, kGroupedDequantStep, kConfig.tokens);
        for (int i = 0; i < cut.tiles && first + i < args_.most_entries; ++i) {
          const GroupedPiece piece = grouped_piece(cut, i, kGroupedDequantStep);
          const int left = rows - piece.first, most = piece.steps * kGroupedDequantStep;
          entries_[first + i] = {group, begin + piece.first, left < most ? left : most, 0};
        }
      });
      // Only groups that overlap have more rows together than there are.
      const bool all = found <= args_.most_entries;
      if (threadIdx.x == 0) {
        *count_ = all ? found : args_.most_entries;
        if (sm90::cluster_id() == 0 && (tiles.clamped() || !all) && args_.groups.status != nullptr) {
          *args_.groups.status = kGroupsClamped;
        }
      }
    }
    __syncthreads();
  }
  __device__ __forceinline__ int entries() const { return *count_; }
  __device__ __forceinline__ DequantRows rows(int entry) const {
    const GemmArgs& gemm = args_.product.product.gemm;
    const GroupedDequantEntry e = entries_[entry];
    return {static_cast<const unsigned short*>(gemm.a) + e.group * gemm.stride_a_batch + e.row * gemm.stride_a_m,
            e.rows};
  }
  // Rows behind them are another group's, or not there; nobody keeps their sums.
  __device__ __forceinline__ DequantPlace place(const SkinnySegment& s) const {
    return {s.row, args_.product.product.gemm.stride_a_batch != 0 ? s.batch : 0};
  }
  __device__ __forceinline__ Work work(unsigned chunks) const {
    constexpr int kColumns = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(kConfig));
    constexpr int kHalves = kConfig.gate == GateMode::kSeparated ? 2 : 1;
    const auto n = static_cast<unsigned>(args_.product.product.gemm.n) / kHalves;
    return Work(entries_, *count_, (n + kColumns - 1) / kColumns, chunks);
  }
  __device__ __forceinline__ GemmSm90SkinnyArgs product(const SkinnySegment& s) const {
    const GroupedDequantEntry entry = entries_[s.entry];
    return gemm_sm90_skinny_view(args_.product.product, entry.row, entry.rows);
  }
  __device__ __forceinline__ static int turn(const SkinnySegment& s) { return s.entry; }

 private:
  const GroupedSm90DequantArgs& args_;
  GroupedDequantEntry* const entries_;
  int* const count_;
};

template <GemmSm90DequantConfig kConfig>
__device__ __forceinline__ void grouped_sm90_dequant(const GroupedSm90DequantArgs& args) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const GemmSm90DequantLayout<kConfig> shared(dynamic_shared);
  constexpr int kBehind = (gemm_sm90_dequant_shared_bytes(kConfig) + 15) / 16 * 16;
  gemm_sm90_dequant_block<kConfig>(args.product, shared, GroupedDequantGroups<kConfig>(args, dynamic_shared + kBehind));
}

}  // namespace tilewright
