// SPDX-License-Identifier: MIT
// The tuner on the toy operator: wrong, hanging, crashing and greedy kernels; what is stored; resuming; limits.
#include <gtest/gtest.h>

#include "support/toy_operator.hpp"
#include "tuning/store/journal.hpp"
#include "tuning/tuner.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::offer_toy_kernels;
using test::toy_problem;
using test::toy_recipe;

class TunerToy : public testing::Test {
 protected:
  void SetUp() override {
    context_ = test::toy_context(folder_.path());
    ASSERT_NE(context_, nullptr);
    options_.budget_seconds = 5;
    options_.candidate_seconds = 20;
    options_.journal = folder_ / "tuning.journal";
    options_.quarantine = folder_ / "tuning.quarantine";
    options_.table = folder_ / "tuned.csv";
    options_.worker = test::toy_worker();
  }

  std::vector<TuneTask> tasks(std::vector<int64_t> sizes = {4096}) {
    std::vector<TuneTask> tasks;
    for (const int64_t n : sizes) tasks.push_back({&test::toy_operator(), toy_problem(n), "n " + std::to_string(n)});
    return tasks;
  }
  std::vector<TuneResult> tune_all(const std::vector<TuneTask>& tasks) {
    Result<std::vector<TuneResult>> results = tune(*context_, tasks, options_, progress_);
    EXPECT_TRUE(results.ok()) << results.status().to_string();
    return results ? *results : std::vector<TuneResult>(tasks.size());
  }
  TuneResult tune_one() { return tune_all(tasks())[0]; }
  static CandidateResult find(const TuneResult& result, const std::string& kernel) {
    for (const CandidateResult& c : result.candidates) {
      if (c.recipe == toy_recipe(kernel)) return c;
    }
    ADD_FAILURE() << "no candidate " << kernel;
    return {};
  }
  // One bad kernel, first in the cost model's order: it is found out for this reason, and the good one is the winner.
  void expect_rejected(const std::string& kernel, CandidateOutcome outcome, const std::string& reason) {
    offer_toy_kernels({kernel, "plain"});
    const TuneResult result = tune_one();
    ASSERT_TRUE(result.status.ok()) << result.status.to_string();
    EXPECT_EQ(result.row.recipe, toy_recipe("plain"));
    EXPECT_EQ(result.untuned_recipe, toy_recipe("plain"));
    const CandidateResult bad = find(result, kernel);
    EXPECT_EQ(bad.outcome, outcome) << bad.reason;
    EXPECT_NE(bad.reason.find(reason), std::string::npos) << bad.reason;
  }
  // A disabled kernel is never dispatched.
  bool disabled(const std::string& kernel) {
    return context_->registry().priority(toy_recipe(kernel)) == Priority::kDisabled;
  }

  test::ScratchFolder folder_;
  std::unique_ptr<ContextImpl> context_;
  TuneOptions options_;
  std::function<void(const TuneProgress&)> progress_;
};

TEST_F(TunerToy, KernelThatDropsTheTailIsRejected) {
  expect_rejected("tail", CandidateOutcome::kRejected,
                  "element [16] was not written (poison is left) (n=17, seed 1, integers)");
  EXPECT_TRUE(disabled("tail"));
}

TEST_F(TunerToy, KernelThatWritesPastTheEndIsRejected) {
  expect_rejected("past_end", CandidateOutcome::kRejected, "wrote past the end");
  EXPECT_TRUE(disabled("past_end"));
}

TEST_F(TunerToy, KernelThatLeavesPoisonIsRejected) {
  expect_rejected("skips", CandidateOutcome::kRejected, "not written");
}
TEST_F(TunerToy, KernelThatMakesNanIsRejected) { expect_rejected("nan", CandidateOutcome::kRejected, "got nan"); }

TEST_F(TunerToy, KernelThatIsRightOnOneSeedOnlyIsRejected) {
  expect_rejected("one_seed", CandidateOutcome::kRejected, "seed");
}

TEST_F(TunerToy, CrashCostsTheCandidateAlone) {
  expect_rejected("crash", CandidateOutcome::kCrashed, "SIGSEGV");
  EXPECT_TRUE(disabled("crash"));
}

