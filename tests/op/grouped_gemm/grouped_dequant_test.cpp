// SPDX-License-Identifier: MIT
// grouped_dequant_cpu through the public API: every built kernel against the reference, groups of every kind, and packed weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "op/gemm/built_context.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"
#include "tilewright/grouped_gemm.hpp"

namespace tilewright {
namespace {

// How many of the family's built kernels multiplied the problem.
int check_grouped_dequant(const std::string& text, InputData data, std::set<std::string>& seen) {
  SCOPED_TRACE(text);
  const Operator& op = grouped_gemm_operator();
  ContextImpl& impl = test::built_context().impl();
  const Result<std::vector<std::byte>> problem = op.parse_problem(text);
  EXPECT_TRUE(problem.ok()) << problem.status().to_string();
  if (!problem) return 0;
  auto instance = op.instantiate(*problem, impl.device(), {});
  EXPECT_TRUE(instance.ok()) << instance.status().to_string();
  if (!instance) return 0;
  (*instance)->fill(5, data);
  const auto choices = impl.dispatcher().choices(op, *problem, impl.spec(0), TunedTable(), "", nullptr);
  int ran = 0;
  for (const Choice& choice : *choices) {
    const std::string recipe = print_recipe(op.families(), choice.recipe);
    if (recipe.find("/grouped_dequant_cpu/") == std::string::npos || !impl.dispatcher().built(op, choice.recipe))
      continue;
    (*instance)->poison();
    const Status status = impl.run(op, *problem, (*instance)->bindings(), {}, recipe);
    EXPECT_TRUE(status.ok()) << recipe << ": " << status.to_string();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << recipe << ": " << report.failure;
    seen.insert(recipe);
    ++ran;
  }
  return ran;
}

bool grouped_dequant_runs() {
  std::set<std::string> seen;
  return check_grouped_dequant("groups=1:m=1:n=16:k=32:a=bf16:b=i4", InputData::kNormal, seen) > 0;
}

TEST(GroupedDequant, EveryBuiltKernelMatchesTheReference) {
  if (!grouped_dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::set<std::string> seen;
  for (const char* mode : {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=bf16:b=i4:scale_b=bf16.1x32",
                           "a=bf16:b=e2m1:scale_b=e8m0.1x32", "a=bf16:b=i8:scale_b=f32", "a=f16:b=i4:scale_b=f16.1x64",
                           "a=bf16:b=e4m3:scale_b=f32.128x128", "a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
                           "a=e4m3:scale_a=f32", "a=i8:scale_a=f32.1x128:scale_b=f32.128x128",
                           // Scales of 128 rows of all of A: groups begin inside of them.
                           "a=e4m3:scale_a=f32.128x128:scale_b=f32.128x128", "a=e5m2:scale_a=e4m3.128x32",
                           "a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16:alpha=1"}) {
    for (const char* groups : {"groups=5:m=401:n=70:k=300", "mode=masked:groups=3:m=37:n=33:k=129",
                               "groups=40:m=33:n=48:k=256:extents=offsets:gate=separated:act=silu",
                               "groups=4:m=90:n=34:k=64:align_rows=16:bias=f32:status=1"}) {
      for (const InputData data : {InputData::kNormal, InputData::kPositive}) {
        EXPECT_GE(check_grouped_dequant(fmt::format("{}:{}", groups, mode), data, seen), 1);
      }
    }
  }
  bool fma = false, by_group = false;
  for (const std::string& recipe : seen) {
    fma = fma || recipe.find("mma=fma_") != std::string::npos;
    by_group = by_group || recipe.find("by_group=1") != std::string::npos;
  }
  EXPECT_TRUE(fma && by_group) << seen.size();
}

TEST(GroupedDequant, OthersAreAnotherFamilys) {
  std::set<std::string> seen;
  for (const char* text : {"groups=3:m=20:n=16:k=32:a=bf16", "groups=3:m=20:n=16:k=32:a=bf16:b=i4:gather=30",
                           "mode=ragged_k:groups=3:m=20:n=16:k=64:a=e4m3"}) {
    EXPECT_EQ(check_grouped_dequant(text, InputData::kNormal, seen), 0);
  }
}

// Weights of every group packed one after another give the bits of plain ones.
TEST(GroupedDequant, PackedWeightsGiveTheBitsOfPlainOnes) {
  if (!grouped_dequant_runs()) GTEST_SKIP() << "no AVX2";
  constexpr int64_t kGroups = 3, kRows = 50, kN = 37, kK = 256;
  for (const DType dtype : {DType::kU4, DType::kI4, DType::kF4E2M1, DType::kI8}) {
    std::vector<uint16_t> a(kRows * kK), scales(kGroups * kN * kK / 128, 0x3555);
    std::vector<uint8_t> b(static_cast<size_t>(kGroups * kN * kK * dtype_bits(dtype) / 8));
    for (size_t i = 0; i < a.size(); ++i) {
      store_element(DType::kBf16, a.data(), static_cast<int64_t>(i), static_cast<double>(i * 37 % 101) / 50 - 1);
    }
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 91 + i / 7);
    std::vector<int32_t> sizes = {20, 0, 29};
    const int64_t bytes = *gemm_packed_bytes(dtype, kN, kK, kGroups);
    std::vector<std::byte> memory(static_cast<size_t>(bytes) + 64);
    std::byte* const packed = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;

    GroupedGemmCall call;
    call.gemm.a = TensorView::contiguous(a.data(), DType::kBf16, {kRows, kK});
    call.gemm.b = TensorView::contiguous(b.data(), dtype, {kGroups, kN, kK}).transposed();
    call.gemm.scale_b = TensorView::contiguous(scales.data(), DType::kF16, {kGroups, kN, kK / 128}).transposed();
    call.gemm.scale_group_b = {1, 128};
    call.sizes = TensorView::contiguous(sizes.data(), DType::kI32, {kGroups});
    ASSERT_TRUE(gemm_pack_weights(test::built_context(), call.gemm.b, packed, bytes).ok());
    std::vector<float> d[2] = {std::vector<float>(kRows * kN, -7.0f), std::vector<float>(kRows * kN, -7.0f)};
    for (const bool from_packed : {false, true}) {
      if (from_packed) call.gemm.b = *gemm_packed_view(packed, bytes);
      call.gemm.d = TensorView::contiguous(d[from_packed].data(), DType::kF32, {kRows, kN});
      const Status status = grouped_gemm(test::built_context(), call);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    EXPECT_EQ(std::memcmp(d[0].data(), d[1].data(), d[0].size() * sizeof(float)), 0) << dtype_name(dtype);
    EXPECT_EQ(d[0].back(), -7.0f);
  }
}

}  // namespace
}  // namespace tilewright
