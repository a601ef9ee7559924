// SPDX-License-Identifier: MIT
// The float64 yardstick of row operators: sums of residuals and quantisers bit for bit, what lies between within its bound.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/tensor/tolerance.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "tile/common/numeric.hpp"
#include "tile/common/philox.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

// The code of a quotient, as its value.
double quantised_value(DType dtype, float quotient) {
  unsigned char code[1] = {};
  store_element(dtype, code, 0, quotient);
  return load_element(dtype, code, 0);
}

// Of the type's values beside a quotient, the one away from zero where the part of the step that is left, in 65536ths, and the chance
// are a whole step: docs/quantize.md.
double value_by_chance(DType dtype, float quotient, uint32_t chance) {
  if (std::isnan(quotient)) return quantised_value(dtype, quotient);
  const bool negative = std::signbit(quotient);
  const double limit = dtype == DType::kI8 && negative ? 128 : quantised_limit(dtype);
  const double magnitude = std::min(std::fabs(static_cast<double>(quotient)), limit);
  double step = 1;
  if (dtype != DType::kI8) {
    double smallest = 1;  // normal value, which is the first whose half has one bit less
    const auto is_value = [&](double v) { return quantised_value(dtype, static_cast<float>(v)) == v; };
    const int mantissa = mantissa_bits(dtype);
    while (is_value(smallest * 0.5 * (1 + std::ldexp(1.0, -mantissa)))) smallest *= 0.5;
    int exponent = 0;
    std::frexp(std::max(magnitude, smallest), &exponent);
    step = std::ldexp(1.0, exponent - 1 - mantissa);
  }
  const double steps = magnitude / step, whole = std::floor(steps);
  const bool up = std::floor((steps - whole) * 65536) + chance >= 65536;
  return std::copysign((whole + (up ? 1 : 0)) * step, quotient);
}
// The 16 bits of element i of a row: of every eight there is one draw.
uint32_t chance_of_element(const RowProblem& p, const RowHostTensors& tensors, int64_t row, int64_t i) {
  const auto number = [&](int64_t i) {
    return number_of_words(static_cast<const int32_t*>(tensors.data[kRowRandomState]), p.state_words, i);
  };
  const int64_t draw = row * ((p.n + 7) / 8) + i / 8;
  const PhiloxWords words = philox(number(0), number(1), static_cast<uint64_t>(draw));
  const uint32_t word = words.word[i % 8 / 2];
  return i % 2 == 0 ? word & 0xFFFF : word >> 16;
}

// A scale, and those that come out where the largest magnitude is off by `error`.
struct ScaleRange {
  float exact, low, high;
};
ScaleRange scale_range(const RowProblem& p, double most, double error, float of_tensor) {
  const auto scale_of = [&p, of_tensor](double amax) {
    const auto as_float = static_cast<float>(std::max(amax, 0.0));
    if (p.scale.dtype == DType::kF8E4M3) return widen(multiple_scale_for(as_float, p.out.dtype, of_tensor));
    return p.scale.dtype == DType::kE8M0 ? widen(power_scale_for(as_float, p.out.dtype, p.rounding))
                                         : scale_for(as_float, p.out.dtype);
  };
  return {scale_of(most), scale_of(most - error), scale_of(most + error)};
}

float tensor_scale(const RowProblem& p, const RowHostTensors& tensors) {
  return p.tensor_scale == TensorScale::kNone ? 1 : *static_cast<const float*>(tensors.data[kRowTensorScale]);
}

}  // namespace

int64_t row_element(const RowProblem& p, const std::array<int64_t, kRowDims>& stride, int64_t row) {
  const int64_t upper = row / p.size[2];
  return row % p.size[2] * stride[2] + upper % p.size[1] * stride[1] + upper / p.size[1] * stride[0];
}

int64_t scale_element(const RowProblem& p, int64_t row) {
  if (is_per_tensor(p.quant)) return 0;
  if (p.quant != Quantisation::kBlock) return row_element(p, p.scale.stride, row);
  const int64_t upper = row / p.size[2];
  return row % p.size[2] / kScaleBlock * p.scale.stride[2] + upper % p.size[1] * p.scale.stride[1] +
         upper / p.size[1] * p.scale.stride[0];
}

