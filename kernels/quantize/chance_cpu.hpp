// SPDX-License-Identifier: MIT
// Quotients rounded by chance (tile/common/chance.hpp).
#pragma once

#include "tile/common/chance.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Draws for 128 elements at a time: the 16 bits of each, one after another (philox.hpp's rounds, a draw in each lane of 64 bits).
inline constexpr int kDrawn = 128, kDraws = kDrawn / kChancePiece;
using DrawLanes = unsigned long long __attribute__((vector_size(64)));
// Of the lower words.
TILEWRIGHT_INLINE DrawLanes multiply_words(DrawLanes a, unsigned by) {
#if TILEWRIGHT_AVX512
  return (DrawLanes)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, _mm512_set1_epi64(by));
#elif TILEWRIGHT_AVX2
  __m256i part[2];
  __builtin_memcpy(part, &a, sizeof(a));
  unroll<2>([&](auto i)
                __attribute__((always_inline)) { part[i] = _mm256_mul_epu32(part[i], _mm256_set1_epi64x(by)); });
  __builtin_memcpy(&a, part, sizeof(a));
  return a;
#else
  __m128i part[4];
  __builtin_memcpy(part, &a, sizeof(a));
  unroll<4>([&](auto i) __attribute__((always_inline)) { part[i] = _mm_mul_epu32(part[i], _mm_set1_epi64x(by)); });
  __builtin_memcpy(&a, part, sizeof(a));
  return a;
#endif
}

inline __attribute__((noinline)) void draw_chances(const int* random_state, int state_words, long long first,
                                                   unsigned short* bits) {
  const unsigned long long seed = number_of_words(random_state, state_words, 0);
  const unsigned long long offset = number_of_words(random_state, state_words, 1);
  for (int draw = 0; draw < kDraws; draw += 8) {
    const DrawLanes turn = DrawLanes{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<unsigned long long>(first + draw);
    DrawLanes c0 = turn, c1 = turn >> 32, c2 = DrawLanes{} + offset, c3 = c2 >> 32;
    auto k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const DrawLanes a = multiply_words(c0, 0xD2511F53u), b = multiply_words(c2, 0xCD9E8D57u);
      c0 = (b >> 32) ^ c1 ^ k0, c2 = (a >> 32) ^ c3 ^ k1;
      c1 = b, c3 = a;
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const DrawLanes low = (c0 & 0xFFFFFFFFull) | c1 << 32, high = (c2 & 0xFFFFFFFFull) | c3 << 32;
    for (int i = 0; i < 8; ++i) {
      const unsigned long long both[2] = {low[i], high[i]};
      __builtin_memcpy(bits + (draw + i) * kChancePiece, both, sizeof(both));
    }
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
      draw_chances(random_state_, state_words_, first_ + drawn_ * kDraws, bits_);
    }
    const unsigned short* const bits = bits_ + n % kDrawn;
    for (int i = 0; i < kVec; ++i) lanes[i] = round_by_chance(lanes[i], grid_, bits[i]);
  }
  const int* random_state_;
  int state_words_;
  long long first_, drawn_ = -1;
  ChanceGrid grid_;
  alignas(64) unsigned short bits_[kDrawn];
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
