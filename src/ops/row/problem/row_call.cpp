// SPDX-License-Identifier: MIT
// From a call to a problem: outer dimensions that follow each other in every tensor become one.
#include <fmt/format.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include "ops/row/problem/row_backward.hpp"
#include "ops/row/problem/row_loss.hpp"
#include "ops/row/problem/row_rotation.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_row(const RowOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

std::string row_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

// On the path of every call: nothing is allocated.
template <class T, size_t kMost>
struct ShortList {
  std::array<T, kMost> items{};
  size_t count = 0;

  void push_back(const T& item) { items[count++] = item; }
  void pop_back() { --count; }
  T& back() { return items[count - 1]; }
  const T& back() const { return items[count - 1]; }
  auto begin() const { return items.begin(); }
  auto end() const { return items.begin() + count; }
};

// A tensor of rows, or of scales: its strides along x's outer dimensions.
struct OuterTensor {
  const char* name;
  RowTensorProblem* to;
  std::array<int64_t, kMaxRank> stride;
};

Status check_device(const RowOp& op, const char* name, const TensorView& t, const TensorView& x) {
  if (t.layout != Layout::kStrided) return refuse_row(op, "argument '{}' is packed, allowed: strided", name);
  if (t.device == x.device) return {};
  return refuse_row(op, "argument '{}' is on {}, 'x' is on {}", name, to_string(t.device), to_string(x.device));
}

// [..., N] as x, or half of it.
Status read_rows(const RowOp& op, const char* name, const TensorView& t, const TensorView& x, int64_t length,
                 OuterTensor& to) {
  if (Status s = check_device(op, name, t, x); !s) return s;
  TensorView want = x;
  const auto last = static_cast<size_t>(x.rank - 1);
  want.shape[last] = length;
  if (t.rank != x.rank || !std::equal(t.shape.begin(), t.shape.begin() + t.rank, want.shape.begin())) {
    return refuse_row(op, "argument '{}' has shape {}, expected {}, that of 'x'{}", name, row_shape(t), row_shape(want),
                      length == x.shape[last] ? "" : " with half its last size");
  }
  if (t.shape[last] > 1 && t.stride[last] != 1) {
    return refuse_row(op, "argument '{}' has stride {} along its last dimension, allowed: 1", name, t.stride[last]);
  }
  to.stride = t.stride;
  to.to->dtype = t.dtype;
  return {};
}

// [...], a number a row.
Status read_row_numbers(const RowOp& op, const char* name, const TensorView& t, const TensorView& x, OuterTensor& to) {
  if (Status s = check_device(op, name, t, x); !s) return s;
  if (t.rank != x.rank - 1 || !std::equal(t.shape.begin(), t.shape.begin() + t.rank, x.shape.begin())) {
    return refuse_row(op, "argument '{}' has shape {}, expected that of 'x' without its last size", name, row_shape(t));
  }
  to.stride = t.stride;
  to.to->dtype = t.dtype;
  return {};
}

Status read_column(const RowOp& op, const char* name, const TensorView& t, const TensorView& x, int64_t n, DType& to) {
  if (!t.defined()) return {};
  if (Status s = check_device(op, name, t, x); !s) return s;
  if (t.rank != 1 || t.shape[0] != n) {
    return refuse_row(op, "argument '{}' has shape {}, expected [{}]", name, row_shape(t), n);
  }
  if (n > 1 && t.stride[0] != 1) {
    return refuse_row(op, "argument '{}' has stride {}, allowed: 1", name, t.stride[0]);
  }
  to = t.dtype;
  return {};
}

Status read_row_scale(const RowOp& op, const RowCall& call, RowProblem& p, OuterTensor& to) {
  const TensorView &t = call.scale, &x = call.x;
  if (!t.defined()) {
    return refuse_row(op, "argument 'scale' is missing: the {} is {}", op.dequantises ? "input" : "output",
                      dtype_name(op.dequantises ? x.dtype : call.out.dtype));
  }
  if (Status s = check_device(op, "scale", t, x); !s) return s;
  p.scale.dtype = t.dtype;
  if (is_per_tensor(p.quant)) {
    if (t.numel() == 1) return {};
    return refuse_row(op, "argument 'scale' has shape {}, expected one element: one scale for the tensor",
                      row_shape(t));
  }
  const bool grouped = has_groups(p.quant);
  const bool trailing = t.rank == x.rank;
  std::array<int64_t, kMaxRank> want = x.shape;
  const auto last = static_cast<size_t>(x.rank - 1);
  want[last] = p.groups();
  if (p.quant == Quantisation::kBlock) {
    if (x.rank < 2) return refuse_row(op, "argument 'x' has rank 1, allowed for blocks: 2 to {}", kMaxRank);
    want[last - 1] = scale_blocks(want[last - 1]);
  }
  const bool rank_fits = trailing || (!grouped && t.rank == x.rank - 1);
  if (!rank_fits || !std::equal(t.shape.begin(), t.shape.begin() + t.rank, want.begin())) {
    return refuse_row(op, "argument 'scale' has shape {}, expected [{}]{}", row_shape(t),
                      fmt::join(want.begin(), want.begin() + x.rank, ", "),
                      grouped ? "" : ", or that without the last");
  }
  to.stride = t.stride;
  if (grouped && p.groups() > 1) p.stride_group = t.stride[last];
  return {};
}

