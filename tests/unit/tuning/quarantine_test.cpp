// SPDX-License-Identifier: MIT
// The quarantine: what was bad is not tried again, here, until its sources change or it is let go.
#include <gtest/gtest.h>

#include <fstream>

#include "dispatch/registry/quarantine.hpp"
#include "support/toy_operator.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class Quarantine : public testing::Test {
 protected:
  void SetUp() override {
    context_ = make();
    ASSERT_NE(context_, nullptr);
  }
  std::unique_ptr<ContextImpl> make() {
    test::offer_toy_kernels({"plain", "crash"});
    return test::toy_context(folder_.path());
  }
  static QuarantineEntry crashed(const std::string& problem = "n=17", const std::string& kernel = "crash") {
    return {"toy", test::toy_recipe(kernel), problem, "crashed", "SIGSEGV\tafter\n\"hello\"", "", ""};
  }
  Priority priority(ContextImpl& context) { return context.registry().priority(test::toy_recipe("crash")); }

  test::ScratchFolder folder_;
  std::string path_ = folder_ / "deep/tuning.quarantine";
  std::unique_ptr<ContextImpl> context_;
};

TEST_F(Quarantine, AnEntryOutlivesTheProcessAndIsAppliedOnRequest) {
  QuarantineList(path_, *context_).add(crashed("n=17"));
  EXPECT_EQ(priority(*context_), Priority::kDisabled) << "at once";
  const std::unique_ptr<ContextImpl> next = make();
  const QuarantineList list(path_, *next);
  ASSERT_EQ(list.entries().size(), 1u);
  EXPECT_EQ(list.entries()[0].problem, "n=17");
  EXPECT_EQ(list.entries()[0].outcome, "crashed");
  EXPECT_EQ(list.entries()[0].reason, "SIGSEGV\tafter\n\"hello\"");
  EXPECT_FALSE(list.entries()[0].date.empty());
  EXPECT_NE(priority(*next), Priority::kDisabled);
  list.apply();
  EXPECT_EQ(priority(*next), Priority::kDisabled);
}

TEST_F(Quarantine, AKernelThatIsLetGoIsTriedAgain) {
  QuarantineList list(path_, *context_);
  list.add(crashed("n=17"));
  EXPECT_FALSE(list.forget("toy", "no such recipe"));
  EXPECT_TRUE(list.forget("toy", crashed().recipe));
  EXPECT_TRUE(list.entries().empty());
  EXPECT_TRUE(QuarantineList(path_, *context_).entries().empty());
}

TEST_F(Quarantine, LookingMakesNoFile) {
  EXPECT_TRUE(QuarantineList(path_, *context_, FileAccess::kRead).problem().ok());
  EXPECT_TRUE(QuarantineList("", *context_, FileAccess::kRead).problem().ok());
  EXPECT_FALSE(is_file(path_));
}

TEST_F(Quarantine, TheSameKernelStandsOnce) {
  QuarantineList list(path_, *context_);
  list.add(crashed("n=17"));
  list.add(crashed("n=33"));
  ASSERT_EQ(list.entries().size(), 1u);
  EXPECT_EQ(list.entries()[0].problem, "n=33");
}

TEST_F(Quarantine, ChangedSourcesAnotherCompilerAndDamageRelease) {
  QuarantineList(path_, *context_).add(crashed("n=17"));
  const std::string whole = *read_file(path_);
  const auto with = [&](const std::string& field) {
    // The field's value changes, and the checksum with it: another process wrote it so.
    RecordFile written(folder_ / ("changed" + field), FileAccess::kAppend, [](const Record&) {});
    const RecordFile old_file(path_, FileAccess::kRead, [&](const Record& old) {
      Record record(old.verb());
      for (const char* name : {"env", "op", "recipe", "problem", "outcome", "reason", "digest", "date"})
        record.set(name, std::string(old.get(name)) + (name == field ? "x" : ""));
      written.append(record);
    });
    return QuarantineList(folder_ / ("changed" + field), *context_).entries().size();
  };
  EXPECT_EQ(with(""), 1u);
  EXPECT_EQ(with("digest"), 0u);
  EXPECT_EQ(with("env"), 0u);
  EXPECT_EQ(with("op"), 0u);
  std::ofstream(path_, std::ios::trunc | std::ios::binary) << whole.substr(0, whole.size() / 2);
  EXPECT_TRUE(QuarantineList(path_, *context_).entries().empty());
}

TEST_F(Quarantine, WithoutAPlaceToWriteTheKernelIsStillDisabled) {
  QuarantineList list("/proc/none/tuning.quarantine", *context_);
  EXPECT_FALSE(list.problem().ok());
  list.add(crashed("n=17"));
  EXPECT_EQ(priority(*context_), Priority::kDisabled);
}

}  // namespace
}  // namespace tilewright