RowPlace row_place(const RowProblem& p, int64_t row) {
  if (!p.rotates()) return {kRowX, kRowOut, row_element(p, p.x.stride, row), row_element(p, p.out.stride, row)};
  const int64_t token = row / p.size[2], head = row % p.size[2], second = p.rotation.heads;
  const bool of_k = head >= second;
  const RowTensorProblem &in = of_k ? p.residual : p.x, &out = of_k ? p.residual_out : p.out;
  const auto element = [&](const RowTensorProblem& t) {
    return (of_k ? head - second : head) * t.stride[2] + token % p.size[1] * t.stride[1] +
           token / p.size[1] * t.stride[0];
  };
  return {of_k ? kRowResidual : kRowX, of_k ? kRowResidualOut : kRowOut, element(in), element(out)};
}

namespace {

// A token's position along an axis, as docs/rope.md has it.
int64_t rope_position(const RowProblem& p, const RowHostTensors& tensors, int64_t token, int axis) {
  const RowRotationProblem& r = p.rotation;
  const int64_t outer = token / p.size[1], inner = token % p.size[1];
  const auto numbers = [&](RowPointerSlot slot) { return static_cast<const int32_t*>(tensors.data[slot]); };
  if (r.positions) {
    return numbers(kRowPositions)[axis * r.stride_axis + outer * r.stride_position[0] + inner * r.stride_position[1]];
  }
  if (!r.packed) return inner;
  for (int64_t s = 0; s < r.sequences; ++s) {
    const int32_t begin = numbers(kRowSequences)[s], end = numbers(kRowSequences)[s + 1];
    if (inner >= begin && inner < end) return inner - begin + (r.offsets ? numbers(kRowOffsets)[s] : 0);
  }
  return 0;
}

// A row of cosines or sines.
std::vector<double> angles(const RowProblem& p, const RowHostTensors& tensors, RowPointerSlot slot, int64_t row) {
  if (!p.rotates()) return {};
  const RowRotationProblem& r = p.rotation;
  std::vector<double> values(static_cast<size_t>(r.dims / 2), std::numeric_limits<double>::quiet_NaN());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto pair = static_cast<int64_t>(i);
    const int64_t position =
        rope_position(p, tensors, row / p.size[2], axis_of_pair(r.section_pairs, r.sections, pair));
    if (position < 0 || position >= r.table_rows) continue;
    values[i] = load_element(r.table, tensors.data[slot], position * r.stride_table + pair);
  }
  return values;
}

}  // namespace

void row_reference(const RowOp& op, const RowProblem& p, const RowHostTensors& tensors, int64_t row,
                   RowReferenceResult& result) {
  const auto n = static_cast<size_t>(p.n);
  result.sum.resize(static_cast<size_t>(p.x_length()));
  result.y.resize(static_cast<size_t>(p.out_length()));
  result.normalised.resize(op.norm_backward() ? n : 0);
  const RowPlace place = row_place(p, row);
  const int64_t x = place.first_in, residual = row_element(p, p.residual.stride, row);
  for (int64_t i = 0; i < p.x_length(); ++i) {
    double& value = result.sum[static_cast<size_t>(i)];
    value = load_element(p.x.dtype, tensors.data[place.in], x + i);
    if (!p.residual.present() || p.rotates() || op.second != nullptr) continue;
    // As the kernels do: an f32 sum, which the residual's type rounds.
    const auto added = static_cast<float>(load_element(p.residual.dtype, tensors.data[kRowResidual], residual + i));
    unsigned char bytes[4] = {};
    store_element(p.residual.dtype, bytes, 0, static_cast<float>(value) + added);
    value = load_element(p.residual.dtype, bytes, 0);
  }
  const int64_t group = row % p.size[2] % p.weight_groups * p.n;  // of the weight
  const auto column = [&](DType dtype, RowPointerSlot slot, double offset) {
    std::vector<double> values(dtype == DType::kNone ? 0 : n);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t first = slot == kRowWeight ? group : 0;
      values[i] = load_element(dtype, tensors.data[slot], first + static_cast<int64_t>(i)) + offset;
    }
    return values;
  };
  std::vector<double>& second = result.second;
  second.resize(op.second != nullptr && p.residual.present() ? static_cast<size_t>(p.residual_length()) : 0);
  for (size_t i = 0; i < second.size(); ++i) {
    second[i] = load_element(p.residual.dtype, tensors.data[kRowResidual], residual + static_cast<int64_t>(i));
  }
  std::vector<double> added(p.gradients.added.present() ? n : 0);
  for (size_t i = 0; i < added.size(); ++i) {
    added[i] = load_element(p.gradients.added.dtype, tensors.data[kRowAdded],
                            row_element(p, p.gradients.added.stride, row) + static_cast<int64_t>(i));
  }
  const std::vector<double> weight = column(p.weight, kRowWeight, p.unit_offset ? 1 : 0);
  const std::vector<double> bias = column(p.bias, kRowBias, 0), smooth = column(p.smooth, kRowSmooth, 0);
  const std::vector<double> cosine = angles(p, tensors, kRowCosine, row), sine = angles(p, tensors, kRowSine, row);
  std::vector<double> scales(p.reads_codes() ? static_cast<size_t>(p.groups()) : 0);
  for (size_t g = 0; g < scales.size(); ++g) {
    scales[g] = load_element(p.scale.dtype, tensors.data[kRowScale],
                             scale_element(p, row) + static_cast<int64_t>(g) * p.stride_group);
    if (p.scale.dtype == DType::kF8E4M3) scales[g] = static_cast<float>(scales[g]) * tensor_scale(p, tensors);
  }
  RowReference reference{.x = result.sum,
                         .second = second,
                         .weight = weight,
                         .bias = bias,
                         .smooth = smooth,
                         .eps = tensors.scalars[kRowEps],
                         .limit = tensors.scalars[kRowLimit],
                         .alpha = tensors.scalars[kRowAlpha],
                         .up_offset = tensors.scalars[kRowUpOffset],
                         .scales = scales,
                         .cosine = cosine,
                         .sine = sine,
                         .y = result.y,
                         .added = added,
                         .normalised = result.normalised};
  if (p.has_loss()) {
    reference.target = static_cast<const int32_t*>(tensors.data[kRowTarget])[row_element(p, p.loss.target.stride, row)];
    reference.smoothing = tensors.scalars[kRowSmoothing], reference.z = tensors.scalars[kRowZ];
    reference.grad_scale = tensors.scalars[kRowGradScale];
    if (p.loss.factor) reference.grad_scale *= *static_cast<const float*>(tensors.data[kRowFactor]);
  }
  op.reference(p, reference);
  result.loss = reference.loss, result.lse = reference.lse;
}

