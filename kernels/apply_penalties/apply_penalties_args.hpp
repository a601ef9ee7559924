// SPDX-License-Identifier: MIT
// What host and kernels of apply_penalties share. Freestanding.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/fields.hpp"

namespace tilewright {

// What a row has seen: numbers of tokens [rows, count], those outside the row skipped, and counts [rows, n]; null = absent.
struct SeenTokens {
  const int *tokens, *counts;
  long long stride_row, stride, count;  // of tokens
  long long stride_counts;              // of rows of counts
};

struct ApplyPenaltiesArgs {
  const void* logits;  // [rows, n]
  void* out;           // as logits, maybe the same elements
  long long rows, n, stride, stride_out;
  SeenTokens prompt, output;
  const float *repetition, *presence, *frequency;  // [rows]; null = none
  long long chunks, grid;                          // chunks of a row; GPU: blocks
  DType dtype;
};

// kNone: typed at run time.
struct ApplyPenaltiesConfig {
  static constexpr const char* kTypeName = "ApplyPenaltiesConfig";
  DType x;

  bool operator==(const ApplyPenaltiesConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
  }
};

// A block, or a unit of a CPU, counts for so many tokens at a time.
inline constexpr int kPenaltyChunk = 8192;
inline constexpr int kPenaltyThreads = 256;
inline constexpr int kPenaltyAtOnce = 2;  // pieces of a GPU's thread that do not wait for each other
inline constexpr int kPenaltySharedBytes = kPenaltyChunk * 4;

// What is counted of a token: how often the output has it, and whether the prompt does.
inline constexpr unsigned kInPrompt = 0x80000000u;

struct RowPenalties {
  float repetition, presence, frequency;
};
constexpr RowPenalties row_penalties(const ApplyPenaltiesArgs& a, long long row) {
  const auto of = [row](const float* numbers, float otherwise) {
    return numbers == nullptr ? otherwise : numbers[row];
  };
  return {of(a.repetition, 1), of(a.presence, 0), of(a.frequency, 0)};
}
constexpr float penalised(float x, unsigned seen, const RowPenalties& p) {
  if (seen == 0) return x;
  const float repeated = x > 0 ? x / p.repetition : x * p.repetition;
  const unsigned count = seen & ~kInPrompt;
  if (count == 0) return repeated;
  return repeated - p.frequency * static_cast<float>(count) - p.presence;
}

}  // namespace tilewright
