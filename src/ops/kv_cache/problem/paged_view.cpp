// SPDX-License-Identifier: MIT
#include "ops/kv_cache/problem/paged_view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tilewright {
namespace {

constexpr const char* kLayoutShapes[] = {"[blocks, block, {}, {}]", "[blocks, {}, block, {}]",
                                         "[blocks, {}, {} / x, block, x]", "[blocks, {}, {}, block]",
                                         "[blocks, {}, block / x, {}, x]"};

// Which dimension of a layout's tensor is what; -1: none.
struct LayoutDims {
  int rank, head, position, position_run, element, element_run;
};
constexpr LayoutDims kLayoutDims[] = {
    {4, 2, 1, -1, 3, -1}, {4, 1, 2, -1, 3, -1}, {5, 1, 3, -1, 4, 2}, {4, 1, 3, -1, 2, -1}, {5, 1, 4, 2, 3, -1}};

}  // namespace

Result<PagedView> read_paged_view(std::string_view op, const char* name, const TensorView& t, CacheLayout layout,
                                  int64_t heads, int64_t n) {
  LayoutDims d = kLayoutDims[static_cast<int>(layout)];
  const bool alone = layout == CacheLayout::kNhd && t.rank == 3 && heads == 1;
  if (alone) d = {3, -1, 1, -1, 2, -1};
  const auto size = [&t](int i) { return i < 0 ? 1 : t.shape[static_cast<size_t>(i)]; };
  const auto stride = [&t](int i) { return i < 0 ? 0 : t.stride[static_cast<size_t>(i)]; };
  if (t.rank != d.rank || size(d.head) != heads || size(d.element) * size(d.element_run) != n) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: argument '{}' has shape [{}], expected {}", op, name,
                              fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "),
                              fmt::format(fmt::runtime(kLayoutShapes[static_cast<int>(layout)]), heads, n)));
  }
  PagedView view;
  view.blocks = t.shape[0], view.block_size = size(d.position) * size(d.position_run);
  const int64_t elements = d.element_run < 0 ? n : size(d.element);
  const int64_t positions = d.position_run < 0 ? view.block_size : size(d.position);
  view.strides = {.block = stride(0),
                  .head = stride(d.head),
                  .position = stride(d.position),
                  .position_run = stride(d.position_run),
                  .positions = std::max<int64_t>(positions, 1),
                  .element = n > 1 ? stride(d.element) : 1,
                  .element_run = stride(d.element_run),
                  .elements = std::max<int64_t>(elements, 1)};
  return view;
}

}  // namespace tilewright
