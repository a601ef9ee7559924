// SPDX-License-Identifier: MIT
// SampleProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "dispatch/operator.hpp"
#include "tilewright/sample.hpp"

namespace tilewright {

struct SampleProblem {
  int64_t rows = 0, vocabulary = 0, stride = 0;
  DType x = DType::kNone;
  SampleJoint joint = SampleJoint::kOriginalMass;
  uint8_t seed_words = 2, offset_words = 0, id_words = 1;  // 0 = absent
  uint8_t greedy = 0, temperature = 0, top_k = 0, top_p = 0, min_p = 0;
  uint8_t log_probabilities = 0;
  uint8_t unaligned = 0;     // GPU: logits are no multiple of 16 bytes
  uint8_t reserved[4] = {};  // no padding: problems are compared as bytes

  bool cuts() const { return top_k != 0 || top_p != 0 || min_p != 0; }
};

// Where a call's addresses stand in CallBindings.
enum SamplePointerSlot : uint16_t {
  kSampleLogits,
  kSampleTemperature,
  kSampleTopK,
  kSampleTopP,
  kSampleMinP,
  kSampleSeeds,
  kSampleOffsets,
  kSampleIds,
  kSampleLogProbabilities,
  kSamplePointerSlots
};
using SamplePointers = std::array<const void*, kSamplePointerSlots>;

// One tensor of a call with a number or two for each row, and where the problem says that it is there.
struct SampleRowTensor {
  const char* name;
  SamplePointerSlot slot;
  TensorView SampleCall::* view;
  uint8_t SampleProblem::* words;
  DType dtype;
  bool wide;  // may have two words
  bool written;
};
const std::array<SampleRowTensor, 8>& sample_row_tensors();

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_sample_problem(const SampleCall& call, bool check_addresses, SampleProblem& problem,
                           SamplePointers& pointers);
// The part that needs no call: problems from text pass through it too.
Status validate_sample_problem(const SampleProblem& problem);

// "b=128:v=128256:x=f32:temperature=1:top_p=1"; docs/sample.md.
std::string print_sample_problem(const SampleProblem& problem);
Result<SampleProblem> parse_sample_problem(std::string_view text);
// Rows one behind another.
void set_contiguous(SampleProblem& problem);

// Bytes that must move: logits once, a few numbers a row.
double sample_bytes(const SampleProblem& problem);

}  // namespace tilewright
