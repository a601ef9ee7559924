// SPDX-License-Identifier: MIT
// Seeded data of every dtype, the same on every machine, and seeded samples of indices.
#pragma once

#include <cstdint>
#include <vector>

#include "dispatch/problem_instance.hpp"

namespace tilewright {

// Fills `count` elements: N(0, scale) or small integers (InputData). Pairs of 4-bit elements are drawn together; scales of
// e8m0 are powers of two about 1.
void fill_random(DType dtype, void* out, int64_t count, InputData data, uint64_t seed, double scale = 1);

// What those elements are drawn from: 2^16 of them, or pairs, as they lie in memory.
std::vector<uint8_t> random_values(DType dtype, InputData data, uint64_t seed, double scale);

// Every index of [0, size) when there are at most `limit`; else both ends and a seeded sample, `limit` in all, in order.
std::vector<int64_t> sample_indices(int64_t size, int64_t limit, uint64_t seed);

}  // namespace tilewright
