// SPDX-License-Identifier: MIT
// Problems that were seen elsewhere: a running program's log, AITER's shape files; and shards of them.
#pragma once

#include <string>
#include <vector>

#include "output/table.hpp"
#include "problems/captured/aiter_shapes.hpp"
#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

struct CaptureArguments {
  std::vector<std::string> logs, aiter;
  int top = 0;  // of a log's shapes; 0 = all
  bool empty() const { return logs.empty() && aiter.empty(); }
};
void add_capture_arguments(Arguments& arguments, CaptureArguments& capture);

struct CapturedShapes {
  std::vector<NamedProblem> problems;  // each once; a log's shapes by the time that they took
  Table calls;                         // of logs: problem, calls, time
  std::vector<SkippedShapes> skipped;
};
Result<CapturedShapes> captured_problems(const CaptureArguments& arguments);
Table skipped_table(const std::vector<SkippedShapes>& skipped);

// "2/8": the second of eight shards.
struct Shard {
  int index = 1, count = 1;
};
Result<Shard> parse_shard(const std::string& text);
// Whether the shard has the problem: a pure function of operator and problem text, so that every machine agrees.
bool in_shard(const NamedProblem& problem, const Shard& shard);

}  // namespace tilewright::cli