TEST_F(TunerToy, ExitOfTheWorkerCostsTheCandidateAlone) {
  expect_rejected("exits", CandidateOutcome::kCrashed, "exit code 3: toy: giving up");
}

TEST_F(TunerToy, HangCostsItsLimitAlone) {
  options_.candidate_seconds = 2;
  options_.budget_seconds = 30;
  expect_rejected("hang", CandidateOutcome::kTimedOut, "time limit");
  EXPECT_TRUE(disabled("hang"));
}

TEST_F(TunerToy, EatingMemoryCostsItsLimitAlone) {
  options_.candidate_bytes = int64_t{256} << 20;
  expect_rejected("memory", CandidateOutcome::kOutOfMemory, "the limit is 256 MiB");
  EXPECT_TRUE(disabled("memory"));
}

TEST_F(TunerToy, ARefusalIsNoCrashAndNoQuarantine) {
  expect_rejected("refuses", CandidateOutcome::kSkipped, "this kernel refuses");
  EXPECT_FALSE(disabled("refuses"));
}

TEST_F(TunerToy, EveryBadKernelTogetherStillLeavesTheFastGoodOne) {
  offer_toy_kernels({"crash", "slow", "past_end", "exits", "nan", "tail", "one_seed", "skips", "plain"});
  options_.budget_seconds = 60;
  const TuneResult result = tune_one();
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  EXPECT_EQ(result.untuned_recipe, toy_recipe("slow")) << "what dispatch would take when the crashing one is known";
  EXPECT_EQ(result.row.recipe, toy_recipe("plain"));
  for (const char* bad : {"past_end", "nan", "tail", "one_seed", "skips"}) {
    EXPECT_EQ(find(result, bad).outcome, CandidateOutcome::kRejected) << bad;
  }
  EXPECT_EQ(find(result, "exits").outcome, CandidateOutcome::kCrashed);
}

TEST_F(TunerToy, OnlyTheGenericKernelLeftServesWhenEverythingElseIsWrong) {
  offer_toy_kernels({"nan", "crash"});
  const TuneResult result = tune_one();
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  EXPECT_EQ(result.row.recipe, toy_recipe("generic"));
}

TEST_F(TunerToy, StoredRowIsFoundByTheTableAndUsedByDispatch) {
  offer_toy_kernels({"slow", "plain"});
  const TuneResult result = tune_one();
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  EXPECT_EQ(result.row.recipe, toy_recipe("plain"));
  EXPECT_EQ(result.row.date.size(), 20u);
  EXPECT_FALSE(result.row.library.empty());
  EXPECT_EQ(result.row.driver, "-");
  EXPECT_GE(result.row.samples, 11);
  // In this process at once, and in the next one from the file.
  for (const bool next_process : {false, true}) {
    if (next_process) {
      TunedTable table = load_tuned_tables(false, {options_.table});
      ASSERT_EQ(table.size(), load_tuned_tables(false, {}).size() + 1) << "beside what the library carries";
      context_->set_tables(std::move(table));
    }
    Result<QueryResult> query = context_->query(test::toy_operator(), toy_problem(4096), 0, "");
    ASSERT_TRUE(query.ok());
    EXPECT_EQ(query->source, "tuned");
    EXPECT_EQ(query->recipe, toy_recipe("plain"));
  }
}

TEST_F(TunerToy, RowNamesTheUntunedChoiceWhenNothingIsFaster) {
  offer_toy_kernels({"plain", "slow"});
  const TuneResult result = tune_one();
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  EXPECT_EQ(result.row.recipe, toy_recipe("plain"));
  EXPECT_EQ(result.row.us, result.untuned_us);
}

TEST_F(TunerToy, GainBelowTheMarginIsNotTaken) {
  offer_toy_kernels({"slow", "plain"});
  options_.min_gain = 1000;
  const TuneResult result = tune_one();
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  EXPECT_EQ(result.row.recipe, toy_recipe("slow"));
}

