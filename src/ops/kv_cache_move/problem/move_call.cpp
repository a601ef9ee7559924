// SPDX-License-Identifier: MIT
// From a call to a problem.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "ops/kv_cache/problem/paged_view.hpp"
#include "ops/kv_cache_move/problem/move_problem.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_move_call(const CacheMoveOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}
std::string move_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

struct NamedView {
  const char* name;
  const TensorView* view;
  bool wanted = true;
};
Status check_move_places(const CacheMoveOp& op, std::initializer_list<NamedView> tensors) {
  const DeviceId device = tensors.begin()->view->device;
  for (const NamedView& t : tensors) {
    if (!t.view->defined()) {
      if (t.wanted) return refuse_move_call(op, "argument '{}' is missing", t.name);
      continue;
    }
    if (t.view->layout != Layout::kStrided) {
      return refuse_move_call(op, "argument '{}' is packed, allowed: strided", t.name);
    }
    if (!(t.view->device == device)) {
      return refuse_move_call(op, "argument '{}' is on {}, '{}' is on {}", t.name, to_string(t.view->device), op.from,
                              to_string(device));
    }
  }
  return {};
}

// A block's dimensions as elements, heads and positions: neighbours of both tensors that strides join are one.
Status collapse_block(const CacheMoveOp& op, const TensorView& from, const TensorView& to, CacheMoveProblem& p) {
  struct Dim {
    int64_t size = 1, from = 0, to = 0;
  };
  std::array<Dim, 3> dims{};
  size_t count = 0;
  bool none = false;
  for (int i = from.rank - 1; i > 0; --i) {
    const auto at = static_cast<size_t>(i);
    const Dim d{from.shape[at], from.stride[at], to.stride[at]};
    none = none || d.size == 0;
    if (d.size == 1) continue;
    Dim* const last = count == 0 ? nullptr : &dims[count - 1];
    if (last != nullptr && d.from == last->from * last->size && d.to == last->to * last->size) {
      last->size *= d.size;
    } else if (count == dims.size()) {
      return refuse_move_call(op, "argument '{}' has more than {} dimensions of a block that strides keep apart",
                              op.from, dims.size());
    } else {
      dims[count++] = d;
    }
  }
  if (none) dims[0].size = 0;
  const auto& [element, head, position] = dims;
  const auto paged = [&](const TensorView& t, int64_t Dim::* stride) {
    return PagedProblem{.block = t.shape[0] > 1 ? t.stride[0] : 0,
                        .head = head.*stride,
                        .position = position.*stride,
                        .positions = std::max<int64_t>(position.size, 1),
                        .element = element.size > 1 ? element.*stride : 1,
                        .elements = std::max<int64_t>(element.size, 1)};
  };
  p.n = element.size, p.heads = head.size, p.block_size = position.size;
  p.from = paged(from, &Dim::from), p.to = paged(to, &Dim::to);
  return {};
}

Status read_move_scale(const CacheMoveOp& op, const TensorView& t, CacheMoveProblem& p) {
  if (p.scales == CacheScales::kNone) {
    return t.defined() ? refuse_move_call(op, "argument 'scale' is given, and scales are none") : Status();
  }
  if (!t.defined()) return refuse_move_call(op, "argument 'scale' is missing");
  const bool head = p.scales == CacheScales::kHead, token = p.scales == CacheScales::kToken;
  const bool fits =
      head    ? t.rank == 1 && t.shape[0] == p.heads
      : token ? t.rank == 3 && t.shape[0] == p.from_blocks && t.shape[1] == p.block_size && t.shape[2] == p.heads
              : t.numel() == 1;
  if (!fits || t.dtype != DType::kF32) {
    return refuse_move_call(op, "argument 'scale' is {} {}, expected f32 {}", dtype_name(t.dtype), move_shape(t),
                            head    ? fmt::format("[{}]", p.heads)
                            : token ? fmt::format("[{}, {}, {}]", p.from_blocks, p.block_size, p.heads)
                                    : "of one element");
  }
  if (head) p.scale_head = t.stride[0];
  if (token) p.scale_block = t.stride[0], p.scale_position = t.stride[1], p.scale_head = t.stride[2];
  return {};
}

// Null pointers, and what is written over what else the call has.
Status check_move_addresses(const CacheMoveOp& op, const CacheMoveProblem& p, const CacheMovePointers& pointers) {
  const auto range = [](DType dtype, const std::array<Extent, 6>& e) {
    return touched_bytes(dtype, {e[0], e[1], e[2], e[3], e[4], e[5]});
  };
  const auto s = p.scale_extents();
  const ByteRange bytes[kMovePointerSlots] = {
      range(p.in, p.from_extents()), range(p.out, p.to_extents(op.pairs)),
      touched_bytes(DType::kI32, {{op.pairs ? p.items : p.requests, p.stride_index},
                                  {op.pairs ? 2 : p.columns, p.stride_column},
                                  {p.wide ? 2 : 1, 1}}),
      op.pairs ? ByteRange{} : touched_bytes(DType::kI32, {{p.requests + 1, 1}}),
      p.scales == CacheScales::kNone ? ByteRange{} : touched_bytes(DType::kF32, {s[0], s[1], s[2]})};
  const char* const names[kMovePointerSlots] = {op.from, op.to, op.index, "cumulative_lengths", "scale"};
  const bool one = op.pairs && pointers[kMoveFrom] == pointers[kMoveTo] && p.from_blocks == p.to_blocks &&
                   std::memcmp(&p.from, &p.to, sizeof(p.from)) == 0;
  for (size_t i = 0; i < kMovePointerSlots; ++i) {
    if (pointers[i] == nullptr && !bytes[i].empty()) {
      return refuse_move_call(op, "argument '{}' has a null data pointer", names[i]);
    }
    if (i == kMoveTo || (i == kMoveFrom && one)) continue;
    if (ranges_overlap(pointers[kMoveTo], bytes[kMoveTo], pointers[i], bytes[i])) {
      return refuse_move_call(op, "argument '{}' overlaps '{}'", op.to, names[i]);
    }
  }
  return {};
}

