// SPDX-License-Identifier: MIT
// A kernel in quarantine is chosen by nothing: not by cost, not by a tuned row, not when it is forced. What always works
// stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "dispatch/context_impl.hpp"
#include "dispatch/registry/quarantine.hpp"
#include "ops/op_list.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

class QuarantinedChoice : public testing::Test {
 protected:
  void SetUp() override {
    problem_ = *gemm_operator().parse_problem("m=8:n=64:k=64:a=f32");
    best_ = choices(*open()).front();
    if (open()->impl().dispatcher().choices(op(), problem_, spec(*open()), {}, "", nullptr)->size() < 3)
      GTEST_SKIP() << "this CPU has no kernels to choose among";
  }
  static const Operator& op() { return gemm_operator(); }
  static DeviceSpec spec(Context& context) { return context.impl().spec(0); }

  std::unique_ptr<Context> open(bool user_tables = true, std::vector<std::string> tuned_files = {}) {
    ContextOptions options;
    options.jit = "off";
    options.cache_dir = scratch_ / "cache";
    options.user_tables = user_tables;
    options.tuned_files = std::move(tuned_files);
    options.cpu_units = 1;
    return std::move(*Context::create(options));
  }
  // Recipes of all choices, best first.
  std::vector<std::string> choices(Context& context) {
    auto found =
        context.impl().dispatcher().choices(op(), problem_, spec(context), *context.impl().tables(), "", nullptr);
    std::vector<std::string> recipes;
    for (const Choice& choice : *found) recipes.push_back(print_recipe(op().families(), choice.recipe));
    return recipes;
  }
  std::string explain(Context& context) { return *context.impl().explain(op(), problem_, 0, ""); }
  void quarantine(const std::string& recipe) { quarantine_all({recipe}); }
  void quarantine_all(const std::vector<std::string>& recipes) {
    const std::unique_ptr<Context> context = open();
    QuarantineList list(path(*context), context->impl());
    for (const std::string& recipe : recipes) {
      list.add({"gemm", recipe, "m=8:n=64:k=64:a=f32", "crashed", "signal 11", "", ""});
    }
    ASSERT_TRUE(list.problem().ok()) << list.problem().to_string();
  }
  static std::string path(Context& context) { return quarantine_path(spec(context).arch->target); }
  // A table whose one row names the recipe for the problem.
  std::string table(const std::string& recipe, const std::string& own_recipe = "") {
    const std::unique_ptr<Context> context = open();
    const ProblemSignature signature = op().signature(problem_);
    TunedRow row;
    row.op = "gemm", row.target = spec(*context).arch->target, row.part = spec(*context).part;
    row.units = spec(*context).units;
    row.core = signature.core, row.epilogue = signature.epilogue;
    row.sizes = signature.sizes, row.bucket = signature.bucket;
    row.recipe = recipe, row.us = 1;
    row.own_recipe = own_recipe;
    const std::string file = scratch_ / "tuned.csv";
    std::ofstream(file) << tuned_csv_header() << "\n" << *print_tuned_row(row) << "\n";
    return file;
  }

  test::ScratchFolder scratch_;
  const test::ScopedVariable data_{"TILEWRIGHT_DATA_DIR", scratch_ / "data"};
  std::vector<std::byte> problem_;
  std::string best_;
};

TEST_F(QuarantinedChoice, CostDoesNotChooseItAndExplainSaysWhy) {
  EXPECT_THAT(explain(*open()), Not(HasSubstr("quarantined")));
  quarantine(best_);
  const std::unique_ptr<Context> context = open();
  const std::string key = best_.substr(0, best_.find('@'));
  for (const std::string& recipe : choices(*context)) EXPECT_NE(recipe.substr(0, recipe.find('@')), key);
  EXPECT_THAT(explain(*context), HasSubstr("quarantined: crashed: signal 11: " + key));
  EXPECT_TRUE(context->impl().plan(op(), problem_, 0, "", true).ok());
}

TEST_F(QuarantinedChoice, ATunedRowThatNamesItIsPassedOver) {
  const std::string file = table(best_);
  EXPECT_THAT(explain(*open(true, {file})), HasSubstr(best_ + " (tuned"));
  quarantine(best_);
  const std::unique_ptr<Context> context = open(true, {file});
  EXPECT_THAT(explain(*context), HasSubstr("tuned row (m=8:n=64:k=64:batch=1): "));
  EXPECT_NE(choices(*context).front(), best_);
}

TEST_F(QuarantinedChoice, BehindATunedRowThatCannotRunItsBestOwnRecipeServes) {
  const std::string own = choices(*open())[1];
  const std::unique_ptr<Context> context =
      open(true, {table("gemm/of_a_vendor/" + best_.substr(best_.find("x86")), own)});
  EXPECT_EQ(choices(*context).front(), own);
  EXPECT_THAT(explain(*context), HasSubstr("of_a_vendor"));
}

TEST_F(QuarantinedChoice, ForcingItIsRefusedWithTheReason) {
  quarantine(best_);
  const Status status = open()->impl().plan(op(), problem_, 0, best_, true).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("quarantined: crashed: signal 11"));
}

TEST_F(QuarantinedChoice, WhatAlwaysWorksStays) {
  quarantine_all(choices(*open()));
  const std::unique_ptr<Context> context = open();
  ASSERT_EQ(choices(*context).size(), 1u);
  const auto plan = context->impl().plan(op(), problem_, 0, "", true);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ((*plan)->source, ChoiceSource::kGeneric);
}

TEST_F(QuarantinedChoice, TheDigestOfChoicesTellsOfIt) {
  const std::string before = open()->tables_digest();
  EXPECT_EQ(open()->tables_digest(), before);
  quarantine(best_);
  EXPECT_NE(open()->tables_digest(), before);
}

TEST_F(QuarantinedChoice, LiftedItIsChosenAgain) {
  quarantine(best_);
  {
    const std::unique_ptr<Context> context = open();
    EXPECT_TRUE(QuarantineList(path(*context), context->impl()).forget("gemm", best_));
  }
  EXPECT_EQ(choices(*open()).front(), best_);
}

TEST_F(QuarantinedChoice, WithoutTheUsersTablesTheListIsNotRead) {
  quarantine(best_);
  EXPECT_EQ(choices(*open(/*user_tables=*/false)).front(), best_);
}

TEST_F(QuarantinedChoice, ADamagedListCostsNothingElse) {
  quarantine(best_);
  const std::string file = path(*open());
  const std::string whole = *read_file(file);
  for (const std::string& text :
       {whole.substr(0, whole.size() / 2), std::string("\0\xff garbage\n\n\t", 13), std::string()}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(choices(*open()).front(), best_);
  }
}

}  // namespace
}  // namespace tilewright
