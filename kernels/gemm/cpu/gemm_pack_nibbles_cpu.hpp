// SPDX-License-Identifier: MIT
// Packs weights of 4 bits into the panels of gemm_packed_layout.hpp, from any strides. What is missing at the ends of K and N
// becomes zero.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/gemm_packed_layout.hpp"
#include "tile/cpu/transpose.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE unsigned nibble_at(const unsigned char* data, int64 index) {
  return data[index >> 1] >> (index & 1) * 4 & 15u;
}

// Lines of 128 of K, `count` of which there are, of `columns` columns; `first` is the index of their first element.
inline void pack_nibble_lines(const unsigned char* b, int64 first, int64 stride_k, int64 stride_n, int columns,
                              int64 count, char* out) {
  constexpr int kBytes = 64;  // of a column
  const bool whole = stride_k == 1 && first % 2 == 0 && stride_n % 2 == 0;
  I32x16 lines[16];
  for (int c = 0; c < 16; ++c) {
    lines[c] = I32x16::splat(0);
    if (c >= columns) continue;
    const int64 at = first + c * stride_n;
    if (whole && count >= 2 * kBytes) {
      lines[c] = I32x16::load(b + at / 2);
      continue;
    }
    alignas(64) unsigned char bytes[kBytes] = {};
    for (int64 i = 0; i < blocking::smaller(count, 2 * kBytes); ++i) {
      bytes[i / 2] = static_cast<unsigned char>(bytes[i / 2] | nibble_at(b, at + i * stride_k) << i % 2 * 4);
    }
    lines[c] = I32x16::load(bytes);
  }
  transpose_16x16(lines);
  for (int i = 0; i < 16; ++i) lines[i].store(out + i * kBytes);
}

// Unit `unit` of `units` packs its share of the panels of all batch entries.
inline void pack_nibbles(const GemmPackArgs& args, unsigned unit, unsigned units) {
  const PackedLayout layout = packed_layout(args.dtype, args.n, args.k);
  const int64 panels = packed_panels(args.n), all = panels * args.batch;
  const int64 end = blocking::share_begin(all, units, unit + 1ll);
  for (int64 i = blocking::share_begin(all, units, unit); i < end; ++i) {
    const int64 batch = i / panels, n = i % panels * kPanelColumns;
    char* const panel =
        static_cast<char*>(args.packed) + batch * args.packed_batch_bytes + i % panels * layout.panel_bytes;
    const int columns = static_cast<int>(blocking::smaller(args.n - n, kPanelColumns));
    for (int64 line = 0; line < layout.lines; line += kPanelLineGroup) {
      const int64 k = line * layout.kp;
      pack_nibble_lines(static_cast<const unsigned char*>(args.b),
                        batch * args.stride_b_batch + k * args.stride_b_k + n * args.stride_b_n, args.stride_b_k,
                        args.stride_b_n, columns, args.k - k, panel + line * layout.line_bytes);
    }
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
