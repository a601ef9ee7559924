// SPDX-License-Identifier: MIT
// Scales of a tile's rows in gemm_sm90_dequant, where they come whole: rows that follow one another in memory are one copy, whatever a
// row's length is, which no load of several scales and no tensor map need divide.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/sm90/byte_copy.cuh"

namespace tilewright {

// Bytes of memory: whole sixteens, and where in the first of them the rows begin.
struct DequantScaleSpan {
  const unsigned char* from;
  unsigned bytes;
  int offset;
};

template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantScaleRows {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;
  // Of a tile's rows: a separated gate's are gate's, then up's.
  static constexpr int kHalves = kConfig.gate == GateMode::kSeparated ? 2 : 1, kRows = kConfig.rows / kHalves;

  __device__ __forceinline__ explicit GemmSm90DequantScaleRows(const GemmSm90DequantArgs& args)
      : scale_(args.product.scale.b), gemm_(args.product.gemm) {}

  // Where half `half` of the rows of a slot begins, before the span's offset.
  __device__ __forceinline__ static unsigned char* place(const Layout& shared, int slot, int half) {
    return shared.scale_rows(slot) + half * (kRows * kConfig.scale_row + kDequantCopiedBytes);
  }
  // What is read beside the rows is of the same sixteen bytes as they are.
  __device__ __forceinline__ DequantScaleSpan span(const SkinnySegment& s, int half) const {
    const int64 of_half = gemm_.n / kHalves, first = static_cast<int64>(s.tile) * kRows;
    const auto rows = static_cast<int>(of_half - first < kRows ? of_half - first : kRows);
    const auto* const begin = static_cast<const unsigned char*>(scale_.data) + s.batch * scale_.stride_batch +
                              (half * of_half + first) * scale_.stride_outer;
    const auto offset = static_cast<int>(reinterpret_cast<unsigned long long>(begin) % kDequantCopiedBytes);
    const int bytes = offset + (rows - 1) * static_cast<int>(scale_.stride_outer) + groups();
    return {begin - offset,
            static_cast<unsigned>((bytes + kDequantCopiedBytes - 1) / kDequantCopiedBytes) * kDequantCopiedBytes,
            offset};
  }
  // Groups of a row of the weights.
  __device__ __forceinline__ int groups() const {
    constexpr int kGroup = kConfig.group == 0 ? 1 : kConfig.group;
    return static_cast<int>((gemm_.k + kGroup - 1) / kGroup);
  }
  __device__ __forceinline__ int row_bytes() const { return static_cast<int>(scale_.stride_outer); }

 private:
  const GemmBlockScale& scale_;
  const GemmArgs& gemm_;
};

}  // namespace tilewright