void compare_shared_scales(const RowOp& op, const RowProblem& p, const RowHostTensors& tensors,
                           Comparison& comparison) {
  const bool blocks = p.quant == Quantisation::kBlock;
  if (!blocks && !p.finds_of_tensor()) return;
  RowReferenceResult found;
  std::vector<float> most(blocks ? static_cast<size_t>(p.groups()) : 1);
  const auto compare = [&](int64_t row) {
    for (size_t g = 0; g < most.size(); ++g) {
      const float want = p.scale.dtype == DType::kE8M0 ? widen(power_scale_for(most[g], p.out.dtype, p.rounding))
                                                       : scale_for(most[g], p.out.dtype);
      const int64_t at = scale_element(p, row) + static_cast<int64_t>(g) * p.stride_group;
      comparison.add(load_element(p.scale.dtype, tensors.data[kRowScale], at), {want, 0},
                     {row, static_cast<int64_t>(g), -1});
    }
    std::ranges::fill(most, 0.0f);
  };
  for (int64_t row = 0; row < p.rows(); ++row) {
    row_reference(op, p, tensors, row, found);
    for (size_t i = 0; i < found.y.size(); ++i) {
      const auto magnitude = static_cast<float>(std::fabs(found.y[i].value));
      float& largest = most[blocks ? i / kScaleBlock : 0];
      if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
    }
    const int64_t in_block = row % p.size[2] + 1;
    if (blocks && (in_block % kScaleBlock == 0 || in_block == p.size[2])) compare(row);
  }
  if (p.tensor_scale == TensorScale::kFound) {
    comparison.add(tensor_scale(p, tensors), {tensor_scale_for(most[0], p.out.dtype), 0}, {-1});
  } else if (!blocks) {
    compare(0);
  }
}