// One, of which those of groups are multiples.
Status read_tensor_scale(const RowOp& op, const RowCall& call, RowProblem& p) {
  const TensorView& t = call.tensor_scale;
  if (!t.defined()) {
    if (!call.find_tensor_scale) return {};
    return refuse_row(op, "argument 'tensor_scale' is missing: it is to be found");
  }
  if (Status s = check_device(op, "tensor_scale", t, call.x); !s) return s;
  if (t.dtype != DType::kF32) {
    return refuse_row(op, "argument 'tensor_scale' is {}, allowed: f32", dtype_name(t.dtype));
  }
  if (t.numel() != 1) {
    return refuse_row(op, "argument 'tensor_scale' has shape {}, expected one element", row_shape(t));
  }
  p.tensor_scale = call.find_tensor_scale ? TensorScale::kFound : TensorScale::kGiven;
  return {};
}

// quantize's: what is done before and after the division.
Status read_quantising(const RowOp& op, const RowCall& call, RowProblem& p) {
  if (call.hadamard != 0 && !is_hadamard_block(call.hadamard)) {
    return refuse_row(op, "argument 'hadamard' is {}, allowed: 0, 16, 32, 64, 128", call.hadamard);
  }
  p.hadamard = static_cast<int32_t>(call.hadamard);
  const TensorView& t = call.random_state;
  if (!t.defined()) return {};
  if (Status s = check_device(op, "random_state", t, call.x); !s) return s;
  if (t.dtype != DType::kI32) {
    return refuse_row(op, "argument 'random_state' is {}, allowed: i32, or i64 as its words", dtype_name(t.dtype));
  }
  const bool words = t.rank == 2 && t.shape[1] == 2 && t.stride[1] == 1;
  if ((t.rank != 1 && !words) || t.shape[0] != 2 || t.stride[0] != t.rank) {
    return refuse_row(op, "argument 'random_state' has shape {}, expected [2], contiguous: a seed and an offset",
                      row_shape(t));
  }
  p.state_words = static_cast<uint8_t>(t.rank);
  return {};
}

// Merges outer dimensions and leaves at most kRowDims.
Status collapse_rows(const RowOp& op, const TensorView& x, const ShortList<OuterTensor, 5>& tensors, RowProblem& p) {
  ShortList<int, kMaxRank> kept;  // dimensions, outermost first, of more than one element
  std::array<int64_t, kMaxRank> size = x.shape;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    rows = size[at] == 0 ? 0 : rows;
    const bool apart = p.quant == Quantisation::kBlock && i + 2 == x.rank;  // rows of blocks stay what they are
    if (size[at] == 1 && !apart) continue;
    const bool joins = kept.count > 0 && !apart && std::ranges::all_of(tensors, [&](const OuterTensor& t) {
                         return t.stride[static_cast<size_t>(kept.back())] == t.stride[at] * size[at];
                       });
    if (!joins) {
      kept.push_back(i);
      continue;
    }
    // The inner one takes the outer one's place.
    const auto outer = static_cast<size_t>(kept.back());
    size[at] *= size[outer];
    kept.back() = i;
  }
  if (rows == 0) {
    p.size[kRowDims - 1] = 0;
    return {};
  }
  if (kept.count > static_cast<size_t>(kRowDims)) {
    return refuse_row(
        op, "argument 'x' has {} outer dimensions that its and the other tensors' strides keep apart, allowed: {}",
        kept.count, kRowDims);
  }
  for (size_t i = 0; i < kept.count; ++i) {
    const size_t to = static_cast<size_t>(kRowDims) - kept.count + i;
    p.size[to] = size[static_cast<size_t>(kept.items[i])];
    for (const OuterTensor& t : tensors) {
      t.to->stride[to] = p.tensor_size(*t.to)[to] > 1 ? t.stride[static_cast<size_t>(kept.items[i])] : 0;
    }
  }
  return {};
}

