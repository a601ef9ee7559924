// SPDX-License-Identifier: MIT
#include "ops/row/problem/rope_sections.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <numeric>

#include "core/fields.hpp"

namespace tilewright {

Status read_sections(std::string_view op, const std::array<int64_t, kRopeAxes>& from, SectionPairs& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0 || from[i] > std::numeric_limits<int32_t>::max()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: argument 'sections' has {} pairs, allowed: 0 and above", op, from[i]));
    }
    to[i] = static_cast<int32_t>(from[i]);
  }
  if (rope_axes(to) == 1) to = {};
  return {};
}

Status check_sections(std::string_view op, const SectionPairs& pairs, RopeSections order, int64_t dims) {
  const auto refuse = [op](const std::string& message) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: argument 'sections' is {}", op, message));
  };
  const int axes = rope_axes(pairs);
  if (axes == 1) return {};
  const int64_t half = dims / 2, all = std::accumulate(pairs.begin(), pairs.end(), int64_t{0});
  for (const int32_t each : pairs) {
    if (each < 0 || all != half || all > std::numeric_limits<int32_t>::max()) {
      return refuse(fmt::format("{}, expected {} pairs in all", print_sections(pairs), half));
    }
  }
  for (int axis = 1; order == RopeSections::kInterleaved && axis < axes; ++axis) {
    const int64_t last = axis + int64_t{axes} * (pairs[static_cast<size_t>(axis)] - 1);
    if (last >= half) return refuse(fmt::format("{}: the axes cannot take turns", print_sections(pairs)));
  }
  return {};
}

void set_sections(const SectionPairs& pairs, RopeSections order, RowRotation& to) {
  to.axes = rope_axes(pairs);
  to.parts = order == RopeSections::kParts && to.axes > 1 && !to.interleaved;
  int begin = 0;
  for (int axis = 0; axis < to.axes; ++axis) {
    const int count = pairs[static_cast<size_t>(axis)];
    to.section[axis] = order == RopeSections::kInterleaved ? RowSection{axis, axis + to.axes * (count - 1) + 1, to.axes}
                                                           : RowSection{begin, begin + count, 1};
    begin += count;
  }
}

int axis_of_pair(const SectionPairs& pairs, RopeSections order, int64_t pair) {
  const int axes = rope_axes(pairs);
  if (axes == 1) return 0;
  if (order == RopeSections::kInterleaved) {
    const auto axis = static_cast<size_t>(pair % axes);
    return pair / axes < pairs[axis] ? static_cast<int>(axis) : 0;
  }
  int axis = 0;
  for (; axis + 1 < axes && pair >= pairs[static_cast<size_t>(axis)]; ++axis) pair -= pairs[static_cast<size_t>(axis)];
  return axis;
}

std::string print_sections(const SectionPairs& pairs) {
  return fmt::format("{}", fmt::join(pairs.begin(), pairs.begin() + rope_axes(pairs), "."));
}

Status parse_sections(std::string_view text, SectionPairs& to) {
  to = {};
  for (int32_t& pairs : to) {
    const size_t end = text.find('.');
    int64_t value = 0;
    Status s =
        fields_detail::parse_integer(text.substr(0, end), 0, int64_t{std::numeric_limits<int32_t>::max()}, value);
    if (!s) return s;
    pairs = static_cast<int32_t>(value);
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return Status(StatusCode::kInvalidArgument, fmt::format("more than {} axes", kRopeAxes));
}

}  // namespace tilewright
