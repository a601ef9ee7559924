// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/math.cuh: better than the instructions, which only a GPU can show.
#pragma once

#include <cmath>

namespace tilewright {

inline float exp2_approx(float x) { return std::exp2(x); }
inline float log2_approx(float x) { return std::log2(x); }
inline float reciprocal_approx(float x) { return 1.0f / x; }
inline float at_least(float x, float lower) { return x < lower || lower != lower ? lower : x; }
inline float at_most(float x, float upper) { return x > upper || upper != upper ? upper : x; }
inline float number_between(float x, float lower, float upper) { return std::fmin(std::fmax(x, lower), upper); }
inline float saturated_sum(float x, float y) { return x + y > 0 ? std::fmin(x + y, 1.0f) : 0; }
inline float square_root(float x) { return std::sqrt(x); }
inline float inverse_root(float x) { return 1 / std::sqrt(x); }
inline float reciprocal_near_one(float x) { return 1 / x; }

}  // namespace tilewright
