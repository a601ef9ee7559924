// SPDX-License-Identifier: MIT
// Quotients rounded by chance (tile/common/chance.hpp).
#pragma once

#include "tile/common/chance.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Bits are drawn for 128 elements at a time.
inline constexpr int kChanceTurns = 128 / kChancePiece;
inline __attribute__((noinline)) void draw_chances(const int* random_state, int state_words, long long first,
                                                   unsigned* words) {
  for (int turn = 0; turn < kChanceTurns; ++turn) {
    const PhiloxWords drawn = chances_of(random_state, state_words, first + turn);
    for (int i = 0; i < 4; ++i) words[4 * turn + i] = drawn.word[i];
  }
}

// Those of a row.
class RoundByChance {
 public:
  static constexpr bool kKeeps = false;

  TILEWRIGHT_INLINE RoundByChance(const RowArgs& args, const RowIndex& at)
      : random_state_(args.quantising.random_state),
        state_words_(args.quantising.state_words),
        first_(row_number(args, at) * chance_pieces(args.n)),
        grid_(chance_grid(args.out.dtype)) {}

  TILEWRIGHT_INLINE F32x16 operator()(F32x16 quotients, long long n) {
    alignas(64) float lanes[kVec];
    quotients.store(lanes);
    round(lanes, n);
    return F32x16::load(lanes);
  }

 private:
  __attribute__((noinline)) void round(float* lanes, long long n) {
    if (random_state_ == nullptr) return;
    if (n / kDrawn != drawn_) {
      drawn_ = n / kDrawn;
      draw_chances(random_state_, state_words_, first_ + drawn_ * kChanceTurns, words_);
    }
    const unsigned* const words = words_ + n % kDrawn / 2;
    for (int i = 0; i < kVec; ++i) {
      lanes[i] = round_by_chance(lanes[i], grid_, words[i / 2] >> (16 * (i % 2)) & 0xFFFFu);
    }
  }
  static constexpr int kDrawn = 128;

  const int* random_state_;
  int state_words_;
  long long first_, drawn_ = -1;
  ChanceGrid grid_;
  alignas(64) unsigned words_[kDrawn / 2];
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
