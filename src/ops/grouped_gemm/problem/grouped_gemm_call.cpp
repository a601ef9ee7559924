// SPDX-License-Identifier: MIT
// From a call to a problem: gemm reads and checks what one GEMM has, as a batched one; this file adds what groups add.
#include <fmt/format.h>

#include <algorithm>

#include "core/tensor/strided.hpp"
#include "ops/gemm/problem/gemm_aliasing.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_group(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "grouped_gemm: " + fmt::format(format, std::forward<Args>(args)...));
}

// What gemm says, in this operator's name.
Status in_own_name(const Status& s) {
  constexpr std::string_view kGemm = "gemm: ";
  if (s.ok() || !s.message().starts_with(kGemm)) return s;
  return Status(s.code(), "grouped_gemm: " + s.message().substr(kGemm.size()));
}

std::string shape_of(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

const char* mode_name(GroupMode mode) { return kGroupModeNames[static_cast<int>(mode)]; }

// A dimension in front. `stride` 0: all groups share it.
TensorView with_groups(TensorView t, int64_t groups) {
  std::copy_backward(t.shape.begin(), t.shape.begin() + t.rank, t.shape.begin() + t.rank + 1);
  std::copy_backward(t.stride.begin(), t.stride.begin() + t.rank, t.stride.begin() + t.rank + 1);
  t.shape[0] = groups, t.stride[0] = 0;
  ++t.rank;
  return t;
}

// [G, N], or [G, 1], as [G, 1, N].
TensorView row_of_each_group(TensorView t) {
  if (!t.defined() || t.rank != 2) return t;
  t.shape[2] = t.shape[1], t.stride[2] = t.stride[1];
  t.shape[1] = 1, t.stride[1] = 0;
  t.rank = 3;
  return t;
}

// A tensor whose rows, `rows` of them, an index names: for gemm it has one for each row of the call.
Status name_rows(const char* name, TensorView& t, int64_t rows, int64_t all) {
  if (!t.defined() || t.rank < 2) return {};
  int64_t& have = t.shape[t.rank - 2];
  if (have != rows && have != 1) {
    return refuse_group("argument '{}' has shape {}, expected {} rows", name, shape_of(t), rows);
  }
  if (have == 1) t.stride[t.rank - 2] = 0;
  if (have == rows) have = all;
  return {};
}

// What goes by row has no group of its own.
Status check_row_rank(const char* name, const TensorView& t) {
  if (t.rank <= 2) return {};
  return refuse_group("argument '{}' has rank {} {}, allowed in mode contiguous: at most 2", name, t.rank, shape_of(t));
}

// The call as gemm's, in contiguous mode: `rows` are T.
Status flatten_contiguous(const GroupedGemmCall& call, GemmCall& c, GroupedGemmProblem& p) {
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"a", c.a}, {"d", c.d}}) {
    if (!t.defined()) return refuse_group("argument '{}' is missing", name);
    if (t.rank != 2) {
      return refuse_group("argument '{}' has rank {} {}, allowed in mode contiguous: 2", name, t.rank, shape_of(t));
    }
  }
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"scale_a", c.scale_a}, {"c", c.c}}) {
    if (Status s = check_row_rank(name, t); !s) return s;
  }
  for (const GemmStep& step : c.steps) {
    if (Status s = check_row_rank("steps", step.tensor); !s) return s;
  }
  p.a_rows = c.a.shape[0], p.d_rows = c.d.shape[0];
  const TensorView& index = call.gather.defined() ? call.gather : call.scatter;
  const int64_t all = index.defined() ? index.shape[0] : p.a_rows;
  if (!call.gather.defined() && p.a_rows != all) {
    return refuse_group("argument 'scatter' has shape {}, expected [{}]: one for each row of 'a'", shape_of(index),
                        p.a_rows);
  }
  if (!call.scatter.defined() && p.d_rows != all) {
    return refuse_group("argument 'd' has shape {}, expected {} rows", shape_of(c.d), all);
  }
  // gemm would name the shape with the groups in front.
  const int64_t columns = c.b.rank < 2 ? -1 : c.b.shape[c.b.rank - 1] / (c.gate == GateMode::kNone ? 1 : 2);
  if (columns >= 0 && c.d.shape[1] != columns) {
    return refuse_group("argument 'd' has shape {}, expected {} columns", shape_of(c.d), columns);
  }
  Status s = name_rows("a", c.a, p.a_rows, all);
  if (s && call.gather.defined()) s = name_rows("scale_a", c.scale_a, p.a_rows, all);
  if (s) s = name_rows("d", c.d, p.d_rows, all);
  if (s && call.scatter.defined()) s = name_rows("c", c.c, p.d_rows, all);
  for (GemmStep& step : c.steps) {
    if (s && call.scatter.defined()) s = name_rows("steps", step.tensor, p.d_rows, all);
  }
  c.d = with_groups(c.d, c.b.rank == 3 ? c.b.shape[0] : 1);
  return s;
}

