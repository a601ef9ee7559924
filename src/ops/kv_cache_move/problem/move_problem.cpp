// SPDX-License-Identifier: MIT
// What a problem must be, and its text.
#include "ops/kv_cache_move/problem/move_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/fields.hpp"
#include "tile/common/quantise.hpp"

namespace tilewright {
namespace {

constexpr int64_t kMoveUnset = std::numeric_limits<int64_t>::min();

template <class... Args>
Status refuse_move(const CacheMoveOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}
bool is_move_code(DType dtype) { return is_f8(dtype) || dtype == DType::kI8; }
bool is_move_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

// Sizes: one number a field.
template <class Problem, class Visit>
void visit_move_sizes(Problem& p, Visit&& visit) {
  visit("t", p.items), visit("k", p.heads), visit("n", p.n);
  visit("blocks", p.from_blocks), visit("to_blocks", p.to_blocks), visit("block", p.block_size);
  visit("b", p.requests), visit("columns", p.columns);
}
// Strides: several numbers a field.
template <class Problem, class Visit>
void visit_move_strides(Problem& p, Visit&& visit) {
  const auto paged = [](auto& o) {
    return std::array{&o.block,     &o.head,    &o.position,    &o.position_run,
                      &o.positions, &o.element, &o.element_run, &o.elements};
  };
  visit("sf", paged(p.from)), visit("st", paged(p.to));
  visit("ss", std::array{&p.scale_block, &p.scale_position, &p.scale_head});
  visit("si", std::array{&p.stride_index, &p.stride_column});
}

void complete_move(const CacheMoveOp& op, CacheMoveProblem& p) {
  const auto otherwise = [](int64_t& to, int64_t value) {
    if (to == kMoveUnset) to = value;
  };
  otherwise(p.items, 16), otherwise(p.heads, 1), otherwise(p.n, 128);
  otherwise(p.block_size, op.pairs ? 1 : 16);
  otherwise(p.requests, op.pairs ? 0 : 1);
  const int64_t in_block = std::max<int64_t>(p.block_size, 1), each = std::max<int64_t>(p.requests, 1);
  otherwise(p.columns, op.pairs ? 0 : (p.items / each + in_block) / in_block + 1);
  otherwise(p.from_blocks, op.pairs ? p.items + 3 : p.items / in_block + p.requests + 1);
  otherwise(p.to_blocks, op.pairs ? p.items + 2 : p.items);
  if (p.out == DType::kNone) p.out = p.in;
  if (p.in != p.out && p.scales == CacheScales::kNone) p.scales = CacheScales::kTensor;
}

Status parse_move_list(std::string_view text, std::span<int64_t* const> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t end = text.find('.');
    if ((end == std::string_view::npos) != (i + 1 == to.size())) {
      return Status(StatusCode::kInvalidArgument, fmt::format("expected {} numbers", to.size()));
    }
    if (Status s = fields_detail::parse_integer(text.substr(0, end), -kMaxReach, kMaxReach, *to[i]); !s) return s;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return {};
}

}  // namespace

std::array<Extent, 6> CacheMoveProblem::extents(const PagedProblem& t, int64_t blocks, int64_t positions) const {
  return {{{blocks, t.block},
           {heads, t.head},
           {positions / std::max<int64_t>(t.positions, 1), t.position_run},
           {std::min(t.positions, positions), t.position},
           {n / std::max<int64_t>(t.elements, 1), t.element_run},
           {std::min(t.elements, n), t.element}}};
}
std::array<Extent, 3> CacheMoveProblem::scale_extents() const {
  switch (scales) {
    case CacheScales::kNone: return {};
    case CacheScales::kTensor: return {{{1, 0}, {1, 0}, {1, 0}}};
    case CacheScales::kHead: return {{{1, 0}, {1, 0}, {heads, scale_head}}};
    case CacheScales::kToken: break;
  }
  return {{{from_blocks, scale_block}, {block_size, scale_position}, {heads, scale_head}}};
}

Status validate_move_problem(const CacheMoveOp& op, const CacheMoveProblem& p) {
  if (p.in == DType::kNone || dtype_bits(p.in) < 8) {
    return refuse_move(op, "argument '{}' is {}, allowed: types of 8 bits and more", op.from, dtype_name(p.in));
  }
  const bool widens = !op.pairs && is_move_code(p.in) && is_move_float(p.out);
  if (p.in != p.out && !widens) {
    return refuse_move(op, "argument '{}' is {}, allowed: {}, as '{}'{}", op.to, dtype_name(p.out), dtype_name(p.in),
                       op.from, !op.pairs && is_move_code(p.in) ? ", or f32, f16, bf16" : "");
  }
  if ((p.in != p.out) != (p.scales != CacheScales::kNone)) {
    return refuse_move(op, "argument '{}' is {} and '{}' {}, with scales '{}'", op.from, dtype_name(p.in), op.to,
                       dtype_name(p.out), kCacheScalesNames[static_cast<int>(p.scales)]);
  }
  const auto within = [](int64_t size, int bits) { return size >= 0 && size <= int64_t{1} << bits; };
  if (!within(p.items, 40) || !within(p.heads, 20) || !within(p.n, 30) || !within(p.from_blocks, 40) ||
      !within(p.to_blocks, 40) || !within(p.block_size, 24) || !within(p.requests, 30) || !within(p.columns, 40)) {
    return refuse_move(op, "sizes are too large, or negative");
  }
  if (!op.pairs && p.to_blocks != p.items) return refuse_move(op, "size of '{}' is {}", op.to, p.to_blocks);
  if (static_cast<__int128>(p.items) * std::max<int64_t>(p.block_size, 1) * p.heads * std::max<int64_t>(p.n, 1) >
      kMaxReach) {
    return refuse_move(op, "sizes are too large");
  }
  const auto runs = [&p](const PagedProblem& t, int64_t positions) {
    return t.positions >= 1 && t.positions <= 1 << 24 && t.elements >= 1 && t.elements <= int64_t{1} << 30 &&
           positions % t.positions == 0 && p.n % t.elements == 0;
  };
  const auto f = p.from_extents(), t = p.to_extents(op.pairs);
  const auto s = p.scale_extents();
  if (!runs(p.from, p.block_size) || !runs(p.to, op.pairs ? p.block_size : 1)) {
    return refuse_move(op, "argument '{}' has runs of {} positions and {} elements", op.from, p.from.positions,
                       p.from.elements);
  }
  if (!reach_fits({f[0], f[1], f[2], f[3], f[4], f[5]}) || !reach_fits({t[0], t[1], t[2], t[3], t[4], t[5]}) ||
      !reach_fits({s[0], s[1], s[2]}) ||
      !reach_fits({{op.pairs ? p.items : p.requests, p.stride_index}, {op.pairs ? 2 : p.columns, p.stride_column}})) {
    return refuse_move(op, "argument '{}' or another reaches beyond 2^56 elements", op.from);
  }
  if (!p.empty() && p.to_blocks > 0 && may_overlap_itself({t[0], t[1], t[2], t[3], t[4], t[5]})) {
    return refuse_move(op, "argument '{}' overlaps itself", op.to);
  }
  return {};
}

Status check_move_types(const CacheMoveOp& op, DType in, DType out) {
  CacheMoveProblem p;
  p.in = in, p.out = out, p.scales = in == out ? CacheScales::kNone : CacheScales::kTensor;
  return validate_move_problem(op, p);
}

void set_move_strides(const CacheMoveOp& op, CacheMoveProblem& p, CacheLayout layout) {
  p.from = paged_contiguous(layout, p.heads, p.n, p.block_size, 128 / std::max(dtype_bits(p.in), 1));
  p.to = op.pairs ? p.from : paged_contiguous(CacheLayout::kNhd, p.heads, p.n, 1, 1);
  const bool token = p.scales == CacheScales::kToken;
  p.scale_head = token || p.scales == CacheScales::kHead ? 1 : 0;
  p.scale_position = token ? p.heads : 0, p.scale_block = token ? p.heads * p.block_size : 0;
  const int64_t words = p.wide ? 2 : 1;
  p.stride_index = op.pairs ? 2 * words : p.columns, p.stride_column = words;
}

std::string print_move_problem(const CacheMoveOp& op, const CacheMoveProblem& p) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ":", name, value);
  };
  visit_move_sizes(p, add);
  add("x", dtype_name(p.in));
  if (p.out != p.in) add("out", dtype_name(p.out));
  if (p.scales != CacheScales::kNone) add("scales", kCacheScalesNames[static_cast<int>(p.scales)]);
  if (p.wide) add("wide", 1);
  if (p.unaligned) add("unaligned", 1);
  CacheMoveProblem plain = p;
  set_move_strides(op, plain, CacheLayout::kNhd);
  std::vector<std::vector<int64_t>> usual;
  const auto numbers_of = [](const auto& list) {
    std::vector<int64_t> numbers;
    for (const int64_t* one : list) numbers.push_back(*one);
    return numbers;
  };
  visit_move_strides(plain, [&](const char*, const auto& list) { usual.push_back(numbers_of(list)); });
  size_t i = 0;
  visit_move_strides(p, [&](const char* name, const auto& list) {
    const std::vector<int64_t> numbers = numbers_of(list);
    if (numbers != usual[i++]) add(name, fmt::format("{}", fmt::join(numbers, ".")));
  });
  return text;
}

