// SPDX-License-Identifier: MIT
// D = gelu(A B + bias), then a gated pair, from C++: std::vector in, std::vector out, checked against a plain loop.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tilewright/gemm.hpp>

namespace {

std::vector<float> numbers(int64_t count, int period) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i) % period - period / 2) / 8;
  return values;
}

double dot(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t n, int64_t columns, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += double{a[m * k + i]} * b[i * columns + n];
  return sum;
}

bool close(const char* what, double got, double want) {
  if (std::fabs(got - want) <= 1e-4 + 1e-5 * std::fabs(want)) return true;
  std::fprintf(stderr, "error: %s is %g, expected %g\n", what, got, want);
  return false;
}

}  // namespace

int main() {
  using namespace tilewright;
  constexpr int64_t kM = 5, kN = 24, kK = 40;
  std::vector<float> a = numbers(kM * kK, 11), b = numbers(kK * kN, 13), bias = numbers(kN, 7), d(kM * kN);

  GemmCall call;
  call.a = TensorView::contiguous(a.data(), DType::kF32, {kM, kK});
  call.b = TensorView::contiguous(b.data(), DType::kF32, {kK, kN});
  call.d = TensorView::contiguous(d.data(), DType::kF32, {kM, kN});
  call.bias = TensorView::contiguous(bias.data(), DType::kF32, {kN});
  call.activation = Activation::kGelu;
  if (Status status = gemm(Context::global(), call); !status) {
    std::fprintf(stderr, "error: %s\n", status.to_string().c_str());
    return 1;
  }
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      const double sum = dot(a, b, m, n, kN, kK) + bias[n];
      if (!close("gelu", d[m * kN + n], 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0))))) return 1;
    }
  }

  // The same weight read as gate and up halves: D [M, N / 2] = silu(gate) * up.
  constexpr int64_t kHalf = kN / 2;
  std::vector<float> gated(kM * kHalf);
  call.d = TensorView::contiguous(gated.data(), DType::kF32, {kM, kHalf});
  call.bias = {};
  call.activation = Activation::kSilu;
  call.gate = GateMode::kSeparated;
  if (Status status = gemm(Context::global(), call); !status) {
    std::fprintf(stderr, "error: %s\n", status.to_string().c_str());
    return 1;
  }
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kHalf; ++n) {
      const double gate = dot(a, b, m, n, kN, kK), up = dot(a, b, m, n + kHalf, kN, kK);
      if (!close("silu(gate) * up", gated[m * kHalf + n], gate / (1 + std::exp(-gate)) * up)) return 1;
    }
  }
  std::printf("D[0, 0] = %.6f, gated[0, 0] = %.6f\nok\n", double{d[0]}, double{gated[0]});
  return 0;
}
