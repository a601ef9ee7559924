// SPDX-License-Identifier: MIT
// The search for one problem's recipe: the untuned choice first, then candidates in the cost model's order, each verified
// before it is timed beside the untuned choice; the best few timed longer; the winner verified in full and confirmed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/registry/quarantine.hpp"
#include "tuning/measure.hpp"
#include "tuning/store/journal.hpp"
#include "tuning/tuner.hpp"
#include "tuning/worker/worker_process.hpp"

namespace tilewright {

inline constexpr double kHopeless = 1.5;      // predicted so much slower than the best: neither compiled ahead nor run
inline constexpr double kHopelessFamily = 3;  // the same for the best of its family, before anything is measured

// What all tasks of one tune() share; `mutex` guards it where devices are tuned on beside each other.
struct TuneStore {
  Journal& journal;
  QuarantineList& quarantine;
  TuneCosts costs;
  std::mutex mutex;
};

// What the tasks of one device share.
struct SearchState {
  ContextImpl& context;
  const TuneOptions& options;
  TuneStore& store;
  // The first one verifies and times; the others only compile ahead.
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  // Called while something runs: candidates done, candidates in all, best time so far.
  std::function<void(size_t candidate, size_t candidates, double best_us)> progress;
};

// What a worker that only compiles is told of a problem.
Record compile_problem(const Operator& op, ProblemRef problem, const TuneOptions& options);

class TaskSearch {
 public:
  TaskSearch(SearchState& state, const TuneTask& task);
  // `seconds` is this task's share of the budget; the untuned choice is measured whatever it is. The result has
  // everything but the row's provenance.
  TuneResult run(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct Candidate {
    Recipe recipe;
    bool generic = false;
    bool compiled = false;
    bool done = false;       // has its outcome
    double seconds = 0;      // of its limit, used up
    double expected_us = 0;  // predicted, scaled by what was measured
    double ratio = 0;        // untuned time / its time, from the short timing
    CandidateResult result;
  };

  Status collect();
  bool may_compile() const;
  // Compiles those that are not built, as many at once as there are workers.
  void compile(std::vector<Candidate*> wave);
  void evaluate(Candidate& candidate);
  bool verify(Candidate& candidate, const char* extent);
  // Timings of the group, its members in order. An error is the last member's, which then has its outcome, unless the
  // group has more than two.
  Result<std::vector<Timing>> time(const std::vector<Candidate*>& group, double seconds, int min_samples,
                                   int max_samples, TimeMode mode = TimeMode::kPlain);
  Status find_untuned();
  void predict();
  std::vector<Candidate*> best_of_families(const std::vector<Candidate*>& open) const;
  void search(double until);
  std::vector<Candidate*> finalists(double seconds);
  void confirm(const std::vector<Candidate*>& finalists, double seconds, TuneResult& result);
  // The untuned choice and, behind it, the one that would replace it, timed for the row. Where the problem heats a GPU, in
  // rested bursts and apart from them sustained.
  struct Confirmation {
    std::vector<Timing> timings, sustained;
    PairedRatio gain;  // of the last over the first; over both ways of timing
  };
  Result<Confirmation> time_for_row(const std::vector<Candidate*>& group, double seconds);
  void fill_row(const Candidate& chosen, const Confirmation& confirmed, TuneResult& result) const;
  bool vendors(const Candidate& candidate) const;

  // Takes the reply into account; false when it ended the candidate.
  bool accept(Candidate& candidate, const WorkerReply& reply, bool compiling, Record& answer);
  void finish(Candidate& candidate, CandidateOutcome outcome, std::string reason);
  WorkerLimits limits_of(const Candidate& candidate) const;
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void tick();

  SearchState& state_;
  const TuneTask& task_;
  const Operator& op_;
  const std::string problem_text_;
  const DeviceSpec spec_;
  Clock::time_point start_ = Clock::now();
  std::vector<Candidate> candidates_;
  std::vector<std::string> refusals_;
  std::string power_;  // of the device, after the last timing
  Candidate* untuned_ = nullptr;
  double best_us_ = 0;
  Status worker_problem_;  // no worker could be had: nothing more can be done
};

}  // namespace tilewright
