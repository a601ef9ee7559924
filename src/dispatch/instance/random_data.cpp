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

// What is drawn at a time: an element, or a pair of 4-bit ones.
int64_t unit_bytes(DType dtype) { return std::max(dtype_bits(dtype) / 8, 1); }

}  // namespace

// Drawing from a table costs one hash for four elements.
std::vector<uint8_t> random_values(DType dtype, InputData data, uint64_t seed, double scale) {
  const int64_t pair = dtype_bits(dtype) < 8 ? 2 : 1;
  const int64_t bytes = unit_bytes(dtype);
  std::vector<uint8_t> table(static_cast<size_t>(bytes) << kTableBits);
  for (int64_t i = 0; i < pair << kTableBits; ++i) {
    const uint64_t bits = instance_data_bits(seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(i));
    const double u = (static_cast<double>(bits >> 40) + 0.5) * 0x1p-24;
    const double v = static_cast<double>(bits & 0xFFFFFF) * 0x1p-24;
    double value = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v) * scale;  // Box-Muller
    if (data == InputData::kIntegers) value = static_cast<double>(static_cast<int64_t>(bits % 7) - 3);
    if (dtype == DType::kI8 && data != InputData::kIntegers) {
      value = static_cast<double>(static_cast<int64_t>(bits % 256) - 128);
    }
    // All that four bits hold.
    if (dtype == DType::kI4 && data != InputData::kIntegers) value = static_cast<double>(bits % 16) - 8;
    if (dtype == DType::kU4 && data != InputData::kIntegers) value = static_cast<double>(bits % 16);
    // Powers of two about 1.
    if (dtype == DType::kE8M0) value = std::exp2(std::clamp(std::round(2 * value), -12.0, 12.0));
    store_element(dtype, table.data(), i, data == InputData::kPositive ? std::fabs(value) : value);
  }
  return table;
}

void fill_random(DType dtype, void* out, int64_t count, InputData data, uint64_t seed, double scale) {
  const std::vector<uint8_t> table = random_values(dtype, data, seed, scale);
  const auto bytes = static_cast<size_t>(unit_bytes(dtype));
  if (dtype_bits(dtype) < 8) count = (count + 1) / 2;
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
