// SPDX-License-Identifier: MIT
#include "ops/kv_cache/problem/cache_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tile/common/quantise.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_cache(const CacheOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

bool is_cache_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }
bool is_cache_code(DType dtype) { return is_f8(dtype) || dtype == DType::kI8; }

// Of the outputs of queries, or of keys and values.
Status check_output(const CacheOp& op, const CacheProblem& p, const char* name, DType dtype, CacheScales scales) {
  if (dtype != p.x && !is_cache_code(dtype)) {
    return refuse_cache(op, "argument '{}' is {}, allowed: {}, as '{}', or e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8", name,
                        dtype_name(dtype), dtype_name(p.x), op.in[op.queries ? 0 : 1]);
  }
  if ((scales != CacheScales::kNone) == is_cache_code(dtype)) return {};
  return refuse_cache(op, "argument '{}' is {}, with scales '{}', allowed: {}", name, dtype_name(dtype),
                      kCacheScalesNames[static_cast<int>(scales)],
                      is_cache_code(dtype) ? "tensor, head, token" : "none");
}

Status check_heads(const CacheOp& op, const CacheProblem& p, int tensor) {
  const auto at = static_cast<size_t>(tensor);
  const CacheHeadsProblem& h = p.heads[at];
  if (h.heads < 0 || h.heads > 1 << 20) return refuse_cache(op, "argument '{}' has {} heads", op.in[at], h.heads);
  if (!h.present()) return {};
  if (h.n < 1 || h.n > kMostHeadElements) {
    return refuse_cache(op, "argument '{}' has heads of {} elements, allowed: 1 to {}", op.in[at], h.n,
                        kMostHeadElements);
  }
  if (!reach_fits({{p.tokens, h.stride_token}, {h.heads, h.stride_head}, {h.n, 1}})) {
    return refuse_cache(op, "argument '{}' reaches beyond 2^56 elements", op.in[at]);
  }
  const PagedProblem& o = h.out;
  if (o.positions < 1 || p.block_size_of(tensor) % o.positions != 0 || o.elements < 1 || h.n % o.elements != 0) {
    return refuse_cache(op, "argument '{}' has runs of {} tokens and {} elements, of blocks of {} and heads of {}",
                        op.out[at], o.positions, o.elements, p.block_size_of(tensor), h.n);
  }
  const auto e = p.out_extents(tensor);
  if (!reach_fits({e[0], e[1], e[2], e[3], e[4], e[5]})) {
    return refuse_cache(op, "argument '{}' reaches beyond 2^56 elements", op.out[at]);
  }
  if (p.blocks_of(tensor) > 0 && may_overlap_itself({e[0], e[1], e[2], e[3], e[4], e[5]})) {
    return refuse_cache(op, "argument '{}' overlaps itself", op.out[at]);
  }
  const auto s = p.scale_extents(tensor);
  if (!reach_fits({s[0], s[1], s[2]})) {
    return refuse_cache(op, "argument '{}' reaches beyond 2^56 elements", op.scale[at]);
  }
  if (p.scales_of(tensor) == CacheScales::kToken && p.blocks_of(tensor) > 0 && may_overlap_itself({s[0], s[1], s[2]})) {
    return refuse_cache(op, "argument '{}' overlaps itself", op.scale[at]);
  }
  return {};
}

Status check_turns(const CacheOp& op, const CacheProblem& p) {
  if (p.axes() > 1 && (!p.turns() || !p.positions || p.sections == RopeSections::kParts)) {
    return refuse_cache(op, "argument 'sections' is given without {}",
                        !p.turns()     ? "'cos'"
                        : !p.positions ? "'positions'"
                                       : "an order that is runs or interleaved");
  }
  if (!p.turns()) return {};
  if (Status s = check_sections(op.name, p.section_pairs, p.sections, p.dims); !s) return s;
  if (!is_cache_float(p.table)) {
    return refuse_cache(op, "argument 'cos' is {}, allowed: f32, f16, bf16", dtype_name(p.table));
  }
  const int64_t n = p.heads[kCacheKeys].n;
  if (p.dims < 0 || p.dims > n || p.dims % 2 != 0) {
    return refuse_cache(op, "argument 'cos' turns {} elements of {}, allowed: an even number up to that", p.dims, n);
  }
  if (p.tokens > 0 && p.dims > 0 && p.table_rows < 1) return refuse_cache(op, "argument 'cos' has no rows");
  if (!reach_fits({{p.table_rows, p.stride_table}, {p.dims / 2, 1}})) {
    return refuse_cache(op, "argument 'cos' reaches beyond 2^56 elements");
  }
  return {};
}

}  // namespace

std::array<Extent, 6> CacheProblem::out_extents(int tensor) const {
  const CacheHeadsProblem& h = heads[static_cast<size_t>(tensor)];
  const PagedProblem& o = h.out;
  return {{{blocks_of(tensor), o.block},
           {h.heads, o.head},
           {block_size_of(tensor) / std::max<int64_t>(o.positions, 1), o.position_run},
           {std::min(o.positions, block_size_of(tensor)), o.position},
           {h.n / std::max<int64_t>(o.elements, 1), o.element_run},
           {std::min(o.elements, h.n), o.element}}};
}
std::array<Extent, 3> CacheProblem::scale_extents(int tensor) const {
  const CacheHeadsProblem& h = heads[static_cast<size_t>(tensor)];
  switch (scales_of(tensor)) {
    case CacheScales::kNone: return {};
    case CacheScales::kTensor: return {{{1, 0}, {1, 0}, {1, 0}}};
    case CacheScales::kHead: return {{{1, 0}, {1, 0}, {h.heads, h.scale_head}}};
    case CacheScales::kToken: break;
  }
  return {{{blocks_of(tensor), h.scale_block}, {block_size_of(tensor), h.scale_position}, {h.heads, h.scale_head}}};
}

