// SPDX-License-Identifier: MIT
// TopKProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "dispatch/operator.hpp"
#include "tilewright/top_k.hpp"

namespace tilewright {

struct TopKProblem {
  int64_t rows = 0, n = 0, k = 0;
  int64_t stride = 0, stride_values = 0, stride_indices = 0;  // of rows
  DType x = DType::kNone;
  uint8_t values = 1, lengths = 0;  // 0 = absent
  uint8_t unaligned = 0;            // GPU: x is no multiple of 16 bytes
  uint8_t reserved[4] = {};         // no padding: problems are compared as bytes
};

// Where a call's addresses stand in CallBindings.
enum TopKPointerSlot : uint16_t { kTopKX, kTopKLengths, kTopKValues, kTopKIndices, kTopKPointerSlots };
using TopKPointers = std::array<const void*, kTopKPointerSlots>;

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_top_k_problem(const TopKCall& call, bool check_addresses, TopKProblem& problem, TopKPointers& pointers);
// The part that needs no call: problems from text pass through it too.
Status validate_top_k_problem(const TopKProblem& problem);

// "m=64:n=128256:k=64:x=f32"; docs/top_k.md.
std::string print_top_k_problem(const TopKProblem& problem);
Result<TopKProblem> parse_top_k_problem(std::string_view text);
// Rows one behind another.
void set_contiguous(TopKProblem& problem);

// Bytes that must move: x once, values and indices once.
double top_k_bytes(const TopKProblem& problem);

}  // namespace tilewright
