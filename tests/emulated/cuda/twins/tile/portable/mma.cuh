// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/mma.cuh: what the instructions are defined to do, lane by lane.
#pragma once

#include <cstring>
#include <type_traits>

#include "emulated/cuda/host_block.hpp"
#include "tile/common/dtype.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright {

inline void load_matrices_as(unsigned (&r)[4], unsigned address, bool transposed) {
  const auto lane = static_cast<size_t>(emulated::lane());
  emulated::warp_rows()[lane][0] = address;
  emulated::meet_warp([transposed](emulated::WarpRows& rows) {
    // Row `row` of matrix `matrix`, of eight 16-bit elements.
    const auto element = [&rows](size_t matrix, size_t row, size_t column) {
      unsigned short value = 0;
      const std::byte* data = emulated::shared_at(rows[matrix * 8 + row][0], 16);
      if (data != nullptr) std::memcpy(&value, data + column * 2, 2);
      return unsigned{value};
    };
    for (size_t l = 0; l < 32; ++l) {
      const size_t g = l / 4, t = l % 4 * 2;
      for (size_t i = 0; i < 4; ++i) {
        rows[l][1 + i] =
            transposed ? element(i, t, g) | element(i, t + 1, g) << 16 : element(i, g, t) | element(i, g, t + 1) << 16;
      }
    }
    // Eight rows of a matrix come from eight different groups of banks.
    for (size_t i = 0; i < 4; ++i) {
      unsigned groups = 0;
      for (size_t row = 0; row < 8; ++row) groups |= 1u << (rows[i * 8 + row][0] / 16 % 8);
      if (groups != 0xFF) emulated::fail("ldmatrix meets a bank twice");
    }
  });
  for (size_t i = 0; i < 4; ++i) r[i] = emulated::warp_rows()[lane][1 + i];
}
inline void load_matrices(unsigned (&r)[4], unsigned address) { load_matrices_as(r, address, false); }
inline void load_matrices_transposed(unsigned (&r)[4], unsigned address) { load_matrices_as(r, address, true); }

inline unsigned round_tf32(unsigned bits) { return (bits + 0x1000u) & ~0x1FFFu; }

template <DType kType>
struct Mma {
  using Accumulator = std::conditional_t<kType == DType::kI8, int, float>;
  static constexpr size_t kPerWord = kType == DType::kF32 ? 1 : kType == DType::kBf16 || kType == DType::kF16 ? 2 : 4;
  static constexpr size_t kDepth = 8 * kPerWord;

  static Accumulator element(unsigned word, size_t i) {
    const unsigned bits = word >> (32 / kPerWord * i);
    if constexpr (kType == DType::kF32) return __builtin_bit_cast(float, bits);
    if constexpr (kType == DType::kBf16) return widen(bf16{static_cast<unsigned short>(bits)});
    if constexpr (kType == DType::kF16) return widen(f16{static_cast<unsigned short>(bits)});
    if constexpr (kType == DType::kF8E4M3) return widen(e4m3{static_cast<unsigned char>(bits)});
    if constexpr (kType == DType::kF8E5M2) return widen(e5m2{static_cast<unsigned char>(bits)});
    if constexpr (kType == DType::kI8) return static_cast<signed char>(bits);
  }

  // A row of the exchange: four words of A, two of B, four accumulators.
  static void run(Accumulator (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const auto lane = static_cast<size_t>(emulated::lane());
    auto& mine = emulated::warp_rows()[lane];
    std::memcpy(mine.data(), a, sizeof(a));
    mine[4] = b0, mine[5] = b1;
    std::memcpy(mine.data() + 6, c, sizeof(c));
    emulated::meet_warp(multiply);
    std::memcpy(c, emulated::warp_rows()[lane].data() + 6, sizeof(c));
  }

  static void multiply(emulated::WarpRows& rows) {
    Accumulator a[16][kDepth], b[kDepth][8];
    for (size_t l = 0; l < 32; ++l) {
      const size_t g = l / 4, t = l % 4 * kPerWord;
      for (size_t i = 0; i < kPerWord; ++i) {
        a[g][t + i] = element(rows[l][0], i), a[g + 8][t + i] = element(rows[l][1], i);
        a[g][kDepth / 2 + t + i] = element(rows[l][2], i), a[g + 8][kDepth / 2 + t + i] = element(rows[l][3], i);
        b[t + i][g] = element(rows[l][4], i), b[kDepth / 2 + t + i][g] = element(rows[l][5], i);
      }
    }
    for (size_t l = 0; l < 32; ++l) {
      for (size_t q = 0; q < 4; ++q) {
        const size_t row = l / 4 + q / 2 * 8, column = l % 4 * 2 + q % 2;
        Accumulator sum;
        std::memcpy(&sum, &rows[l][6 + q], sizeof(sum));
        for (size_t k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
        std::memcpy(&rows[l][6 + q], &sum, sizeof(sum));
      }
    }
  }
};

}  // namespace tilewright
