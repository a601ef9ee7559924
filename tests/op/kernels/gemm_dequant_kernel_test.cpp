// SPDX-License-Identifier: MIT
// gemm_dequant_cpu, every instruction by itself or through its twin: what packing makes of types, scales and zero points of any
// strides, and what the sums of groups take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "op/instances/kernel_runner.hpp"

namespace tilewright {
namespace {

constexpr const char* kModes[] = {
    // The sums of groups stand apart.
    "a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=bf16:b=i4:scale_b=bf16.1x32",
    "a=bf16:b=i8:scale_b=f16.1x64:zero_b=i8", "a=bf16:b=e2m1:scale_b=f32.1x64", "a=bf16:b=e5m2:scale_b=f32.1x128",
    "a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128", "a=e4m3:scale_a=f16.1x32:scale_b=bf16.1x128",
    "a=e4m3:b=e5m2:scale_a=e8m0.1x32:scale_b=f32.1x64", "a=i8:scale_a=f32.1x128:scale_b=f32.128x128",
    "a=i8:scale_a=f32.128x64", "a=i8:scale_b=f16.1x32:d=f32", "a=bf16:scale_a=f32.1x64",
    "a=e2m1:b=bf16:scale_a=f16.1x32",
    // bf16 holds the values times their scales.
    "a=bf16:b=i4", "a=bf16:b=i8:scale_b=f32", "a=e4m3:scale_a=f32:scale_b=f32",
    "a=e4m3:b=e5m2:scale_a=e8m0.1x32:scale_b=e8m0.1x32", "a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16:alpha=1",
    "a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32", "a=bf16:b=e2m1:scale_b=e8m0.1x32", "a=e4m3fnuz:b=e5m2fnuz",
    "a=bf16:b=u4:scale_b=e8m0.1x64:zero_b=i4",
    // Only f32 does.
    "a=f16:b=i4:scale_b=f16.1x128", "a=bf16:b=u4:scale_b=f32.1x128:zero_b=bf16",
    "a=f32:scale_a=f16.128x16:scale_b=f32.1x128", "a=f16:b=e4m3:scale_b=f32", "a=bf16:b=i4:scale_b=f16.1x16"};

TEST(GemmDequantKernels, EachModeMatchesTheReference) {
  for (const char* mode : kModes) {
    for (const char* sizes : {"m=33:n=70:k=300", "m=130:n=33:k=136"}) {
      check_kernels(fmt::format("{}:layout=rcr:{}", sizes, mode), {.units = 2, .knobs = {}});
    }
  }
}

TEST(GemmDequantKernels, EveryKernelIsRun) {
  std::set<std::string> idle;
  for_each_dequant_kernel(
      [&](const KernelTarget& target, const KernelUnderTest& kernel) { idle.insert(kernel_name(target, kernel)); });
  for (const char* mode : kModes) {
    const Result<GemmProblem> p = parse_gemm_problem(fmt::format("m=33:n=70:k=300:{}", mode));
    ASSERT_TRUE(p.ok()) << mode;
    for_each_dequant_kernel([&](const KernelTarget& target, const KernelUnderTest& kernel) {
      if (serves(kernel, *p)) idle.erase(kernel_name(target, kernel));
    });
  }
  EXPECT_THAT(idle, testing::IsEmpty());
}

TEST(GemmDequantKernels, TailsStridesBatchesAndGatesAreServed) {
  for (const char* text :
       {"m=17:n=40:k=2:layout=rcr:a=bf16:b=i4:scale_b=f16.1x32", "m=16:n=1:k=129:layout=rcr:a=e4m3:scale_a=f32.1x128",
        "m=1:n=17:k=1:layout=rcr:a=i8:scale_b=f32.1x64",
        // n contiguous; nothing contiguous; rows of half bytes.
        "m=20:n=48:k=200:layout=rrr:a=bf16:b=u4:scale_b=f16.1x64.0.1.48:zero_b=u4.0.1.48",
        "m=20:n=37:k=200:layout=rrr:a=bf16:b=e4m3:scale_b=f32.128x128", "m=20:n=37:k=70:layout=ccr:a=e2m1:b=bf16",
        "m=19:n=40:k=200:a=bf16:b=i4:sb=0.3.700:scale_b=f16.1x32",
        "m=19:n=33:k=77:a=bf16:b=e2m1:sb=0.1.77:scale_b=e8m0.1x32",
        "m=19:n=40:k=200:a=e4m3:sa=0.1.23:sb=0.1.220:sd=0.1.21:scale_a=f32.1x128.0.1.19",
        "m=19:n=40:k=200:a=i8:sa=0.1.23:sb=0.41.1:scale_a=f32.1x128:scale_b=f32.1x128",
        // Scales of 128 rows: 14 rows that are packed together may have two of them.
        "m=300:n=33:k=160:layout=rcr:a=e5m2:scale_a=e4m3.128x32", "m=300:n=33:k=160:layout=rcr:a=i8:scale_a=f32.128x64",
        "m=20:n=40:k=256:batch=3:layout=rcr:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4",
        "m=20:n=40:k=256:batch=2:a=bf16:b=u4:sb=0.1.256:scale_b=f16.1x64",
        "m=33:n=74:k=192:layout=rcr:a=bf16:b=u4:scale_b=f16.1x64:gate=separated:act=silu",
        "m=33:n=64:k=192:layout=rcr:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:gate=separated:act=silu",
        "m=33:n=74:k=192:layout=rcr:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=interleaved:act=silu:steps=add.f32",
        "m=33:n=74:k=192:layout=rcr:a=i8:scale_a=f32.1x64:scale_b=f32.1x64:c=bf16:bias=f32",
        "m=33:n=70:k=300:packed=1:a=bf16:b=i4:scale_b=f16.1x128",
        "m=33:n=70:k=300:packed=1:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4",
        "m=33:n=70:k=300:packed=1:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=33:n=70:k=300:packed=1:a=bf16:b=i8:scale_b=f32",
        "m=33:n=70:k=300:packed=1:a=i8:scale_a=f32.1x128:scale_b=f32.128x128",
        "m=33:n=70:k=300:packed=1:a=bf16:scale_b=f16.1x32", "m=33:n=70:k=300:packed=1:a=f16:scale_b=f16.1x32",
        "m=33:n=70:k=300:packed=1:a=f32:scale_b=f16.1x32"}) {
    check_kernels(text, {.seed = 2, .data = InputData::kPositive, .units = 3, .knobs = {}});
  }
}

// Several blocks of every dimension, in both orders of the loops, and what each unit keeps of packed operands.
TEST(GemmDequantKernels, BlocksMatchTheReference) {
  for (const char* mode :
       {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=e4m3:scale_a=f32.1x64:scale_b=f32.1x128",
        "a=i8:scale_a=f32.1x128:scale_b=f32.128x128", "a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16"}) {
    for (const GemmKnobs& knobs : {GemmKnobs{32, 64, 128}, GemmKnobs{64, 32, 256}, GemmKnobs{16, 1024, 1}}) {
      check_kernels(fmt::format("m=150:n=170:k=700:layout=rcr:{}", mode),
                    {.units = 2, .reversed = true, .knobs = knobs});
    }
  }
}

TEST(GemmDequantKernels, RowsDoNotDependOnHowManyThereAre) {
  for (const char* mode : {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
                           "a=i8:scale_a=f32.1x128:scale_b=f32.128x128", "a=bf16:b=e2m1:scale_b=e8m0.1x32",
                           "a=f16:b=i4:scale_b=f16.1x128"}) {
    // The same strides of A, so that the same values come.
    KernelRun many(fmt::format("m=61:n=70:k=1500:layout=rcr:{}", mode), {.units = 1, .knobs = {}});
    for_each_dequant_kernel([&](const KernelTarget& target, const KernelUnderTest& kernel) {
      if (!serves(kernel, many.problem())) return;
      many.mutable_args().m = 61;
      ASSERT_EQ(many.execute(kernel), "");
      const std::vector<unsigned char> all = many.output();
      const size_t row = all.size() / 61;
      many.mutable_args().m = 3;
      ASSERT_EQ(many.execute(kernel), "");
      std::vector<unsigned char> few = many.output();
      few.resize(3 * row);
      EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin())) << kernel_name(target, kernel) << " " << mode;
    });
  }
}

}  // namespace
}  // namespace tilewright
