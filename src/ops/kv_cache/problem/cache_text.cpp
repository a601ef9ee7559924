// SPDX-License-Identifier: MIT
// Problems as text: what is contiguous is not printed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/fields.hpp"
#include "ops/kv_cache/problem/cache_problem.hpp"

namespace tilewright {
namespace {

constexpr int64_t kCacheUnset = std::numeric_limits<int64_t>::min();

// Sizes: one number a field.
template <class Problem, class Visit>
void visit_sizes(Problem& p, Visit&& visit) {
  visit("t", p.tokens);
  visit("q", p.heads[0].heads), visit("k", p.heads[1].heads), visit("v", p.heads[2].heads);
  visit("n", p.heads[1].n), visit("nv", p.heads[2].n);
  visit("blocks", p.blocks), visit("block", p.block_size);
  visit("dims", p.dims), visit("table_rows", p.table_rows);
}
template <class Problem, class Visit>
void visit_types(Problem& p, Visit&& visit) {
  visit("x", p.x), visit("qo", p.q), visit("cache", p.cache), visit("weight", p.weight), visit("table", p.table);
}
template <class Problem, class Visit>
void visit_flags(Problem& p, Visit&& visit) {
  visit("wide_slots", p.wide_slots), visit("positions", p.positions), visit("wide_positions", p.wide_positions);
  visit("interleaved", p.interleaved), visit("norm", p.norm), visit("q_weight", p.q_weight);
  visit("k_weight", p.k_weight), visit("unit_offset", p.unit_offset), visit("unaligned", p.unaligned);
  visit("programmatic_edge", p.programmatic_edge);
}
// Strides: several numbers a field.
template <class Problem, class Visit>
void visit_strides(Problem& p, Visit&& visit) {
  constexpr const char* kNames[kCacheTensors][3] = {{"sq", "soq", "ssq"}, {"sk", "sok", "ssk"}, {"sv", "sov", "ssv"}};
  for (size_t i = 0; i < kCacheTensors; ++i) {
    auto& h = p.heads[i];
    auto& o = h.out;
    visit(kNames[i][0], std::array{&h.stride_token, &h.stride_head});
    visit(kNames[i][1], std::array{&o.block, &o.head, &o.position, &o.position_run, &o.positions, &o.element,
                                   &o.element_run, &o.elements});
    visit(kNames[i][2], std::array{&h.scale_block, &h.scale_position, &h.scale_head});
  }
  visit("sm", std::array{&p.stride_slot}), visit("sp", std::array{&p.stride_position});
  visit("sa", std::array{&p.stride_axis});
  visit("st", std::array{&p.stride_table});
}

int64_t packed_run(DType cache) { return 128 / std::max(dtype_bits(cache), 1); }

// Sizes and types that were left out.
void complete_cache(const CacheOp& op, CacheProblem& p) {
  const auto otherwise = [](int64_t& to, int64_t value) {
    if (to == kCacheUnset) to = value;
  };
  const auto type_otherwise = [](DType& to, DType value) {
    if (to == DType::kNone) to = value;
  };
  otherwise(p.tokens, 16), otherwise(p.heads[1].heads, 1), otherwise(p.heads[2].heads, p.heads[1].heads);
  otherwise(p.heads[0].heads, op.queries ? p.heads[1].heads : 0);
  otherwise(p.heads[1].n, 128), otherwise(p.heads[2].n, p.heads[1].n);
  p.heads[0].n = p.heads[1].n;
  otherwise(p.block_size, 16);
  otherwise(p.blocks, (std::max<int64_t>(p.tokens, 0) + p.block_size) / std::max<int64_t>(p.block_size, 1) + 1);
  type_otherwise(p.cache, p.x);
  if (op.queries) type_otherwise(p.q, p.x);
  if (p.cache != p.x && p.scales == CacheScales::kNone) p.scales = CacheScales::kTensor;
  if (op.queries && p.q != p.x && p.q_scales == CacheScales::kNone) p.q_scales = CacheScales::kTensor;
  if (!p.turns()) p.dims = p.table_rows = 0;
  otherwise(p.dims, p.heads[1].n - p.heads[1].n % 2), otherwise(p.table_rows, p.tokens + 7);
  if (p.weight != DType::kNone && !p.q_weight && !p.k_weight) p.q_weight = p.k_weight = 1;
  if (p.weight != DType::kNone) p.norm = 1;
  if (p.axes() > 1) p.positions = 1;
  if (p.axes() == 1) p.section_pairs = {}, p.sections = RopeSections::kRuns;
}

// Contiguous strides, but for what no tensor has.
void set_cache_strides(CacheProblem& p, const std::array<CacheLayout, kCacheTensors>& layouts) {
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
    CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
    if (!h.present()) {
      h = {};
      continue;
    }
    h.stride_token = h.heads * h.n, h.stride_head = h.n;
    h.out = paged_contiguous(layouts[static_cast<size_t>(tensor)], h.heads, h.n, p.block_size_of(tensor),
                             packed_run(p.out_of(tensor)));
    const CacheScales scales = p.scales_of(tensor);
    const bool token = scales == CacheScales::kToken;
    h.scale_head = token || scales == CacheScales::kHead ? 1 : 0;
    h.scale_position = token ? h.heads : 0, h.scale_block = token ? h.heads * p.block_size_of(tensor) : 0;
  }
  p.stride_slot = p.wide_slots ? 2 : 1;
  p.stride_position = p.positions ? (p.wide_positions ? 2 : 1) : 0;
  p.stride_axis = p.axes() > 1 ? p.tokens * p.stride_position : 0;
  p.stride_table = p.turns() ? p.dims / 2 : 0;
}

Status parse_stride_list(std::string_view text, std::span<int64_t* const> to) {
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

// A field that is no stride. False: there is none of that name.
bool parse_plain_field(std::string_view name, std::string_view value, CacheProblem& p,
                       std::array<CacheLayout, kCacheTensors>& layouts, Status& s) {
  bool found = false;
  const auto take = [&](const char* field, auto& to) {
    if (name != field) return;
    found = true;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(to)>, uint8_t>) {
      bool flag = false;
      s = fields_detail::parse_value(value, flag), to = flag;
    } else {
      s = fields_detail::parse_value(value, to);
    }
  };
  visit_sizes(p, take);
  visit_types(p, take);
  visit_flags(p, take);
  take("scales", p.scales), take("q_scales", p.q_scales);
  take("order", p.sections);
  if (name == "sections") found = true, s = parse_sections(value, p.section_pairs);
  take("klayout", layouts[kCacheKeys]), take("vlayout", layouts[kCacheValues]);
  return found;
}

}  // namespace

