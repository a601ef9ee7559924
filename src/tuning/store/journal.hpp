// SPDX-License-Identifier: MIT
// The tuner's journal: append-only text, one checksummed line for each finished candidate and task, on the disk when the
// call returns. A damaged line is skipped, so that a torn one costs only itself. Lines name the environment that they were
// measured in; lines of another one are not resumed from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jit/system/files.hpp"
#include "tuning/tuner.hpp"
#include "tuning/worker/record.hpp"

namespace tilewright {

inline constexpr const char* kOutcomeNames[] = {"timed",     "rejected",      "compile_failed", "crashed",
                                                "timed_out", "out_of_memory", "skipped"};
constexpr const char* const* enum_names(CandidateOutcome) { return kOutcomeNames; }
constexpr int enum_count(CandidateOutcome) { return 7; }

// Outcomes that show a kernel to be bad, whatever the problem.
constexpr bool quarantined(CandidateOutcome outcome) {
  return outcome == CandidateOutcome::kRejected || outcome == CandidateOutcome::kCrashed ||
         outcome == CandidateOutcome::kTimedOut || outcome == CandidateOutcome::kOutOfMemory;
}

// What must be equal for a measured row to be worth keeping.
struct TuningEnvironment {
  std::string library, kernels;  // version; digest of the kernel headers
  std::string compiler;          // full identity
  std::string target, part;
  int units = 0;

  std::string id() const;
};
TuningEnvironment tuning_environment(ContextImpl& context, int units);
// "gcc (Debian 12.2.0-14) 12.2.0", as tuned rows name it; "-" without a compiler.
std::string short_compiler_name();

struct Quarantined {
  std::string op, recipe, reason;
};
// Disables the recipe's keys in the context's registry; the generic family is never disabled.
void quarantine(ContextImpl& context, const Operator& op, const Recipe& recipe, std::string_view reason);

struct JournalTask {
  bool finished = false;
  TuneResult result;  // row, untuned choice, candidates
};

// <user data>/tuning/<target>.journal; "" without a home directory.
std::string tuning_journal_path(std::string_view target);

class Journal {
 public:
  // Reads what is there unless `fresh`. A journal that cannot be written still works for this run; problem() says why.
  Journal(std::string path, const TuningEnvironment& environment, bool fresh);

  const Status& problem() const { return problem_; }
  // Null when nothing is known. Candidates may be there although the task is not finished.
  const JournalTask* find(std::string_view op, std::string_view problem) const;
  // Every candidate that showed its kernel to be bad.
  std::vector<Quarantined> quarantine() const;

  void add_candidate(std::string_view op, std::string_view problem, const CandidateResult& candidate);
  void add_task(std::string_view op, std::string_view problem, const TuneResult& result);

 private:
  void load(std::string_view text, bool fresh);
  void append(Record record);

  std::string path_;
  std::string environment_;
  Status problem_;
  ScopedFd file_;
  bool torn_ = false;  // the file ends in the middle of a line
  bool environment_known_ = false;
  std::map<std::string, JournalTask, std::less<>> tasks_;
};

}  // namespace tilewright
