// SPDX-License-Identifier: MIT
#include "dispatch/choice/tuned_table.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace tilewright {
namespace {

TunedRow row(const char* sizes = "m=16:n=64:k=32:batch=1", const char* recipe = "gemm/f/x86-64/s/c") {
  TunedRow r;
  r.op = "gemm", r.target = "x86-64-v3", r.part = "zen3", r.units = 2;
  r.core = "a=bf16", r.epilogue = "d=bf16", r.sizes = sizes, r.bucket = "m<=16:n=64:k=32:batch=1";
  r.recipe = recipe;
  r.us = 12.5, r.spread = 0.01, r.samples = 9;
  r.library = "0.1.0", r.compiler = "gcc-12", r.driver = "-", r.date = "2026-01-01T00:00:00Z";
  return r;
}
ProblemSignature signature(const char* epilogue = "d=bf16", const char* sizes = "m=16:n=64:k=32:batch=1") {
  return {"a=bf16", epilogue, sizes, "m<=16:n=64:k=32:batch=1"};
}
std::string csv(std::initializer_list<TunedRow> rows) {
  std::string text = tuned_csv_header() + "\n";
  for (const TunedRow& r : rows) text += *print_tuned_row(r) + "\n";
  return text;
}

TEST(TunedTable, ExactRowIsFoundAndAnyOtherKeyPartMisses) {
  TunedTable table;
  table.add_layer({row()});
  EXPECT_NE(table.find_exact("gemm", "x86-64-v3", "zen3", 2, signature()), nullptr);
  EXPECT_EQ(table.find_exact("gemm", "x86-64-v4", "zen3", 2, signature()), nullptr);
  EXPECT_EQ(table.find_exact("gemm", "x86-64-v3", "zen4", 2, signature()), nullptr);
  EXPECT_EQ(table.find_exact("gemm", "x86-64-v3", "zen3", 1, signature()), nullptr);
  EXPECT_EQ(table.find_exact("conv", "x86-64-v3", "zen3", 2, signature()), nullptr);
  EXPECT_EQ(table.find_exact("gemm", "x86-64-v3", "zen3", 2, signature("d=f32")), nullptr);
}

TEST(TunedTable, BucketServesOtherSizesAndAnyEpilogue) {
  TunedTable table;
  table.add_layer({row()});
  EXPECT_NE(table.find_bucket("gemm", "x86-64-v3", "zen3", 2, signature("d=f32:act=gelu", "m=9:n=64:k=32:batch=1")),
            nullptr);
  ProblemSignature other = signature();
  other.bucket = "m<=32:n=64:k=32:batch=1";
  EXPECT_EQ(table.find_bucket("gemm", "x86-64-v3", "zen3", 2, other), nullptr);
}

TEST(TunedTable, LaterLayersWinAndInsideAFileTheLaterRow) {
  TunedTable table;
  std::vector<std::string> problems;
  table.add_layer(parse_tuned_csv(
      csv({row("m=16:n=64:k=32:batch=1", "first"), row("m=16:n=64:k=32:batch=1", "second")}), "file", problems));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.find_exact("gemm", "x86-64-v3", "zen3", 2, signature())->recipe, "second");
  table.add_layer({row("m=16:n=64:k=32:batch=1", "third")});
  EXPECT_EQ(table.find_exact("gemm", "x86-64-v3", "zen3", 2, signature())->recipe, "third");
}

TEST(TunedTable, CsvRoundTripIsExact) {
  // Digits that six places would round away: a resumed row is the row that was measured.
  TunedRow measured = row();
  measured.us = 23.157597435897435, measured.spread = 1.0 / 3, measured.untuned_us = 123456.789;
  measured.gflops = 1e-7 / 3, measured.rel_error = 5e-324;
  std::vector<std::string> problems;
  const std::vector<TunedRow> rows = parse_tuned_csv(csv({measured}), "file", problems);
  ASSERT_EQ(rows.size(), 1u) << (problems.empty() ? "" : problems[0]);
  EXPECT_EQ(*print_tuned_row(rows[0]), *print_tuned_row(measured));
  EXPECT_EQ(rows[0].us, measured.us);
  EXPECT_EQ(rows[0].spread, measured.spread);
  EXPECT_EQ(rows[0].untuned_us, measured.untuned_us);
  EXPECT_EQ(rows[0].gflops, measured.gflops);
  EXPECT_EQ(rows[0].rel_error, measured.rel_error);
}