std::string print_cache_problem(const CacheProblem& p) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ":", name, value);
  };
  visit_sizes(p, [&](const char* name, int64_t value) { add(name, value); });
  visit_types(p, [&](const char* name, DType value) {
    if (value != DType::kNone) add(name, dtype_name(value));
  });
  if (p.scales != CacheScales::kNone) add("scales", kCacheScalesNames[static_cast<int>(p.scales)]);
  if (p.q_scales != CacheScales::kNone) add("q_scales", kCacheScalesNames[static_cast<int>(p.q_scales)]);
  if (p.axes() > 1) {
    add("sections", print_sections(p.section_pairs));
    add("order", kRopeSectionsNames[static_cast<int>(p.sections)]);
  }
  visit_flags(p, [&](const char* name, uint8_t value) {
    if (value != 0) add(name, int{value});
  });
  CacheProblem plain = p;
  set_cache_strides(plain, {});
  std::vector<std::vector<int64_t>> usual;
  const auto numbers_of = [](const auto& list) {
    std::vector<int64_t> numbers;
    for (const int64_t* one : list) numbers.push_back(*one);
    return numbers;
  };
  visit_strides(plain, [&](const char*, const auto& list) { usual.push_back(numbers_of(list)); });
  size_t i = 0;
  visit_strides(p, [&](const char* name, const auto& list) {
    const std::vector<int64_t> numbers = numbers_of(list);
    if (numbers != usual[i++]) add(name, fmt::format("{}", fmt::join(numbers, ".")));
  });
  return text;
}

Result<CacheProblem> parse_cache_problem(const CacheOp& op, std::string_view text) {
  const std::string_view all = text;
  const auto refuse = [&](std::string_view item, std::string_view why) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: problem '{}': {}: {}", op.name, all, item, why));
  };
  CacheProblem p;
  visit_sizes(p, [](const char*, int64_t& size) { size = kCacheUnset; });
  std::array<CacheLayout, kCacheTensors> layouts{};
  std::vector<std::pair<std::string_view, std::string_view>> strides;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equal = item.find('=');
    const std::string_view name = item.substr(0, equal),
                           value = equal == std::string_view::npos ? "" : item.substr(equal + 1);
    Status s;
    if (!parse_plain_field(name, value, p, layouts, s)) strides.emplace_back(name, value);
    if (!s) return refuse(item, s.message());
  }
  if (p.x == DType::kNone) return refuse("x", "it is missing");
  complete_cache(op, p);
  set_cache_strides(p, layouts);
  for (const auto& [name, value] : strides) {
    bool found = false;
    Status s;
    visit_strides(p, [&, of = name, to_read = value](const char* field, const auto& list) {
      if (of == field) found = true, s = parse_stride_list(to_read, list);
    });
    if (!found) return refuse(name, "it is none of its fields");
    if (!s) return refuse(name, s.message());
  }
  if (Status s = validate_cache_problem(op, p); !s) return s;
  return p;
}

}  // namespace tilewright
