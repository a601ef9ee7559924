// SPDX-License-Identifier: MIT
#include "dispatch/instance/lane_map.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {
namespace {

constexpr int64_t kRows = 70, kColumns = 90;

std::vector<ReferenceElement> reference() {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<ReferenceElement> elements;
  for (int64_t i = 0; i < kRows * kColumns; ++i) elements.push_back({normal(random), 1e-3});
  return elements;
}

// What a kernel puts at (row, column): the value of the place that `from` says, with an error within the bound.
std::string find(const std::function<std::pair<int64_t, int64_t>(int64_t, int64_t)>& from) {
  const std::vector<ReferenceElement> want = reference();
  return find_lane_map(want, kRows, kColumns, [&](int64_t row, int64_t column) {
    const auto [i, j] = from(row, column);
    return want[static_cast<size_t>(i * kColumns + j)].value + ((row + column) % 2 == 0 ? 9e-4 : -9e-4);
  });
}

TEST(LaneMap, ElementsAtOtherPlacesOfATileAreNamed) {
  using testing::HasSubstr;
  EXPECT_EQ(find([](int64_t i, int64_t j) { return std::pair(i, j); }), "");
  // A tile of 16 x 16 transposed.
  EXPECT_THAT(find([](int64_t i, int64_t j) { return i < 16 && j < 16 ? std::pair(j, i) : std::pair(i, j); }),
              HasSubstr("wrong lane map: the elements of the 16 x 16 at [0, 0] are right, 240 of them elsewhere"));
  // Groups of four rows change places within 32, as between the halves of a wave.
  EXPECT_THAT(find([](int64_t i, int64_t j) { return std::pair(i < 64 && j < 32 ? i ^ 16 : i, j); }),
              HasSubstr("wrong lane map: the elements of the 32 x 32 at [0, 0]"));
}

TEST(LaneMap, OtherValuesAreNot) {
  EXPECT_EQ(find([](int64_t, int64_t) { return std::pair<int64_t, int64_t>(3, 5); }), "");
  EXPECT_EQ(find([](int64_t i, int64_t j) { return std::pair((i * 31 + j * 17) % kRows, (j * 7 + i) % kColumns); }),
            "");
  const std::vector<ReferenceElement> same(16 * 16, {1, 1e-3});
  EXPECT_EQ(find_lane_map(same, 16, 16, [](int64_t, int64_t) { return 2.0; }), "");
}

}  // namespace
}  // namespace tilewright
