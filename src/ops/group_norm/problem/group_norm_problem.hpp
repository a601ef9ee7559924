// SPDX-License-Identifier: MIT
// GroupNormProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor/strided.hpp"
#include "dispatch/operator.hpp"
#include "group_norm/group_norm_args.hpp"
#include "tilewright/group_norm.hpp"

namespace tilewright {

// In elements, 0 where there is one only: from an image to the next, and from a line to the next (group_norm_args.hpp).
struct GroupNormStrides {
  int64_t image = 0, line = 0;
  bool operator==(const GroupNormStrides&) const = default;
};

struct GroupNormProblem {
  int64_t images = 0, channels = 0, positions = 0, groups = 0;
  GroupNormStrides x, out, dy;                                             // of the gradient: out is dx
  DType dtype = DType::kNone, weight = DType::kNone, bias = DType::kNone;  // kNone = absent, as of the next
  DType dweight = DType::kNone, dbias = DType::kNone;
  Activation activation = Activation::kNone;
  uint8_t channels_last = 0;
  uint8_t backward = 0;
  uint8_t in_place = 0;      // 1: out is x; 2: it is dy
  uint8_t unaligned = 0;     // GPU: some pointer is no multiple of 16 bytes
  uint8_t reserved[6] = {};  // no padding: problems are compared as bytes

  int64_t elements() const { return images * channels * positions; }
  bool has_column_gradients() const { return dweight != DType::kNone || dbias != DType::kNone; }
  // Nothing is written. Sums over no elements are.
  bool empty() const { return has_column_gradients() ? channels == 0 : elements() == 0; }
  const char* op() const { return backward != 0 ? "group_norm_backward" : "group_norm"; }
  std::array<Extent, 3> extents(const GroupNormStrides& s) const {
    if (channels_last != 0) return {{{images, s.image}, {positions, s.line}, {channels, 1}}};
    return {{{images, s.image}, {channels, s.line}, {positions, 1}}};
  }
};

// Where a call's addresses and numbers stand in CallBindings.
enum GroupNormPointerSlot : uint16_t {
  kGroupNormX,
  kGroupNormOut,
  kGroupNormWeight,
  kGroupNormBias,
  kGroupNormDy,
  kGroupNormWeightGradient,
  kGroupNormBiasGradient,
  kGroupNormPointerSlots
};
enum GroupNormScalarSlot : uint16_t { kGroupNormEps, kGroupNormScalarSlots };
struct GroupNormBindings {
  std::array<const void*, kGroupNormPointerSlots> pointers{};
  std::array<float, kGroupNormScalarSlots> scalars{};
};

// A call of either: of the gradient, out is dx.
struct GroupNormTensors {
  TensorView x, out, weight, bias, dy{}, dweight{}, dbias{};
  int64_t groups = 0;
  float eps = 0;
  Activation activation = Activation::kNone;
  bool backward = false;
};
// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_group_norm_problem(const GroupNormTensors& call, bool check_addresses, GroupNormProblem& problem,
                               GroupNormBindings& bindings);
// The part that needs no call: problems from text pass through it too.
Status validate_group_norm_problem(const GroupNormProblem& problem);

// "n=2:c=320:s=4096:g=32:x=bf16:weight=bf16:bias=bf16"; docs/group_norm.md.
std::string print_group_norm_problem(const GroupNormProblem& problem);
Result<GroupNormProblem> parse_group_norm_problem(std::string_view text, bool backward);
// Lines one behind another, and images.
void set_contiguous(GroupNormProblem& problem);

// Bytes that must move: images once in and once out.
double group_norm_bytes(const GroupNormProblem& problem);

}  // namespace tilewright