void compare_column_sums(const RowOp& op, const RowProblem& p, const RowHostTensors& tensors, Comparison& comparison) {
  struct Sum {
    double value = 0, magnitude = 0, squares = 0, error = 0;
    void add(double x, double off) { value += x, magnitude += std::fabs(x), squares += x * x, error += off; }
  };
  const auto n = static_cast<size_t>(p.n);
  std::vector<Sum> of_weight(n), of_bias(n);
  RowReferenceResult found;
  for (int64_t row = 0; row < p.rows(); ++row) {
    row_reference(op, p, tensors, row, found);
    for (size_t i = 0; i < n; ++i) {
      const double dy = found.second[i];
      of_weight[i].add(dy * found.normalised[i].value, std::fabs(dy) * found.normalised[i].allowed);
      of_bias[i].add(dy, 0);
    }
  }
  const std::tuple<DType, RowPointerSlot, const std::vector<Sum>&> sums[] = {
      {p.gradients.weight, kRowWeightGradient, of_weight}, {p.gradients.bias, kRowBiasGradient, of_bias}};
  for (const auto& [dtype, slot, wanted] : sums) {
    for (size_t i = 0; i < n && dtype != DType::kNone; ++i) {
      const Sum& s = wanted[i];
      // Products are rounded before they are added.
      const double error =
          s.error + kUlpF32 * s.magnitude + accumulation_bound(DType::kF32, p.rows(), std::sqrt(s.squares), s.value);
      const double allowed = error + rounding_bound(dtype, std::fabs(s.value) + error);
      comparison.add(load_element(dtype, tensors.data[slot], static_cast<int64_t>(i)), {s.value, allowed},
                     {-1, static_cast<int64_t>(i)});
    }
  }
}

void compare_quantised_row(const RowOp& op, const RowProblem& p, const RowHostTensors& tensors, int64_t row,
                           std::span<const ReferenceElement> y, Comparison& comparison) {
  const void *const out = tensors.data[kRowOut], *const scale = tensors.data[kRowScale];
  const float of_tensor = tensor_scale(p, tensors);
  const bool multiple = p.scale.dtype == DType::kF8E4M3;
  const int64_t first = row_element(p, p.out.stride, row), first_scale = scale_element(p, row);
  const int64_t group = has_groups(p.quant) ? p.group : std::max<int64_t>(p.n, 1);
  const double limit = quantised_limit(p.out.dtype);
  for (int64_t begin = 0, g = 0; g < p.groups(); begin += group, ++g) {
    const int64_t end = std::min(begin + group, p.n);
    const int64_t at = first_scale + g * p.stride_group;
    auto by = static_cast<float>(load_element(p.scale.dtype, scale, at));
    if (p.quant == Quantisation::kRow || p.quant == Quantisation::kGroup) {
      double most = 0, error = 0;
      for (int64_t i = begin; i < end; ++i) {
        const ReferenceElement& one = y[static_cast<size_t>(i)];
        most = std::isnan(one.value) || std::isnan(most) ? std::numeric_limits<double>::quiet_NaN()
                                                         : std::max(most, std::fabs(one.value));
        error = std::max(error, one.allowed);
      }
      if (std::isnan(most)) most = std::numeric_limits<float>::quiet_NaN();
      const ScaleRange want = std::isnan(most) ? ScaleRange{std::numeric_limits<float>::quiet_NaN(), 0, 0}
                                               : scale_range(p, most, error, of_tensor);
      // Of powers of two and multiples the nearest of those that the error allows; 1 where zeros are within it.
      const bool power = p.scale.dtype == DType::kE8M0 || multiple;
      const double allowed = power ? 0 : op.quantises ? 0 : error / limit + 2 * kUlpF32 * std::fabs(want.exact);
      const bool near = power ? by == want.low || by == want.high : most <= error && by == want.low;
      const bool reachable = near && !op.quantises;
      comparison.add(by, {reachable ? by : want.exact, allowed}, {row, begin, -1});
    }
    if (multiple) by = multiple_divisor(narrow<e4m3>(by), of_tensor);
    for (int64_t i = begin; i < end; ++i) {
      const ReferenceElement& one = y[static_cast<size_t>(i)];
      const double got = load_element(p.out.dtype, out, first + i);
      if (op.quantises) {
        const float quotient = static_cast<float>(one.value) / by;
        const double want = p.state_words != 0
                                ? value_by_chance(p.out.dtype, quotient, chance_of_element(p, tensors, row, i))
                                : quantised_value(p.out.dtype, quotient);
        comparison.add(got, {want, 0}, {row, i});
        continue;
      }
      if (!std::isfinite(one.value) || !std::isfinite(by)) continue;  // tests of their own have those
      // The quotient is rounded to f32 before it is to the code's type.
      const double quotient = one.value / by, error = one.allowed / by + kUlpF32 * std::fabs(one.value / by);
      const double nearest = std::clamp(quotient, p.out.dtype == DType::kI8 ? -128 : -limit, limit);
      comparison.add(got,
                     {nearest, error * (1 + 4 * kUlpF32) + rounding_bound(p.out.dtype, std::fabs(quotient) + error)},
                     {row, i});
    }
  }
}

}  // namespace tilewright
