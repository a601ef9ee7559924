// SPDX-License-Identifier: MIT
// What holds for every problem of a row operator, and its text.
#include "ops/row/problem/row_backward.hpp"
#include "ops/row/problem/row_loss.hpp"
#include "ops/row/problem/row_rotation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "core/fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_problem(const RowOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

bool is_row_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

Status check_row_dtypes(const RowOp& op, const RowProblem& p) {
  const struct {
    const char* name;
    DType dtype;
    bool taken;
  } floats[] = {{"x", p.x.dtype, true},           {op.residual_name(), p.residual.dtype, op.residual},
                {"weight", p.weight, op.columns}, {"bias", p.bias, op.columns},
                {"smooth", p.smooth, op.smooth},  {"residual_out", p.residual_out.dtype, op.residual}};
  for (const auto& f : floats) {
    if (f.dtype == DType::kNone) continue;
    if (!f.taken) return refuse_problem(op, "argument '{}' is none of this operator's", f.name);
    if (op.dequantises && f.dtype == p.x.dtype && is_quantised(f.dtype)) continue;
    if (op.dequantises) {
      return refuse_problem(op, "argument '{}' is {}, allowed: e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, e2m1", f.name,
                            dtype_name(f.dtype));
    }
    if (!is_row_float(f.dtype)) {
      return refuse_problem(op, "argument '{}' is {}, allowed: f32, f16, bf16", f.name, dtype_name(f.dtype));
    }
  }
  if (p.residual_out.present() && op.second != nullptr) {
    return refuse_problem(op, "argument 'residual_out' is none of this operator's");
  }
  if ((op.gates_norm || op.backward) && !p.residual.present())
    return refuse_problem(op, "argument '{}' is missing", op.second);
  if (op.arithmetic ? (p.arithmetic != Arithmetic::kNone) != p.residual.present() : p.arithmetic != Arithmetic::kNone) {
    return refuse_problem(op, "argument '{}' and the arithmetic '{}' do not fit", op.residual_name(),
                          kArithmeticNames[static_cast<int>(p.arithmetic)]);
  }
  if (p.weight_groups < 1 || (!op.gates_norm && (p.weight_groups != 1 || p.gate_first))) {
    return refuse_problem(op, "size weight_groups is {}", p.weight_groups);
  }
  if (p.single && (!op.arithmetic || !p.residual.present())) {
    return refuse_problem(op, "argument '{}' has one element a row", op.residual_name());
  }
  if (p.residual_out.present() && !p.residual.present()) {
    return refuse_problem(op, "argument 'residual_out' is given without 'residual'");
  }
  if (p.residual_out.present() && p.residual_out.dtype != p.residual.dtype) {
    return refuse_problem(op, "argument 'residual_out' is {}, expected {}, that of 'residual'",
                          dtype_name(p.residual_out.dtype), dtype_name(p.residual.dtype));
  }
  if (p.squared && p.activation == Activation::kNone) {
    return refuse_problem(op, "argument 'squared' is true, and there is no 'activation'");
  }
  const bool gated = p.gate != GateMode::kNone || p.activation != Activation::kNone;
  if (gated && !op.gates) return refuse_problem(op, "argument 'gate' or 'activation' is none of this operator's");
  if (p.log && !op.softmax) return refuse_problem(op, "argument 'log' is none of this operator's");
  if (p.activation == Activation::kClamp)
    return refuse_problem(op, "argument 'activation' is clamp: 'limit' does that");
  if ((p.hadamard != 0 || p.state_words != 0) && !op.quantises) {
    return refuse_problem(op, "argument 'hadamard' or 'random_state' is none of this operator's");
  }
  if (p.state_words > 2) return refuse_problem(op, "state_words is {}, allowed: 0, 1, 2", p.state_words);
  if (p.hadamard != 0 && !is_hadamard_block(p.hadamard)) {
    return refuse_problem(op, "argument 'hadamard' is {}, allowed: 0, 16, 32, 64, 128", p.hadamard);
  }
  if (p.hadamard != 0 && p.n % p.hadamard != 0) {
    return refuse_problem(op, "argument 'x' has rows of {} elements, expected a multiple of 'hadamard', {}", p.n,
                          p.hadamard);
  }
  if (p.unit_offset && p.weight == DType::kNone) {
    return refuse_problem(op, "argument 'unit_offset' is true, and there is no 'weight'");
  }
  return {};
}

