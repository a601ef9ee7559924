// SPDX-License-Identifier: MIT
// From a call to a problem: layouts become strides.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ops/kv_cache/problem/paged_view.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_cache_call(const CacheOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

std::string cache_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

Status check_cache_place(const CacheOp& op, const char* name, const TensorView& t, DeviceId device) {
  if (t.layout != Layout::kStrided) return refuse_cache_call(op, "argument '{}' is packed, allowed: strided", name);
  if (t.device == device) return {};
  return refuse_cache_call(op, "argument '{}' is on {}, the others on {}", name, to_string(t.device),
                           to_string(device));
}

// [T, H, D], or its output's.
Status read_cache_heads(const CacheOp& op, const char* name, const TensorView& t, int64_t tokens) {
  if (t.rank != 3 || t.shape[0] != tokens) {
    return refuse_cache_call(op, "argument '{}' has shape {}, expected [{}, heads, D]", name, cache_shape(t), tokens);
  }
  if (t.shape[2] > 1 && t.stride[2] != 1) {
    return refuse_cache_call(op, "argument '{}' has stride {} along its last dimension, allowed: 1", name, t.stride[2]);
  }
  return {};
}

Status read_paged(const CacheOp& op, const char* name, const TensorView& t, CacheLayout layout, CacheProblem& p,
                  CacheHeadsProblem& to, bool first) {
  const Result<PagedView> view = read_paged_view(op.name, name, t, layout, to.heads, to.n);
  if (!view) return view.status();
  if (!first && (view->blocks != p.blocks || view->block_size != p.block_size)) {
    return refuse_cache_call(op, "argument '{}' has shape {}, expected one with {} blocks of {}, as '{}'", name,
                             cache_shape(t), p.blocks, p.block_size, op.out[kCacheKeys]);
  }
  p.blocks = view->blocks, p.block_size = view->block_size, to.out = view->strides;
  return {};
}

// One element, [H], or [blocks, block, H]: of queries [T, H].
Status read_cache_scale(const CacheOp& op, const CacheCall& call, const CacheProblem& p, int tensor,
                        CacheHeadsProblem& to) {
  const auto at = static_cast<size_t>(tensor);
  const TensorView& t = call.scale[at];
  const CacheScales scales = p.scales_of(tensor);
  if (scales == CacheScales::kNone) {
    if (!t.defined()) return {};
    return refuse_cache_call(op, "argument '{}' is given, and scales are none", op.scale[at]);
  }
  if (!t.defined()) return refuse_cache_call(op, "argument '{}' is missing", op.scale[at]);
  if (t.dtype != DType::kF32) {
    return refuse_cache_call(op, "argument '{}' is {}, allowed: f32", op.scale[at], dtype_name(t.dtype));
  }
  const auto refuse = [&](const std::string& expected) {
    return refuse_cache_call(op, "argument '{}' has shape {}, expected {}", op.scale[at], cache_shape(t), expected);
  };
  if (scales == CacheScales::kTensor) return t.numel() == 1 ? Status() : refuse("one element");
  if (scales == CacheScales::kHead) {
    if (t.rank != 1 || t.shape[0] != to.heads) return refuse(fmt::format("[{}]", to.heads));
    to.scale_head = t.stride[0];
    return {};
  }
  const bool queries = tensor == kCacheQueries;
  if (queries ? t.rank != 2 || t.shape[0] != p.tokens || t.shape[1] != to.heads
              : t.rank != 3 || t.shape[0] != p.blocks || t.shape[1] != p.block_size || t.shape[2] != to.heads) {
    return refuse(queries ? fmt::format("[{}, {}]", p.tokens, to.heads)
                          : fmt::format("[{}, {}, {}]", p.blocks, p.block_size, to.heads));
  }
  to.scale_block = t.stride[0];
  to.scale_position = queries ? 0 : t.stride[1];
  to.scale_head = t.stride[queries ? 1 : 2];
  return {};
}

// [T] i32, or [T, 2]: the words of i64.
Status read_cache_numbers(const CacheOp& op, const char* name, const TensorView& t, int64_t tokens, int64_t& stride,
                          uint8_t& wide) {
  const bool words = t.rank == 2 && t.shape[1] == 2 && t.stride[1] == 1;
  if (t.dtype != DType::kI32 || (t.rank != 1 && !words) || t.shape[0] != tokens) {
    return refuse_cache_call(op, "argument '{}' is {} {}, expected [{}], i32, or [{}, 2], the words of i64", name,
                             dtype_name(t.dtype), cache_shape(t), tokens, tokens);
  }
  stride = tokens > 1 ? t.stride[0] : 0, wide = words;
  return {};
}

