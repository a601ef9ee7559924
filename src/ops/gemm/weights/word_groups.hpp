// SPDX-License-Identifier: MIT
// Zero points and groups of K beside the codes of AWQ and GPTQ.
#pragma once

#include <vector>

#include "ops/gemm/weights/weight_checks.hpp"
#include "ops/gemm/weights/word_codes.hpp"
#include "tilewright/stored_weights.hpp"

namespace tilewright {

struct WordGroups {
  int64_t n, k;
  int64_t groups;        // 0: no tensor says how many
  double half;           // what b holds the codes less: 0, 8 or 128
  double symmetric;      // the zero point where none is stored: 8 or 128
  double stored_less;    // what stored zero points are less: 1 in gptq
  WordCodes zero_words;  // [G, N] codes along N; null words: none
  TensorView zero_b;     // [G, N]
  TensorView group_index, order;
};

// Checks stored.zeros, stored.group_index, plain.zero_b and plain.order.
Result<WordGroups> describe_groups(const WeightChecks& check, const StoredWeights& stored, const PlainWeights& plain,
                                   int bits, unsigned flip);

// Writes zero_b; without one, refuses zero points that it would need.
Status import_zeros(const WeightChecks& check, const WordGroups& groups);
// Writes stored.zeros; without one, refuses zero points that are not half of the range.
Status export_zeros(const WeightChecks& check, const WordGroups& groups);

// The stored row of each row such that groups lie together; empty where they do. Writes `order`.
Result<std::vector<int32_t>> import_groups(const WeightChecks& check, const WordGroups& groups);
// Writes group_index: k / (K / G).
Status export_groups(const WeightChecks& check, const WordGroups& groups);

}  // namespace tilewright