// A vector of i32: sizes, offsets, indices. -1 as `count`: any length.
Status read_numbers(const char* name, const TensorView& t, int64_t count, bool check_addresses, DeviceId device,
                    int64_t& stride) {
  if (t.dtype != DType::kI32 || t.layout != Layout::kStrided) {
    return refuse_group("argument '{}' is {}, allowed: i32", name, dtype_name(t.dtype));
  }
  if (t.rank != 1) return refuse_group("argument '{}' has rank {} {}, allowed: 1", name, t.rank, shape_of(t));
  if (count >= 0 && t.shape[0] != count) {
    return refuse_group("argument '{}' has shape {}, expected [{}]", name, shape_of(t), count);
  }
  if (!(t.device == device)) {
    return refuse_group("argument '{}' is on {}, D is on {}", name, to_string(t.device), to_string(device));
  }
  if (check_addresses && t.data == nullptr && t.shape[0] != 0) {
    return refuse_group("argument '{}' has a null data pointer", name);
  }
  stride = t.stride[0];
  return {};
}

Status read_extents(const GroupedGemmCall& call, bool check_addresses, GroupedGemmProblem& p) {
  const int64_t groups = p.gemm.batch;
  const DeviceId device = call.gemm.d.device;
  const bool sizes = call.sizes.defined(), offsets = call.offsets.defined();
  if (!sizes && (!offsets || call.mode == GroupMode::kMasked)) {
    return refuse_group("argument 'sizes' is missing{}", call.mode == GroupMode::kMasked ? "" : ", or 'offsets'");
  }
  if (offsets && call.mode == GroupMode::kMasked) {
    return refuse_group("argument 'offsets' is for modes contiguous and ragged_k, mode is masked");
  }
  if (sizes) {
    if (Status s = read_numbers("sizes", call.sizes, groups, check_addresses, device, p.stride_sizes); !s) return s;
    p.extents = GroupExtents::kSizes;
  }
  if (!offsets) return {};
  if (Status s = read_numbers("offsets", call.offsets, -1, check_addresses, device, p.stride_offsets); !s) return s;
  const int64_t count = call.offsets.shape[0];
  if (count != groups && count != groups + 1) {
    return refuse_group("argument 'offsets' has shape {}, expected [{}] or [{}]", shape_of(call.offsets), groups,
                        groups + 1);
  }
  p.extents = sizes ? GroupExtents::kBoth : count == groups ? GroupExtents::kEnds : GroupExtents::kOffsets;
  return {};
}

}  // namespace

