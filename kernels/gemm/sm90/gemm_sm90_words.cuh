// SPDX-License-Identifier: MIT
// D of gemm_sm90 by words: late, beside the products of the next tile. A box of a warp's 16 rows at a time passes through the
// warp's piece of shared memory and leaves in lines of 128 bytes. Ordinary stores: nobody waits for them.
//
// hold() ends a tile: sums become words of D, for which there are registers. write(0) ... write(kWrites - 1) follow.
#pragma once

#include "gemm/sm90/gemm_sm90_boxes.cuh"

namespace tilewright {

template <GemmSm90Config kConfig>
class GemmSm90Words : public GemmSm90Boxes<kConfig, GemmSm90Layout<kConfig, kSm90StagingBytes>> {
  using Base = GemmSm90Boxes<kConfig, GemmSm90Layout<kConfig, kSm90StagingBytes>>;

 public:
  using Base::kBoxes, Base::kBoxColumns, Base::kBoxSums, Base::kBoxWords, Base::kRows64, Base::kShort;
  using typename Base::Layout;
  using typename Base::Sum;
  static constexpr bool kLate = true, kTurned = kConfig.promote == Promotion::kScaled;  // neighbours among the sums
  static constexpr int kWrites = kRows64 * kBoxes;

  using Base::Base;

  // Ends the tile of `slot`.
  __device__ __forceinline__ void hold(const Sum (&sum)[kRows64][kConfig.tile_n / 2], int slot) {
#pragma unroll(kShort ? kWrites : 1)
    for (int w = 0; w < kWrites; ++w) {
      Sum x[kBoxSums] = {};
#pragma unroll
      for (int i = 0; i < kWrites; ++i) {
        if (i != w) continue;
#pragma unroll
        for (int j = 0; j < kBoxSums; ++j) {
          if (j < Base::sums_of(i % kBoxes))
            x[j] = sum[i / kBoxes][Base::place(i % kBoxes, j) ^ static_cast<int>(kTurned)];
        }
      }
      unsigned words[kBoxWords];
      Base::convert(x, slot, w / kBoxes, w % kBoxes, words);
      // Registers have no addresses: each box has its own copy of this.
#pragma unroll
      for (int i = 0; i < kWrites; ++i) {
        if (i != w) continue;
#pragma unroll
        for (int j = 0; j < kBoxWords; ++j) held_[i][j] = words[j];
      }
    }
  }
  // The w-th of kWrites boxes of the tile of `slot`, where it is this part's own.
  __device__ __forceinline__ void write(int slot, int w) const {
    const GemmSm90Tile& tile = this->shared_.tile(slot);
    if (!Base::owns(tile, w % kBoxes)) return;
    const unsigned box = sm90::shared_address(this->shared_.staging(this->warpgroup_)) + Base::warp() * kSm90BoxBytes;
    __syncwarp();  // everyone has read what was there
    put(w, box);
    __syncwarp();
    send(tile, w, box);
  }
  // All of them, after the last tile, of the warpgroup that is done first: box by box, as beside products.
  __device__ __forceinline__ void write_first(int slot) const {
    sm90::named_arrive(kBarrier, 128 * kConfig.warpgroups);
#pragma unroll
    for (int w = 0; w < kWrites; ++w) write(slot, w);
  }
  // Of the last one: in the memory of the stages, which all warpgroups are done with, there is room for all.
  __device__ __forceinline__ void write_all(int slot) const {
    const GemmSm90Tile& tile = this->shared_.tile(slot);
    const auto box = [&](int w) {
      return sm90::shared_address(this->shared_.a(0)) +
             ((this->warpgroup_ * 4 + Base::warp()) * kWrites + w) * kSm90BoxBytes;
    };
    sm90::named_barrier(kBarrier, 128 * kConfig.warpgroups);
#pragma unroll
    for (int w = 0; w < kWrites; ++w) put(w, box(w));
    __syncwarp();
#pragma unroll
    for (int w = 0; w < kWrites; ++w) {
      if (Base::owns(tile, w % kBoxes)) send(tile, w, box(w));
    }
  }

 private:
  // Under the swizzle a box's column is an XOR of its address.
  __device__ __forceinline__ void put(int w, unsigned box) const {
    const unsigned matrix = box + sm90::swizzle_128(Base::lane() % 16 * kSm90RowBytes + Base::lane() / 16 * 16);
    const unsigned(&words)[kBoxWords] = held_[w];
#pragma unroll
    for (int i = 0; i < kBoxWords; i += 4) {
      if (4 * i >= Base::columns_of(w % kBoxes)) continue;
      sm90::store_matrix_x4(matrix ^ i * 8, words[i], words[i + 1], words[i + 2], words[i + 3]);
    }
  }
  // From the box to D: eight columns a thread, kRowsAtOnce rows at a time.
  __device__ __forceinline__ void send(const GemmSm90Tile& tile, int w, unsigned box) const {
    const typename Base::Epilogue epilogue(this->args_.gemm.epilogue, this->args_.gemm.m, this->args_.gemm.n,
                                           tile.batch);
    const int column = tile.n + Base::column_of(w % kBoxes) + Base::lane() % kLanes * 8;
    const int row = tile.m + (this->warpgroup_ * kRows64 + w / kBoxes) * 64 + 16 * Base::warp() + Base::lane() / kLanes;
    const unsigned line = box + sm90::swizzle_128(Base::lane() / kLanes * kSm90RowBytes + Base::lane() % kLanes * 16);
    uint4 lines[kSm90BoxRows / kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kSm90BoxRows; i += kRowsAtOnce)
      lines[i / kRowsAtOnce] = sm90::load_words((line ^ (i & 4) * 16) + i * kSm90RowBytes);
    char* to = epilogue.address(row, column);
    const int64 step = kRowsAtOnce * epilogue.row_bytes();
    // No branch: beside products it would make the compiler wait for them.
    const bool inside = Base::lane() % kLanes * 8 < Base::columns_of(w % kBoxes) && column < epilogue.out_n();
    const int rows = inside ? static_cast<int>(epilogue.rows()) - row : 0;
#pragma unroll
    for (int i = 0; i < kSm90BoxRows; i += kRowsAtOnce, to += step) {
      if (i < rows) *reinterpret_cast<uint4*>(to) = lines[i / kRowsAtOnce];
    }
  }

  static constexpr int kLanes = kBoxColumns / 8, kRowsAtOnce = 32 / kLanes;  // of a row of a box
  static constexpr int kBarrier = 8;                                         // of the warpgroups that multiply
  unsigned held_[kWrites][kBoxWords];
};

}  // namespace tilewright
