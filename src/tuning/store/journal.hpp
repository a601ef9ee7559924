// SPDX-License-Identifier: MIT
// The tuner's journal: append-only text, one checksummed line for each finished candidate and task, on the disk when the
// call returns. A damaged line is skipped, so that a torn one costs only itself. Lines name the environment that they were
// measured in; lines of another one are not resumed from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jit/system/record_file.hpp"
#include "tuning/store/provenance.hpp"
#include "tuning/tuner.hpp"

namespace tilewright {

inline constexpr const char* kOutcomeNames[] = {"timed",     "rejected",      "compile_failed", "crashed",
                                                "timed_out", "out_of_memory", "skipped"};
constexpr const char* const* enum_names(CandidateOutcome) { return kOutcomeNames; }
constexpr int enum_count(CandidateOutcome) { return 7; }

struct JournalTask {
  bool finished = false;
  TuneResult result;  // row, untuned choice, candidates
};

// <user data>/tuning/<target>.journal; "" without a home directory.
std::string tuning_journal_path(std::string_view target);

class Journal {
 public:
  // Reads what is there unless `fresh`. A journal that cannot be written still works for this run; problem() says why.
  Journal(std::string path, const TuningEnvironment& environment, bool fresh, FileAccess access = FileAccess::kAppend);

  const Status& problem() const { return file_.problem(); }
  // Null when nothing is known. Candidates may be there although the task is not finished.
  const JournalTask* find(std::string_view op, std::string_view problem) const;

  void add_candidate(std::string_view op, std::string_view problem, const CandidateResult& candidate);
  void add_task(std::string_view op, std::string_view problem, const TuneResult& result);

 private:
  void read(const Record& record, bool fresh);
  void append(Record record);

  std::string environment_;
  bool environment_known_ = false;
  std::map<std::string, JournalTask, std::less<>> tasks_;
  RecordFile file_;
};

}  // namespace tilewright
