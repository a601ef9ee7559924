// SPDX-License-Identifier: MIT
// The verdict on a kernel's output, element by element, against values with a bound each (core/tensor/tolerance.hpp).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "dispatch/problem_instance.hpp"

namespace tilewright {

// What a reference says of one output element.
struct ReferenceElement {
  double value = 0;
  double allowed = 0;  // |kernel output - value| must not exceed it
};

class Comparison {
 public:
  // `dtype` of the output.
  Comparison(DType dtype, VerifyReport& report) : dtype_(dtype), report_(report) {}
  // `index` names the element in the message of the first failure.
  void add(double got, const ReferenceElement& want, std::initializer_list<int64_t> index);
  // Fills rel_error and passed.
  void finish();

 private:
  DType dtype_;
  VerifyReport& report_;
  double error_squares_ = 0, reference_squares_ = 0;
};

}  // namespace tilewright
