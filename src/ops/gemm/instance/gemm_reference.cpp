// SPDX-License-Identifier: MIT
#include "ops/gemm/instance/gemm_reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/tolerance.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "ops/gemm/instance/activation_reference.hpp"

namespace tilewright {
namespace {

struct Operand {
  const OperandProblem* problem;
  const void* data;
  double at(int64_t b, int64_t m, int64_t n) const {
    return load_element(problem->dtype, data,
                        b * problem->stride_batch + m * problem->stride_m + n * problem->stride_n);
  }
};

double scale_at(const ScaleProblem& s, const void* data, int64_t b, int64_t outer, int64_t k) {
  return load_element(s.dtype, data, b * s.stride_batch + outer / s.outer * s.stride_outer + k * s.stride_k);
}

// A row of A, or a column of B, times the scales of its groups along K: what is dequantised is f32.
void apply_scales(const ScaleProblem& s, const void* data, int64_t batch, int64_t outer, std::span<double> values) {
  if (!s.blocked()) return;
  for (size_t begin = 0; begin < values.size(); begin += s.k) {
    const double scale = scale_at(s, data, batch, outer, static_cast<int64_t>(begin / s.k));
    for (size_t k = begin; k < std::min(values.size(), begin + s.k); ++k) {
      values[k] = static_cast<double>(static_cast<float>(values[k] * scale));
    }
  }
}

// A column of B's integers less their zero points: a difference in f32. `parts` gets both apart, each times its scale.
struct ZeroParts {
  std::vector<double> integers, points;
};
void apply_zeros(const GemmProblem& p, const GemmBindings& bind, int64_t batch, int64_t n, std::span<double> values,
                 ZeroParts& parts) {
  if (!p.zero_b.present()) return;
  parts.integers.resize(values.size());
  parts.points.resize(values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t group = static_cast<int64_t>(k) / p.zero_b.k;
    const double point = scale_at(p.zero_b, bind.pointers[kSlotZeroB], batch, n, group);
    const double scale = scale_at(p.scale_b, bind.pointers[kSlotScaleB], batch, n, group);
    parts.integers[k] = values[k] * scale;
    parts.points[k] = point * scale;
    values[k] = static_cast<double>(static_cast<float>(values[k] - point));
  }
}

// What a sum over K was made of.
struct Sum {
  double value = 0, squares = 0;
  double size = 0;                          // |value|, or of the parts that a kernel may sum apart
  double magnitude_a = 0, magnitude_b = 0;  // of the factors
  double subnormal = 0;                     // of products that a GPU may take for zero
};

Sum sum_of(std::span<const double> a, std::span<const double> b) {
  Sum sum;
  for (size_t k = 0; k < a.size(); ++k) {
    const double product = a[k] * b[k];
    sum.value += product;
    sum.squares += product * product;
    sum.magnitude_a += std::fabs(a[k]);
    sum.magnitude_b += std::fabs(b[k]);
  }
  sum.size = std::fabs(sum.value);
  return sum;
}

// With zero points: a kernel may sum A times the integers apart from A times their zero points.
void split_sum(std::span<const double> a, const ZeroParts& parts, Sum& sum) {
  double integers = 0, points = 0;
  sum.squares = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const double product = std::fabs(a[k]) * (std::fabs(parts.integers[k]) + std::fabs(parts.points[k]));
    integers += a[k] * parts.integers[k];
    points += a[k] * parts.points[k];
    sum.squares += product * product;
  }
  sum.size = std::fabs(integers) + std::fabs(points);
}

// How far a kernel's sum may be off.
double sum_bound(const GemmProblem& p, ArchVendor vendor, const Sum& sum) {
  const double norm = std::sqrt(sum.squares);
  const bool integers = p.a_dtype == DType::kI8 && !p.has_block_scales();
  double bound = accumulation_bound(integers ? DType::kI32 : DType::kF32, p.k, norm, sum.size);
  if (p.has_block_scales()) {
    const auto rounds = [](const ScaleProblem& s) { return s.blocked() && s.dtype != DType::kE8M0; };
    bound +=
        group_scale_bound(!rounds(p.scale_a) && !rounds(p.scale_b), norm, sum.size, sum.magnitude_a + sum.magnitude_b);
  }
  if (vendor == ArchVendor::kAmd) bound += sum.subnormal;
  if (vendor == ArchVendor::kNvidia) {
    bound += p.allow_fast_accum ? fast_accumulation_bound(p.k, norm, sum.size)
                                : tensor_core_bound(p.a_dtype, p.allow_tf32 != 0, p.k, norm, sum.size);
  }
  return bound;
}

// The linear part of column n: alpha * scale_a * scale_b * sum + beta * C + bias. A's row is a_m, D's m.
Bounded linear(const GemmProblem& p, const GemmBindings& bind, ArchVendor vendor, int64_t b, int64_t a_m, int64_t m,
               int64_t n, const Sum& sum) {
  double scale = p.has_alpha ? bind.scalars[kScalarAlpha] : 1.0;
  for (const auto& [s, slot, outer] :
       {std::tuple{&p.scale_a, kSlotScaleA, a_m}, std::tuple{&p.scale_b, kSlotScaleB, n}}) {
    if (s->present() && !s->blocked()) scale *= scale_at(*s, bind.pointers[slot], b, outer, 0);
  }
  Bounded x{scale * sum.value, std::fabs(scale) * sum_bound(p, vendor, sum)};
  double magnitude = std::fabs(x.value);
  if (p.c.present()) {
    const double c = bind.scalars[kScalarBeta] * Operand{&p.c, bind.pointers[kSlotC]}.at(b, m, n);
    x.value += c;
    magnitude += std::fabs(c);
  }
  if (p.bias.present()) {
    const double bias = Operand{&p.bias, bind.pointers[kSlotBias]}.at(b, m, n);
    x.value += bias;
    magnitude += std::fabs(bias);
  }
  x.error += epilogue_bound(magnitude);
  return x;
}

void widen_row(DType dtype, const void* data, int64_t offset, int64_t stride, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = load_element(dtype, data, offset + i * stride);
}

}  // namespace

