// SPDX-License-Identifier: MIT
// Lines of a tuning journal before a good one: as they are, and with a checksum that makes the journal read them.
#include "tuning/store/journal.hpp"

#include "core/digest.hpp"
#include "fuzz/fuzz_target.hpp"

namespace tilewright::fuzz {
namespace {

TuningEnvironment environment() { return {"0.1.0", "headers", "gcc", "x86-64-v4", "part", 2}; }

TuneResult good_result() {
  TuneResult result;
  result.task.label = "layer";
  TunedRow& row = result.row;
  row.op = "toy", row.target = "x86-64-v3", row.part = "part", row.units = 2;
  row.core = "c", row.epilogue = "e", row.sizes = "n=1", row.bucket = "n<=1", row.recipe = "toy/f/x86-64/s/c";
  row.us = 1.5, row.spread = 0.01, row.untuned_us = 2, row.samples = 9;
  row.library = "0.1.0", row.compiler = "gcc", row.driver = "-", row.date = "2026-01-01T00:00:00Z";
  result.untuned_us = 2, result.untuned_recipe = "toy/g/x86-64/s/c";
  return result;
}

// The lines that the journal itself writes about one candidate and one task.
const std::string& good_lines() {
  static const std::string kLines = [] {
    const std::string path = scratch_folder() + "/good.journal";
    {
      Journal journal(path, environment(), /*fresh=*/true);
      require(journal.problem().ok(), "a journal can be written in the scratch folder");
      CandidateResult candidate;
      candidate.recipe = "toy/f/x86-64/s/c", candidate.us = 1.5;
      journal.add_candidate("toy", "n=1", candidate);
      journal.add_task("toy", "n=1", good_result());
    }
    return *read_file(path);
  }();
  return kLines;
}

void check(const std::string& text) {
  static const std::string path = scratch_folder() + "/fuzz.journal";
  require(write_file(path, text).ok(), "the scratch folder takes files");
  const Journal journal(path, environment(), /*fresh=*/false);
  const JournalTask* task = journal.find("toy", "n=1");
  require(task != nullptr && task->finished, "a damaged line does not hide a good one");
  require(*print_tuned_row(task->result.row) == *print_tuned_row(good_result().row),
          "a damaged line does not change a good one");
}

}  // namespace

std::vector<std::string> journal_seeds() {
  std::vector<std::string> seeds = {"candidate\top=toy\tproblem=n=1\trecipe=r\toutcome=crashed\tus=1e999"};
  const std::string& lines = good_lines();
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    seeds.push_back(lines.substr(at, end - at));          // with its checksum
    seeds.push_back(lines.substr(at + 9, end - at - 9));  // what the checksum covers
    at = end + 1;
  }
  return seeds;
}

void run_journal(std::string_view input) {
  const std::string& good = good_lines();
  check(std::string(input) + "\n" + good);
  check(good + std::string(input));  // a torn last line
  // With the right environment and checksum the line is believed; the good lines after it still win.
  std::string body(input.substr(0, input.find('\n')));
  body += "\tenv=" + environment().id();
  check(digest_of(body).hex().substr(0, 8) + " " + body + "\n" + good);
}

}  // namespace tilewright::fuzz
