// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/pair_math.cuh.
#pragma once

#include <cmath>

#include "tilewright/dtype.hpp"

namespace tilewright {

template <DType kType>
unsigned fma_pairs(unsigned a, unsigned b, unsigned c) {
  unsigned sum = 0;
  for (int half = 0; half < 2; ++half) {
    // In double a product is exact, and a sum nearly.
    store_element(kType, &sum, half,
                  load_element(kType, &a, half) * load_element(kType, &b, half) + load_element(kType, &c, half));
  }
  return sum;
}

template <DType kType>
unsigned larger_pairs(unsigned a, unsigned b) {
  unsigned larger = 0;
  for (int half = 0; half < 2; ++half) {
    store_element(kType, &larger, half, std::fmax(load_element(kType, &a, half), load_element(kType, &b, half)));
  }
  return larger;
}
template <DType kType>
unsigned smaller_pairs(unsigned a, unsigned b) {
  unsigned smaller = 0;
  for (int half = 0; half < 2; ++half) {
    store_element(kType, &smaller, half, std::fmin(load_element(kType, &a, half), load_element(kType, &b, half)));
  }
  return smaller;
}

template <DType kType>
unsigned larger_magnitudes(unsigned a, unsigned b) {
  unsigned larger = 0;
  for (int half = 0; half < 2; ++half) {
    const double x = std::fabs(load_element(kType, &a, half)), y = std::fabs(load_element(kType, &b, half));
    store_element(kType, &larger, half, x > y || x != x ? x : y);
  }
  return larger;
}

template <DType kType>
unsigned at_least_pairs(unsigned a, unsigned b) {
  unsigned holds = 0;
  for (int half = 0; half < 2; ++half) {
    if (load_element(kType, &a, half) >= load_element(kType, &b, half)) holds |= 0xFFFFu << 16 * half;
  }
  return holds;
}

}  // namespace tilewright
