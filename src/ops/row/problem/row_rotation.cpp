// SPDX-License-Identifier: MIT
#include "ops/row/problem/row_rotation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/fields.hpp"

namespace tilewright {
namespace {

constexpr int64_t kRotationUnset = std::numeric_limits<int64_t>::min();

template <class... Args>
Status refuse_rotation(const RowOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

std::string rotation_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

struct HeadsTensor {
  const char* name;
  const TensorView* view;
  RowTensorProblem* to;
  bool second;  // k's
};

// [..., heads, head_dim] as q, but for the number of heads.
Status read_heads(const RowOp& op, const HeadsTensor& t, const TensorView& q, int64_t& heads) {
  const TensorView& view = *t.view;
  if (view.layout != Layout::kStrided) return refuse_rotation(op, "argument '{}' is packed, allowed: strided", t.name);
  if (!(view.device == q.device)) {
    return refuse_rotation(op, "argument '{}' is on {}, 'q' is on {}", t.name, to_string(view.device),
                           to_string(q.device));
  }
  TensorView want = q;
  const auto head = static_cast<size_t>(q.rank - 2), last = static_cast<size_t>(q.rank - 1);
  if (heads < 0 && view.rank == q.rank) heads = view.shape[head];
  want.shape[head] = heads;
  if (view.rank != q.rank || !std::equal(want.shape.begin(), want.shape.begin() + want.rank, view.shape.begin())) {
    return refuse_rotation(op, "argument '{}' has shape {}, expected {}", t.name, rotation_shape(view),
                           rotation_shape(want));
  }
  if (view.shape[last] > 1 && view.stride[last] != 1) {
    return refuse_rotation(op, "argument '{}' has stride {} along its last dimension, allowed: 1", t.name,
                           view.stride[last]);
  }
  t.to->dtype = view.dtype;
  t.to->stride[2] = heads > 1 ? view.stride[head] : 0;
  return {};
}

Status read_tables(const RowOp& op, const RowCall& call, RowProblem& p) {
  const TensorView &c = call.cosine, &s = call.sine;
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"cos", c}, {"sin", s}}) {
    if (!t.defined()) return refuse_rotation(op, "argument '{}' is missing", name);
    if (t.rank != 2 || t.shape != c.shape || t.dtype != c.dtype || !(t.device == call.x.device)) {
      return refuse_rotation(op, "argument '{}' is {} {} on {}, expected [positions, pairs] beside 'q', as 'cos'", name,
                             dtype_name(t.dtype), rotation_shape(t), to_string(t.device));
    }
    if ((t.shape[1] > 1 && t.stride[1] != 1) || (t.shape[0] > 1 && t.stride[0] != c.stride[0])) {
      return refuse_rotation(op, "argument '{}' has strides [{}, {}], allowed: those of 'cos', 1 along pairs", name,
                             t.stride[0], t.stride[1]);
    }
  }
  RowRotationProblem& r = p.rotation;
  r.table = c.dtype, r.table_rows = c.shape[0], r.dims = 2 * c.shape[1];
  r.stride_table = c.shape[0] > 1 ? c.stride[0] : 0;
  return {};
}

// The dimensions of tokens, of which two may stay apart. Without positions the last of them counts those.
Status collapse_tokens(const RowOp& op, const TensorView& q, std::span<const HeadsTensor> tensors,
                       const TensorView& positions, RowProblem& p) {
  const int dims = q.rank - 2;
  const bool given = positions.defined();
  const size_t axis = given && positions.rank > dims ? 1 : 0;  // that its dimensions begin behind
  std::array<int, 2> from{-1, -1};
  std::array<int64_t, kMaxRank> size = q.shape;
  int kept = 0;
  for (int i = 0; i < dims; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool counts = !given && i == dims - 1;
    if (size[at] == 1 && !counts) continue;
    const auto joins = [&](const TensorView& t) {
      return t.stride[static_cast<size_t>(from[static_cast<size_t>(kept - 1)])] == t.stride[at] * size[at];
    };
    const auto positions_join = [&] {
      const size_t before = static_cast<size_t>(from[static_cast<size_t>(kept - 1)]) + axis;
      return positions.stride[before] == positions.stride[at + axis] * size[at];
    };
    if (kept > 0 && !counts && std::ranges::all_of(tensors, [&](const HeadsTensor& t) { return joins(*t.view); }) &&
        (!given || positions_join())) {
      size[at] *= size[static_cast<size_t>(from[static_cast<size_t>(kept - 1)])];
      from[static_cast<size_t>(kept - 1)] = i;
      continue;
    }
    if (kept == 2) {
      return refuse_rotation(op, "argument 'q' has more than 2 dimensions of tokens that strides keep apart");
    }
    from[static_cast<size_t>(kept++)] = i;
  }
  for (int k = 0; k < kept; ++k) {
    const auto to = static_cast<size_t>(2 - kept + k), at = static_cast<size_t>(from[static_cast<size_t>(k)]);
    p.size[to] = size[at];
    if (size[at] <= 1) continue;
    for (const HeadsTensor& t : tensors) t.to->stride[to] = t.view->stride[at];
    if (given) p.rotation.stride_position[to] = positions.stride[at + axis];
  }
  return {};
}