TEST(TunedTable, ABadRowIsAMissThatNamesItsLineAndLeavesTheOthers) {
  std::string text = csv({row("m=1:n=64:k=32:batch=1"), row()});
  for (const std::string& bad : std::vector<std::string>{
           "short,line", *print_tuned_row(row()) + ",more", "gemm,t,p,x,c,e,s,b,r,1,0,0,0,0,1,l,c,d,d",
           "gemm,t,p,1,c,e,s,b,r,0,0,0,0,0,1,l,c,d,d", ",,,,,,,,,,,,,,,,,,"}) {
    std::vector<std::string> problems;
    const std::vector<TunedRow> rows = parse_tuned_csv(text + bad + "\n", "file.csv", problems);
    EXPECT_EQ(rows.size(), 2u) << bad;
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_NE(problems[0].find("file.csv:4:"), std::string::npos) << problems[0];
  }
}

TEST(TunedTable, AForeignHeaderRefusesTheFileAndAnEmptyFileIsFine) {
  std::vector<std::string> problems;
  EXPECT_TRUE(parse_tuned_csv("gfx,cu_num,M,N,K\n1,2,3,4,5\n", "aiter.csv", problems).empty());
  ASSERT_EQ(problems.size(), 1u);
  problems.clear();
  EXPECT_TRUE(parse_tuned_csv("", "empty.csv", problems).empty());
  EXPECT_TRUE(problems.empty());
}

TEST(TunedTable, AnEarlierVersionsFileIsReadWithWhatItHas) {
  std::vector<std::string> problems;
  const std::vector<TunedRow> rows = parse_tuned_csv(
      "op,target,part,units,core,epilogue,sizes,bucket,us,recipe\ngemm,t,p,2,c,e,s,b,12.5,r\ngemm,t,p,2,c,e,s,b,12.5\n",
      "old.csv", problems);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].recipe, "r");
  EXPECT_EQ(rows[0].us, 12.5);
  EXPECT_EQ(rows[0].kernels, "") << "not known: the row is stale, and serves";
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("old.csv:3: 9 cells, 10 columns"), std::string::npos) << problems[0];
  problems.clear();
  EXPECT_TRUE(parse_tuned_csv("op,target,part,units,core,epilogue,sizes,bucket,recipe\n", "x", problems).empty());
  EXPECT_EQ(problems.size(), 1u) << "no time, no row";
}

TEST(TunedTable, ACellWithACommaOrQuoteIsNotPrinted) {
  TunedRow bad = row();
  bad.compiler = "gcc, 12";
  EXPECT_FALSE(print_tuned_row(bad).ok());
  bad.compiler = "gcc \"12\"";
  EXPECT_FALSE(print_tuned_row(bad).ok());
}

TEST(TunedTable, DigestFollowsChoicesNotTheirOrderOrTimes) {
  TunedTable a, b, c;
  TunedRow slower = row();
  slower.us = 99;
  a.add_layer({row(), row("m=1:n=64:k=32:batch=1")});
  b.add_layer({row("m=1:n=64:k=32:batch=1"), slower});
  c.add_layer({row("m=1:n=64:k=32:batch=1", "other"), row()});
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_NE(a.digest(), c.digest());
}

TEST(TunedTable, NamedFilesLayerOverEachOtherAndMissingOnesAreIgnored) {
  const auto folder = std::filesystem::temp_directory_path() / ("tilewright_tuned_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "x86-64-v3");
  std::ofstream(folder / "x86-64-v3" / "gemm.csv") << csv({row("m=16:n=64:k=32:batch=1", "from_folder")});
  std::ofstream(folder / "late.csv") << csv({row("m=16:n=64:k=32:batch=1", "late")});
  const TunedTable table =
      load_tuned_tables(false, {folder / "x86-64-v3", folder / "missing.csv", folder / "late.csv"});
  const TunedRow* found = table.find_exact("gemm", "x86-64-v3", "zen3", 2, signature());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->recipe, "late");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tilewright