TEST_F(TunerToy, SecondRunResumesWithTheSameRowsAndStartsNoWorker) {
  offer_toy_kernels({"slow", "nan", "plain"});
  const std::vector<TuneResult> first = tune_all(tasks({4096, 8192}));
  options_.worker = {"/nonexistent/worker"};
  const std::vector<TuneResult> second = tune_all(tasks({4096, 8192}));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_FALSE(first[i].resumed);
    EXPECT_TRUE(second[i].resumed);
    EXPECT_EQ(*print_tuned_row(first[i].row), *print_tuned_row(second[i].row));
    EXPECT_EQ(first[i].untuned_recipe, second[i].untuned_recipe);
  }
  EXPECT_EQ(find(second[0], "nan").outcome, CandidateOutcome::kRejected) << "the report of a resumed run shows it too";
}

TEST_F(TunerToy, InterruptedRunIsResumedTaskByTask) {
  offer_toy_kernels({"plain"});
  tune_all(tasks({4096}));
  const std::vector<TuneResult> both = tune_all(tasks({4096, 8192}));
  EXPECT_TRUE(both[0].resumed);
  EXPECT_FALSE(both[1].resumed);
  EXPECT_TRUE(both[1].status.ok());
}

TEST_F(TunerToy, QuarantineOutlivesTheProcess) {
  offer_toy_kernels({"crash", "plain"});
  tune_all(tasks({4096}));
  context_ = test::toy_context(folder_.path());
  ASSERT_FALSE(disabled("crash"));
  const std::vector<TuneResult> results = tune_all(tasks({4096, 8192}));
  EXPECT_TRUE(disabled("crash"));
  for (const CandidateResult& c : results[1].candidates) EXPECT_NE(c.recipe, toy_recipe("crash")) << "tried again";
}

TEST_F(TunerToy, AFreshRowOfATableNeedsNoJournal) {
  offer_toy_kernels({"slow", "plain"});
  const TuneResult first = tune_one();
  // Another machine of the same part: its table came from a merge, its journal is empty.
  options_.journal = folder_ / "another.journal";
  options_.worker = {"/nonexistent/worker"};
  const TuneResult second = tune_one();
  ASSERT_TRUE(second.status.ok()) << second.status.to_string();
  EXPECT_TRUE(second.resumed);
  EXPECT_EQ(second.state.kind, TaskState::Kind::kFresh);
  EXPECT_EQ(*print_tuned_row(first.row), *print_tuned_row(second.row));
}

TEST_F(TunerToy, AStaleRowIsMeasuredAgainAndTheReasonIsKnown) {
  offer_toy_kernels({"plain"});
  TunedRow old = tune_one().row;
  old.kernels = "0123456789abcdef";
  TunedTable table;
  table.add_layer({old});
  context_->set_tables(std::move(table));
  options_.journal = folder_ / "another.journal";
  const std::vector<TaskState> states = task_states(*context_, tasks({4096, 8192}), options_);
  EXPECT_EQ(states[0].kind, TaskState::Kind::kStale);
  EXPECT_EQ(states[0].reason, "kernel sources changed");
  EXPECT_EQ(states[1].kind, TaskState::Kind::kNew);
  const TuneResult again = tune_one();
  EXPECT_FALSE(again.resumed);
  EXPECT_EQ(again.state.kind, TaskState::Kind::kStale);
  EXPECT_NE(again.row.kernels, old.kernels);
  EXPECT_EQ(task_states(*context_, tasks(), options_)[0].kind, TaskState::Kind::kFresh);
}

TEST_F(TunerToy, RetuneHonoursTheQuarantine) {
  offer_toy_kernels({"crash", "plain"});
  tune_one();
  context_ = test::toy_context(folder_.path());
  options_.retune = true;
  const TuneResult again = tune_one();
  EXPECT_FALSE(again.resumed);
  EXPECT_TRUE(disabled("crash"));
  EXPECT_EQ(find(again, "crash").outcome, CandidateOutcome::kCrashed) << "the report still shows it";
}

TEST_F(TunerToy, RetuneMeasuresAgain) {
  offer_toy_kernels({"plain"});
  tune_one();
  options_.retune = true;
  EXPECT_FALSE(tune_one().resumed);
}

