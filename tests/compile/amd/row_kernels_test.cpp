// SPDX-License-Identifier: MIT
// Kernels of row operators compile for AMD GPUs without one: no spills, loads and stores of 16 bytes, rows in registers.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/amd/amd_kernels.hpp"
#include "core/fields.hpp"
#include "gemm/gemm_args.hpp"  // the names of activations and gates
#include "ops/op_list.hpp"
#include "tile/common/row_args.hpp"

namespace tilewright {
namespace {

class SlowAmdRowKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<std::string> objdump = amdgcn_compiler().tool("llvm-objdump");
    if (!objdump) GTEST_SKIP() << objdump.status().message();
  }
  // use(key, instructions) for every prebuilt kernel, none of which spills.
  template <class Use>
  void check_budget(const KernelFamily& family, Use&& use) {
    const std::vector<KernelKey> keys = family.builtin_keys(GetParam());
    ASSERT_FALSE(keys.empty()) << family.name();
    const auto found = test::inspect_all_amd(family, keys, scratch_);
    for (size_t i = 0; i < keys.size(); ++i) {
      SCOPED_TRACE(keys[i].text);
      ASSERT_TRUE(found[i].ok()) << found[i].status().message();
      const AmdKernel& kernel = found[i]->inspection.kernel;
      EXPECT_EQ(kernel.vgpr_spills, 0);
      EXPECT_EQ(kernel.sgpr_spills, 0);
      EXPECT_EQ(kernel.scratch_bytes, 0);
      EXPECT_FALSE(kernel.dynamic_stack);
      EXPECT_LE(kernel.vgprs, 128);
      use(keys[i], found[i]->code);
    }
  }

  test::ScratchFolder scratch_;
};

bool has_wide(const std::vector<AmdInstruction>& code, std::string_view what) {
  return std::ranges::any_of(code, [what](const AmdInstruction& i) {
    return i.mnemonic.find(what) != std::string::npos && (i.mnemonic.ends_with("x4") || i.mnemonic.ends_with("b128"));
  });
}

TEST_P(SlowAmdRowKernels, EveryPrebuiltOneMovesSixteenBytesWithoutSpills) {
  for (const Operator* op :
       {&rms_norm_operator(), &layer_norm_operator(), &act_and_mul_operator(), &rope_operator(), &quantize_operator(),
        &dequantize_operator(), &softmax_operator(), &cross_entropy_operator(), &gated_rms_norm_operator(),
        &elementwise_operator(), &rms_norm_backward_operator(), &layer_norm_backward_operator(),
        &act_and_mul_backward_operator()}) {
    const KernelFamily* family = find_family(op->families(), std::string(op->name()) + "_gpu");
    ASSERT_NE(family, nullptr);
    check_budget(*family, [](const KernelKey& key, const std::vector<AmdInstruction>& code) {
      RowGpuConfig config;
      ASSERT_TRUE(parse_fields(key.config(), config).ok());
      // A thread has eight codes of 8 bits.
      const bool reads_codes = is_quantised(config.x);
      EXPECT_TRUE(reads_codes || has_wide(code, "load"));
      EXPECT_TRUE((is_quantised(config.out) && !reads_codes) || has_wide(code, "store"));
    });
  }
}

TEST_P(SlowAmdRowKernels, MoeRoutingKeepsATokensLogitsInRegisters) {
  for (const KernelFamily* family : moe_routing_operator().families()) {
    if (family->builtin_keys(GetParam()).empty()) continue;  // a CPU's
    check_budget(*family, [](const KernelKey&, const std::vector<AmdInstruction>&) {});
  }
}

TEST_P(SlowAmdRowKernels, TransposeMovesSixteenBytesWithoutSpills) {
  for (const char* name : {"transpose_gpu", "transpose_generic_gpu"}) {
    const KernelFamily* family = find_family(transpose_operator().families(), name);
    ASSERT_NE(family, nullptr);
    check_budget(*family, [&](const KernelKey&, const std::vector<AmdInstruction>& code) {
      EXPECT_TRUE(family->generic() || (has_wide(code, "load") && has_wide(code, "store")));
    });
  }
}

TEST_P(SlowAmdRowKernels, GroupNormMovesSixteenBytesWithoutSpills) {
  for (const Operator* op : {&group_norm_operator(), &group_norm_backward_operator()}) {
    for (const char* kind : {"_gpu", "_generic_gpu"}) {
      const KernelFamily* family = find_family(op->families(), std::string(op->name()) + kind);
      ASSERT_NE(family, nullptr);
      check_budget(*family, [&](const KernelKey&, const std::vector<AmdInstruction>& code) {
        EXPECT_TRUE(family->generic() || (has_wide(code, "load") && has_wide(code, "store")));
      });
    }
  }
}

TEST_P(SlowAmdRowKernels, OperatorsOnLogitsHaveNoSpills) {
  for (const Operator* op : {&sample_operator(), &top_k_operator(), &apply_penalties_operator()}) {
    for (const KernelFamily* family : op->families()) {
      if (family->builtin_keys(GetParam()).empty()) continue;  // a CPU's
      check_budget(*family, [](const KernelKey&, const std::vector<AmdInstruction>&) {});
    }
  }
}

// Two heads a thread have the least room.
TEST_P(SlowAmdRowKernels, ThoseOfThePagedCacheMoveSixteenBytesWithoutSpills) {
  for (const Operator* op : {&kv_cache_write_operator(), &qk_norm_rope_cache_operator(), &kv_cache_copy_operator(),
                             &kv_cache_gather_operator()}) {
    for (const char* kind : {"_gpu", "_generic_gpu"}) {
      const KernelFamily* family = find_family(op->families(), std::string(op->name()) + kind);
      ASSERT_NE(family, nullptr);
      check_budget(*family, [&](const KernelKey&, const std::vector<AmdInstruction>& code) {
        EXPECT_TRUE(family->generic() || has_wide(code, "load"));
      });
    }
  }
}

// Typed at run time: every type's way through the kernel is in one.
TEST_P(SlowAmdRowKernels, TheGenericOneHasNoSpills) {
  for (const Operator* op :
       {&rms_norm_operator(), &layer_norm_operator(), &act_and_mul_operator(), &softmax_operator(),
        &cross_entropy_operator(), &gated_rms_norm_operator(), &elementwise_operator(), &rms_norm_backward_operator(),
        &layer_norm_backward_operator(), &act_and_mul_backward_operator()}) {
    const KernelFamily* family = find_family(op->families(), std::string(op->name()) + "_generic_gpu");
    ASSERT_NE(family, nullptr);
    check_budget(*family, [](const KernelKey&, const std::vector<AmdInstruction>&) {});
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SlowAmdRowKernels,
                         testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"));

}  // namespace
}  // namespace tilewright