// [...] of the tokens, or with sections [axes, ...].
Status read_positions(const RowOp& op, const TensorView& q, const TensorView& positions, RowProblem& p) {
  if (!positions.defined()) return {};
  const int axes = p.rotation.axes(), first = axes > 1 ? 1 : 0;
  const auto of_tokens = positions.shape.begin() + first;
  if (positions.rank != q.rank - 2 + first || (first == 1 && positions.shape[0] != axes) ||
      !std::equal(of_tokens, positions.shape.begin() + positions.rank, q.shape.begin()) ||
      positions.dtype != DType::kI32 || !(positions.device == q.device)) {
    return refuse_rotation(op, "argument 'positions' is {} {} on {}, expected i32, {} for each token of 'q' {}",
                           dtype_name(positions.dtype), rotation_shape(positions), to_string(positions.device),
                           axes > 1 ? fmt::format("[{}, ...], {} numbers", axes, axes) : "a number", rotation_shape(q));
  }
  p.rotation.positions = 1;
  p.rotation.stride_axis = axes > 1 ? positions.stride[0] : 0;
  return {};
}

// [sequences + 1] and [sequences], i32, of tokens along one dimension.
Status read_sequences(const RowOp& op, const RowCall& call, RowProblem& p) {
  const TensorView& lengths = call.cumulative_lengths;
  if (!lengths.defined() && !call.offsets.defined()) return {};
  if (!lengths.defined() || lengths.rank != 1 || lengths.shape[0] < 1 || call.x.rank != 3) {
    return refuse_rotation(
        op, "argument 'cumulative_lengths' has shape {}, expected [sequences + 1], of 'q' [tokens, heads, D]",
        rotation_shape(lengths));
  }
  p.rotation.packed = 1, p.rotation.sequences = lengths.shape[0] - 1;
  p.rotation.offsets = call.offsets.defined();
  for (const auto& [name, t, size] :
       {std::tuple<const char*, const TensorView&, int64_t>{"cumulative_lengths", lengths, lengths.shape[0]},
        {"offsets", call.offsets, p.rotation.sequences}}) {
    if (!t.defined()) continue;
    if (t.rank != 1 || t.shape[0] != size || (size > 1 && t.stride[0] != 1) || t.dtype != DType::kI32 ||
        !(t.device == call.x.device)) {
      return refuse_rotation(op, "argument '{}' is {} {} on {}, expected i32 [{}], neighbours, beside 'q'", name,
                             dtype_name(t.dtype), rotation_shape(t), to_string(t.device), size);
    }
  }
  return {};
}

}  // namespace

