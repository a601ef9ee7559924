// SPDX-License-Identifier: MIT
// The rows of a bench on a GPU: our own best kernel against the vendor's library in the same process, on the same buffers,
// in bursts that take turns with rests between them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "output/progress_bar.hpp"
#include "peer/peer_set.hpp"
#include "results/bench/bench_table.hpp"
#include "results/limit_probe.hpp"
#include "tuning/measure.hpp"
#include "tuning/report/roofline.hpp"

namespace tilewright::cli {

struct GpuBenchOptions {
  std::string recipe;        // timed instead of our own best
  double seconds = 0.3;      // for the bursts of a row
  double limit_seconds = 3;  // for the limits of the device
  double budget = 0;         // for all rows; what it has no time for is listed as not measured. 0 = no end
  bool vendor = true;        // compare with a family of the vendor's library, where there is one
  bool untuned = false;      // and with what would run without tuned rows
};

class GpuBench {
 public:
  GpuBench(const GpuBenchOptions& options, ContextImpl& context, PeerSet peers)
      : options_(options),
        context_(context),
        peers_(std::move(peers)),
        spec_(context.spec(0)),
        probe_(context.device()) {}

  // `each` is called after each row. A row that cannot run is left out with its reason; a wrong result also counts as a
  // failure.
  Status run(std::span<const SuiteProblem> problems, const std::function<Status()>& each);

  const std::vector<BenchRow>& rows() const { return rows_; }
  const std::vector<SkippedProblem>& skipped() const { return skipped_; }
  int failures() const { return failures_; }
  const DeviceLimits& limits() const { return probe_.limits(); }

 private:
  struct Side;
  // Another process that takes its turn.
  struct Rival {
    std::string name;
    TimedSample sample;
  };
  std::vector<Rival> rivals_of(const NamedProblem& problem, int rotations);
  Result<std::vector<Side>> sides_of(const SuiteProblem& item);
  void compile_all(std::span<const SuiteProblem> problems);
  Status measure(const SuiteProblem& item);
  void add_row(BenchRow row, const Roof& roof, std::span<const Side> sides, std::span<const Rival> rivals,
               std::span<const Timing> timings);
  // The first of our own whose code can be had: the tables may name the vendor's as the winner.
  Result<std::shared_ptr<const Plan>> own_plan(const NamedProblem& problem, std::span<const Choice> choices);
  Result<std::shared_ptr<const Plan>> bind(const NamedProblem& problem, const Recipe& recipe);
  // The vendor's first choice; null when there is none.
  Result<std::shared_ptr<const Plan>> vendor_plan(const NamedProblem& problem);
  bool own(const Operator& op, const Recipe& recipe) const;

  const GpuBenchOptions& options_;
  ContextImpl& context_;
  PeerSet peers_;
  const DeviceSpec spec_;
  LimitProbe probe_;
  ProgressBar bar_;
  std::vector<BenchRow> rows_;
  std::vector<SkippedProblem> skipped_;
  int failures_ = 0;
};

}  // namespace tilewright::cli
