// SPDX-License-Identifier: MIT
// Tables that were tuned apart: the merge rule, layers, what makes a row stale.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/toy_operator.hpp"
#include "tuning/store/provenance.hpp"
#include "tuning/tables/merge.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

TunedRow row_of(const std::string& recipe, double us) {
  TunedRow row;
  row.op = "toy", row.target = "x86-64-v3", row.part = "part", row.units = 2;
  row.core = "x=f32", row.epilogue = "none", row.sizes = row.bucket = "n=1";
  row.recipe = recipe, row.us = us, row.untuned_us = us, row.samples = 11;
  row.library = "0.9.0", row.kernels = "k1", row.compiler = "gcc (Debian 12.2.0-14) 12.2.0", row.driver = "-";
  row.date = "2026-01-01T00:00:00Z";
  return row;
}

// The recipe that stays, whichever table comes first, and why.
std::pair<std::string, std::string> merged(const TunedRow& x, const TunedRow& y) {
  const NamedTable forward[] = {{"x.csv", {x}}, {"y.csv", {y}}}, backward[] = {{"y.csv", {y}}, {"x.csv", {x}}};
  const MergeResult one = merge_tables(forward), other = merge_tables(backward);
  EXPECT_EQ(one.rows.size(), 1u);
  EXPECT_EQ(other.rows.size(), 1u);
  if (one.rows.empty() || other.rows.empty()) return {};
  EXPECT_EQ(one.rows[0].recipe, other.rows[0].recipe) << "the order of the tables decided";
  return {one.rows[0].recipe, one.conflicts.empty() ? "" : one.conflicts[0].rule};
}

TEST(MergeTables, ANewerLibraryBeatsALowerTime) {
  TunedRow old = row_of("old", 1), fresh = row_of("new", 9);
  fresh.library = "0.10.0";  // above 0.9.0, though not as text
  EXPECT_EQ(merged(old, fresh), std::pair(std::string("new"), std::string("newer library")));
}

TEST(MergeTables, ANewerVersionOfTheSameCompilerBeatsALowerTime) {
  TunedRow old = row_of("old", 1), fresh = row_of("new", 9);
  fresh.compiler = "gcc (Debian 13.1.0-1) 13.1.0";
  EXPECT_EQ(merged(old, fresh), std::pair(std::string("new"), std::string("newer compiler")));
}

TEST(MergeTables, InTheSameEnvironmentTheLowerTimeStays) {
  TunedRow slow = row_of("slow", 2), fast = row_of("fast", 1);
  slow.date = "2026-02-02T00:00:00Z";
  EXPECT_EQ(merged(slow, fast), std::pair(std::string("fast"), std::string("lower time in the same environment")));
}

TEST(MergeTables, OtherwiseTheNewerDateStays) {
  TunedRow old = row_of("old", 1), fresh = row_of("new", 9);
  fresh.kernels = "k2", fresh.date = "2026-02-02T00:00:00Z";
  EXPECT_EQ(merged(old, fresh), std::pair(std::string("new"), std::string("newer date")));
  fresh = row_of("clang", 9);
  fresh.compiler = "clang 19.1.0";
  EXPECT_EQ(merged(old, fresh), std::pair(std::string("old"), std::string("lower time"))) << "one date";
}

TEST(MergeTables, OtherKeysStandBesideEachOtherAndEqualRecipesAreNoConflict) {
  TunedRow one_core = row_of("a", 5);
  one_core.units = 1;
  const NamedTable tables[] = {{"x", {row_of("a", 2), one_core}}, {"y", {row_of("a", 1)}}};
  const MergeResult result = merge_tables(tables);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[1].us, 1);
  EXPECT_EQ(result.equal, 1u);
  EXPECT_TRUE(result.conflicts.empty());
}

TEST(MergeTables, AConflictNamesBothRowsAndWhereTheyCameFrom) {
  const NamedTable tables[] = {{"x.csv", {row_of("slow", 2)}}, {"y.csv", {row_of("fast", 1)}}};
  const MergeResult result = merge_tables(tables);
  ASSERT_EQ(result.conflicts.size(), 1u);
  const MergeConflict& c = result.conflicts[0];
  EXPECT_EQ((std::vector{c.kept.recipe, c.kept_from, c.dropped.recipe, c.dropped_from}),
            (std::vector<std::string>{"fast", "y.csv", "slow", "x.csv"}));
}

TEST(MergeTables, ThreeTablesInAnyOrderGiveTheSameRow) {
  TunedRow a = row_of("a", 5), b = row_of("b", 4), c = row_of("c", 6);
  b.compiler = "clang 19.1.0";
  c.compiler = "gcc (Debian 13.1.0-1) 13.1.0";
  std::vector<NamedTable> tables = {{"1", {a}}, {"2", {b}}, {"3", {c}}};
  const std::string first = merge_tables(tables).rows[0].recipe;
  while (std::next_permutation(tables.begin(), tables.end(),
                               [](const NamedTable& x, const NamedTable& y) { return x.name < y.name; })) {
    EXPECT_EQ(merge_tables(tables).rows[0].recipe, first);
  }
}

