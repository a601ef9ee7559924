// SPDX-License-Identifier: MIT
// The tuner: for each problem, candidates in the cost model's order, run by a worker child that is killed and replaced at
// a fault or a limit; verified before timed; interleaved with the untuned choice; the winner confirmed; every result in a
// journal that a later run resumes from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"

namespace tilewright {

struct TuneTask {
  const Operator* op = nullptr;
  std::vector<std::byte> problem;
  std::string label;  // "attn_qkv, 16 tokens"
};

// What candidates cost, over all workers together.
struct TuneCosts {
  int compiled = 0;            // instances, or compiles that failed
  double compile_seconds = 0;  // of the compilers
  double ahead_seconds = 0;    // during which nothing but compilers ran
  int measured = 0;            // candidates that were verified and timed
  double measure_seconds = 0;
};

struct TuneOptions {
  double budget_seconds = 120;    // for all tasks together; every task gets at least its untuned choice measured
  int units = 0;                  // 0 = all
  double candidate_seconds = 20;  // a candidate that takes longer (compile, verify and time) is killed
  int64_t candidate_bytes = int64_t{8} << 30;  // memory a worker may take beyond its start; more and it is killed
  double min_gain = 0.02;                      // a row other than the untuned choice must be this much faster
  int seeds = 3;                               // verification seeds
  std::string journal;                         // "" = <user data>/tuning/<target>.journal
  std::string quarantine;                      // "" = <user data>/tuning/<target>.quarantine
  std::string table;                           // "" = user_tuned_path()
  bool retune = false;                         // ignore the journal and existing rows; the quarantine holds
  std::vector<DeviceId> devices;               // like the context's: they share the tasks. Empty: the context's alone
  TuneCosts* costs = nullptr;                  // gets what candidates cost
  std::vector<std::string> worker;             // argv of the worker child; empty = this program with "tune-worker"
};

enum class CandidateOutcome : uint8_t {
  kTimed,
  kRejected,
  kCompileFailed,
  kCrashed,
  kTimedOut,
  kOutOfMemory,
  kSkipped
};
// Outcomes that show a kernel to be bad, whatever the problem: it goes into the quarantine.
constexpr bool shows_a_bad_kernel(CandidateOutcome outcome) {
  return outcome == CandidateOutcome::kRejected || outcome == CandidateOutcome::kCrashed ||
         outcome == CandidateOutcome::kTimedOut || outcome == CandidateOutcome::kOutOfMemory;
}

struct CandidateResult {
  std::string recipe;
  CandidateOutcome outcome = CandidateOutcome::kSkipped;
  std::string reason;  // why it is not kTimed: the verifier's, compiler's or supervisor's words
  double predicted_us = 0;
  double us = 0, spread = 0;
  double rel_error = 0, worst_ratio = 0;
};

// What is known of a task before it is measured.
struct TaskState {
  enum class Kind : uint8_t { kNew, kStale, kFresh };
  Kind kind = Kind::kNew;
  std::string reason;  // fresh: where its row stands; stale: what has changed since it was measured
};

struct TuneResult {
  TuneTask task;
  TaskState state;
  Status status;          // not ok: no row could be made, and why
  TunedRow row;           // what was stored
  double untuned_us = 0;  // the untuned choice in the confirmation run, interleaved with the winner
  std::string untuned_recipe;
  std::vector<CandidateResult> candidates;
  bool resumed = false;  // fresh: taken from the journal or a table
};

struct TuneProgress {
  size_t task = 0, tasks = 0;
  std::string label;
  size_t candidate = 0, candidates = 0;
  double best_us = 0, best_gflops = 0;
  double elapsed_seconds = 0, left_seconds = 0;
};

// Which tasks tune() would measure, and why. Measures nothing.
std::vector<TaskState> task_states(ContextImpl& context, const std::vector<TuneTask>& tasks,
                                   const TuneOptions& options);

Result<std::vector<TuneResult>> tune(ContextImpl& context, const std::vector<TuneTask>& tasks,
                                     const TuneOptions& options,
                                     const std::function<void(const TuneProgress&)>& progress);

// The child's side: reads requests from `in`, answers on `out`, until end of file. Returns the exit code.
int tune_worker(ContextImpl& context, int in, int out);

// Runs `recipe` on the problem and all its tail problems with `seeds` seeds, outputs poisoned, buffers guarded.
Result<VerifyReport> verify_recipe(ContextImpl& context, const Operator& op, ProblemRef problem, const Recipe& recipe,
                                   int units, int seeds);

}  // namespace tilewright
