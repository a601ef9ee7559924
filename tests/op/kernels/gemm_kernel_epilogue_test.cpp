// SPDX-License-Identifier: MIT
// Every part of the epilogue through every kernel, against the float64 reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "op/instances/kernel_runner.hpp"

namespace tilewright {
namespace {

TEST(GemmKernelEpilogue, ScalesApply) {
  check_kernels("m=7:n=37:k=20:alpha=1");
  check_kernels("m=7:n=37:k=20:scale_a=f32:scale_b=f32");
  check_kernels("m=7:n=37:k=20:scale_a=f32.0.0.0:scale_b=f32.0.0.0:alpha=1");
  check_kernels("m=7:n=37:k=20:scale_b=f32.0.0.3:d=f32");
  check_kernels("m=3:n=37:k=20:batch=2:scale_a=f32.3.1.0:scale_b=f32.40.0.1");
}

TEST(GemmKernelEpilogue, CAndBiasOfEveryTypeAndStrideAreAdded) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    check_kernels(fmt::format("m=7:n=37:k=20:c={}:bias={}:d=f32", type, type));
    check_kernels(fmt::format("m=7:n=37:k=20:c={}.0.1.7:bias={}.0.0.2:d=f32", type, type));
    check_kernels(fmt::format("m=7:n=37:k=20:c={}.0.0.0:bias={}.0.37.1:d=f32", type, type));
  }
  check_kernels("m=5:n=37:k=20:batch=2:c=f32:bias=f32.37.0.1");
}

TEST(GemmKernelEpilogue, DIsStoredInEveryTypeAndStride) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    for (const char* strides : {"", ":sd=0.50.1", ":sd=0.1.7", ":sd=0.100.2"}) {
      check_kernels(fmt::format("m=7:n=37:k=20:d={}{}", type, strides));
    }
  }
}

TEST(GemmKernelEpilogue, ActivationsFollowTheLinearPart) {
  for (const char* name : {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "clamp"}) {
    check_kernels(fmt::format("m=7:n=37:k=4:bias=f32:act={}:d=f32", name));
  }
}

TEST(GemmKernelEpilogue, GatesTakeTheirColumnsFromAnyPanel) {
  for (const char* gate : {"separated", "interleaved"}) {
    // Halves that begin inside a panel, at its end, in the first panel.
    for (int half : {1, 5, 16, 17, 24, 48, 65, 150}) {
      check_kernels(fmt::format("m=6:n={}:k=24:gate={}:act=silu", 2 * half, gate));
    }
    check_kernels(fmt::format("m=40:n=300:k=24:gate={}:act=gelu:bias=f32:c=bf16:scale_b=f32:d=f32", gate));
    RunOptions options;
    options.units = 3;
    options.knobs = {32, 64, 64};
    check_kernels(fmt::format("m=40:n=300:k=100:gate={}:act=gelu:bias=f32", gate), options);
    check_kernels(fmt::format("m=40:n=300:k=100:gate={}:act=gelu:bias=f32:layout=rrr", gate), options);
  }
}

TEST(GemmKernelEpilogue, StepsRunInTheirOrder) {
  check_kernels("m=7:n=37:k=20:steps=add.f32+mul.bf16+act.relu:d=f32");
  check_kernels("m=7:n=37:k=20:steps=mul.f32.0.0.1+act.tanh+add.f16.0.1.0+add.f32.0.0.0+mul.bf16+act.clamp:d=f32");
  check_kernels("m=7:n=74:k=20:gate=separated:act=silu:steps=add.f32+act.gelu:d=f32");
  check_kernels("m=7:n=74:k=20:gate=interleaved:act=silu:steps=mul.f32+act.gelu:d=f32");
}

// Runs `kernel` on a problem after `change` has touched its arguments.
template <class Change>
float first_output(const KernelUnderTest& kernel, const std::string& text, Change change) {
  KernelRun run(text);
  change(run.mutable_args());
  run.run(kernel);
  float value;
  std::memcpy(&value, run.args().epilogue.d, 4);
  return value;
}

std::string text_of(const KernelUnderTest& kernel, const char* text) {
  const DType dtype = kernel_dtype(kernel) == DType::kNone ? DType::kF32 : kernel_dtype(kernel);
  const bool packed = kernel.kind == KernelKind::kGemv && kernel.gemv.packed;
  return fmt::format("{}:a={}:d=f32{}", text, dtype_name(dtype), packed ? ":packed=1" : "");
}

TEST(GemmKernelEpilogue, BetaZeroDoesNotReadC) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    const std::string text = text_of(kernel, "m=2:n=20:k=8:c=f32");
    std::vector<float> nan(64, std::numeric_limits<float>::quiet_NaN());
    const float value = first_output(kernel, text, [&](GemmArgs& args) {
      args.epilogue.beta = 0;
      args.epilogue.c.data = nan.data();
    });
    EXPECT_TRUE(std::isfinite(value)) << kernel_name(target, kernel);
  });
}

TEST(GemmKernelEpilogue, NanPassesThroughEveryActivation) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_kernel([&](const KernelTarget& target, const KernelUnderTest& kernel) {
    for (const char* name : {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "clamp"}) {
      const std::string text = text_of(kernel, fmt::format("m=2:n=20:k=8:bias=f32:act={}", name).c_str());
      const float value = first_output(kernel, text, [&](GemmArgs& args) {
        args.epilogue.bias.data = &nan;
        args.epilogue.bias.stride_m = args.epilogue.bias.stride_n = 0;
      });
      EXPECT_TRUE(std::isnan(value)) << kernel_name(target, kernel) << " " << name;
    }
  });
}

TEST(GemmKernelEpilogue, NanOfARowReachesThatRowOnly) {
  for_each_kernel([&](const KernelTarget& target, const KernelUnderTest& kernel) {
    const DType dtype = kernel_dtype(kernel) == DType::kNone ? DType::kBf16 : kernel_dtype(kernel);
    if (dtype == DType::kI8) return;
    const bool packed = kernel.kind == KernelKind::kGemv && kernel.gemv.packed;
    KernelRun run(fmt::format("m=3:n=20:k=33:a={}:d=f32{}", dtype_name(dtype), packed ? ":packed=1" : ""));
    store_element(dtype, const_cast<void*>(run.args().a), 33 + 32, std::numeric_limits<double>::quiet_NaN());
    run.run(kernel);
    for (int i = 0; i < 60; ++i) {
      EXPECT_EQ(std::isnan(load_element(DType::kF32, run.args().epilogue.d, i)), i / 20 == 1)
          << kernel_name(target, kernel) << " element " << i;
    }
  });
}

}  // namespace
}  // namespace tilewright