struct Touched {
  const char* name;
  const void* data;
  ByteRange bytes;
  const RowTensorProblem* rows;  // null: a vector, or scales
  bool written;
};

// Heads of q and k in one packed tensor: in every token they lie beside each other.
bool apart_in_each_token(const RowProblem& p, const Touched& a, const Touched& b) {
  if (!p.rotates() || a.rows == nullptr || b.rows == nullptr || a.rows->dtype != b.rows->dtype) return false;
  const int64_t token = a.rows->stride[1], outer = a.rows->stride[0], bytes = dtype_bits(a.rows->dtype) / 8;
  if (token <= 0 || b.rows->stride[1] != token || b.rows->stride[0] != outer || outer % token != 0) return false;
  if (a.rows->stride[2] < 0 || b.rows->stride[2] < 0) return false;
  const auto span = [&p](const Touched& t) { return (p.tensor_size(*t.rows)[2] - 1) * t.rows->stride[2] + p.n; };
  const int64_t apart = static_cast<const char*>(b.data) - static_cast<const char*>(a.data);
  if (apart % bytes != 0) return false;
  const int64_t from = (apart / bytes % token + token) % token;
  return from >= span(a) && from + span(b) <= token;
}

}  // namespace

Status check_row_addresses(const RowOp& op, const RowProblem& p, const RowBindings& b) {
  const auto rows_of = [&p](const RowTensorProblem& t, int64_t inner, int64_t stride) {
    const auto size = p.tensor_size(t);
    return touched_bytes(t.dtype,
                         {{size[0], t.stride[0]}, {size[1], t.stride[1]}, {size[2], t.stride[2]}, {inner, stride}});
  };
  ShortList<Touched, kRowPointerSlots> all;
  const auto add_rows = [&](const char* name, uint16_t slot, const RowTensorProblem& t, bool written) {
    if (t.present()) all.push_back({name, b.pointers[slot], rows_of(t, p.n, 1), &t, written});
  };
  all.push_back({"x", b.pointers[kRowX], rows_of(p.x, p.x_length(), 1), &p.x, false});
  if (p.residual.present()) {
    all.push_back({op.residual_name(), b.pointers[kRowResidual], rows_of(p.residual, p.residual_length(), 1),
                   p.single ? nullptr : &p.residual, false});
  }
  add_rows("residual_out", kRowResidualOut, p.residual_out, true);
  if (p.out.present()) {
    all.push_back({op.out_name(), b.pointers[kRowOut], rows_of(p.out, p.out_length(), 1), &p.out, true});
  }
  add_rows("dresidual", kRowAdded, p.gradients.added, false);
  const auto add_vector = [&](const char* name, uint16_t slot, DType dtype, bool written = false) {
    if (dtype != DType::kNone)
      all.push_back({name, b.pointers[slot], touched_bytes(dtype, {{p.n, 1}}), nullptr, written});
  };
  if (p.weight != DType::kNone) {
    all.push_back(
        {"weight", b.pointers[kRowWeight], touched_bytes(p.weight, {{p.weight_length(), 1}}), nullptr, false});
  }
  add_vector("bias", kRowBias, p.bias);
  add_vector("smooth", kRowSmooth, p.smooth);
  add_vector("dweight", kRowWeightGradient, p.gradients.weight, true);
  add_vector("dbias", kRowBiasGradient, p.gradients.bias, true);
  for (const auto& [name, slot, t] :
       {std::tuple<const char*, RowPointerSlot, const RowTensorProblem&>{"target", kRowTarget, p.loss.target},
        {"loss", kRowLoss, p.loss.loss},
        {"lse", kRowLse, p.loss.lse}}) {
    if (t.present()) all.push_back({name, b.pointers[slot], rows_of(t, 1, 1), nullptr, slot != kRowTarget});
  }
  if (p.tensor_scale != TensorScale::kNone) {
    const bool written = p.tensor_scale == TensorScale::kFound;
    all.push_back(
        {"tensor_scale", b.pointers[kRowTensorScale], touched_bytes(DType::kF32, {{1, 1}}), nullptr, written});
  }
  if (p.state_words != 0) {
    const ByteRange state = touched_bytes(DType::kI32, {{2 * p.state_words, 1}});
    all.push_back({"random_state", b.pointers[kRowRandomState], state, nullptr, false});
  }
  if (p.scale.present()) {
    all.push_back(
        {"scale", b.pointers[kRowScale], rows_of(p.scale, p.groups(), p.stride_group), nullptr, p.writes_scale()});
  }
  if (p.rotates()) {
    const RowRotationProblem& r = p.rotation;
    const ByteRange table = touched_bytes(r.table, {{r.table_rows, r.stride_table}, {r.dims / 2, 1}});
    all.push_back({"cos", b.pointers[kRowCosine], table, nullptr, false});
    all.push_back({"sin", b.pointers[kRowSine], table, nullptr, false});
    if (r.positions) {
      const ByteRange tokens = touched_bytes(
          DType::kI32,
          {{r.axes(), r.stride_axis}, {p.size[0], r.stride_position[0]}, {p.size[1], r.stride_position[1]}});
      all.push_back({"positions", b.pointers[kRowPositions], tokens, nullptr, false});
    }
    const auto add_sequences = [&](const char* name, uint16_t slot, int64_t size) {
      all.push_back({name, b.pointers[slot], touched_bytes(DType::kI32, {{size, 1}}), nullptr, false});
    };
    if (r.packed) add_sequences("cumulative_lengths", kRowSequences, r.sequences + 1);
    if (r.offsets) add_sequences("offsets", kRowOffsets, r.sequences);
  }
  for (const Touched& t : all) {
    if (t.data == nullptr && !t.bytes.empty()) return refuse_row(op, "argument '{}' has a null data pointer", t.name);
  }
  for (const Touched& w : all) {
    if (!w.written) continue;
    for (const Touched& t : all) {
      if (&t == &w || !ranges_overlap(w.data, w.bytes, t.data, t.bytes)) continue;
      // In place: the same elements, of the same type.
      const bool same = w.rows != nullptr && t.rows != nullptr && !t.written && w.data == t.data &&
                        w.rows->dtype == t.rows->dtype && w.rows->stride == t.rows->stride &&
                        (p.gate != GateMode::kInterleaved || (p.backward && t.rows == &p.x));
      if (!same && !apart_in_each_token(p, w, t))
        return refuse_row(op, "argument '{}' overlaps '{}' without being the same elements", w.name, t.name);
    }
  }
  return {};
}