double gemm_load_b(const GemmProblem& p, const void* b, int64_t batch, int64_t k, int64_t n) {
  if (!p.b_packed) {
    return load_element(p.b_dtype, b, batch * p.stride_b_batch + k * p.stride_b_k + n * p.stride_b_n);
  }
  if (p.b_packed == kPackedFragments) {
    const char* const entry = static_cast<const char*>(b) + batch * p.stride_b_batch;
    unsigned word;
    std::memcpy(&word, entry + fragment_word(p.b_dtype, p.k, k, n) * 4, sizeof(word));
    const auto code = static_cast<unsigned char>(fragment_code(p.b_dtype, k, word));
    return load_element(p.b_dtype, &code, 0);
  }
  const PackedLayout layout = packed_layout(p.b_dtype, p.n, p.k);
  const char* panel = static_cast<const char*>(b) + batch * p.stride_b_batch + n / kPanelColumns * layout.panel_bytes;
  return load_element(p.b_dtype, panel, layout.element(k, n % kPanelColumns));
}

void gemm_reference_block(const GemmProblem& p, const GemmBindings& bind, ArchVendor vendor, int64_t batch,
                          std::span<const int64_t> rows, std::span<const int64_t> columns,
                          std::vector<ReferenceElement>& out) {
  gemm_reference_block(p, bind, vendor, batch, rows, rows, columns, out);
}

