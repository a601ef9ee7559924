// SPDX-License-Identifier: MIT
// rope_gpu: pairs of a head's elements turned by the angle of its token. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_pairs.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void rope_gpu(const RowArgs& given) {
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& mine) {
    const RowArgs& args = mine.args;
    constexpr DType kType = kConfig.x;
    const RowRotation& r = args.rotation;
    const DType dtype = args.x.dtype;
    if (!mine.there) return;
    const RotatedRow row = rotated_row(args, mine.at);
    const long long half = r.dims / 2;
    const auto each = [&](long long length, auto&& body) {
#pragma unroll 1
      for (long long n = mine.thread * kRowPiece; n < length; n += mine.kStep) {
        body(n, length - n < kRowPiece ? static_cast<int>(length - n) : kRowPiece);
      }
    };
    each(half, [&](long long n, int count) {
      // The pair.
      Piece a, b, angle;
      if (r.interleaved) {
        load_pairs<kType>(row.from, dtype, n, count, a, b);
      } else {
        load_piece<kType>(row.from, dtype, n, count, a);
        load_piece<kType>(row.from, dtype, half + n, anew(count), b);
      }

      // What its sine brings, then what its cosine does: addresses of one table at a time.
      Piece first, second;
      load_piece<DType::kNone>(row.sine, r.table, n, anew(count), angle);
      for_elements([&](int i) {
        const float s = __fmul_rn(angle.v[i], row.sign);
        first.v[i] = -__fmul_rn(b.v[i], s), second.v[i] = __fmul_rn(a.v[i], s);
      });
      load_piece<DType::kNone>(row.cosine, r.table, n, anew(count), angle);
      for_elements([&](int i) {
        const float c = __fmul_rn(angle.v[i], row.known);
        first.v[i] = __fmaf_rn(a.v[i], c, first.v[i]), second.v[i] = __fmaf_rn(b.v[i], c, second.v[i]);
      });
      if (r.interleaved) return store_pairs<kType>(row.to, dtype, n, count, first, second);
      store_piece<kType>(row.to, dtype, n, count, first);
      store_piece<kType>(row.to, dtype, half + n, count, second);
    });

    // What does not turn.
    if (row.from == row.to) return;
    each(args.n - r.dims, [&](long long n, int count) {
      Piece p;
      load_piece<kType>(row.from, dtype, r.dims + n, count, p);
      store_piece<kType>(row.to, dtype, r.dims + n, count, p);
    });
  });
}

}  // namespace tilewright