Status read_grouped_gemm_call(const GroupedGemmCall& call, bool check_addresses, GroupedGemmProblem& p,
                              GroupedGemmBindings& bindings) {
  if (static_cast<int>(call.mode) >= enum_count(call.mode)) {
    return refuse_group("argument 'mode' is {}, allowed: contiguous, masked, ragged_k", static_cast<int>(call.mode));
  }
  p.mode = call.mode;
  GemmCall c = call.gemm;
  const bool contiguous = call.mode == GroupMode::kContiguous;
  for (const auto& [name, t, has] :
       {std::tuple<const char*, const TensorView&, uint8_t*>{"gather", call.gather, &p.has_gather},
        {"scatter", call.scatter, &p.has_scatter}}) {
    *has = t.defined();
    if (!t.defined()) continue;
    if (!contiguous) return refuse_group("argument '{}' is for mode contiguous, mode is {}", name, mode_name(p.mode));
    int64_t& stride = has == &p.has_gather ? p.stride_gather : p.stride_scatter;
    if (Status s = read_numbers(name, t, -1, check_addresses, c.d.device, stride); !s) return s;
  }
  if (call.gather.defined() && call.scatter.defined() && call.gather.shape[0] != call.scatter.shape[0]) {
    return refuse_group("argument 'scatter' has shape {}, expected [{}], as 'gather'", shape_of(call.scatter),
                        call.gather.shape[0]);
  }
  if (contiguous) {
    if (Status s = flatten_contiguous(call, c, p); !s) return s;
  }
  c.bias = row_of_each_group(c.bias);
  if (c.scale_group_b.k == 0) c.scale_b = row_of_each_group(c.scale_b);
  GemmBindings within;
  if (Status s = in_own_name(read_gemm_call(c, check_addresses, p.gemm, within)); !s) return s;
  if (!contiguous) p.a_rows = p.d_rows = p.gemm.m;
  if (Status s = read_extents(call, check_addresses, p); !s) return s;
  p.alignment = call.alignment;
  p.expected_rows = call.expected_rows;
  if (const TensorView& t = call.status; t.defined()) {
    if (t.dtype != DType::kI32 || t.numel() != 1 || !(t.device == c.d.device) || t.layout != Layout::kStrided) {
      return refuse_group("argument 'status' is {} {} on {}, expected one i32 on {}", dtype_name(t.dtype), shape_of(t),
                          to_string(t.device), to_string(c.d.device));
    }
    if (check_addresses && t.data == nullptr) return refuse_group("argument 'status' has a null data pointer");
    p.has_status = 1;
  }
  std::copy(within.pointers.begin(), within.pointers.end(), bindings.pointers.begin());
  bindings.pointers[kSlotSizes] = call.sizes.data;
  bindings.pointers[kSlotOffsets] = call.offsets.data;
  bindings.pointers[kSlotGather] = call.gather.data;
  bindings.pointers[kSlotScatter] = call.scatter.data;
  bindings.pointers[kSlotStatus] = call.status.data;
  bindings.scalars = within.scalars;
  return {};
}

Status validate_grouped_gemm_problem(const GroupedGemmProblem& p) {
  if (p.mode == GroupMode::kMasked && p.extents != GroupExtents::kSizes) {
    return refuse_group("mode masked has sizes, not {}", kGroupExtentsNames[static_cast<int>(p.extents)]);
  }
  if (p.alignment < 1 || p.alignment > (int64_t{1} << 20)) {
    return refuse_group("argument 'alignment' is {}, allowed: 1 to 2^20", p.alignment);
  }
  if (p.alignment != 1 && (p.mode == GroupMode::kMasked || p.extents != GroupExtents::kSizes)) {
    return refuse_group("argument 'alignment' is {}: only sizes alone, not of mode masked, leave room for it",
                        p.alignment);
  }
  if (p.expected_rows < 0)
    return refuse_group("argument 'expected_rows' is {}: it may not be negative", p.expected_rows);
  if (p.indexed() && p.mode != GroupMode::kContiguous) {
    return refuse_group("indices are for mode contiguous, mode is {}", mode_name(p.mode));
  }
  const GemmProblem& g = p.gemm;
  if (p.mode == GroupMode::kRaggedK) {
    // A group may begin anywhere along K.
    if (g.has_block_scales()) return refuse_group("scales of groups along K are for modes contiguous and masked");
    if (g.b_packed) return refuse_group("argument 'b' is packed, allowed in mode ragged_k: strided");
    if (std::min(dtype_bits(g.a_dtype), dtype_bits(g.b_dtype)) < 8) {
      return refuse_group("argument 'a' is {}, 'b' {}: mode ragged_k wants types of whole bytes", dtype_name(g.a_dtype),
                          dtype_name(g.b_dtype));
    }
  }
  const auto numbers_fit = [](int64_t count, int64_t stride) { return reach_fits({{count, stride}}); };
  if (!numbers_fit(g.batch, p.stride_sizes) || !numbers_fit(g.batch + 1, p.stride_offsets) ||
      !numbers_fit(g.m, p.stride_gather) || !numbers_fit(g.m, p.stride_scatter)) {
    return refuse_group("strides of sizes, offsets or indices reach beyond 2^56 elements");
  }
  if (p.mode != GroupMode::kContiguous) return in_own_name(validate_gemm_problem(g));

  // What goes by row is one matrix, the weights and what stands beside them are one for each group.
  GemmProblem rows = g;
  rows.batch = 1, rows.m = p.d_rows;
  if (Status s = in_own_name(validate_gemm_problem(rows)); !s) return s;
  if (!reach_fits({{p.a_rows, g.stride_a_m}, {g.k, g.stride_a_k}})) {
    return refuse_group("strides of 'a' reach beyond 2^56 elements");
  }
  GemmProblem weights = g;
  weights.m = 1;
  weights.stride_d_n = 1, weights.stride_d_m = weights.stride_d_batch = g.out_n();
  return in_own_name(validate_gemm_problem(weights));
}