TEST(Layers, ALaterLayerHidesARowAndTheTableKnowsWhereEachCameFrom) {
  TunedTable table;
  TunedRow other = row_of("other", 3);
  other.sizes = "n=2";
  table.add_layer({row_of("built", 2), other}, {"built in", "tuned/x.csv", 0, {}});
  table.add_layer({row_of("user", 1)}, {"user", "mine/x.csv", 0, {}});
  ASSERT_EQ(table.layers().size(), 2u);
  EXPECT_EQ(table.layers()[0].rows, 2u);
  const std::vector<const TunedRow*> rows = table.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]->recipe, "user");
  EXPECT_EQ(table.origin(*rows[0]), "user (mine/x.csv)");
  EXPECT_EQ(table.origin(*rows[1]), "built in (tuned/x.csv)");
  EXPECT_EQ(table.origin(row_of("loose", 1)), "unknown");
}

TEST(Provenance, ARowOfThisProcessIsFreshAndEachChangeIsNamed) {
  const test::ScratchFolder folder;
  const std::unique_ptr<ContextImpl> context = test::toy_context(folder.path());
  ASSERT_NE(context, nullptr);
  const DeviceSpec spec = context->spec(0);
  TunedRow row = row_of("a", 1);
  set_provenance(row, spec);
  EXPECT_TRUE(stale_reasons(row, spec).empty());
  TunedRow old = row;
  old.library = "0.0.1", old.kernels = "", old.compiler = "gcc 4.2", old.driver = "7";
  const std::vector<std::string> reasons = stale_reasons(old, spec);
  ASSERT_EQ(reasons.size(), 4u);
  EXPECT_NE(reasons[0].find("library 0.0.1 -> "), std::string::npos);
  EXPECT_EQ(reasons[1], "kernel sources changed");
  EXPECT_NE(reasons[2].find("compiler gcc 4.2 -> "), std::string::npos);
  EXPECT_EQ(reasons[3], "driver 7 -> -");
}

TEST(Provenance, DigestsFollowTheOperatorsOwnSources) {
  DeviceSpec spec;
  spec.arch = find_arch("x86-64-v3");
  const std::string gemm = kernel_sources_digest("gemm", spec);
  EXPECT_EQ(gemm.size(), 16u);
  EXPECT_EQ(gemm, kernel_sources_digest("gemm", spec));
  EXPECT_NE(gemm, kernel_sources_digest("another", spec));
}

TEST(Provenance, OnlyWhatAnOperatorIncludesMakesItsRowsStale) {
  const auto sources = [](std::string_view op, const char* target) {
    DeviceSpec spec;
    spec.arch = find_arch(target);
    const auto found = kernel_sources(op, spec);
    EXPECT_TRUE(found.ok()) << found.status().message();
    std::set<std::string> paths;
    for (const auto& [path, text] : *found) paths.insert(path);
    return paths;
  };
  const std::set<std::string> gemm = sources("gemm", "sm_90a"), grouped = sources("grouped_gemm", "sm_90a");
  EXPECT_TRUE(gemm.contains("gemm/sm90/gemm_sm90.cuh"));
  EXPECT_TRUE(gemm.contains("tile/sm90/wgmma.cuh"));
  EXPECT_TRUE(gemm.contains("tile/generated/wgmma_sm90.cuh"));
  EXPECT_FALSE(gemm.contains("tile/portable/probes/memory_probe.cuh")) << "no kernel of gemm includes it";
  EXPECT_FALSE(gemm.contains("grouped_gemm/grouped_gemm_args.hpp"));
  EXPECT_FALSE(gemm.contains("tile/cpu/vec.hpp"));
  EXPECT_TRUE(grouped.contains("gemm/gpu/gemm_epilogue_gpu.cuh")) << "another operator's header that it includes";
  EXPECT_TRUE(sources("gemm", "gfx942").contains("tile/amd/prelude.hpp")) << "what the compiler puts in front";
  EXPECT_TRUE(sources("another", "sm_90a").empty());
}

TEST(Provenance, SourcesThatADeviceDoesNotRunMakeItsRowsNotStale) {
  const auto vendors = [](std::string_view path) {
    std::string text;
    for (const char* target : {"x86-64-v3", "sm_90a", "gfx942"}) {
      DeviceSpec spec;
      spec.arch = find_arch(target);
      text += is_kernel_source(path, spec) ? target[0] : '-';
    }
    return text;
  };
  EXPECT_EQ(vendors("gemm/gemm_args.hpp"), "xsg");
  EXPECT_EQ(vendors("tile/common/dtype.hpp"), "xsg");
  EXPECT_EQ(vendors("gemm/cpu/gemm_cpu.hpp"), "x--");
  EXPECT_EQ(vendors("tile/cpu/vec.hpp"), "x--");
  EXPECT_EQ(vendors("gemm/gpu/gemm_epilogue_gpu.cuh"), "-sg");
  EXPECT_EQ(vendors("gemm/sm90/gemm_sm90.cuh"), "-s-");
  EXPECT_EQ(vendors("tile/portable/mma.cuh"), "-s-");
  EXPECT_EQ(vendors("tile/amd/prelude.hpp"), "--g");
  EXPECT_EQ(vendors("tile/emu/matrix_table.hpp"), "--g");
  EXPECT_EQ(vendors("tile/a_new_target/mma.hpp"), "xsg") << "what nobody placed counts for all";
  DeviceSpec cpu, gpu, amd;
  cpu.arch = find_arch("x86-64-v3"), gpu.arch = find_arch("sm_90a"), amd.arch = find_arch("gfx942");
  EXPECT_NE(kernel_sources_digest("gemm", cpu), kernel_sources_digest("gemm", gpu));
}

}  // namespace
}  // namespace tilewright
