// SPDX-License-Identifier: MIT
// apply_penalties_cpu: a chunk of a row at a time is counted, then its logits that were seen change. Typed by its config, or at run time.
#pragma once

#include "apply_penalties/apply_penalties_args.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Of the tokens from `start` on. add(token from there, how often).
template <class Add>
TILEWRIGHT_INLINE void count_seen(const SeenTokens& s, long long row, long long start, int length, Add&& add) {
  if (s.counts != nullptr) {
    const int* const counts = s.counts + row * s.stride_counts + start;
    for (int i = 0; i < length; ++i) {
      if (counts[i] > 0) add(i, counts[i]);
    }
  }
  if (s.tokens == nullptr) return;
  const int* const tokens = s.tokens + row * s.stride_row;
  for (long long i = 0; i < s.count; ++i) {
    const long long at = tokens[i * s.stride] - start;
    if (at >= 0 && at < length) add(static_cast<int>(at), 1);
  }
}

template <ApplyPenaltiesConfig kConfig>
void apply_penalties_cpu(const ApplyPenaltiesArgs& args, unsigned unit, unsigned units) {
  const DType type = kConfig.x == DType::kNone ? args.dtype : kConfig.x;
  const int bytes = dtype_bits(type) / 8;
  unsigned seen[kPenaltyChunk];
  const long long items = args.rows * args.chunks;
  const long long last = share_edge(items, unit + 1, units);
  for (long long item = share_edge(items, unit, units); item < last; ++item) {
    const long long row = item / args.chunks, start = item % args.chunks * kPenaltyChunk, left = args.n - start;
    const int length = left < kPenaltyChunk ? static_cast<int>(left) : kPenaltyChunk;
    __builtin_memset(seen, 0, sizeof(seen));
    count_seen(args.prompt, row, start, length, [&](int at, int) { seen[at] = kInPrompt; });
    count_seen(args.output, row, start, length, [&](int at, int often) { seen[at] += static_cast<unsigned>(often); });

    const RowPenalties penalties = row_penalties(args, row);
    const char* const from = static_cast<const char*>(args.logits) + (row * args.stride + start) * bytes;
    char* const to = static_cast<char*>(args.out) + (row * args.stride_out + start) * bytes;
    for_pieces(length, [&](auto piece) __attribute__((always_inline)) {
      unsigned any = 0;
      for (int i = 0; i < piece.count; ++i) any |= seen[piece.n + i];
      if (any == 0 && from == to) return;
      F32x16 x = load_piece<kConfig.x>(from, type, piece);
      if (any != 0) {
        float lane[kVec];
        x.store(lane);
        for (int i = 0; i < piece.count; ++i) lane[i] = penalised(lane[i], seen[piece.n + i], penalties);
        x = F32x16::load(lane);
      }
      store_piece<kConfig.x>(to, type, piece, x);
    });
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
