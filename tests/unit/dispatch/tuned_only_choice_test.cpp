// SPDX-License-Identifier: MIT
// Families that only tuned rows choose: an untuned call takes the generic kernel, the tuner is offered theirs.
#include "unit/dispatch/cuda_choice.hpp"

namespace tilewright {
namespace {

class TunedOnlyChoice : public test::CudaChoice {};

TEST_F(TunedOnlyChoice, StandsBehindTheGenericKernelUntilARowNamesIt) {
  constexpr const char* kProblem = "m=16:n=4096:k=4096:a=bf16:b=e2m1:scale_b=e8m0.1x32";
  const std::vector<Choice> untuned = choices(kProblem, {});
  EXPECT_EQ(untuned.front().source, ChoiceSource::kGeneric);
  ASSERT_GE(untuned.size(), 2u);
  for (size_t i = 1; i < untuned.size(); ++i) {
    const KernelFamily* family = find_family(gemm_operator().families(), untuned[i].recipe.steps.front().key.family);
    ASSERT_NE(family, nullptr);
    EXPECT_TRUE(family->tuned_only()) << family->name();
  }
  TunedTable table;
  table.add_layer({row(kProblem, 1)});
  EXPECT_EQ(choices(kProblem, table).front().source, ChoiceSource::kTuned);
  EXPECT_EQ(first(kProblem, table), row(kProblem, 1).recipe);
}

}  // namespace
}  // namespace tilewright
