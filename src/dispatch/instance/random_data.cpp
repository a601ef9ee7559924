// SPDX-License-Identifier: MIT
#include "dispatch/instance/random_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tile/common/instance_data_args.hpp"

namespace tilewright {
namespace {

constexpr int kTableBits = 16;  // of the table that random data is drawn from

}  // namespace

// Drawing from a table costs one hash for four elements.
std::vector<uint8_t> random_values(DType dtype, InputData data, uint64_t seed, double scale) {
  const int64_t bytes = dtype_bits(dtype) / 8;
  std::vector<uint8_t> table(static_cast<size_t>(bytes) << kTableBits);
  for (int64_t i = 0; i < int64_t{1} << kTableBits; ++i) {
    const uint64_t bits = instance_data_bits(seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(i));
    const double u = (static_cast<double>(bits >> 40) + 0.5) * 0x1p-24;
    const double v = static_cast<double>(bits & 0xFFFFFF) * 0x1p-24;
    double value = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v) * scale;  // Box-Muller
    if (data == InputData::kIntegers) value = static_cast<double>(static_cast<int64_t>(bits % 7) - 3);
    if (dtype == DType::kI8 && data != InputData::kIntegers) {
      value = static_cast<double>(static_cast<int64_t>(bits % 256) - 128);
    }
    store_element(dtype, table.data(), i, data == InputData::kPositive ? std::fabs(value) : value);
  }
  return table;
}

void fill_random(DType dtype, void* out, int64_t count, InputData data, uint64_t seed, double scale) {
  const std::vector<uint8_t> table = random_values(dtype, data, seed, scale);
  const size_t bytes = static_cast<size_t>(dtype_bits(dtype) / 8);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < count; i += 4) {
    uint64_t bits = instance_data_draw(seed, i);
    for (int64_t j = i; j < std::min(count, i + 4); ++j, bits >>= kTableBits) {
      std::memcpy(to + static_cast<size_t>(j) * bytes, table.data() + (bits & 0xFFFF) * bytes, bytes);
    }
  }
}

std::vector<int64_t> sample_indices(int64_t size, int64_t limit, uint64_t seed) {
  std::vector<int64_t> all;
  if (size <= limit) {
    for (int64_t i = 0; i < size; ++i) all.push_back(i);
    return all;
  }
  std::set<int64_t> chosen;
  const int64_t ends = std::min<int64_t>(limit / 3 + 1, 24);
  for (int64_t i = 0; i < ends; ++i) chosen.insert({i, size - 1 - i});
  while (static_cast<int64_t>(chosen.size()) < limit) {
    chosen.insert(
        static_cast<int64_t>(instance_data_bits(seed += 0x9E3779B97F4A7C15ull) % static_cast<uint64_t>(size)));
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace tilewright
