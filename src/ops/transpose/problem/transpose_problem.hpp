// SPDX-License-Identifier: MIT
// TransposeProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor/strided.hpp"
#include "dispatch/operator.hpp"
#include "tilewright/transpose.hpp"
#include "transpose/transpose_args.hpp"

namespace tilewright {

// Strides of the dimensions before the last: those of a batch, then of rows. 0 where there is one only.
using TransposeStrides = std::array<int64_t, kTransposeBatch + 1>;

struct TransposeProblem {
  std::array<int64_t, kTransposeBatch> batch{1, 1, 1};
  int64_t m = 0, n = 0;
  TransposeStrides x{}, out{};
  DType dtype = DType::kNone;
  uint8_t unaligned = 0;     // GPU: some pointer is no multiple of 16 bytes
  uint8_t reserved[6] = {};  // no padding: problems are compared as bytes

  int64_t batches() const { return batch[0] * batch[1] * batch[2]; }
  bool empty() const { return batches() == 0 || m == 0 || n == 0; }
  std::array<Extent, 5> extents(bool of_out) const {
    const TransposeStrides& s = of_out ? out : x;
    return {{{batch[0], s[0]}, {batch[1], s[1]}, {batch[2], s[2]}, {of_out ? n : m, s[3]}, {of_out ? m : n, 1}}};
  }
};

// Where a call's addresses stand in CallBindings.
enum TransposePointerSlot : uint16_t { kTransposeX, kTransposeOut, kTransposePointerSlots };
using TransposePointers = std::array<const void*, kTransposePointerSlots>;

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_transpose_problem(const TransposeCall& call, bool check_addresses, TransposeProblem& problem,
                              TransposePointers& pointers);
// The part that needs no call: problems from text pass through it too.
Status validate_transpose_problem(const TransposeProblem& problem);

// "b=2x3:m=4096:n=1024:x=bf16"; docs/transpose.md.
std::string print_transpose_problem(const TransposeProblem& problem);
Result<TransposeProblem> parse_transpose_problem(std::string_view text);
// Rows one behind another, and matrices.
void set_contiguous(TransposeProblem& problem);

// Bytes that must move: everything once in and once out.
double transpose_bytes(const TransposeProblem& problem);

}  // namespace tilewright
