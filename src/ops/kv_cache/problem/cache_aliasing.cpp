// SPDX-License-Identifier: MIT
// Null pointers, and what a call writes over what else it has.
#include <fmt/format.h>

#include <span>

#include "ops/kv_cache/problem/cache_problem.hpp"

namespace tilewright {
namespace {

struct CacheTouched {
  const char* name;
  const void* data;
  DType dtype;
  std::array<Extent, 6> extents;
  bool written;

  ByteRange bytes() const {
    return touched_bytes(dtype, {extents[0], extents[1], extents[2], extents[3], extents[4], extents[5]});
  }
};

// Whether both step through memory by multiples of some stride and lie beside each other between two of them, as heads of queries
// and keys in a packed tensor, or keys and values of a block.
bool apart_between_steps(const CacheTouched& a, const CacheTouched& b) {
  // Of what moves by no multiple of `step`: how many bytes; -1: not to be told.
  const auto span = [](const CacheTouched& t, int64_t step) -> int64_t {
    const int64_t bytes = dtype_bits(t.dtype) / 8;
    int64_t reach = bytes;
    for (const Extent& e : t.extents) {
      if (e.size <= 1 || e.stride * bytes % step == 0) continue;
      if (e.stride < 0) return -1;
      reach += (e.size - 1) * e.stride * bytes;
    }
    return reach;
  };
  for (const Extent& e : a.extents) {
    const int64_t step = e.stride * (dtype_bits(a.dtype) / 8);
    if (e.size <= 1 || step <= 0) continue;
    const int64_t of_a = span(a, step), of_b = span(b, step);
    if (of_a < 0 || of_b < 0) continue;
    const int64_t from = static_cast<const char*>(b.data) - static_cast<const char*>(a.data);
    const int64_t apart = (from % step + step) % step;
    if (apart >= of_a && apart + of_b <= step) return true;
  }
  return false;
}

bool same_elements(const CacheTouched& a, const CacheTouched& b) {
  if (a.data != b.data || a.dtype != b.dtype) return false;
  for (size_t i = 0; i < a.extents.size(); ++i) {
    const Extent &x = a.extents[i], &y = b.extents[i];
    if (x.size != y.size || (x.size > 1 && x.stride != y.stride)) return false;
  }
  return true;
}

}  // namespace

Status check_cache_addresses(const CacheOp& op, const CacheProblem& p, const CacheBindings& b) {
  constexpr Extent kOne{1, 0};
  // On the path of every call: nothing is allocated.
  std::array<CacheTouched, kCachePointerSlots> touched{};
  size_t count = 0;
  const auto add = [&](const char* name, size_t slot, DType dtype, std::array<Extent, 6> extents, bool written) {
    touched[count++] = {name, b.pointers[slot], dtype, extents, written};
  };
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
    const auto i = static_cast<size_t>(tensor);
    const CacheHeadsProblem& h = p.heads[i];
    if (!h.present()) continue;
    add(op.in[i], kCacheIn + i, p.x,
        {{{p.tokens, h.stride_token}, {h.heads, h.stride_head}, kOne, kOne, kOne, {h.n, 1}}}, false);
    add(op.out[i], kCacheOut + i, p.out_of(tensor), p.out_extents(tensor), true);
    if (p.scales_of(tensor) == CacheScales::kNone) continue;
    const auto s = p.scale_extents(tensor);
    add(op.scale[i], kCacheScale + i, DType::kF32, {{s[0], s[1], s[2], kOne, kOne, kOne}},
        p.scales_of(tensor) == CacheScales::kToken);
  }
  const auto add_numbers = [&](const char* name, size_t slot, int64_t stride, bool wide, Extent axes) {
    add(name, slot, DType::kI32, {{axes, {p.tokens, stride}, {wide ? 2 : 1, 1}, kOne, kOne, kOne}}, false);
  };
  add_numbers("slot_mapping", kCacheSlots, p.stride_slot, p.wide_slots != 0, kOne);
  if (p.positions) {
    add_numbers("positions", kCachePositions, p.stride_position, p.wide_positions != 0, {p.axes(), p.stride_axis});
  }
  const auto add_table = [&](const char* name, size_t slot) {
    add(name, slot, p.table, {{{p.table_rows, p.stride_table}, {p.dims / 2, 1}, kOne, kOne, kOne, kOne}}, false);
  };
  if (p.turns()) add_table("cos", kCacheCosine), add_table("sin", kCacheSine);
  const auto add_weight = [&](const char* name, size_t slot) {
    add(name, slot, p.weight, {{{p.heads[kCacheKeys].n, 1}, kOne, kOne, kOne, kOne, kOne}}, false);
  };
  if (p.q_weight) add_weight("q_weight", kCacheQWeight);
  if (p.k_weight) add_weight("k_weight", kCacheKWeight);

  const std::span<const CacheTouched> all(touched.data(), count);
  const auto refuse = [&op](const std::string& message) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: {}", op.name, message));
  };
  for (const CacheTouched& t : all) {
    if (t.data == nullptr && !t.bytes().empty()) {
      return refuse(fmt::format("argument '{}' has a null data pointer", t.name));
    }
  }
  for (const CacheTouched& w : all) {
    if (!w.written) continue;
    for (const CacheTouched& t : all) {
      if (&t == &w || !ranges_overlap(w.data, w.bytes(), t.data, t.bytes())) continue;
      // Queries may be written where they are read.
      const bool in_place = p.heads[kCacheQueries].present() && &t == &all[0] && &w == &all[1] && same_elements(w, t);
      if (!in_place && !apart_between_steps(w, t) && !apart_between_steps(t, w)) {
        return refuse(fmt::format("argument '{}' overlaps '{}'", w.name, t.name));
      }
    }
  }
  return {};
}

}  // namespace tilewright
