// SPDX-License-Identifier: MIT
// What a bench measured, as tables: one line a problem for people, one line a problem and peer for programs, and the
// geometric means of each regime.
#pragma once

#include <string>
#include <vector>

#include "output/table.hpp"
#include "problems/suites/bench_suites.hpp"
#include "tuning/measure.hpp"

namespace tilewright::cli {

struct BenchRow {
  SuiteProblem item;
  std::string device;  // "cpu"
  int threads = 0;
  std::string recipe, edges = "plain";
  double us = 0, spread = 0, rel_error = 0;
  PairedRatio limit;  // of the measured limit; 0 = no limit known
  struct Peer {
    std::string name;
    double us = 0;
    PairedRatio ratio;  // peer / ours: above 1, tilewright is faster
    bool rival = true;  // false: tilewright's own, another choice
  };
  std::vector<Peer> peers;
  // The one that is hardest to beat; null without any.
  const Peer* best_peer() const;
};

// The columns that every bench of the project writes, then the 95% interval of the ratio.
Table bench_csv_table(const std::vector<BenchRow>& rows);
Table bench_text_table(const std::vector<BenchRow>& rows);
// One line a regime and thread count: the geometric mean for each peer, and for the best peer of each row; what the suite
// holds it to; the row that stands worst against its bar; which families ran.
Table regime_table(const std::vector<BenchRow>& rows);
// Rows that were not measured, and why.
Table skipped_rows_table(const std::vector<SkippedProblem>& rows);

}  // namespace tilewright::cli
