// SPDX-License-Identifier: MIT
// From a call to a problem.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "ops/group_norm/problem/group_norm_layout.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_group_norm_call(const GroupNormProblem& p, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", p.op(), fmt::format(format, std::forward<Args>(args)...)));
}

std::string group_norm_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

// An image, as x.
Status check_images(const GroupNormProblem& p, const char* name, const TensorView& t, const TensorView& x) {
  if (!t.defined()) return refuse_group_norm_call(p, "argument '{}' is missing", name);
  if (t.layout != Layout::kStrided) return refuse_group_norm_call(p, "argument '{}' is packed, allowed: strided", name);
  if (t.rank < 2) {
    return refuse_group_norm_call(p, "argument '{}' has rank {}, allowed: 2 to {}: [N, C, ...]", name, t.rank,
                                  kMaxRank);
  }
  if (t.rank != x.rank || !std::equal(x.shape.begin(), x.shape.begin() + x.rank, t.shape.begin())) {
    return refuse_group_norm_call(p, "argument '{}' has shape {}, expected {}", name, group_norm_shape(t),
                                  group_norm_shape(x));
  }
  if (t.dtype != x.dtype) {
    return refuse_group_norm_call(p, "argument '{}' is {}, 'x' is {}", name, dtype_name(t.dtype), dtype_name(x.dtype));
  }
  if (t.device == x.device) return {};
  return refuse_group_norm_call(p, "argument '{}' is on {}, 'x' is on {}", name, to_string(t.device),
                                to_string(x.device));
}

Status check_channels(const GroupNormProblem& p, const char* name, const TensorView& t, const TensorView& x) {
  if (!t.defined()) return {};
  if (t.layout != Layout::kStrided) return refuse_group_norm_call(p, "argument '{}' is packed, allowed: strided", name);
  if (t.rank != 1 || t.shape[0] != x.shape[1]) {
    return refuse_group_norm_call(p, "argument '{}' has shape {}, expected [{}]", name, group_norm_shape(t),
                                  x.shape[1]);
  }
  if (t.shape[0] > 1 && t.stride[0] != 1)
    return refuse_group_norm_call(p, "argument '{}' has stride {}, allowed: 1", name, t.stride[0]);
  if (t.device == x.device) return {};
  return refuse_group_norm_call(p, "argument '{}' is on {}, 'x' is on {}", name, to_string(t.device),
                                to_string(x.device));
}

// The layout that all tensors have; where both would do, the one with the longer lines.
Status find_layout(const GroupNormTensors& call, GroupNormProblem& p) {
  struct Image {
    const char* name;
    const TensorView& t;
    GroupNormStrides& to;
  };
  const Image images[] = {{"x", call.x, p.x}, {p.backward != 0 ? "dx" : "out", call.out, p.out}, {"dy", call.dy, p.dy}};
  const auto all = std::span(images).first(p.backward != 0 ? 3 : 2);
  const bool prefers_last = p.positions <= 1;
  for (const bool last : {prefers_last, !prefers_last}) {
    if (!std::ranges::all_of(all, [last](const Image& i) { return group_norm_strides(i.t, last).has_value(); }))
      continue;
    p.channels_last = last;
    for (const Image& i : all) i.to = *group_norm_strides(i.t, last);
    return {};
  }
  const auto has = [](const Image& i, bool last) { return group_norm_strides(i.t, last).has_value(); };
  const bool first = has(all[0], false), known = first || has(all[0], true);
  const auto odd = std::ranges::find_if(all, [&](const Image& i) { return !has(i, known && !first); });
  return refuse_group_norm_call(
      p, "argument '{}' has strides [{}], allowed: {}", odd->name,
      fmt::join(odd->t.stride.begin(), odd->t.stride.begin() + odd->t.rank, ", "),
      known ? "the layout of 'x'"
            : "positions that are neighbours, or channels that are and positions one stride apart");
}

