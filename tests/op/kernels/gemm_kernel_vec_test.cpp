// SPDX-License-Identifier: MIT
// The vector functions of kernels/tile/cpu against libm in double, and the rounding of stores against the storage types.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/tensor/tolerance.hpp"
#include "op/instances/kernel_runner.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright {
namespace {

float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
uint32_t to_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

// Every `step`-th float of both signs, and the awkward ones.
std::vector<float> arguments(uint32_t step) {
  std::vector<float> all;
  for (uint64_t bits = 0; bits < 0x7F800000u; bits += step) {
    all.push_back(from_bits(static_cast<uint32_t>(bits)));
    all.push_back(-all.back());
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (float x : {inf, -inf, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max(),
                  std::numeric_limits<float>::denorm_min(), 0.55f, 0.925f, 88.72283f, 88.72284f, -103.97f, -104.0f}) {
    all.push_back(x);
  }
  while (all.size() % 16 != 0) all.push_back(0);
  return all;
}

double exact(VectorFunction function, double x) {
  switch (function) {
    case kExp: return std::exp(x);
    case kTanh: return std::tanh(x);
    case kSigmoid: return 1 / (1 + std::exp(-x));
    case kSilu: return x / (1 + std::exp(-x));
    case kGelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case kGeluTanh: return x / (1 + std::exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default: return x;
  }
}

// Largest error in ulps of the exact result; results below 2^-126 count in units of 2^-149, and from 2e-38 down zero is
// right too.
double worst_ulps(const KernelTarget& target, VectorFunction function, const std::vector<float>& in, float& where) {
  std::vector<float> out(in.size());
  target.apply(function, in.data(), out.data(), static_cast<long>(in.size()));
  double worst = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double want = exact(function, in[i]);
    const float rounded = static_cast<float>(want);
    if (std::isnan(want) || std::isinf(rounded)) {
      // Around the overflow either neighbour is right.
      const bool same = std::isnan(want) ? std::isnan(out[i]) : out[i] == rounded || std::fabs(out[i]) > 3.4e38f;
      if (!same) return where = in[i], std::numeric_limits<double>::infinity();
      continue;
    }
    if (out[i] == 0 && std::fabs(want) < 2e-38) continue;
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(want == 0 ? 1e-300 : want), -126) - 23);
    const double error = std::fabs(out[i] - want) / ulp;
    if (!(error <= worst)) worst = error, where = in[i];
  }
  return worst;
}

struct Bound {
  VectorFunction function;
  const char* name;
  double ulps;
};

TEST(GemmKernelVec, FunctionsStayWithinTheirUlps) {
  const std::vector<float> in = arguments(997);
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (const Bound& b : {Bound{kExp, "exp", 1.1}, {kTanh, "tanh", 1.4}}) {
      float where = 0;
      const double worst = worst_ulps(*target, b.function, in, where);
      EXPECT_LE(worst, b.ulps) << target->label << " " << b.name << " at " << where;
      RecordProperty(fmt::format("{}_{}", target->label, b.name), fmt::format("{:.2f}", worst));
    }
  }
}

// Those of softmax and what is like it: of differences that are not positive, as core/tensor/tolerance.hpp allows.
TEST(GemmKernelVec, ExponentialsOfDifferencesStayWithinTheirBound) {
  std::vector<float> in;
  for (const float x : arguments(997)) in.push_back(x > 0 ? -x : x);
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    std::vector<float> out(in.size());
    target->apply(kExpBelowOne, in.data(), out.data(), static_cast<long>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(in[i])) {
        ASSERT_TRUE(std::isnan(out[i])) << target->label;
        continue;
      }
      const double want = std::exp(static_cast<double>(in[i]));
      const double bound = std::isinf(in[i]) ? 0 : exponential_bound(in[i]) * want + kLostExponential;
      ASSERT_LE(std::fabs(out[i] - want), bound) << target->label << " at " << in[i];
      ASSERT_TRUE(in[i] != 0 || out[i] == 1) << target->label;
    }
  }
}

// Activations: relative where the result is large; tails that vanish need only be small. As core/tensor/tolerance.hpp allows.
TEST(GemmKernelVec, ActivationsStayWithinTheirBound) {
  const std::vector<float> in = arguments(997);
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (VectorFunction f : {kSigmoid, kSilu, kGelu, kGeluTanh}) {
      std::vector<float> out(in.size());
      target->apply(f, in.data(), out.data(), static_cast<long>(in.size()));
      for (size_t i = 0; i < in.size(); ++i) {
        const double want = exact(f, in[i]);
        if (!std::isfinite(want)) {
          ASSERT_TRUE(std::isnan(want) ? std::isnan(out[i]) : out[i] == want)
              << target->label << " function " << f << " at " << in[i] << ": got " << out[i] << ", expected " << want;
          continue;
        }
        ASSERT_LE(std::fabs(out[i] - want),
                  8 * 0x1p-24 * (std::fabs(want) + std::fmin(std::fabs(in[i]), 1.0)) + 0x1p-147)
            << target->label << " function " << f << " at " << in[i];
      }
    }
  }
}

TEST(GemmKernelVec, StoresRoundAsTheStorageTypes) {
  // Every 16-bit value, its neighbours and the midpoints between them, subnormals and NaN included.
  std::vector<float> in;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) in.push_back(from_bits(high << 16 | low));
  }
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const uint32_t bits = to_bits(widen(f16{static_cast<unsigned short>(code)}));
    for (int d : {-1, 0, 1, 0xFFF, 0x1000, 0x1001}) in.push_back(from_bits(bits + static_cast<uint32_t>(d)));
  }
  while (in.size() % 16 != 0) in.push_back(0);
  std::vector<float> out(in.size());
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (VectorFunction f : {kRoundBf16, kRoundF16, kStreamBf16, kStreamF16}) {
      target->apply(f, in.data(), out.data(), static_cast<long>(in.size()));
      for (size_t i = 0; i < in.size(); ++i) {
        const bool to_bf16 = f == kRoundBf16 || f == kStreamBf16;
        const float want = to_bf16 ? widen(narrow<bf16>(in[i])) : widen(narrow<f16>(in[i]));
        if (std::isnan(want) && std::isnan(out[i])) continue;
        ASSERT_EQ(to_bits(out[i]), to_bits(want)) << target->label << " function " << f << " of " << in[i];
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