Status make_row_problem(const RowOp& op, const RowCall& call, bool check_addresses, RowProblem& p, RowBindings& b) {
  if (op.rotates) return make_rotation_problem(op, call, check_addresses, p, b);
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"x", call.x}, {op.out_name(), call.out}}) {
    if (!t.defined() && !(op.loses && &t == &call.out)) return refuse_row(op, "argument '{}' is missing", name);
  }
  const TensorView& x = call.x;
  if (x.rank < 1) return refuse_row(op, "argument 'x' has rank 0, allowed: 1 to {}", kMaxRank);
  for (int i = 0; i < x.rank; ++i) {
    if (x.shape[static_cast<size_t>(i)] < 0)
      return refuse_row(op, "argument 'x' has a negative size: {}", row_shape(x));
  }
  p = RowProblem();
  p.backward = op.backward;
  p.activation = call.activation, p.gate = call.gate, p.squared = call.squared, p.log = call.log;
  p.n = x.shape[static_cast<size_t>(x.rank - 1)];
  if (p.gate != GateMode::kNone) {
    if (p.n % 2 != 0) return refuse_row(op, "argument 'x' has shape {}, expected an even last size", row_shape(x));
    p.n /= 2;
  }
  p.quant = call.quant, p.rounding = call.rounding;
  p.unit_offset = call.unit_offset, p.round_before_weight = call.round_before_weight;
  p.weight_groups = static_cast<int32_t>(call.weight_groups), p.gate_first = call.gate_first;
  p.arithmetic = call.arithmetic;
  const TensorView& second = call.residual;
  p.single = op.arithmetic && second.defined() && second.rank == x.rank && p.n != 1 &&
             second.shape[static_cast<size_t>(x.rank - 1)] == 1;
  if (call.group < 0 || call.group > 1 << 20)
    return refuse_row(op, "argument 'group' is {}, allowed: 16, 32, 64, 128", call.group);
  p.group = static_cast<int32_t>(call.group);
  if (p.group == 0 && p.quant == Quantisation::kGroup) p.group = usual_row_group(call.scale.dtype);
  if (p.group == 0 && p.quant == Quantisation::kBlock) p.group = kScaleBlock;

  ShortList<OuterTensor, 5> tensors;
  const struct {
    const char* name;
    const TensorView& t;
    RowTensorProblem& to;
  } given[] = {{"x", call.x, p.x},
               {op.residual_name(), call.residual, p.residual},
               {"residual_out", call.residual_out, p.residual_out},
               {op.out_name(), call.out, p.out},
               {"dresidual", call.added, p.gradients.added}};
  for (const auto& g : given) {
    if (!g.t.defined()) continue;
    tensors.push_back({g.name, &g.to, {}});
    const int64_t length = &g.to == &p.x          ? p.x_length()
                           : &g.to == &p.residual ? p.residual_length()
                           : &g.to == &p.out      ? p.out_length()
                                                  : p.n;
    if (Status s = read_rows(op, g.name, g.t, x, length, tensors.back()); !s) return s;
  }
  const std::tuple<const char*, const TensorView&, RowTensorProblem&> numbers[] = {
      {"target", call.target, p.loss.target}, {"loss", call.loss, p.loss.loss}, {"lse", call.lse, p.loss.lse}};
  for (const auto& [name, view, to] : numbers) {
    if (!op.loses || (!view.defined() && &view == &call.lse)) continue;
    if (!view.defined()) return refuse_row(op, "argument '{}' is missing", name);
    tensors.push_back({name, &to, {}});
    if (Status s = read_row_numbers(op, name, view, x, tensors.back()); !s) return s;
  }
  p.loss.ignore_index = op.loses ? call.ignore_index : RowLossProblem().ignore_index;
  p.loss.factor = call.factor.defined();
  if (op.loses) {
    if (Status s = check_loss_call(op, call); !s) return s;
  }
  Status s = read_column(op, "weight", call.weight, x, p.weight_length(), p.weight);
  if (s) s = read_column(op, "bias", call.bias, x, p.n, p.bias);
  if (s) s = read_column(op, "smooth", call.smooth, x, p.n, p.smooth);
  if (s) s = read_column(op, "dweight", call.weight_gradient, x, p.n, p.gradients.weight);
  if (s) s = read_column(op, "dbias", call.bias_gradient, x, p.n, p.gradients.bias);
  if (!s) return s;
  if (p.quant != Quantisation::kNone) {
    tensors.push_back({"scale", &p.scale, {}});
    if (s = read_row_scale(op, call, p, tensors.back()); !s) return s;
    if (is_per_tensor(p.quant)) tensors.pop_back();  // no row has its own
  } else if (call.scale.defined()) {
    return refuse_row(op, "argument 'scale' is given, and the output is {}", dtype_name(call.out.dtype));
  }
  if (s = read_tensor_scale(op, call, p); !s) return s;
  if (s = read_quantising(op, call, p); !s) return s;
  if (s = collapse_rows(op, x, tensors, p); !s) return s;
  b.pointers = {call.x.data,
                call.residual.data,
                call.residual_out.data,
                call.out.data,
                call.weight.data,
                call.bias.data,
                call.smooth.data,
                call.scale.data,
                nullptr,
                nullptr,
                nullptr,
                call.target.data,
                call.loss.data,
                call.lse.data,
                call.factor.data,
                call.tensor_scale.data,
                call.added.data,
                call.weight_gradient.data,
                call.bias_gradient.data};
  b.pointers[kRowRandomState] = call.random_state.data;
  b.scalars = {call.eps,       call.limit == 0 ? std::numeric_limits<float>::infinity() : call.limit,
               call.alpha,     call.up_offset,
               call.smoothing, call.z,
               call.grad_scale};
  if (x.device.kind != DeviceKind::kCpu) {
    // Not the scales, which are taken one by one.
    const auto missed = [](const void* pointer) { return (reinterpret_cast<uintptr_t>(pointer) & 15) != 0; };
    p.unaligned = std::ranges::any_of(std::span(b.pointers).first(kRowScale), missed) || missed(b.pointers[kRowAdded]);
  }
  if (s = validate_row_problem(op, p); !s) return s;
  if (op.eps && !(call.eps >= 0)) return refuse_row(op, "argument 'eps' is {}, allowed: 0 and above", call.eps);
  if (!(call.limit >= 0)) return refuse_row(op, "argument 'limit' is {}, allowed: 0 and above", call.limit);
  if (op.softmax) {
    // Times log2(e) it is finite.
    if (!(std::fabs(call.alpha) <= 0x1p126f)) {
      return refuse_row(op, "argument 'scale' is {}, allowed: up to 2^126", call.alpha);
    }
  } else if (call.alpha != 1 && p.activation != Activation::kSilu) {
    return refuse_row(op, "argument 'alpha' is {}, which is silu's", call.alpha);
  }
  return check_addresses ? check_row_addresses(op, p, b) : Status();
}

}  // namespace tilewright
