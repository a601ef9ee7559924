// SPDX-License-Identifier: MIT
// Rows that try how their best are found: that rise, that fall, that are alike, that hardly differ, of few values, of NaN and infinities,
// and that have one element far from all others; and their order.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace tilewright::test {

inline constexpr int kOrderedRows = 9;

inline std::vector<float> ordered_row(int kind, int length) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const auto value = [kind, length](int i) {
    const float at = static_cast<float>(i);
    switch (kind) {
      case 0: return at;
      case 1: return -at;
      case 2: return i % 3 == 0 ? 0.0f : -0.0f;
      case 3: return static_cast<float>(i % 7) - 3;
      case 4: return i % 64 == 5 ? at : -kInf;
      case 5: return i % 2 == 0 ? kNaN : i % 10 == 1 ? kInf : -kInf;
      case 6: return i == length / 26 ? 1e30f : at * 1e-44f;
      case 7: return static_cast<float>(i * 7919 % length * 40 / length);
      default: return 1 + static_cast<float>(i * 7919 % length) * 0x1p-23f;
    }
  };
  std::vector<float> row;
  for (int i = 0; i < length; ++i) row.push_back(value(i));
  return row;
}
// Where its elements stand, the best first; NaN stands with minus infinity, and of equal ones the first is before the others.
inline std::vector<int> order_of_row(const std::vector<float>& row) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&row](int i) {
    const float x = row[static_cast<size_t>(i)];
    return std::isnan(x) ? -std::numeric_limits<float>::infinity() : x;
  });
  return order;
}

}  // namespace tilewright::test
