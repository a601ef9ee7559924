// SPDX-License-Identifier: MIT
// What `tilewright bench --suite NAME` measures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "problems/problem_arguments.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::cli {

// What a regime is held to: geometric means over its rows. 0 = nothing.
struct SuiteBar {
  double fraction = 0;  // of the reference
  double ratio = 0;     // time of the best peer over ours
  // The reference: what products by the vendor's library reach at best on the part that the bar was set on.
  double gflops = 0, read_gbps = 0;
};

struct SuiteProblem {
  NamedProblem problem = {};
  std::string regime;  // rows of a regime share a geometric mean
  int threads = 0;     // 0 = all
  // Compared with as if it were a peer: the same product without its epilogue.
  std::optional<NamedProblem> baseline = {};
  SuiteBar bar = {};
  bool sustained = false;  // on a GPU: measured also without rests
};

// A row of a suite that is not measured, and why.
struct SkippedProblem {
  std::string regime, text, reason;
};

struct Suite {
  std::vector<SuiteProblem> problems;
  std::vector<SkippedProblem> skipped;  // this version does not understand them

  // `item` has everything but the problems. `name`: what people call it, "" = the text.
  void add(const std::string& text, SuiteProblem item, const std::string& name = "", const std::string& baseline = "");
};

std::vector<std::string> suite_names();
// `suite` stands in suite_names(), or is "all". Each kind of device has its own.
Result<Suite> find_suite(const std::string& suite, DeviceKind kind);

}  // namespace tilewright::cli