// Scales of codes, whoever writes them.
Status check_row_scales(const RowOp& op, const RowProblem& p, DType codes) {
  const bool power = p.scale.dtype == DType::kE8M0;
  if (power && (!has_groups(p.quant) || codes == DType::kI8)) {
    return refuse_problem(op, "argument 'scale' is e8m0, allowed for groups of floats only");
  }
  const bool multiple = p.scale.dtype == DType::kF8E4M3;
  if (multiple && (p.quant != Quantisation::kGroup || codes != DType::kF4E2M1)) {
    return refuse_problem(op, "argument 'scale' is e4m3, allowed for groups of e2m1 only");
  }
  if (p.tensor_scale != TensorScale::kNone && !multiple) {
    return refuse_problem(op, "argument 'tensor_scale' is given, and 'scale' is {}, allowed: e4m3",
                          dtype_name(p.scale.dtype));
  }
  if (p.tensor_scale == TensorScale::kFound && !op.quantises) {
    return refuse_problem(op, "argument 'tensor_scale' is to be found, which quantize alone does");
  }
  if (!power && !multiple && p.scale.dtype != DType::kF32) {
    return refuse_problem(op, "argument 'scale' is {}, allowed: f32{}", dtype_name(p.scale.dtype),
                          p.quant == Quantisation::kGroup   ? ", e8m0, of e2m1 e4m3"
                          : p.quant == Quantisation::kBlock ? ", e8m0"
                                                            : "");
  }
  if ((!power || op.dequantises) && p.rounding != ScaleRounding::kDown) {
    return refuse_problem(op, "argument 'rounding' is {}, which is for scales of e8m0{}",
                          kScaleRoundingNames[static_cast<int>(p.rounding)], op.dequantises ? " that are found" : "");
  }
  if (p.quant == Quantisation::kBlock) {
    if (p.group == kScaleBlock) return {};
    return refuse_problem(op, "argument 'group' is {}, allowed for blocks: {}", p.group, kScaleBlock);
  }
  if (p.quant == Quantisation::kGroup ? !is_row_group(p.group) : p.group != 0) {
    return refuse_problem(op, "argument 'group' is {}, allowed: {}", p.group,
                          p.quant == Quantisation::kGroup ? "16, 32, 64, 128" : "none, but for quant = group");
  }
  return {};
}

// Of what reads codes.
Status check_widened_output(const RowOp& op, const RowProblem& p) {
  if (!is_row_float(p.out.dtype)) {
    return refuse_problem(op, "argument 'out' is {}, allowed: f32, f16, bf16", dtype_name(p.out.dtype));
  }
  if (p.quant == Quantisation::kTensor || p.has_row_scales()) return check_row_scales(op, p, p.x.dtype);
  return refuse_problem(op, "argument 'quant' is {}, allowed: tensor, row, group, block",
                        kQuantisationNames[static_cast<int>(p.quant)]);
}

Status check_row_output(const RowOp& op, const RowProblem& p) {
  if (op.dequantises) return check_widened_output(op, p);
  const DType out = p.out.dtype;
  if ((op.floats_only() || op.arithmetic) && p.quant != Quantisation::kNone) {
    return refuse_problem(op, "argument 'quant' is none of this operator's");
  }
  if (p.quant == Quantisation::kNone) {
    if (p.tensor_scale != TensorScale::kNone)
      return refuse_problem(op, "argument 'tensor_scale' is given, and 'quant' is none");
    if (is_row_float(out) && !op.quantises) return {};
    if (op.loses && !p.out.present()) return {};
    if (op.arithmetic && is_quantised(out) && dtype_bits(out) == 8) return {};
    if (!is_quantised(out) || op.floats_only()) {
      return refuse_problem(op, "argument '{}' is {}, allowed: {}", op.out_name(), dtype_name(out),
                            op.quantises       ? "e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, e2m1"
                            : op.floats_only() ? "f32, f16, bf16"
                            : op.arithmetic
                                ? "f32, f16, bf16, e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8"
                                : "f32, f16, bf16, and with 'quant' e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, e2m1");
    }
    return refuse_problem(op, "argument 'out' is {}: 'quant' is none, allowed: tensor, row, group{}", dtype_name(out),
                          op.quantises ? ", dynamic, block" : "");
  }
  if ((p.quant == Quantisation::kDynamic || p.quant == Quantisation::kBlock) && !op.quantises) {
    return refuse_problem(op, "argument 'quant' is {}, allowed: none, tensor, row, group",
                          kQuantisationNames[static_cast<int>(p.quant)]);
  }
  if (!is_quantised(out)) {
    return refuse_problem(op, "argument 'out' is {}, allowed with 'quant': e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, e2m1",
                          dtype_name(out));
  }
  return check_row_scales(op, p, out);
}

