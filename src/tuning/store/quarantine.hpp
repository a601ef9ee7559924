// SPDX-License-Identifier: MIT
// Kernels that crashed, hung, ate memory or were wrong here: remembered for this target, part and compiler, and not tried
// again until their sources change.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "tuning/store/record_file.hpp"
#include "tuning/tuner.hpp"

namespace tilewright {

struct QuarantineEntry {
  std::string op, recipe;       // a recipe of one or more kernels; each is disabled
  std::string problem;          // on which it failed
  std::string outcome, reason;  // "crashed", the supervisor's words
  std::string digest;           // of its sources then
  std::string date;
};

// Outcomes that show a kernel to be bad, whatever the problem.
constexpr bool quarantined(CandidateOutcome outcome) {
  return outcome == CandidateOutcome::kRejected || outcome == CandidateOutcome::kCrashed ||
         outcome == CandidateOutcome::kTimedOut || outcome == CandidateOutcome::kOutOfMemory;
}

// <user data>/tuning/<target>.quarantine; "" without a home directory.
std::string quarantine_path(std::string_view target);

class QuarantineList {
 public:
  QuarantineList(std::string path, ContextImpl& context, FileAccess access = FileAccess::kAppend);

  const Status& problem() const { return file_.problem(); }
  // Of this environment, with kernels whose sources are as they were; oldest first.
  const std::vector<QuarantineEntry>& entries() const { return entries_; }
  // Disables every entry's kernels in the context's registry.
  void apply() const;
  // Remembers the recipe and disables it now.
  void add(const Operator& op, std::string_view problem, const CandidateResult& candidate);
  // Lifts the quarantine of a recipe; false when it is not on the list.
  bool forget(std::string_view op, std::string_view recipe);

 private:
  void read(const Record& record);
  void disable(const QuarantineEntry& entry) const;
  std::string digest_of_recipe(const Operator& op, const Recipe& recipe) const;

  ContextImpl& context_;
  std::string environment_;
  std::vector<QuarantineEntry> entries_;
  RecordFile file_;
};

}  // namespace tilewright