Status check_grouped_gemm_addresses(const GroupedGemmProblem& p, const GroupedGemmBindings& b) {
  GemmProblem within = p.gemm;
  within.m = p.mode == GroupMode::kContiguous ? p.d_rows : within.m;
  // Of A, gemm sees the first row; all of it follows.
  within.stride_a_m = p.indexed() ? 0 : within.stride_a_m;
  within.scale_a.stride_outer = p.indexed() ? 0 : within.scale_a.stride_outer;
  if (Status s = in_own_name(check_gemm_addresses(within, b.gemm())); !s) return s;

  const GemmProblem& g = p.gemm;
  const ByteRange d =
      touched_bytes(g.d_dtype, {{g.batch, g.stride_d_batch}, {p.d_rows, g.stride_d_m}, {g.out_n(), g.stride_d_n}});
  const ScaleCounts scales = scale_counts(g.scale_a, p.a_rows, g.k);
  const struct {
    const char* name;
    bool present;
    uint16_t slot;
    ByteRange range;
  } others[] = {
      {"a", p.indexed() && g.k != 0, kSlotA, touched_bytes(g.a_dtype, {{p.a_rows, g.stride_a_m}, {g.k, g.stride_a_k}})},
      {"scale_a", p.indexed() && g.scale_a.present(), kSlotScaleA,
       touched_bytes(g.scale_a.dtype, {{scales.outer, g.scale_a.stride_outer}, {scales.k, g.scale_a.stride_k}})},
      {"sizes", p.has_sizes(), kSlotSizes, touched_bytes(DType::kI32, {{g.batch, p.stride_sizes}})},
      {"offsets", p.has_offsets(), kSlotOffsets,
       touched_bytes(DType::kI32, {{p.extents == GroupExtents::kOffsets ? g.batch + 1 : g.batch, p.stride_offsets}})},
      {"gather", p.has_gather != 0, kSlotGather, touched_bytes(DType::kI32, {{g.m, p.stride_gather}})},
      {"scatter", p.has_scatter != 0, kSlotScatter, touched_bytes(DType::kI32, {{g.m, p.stride_scatter}})},
      {"status", p.has_status != 0, kSlotStatus, {0, 4}},
  };
  for (const auto& other : others) {
    if (!other.present || !ranges_overlap(b.pointers[kSlotD], d, b.pointers[other.slot], other.range)) continue;
    return refuse_group("argument 'd' overlaps '{}'", other.name);
  }
  return {};
}

Status make_grouped_gemm_problem(const GroupedGemmCall& call, bool check_addresses, GroupedGemmProblem& p,
                                 GroupedGemmBindings& bindings) {
  p = {}, bindings = {};
  if (Status s = read_grouped_gemm_call(call, check_addresses, p, bindings); !s) return s;
  if (Status s = validate_grouped_gemm_problem(p); !s) return s;
  if (p.empty() || p.d_rows == 0) return {};
  return check_addresses ? check_grouped_gemm_addresses(p, bindings) : Status();
}

}  // namespace tilewright