Status check_row_strides(const RowOp& op, const RowProblem& p) {
  const struct {
    const char* name;
    const RowTensorProblem& t;
    int64_t inner, stride;
    bool written;
  } tensors[] = {{"x", p.x, p.x_length(), 1, false},
                 {op.residual_name(), p.residual, p.residual_length(), 1, false},
                 {"residual_out", p.residual_out, p.n, 1, true},
                 {op.out_name(), p.out, p.out_length(), 1, true},
                 {"dresidual", p.gradients.added, p.n, 1, false},
                 {"scale", p.scale, p.groups(), p.stride_group, p.has_row_scales() && p.writes_scale()},
                 {"target", p.loss.target, 1, 1, false},
                 {"loss", p.loss.loss, 1, 1, true},
                 {"lse", p.loss.lse, 1, 1, true}};
  for (const auto& t : tensors) {
    if (!t.t.present()) continue;
    const auto& s = t.t.stride;
    const auto size = p.tensor_size(t.t);
    if (!reach_fits({{size[0], s[0]}, {size[1], s[1]}, {size[2], s[2]}, {t.inner, t.stride}})) {
      return refuse_problem(op, "argument '{}' reaches beyond 2^56 elements", t.name);
    }
    if (t.written && p.rows() > 0 && t.inner > 0 &&
        may_overlap_itself({{size[0], s[0]}, {size[1], s[1]}, {size[2], s[2]}, {t.inner, t.stride}})) {
      return refuse_problem(op, "argument '{}' overlaps itself: strides {} of rows", t.name, fmt::join(s, ", "));
    }
    const bool odd = std::ranges::any_of(s, [](int64_t one) { return one % 2 != 0; });
    if (dtype_bits(t.t.dtype) == 4 && odd) {
      return refuse_problem(op, "argument '{}' has strides {} of rows, allowed for pairs of e2m1: even ones", t.name,
                            fmt::join(s, ", "));
    }
    // A row of an odd length ends in half a byte.
    if (t.written && dtype_bits(t.t.dtype) == 4 && p.n % 2 != 0 && p.rows() > 1 &&
        may_overlap_itself({{p.size[0], s[0]}, {p.size[1], s[1]}, {p.size[2], s[2]}, {p.n + 1, 1}})) {
      return refuse_problem(op, "argument '{}': rows of {} elements share a byte", t.name, p.n);
    }
  }
  return {};
}

}  // namespace

Status validate_row_problem(const RowOp& op, const RowProblem& p) {
  __int128 elements = p.n;
  for (const int64_t size : p.size) {
    if (size < 0) return refuse_problem(op, "size m has a negative part {}", size);
    elements = std::max<__int128>(elements, 1) * size;
    if (elements > kMaxReach)
      return refuse_problem(op, "sizes m = {}, n = {} are too large", fmt::join(p.size, "x"), p.n);
  }
  if (p.n < 0 || p.n > kMaxReach) return refuse_problem(op, "size n is {}", p.n);
  Status s = check_row_dtypes(op, p);
  if (s) s = check_row_output(op, p);
  if (s) s = validate_rotation(op, p);
  if (s) s = validate_loss(op, p);
  if (s) s = validate_backward(op, p);
  return s ? check_row_strides(op, p) : s;
}

Status check_row_types(const RowOp& op, DType x, DType residual, DType out, Quantisation quant) {
  RowProblem p;
  p.x.dtype = x, p.residual.dtype = residual, p.out.dtype = out, p.quant = quant;
  if (quant != Quantisation::kNone) p.scale.dtype = DType::kF32;
  if (has_groups(quant)) p.group = 128;
  if (op.rotates) p.rotation.table = DType::kF32, p.rotation.heads = p.size[2];
  if (op.loses) p.n = 1, add_loss(p);
  if (op.arithmetic && residual != DType::kNone) p.arithmetic = Arithmetic::kAdd;
  p.backward = op.backward;
  if (x == DType::kNone) return refuse_problem(op, "argument 'x' is none, allowed: a type");
  return validate_row_problem(op, p);
}

void set_contiguous(RowProblem& p) {
  for (RowTensorProblem* t : {&p.x, &p.residual, &p.residual_out, &p.out, &p.scale, &p.loss.target, &p.loss.loss,
                              &p.loss.lse, &p.gradients.added}) {
    t->stride = {};
    if (!t->present() || (t == &p.scale && !p.has_row_scales())) continue;
    const bool one = t == &p.loss.target || t == &p.loss.loss || t == &p.loss.lse;  // a row
    int64_t step = one                ? 1
                   : t == &p.scale    ? p.groups()
                   : t == &p.x        ? p.x_length()
                   : t == &p.residual ? p.residual_length()
                   : t == &p.out      ? p.out_length()
                                      : p.n;
    if (dtype_bits(t->dtype) == 4) step += step % 2;  // whole bytes
    for (size_t i = kRowDims; i-- > 0;) {
      const int64_t size = p.tensor_size(*t)[i];
      if (size > 1) t->stride[i] = step;
      step *= std::max<int64_t>(size, 1);
    }
  }
  p.stride_group = has_groups(p.quant) && p.groups() > 1 ? 1 : 0;
}