Status make_rotation_problem(const RowOp& op, const RowCall& call, bool check_addresses, RowProblem& p,
                             RowBindings& b) {
  const TensorView& q = call.x;
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"q", q}, {"q_out", call.out}}) {
    if (!t.defined()) return refuse_rotation(op, "argument '{}' is missing", name);
  }
  if (q.rank < 2) return refuse_rotation(op, "argument 'q' has rank {}, allowed: 2 to {}", q.rank, kMaxRank);
  if (call.residual.defined() != call.residual_out.defined()) {
    return refuse_rotation(op, "argument '{}' is missing", call.residual.defined() ? "k_out" : "k");
  }
  p = RowProblem();
  p.n = q.shape[static_cast<size_t>(q.rank - 1)];
  if (Status s = read_tables(op, call, p); !s) return s;
  p.rotation.interleaved = call.interleaved, p.rotation.inverse = call.inverse;

  const std::array<HeadsTensor, 4> all{{{"q", &q, &p.x, false},
                                        {"q_out", &call.out, &p.out, false},
                                        {"k", &call.residual, &p.residual, true},
                                        {"k_out", &call.residual_out, &p.residual_out, true}}};
  const std::span tensors(all.data(), call.residual.defined() ? 4 : 2);
  int64_t heads[2] = {-1, -1};
  for (const HeadsTensor& t : tensors) {
    if (Status s = read_heads(op, t, q, heads[t.second]); !s) return s;
  }
  const TensorView& positions = call.positions;
  if (Status s = read_sections(op.name, call.section_pairs, p.rotation.section_pairs); !s) return s;
  p.rotation.sections = p.rotation.axes() > 1 ? call.sections : RopeSections::kRuns;
  if (Status s = read_positions(op, q, positions, p); !s) return s;
  if (Status s = read_sequences(op, call, p); !s) return s;
  if (Status s = collapse_tokens(op, q, tensors, positions, p); !s) return s;
  p.rotation.heads = heads[0];
  p.size[2] = heads[0] + std::max<int64_t>(heads[1], 0);
  if (p.rows() == 0) p.size = {1, 1, 0}, p.rotation.heads = 0;
  b.pointers = {q.data,  call.residual.data, call.residual_out.data, call.out.data, nullptr, nullptr, nullptr,
                nullptr, call.cosine.data,   call.sine.data};
  b.scalars = {};
  if (q.device.kind != DeviceKind::kCpu) {
    for (const void* pointer : b.pointers) p.unaligned |= (reinterpret_cast<uintptr_t>(pointer) & 15) != 0;
  }
  b.pointers[kRowPositions] = positions.data;
  b.pointers[kRowSequences] = call.cumulative_lengths.data, b.pointers[kRowOffsets] = call.offsets.data;
  if (Status s = validate_row_problem(op, p); !s) return s;
  return check_addresses && p.rows() > 0 ? check_row_addresses(op, p, b) : Status();
}

Status validate_rotation(const RowOp& op, const RowProblem& p) {
  const RowRotationProblem& r = p.rotation;
  if (op.rotates != p.rotates())
    return refuse_rotation(op, "tables of angles are {}", op.rotates ? "missing" : "given");
  if (!op.rotates) return {};
  if (r.table != DType::kF32 && r.table != DType::kF16 && r.table != DType::kBf16) {
    return refuse_rotation(op, "argument 'cos' is {}, allowed: f32, f16, bf16", dtype_name(r.table));
  }
  if (r.dims < 0 || r.dims > p.n || r.dims % 2 != 0) {
    return refuse_rotation(op, "argument 'cos' turns {} elements of {}, allowed: an even number up to that", r.dims,
                           p.n);
  }
  if (r.heads < 0 || r.heads > p.size[2] || (!p.residual.present() && r.heads != p.size[2])) {
    return refuse_rotation(op, "size heads is {} of {}", r.heads, p.size[2]);
  }
  if (Status s = check_sections(op.name, r.section_pairs, r.sections, r.dims); !s) return s;
  if (r.axes() > 1 && !r.positions) return refuse_rotation(op, "argument 'sections' is given without 'positions'");
  if (r.packed && (r.positions || p.size[0] != 1)) {
    return refuse_rotation(op, "argument 'cumulative_lengths' is given with 'positions', or tokens of two dimensions");
  }
  if (r.offsets && !r.packed) {
    return refuse_rotation(op, "argument 'offsets' is given without 'cumulative_lengths'");
  }
  if (r.sequences < 0 || r.sequences >= int64_t{1} << 40) return refuse_rotation(op, "sequences are {}", r.sequences);
  if (p.rows() > 0 && r.dims > 0 && r.table_rows < 1) return refuse_rotation(op, "argument 'cos' has no rows");
  if (p.out.dtype != p.x.dtype || (p.residual.present() && p.residual.dtype != p.x.dtype)) {
    return refuse_rotation(op, "tensors are {}, {} and {}, expected one dtype", dtype_name(p.x.dtype),
                           dtype_name(p.out.dtype), dtype_name(p.residual.dtype));
  }
  if (!reach_fits({{r.table_rows, r.stride_table}, {r.dims / 2, 1}})) {
    return refuse_rotation(op, "argument 'cos' reaches beyond 2^56 elements");
  }
  return {};
}

