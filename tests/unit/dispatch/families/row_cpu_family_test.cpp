// SPDX-License-Identifier: MIT
// The CPU family of row operators asked about a CPU that need not be here: what an instance is compiled for.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ops/op_list.hpp"
#include "tile/common/row_config.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

const KernelFamily& cpu_rows(const Operator& op) {
  return *find_family(op.families(), std::string(op.name()) + "_cpu");
}
DeviceSpec avx2_device() { return test::cpu_device("x86-64-v3"); }
RecipeStep step_of(const Operator& op, const std::string& text) {
  const auto problem = op.parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.status().message();
  if (!problem) return {};
  const std::vector<Candidate> found = cpu_rows(op).candidates(*problem, avx2_device());
  EXPECT_EQ(found.size(), 1u) << text;
  return found.empty() ? RecipeStep{} : found.front().step;
}
int group_of(const Operator& op, const std::string& text) {
  RowCpuConfig config{};
  EXPECT_TRUE(parse_fields(step_of(op, text).key.config(), config).ok()) << text;
  return config.group;
}

TEST(RowCpuFamily, AnInstanceIsCompiledForOneSizeOfGroups) {
  for (const int group : {16, 32, 64, 128}) {
    EXPECT_EQ(group_of(quantize_operator(), fmt::format("m=8:n=256:x=bf16:out=e4m3:quant=group:group={}", group)),
              group);
  }
  EXPECT_EQ(group_of(rms_norm_operator(), "m=8:n=256:x=bf16:out=e4m3:quant=group"), 128);
}

TEST(RowCpuFamily, WhereNoScaleOfAGroupIsFoundOneInstanceServesAllSizes) {
  EXPECT_EQ(group_of(quantize_operator(), "m=8:n=256:x=bf16:out=e4m3:quant=row"), 0);
  EXPECT_EQ(group_of(quantize_operator(), "m=8:n=256:x=bf16:out=e4m3:quant=block"), 0);
  EXPECT_EQ(group_of(dequantize_operator(), "m=8:n=256:x=e4m3:out=bf16:quant=group:group=64"), 0);
  EXPECT_EQ(group_of(dequantize_operator(), "m=8:n=256:x=e4m3:out=bf16:quant=group:group=128"), 0);
}

TEST(RowCpuFamily, AKernelOfAnotherSizeOfGroupsIsRefused) {
  const Operator& op = quantize_operator();
  const RecipeStep of_128 = step_of(op, "m=8:n=256:x=bf16:out=e4m3:quant=group:group=128");
  const auto problem = op.parse_problem("m=8:n=256:x=bf16:out=e4m3:quant=group:group=64");
  ASSERT_TRUE(problem.ok());
  const Status refused = cpu_rows(op).check(*problem, avx2_device(), of_128);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), HasSubstr("group=64"));
}

TEST(RowCpuFamily, AKeyOfGroupsThatNobodyAsksForIsRefusedBeforeItIsCompiled) {
  const auto source_of = [](const char* config) {
    return cpu_rows(quantize_operator())
        .source(
            make_key("quantize", "quantize_cpu", "x86-64-v3", "x=bf16", std::string("x=bf16:residual=none:") + config));
  };
  EXPECT_TRUE(source_of("out=e4m3:quant=group:group=32:hadamard=0:chance=0").ok());
  for (const char* config :
       {"out=e4m3:quant=group:group=48:hadamard=0:chance=0", "out=e4m3:quant=group:group=0:hadamard=0:chance=0",
        "out=e4m3:quant=row:group=32:hadamard=0:chance=0"}) {
    const auto refused = source_of(config);
    ASSERT_FALSE(refused.ok()) << config;
    EXPECT_THAT(refused.status().message(), HasSubstr("'group' is")) << config;
  }
}

TEST(RowCpuFamily, LibrariesCarryTheUsualSizesOfGroups) {
  std::string keys;
  for (const KernelKey& key : cpu_rows(quantize_operator()).builtin_keys("x86-64-v3")) keys += key.text + "\n";
  for (const char* usual :
       {"out=e4m3:quant=group:group=128", "out=e4m3:quant=group:group=32", "out=e2m1:quant=group:group=16"})
    EXPECT_THAT(keys, HasSubstr(usual));
}

}  // namespace
}  // namespace tilewright
