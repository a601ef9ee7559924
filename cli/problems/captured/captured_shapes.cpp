// SPDX-License-Identifier: MIT
#include "problems/captured/captured_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/digest.hpp"
#include "core/fields.hpp"
#include "jit/system/files.hpp"
#include "output/numbers.hpp"
#include "tuning/capture/call_log.hpp"

namespace tilewright::cli {

void add_capture_arguments(Arguments& arguments, CaptureArguments& capture) {
  arguments.group("Problems");
  arguments.texts("--from-log", capture.logs, "FILE", "the calls that a program logged with TILEWRIGHT_LOG=info:FILE");
  arguments.integer("--top", capture.top, 0, 1 << 30, "of a log, the shapes that took most time; 0 = all");
  arguments.texts("--from-aiter", capture.aiter, "FILE", "shapes from an untuned or tuned CSV file of AITER");
  arguments.group("");
}

Result<CapturedShapes> captured_problems(const CaptureArguments& arguments) {
  CapturedShapes shapes{{},
                        Table("captured", {{"problem", "captured problem"},
                                           {"calls", "calls", Align::kRight},
                                           {"total_us", "time", Align::kRight},
                                           {"source", "chosen by"},
                                           {"log", ""}}),
                        {}};
  for (const std::string& path : arguments.logs) {
    const Result<std::string> text = read_file(path);
    if (!text) return text.status();
    const CallLog log = parse_call_log(*text);
    if (log.damaged > 0) shapes.skipped.push_back({path, log.damaged, "the line is damaged"});
    if (log.calls.empty()) {
      return Status(
          StatusCode::kNotFound,
          fmt::format("--from-log '{}': no calls in it; run the program with TILEWRIGHT_LOG=info:{}", path, path));
    }
    int taken = 0;
    for (const CapturedCall& call : log.calls) {
      if (arguments.top > 0 && taken == arguments.top) break;
      Result<NamedProblem> problem = parse_problem_text(call.op + " " + call.problem);
      if (!problem) {
        shapes.skipped.push_back({path, call.calls, problem.status().message()});
        continue;
      }
      ++taken;
      shapes.calls.add({text_cell(call.problem), count_cell(call.calls),
                        number_cell(call.total_us, print_seconds(call.total_us * 1e-6)), text_cell(call.source),
                        text_cell(path)});
      shapes.problems.push_back(std::move(*problem));
    }
  }
  for (const std::string& path : arguments.aiter) {
    if (Status s = aiter_problems(path, shapes.problems, shapes.skipped); !s) return s;
  }
  std::set<std::string> seen;
  std::erase_if(shapes.problems, [&seen](const NamedProblem& problem) {
    return !seen.insert(fmt::format("{} {}", problem.op->name(), problem.text())).second;
  });
  return shapes;
}

Table skipped_table(const std::vector<SkippedShapes>& skipped) {
  Table table("skipped", {{"source", "not taken from"}, {"rows", "rows", Align::kRight}, {"reason", "because"}});
  for (const SkippedShapes& one : skipped) {
    table.add({text_cell(one.source), count_cell(one.rows), text_cell(one.reason)});
  }
  return table;
}

Result<Shard> parse_shard(const std::string& text) {
  Shard shard;
  const size_t slash = text.find('/');
  const std::string_view view(text);
  if (slash == std::string::npos || !fields_detail::parse_value(view.substr(slash + 1), shard.count).ok() ||
      !fields_detail::parse_value(view.substr(0, slash), shard.index).ok() || shard.count < 1 || shard.index < 1 ||
      shard.index > shard.count) {
    return Status(StatusCode::kInvalidArgument, fmt::format("--shard '{}': allowed: i/n with 1 <= i <= n", text));
  }
  return shard;
}

bool in_shard(const NamedProblem& problem, const Shard& shard) {
  const Digest digest = digest_of(fmt::format("{} {}", problem.op->name(), problem.text()));
  const uint64_t number = std::stoull(digest.hex().substr(0, 15), nullptr, 16);
  return number % static_cast<uint64_t>(shard.count) == static_cast<uint64_t>(shard.index - 1);
}

}  // namespace tilewright::cli
