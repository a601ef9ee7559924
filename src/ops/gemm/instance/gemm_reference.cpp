// SPDX-License-Identifier: MIT
#include "ops/gemm/instance/gemm_reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/tolerance.hpp"

namespace tilewright {
namespace {

// A value with the error bound of an f32 computation of it.
struct Bounded {
  double value, error;
};

double activate(Activation activation, double x, double low, double high) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return std::isnan(x) ? x : std::max(x, 0.0);
    case Activation::kGelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::kGeluTanh: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
    case Activation::kHardswish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kClamp: return std::isnan(x) ? x : std::min(std::max(x, low), high);
  }
  return x;
}

Bounded activate(Activation activation, Bounded x, double low, double high) {
  if (activation == Activation::kNone) return x;
  const auto f = [&](double at) { return activate(activation, at, low, high); };
  const double value = f(x.value);
  return {value, activation_bound(f, x.value, x.error, value)};
}

struct Operand {
  const OperandProblem* problem;
  const void* data;
  double at(int64_t b, int64_t m, int64_t n) const {
    return load_element(problem->dtype, data,
                        b * problem->stride_batch + m * problem->stride_m + n * problem->stride_n);
  }
};

// The linear part of column n: alpha * scale_a * scale_b * sum + beta * C + bias.
Bounded linear(const GemmProblem& p, const GemmBindings& bind, ArchVendor vendor, int64_t b, int64_t m, int64_t n,
               double sum, double norm) {
  double accumulate = accumulation_bound(p.a_dtype == DType::kI8 ? DType::kI32 : DType::kF32, p.k, norm, sum);
  if (vendor == ArchVendor::kNvidia) {
    accumulate += p.allow_fast_accum ? fast_accumulation_bound(p.k, norm, sum)
                                     : tensor_core_bound(p.a_dtype, p.allow_tf32 != 0, p.k, norm, sum);
  }
  double scale = p.has_alpha ? bind.scalars[kScalarAlpha] : 1.0;
  if (p.scale_a.present()) scale *= Operand{&p.scale_a, bind.pointers[kSlotScaleA]}.at(b, m, n);
  if (p.scale_b.present()) scale *= Operand{&p.scale_b, bind.pointers[kSlotScaleB]}.at(b, m, n);
  Bounded x{scale * sum, std::fabs(scale) * accumulate};
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
  const int kp = packed_kp(p.b_dtype);
  const char* panel =
      static_cast<const char*>(b) + batch * p.stride_b_batch + n / kPanelColumns * packed_panel_bytes(p.b_dtype, p.k);
  const int64_t element = (k / kp * kPanelColumns + n % kPanelColumns) * kp + k % kp;
  return load_element(p.b_dtype, panel, element);
}

void gemm_reference_block(const GemmProblem& p, const GemmBindings& bind, ArchVendor vendor, int64_t batch,
                          std::span<const int64_t> rows, std::span<const int64_t> columns,
                          std::vector<ReferenceElement>& out) {
  const bool gated = p.gate != GateMode::kNone;
  const int64_t half = p.n / 2;
  // The columns of B that each column of D needs: itself, or its gate and its up column.
  auto source_column = [&](int64_t column, int which) {
    if (!gated) return column;
    return p.gate == GateMode::kSeparated ? column + which * half : 2 * column + which;
  };
  const int sources = gated ? 2 : 1;

  // Rows of A once, each column of B once.
  std::vector<double> a(rows.size() * static_cast<size_t>(p.k)), b(static_cast<size_t>(p.k));
  for (size_t i = 0; i < rows.size(); ++i) {
    widen_row(p.a_dtype, bind.pointers[kSlotA], batch * p.stride_a_batch + rows[i] * p.stride_a_m, p.stride_a_k, p.k,
              a.data() + i * static_cast<size_t>(p.k));
  }
  out.assign(rows.size() * columns.size(), {});
  std::vector<Bounded> parts(rows.size() * static_cast<size_t>(sources));
  for (size_t j = 0; j < columns.size(); ++j) {
    for (int s = 0; s < sources; ++s) {
      const int64_t n = source_column(columns[j], s);
      for (int64_t k = 0; k < p.k; ++k) b[static_cast<size_t>(k)] = gemm_load_b(p, bind.pointers[kSlotB], batch, k, n);
      for (size_t i = 0; i < rows.size(); ++i) {
        const double* row = a.data() + i * static_cast<size_t>(p.k);
        double sum = 0, squares = 0;
        for (size_t k = 0; k < static_cast<size_t>(p.k); ++k) {
          const double product = row[k] * b[k];
          sum += product;
          squares += product * product;
        }
        parts[i * static_cast<size_t>(sources) + static_cast<size_t>(s)] =
            linear(p, bind, vendor, batch, rows[i], n, sum, std::sqrt(squares));
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
