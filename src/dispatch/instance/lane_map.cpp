// SPDX-License-Identifier: MIT
#include "dispatch/instance/lane_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tilewright {
namespace {

struct Tile {
  std::vector<double> got;
  std::vector<ReferenceElement> want;
  int wrong = 0;
};

// Elements in order of their values match one by one. The bounds must be small beside the range, or this proves nothing.
bool is_permuted(Tile& tile) {
  const auto less = [](const ReferenceElement& a, const ReferenceElement& b) { return a.value < b.value; };
  std::sort(tile.got.begin(), tile.got.end());
  std::sort(tile.want.begin(), tile.want.end(), less);
  double allowed = 0;
  for (const ReferenceElement& element : tile.want) allowed = std::max(allowed, element.allowed);
  if (tile.want.back().value - tile.want.front().value < 64 * allowed) return false;
  for (size_t i = 0; i < tile.got.size(); ++i) {
    if (std::fabs(tile.got[i] - tile.want[i].value) > allowed) return false;
  }
  return true;
}

}  // namespace

std::string find_lane_map(std::span<const ReferenceElement> want, int64_t rows, int64_t columns,
                          const std::function<double(int64_t row, int64_t column)>& got) {
  for (const int64_t size : {16, 32, 64, 128}) {
    for (int64_t row = 0; row + size <= rows; row += size) {
      for (int64_t column = 0; column + size <= columns; column += size) {
        Tile tile;
        bool comparable = true;
        for (int64_t i = row; i < row + size; ++i) {
          for (int64_t j = column; j < column + size; ++j) {
            const ReferenceElement& element = want[static_cast<size_t>(i * columns + j)];
            tile.got.push_back(got(i, j));
            tile.want.push_back(element);
            comparable &= std::isfinite(tile.got.back()) && std::isfinite(element.value);
            tile.wrong += !(std::fabs(tile.got.back() - element.value) <= element.allowed);
          }
        }
        if (!comparable || tile.wrong == 0 || !is_permuted(tile)) continue;
        return fmt::format(
            "wrong lane map: the elements of the {} x {} at [{}, {}] are right, {} of them elsewhere in it", size, size,
            row, column, tile.wrong);
      }
    }
  }
  return {};
}

}  // namespace tilewright
