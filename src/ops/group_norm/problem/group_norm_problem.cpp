// SPDX-License-Identifier: MIT
// What problems may be, and their text.
#include "ops/group_norm/problem/group_norm_problem.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text_fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_group_norm(const GroupNormProblem& p, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", p.op(), fmt::format(format, std::forward<Args>(args)...)));
}

bool is_group_norm_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

// "image.line"
Status parse_group_norm_strides(std::string_view text, GroupNormStrides& to) {
  const size_t point = text.find('.');
  if (point == std::string_view::npos) return Status(StatusCode::kInvalidArgument, "expected image.line");
  const Status s = fields_detail::parse_integer(text.substr(0, point), -kMaxReach, kMaxReach, to.image);
  return s ? fields_detail::parse_integer(text.substr(point + 1), -kMaxReach, kMaxReach, to.line) : s;
}

}  // namespace

Status validate_group_norm_problem(const GroupNormProblem& p) {
  for (const auto& [name, dtype] :
       {std::pair{"x", p.dtype}, {"weight", p.weight}, {"bias", p.bias}, {"dweight", p.dweight}, {"dbias", p.dbias}}) {
    const bool optional = dtype == DType::kNone && name[0] != 'x';
    if (!optional && !is_group_norm_float(dtype))
      return refuse_group_norm(p, "argument '{}' is {}, allowed: f32, f16, bf16", name, dtype_name(dtype));
  }
  if (p.dweight != DType::kNone && p.weight == DType::kNone)
    return refuse_group_norm(p, "argument 'dweight' is given, 'weight' is not");
  if (p.activation != Activation::kNone && p.activation != Activation::kSilu) {
    return refuse_group_norm(p, "argument 'activation' is {}, allowed: none, silu",
                             kActivationNames[static_cast<int>(p.activation)]);
  }
  __int128 elements = 1;
  for (const int64_t size : {p.images, p.channels, p.positions}) {
    if (size < 0) return refuse_group_norm(p, "argument 'x' has the negative size {}", size);
    elements *= std::max<int64_t>(size, 1);
    if (elements > kMaxReach / 64) return refuse_group_norm(p, "sizes are too large");
  }
  if (p.groups < 1 || p.channels % p.groups != 0) {
    return refuse_group_norm(p, "argument 'groups' is {}, allowed: divisors of the {} channels", p.groups, p.channels);
  }
  const char* const out = p.backward != 0 ? "dx" : "out";
  for (const auto& [name, strides] : {std::pair{"x", p.x}, {"dy", p.dy}, {out, p.out}}) {
    const auto e = p.extents(strides);
    if (!reach_fits({e[0], e[1], e[2]}))
      return refuse_group_norm(p, "argument '{}' reaches beyond 2^56 elements", name);
    if (name == out && p.elements() > 0 && may_overlap_itself({e[0], e[1], e[2]})) {
      return refuse_group_norm(p, "argument '{}' overlaps itself: strides {} and {}", name, strides.image,
                               strides.line);
    }
  }
  return {};
}

void set_contiguous(GroupNormProblem& p) {
  const int64_t lines = p.channels_last ? p.positions : p.channels, length = p.channels_last ? p.channels : p.positions;
  p.x = {p.images > 1 ? lines * length : 0, lines > 1 ? length : 0};
  p.out = p.x;
  if (p.backward != 0) p.dy = p.x;
}

std::string print_group_norm_problem(const GroupNormProblem& p) {
  std::string text =
      fmt::format("n={}:c={}:s={}:g={}:x={}", p.images, p.channels, p.positions, p.groups, dtype_name(p.dtype));
  if (p.weight != DType::kNone) text += fmt::format(":weight={}", dtype_name(p.weight));
  if (p.bias != DType::kNone) text += fmt::format(":bias={}", dtype_name(p.bias));
  if (p.dweight != DType::kNone) text += fmt::format(":dweight={}", dtype_name(p.dweight));
  if (p.dbias != DType::kNone) text += fmt::format(":dbias={}", dtype_name(p.dbias));
  if (p.activation != Activation::kNone)
    text += fmt::format(":activation={}", kActivationNames[static_cast<int>(p.activation)]);
  if (p.channels_last) text += ":channels_last=1";
  if (p.in_place) text += fmt::format(":in_place={}", p.in_place);
  if (p.unaligned) text += ":unaligned=1";
  GroupNormProblem plain = p;
  set_contiguous(plain);
  if (p.x != plain.x) text += fmt::format(":sx={}.{}", p.x.image, p.x.line);
  if (p.out != plain.out) text += fmt::format(":so={}.{}", p.out.image, p.out.line);
  if (p.dy != plain.dy) text += fmt::format(":sdy={}.{}", p.dy.image, p.dy.line);
  return text;
}

Result<GroupNormProblem> parse_group_norm_problem(std::string_view text, bool backward) {
  GroupNormProblem p;
  p.backward = backward;
  constexpr int64_t kUnset = INT64_MIN;
  p.images = p.channels = p.positions = p.groups = kUnset;
  bool last = false, unaligned = false;
  int64_t in_place = 0;
  std::string_view sx, so, sdy;
  const Status taken = for_each_text_field(text, [&](TextField& field) {
    field.read("n", p.images), field.read("c", p.channels), field.read("s", p.positions), field.read("g", p.groups);
    field.read("x", p.dtype), field.read("weight", p.weight), field.read("bias", p.bias),
        field.read("activation", p.activation);
    field.read("channels_last", last), field.read("in_place", in_place), field.read("unaligned", unaligned);
    if (backward) field.read("dweight", p.dweight), field.read("dbias", p.dbias), field.read("sdy", sdy);
    field.read("sx", sx), field.read("so", so);
  });
  if (!taken) return refuse_group_norm(p, "problem '{}': {}", text, taken.message());
  if (p.images == kUnset || p.channels == kUnset || p.positions == kUnset || p.groups == kUnset) {
    return refuse_group_norm(p, "problem '{}': expected n=..:c=..:s=..:g=..:x=..", text);
  }
  if (in_place < 0 || in_place > (backward ? 2 : 1))
    return refuse_group_norm(p, "problem '{}': in_place={}, allowed: 0 to {}", text, in_place, backward ? 2 : 1);
  p.channels_last = last, p.in_place = static_cast<uint8_t>(in_place), p.unaligned = unaligned;
  set_contiguous(p);
  const std::pair<std::string_view, GroupNormStrides*> strides[] = {{sx, &p.x}, {so, &p.out}, {sdy, &p.dy}};
  for (const auto& [given, place] : strides) {
    GroupNormStrides& to = *place;
    if (given.empty()) continue;
    if (Status s = parse_group_norm_strides(given, to); !s) {
      return refuse_group_norm(p, "problem '{}': strides '{}': {}", text, given, s.message());
    }
    const auto e = p.extents(to);
    to = {e[0].size > 1 ? to.image : 0, e[1].size > 1 ? to.line : 0};
  }
  if ((p.in_place == 1 && p.x != p.out) || (p.in_place == 2 && p.dy != p.out))
    return refuse_group_norm(p, "problem '{}': in place with other strides", text);
  if (Status s = validate_group_norm_problem(p); !s) return s;
  return p;
}

double group_norm_bytes(const GroupNormProblem& p) {
  return static_cast<double>(p.elements()) * dtype_bits(p.dtype) / 8 * (p.backward != 0 ? 3 : 2);
}

}  // namespace tilewright