ProblemSignature row_signature(const RowProblem& p) {
  ProblemSignature s;
  s.core = fmt::format("x={}:residual={}:out={}", dtype_name(p.x.dtype), dtype_name(p.residual.dtype),
                       dtype_name(p.out.dtype));
  if (p.quant != Quantisation::kNone) {
    s.core +=
        fmt::format(":quant={}:scale={}", kQuantisationNames[static_cast<int>(p.quant)], dtype_name(p.scale.dtype));
  }
  if (p.quant == Quantisation::kGroup) s.core += fmt::format(":group={}", p.group);
  if (p.tensor_scale == TensorScale::kFound) s.core += ":tensor_scale=found";
  if (p.hadamard != 0) s.core += fmt::format(":hadamard={}", p.hadamard);
  if (p.state_words != 0) s.core += fmt::format(":state_words={}", p.state_words);
  if (p.gate != GateMode::kNone) s.core += fmt::format(":gate={}", kGateModeNames[static_cast<int>(p.gate)]);
  if (p.rotates()) {
    s.core += fmt::format(":dims={}:table={}:interleaved={}", p.rotation.dims, dtype_name(p.rotation.table),
                          p.rotation.interleaved);
    if (p.rotation.axes() > 1) {
      s.core += fmt::format(":sections={}:order={}", print_sections(p.rotation.section_pairs),
                            kRopeSectionsNames[static_cast<int>(p.rotation.sections)]);
    }
    if (p.rotation.packed) s.core += ":packed=1";
  }
  if (p.arithmetic != Arithmetic::kNone) {
    s.core += fmt::format(":arithmetic={}:single={}", kArithmeticNames[static_cast<int>(p.arithmetic)], p.single);
  }
  if (p.weight_groups != 1 || p.gate_first) {
    s.core += fmt::format(":weight_groups={}:gate_first={}", p.weight_groups, p.gate_first);
  }
  if (p.gradients.added.present()) s.core += ":dresidual=1";
  if (p.column_sums() > 0) {
    s.core += fmt::format(":dweight={}:dbias={}", dtype_name(p.gradients.weight), dtype_name(p.gradients.bias));
  }
  if (p.programmatic_edge) s.add_programmatic_edge();
  s.epilogue = kActivationNames[static_cast<int>(p.activation)];
  s.sizes = fmt::format("m={}:n={}", p.rows(), p.n);
  s.bucket = fmt::format("m<={}:n={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.rows(), 1))), p.n);
  return s;
}

double row_bytes_moved(const RowProblem& p) {
  if (p.rotates()) {
    const int64_t tokens = p.size[0] * p.size[1], angles = std::min(tokens, p.rotation.table_rows);
    const int64_t numbers = p.rotation.positions ? tokens * p.rotation.axes()
                            : p.rotation.packed  ? 2 * p.rotation.sequences
                                                 : 0;
    return static_cast<double>(p.rows()) * static_cast<double>(p.n) * dtype_bits(p.x.dtype) / 4 +
           static_cast<double>(angles * p.rotation.dims) * dtype_bits(p.rotation.table) / 8 +
           4.0 * static_cast<double>(numbers);
  }
  const double rows = static_cast<double>(p.rows()), n = static_cast<double>(p.n);
  double bits = 0;
  for (const RowTensorProblem* t : {&p.x, &p.residual, &p.residual_out, &p.out}) {
    if (t != &p.residual || p.arithmetic == Arithmetic::kNone) bits += dtype_bits(t->dtype);
  }
  bits += dtype_bits(p.gradients.added.dtype);
  if (p.gate != GateMode::kNone) bits += dtype_bits(p.x.dtype) + (p.backward ? dtype_bits(p.out.dtype) : 0);
  double bytes = rows * n * bits / 8;
  for (const DType dtype : {p.weight, p.bias, p.smooth, p.gradients.weight, p.gradients.bias})
    bytes += n * dtype_bits(dtype) / 8;
  // What is broadcast is read once.
  if (p.arithmetic != Arithmetic::kNone) {
    double elements = static_cast<double>(p.residual_length());
    for (size_t d = 0; d < kRowDims; ++d) {
      if (p.residual.stride[d] != 0) elements *= static_cast<double>(p.size[d]);
    }
    bytes += elements * dtype_bits(p.residual.dtype) / 8;
  }
  if (p.finds_of_tensor()) bytes += rows * n * dtype_bits(p.x.dtype) / 8;  // read twice
  if (p.has_loss()) bytes += rows * (p.loss.lse.present() ? 12 : 8);
  if (p.has_row_scales()) {
    const auto size = p.tensor_size(p.scale);
    bytes += static_cast<double>(size[0] * size[1] * size[2] * p.groups()) * dtype_bits(p.scale.dtype) / 8;
  }
  return bytes;
}

}  // namespace tilewright
