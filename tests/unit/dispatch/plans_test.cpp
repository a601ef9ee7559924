// SPDX-License-Identifier: MIT
// What finds the plan of a repeated call: the bounded map that threads share, and each thread's few most recent plans.
#include <gtest/gtest.h>

#include <string>

#include "dispatch/plan_map.hpp"
#include "dispatch/recent_plans.hpp"
#include "support/toy_operator.hpp"

namespace tilewright {
namespace {

std::shared_ptr<const Plan> plan_of(int64_t workspace_bytes) {
  auto plan = std::make_shared<Plan>();
  plan->workspace_bytes = workspace_bytes;
  return plan;
}

TEST(PlanMap, HoldsNoMoreThanItsCapacityAndKeepsWhatIsUsed) {
  PlanMap map(8);
  map.insert("used", plan_of(1));
  for (int i = 0; i < 100; ++i) {
    map.insert("problem " + std::to_string(i), plan_of(i));
    ASSERT_LE(map.size(), 8u);
    ASSERT_NE(map.find("used"), nullptr) << "after " << i << " others";
  }
  EXPECT_EQ(map.find("problem 0"), nullptr);
}

TEST(PlanMap, ClearForgetsAndBeginsAnEpoch) {
  PlanMap map;
  map.insert("a", plan_of(1));
  const uint64_t epoch = map.epoch();
  map.clear();
  EXPECT_EQ(map.find("a"), nullptr);
  EXPECT_NE(map.epoch(), epoch);
}

class RecentPlansTest : public testing::Test {
 protected:
  RecentPlans::Key key(uint64_t context = 1, uint64_t epoch = 0, int units = 1, const void* device = nullptr) const {
    return {context, epoch, &test::toy_operator(), device, units, problem_};
  }
  std::vector<std::byte> problem_ = std::vector<std::byte>(64, std::byte{7});
  RecentPlans plans_;
};

TEST_F(RecentPlansTest, FindsAProblemOnlyWhenAllOfItsKeyIsTheSame) {
  EXPECT_FALSE(plans_.find(key()));
  plans_.insert(key(), plan_of(5));
  ASSERT_TRUE(plans_.find(key()));
  EXPECT_EQ(plans_.find(key())->workspace_bytes, 5);
  EXPECT_FALSE(plans_.find(key(2))) << "another context";
  EXPECT_FALSE(plans_.find(key(1, 1))) << "other tables";
  EXPECT_FALSE(plans_.find(key(1, 0, 2))) << "another unit budget";
  EXPECT_FALSE(plans_.find(key(1, 0, 1, &plans_))) << "another device";
  problem_.back() = std::byte{8};
  EXPECT_FALSE(plans_.find(key())) << "the same sizes, another option";
  problem_.back() = std::byte{7};
  EXPECT_TRUE(plans_.find(key()));
  problem_.push_back(std::byte{0});
  EXPECT_FALSE(plans_.find(key())) << "a longer problem";
}

TEST_F(RecentPlansTest, APlanInUseIsNotReplaced) {
  plans_.insert(key(), plan_of(5));
  {
    const RecentPlans::Pin pin = plans_.find(key());
    ASSERT_TRUE(pin);
    problem_.back() = std::byte{8};  // the same place
    EXPECT_FALSE(plans_.insert(key(), plan_of(6)));
    EXPECT_EQ(pin->workspace_bytes, 5);
  }
  EXPECT_TRUE(plans_.insert(key(), plan_of(6)));
  EXPECT_EQ(plans_.find(key())->workspace_bytes, 6);
}

TEST_F(RecentPlansTest, AProblemThatIsTooLargeIsNotKept) {
  problem_.assign(RecentPlans::kMaxProblemBytes + 1, std::byte{1});
  EXPECT_FALSE(plans_.insert(key(), plan_of(5)));
  EXPECT_FALSE(plans_.find(key()));
}

}  // namespace
}  // namespace tilewright