// The same for each axis, before the tokens.
Status read_cache_positions(const CacheOp& op, const CacheCall& call, CacheProblem& p) {
  Status s = read_sections(op.name, call.section_pairs, p.section_pairs);
  if (!s || !call.positions.defined()) return s;
  p.positions = 1;
  TensorView positions = call.positions;
  if (p.axes() > 1) {
    p.sections = call.sections;
    if (positions.rank < 2 || positions.shape[0] != p.axes()) {
      return refuse_cache_call(op, "argument 'positions' has shape {}, expected [{}, {}] with 'sections'",
                               cache_shape(positions), p.axes(), p.tokens);
    }
    p.stride_axis = positions.stride[0];
    for (size_t i = 1; i < static_cast<size_t>(positions.rank); ++i) {
      positions.shape[i - 1] = positions.shape[i], positions.stride[i - 1] = positions.stride[i];
    }
    --positions.rank;
  }
  return read_cache_numbers(op, "positions", positions, p.tokens, p.stride_position, p.wide_positions);
}

Status read_cache_angles(const CacheOp& op, const CacheCall& call, CacheProblem& p) {
  const TensorView &c = call.cosine, &s = call.sine;
  if (!c.defined() && !s.defined()) return {};
  if (c.rank != 2 || s.rank != 2 || c.shape != s.shape || c.dtype != s.dtype || c.stride[0] != s.stride[0] ||
      (c.shape[1] > 1 && (c.stride[1] != 1 || s.stride[1] != 1))) {
    return refuse_cache_call(op, "arguments 'cos' and 'sin' are {} {} and {} {}, expected [positions, pairs], alike",
                             dtype_name(c.dtype), cache_shape(c), dtype_name(s.dtype), cache_shape(s));
  }
  p.table = c.dtype, p.table_rows = c.shape[0], p.dims = 2 * c.shape[1];
  p.stride_table = c.shape[0] > 1 ? c.stride[0] : 0;
  return {};
}

Status read_cache_weights(const CacheOp& op, const CacheCall& call, CacheProblem& p) {
  p.norm = call.norm, p.unit_offset = call.unit_offset;
  const int64_t n = p.heads[kCacheKeys].n;
  for (const auto& [name, t, present] :
       {std::tuple<const char*, const TensorView&, uint8_t&>{"q_weight", call.q_weight, p.q_weight},
        {"k_weight", call.k_weight, p.k_weight}}) {
    if (!t.defined()) continue;
    if (t.rank != 1 || t.shape[0] != n || (n > 1 && t.stride[0] != 1) ||
        (p.weight != DType::kNone && p.weight != t.dtype)) {
      return refuse_cache_call(op, "argument '{}' is {} {}, expected [{}], neighbours, both weights of one dtype", name,
                               dtype_name(t.dtype), cache_shape(t), n);
    }
    p.weight = t.dtype, present = 1;
  }
  return {};
}

}  // namespace