Status check_group_norm_addresses(const GroupNormProblem& p, const GroupNormBindings& b) {
  const auto images = [&p](const GroupNormStrides& s) {
    const auto e = p.extents(s);
    return touched_bytes(p.dtype, {e[0], e[1], e[2]});
  };
  const auto channels = [&p](DType dtype) {
    return dtype == DType::kNone ? ByteRange{} : touched_bytes(dtype, {{p.channels, 1}});
  };
  const struct {
    const char* name;
    ByteRange bytes;
    bool written;
  } tensors[] = {{"x", images(p.x), false},
                 {p.backward != 0 ? "dx" : "out", images(p.out), true},
                 {"weight", channels(p.weight), false},
                 {"bias", channels(p.bias), false},
                 {"dy", p.backward != 0 ? images(p.dy) : ByteRange{}, false},
                 {"dweight", channels(p.dweight), true},
                 {"dbias", channels(p.dbias), true}};
  const size_t shared = p.in_place == 1 ? kGroupNormX : kGroupNormDy;  // with out, where it is in place
  for (size_t i = 0; i < std::size(tensors); ++i) {
    if (b.pointers[i] == nullptr && !tensors[i].bytes.empty())
      return refuse_group_norm_call(p, "argument '{}' has a null data pointer", tensors[i].name);
    for (size_t w = 0; w < std::size(tensors); ++w) {
      if (!tensors[w].written || w == i || (p.in_place != 0 && w == kGroupNormOut && i == shared)) continue;
      if (p.in_place != 0 && w == shared && i == kGroupNormOut) continue;
      if (ranges_overlap(b.pointers[i], tensors[i].bytes, b.pointers[w], tensors[w].bytes)) {
        return refuse_group_norm_call(p, "argument '{}' overlaps '{}'{}", tensors[w].name, tensors[i].name,
                                      w == kGroupNormOut && i == kGroupNormX ? ", and has not its strides" : "");
      }
    }
  }
  return {};
}

}  // namespace

Status make_group_norm_problem(const GroupNormTensors& call, bool check_addresses, GroupNormProblem& p,
                               GroupNormBindings& b) {
  const TensorView &x = call.x, &out = call.out;
  p = GroupNormProblem();
  p.backward = call.backward;
  Status s = check_images(p, "x", x, x);
  if (s && call.backward) s = check_images(p, "dy", call.dy, x);
  if (s) s = check_images(p, call.backward ? "dx" : "out", out, x);
  for (const auto& [name, t, dtype] :
       {std::tuple<const char*, const TensorView&, DType&>{"weight", call.weight, p.weight},
        {"bias", call.bias, p.bias},
        {"dweight", call.dweight, p.dweight},
        {"dbias", call.dbias, p.dbias}}) {
    if (s) s = check_channels(p, name, t, x);
    if (t.defined()) dtype = t.dtype;
  }
  if (!s) return s;
  p.images = x.shape[0], p.channels = x.shape[1], p.positions = 1, p.groups = call.groups;
  for (auto i = size_t{2}; i < static_cast<size_t>(x.rank); ++i) p.positions *= x.shape[i];
  p.dtype = x.dtype, p.activation = call.activation;
  if (s = find_layout(call, p); !s) return s;
  b.pointers = {x.data, out.data, call.weight.data, call.bias.data, call.dy.data, call.dweight.data, call.dbias.data};
  b.scalars = {call.eps};
  if (x.data != nullptr && x.data == out.data && p.x == p.out) p.in_place = 1;
  if (call.backward && out.data != nullptr && call.dy.data == out.data && p.dy == p.out) p.in_place = 2;
  if (x.device.kind != DeviceKind::kCpu) {
    for (const void* pointer : {x.data, out.data, call.dy.data})
      p.unaligned |= (reinterpret_cast<uintptr_t>(pointer) & 15) != 0;
  }
  if (s = validate_group_norm_problem(p); !s) return s;
  if (!(call.eps >= 0)) return refuse_group_norm_call(p, "argument 'eps' is {}, allowed: 0 and above", call.eps);
  return check_addresses && !p.empty() ? check_group_norm_addresses(p, b) : Status();
}

}  // namespace tilewright
