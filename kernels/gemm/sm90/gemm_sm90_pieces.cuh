// SPDX-License-Identifier: MIT
// D of gemm_sm90 by pieces, where 8-bit floats are summed apart: 64 rows of a warpgroup by the columns of an instruction, at most two
// of a tile. Sums become words in shared memory, from where the copy engine brings them to D: nobody waits. The first piece
// leaves beside the tile's last products, the last piece beside the first products of the next tile, so that a warpgroup always has
// products under way.
#pragma once

#include "gemm/sm90/gemm_sm90_boxes.cuh"
#include "tile/sm90/box_store.cuh"

namespace tilewright {

template <GemmSm90Config kConfig>
class GemmSm90Pieces : public GemmSm90Boxes<kConfig, GemmSm90Layout<kConfig>> {
  using Base = GemmSm90Boxes<kConfig, GemmSm90Layout<kConfig>>;

 public:
  using Base::kBoxSums, Base::kBoxWords, Base::kPieceBoxes, Base::kRows64, Base::kShort;
  using typename Base::Sum;
  static constexpr bool kTurned = true;
  static constexpr int kPieces = gemm_sm90_pieces(kConfig);
  static_assert(kPieces <= 2);

  using Base::Base;

  // A piece of the tile of `slot`. Threads of the warpgroup meet.
  __device__ __forceinline__ void write(const Sum (&sum)[kRows64][kConfig.tile_n / 2], int slot, int piece) const {
    // A piece's memory is free when the piece after it has been asked for: there the last wait was.
    const unsigned memory = sm90::shared_address(this->shared_.staging(this->warpgroup_)) + piece * kBytes;
    if constexpr (kPieces == 1) {
      if (asks()) sm90::wait_stores_read();
      meet();
    }
    const int r = piece * kRows64 / kPieces, first = piece * kPieceBoxes % Base::kBoxes;
#pragma unroll(kShort ? kPieceBoxes : 1)
    for (int i = 0; i < kPieceBoxes; ++i) {
      Sum x[kBoxSums] = {};
      // Registers have no addresses: each box has its own copy of this.
#pragma unroll
      for (int w = 0; w < kRows64 * Base::kBoxes; ++w) {
        if (w != r * Base::kBoxes + first + i) continue;
#pragma unroll
        for (int j = 0; j < kBoxSums; ++j) {
          if (j < Base::sums_of(w % Base::kBoxes)) x[j] = sum[w / Base::kBoxes][Base::place(w % Base::kBoxes, j)];
        }
      }
      unsigned words[kBoxWords];
      Base::convert(x, slot, r, first + i, words);
      put(words, memory, i);
    }
    sm90::show_copy_engine();
    if (asks()) sm90::wait_stores_read();
    meet();
    if (asks()) ask(this->shared_.tile(slot), memory, r, first);
  }
  // After the last tile: shared memory may go.
  __device__ __forceinline__ void end() const {
    if (asks()) sm90::wait_stores();
  }

 private:
  static constexpr int kBytes = gemm_sm90_piece_bytes(kConfig), kBoxBytes = 64 * kSm90RowBytes;
  static constexpr int kLast = gemm_sm90_last_columns(kConfig);
  static constexpr int kBarrier = 8;  // and the next: of each warpgroup

  __device__ __forceinline__ static bool asks() { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ void meet() const { sm90::named_barrier(kBarrier + this->warpgroup_, 128); }
  __device__ static constexpr bool is_last(int i) { return kLast != 0 && i == kPieceBoxes - 1; }

  // A warp's 16 rows of the i-th box. Under the swizzle a box's column is an XOR of its address; a narrower one has none.
  __device__ __forceinline__ void put(const unsigned (&words)[kBoxWords], unsigned memory, int i) const {
    const int row = Base::warp() * 16 + Base::lane() % 16, column = Base::lane() / 16 * 16;
    const unsigned box = memory + i * kBoxBytes;
#pragma unroll
    for (int j = 0; j < kBoxWords; j += 4) {
      if (is_last(i)) {
        if (4 * j < kLast) store(box + row * kLast * 2 + column + j * 8, &words[j]);
      } else {
        store((box + sm90::swizzle_128(row * kSm90RowBytes + column)) ^ j * 8, &words[j]);
      }
    }
  }
  __device__ __forceinline__ static void store(unsigned address, const unsigned* words) {
    sm90::store_matrix_x4(address, words[0], words[1], words[2], words[3]);
  }
  // The piece's boxes that are this part's own.
  __device__ __forceinline__ void ask(const GemmSm90Tile& tile, unsigned memory, int r, int first) const {
    const int row = tile.m + (this->warpgroup_ * kRows64 + r) * 64;
#pragma unroll
    for (int i = 0; i < kPieceBoxes; ++i) {
      if (!Base::owns(tile, first + i)) continue;
      sm90::store_box(is_last(i) ? this->args_.d_last : this->args_.d, memory + i * kBoxBytes,
                      tile.n + Base::column_of(first + i), row, tile.batch);
    }
    sm90::end_stores();
  }
};

}  // namespace tilewright
