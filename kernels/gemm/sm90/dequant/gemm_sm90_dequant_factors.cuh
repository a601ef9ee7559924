// SPDX-License-Identifier: MIT
// e8m0 scales that weights take along in gemm_sm90_dequant: a thread's codes of a step become factors of its weights, and what its sums
// lack for that is kept beside them.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/sm90/registers/wgmma_registers.cuh"

namespace tilewright {

// As factors of bf16. A sum is kept 2^-(4 + shift) of its value, so that 2^126 times the
// scale, which e2m1 as bf16 wants, stays finite: what the largest code of a row wants, no more.
template <int kParts>
struct DequantShift {
  static constexpr int kLeast = 4;  // leaves f32 more digits than D has, also of its smallest values
  static constexpr unsigned kUnshifted = 128 + kLeast;       // the largest code whose factor is finite without a shift
  static constexpr int kExponent = kE2M1Bf16Shift - kLeast;  // of a factor, beside a code's
  int of[kParts][2] = {};
  bool is_number[kParts][2];  // whole scales: no code of the row is 255

  __device__ __forceinline__ DequantShift() {
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) is_number[i / 2][i % 2] = true;
  }

  __device__ __forceinline__ bool holds(int part, int half, unsigned code) const {
    return code <= kUnshifted + static_cast<unsigned>(of[part][half]);
  }
  // The shift is at most 122, so the exponent is at least 0.
  __device__ __forceinline__ unsigned held_factor(int part, int half, unsigned code) const {
    return code * 0x00800080u + static_cast<unsigned>(kExponent - of[part][half]) * 0x00800080u;
  }
  __device__ __forceinline__ unsigned factor(int part, int half, unsigned code) const {
    return code == 255 ? 0x7FFF7FFFu : held_factor(part, half, code);
  }
  // The exponent of what sums lack.
  __device__ __forceinline__ int whole(int part, int half) const { return of[part][half] + kLeast; }
};

// Rows r and r + 8 of a part times 2^shift, or times what is no number.
template <int kSums>
__device__ __forceinline__ void multiply_rows(float (&sum)[kSums], const int (&shift)[2],
                                              const bool (&is_number)[2] = {true, true}) {
  const float upper = __uint_as_float(is_number[0] ? (127 + shift[0]) << 23 : 0x7FFFFFFF);
  const float lower = __uint_as_float(is_number[1] ? (127 + shift[1]) << 23 : 0x7FFFFFFF);
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum[i] *= i % 4 < 2 ? upper : lower;
}

// Codes of scales that go along, then what they multiply weights by: of a row a thread has one for each of its runs of words, and so many
// groups lie from one to the next.
template <GemmSm90DequantConfig kConfig>
struct GemmSm90DequantFactors {
  using Layout = GemmSm90DequantLayout<kConfig>;
  using Shift = DequantShift<Layout::kParts>;
  using Sums = float[Layout::kParts][kConfig.tokens / 2];
  static constexpr int kParts = Layout::kParts, kRun = gemm_sm90_dequant_run(kConfig),
                       kRunK = kRun * word_values(kConfig.weight), kOfRow = Layout::kFolds ? kDequantWords / kRun : 1,
                       kFar = Layout::kFolds ? 4 * kRunK / kConfig.group : 0, kAll = kParts * 2 * kOfRow;
  static_assert(!Layout::kFolds || kRunK <= kConfig.group);

  unsigned of[kParts][2][kOfRow];

  // The `i`-th of all, row by row.
  __device__ __forceinline__ unsigned& at(int i) { return of[part(i)][half(i)][i % kOfRow]; }
  __device__ __forceinline__ unsigned at(int i) const { return of[part(i)][half(i)][i % kOfRow]; }
  __device__ __forceinline__ static int part(int i) { return i / kOfRow / 2; }
  __device__ __forceinline__ static int half(int i) { return i / kOfRow % 2; }

  // Of codes that the shifts hold. One of 255 makes a factor of any kind: its row's sum will be no number.
  __device__ __forceinline__ void make_held(const Shift& shift) {
#pragma unroll
    for (int i = 0; i < kAll; ++i) at(i) = shift.held_factor(part(i), half(i), at(i));
  }
  __device__ __forceinline__ void make(Shift& shift, Sums& sum) {
    bool held = true;
#pragma unroll
    for (int i = 0; i < kAll; ++i) held &= shift.holds(part(i), half(i), at(i));
    if (__all_sync(0xFFFFFFFF, held)) return make_held(shift);
    raise(shift, sum);
#pragma unroll
    for (int i = 0; i < kAll; ++i) at(i) = shift.factor(part(i), half(i), at(i));
  }
  // Of codes that were loaded one after another.
  __device__ __forceinline__ unsigned last() const {
    if constexpr (!Layout::kFolds) return 0;
    unsigned all = 0;
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i) all |= of[i / 2][i % 2][kOfRow - 1];
    return all;
  }

 private:
  // Where the shifts do not hold a code they become larger, and the sums smaller.
  __device__ __forceinline__ void raise(Shift& shift, Sums& sum) const {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      int down[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int wanted = shift.of[p][h];
#pragma unroll
        for (int i = 0; i < kOfRow; ++i) {
          const auto code = static_cast<int>(of[p][h][i]);
          if (code != 255) wanted = max(wanted, code - static_cast<int>(Shift::kUnshifted));
        }
        // The four threads of a row add to the same sums.
        wanted = max(wanted, __shfl_xor_sync(0xFFFFFFFF, wanted, 1));
        wanted = max(wanted, __shfl_xor_sync(0xFFFFFFFF, wanted, 2));
        down[h] = shift.of[p][h] - wanted;
        shift.of[p][h] = wanted;
      }
      multiply_rows(sum[p], down);
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
  }
};

}  // namespace tilewright
