// SPDX-License-Identifier: MIT
// Rows of 16-bit elements as e2m1 with a scale for each 16 or 32, where every thread has whole groups: no lane waits for its neighbours,
// the largest magnitude comes from pairs as they lie, and so do the signs. NVIDIA's.
#pragma once

#include "tile/gpu/row_input.cuh"
#include "tile/gpu/row_scales.cuh"
#include "tile/portable/pair_math.cuh"

namespace tilewright {

// A group's elements as they lie.
template <DType kType, int kPieces>
struct GroupWords {
  PieceWords<kType> pieces[kPieces];

  __device__ __forceinline__ void load(const char* from) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) pieces[i].load(from + i * kRowPiece * 2);
  }
  // NaN if one is.
  __device__ __forceinline__ float largest_magnitude() const {
    unsigned both = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const Vector4<unsigned>& w = pieces[i].words[0];
      const unsigned first = larger_magnitudes<kType>(w.x, w.y), second = larger_magnitudes<kType>(w.z, w.w);
      const unsigned found = larger_magnitudes<kType>(first, second);
      both = i == 0 ? found : larger_magnitudes<kType>(both, found);
    }
    const unsigned most = larger_magnitudes<kType>(both, both >> 16 | both << 16);
    return widen_16(kType == DType::kBf16, most & 0x7FFFu);
  }
};

// Codes of eight elements over a scale that is near one: `twice` divides by it doubled. kPower: it is a power of two, so that a product is exact.
template <bool kPower, DType kType>
__device__ __forceinline__ unsigned codes_of_words(const PieceWords<kType>& words, const Divisor& twice) {
  Piece p;
  words.widen(p);
  unsigned codes = 0;
#pragma unroll
  for (int i = kRowPiece - 1; i >= 0; --i) {
    const float half = kPower ? __fmul_rn(p.v[i], twice.reciprocal) : corrected_quotient(p.v[i], twice);
    codes = codes * 16 + nibble_code(half);
  }
  codes -= kUnitsPlaceBits * 0x11111111u;

  // A word's upper bytes have its elements' signs.
  const Vector4<unsigned>& w = words.words[0];
  const unsigned first = odd_bytes(w.x, w.y), second = odd_bytes(w.z, w.w);
  const unsigned even = even_bytes(first, second), odd = odd_bytes(first, second);
  return codes | (even >> 4 & 0x08080808u) | (odd & 0x80808080u);
}
template <bool kPower, DType kType, int kPieces>
__device__ __forceinline__ void store_group(unsigned* to, const GroupWords<kType, kPieces>& words,
                                            const Divisor& twice) {
#pragma unroll
  for (int i = 0; i < kPieces; i += 2) {
    store_vector2(to + i, codes_of_words<kPower>(words.pieces[i], twice),
                  codes_of_words<kPower>(words.pieces[i + 1], twice));
  }
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void quantize_thread_groups(const RowArgs& args) {
  constexpr int kPieces = kConfig.group / kRowPiece, kGroups = kConfig.pieces / kPieces;
  for_rows<kConfig>(args, [&](const GpuRow<kConfig>& row) {
    // All of a thread's groups are asked for before the first is waited for, and before the tensor's scale.
    const auto first_of = [&](int g) { return (g * kConfig.threads + row.thread) * kConfig.group; };
    if (GpuRow<kConfig>::kRows > 1 && !row.there) return;
    const RowIndex at{{0, 0, row.index}};
    const char* const x = row_start<kConfig.x>(args.x, at);
    GroupWords<kConfig.x, kPieces> words[kGroups];
    if constexpr (fetches_rows(kConfig)) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) fetch_ahead(x + first_of(g) * 2 + row.no_bytes());
    }
    if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
#pragma unroll
    for (int g = 0; g < kGroups; ++g) words[g].load(x + first_of(g) * 2);

    const FoundScales<kConfig.quant> scales(args.scale, kConfig.out);
    char* const out = row_start<kConfig.out>(args.out, at);
    // Rows of codes begin at multiples of 4 bytes; those that do so between two of 8 go the way of unusual groups.
    const bool aligned = (reinterpret_cast<unsigned long long>(out) & 7) == 0;
    const MultiplesOfScale multiples(scales.tensor, scales.has_levels() && aligned);
    const long long apart = kConfig.threads * args.scale.stride_group;  // scales of a thread
    const long long scale_at = row_offset(args.scale.stride, at) + row.thread * args.scale.stride_group;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const float most = words[g].largest_magnitude();
      const int n = first_of(g);
      const long long scale = scale_at + g * apart;
      auto* const to = reinterpret_cast<unsigned*>(out + n / 2);

      // NVFP4's groups, and MXFP4's.
      if constexpr (kConfig.group == kMultipleGroup) {
        FoundMultiple found;
        if (multiples.find(most, found)) {
          static_cast<unsigned char*>(args.scale.data)[scale] = static_cast<unsigned char>(found.code);
          store_group<false>(to, words[g], doubled(found.by));
          continue;
        }
      }
      const Divisor by = scales(scale, most, true);
      if constexpr (kConfig.group == kPowerGroup) {
        if (args.scale.dtype == DType::kE8M0 && by.near_one && aligned) {
          store_group<true>(to, words[g], doubled(by));
          continue;
        }
      }
      // What few groups are: NaN, infinite, numbers far from one; or scales of another type.
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        Piece p;
        words[g].pieces[i].widen(p);
        encode_quotients<kConfig.out, true>(out, n + i * kRowPiece, kRowPiece, p, by);
      }
    }
  });
}

}  // namespace tilewright
