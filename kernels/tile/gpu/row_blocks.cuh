// SPDX-License-Identifier: MIT
// Writes blocks of rows and columns that share a scale, which is found: one a block of threads, in their registers. One source for
// NVIDIA and AMD.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

// Threads across a row of a block, and rows at a time.
inline constexpr int kBlockAcross = kScaleBlock / kRowPiece;
inline constexpr int kBlockDown = kRowBlockThreads / kBlockAcross;
static_assert(kBlockDown == kScaleBlock / kScaleBlockPieces);

template <bool kValue>
struct Flag {
  static constexpr bool value = kValue;
};

// Of x, times what smooths columns, after turn(piece), which all threads call; round() as store_row's.
template <RowGpuConfig kConfig, class Turn, class Round>
__device__ __forceinline__ void store_blocks(const RowArgs& given, Turn&& turn_piece, const Round& round) {
  static_assert(row_block_threads(kConfig.threads) == kRowBlockThreads);
  // Where nothing else is asked of them pieces stay as they lie: half the registers of 16-bit elements, and more blocks.
  constexpr bool kTyped = kConfig.x != DType::kNone, kAsks = kConfig.whole && kTyped;
  constexpr bool kAsLies = kAsks && kConfig.plain, kKeeps = kTyped && !kAsLies;
  constexpr bool kAtOnce = kTyped && !kConfig.chance;
  constexpr int kTurns = kTyped ? kConfig.pieces : kScaleBlockPieces;  // of as many rows at a time
  const int across = static_cast<int>(threadIdx.x) % kBlockAcross * kRowPiece;
  const int down = static_cast<int>(threadIdx.x) / kBlockAcross;
#if defined(__AMDGCN__)
  constexpr bool kWalks = true;
#else
  constexpr bool kWalks = !row_grid_covers(kConfig);
#endif
  if constexpr (has_edge(kConfig)) allow_next_kernel();
  long long which = blockIdx.x;
#pragma unroll 1
  do {
    const RowBlock block =
        kConfig.plain && !kWalks ? plain_row_block(anew(given), blockIdx.x) : row_block(anew(given), which);
    const int columns = kConfig.full ? kScaleBlock : block.columns, left = columns - across;
    const int count = left < 0 ? 0 : left < kRowPiece ? left : kRowPiece;
    const int rows = kConfig.full ? kTurns * kBlockDown : block.rows - down;
    const auto count_at = [&](int turn) { return kConfig.full ? kRowPiece : turn * kBlockDown < rows ? count : 0; };
    // This thread's first piece, and what is not there the block's, so that nothing branches.
    const long long n = block.n + (count > 0 ? across : 0);
    RowIndex at = block.first;
    at.i[2] += rows > 0 ? down : 0;

    const RowTensor& x = anew(given).x;
    const int x_bits = kConfig.x == DType::kNone ? dtype_bits(x.dtype) : dtype_bits(kConfig.x);
    const char* const from = row_start<kConfig.x>(x, at);
    const long long x_step = kBlockDown * x.stride[2] * x_bits / 8;
    // All of it is asked for before the first is waited for.
    PieceWords<kConfig.x> words[kAsks ? kTurns : 1];
    const auto each_address = [&](auto&& take) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn)
        take(turn, from + n * x_bits / 8 + (count_at(turn) > 0 ? turn * x_step : 0));
    };
    if constexpr (fetches_rows(kConfig)) each_address([](int, const char* address) { fetch_ahead(address); });
    if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
    if constexpr (kAsks) each_address([&](int turn, const char* address) { words[turn].load(address); });
    const auto make = [&](int turn, int there, Piece& p) {
      if constexpr (kAsks) {
        PieceWords<kConfig.x> found = words[turn];
        if constexpr (kAsLies) found.renew();
        if constexpr (!kConfig.full) found.clear_unless(there > 0);
        found.widen(p);
      } else {
        load_piece<kConfig.x>(from + turn * x_step, x.dtype, n, there, p);
      }
      smooth_columns<kConfig>(given, n, there, p);
      turn_piece(p);
    };

    // body(turn, count, piece): made before it, or of those that stay in registers only if `make_always`.
    Piece kept[kKeeps ? kTurns : 1];
    const auto each = [&](auto make_always, auto&& body) {
      if constexpr (kKeeps) {
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
          if constexpr (make_always.value) make(turn, count_at(turn), kept[turn]);
          body(turn, count_at(turn), kept[turn]);
        }
      } else {
        [[maybe_unused]] constexpr int kUnrolled = kAsLies ? kTurns : 1;
#pragma unroll kUnrolled
        for (int turn = 0; turn < kTurns; ++turn) {
          make(turn, count_at(turn), kept[0]);
          body(turn, count_at(turn), kept[0]);
        }
      }
    };
    float most[1] = {0};
    each(Flag<true>{},
         [&](int, int, const Piece& p) { for_elements([&](int i) { most[0] = larger_magnitude(most[0], p.v[i]); }); });
    reduce_threads<kRowBlockThreads>(most, [](float a, float b) { return at_least(a, b); });
    const RowArgs& args = anew(given);
    const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
    const FoundScales<kConfig.quant> scales(args.scale, out);
    const Divisor by = scales(block.scale_at, most[0], threadIdx.x == 0);
    char* const to = row_start<kConfig.out>(args.out, at);
    const long long step = kBlockDown * args.out.stride[2] * dtype_bits(out) / 8;
    const long long first_row = row_number(args, at);
    each(Flag<false>{}, [&](int turn, int there, Piece& p) {
      if (there == 0) return;
      if constexpr (kAtOnce) return encode_quotients<kConfig.out, kConfig.whole>(to + turn * step, n, there, p, by);
      divide<true>(p, by);
      round(out, first_row + turn * kBlockDown, n, p);
      encode_piece<kConfig.out, kConfig.whole>(to + turn * step, out, n, there, p);
    });
    which += anew(given).grid;
  } while (kWalks && which < row_blocks(anew(given)));
}

}  // namespace tilewright