Status make_cache_problem(const CacheOp& op, const CacheCall& call, bool check_addresses, CacheProblem& p,
                          CacheBindings& b) {
  const TensorView& x = call.in[op.queries ? kCacheQueries : kCacheKeys];
  p = CacheProblem();
  for (size_t i = 0; i < kCacheTensors; ++i) {
    const bool wanted = i == kCacheKeys || (i == kCacheQueries && op.queries);
    for (const auto& [name, t] : {std::pair{op.in[i], &call.in[i]}, {op.out[i], &call.out[i]}}) {
      if (!t->defined() && (wanted || call.in[i].defined() || call.out[i].defined())) {
        return refuse_cache_call(op, "argument '{}' is missing", name);
      }
    }
  }
  if (!call.slot_mapping.defined()) return refuse_cache_call(op, "argument 'slot_mapping' is missing");
  p.tokens = x.rank > 0 ? x.shape[0] : 0;
  p.x = x.dtype, p.q = call.out[kCacheQueries].dtype, p.cache = call.out[kCacheKeys].dtype;
  p.q_scales = call.q_scales, p.scales = call.scales, p.interleaved = call.interleaved;

  Status s;
  const auto place = [&](const char* name, const TensorView& t) {
    if (s && t.defined()) s = check_cache_place(op, name, t, x.device);
  };
  for (size_t i = 0; i < kCacheTensors; ++i) {
    place(op.in[i], call.in[i]), place(op.out[i], call.out[i]), place(op.scale[i], call.scale[i]);
  }
  place("slot_mapping", call.slot_mapping), place("positions", call.positions);
  place("cos", call.cosine), place("sin", call.sine);
  place("q_weight", call.q_weight), place("k_weight", call.k_weight);

  for (int tensor = 0; s && tensor < kCacheTensors; ++tensor) {
    const auto i = static_cast<size_t>(tensor);
    const TensorView &in = call.in[i], &out = call.out[i];
    if (!in.defined()) continue;
    CacheHeadsProblem& to = p.heads[i];
    if (s = read_cache_heads(op, op.in[i], in, p.tokens); !s) break;
    if (in.dtype != p.x || out.dtype != p.out_of(tensor)) {
      s = refuse_cache_call(op, "argument '{}' is {} and '{}' {}, expected {} and {}", op.in[i], dtype_name(in.dtype),
                            op.out[i], dtype_name(out.dtype), dtype_name(p.x), dtype_name(p.out_of(tensor)));
      break;
    }
    to.heads = in.shape[1], to.n = in.shape[2];
    to.stride_token = p.tokens > 1 ? in.stride[0] : 0, to.stride_head = to.heads > 1 ? in.stride[1] : 0;
    if (tensor == kCacheQueries) {
      s = read_cache_heads(op, op.out[i], out, p.tokens);
      if (s && (out.shape[1] != to.heads || out.shape[2] != to.n)) {
        s = refuse_cache_call(op, "argument '{}' has shape {}, expected {}", op.out[i], cache_shape(out),
                              cache_shape(in));
      }
      to.out = {.block = out.stride[0], .head = out.stride[1], .elements = std::max<int64_t>(to.n, 1)};
    } else {
      s = read_paged(op, op.out[i], out, call.layout[i], p, to, tensor == kCacheKeys);
    }
    if (s && to.heads == 0) to = {};
  }
  for (int tensor = 0; s && tensor < kCacheTensors; ++tensor) {
    CacheHeadsProblem& to = p.heads[static_cast<size_t>(tensor)];
    if (to.present()) s = read_cache_scale(op, call, p, tensor, to);
  }
  if (s) s = read_cache_numbers(op, "slot_mapping", call.slot_mapping, p.tokens, p.stride_slot, p.wide_slots);
  if (s) s = read_cache_angles(op, call, p);
  if (s) s = read_cache_weights(op, call, p);
  if (s) s = read_cache_positions(op, call, p);
  if (!s) return s;

  for (size_t i = 0; i < kCacheTensors; ++i) {
    b.pointers[kCacheIn + i] = call.in[i].data, b.pointers[kCacheOut + i] = call.out[i].data;
    b.pointers[kCacheScale + i] = call.scale[i].data;
  }
  b.pointers[kCacheQWeight] = call.q_weight.data, b.pointers[kCacheKWeight] = call.k_weight.data;
  b.pointers[kCacheSlots] = call.slot_mapping.data, b.pointers[kCachePositions] = call.positions.data;
  b.pointers[kCacheCosine] = call.cosine.data, b.pointers[kCacheSine] = call.sine.data;
  b.scalars = {call.eps};
  if (x.device.kind != DeviceKind::kCpu) {
    for (size_t i = 0; i < kCachePointerSlots; ++i) {
      const bool single = (i >= kCacheScale && i < kCacheQWeight) || i == kCacheSlots || i == kCachePositions;
      p.unaligned |= !single && (reinterpret_cast<uintptr_t>(b.pointers[i]) & 15) != 0;
    }
  }
  if (s = validate_cache_problem(op, p); !s) return s;
  if (!(call.eps >= 0)) return refuse_cache_call(op, "argument 'eps' is {}, allowed: 0 and above", call.eps);
  return check_addresses && !p.empty() ? check_cache_addresses(op, p, b) : Status();
}

}  // namespace tilewright
