// SPDX-License-Identifier: MIT
#include "results/bench/bench_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace tilewright::cli {

ReportData bench_report(const DeviceSpec& spec, const DeviceLimits& limits, const std::vector<BenchRow>& rows,
                        const std::vector<SkippedProblem>& skipped) {
  ReportData data;
  data.title = "Bench on " + spec.name;
  data.device_name = spec.name, data.part = spec.part;
  data.target = spec.arch != nullptr ? std::string(spec.arch->target) : "";
  data.units = spec.units;
  data.limits = limits;
  data.size_names = {"M", "N", "K"};
  data.facts = {{"library", "tilewright " TILEWRIGHT_VERSION}, {"driver", spec.driver}};
  std::set<std::string> roofs, peers;
  for (const BenchRow& row : rows) {
    const NamedProblem& problem = row.item.problem;
    ReportRow line;
    line.label = row.item.regime;
    line.sizes = {problem.size("m"), problem.size("n"), problem.size("k")};
    line.us = row.us, line.spread = row.spread, line.rel_error = row.rel_error;
    if (const BenchRow::Peer* peer = row.best_peer()) {
      peers.insert(peer->name);
      line.peer_us = peer->us, line.peer_low = peer->ratio.low, line.peer_high = peer->ratio.high;
    }
    line.operations = problem.op->operations(problem.ref());
    line.bytes = problem.op->bytes_moved(problem.ref());
    line.limit_fraction = row.limit.ratio;
    line.recipe = row.recipe;
    roofs.insert(roof_of(spec, limits, *problem.op, problem.ref()).mma);
    data.rows.push_back(std::move(line));
  }
  data.peer_name = fmt::format("{}", fmt::join(peers, " or "));
  roofs.erase("");
  data.roof_mmas.assign(roofs.begin(), roofs.end());
  for (const SkippedProblem& row : skipped) {
    data.notes.push_back(fmt::format("{}, {}: not measured: {}", row.regime, row.text, row.reason));
  }
  return data;
}

}  // namespace tilewright::cli