Status finish_move(const CacheMoveOp& op, bool check_addresses, DeviceId device, CacheMoveProblem& p,
                   const CacheMovePointers& pointers) {
  if (device.kind != DeviceKind::kCpu) {
    for (const size_t slot : {kMoveFrom, kMoveTo}) {
      p.unaligned |= (reinterpret_cast<uintptr_t>(pointers[slot]) & 15) != 0;
    }
  }
  if (Status s = validate_move_problem(op, p); !s) return s;
  return check_addresses && !p.empty() ? check_move_addresses(op, p, pointers) : Status();
}

}  // namespace

Status make_copy_problem(const CacheMoveOp& op, const KvCacheCopyCall& call, bool check_addresses, CacheMoveProblem& p,
                         CacheMovePointers& pointers) {
  const TensorView &from = call.from, &to = call.to, &map = call.mapping;
  if (Status s = check_move_places(op, {{op.from, &from}, {op.to, &to}, {op.index, &map}}); !s) return s;
  const auto inner = [](const TensorView& t) {
    return std::span(t.shape.begin() + 1, static_cast<size_t>(t.rank - 1));
  };
  if (from.rank < 1 || from.rank != to.rank || from.dtype != to.dtype || !std::ranges::equal(inner(from), inner(to))) {
    return refuse_move_call(op, "argument '{}' is {} {}, expected blocks as those of '{}', {} {}", op.to,
                            dtype_name(to.dtype), move_shape(to), op.from, dtype_name(from.dtype), move_shape(from));
  }
  const bool words = map.rank == 3 && map.shape[2] == 2 && map.stride[2] == 1;
  if (map.dtype != DType::kI32 || (map.rank != 2 && !words) || map.shape[1] != 2) {
    return refuse_move_call(op, "argument '{}' is {} {}, expected [pairs, 2], i32, or [pairs, 2, 2], the words of i64",
                            op.index, dtype_name(map.dtype), move_shape(map));
  }
  p = CacheMoveProblem();
  p.items = map.shape[0], p.stride_index = p.items > 1 ? map.stride[0] : 0, p.stride_column = map.stride[1];
  p.wide = words, p.in = p.out = from.dtype;
  p.from_blocks = from.shape[0], p.to_blocks = to.shape[0];
  if (Status s = collapse_block(op, from, to, p); !s) return s;
  pointers = {from.data, to.data, map.data, nullptr, nullptr};
  return finish_move(op, check_addresses, from.device, p, pointers);
}

Status make_gather_problem(const CacheMoveOp& op, const KvCacheGatherCall& call, bool check_addresses,
                           CacheMoveProblem& p, CacheMovePointers& pointers) {
  const TensorView &out = call.out, &table = call.block_table, &lengths = call.cumulative_lengths;
  if (Status s = check_move_places(op, {{op.from, &call.cache},
                                        {op.to, &out},
                                        {op.index, &table},
                                        {"cumulative_lengths", &lengths},
                                        {"scale", &call.scale, false}});
      !s) {
    return s;
  }
  if (out.rank != 3 && out.rank != 2) {
    return refuse_move_call(op, "argument '{}' has shape {}, expected [tokens, heads, D]", op.to, move_shape(out));
  }
  const auto last = static_cast<size_t>(out.rank - 1);
  p = CacheMoveProblem();
  p.items = p.to_blocks = out.shape[0], p.heads = out.rank == 3 ? out.shape[1] : 1, p.n = out.shape[last];
  p.in = call.cache.dtype, p.out = out.dtype, p.scales = call.scales;
  const Result<PagedView> view = read_paged_view(op.name, op.from, call.cache, call.layout, p.heads, p.n);
  if (!view) return view.status();
  p.from = view->strides, p.from_blocks = view->blocks, p.block_size = view->block_size;
  p.to = {.block = p.items > 1 ? out.stride[0] : 0,
          .head = out.rank == 3 ? out.stride[1] : 0,
          .element = p.n > 1 ? out.stride[last] : 1,
          .elements = std::max<int64_t>(p.n, 1)};
  if (table.rank != 2 || table.dtype != DType::kI32) {
    return refuse_move_call(op, "argument '{}' is {} {}, expected i32 [requests, blocks]", op.index,
                            dtype_name(table.dtype), move_shape(table));
  }
  p.requests = table.shape[0], p.columns = table.shape[1];
  p.stride_index = table.stride[0], p.stride_column = table.stride[1];
  if (lengths.rank != 1 || lengths.dtype != DType::kI32 || lengths.shape[0] != p.requests + 1 ||
      (p.requests > 0 && lengths.stride[0] != 1)) {
    return refuse_move_call(op, "argument 'cumulative_lengths' is {} {}, expected i32 [{}], neighbours",
                            dtype_name(lengths.dtype), move_shape(lengths), p.requests + 1);
  }
  if (Status s = read_move_scale(op, call.scale, p); !s) return s;
  pointers = {call.cache.data, out.data, table.data, lengths.data, call.scale.data};
  return finish_move(op, check_addresses, call.cache.device, p, pointers);
}

}  // namespace tilewright
