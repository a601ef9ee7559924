// SPDX-License-Identifier: MIT
// The journal and the table store: what survives torn lines, damage, other environments and other writers.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>

#include <fstream>
#include <thread>

#include "tuning/store/journal.hpp"
#include "tuning/store/table_store.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

TuningEnvironment environment(const std::string& compiler = "gcc 12") {
  return {"0.1.0", "headers", compiler, "x86-64-v4", "part", 2};
}

TunedRow toy_row(const std::string& sizes, const std::string& recipe, double us = 10) {
  TunedRow row;
  row.op = "toy", row.target = "x86-64-v3", row.part = "part", row.units = 2;
  row.core = "x=f32", row.epilogue = "none", row.sizes = sizes, row.bucket = sizes;
  row.recipe = recipe, row.us = us, row.untuned_us = us, row.samples = 11;
  row.library = "0.1.0", row.compiler = "gcc 12", row.driver = "-", row.date = "2026-01-01T00:00:00Z";
  return row;
}

TuneResult result_of(const std::string& recipe) {
  TuneResult result;
  result.row = toy_row("n=1", recipe);
  result.untuned_us = 20;
  result.untuned_recipe = "untuned";
  return result;
}

class JournalTest : public testing::Test {
 protected:
  Journal open(const TuningEnvironment& e = environment(), bool fresh = false) { return Journal(path_, e, fresh); }
  test::ScratchFolder folder_;
  std::string path_ = folder_ / "deep/down/tuning.journal";
};

TEST_F(JournalTest, FinishedTaskComesBack) {
  {
    Journal journal = open();
    ASSERT_TRUE(journal.problem().ok()) << journal.problem().to_string();
    CandidateResult bad{"bad", CandidateOutcome::kCrashed, "crashed\twith\nSIGSEGV", 1, 2, 0.5, 1e-3, 0.25};
    journal.add_candidate("toy", "n=1", bad);
    journal.add_task("toy", "n=1", result_of("winner"));
  }
  const Journal journal = open();
  const JournalTask* task = journal.find("toy", "n=1");
  ASSERT_NE(task, nullptr);
  EXPECT_TRUE(task->finished);
  EXPECT_EQ(task->result.row.recipe, "winner");
  EXPECT_EQ(task->result.untuned_us, 20);
  ASSERT_EQ(task->result.candidates.size(), 1u);
  EXPECT_EQ(task->result.candidates[0].reason, "crashed\twith\nSIGSEGV");
  EXPECT_EQ(task->result.candidates[0].outcome, CandidateOutcome::kCrashed);
  EXPECT_EQ(task->result.candidates[0].spread, 0.5);
  EXPECT_EQ(journal.find("toy", "n=2"), nullptr);
}

TEST_F(JournalTest, LaterLineAboutACandidateReplacesTheEarlierOne) {
  Journal journal = open();
  journal.add_candidate("toy", "n=1", {"a", CandidateOutcome::kCrashed, "once", 0, 0, 0, 0, 0});
  journal.add_candidate("toy", "n=1", {"a", CandidateOutcome::kTimed, "", 0, 5, 0, 0, 0});
  const Journal journal_again = open();
  const JournalTask* task = journal_again.find("toy", "n=1");
  ASSERT_NE(task, nullptr);
  ASSERT_EQ(task->result.candidates.size(), 1u);
  EXPECT_EQ(task->result.candidates[0].outcome, CandidateOutcome::kTimed);
}

TEST_F(JournalTest, TornLastLineIsIgnoredAndTheNextOneIsWhole) {
  {
    Journal journal = open();
    journal.add_task("toy", "n=1", result_of("first"));
    journal.add_task("toy", "n=2", result_of("second"));
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 9);
  {
    Journal journal = open();
    EXPECT_NE(journal.find("toy", "n=1"), nullptr);
    EXPECT_EQ(journal.find("toy", "n=2"), nullptr);
    journal.add_task("toy", "n=3", result_of("third"));
  }
  const Journal journal = open();
  EXPECT_NE(journal.find("toy", "n=1"), nullptr);
  EXPECT_EQ(journal.find("toy", "n=2"), nullptr);
  EXPECT_NE(journal.find("toy", "n=3"), nullptr);
}

TEST_F(JournalTest, EveryTruncationAndEveryFlippedByteIsSurvived) {
  {
    Journal journal = open();
    journal.add_task("toy", "n=1", result_of("first"));
  }
  const std::string whole = *read_file(path_);
  for (size_t length = 0; length < whole.size() - 1; length += 7) {  // without its newline, the last line is whole
    std::ofstream(path_, std::ios::trunc | std::ios::binary) << whole.substr(0, length);
    EXPECT_EQ(open().find("toy", "n=1"), nullptr) << length;
  }
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    std::ofstream(path_, std::ios::trunc | std::ios::binary) << damaged;
    const Journal journal = open();
    const JournalTask* task = journal.find("toy", "n=1");
    EXPECT_TRUE(task == nullptr || task->result.row.recipe == "first") << at;
  }
}

TEST_F(JournalTest, AnotherEnvironmentIsNotResumedFrom) {
  open().add_task("toy", "n=1", result_of("winner"));
  EXPECT_EQ(open(environment("gcc 13")).find("toy", "n=1"), nullptr);
  EXPECT_NE(open().find("toy", "n=1"), nullptr);
  EXPECT_EQ(open(environment(), /*fresh=*/true).find("toy", "n=1"), nullptr);
}