Status validate_cache_problem(const CacheOp& op, const CacheProblem& p) {
  if (p.tokens < 0 || p.tokens > int64_t{1} << 40) return refuse_cache(op, "size T is {}", p.tokens);
  if (p.blocks < 0 || p.block_size < 0 || p.block_size > 1 << 24 || p.blocks > int64_t{1} << 40) {
    return refuse_cache(op, "argument '{}' has {} blocks of {} tokens", op.out[1], p.blocks, p.block_size);
  }
  if (p.blocks > 0 && p.block_size == 0) return refuse_cache(op, "argument '{}' has blocks of no tokens", op.out[1]);
  if (!is_cache_float(p.x)) {
    return refuse_cache(op, "argument '{}' is {}, allowed: f32, f16, bf16", op.in[op.queries ? 0 : 1], dtype_name(p.x));
  }
  Status s = check_output(op, p, op.out[1], p.cache, p.scales);
  if (s && op.queries) s = check_output(op, p, op.out[0], p.q, p.q_scales);
  for (int tensor = 0; s && tensor < kCacheTensors; ++tensor) s = check_heads(op, p, tensor);
  if (!s) return s;
  if (op.queries != (p.q != DType::kNone) || (!op.queries && p.heads[kCacheQueries].present())) {
    return refuse_cache(op, "queries are {}", op.queries ? "missing" : "given");
  }
  if (!op.queries && (p.norm || p.turns())) return refuse_cache(op, "norms and angles are another operator's");
  const CacheHeadsProblem &q = p.heads[kCacheQueries], &k = p.heads[kCacheKeys];
  if (q.present() && k.present() && q.n != k.n) {
    return refuse_cache(op, "argument 'q' has heads of {} elements, 'k' of {}", q.n, k.n);
  }
  const bool weights = p.q_weight != 0 || p.k_weight != 0;
  if (weights != (p.weight != DType::kNone) || (weights && (!p.norm || !is_cache_float(p.weight)))) {
    return refuse_cache(op, "argument 'q_weight' is {}, allowed with a norm: f32, f16, bf16", dtype_name(p.weight));
  }
  return check_turns(op, p);
}

Status check_cache_types(const CacheOp& op, DType x, DType q, DType cache) {
  CacheProblem p;
  p.x = x, p.q = q, p.cache = cache;
  if (is_cache_code(q)) p.q_scales = CacheScales::kTensor;
  if (is_cache_code(cache)) p.scales = CacheScales::kTensor;
  return validate_cache_problem(op, p);
}

PagedProblem paged_contiguous(CacheLayout layout, int64_t heads, int64_t n, int64_t block_size, int64_t x) {
  PagedProblem t;
  t.block = heads * n * block_size;
  t.positions = std::max<int64_t>(block_size, 1), t.elements = std::max<int64_t>(n, 1);
  t.element = 1, t.head = n * block_size;
  switch (layout) {
    case CacheLayout::kNhd: t.head = n, t.position = heads * n; break;
    case CacheLayout::kHnd: t.position = n; break;
    case CacheLayout::kKeyPacked: t.elements = x, t.element_run = block_size * x, t.position = x; break;
    case CacheLayout::kValueTransposed: t.element = block_size, t.position = 1; break;
    case CacheLayout::kValuePacked: t.positions = x, t.position_run = n * x, t.position = 1, t.element = x; break;
  }
  return t;
}

ProblemSignature cache_signature(const CacheProblem& p) {
  ProblemSignature s;
  s.core = fmt::format("x={}:q={}:cache={}:scales={}:norm={}:table={}", dtype_name(p.x), dtype_name(p.q),
                       dtype_name(p.cache), kCacheScalesNames[static_cast<int>(p.scales)], p.norm, dtype_name(p.table));
  if (p.axes() > 1) {
    s.core += fmt::format(":sections={}:order={}", print_sections(p.section_pairs),
                          kRopeSectionsNames[static_cast<int>(p.sections)]);
  }
  if (p.programmatic_edge) s.add_programmatic_edge();
  s.epilogue = "none";
  const std::string heads =
      fmt::format("q={}:k={}:v={}:n={}", p.heads[0].heads, p.heads[1].heads, p.heads[2].heads, p.heads[kCacheKeys].n);
  s.sizes = fmt::format("t={}:{}", p.tokens, heads);
  s.bucket = fmt::format("t<={}:{}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.tokens, 1))), heads);
  return s;
}

double cache_bytes_written(const CacheProblem& p) {
  double bytes = 0;
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
    const CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
    bytes += static_cast<double>(p.tokens) * static_cast<double>(h.heads * h.n) * dtype_bits(p.out_of(tensor)) / 8;
  }
  return bytes;
}
double cache_bytes_moved(const CacheProblem& p) {
  const auto tokens = static_cast<double>(p.tokens);
  double bytes = 0;
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
    const CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
    bytes += tokens * static_cast<double>(h.heads * h.n) * (dtype_bits(p.x) + dtype_bits(p.out_of(tensor))) / 8;
    if (p.scales_of(tensor) == CacheScales::kToken) bytes += tokens * static_cast<double>(h.heads) * 4;
  }
  bytes += tokens * (p.wide_slots ? 8 : 4);
  if (p.positions) bytes += tokens * p.axes() * (p.wide_positions ? 8 : 4);
  if (p.turns()) {
    bytes += static_cast<double>(std::min(p.tokens, p.table_rows) * p.dims) * dtype_bits(p.table) / 8;
  }
  return bytes;
}

}  // namespace tilewright
