// SPDX-License-Identifier: MIT
// The tuned tables that the library carries: every row is read, stands in its target's folder, says how it was measured, and
// names kernels that exist.
#include <gtest/gtest.h>

#include "dispatch/choice/tuned_table.hpp"
#include "dispatch/registry/family.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

TEST(CarriedTables, EveryRowIsReadAndNamesKernelsThatExist) {
  if (embedded_tables().empty()) GTEST_SKIP() << "the library carries no tuned tables";
  const TunedTable loaded = load_tuned_tables(/*user_tables=*/false, {});
  size_t rows = 0;
  for (const EmbeddedTable& table : embedded_tables()) {
    std::vector<std::string> problems;
    for (const TunedRow& row : parse_tuned_csv(table.text, table.path, problems)) {
      SCOPED_TRACE(std::string(table.path) + ": " + row.recipe);
      ++rows;
      EXPECT_TRUE(table.path.ends_with(row.target + "/" + row.op + ".csv")) << table.path;
      const Operator* op = nullptr;
      for (const Operator* known : all_operators()) op = known->name() == row.op ? known : op;
      ASSERT_NE(op, nullptr);
      for (const std::string& text : {row.recipe, row.own_recipe}) {
        if (text.empty()) continue;
        const Result<Recipe> recipe = parse_recipe(op->families(), text);
        EXPECT_TRUE(recipe.ok()) << recipe.status().message();
      }
      for (const std::string& provenance : {row.part, row.library, row.kernels, row.compiler, row.driver, row.date}) {
        EXPECT_FALSE(provenance.empty());
      }
      EXPECT_GT(row.samples, 0);
      EXPECT_NE(
          loaded.find_exact(row.op, row.target, row.part, row.units, {row.core, row.epilogue, row.sizes, row.bucket}),
          nullptr);
    }
    EXPECT_TRUE(problems.empty()) << problems.front();
  }
  EXPECT_EQ(loaded.size(), rows);
}

}  // namespace
}  // namespace tilewright