TEST_F(TunerToy, LostTableIsWrittenAgainFromTheJournal) {
  offer_toy_kernels({"plain"});
  tune_one();
  std::filesystem::remove(options_.table);
  EXPECT_TRUE(tune_one().resumed);
  EXPECT_EQ(load_tuned_tables(false, {options_.table}).size(), load_tuned_tables(false, {}).size() + 1);
}

TEST_F(TunerToy, SpentBudgetStillMeasuresTheUntunedChoice) {
  offer_toy_kernels({"slow", "plain"});
  options_.budget_seconds = 0;
  const std::vector<TuneResult> results = tune_all(tasks({4096, 8192}));
  for (const TuneResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status.to_string();
    EXPECT_EQ(result.row.recipe, toy_recipe("slow"));
    EXPECT_EQ(find(result, "plain").outcome, CandidateOutcome::kSkipped);
  }
}

TEST_F(TunerToy, WorkerThatIsNoWorkerIsAnErrorThatNamesIt) {
  options_.worker = {"/bin/cat"};
  Result<std::vector<TuneResult>> results = tune(*context_, tasks(), options_, {});
  ASSERT_FALSE(results.ok());
  EXPECT_NE(results.status().message().find("/bin/cat"), std::string::npos) << results.status().message();
}

TEST_F(TunerToy, TaskWithoutOperatorIsRefused) {
  Result<std::vector<TuneResult>> results = tune(*context_, {{nullptr, {}, "empty"}}, options_, {});
  ASSERT_FALSE(results.ok());
  EXPECT_EQ(results.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TunerToy, ProgressTellsEveryTaskAndEnds) {
  offer_toy_kernels({"slow", "plain"});
  std::vector<TuneProgress> seen;
  progress_ = [&seen](const TuneProgress& p) { seen.push_back(p); };
  tune_all(tasks({4096, 8192}));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().task, 1u);
  EXPECT_EQ(seen.back().tasks, 2u);
  EXPECT_EQ(seen.back().candidate, seen.back().candidates);
  EXPECT_GT(seen.back().best_gflops, 0);
  for (const TuneProgress& p : seen) EXPECT_LE(p.candidate, p.candidates);
}

TEST_F(TunerToy, VerifyRecipeReportsTheWorstAndWhere) {
  Result<Recipe> good = parse_recipe(test::toy_operator().families(), toy_recipe("plain"));
  Result<Recipe> bad = parse_recipe(test::toy_operator().families(), toy_recipe("tail"));
  ASSERT_TRUE(good.ok() && bad.ok());
  Result<VerifyReport> report = verify_recipe(*context_, test::toy_operator(), toy_problem(1000), *good, 0, 3);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->passed) << report->failure;
  // Four fills (integers and three seeds) of the problem and of each tail.
  EXPECT_EQ(report->compared, 4 * (1 + 17 + 63 + 1000));
  report = verify_recipe(*context_, test::toy_operator(), toy_problem(1000), *bad, 0, 3);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->passed);
  EXPECT_NE(report->failure.find("n=17, seed 1"), std::string::npos) << report->failure;
}

TEST_F(TunerToy, SeveralDevicesShareTheTasksAndEachResultIsStoredOnce) {
  offer_toy_kernels({"plain", "slow"});
  TuneCosts costs;
  options_.devices = {DeviceId(), DeviceId(), DeviceId()};
  options_.costs = &costs;
  const std::vector<TuneTask> wanted = tasks({1024, 2048, 3072, 4096, 5120});
  const std::vector<TuneResult> results = tune_all(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(results[i].status.ok()) << results[i].status.to_string();
    EXPECT_EQ(results[i].task.label, wanted[i].label);
  }
  std::vector<std::string> problems;
  EXPECT_EQ(parse_tuned_csv(*read_file(options_.table), "", problems).size(), wanted.size());
  EXPECT_TRUE(problems.empty());
  EXPECT_GE(costs.measured, 5);
  EXPECT_GT(costs.measure_seconds, 0);
  // A second run takes all of it from the journal.
  for (const TuneResult& again : tune_all(wanted)) EXPECT_TRUE(again.resumed);
}

}  // namespace
}  // namespace tilewright
