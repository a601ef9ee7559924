// SPDX-License-Identifier: MIT
// ApplyPenaltiesProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "apply_penalties/apply_penalties_args.hpp"
#include "dispatch/operator.hpp"
#include "tilewright/apply_penalties.hpp"

namespace tilewright {

// Of the prompt, or of the output.
struct SeenProblem {
  int64_t tokens = 0, stride_row = 0, stride = 0;  // tokens a row; none: there are no numbers
  int64_t stride_counts = 0;
  uint8_t counts = 0;
  uint8_t reserved[7] = {};
};

struct ApplyPenaltiesProblem {
  int64_t rows = 0, n = 0;
  int64_t stride = 0, stride_out = 0;  // of rows
  std::array<SeenProblem, 2> seen;     // prompt, output
  DType x = DType::kNone;
  uint8_t in_place = 0;
  uint8_t repetition = 0, presence = 0, frequency = 0;
  uint8_t reserved[3] = {};  // no padding: problems are compared as bytes
};

// Where a call's addresses stand in CallBindings.
enum ApplyPenaltiesPointerSlot : uint16_t {
  kPenaltyLogits,
  kPenaltyOut,
  kPenaltyTokens,                       // prompt, output
  kPenaltyCounts = kPenaltyTokens + 2,  // the same
  kPenaltyRepetition = kPenaltyCounts + 2,
  kPenaltyPresence,
  kPenaltyFrequency,
  kPenaltyPointerSlots
};
using ApplyPenaltiesPointers = std::array<const void*, kPenaltyPointerSlots>;

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_apply_penalties_problem(const ApplyPenaltiesCall& call, bool check_addresses,
                                    ApplyPenaltiesProblem& problem, ApplyPenaltiesPointers& pointers);
// The part that needs no call: problems from text pass through it too.
Status validate_apply_penalties_problem(const ApplyPenaltiesProblem& problem);

// "b=64:v=128256:x=f32:prompt=1000:output=200:repetition=1"; docs/apply_penalties.md.
std::string print_apply_penalties_problem(const ApplyPenaltiesProblem& problem);
Result<ApplyPenaltiesProblem> parse_apply_penalties_problem(std::string_view text);
// Rows one behind another.
void set_contiguous(ApplyPenaltiesProblem& problem);

// Bytes that must move: numbers and counts once; logits once in and out, in place those of as many as there are numbers.
double apply_penalties_bytes(const ApplyPenaltiesProblem& problem);

}  // namespace tilewright