void gemm_reference_block(const GemmProblem& p, const GemmBindings& bind, ArchVendor vendor, int64_t batch,
                          std::span<const int64_t> a_rows, std::span<const int64_t> rows,
                          std::span<const int64_t> columns, std::vector<ReferenceElement>& out) {
  const bool gated = p.gate != GateMode::kNone;
  const int64_t half = p.n / 2;
  // The columns of B that each column of D needs: itself, or its gate and its up column.
  auto source_column = [&](int64_t column, int which) {
    if (!gated) return column;
    return p.gate == GateMode::kSeparated ? column + which * half : 2 * column + which;
  };
  const int sources = gated ? 2 : 1;

  // Rows of A once, each column of B once.
  const auto depth = static_cast<size_t>(p.k);
  std::vector<double> a(rows.size() * depth), b(depth);
  ZeroParts zero_parts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<double> row(a.data() + i * depth, depth);
    widen_row(p.a_dtype, bind.pointers[kSlotA], batch * p.stride_a_batch + a_rows[i] * p.stride_a_m, p.stride_a_k, p.k,
              row.data());
    apply_scales(p.scale_a, bind.pointers[kSlotScaleA], batch, a_rows[i], row);
  }
  out.assign(rows.size() * columns.size(), {});
  std::vector<Bounded> parts(rows.size() * static_cast<size_t>(sources));
  for (size_t j = 0; j < columns.size(); ++j) {
    for (int s = 0; s < sources; ++s) {
      const int64_t n = source_column(columns[j], s);
      for (size_t k = 0; k < depth; ++k) {
        b[k] = gemm_load_b(p, bind.pointers[kSlotB], batch, static_cast<int64_t>(k), n);
      }
      apply_zeros(p, bind, batch, n, b, zero_parts);
      apply_scales(p.scale_b, bind.pointers[kSlotScaleB], batch, n, b);
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::span<const double> row(a.data() + i * depth, depth);
        Sum sum = sum_of(row, b);
        if (p.zero_b.present()) split_sum(row, zero_parts, sum);
        if (vendor == ArchVendor::kAmd) sum.subnormal = subnormal_factors_bound(p.a_dtype, p.b_dtype, row, b);
        parts[i * static_cast<size_t>(sources) + static_cast<size_t>(s)] =
            linear(p, bind, vendor, batch, a_rows[i], rows[i], n, sum);
      }
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      Bounded x = activate(p.activation, parts[i * static_cast<size_t>(sources)], bind.scalars[kScalarLow],
                           bind.scalars[kScalarHigh]);
      if (gated) x = multiply_bounded(x, parts[i * 2 + 1]);
      for (int step = 0; step < p.step_count; ++step) {
        const StepProblem& sp = p.steps[step];
        if (sp.kind == StepKind::kActivation) {
          x = activate(sp.activation, x, bind.scalars[kScalarStep0 + 2 * step],
                       bind.scalars[kScalarStep0 + 2 * step + 1]);
          continue;
        }
        const double t = Operand{&sp.operand, bind.pointers[kSlotStep0 + step]}.at(batch, rows[i], columns[j]);
        if (sp.kind == StepKind::kAdd) {
          x = {x.value + t, x.error + epilogue_bound(std::fabs(x.value) + std::fabs(t))};
        } else {
          x = {x.value * t, x.error * std::fabs(t) + epilogue_bound(std::fabs(x.value * t))};
        }
      }
      out[i * columns.size() + j] = {x.value, x.error + rounding_bound(p.d_dtype, std::min(std::fabs(x.value) + x.error,
                                                                                           largest_finite(p.d_dtype)))};
    }
  }
}

Status gemm_reference(const GemmCall& call) {
  GemmProblem p;
  GemmBindings bindings;
  if (Status s = make_gemm_problem(call, /*check_addresses=*/true, p, bindings); !s) return s;
  if (call.d.device.kind != DeviceKind::kCpu) {
    return Status(StatusCode::kUnsupported,
                  "gemm_reference: arguments are on " + to_string(call.d.device) + ", allowed: cpu");
  }
  constexpr int64_t kRows = 32;  // rows that share one widening of B; read whole before they are stored: D may be C
  std::vector<int64_t> columns(static_cast<size_t>(p.out_n())), rows;
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<int64_t>(i);
  std::vector<ReferenceElement> block;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t m = 0; m < p.m; m += kRows) {
      rows.clear();
      for (int64_t i = m; i < std::min(p.m, m + kRows); ++i) rows.push_back(i);
      gemm_reference_block(p, bindings, ArchVendor::kX86, b, rows, columns, block);
      for (size_t i = 0; i < block.size(); ++i) {
        const int64_t row = rows[i / columns.size()], column = static_cast<int64_t>(i % columns.size());
        store_element(p.d_dtype, call.d.data, b * p.stride_d_batch + row * p.stride_d_m + column * p.stride_d_n,
                      block[i].value);
      }
    }
  }
  return {};
}

}  // namespace tilewright