std::string print_rotation(const RowProblem& p) {
  const RowRotationProblem& r = p.rotation;
  std::string text =
      fmt::format(":heads={}:dims={}:table={}:table_rows={}", r.heads, r.dims, dtype_name(r.table), r.table_rows);
  if (r.positions) text += fmt::format(":positions=1:sp0={}:sp1={}", r.stride_position[0], r.stride_position[1]);
  if (r.axes() > 1) {
    text += fmt::format(":sections={}:order={}:sa={}", print_sections(r.section_pairs),
                        kRopeSectionsNames[static_cast<int>(r.sections)], r.stride_axis);
  }
  if (r.packed) text += fmt::format(":sequences={}", r.sequences);
  if (r.offsets) text += ":offsets=1";
  text += fmt::format(":st={}", r.stride_table);
  if (r.interleaved) text += ":interleaved=1";
  if (r.inverse) text += ":inverse=1";
  return text;
}

bool parse_rotation(std::string_view name, std::string_view value, RowProblem& p, Status& s) {
  RowRotationProblem& r = p.rotation;
  const std::pair<std::string_view, int64_t*> numbers[] = {{"heads", &r.heads},
                                                           {"dims", &r.dims},
                                                           {"table_rows", &r.table_rows},
                                                           {"st", &r.stride_table},
                                                           {"sp0", &r.stride_position[0]},
                                                           {"sp1", &r.stride_position[1]},
                                                           {"sa", &r.stride_axis}};
  const std::pair<std::string_view, uint8_t*> flags[] = {
      {"positions", &r.positions}, {"interleaved", &r.interleaved}, {"inverse", &r.inverse}, {"offsets", &r.offsets}};
  for (const auto& [field, to] : numbers) {
    if (field != name) continue;
    s = fields_detail::parse_value(value, *to);
    return true;
  }
  for (const auto& [field, to] : flags) {
    if (field != name) continue;
    bool flag = false;
    s = fields_detail::parse_value(value, flag), *to = flag;
    return true;
  }
  if (name == "sequences") {
    s = fields_detail::parse_value(value, r.sequences), r.packed = 1;
    return true;
  }
  if (name == "sections") {
    s = parse_sections(value, r.section_pairs);
    if (s && r.axes() > 1) r.positions = 1;
    return true;
  }
  if (name == "order") {
    s = fields_detail::parse_value(value, r.sections);
    return true;
  }
  if (name != "table") return false;
  s = fields_detail::parse_value(value, r.table);
  return true;
}

RowRotationProblem unset_rotation() {
  RowRotationProblem r;
  r.dims = r.heads = r.table_rows = r.stride_table = r.stride_axis = kRotationUnset;
  r.stride_position = {kRotationUnset, kRotationUnset};
  return r;
}

void complete_rotation(RowProblem& p) {
  RowRotationProblem& r = p.rotation;
  if (r.table == DType::kNone) r.table = DType::kF32;
  if (r.heads == kRotationUnset) r.heads = p.size[2];
  if (r.dims == kRotationUnset) r.dims = p.n - p.n % 2;
  if (r.table_rows == kRotationUnset) r.table_rows = p.size[1] + 7;
  if (r.stride_table == kRotationUnset) r.stride_table = r.table_rows > 1 ? r.dims / 2 : 0;
  if (r.stride_position[0] == kRotationUnset) r.stride_position[0] = p.size[0] > 1 ? p.size[1] : 0;
  if (r.stride_position[1] == kRotationUnset) r.stride_position[1] = p.size[1] > 1 ? 1 : 0;
  if (!r.positions) r.stride_position = {0, 0};
  if (r.axes() == 1) r.section_pairs = {}, r.sections = RopeSections::kRuns, r.stride_axis = 0;
  if (r.stride_axis == kRotationUnset) r.stride_axis = p.size[0] * p.size[1];
  if (p.rows() == 0) r.heads = 0;
}

void fit_rotation(RowProblem& p) {
  RowRotationProblem& r = p.rotation;
  r.heads = p.residual.present() ? (p.size[2] + 1) / 2 : p.size[2];
  r.dims = r.stride_table = r.stride_position[0] = r.stride_position[1] = r.stride_axis = kRotationUnset;
  complete_rotation(p);
  if (r.axes() == 1) return;
  // As even as they can be, which every order takes.
  const int axes = r.axes();
  const auto half = static_cast<int32_t>(r.dims / 2);
  for (int axis = 0; axis < axes; ++axis) {
    r.section_pairs[static_cast<size_t>(axis)] = half / axes + (axis < half % axes ? 1 : 0);
  }
  if (r.axes() == 1) r.section_pairs = {}, r.sections = RopeSections::kRuns, r.stride_axis = 0;
}

}  // namespace tilewright