TEST_F(JournalTest, EveryPartOfTheEnvironmentCounts) {
  const TuningEnvironment base = environment();
  std::vector<TuningEnvironment> others(6, base);
  others[0].library += "x", others[1].kernels += "x", others[2].compiler += "x";
  others[3].target += "x", others[4].part += "x", others[5].units += 1;
  for (const TuningEnvironment& other : others) EXPECT_NE(other.id(), base.id());
}

TEST_F(JournalTest, WithoutAPlaceToWriteTheRunGoesOn) {
  Journal journal("/proc/none/tuning.journal", environment(), false);
  EXPECT_FALSE(journal.problem().ok());
  journal.add_task("toy", "n=1", result_of("winner"));
  EXPECT_EQ(journal.find("toy", "n=1"), nullptr);
}

class TableStoreTest : public testing::Test {
 protected:
  std::vector<TunedRow> stored() {
    std::vector<std::string> problems;
    std::vector<TunedRow> rows = parse_tuned_csv(*read_file(path_), path_, problems);
    EXPECT_TRUE(problems.empty()) << problems[0];
    return rows;
  }
  test::ScratchFolder folder_;
  std::string path_ = folder_ / "x86-64-v3/toy.csv";
};

TEST_F(TableStoreTest, SameKeyIsReplacedAndEverythingElseIsKept) {
  ASSERT_TRUE(store_tuned_rows(path_, {toy_row("n=1", "a"), toy_row("n=2", "b")}).ok());
  std::ofstream(path_, std::ios::app) << "# a remark\nnot,a,row\n";
  ASSERT_TRUE(store_tuned_rows(path_, {toy_row("n=1", "c")}).ok());
  const std::string text = *read_file(path_);
  EXPECT_NE(text.find("# a remark\nnot,a,row\n"), std::string::npos);
  const TunedTable table = load_tuned_tables(false, {path_});
  std::vector<std::string> recipes;  // beside what the library carries
  for (const TunedRow* row : table.rows()) {
    if (row->op == "toy") recipes.push_back(row->recipe);
  }
  ASSERT_EQ(recipes, (std::vector<std::string>{"c", "b"}));
  EXPECT_EQ(text.find(",a,"), text.find("not,a,row") + 3) << "the old row is gone";
}

TEST_F(TableStoreTest, RowThatNoCellCanHoldIsRefusedAndTheTableStays) {
  ASSERT_TRUE(store_tuned_rows(path_, {toy_row("n=1", "a")}).ok());
  EXPECT_EQ(store_tuned_rows(path_, {toy_row("n=2", "with,comma")}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(stored().size(), 1u);
}

TEST_F(TableStoreTest, TableOfAnotherVersionIsKeptAside) {
  ASSERT_TRUE(make_folders(folder_ / "x86-64-v3").ok());
  std::ofstream(path_) << "op,other,columns\ntoy,1,2\n";
  ASSERT_TRUE(store_tuned_rows(path_, {toy_row("n=1", "a")}).ok());
  EXPECT_EQ(stored().size(), 1u);
  EXPECT_EQ(*read_file(path_ + ".old"), "op,other,columns\ntoy,1,2\n");
}

TEST_F(TableStoreTest, RowsOfAnEarlierVersionGetTheColumnsOfThisOne) {
  ASSERT_TRUE(make_folders(folder_ / "x86-64-v3").ok());
  std::ofstream(path_) << "op,target,part,units,core,epilogue,sizes,bucket,recipe,us\n"
                          "toy,x86-64-v3,part,2,x=f32,none,n=1,n=1,old,5\n"
                          "toy,x86-64-v3,part,2,x=f32,none,n=2,n=2,old,5\n";
  ASSERT_TRUE(store_tuned_rows(path_, {toy_row("n=1", "new")}).ok());
  const std::vector<TunedRow> rows = stored();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].sizes + rows[0].recipe, "n=2old");
  EXPECT_EQ(rows[1].sizes + rows[1].recipe, "n=1new");
  EXPECT_EQ(read_file(path_)->substr(0, tuned_csv_header().size()), tuned_csv_header());
}

TEST_F(TableStoreTest, ConcurrentWritersLoseNoRow) {
  constexpr int kWriters = 4, kRows = 12;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    children.push_back(test::start_child([this, w] {
      for (int i = 0; i < kRows; ++i) {
        // Its own row, and one that all fight over.
        if (!store_tuned_rows(path_, {toy_row("n=" + std::to_string(w * 100 + i), "own"), toy_row("n=9999", "shared")})
                 .ok())
          return 1;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    EXPECT_EQ(state, 0);
  }
  EXPECT_EQ(stored().size(), static_cast<size_t>(kWriters * kRows + 1));
}

TEST_F(TableStoreTest, LockThatIsNotGivenBackIsAnErrorAfterABoundedWait) {
  ASSERT_TRUE(store_tuned_rows(path_, {toy_row("n=1", "a")}).ok());
  const ScopedFd holder(open((path_ + ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(holder.get(), LOCK_EX), 0);
  const Status status = store_tuned_rows(path_, {toy_row("n=2", "b")}, 0.05);
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  EXPECT_EQ(stored().size(), 1u);
}

}  // namespace
}  // namespace tilewright
