// SPDX-License-Identifier: MIT
// From a call to a problem.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ops/group_norm/problem/group_norm_layout.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_group_norm_call(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "group_norm: " + fmt::format(format, std::forward<Args>(args)...));
}

std::string group_norm_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

// An image, as x.
Status check_images(const char* name, const TensorView& t, const TensorView& x) {
  if (!t.defined()) return refuse_group_norm_call("argument '{}' is missing", name);
  if (t.layout != Layout::kStrided) return refuse_group_norm_call("argument '{}' is packed, allowed: strided", name);
  if (t.rank < 2) {
    return refuse_group_norm_call("argument '{}' has rank {}, allowed: 2 to {}: [N, C, ...]", name, t.rank, kMaxRank);
  }
  if (t.rank != x.rank || !std::equal(x.shape.begin(), x.shape.begin() + x.rank, t.shape.begin())) {
    return refuse_group_norm_call("argument '{}' has shape {}, expected {}", name, group_norm_shape(t),
                                  group_norm_shape(x));
  }
  if (t.dtype != x.dtype) {
    return refuse_group_norm_call("argument '{}' is {}, 'x' is {}", name, dtype_name(t.dtype), dtype_name(x.dtype));
  }
  if (t.device == x.device) return {};
  return refuse_group_norm_call("argument '{}' is on {}, 'x' is on {}", name, to_string(t.device), to_string(x.device));
}

Status check_channels(const char* name, const TensorView& t, const TensorView& x) {
  if (!t.defined()) return {};
  if (t.layout != Layout::kStrided) return refuse_group_norm_call("argument '{}' is packed, allowed: strided", name);
  if (t.rank != 1 || t.shape[0] != x.shape[1]) {
    return refuse_group_norm_call("argument '{}' has shape {}, expected [{}]", name, group_norm_shape(t), x.shape[1]);
  }
  if (t.shape[0] > 1 && t.stride[0] != 1)
    return refuse_group_norm_call("argument '{}' has stride {}, allowed: 1", name, t.stride[0]);
  if (t.device == x.device) return {};
  return refuse_group_norm_call("argument '{}' is on {}, 'x' is on {}", name, to_string(t.device), to_string(x.device));
}

// The layout that all tensors have; where both would do, the one with the longer lines.
Status find_layout(const TensorView& x, const TensorView& out, GroupNormProblem& p) {
  const bool prefers_last = p.positions <= 1;
  for (const bool last : {prefers_last, !prefers_last}) {
    const auto of_x = group_norm_strides(x, last), of_out = group_norm_strides(out, last);
    if (!of_x || !of_out) continue;
    p.channels_last = last, p.x = *of_x, p.out = *of_out;
    return {};
  }
  const bool known = group_norm_strides(x, false) || group_norm_strides(x, true);
  const TensorView& t = known ? out : x;
  return refuse_group_norm_call(
      "argument '{}' has strides [{}], allowed: {}", known ? "out" : "x",
      fmt::join(t.stride.begin(), t.stride.begin() + t.rank, ", "),
      known ? "the layout of 'x'" : "positions that are neighbours, or channels that are and positions one stride apart");
}

Status check_group_norm_addresses(const GroupNormProblem& p, const GroupNormBindings& b) {
  const auto images = [&p](const GroupNormStrides& s) {
    const auto e = p.extents(s);
    return touched_bytes(p.dtype, {e[0], e[1], e[2]});
  };
  const auto channels = [&p](DType dtype) {
    return dtype == DType::kNone ? ByteRange{} : touched_bytes(dtype, {{p.channels, 1}});
  };
  const ByteRange out = images(p.out);
  const struct {
    const char* name;
    ByteRange bytes;
  } tensors[] = {{"x", images(p.x)}, {"out", out}, {"weight", channels(p.weight)}, {"bias", channels(p.bias)}};
  for (size_t i = 0; i < std::size(tensors); ++i) {
    if (b.pointers[i] == nullptr && !tensors[i].bytes.empty())
      return refuse_group_norm_call("argument '{}' has a null data pointer", tensors[i].name);
    if (i == kGroupNormOut || (i == kGroupNormX && p.in_place)) continue;
    if (ranges_overlap(b.pointers[i], tensors[i].bytes, b.pointers[kGroupNormOut], out))
      return refuse_group_norm_call("argument 'out' overlaps '{}'{}", tensors[i].name,
                                    i == kGroupNormX ? ", and has not its strides" : "");
  }
  return {};
}

}  // namespace

Status make_group_norm_problem(const GroupNormCall& call, bool check_addresses, GroupNormProblem& p,
                               GroupNormBindings& b) {
  const TensorView &x = call.x, &out = call.out;
  Status s = check_images("x", x, x);
  if (s) s = check_images("out", out, x);
  if (s) s = check_channels("weight", call.weight, x);
  if (s) s = check_channels("bias", call.bias, x);
  if (!s) return s;
  p = GroupNormProblem();
  p.images = x.shape[0], p.channels = x.shape[1], p.positions = 1, p.groups = call.groups;
  for (auto i = size_t{2}; i < static_cast<size_t>(x.rank); ++i) p.positions *= x.shape[i];
  p.dtype = x.dtype, p.activation = call.activation;
  if (call.weight.defined()) p.weight = call.weight.dtype;
  if (call.bias.defined()) p.bias = call.bias.dtype;
  if (s = find_layout(x, out, p); !s) return s;
  b.pointers = {x.data, out.data, call.weight.data, call.bias.data};
  b.scalars = {call.eps};
  p.in_place = x.data != nullptr && x.data == out.data && p.x == p.out;
  if (x.device.kind != DeviceKind::kCpu) {
    for (const void* pointer : {x.data, out.data}) p.unaligned |= (reinterpret_cast<uintptr_t>(pointer) & 15) != 0;
  }
  if (s = validate_group_norm_problem(p); !s) return s;
  return check_addresses && !p.empty() ? check_group_norm_addresses(p, b) : Status();
}

}  // namespace tilewright