Result<CacheMoveProblem> parse_move_problem(const CacheMoveOp& op, std::string_view text) {
  const std::string_view all = text;
  const auto refuse = [&](std::string_view item, std::string_view why) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: problem '{}': {}: {}", op.name, all, item, why));
  };
  CacheMoveProblem p;
  visit_move_sizes(p, [](const char*, int64_t& size) { size = kMoveUnset; });
  CacheLayout layout = CacheLayout::kNhd;
  bool wide = false, unaligned = false;
  std::vector<std::pair<std::string_view, std::string_view>> strides;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equal = item.find('=');
    const std::string_view name = item.substr(0, equal),
                           value = equal == std::string_view::npos ? "" : item.substr(equal + 1);
    Status s;
    bool found = false;
    const auto take = [&](const char* field, auto& to) {
      if (name == field) found = true, s = fields_detail::parse_value(value, to);
    };
    visit_move_sizes(p, take);
    take("x", p.in), take("out", p.out), take("scales", p.scales), take("layout", layout);
    take("wide", wide), take("unaligned", unaligned);
    if (!found) strides.emplace_back(name, value);
    if (!s) return refuse(item, s.message());
  }
  if (p.in == DType::kNone) return refuse("x", "it is missing");
  p.wide = wide && op.pairs, p.unaligned = unaligned;
  complete_move(op, p);
  set_move_strides(op, p, layout);
  for (const auto& [name, value] : strides) {
    bool found = false;
    Status s;
    visit_move_strides(p, [&, of = name, to_read = value](const char* field, const auto& list) {
      if (of == field) found = true, s = parse_move_list(to_read, list);
    });
    if (!found) return refuse(name, "it is none of its fields");
    if (!s) return refuse(name, s.message());
  }
  if (Status s = validate_move_problem(op, p); !s) return s;
  return p;
}

// In once and out once.
double move_bytes(const CacheMoveOp& op, const CacheMoveProblem& p) {
  const double rows = static_cast<double>(p.items) * static_cast<double>(p.heads * (op.pairs ? p.block_size : 1));
  double bytes = rows * static_cast<double>(p.n) * (dtype_bits(p.in) + dtype_bits(p.out)) / 8;
  if (p.scales == CacheScales::kToken) bytes += 4 * rows;
  bytes += op.pairs ? static_cast<double>(p.items) * (p.wide ? 16 : 8)
                    : 4 * static_cast<double>(p.items) / static_cast<double>(std::max<int64_t>(p.block_size, 1));
  return bytes;
}

}  // namespace tilewright
