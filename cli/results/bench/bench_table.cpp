// SPDX-License-Identifier: MIT
#include "results/bench/bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "command.hpp"
#include "output/numbers.hpp"
#include "results/recipe_text.hpp"
#include "results/result_table.hpp"
#include "tuning/report/roofline.hpp"

namespace tilewright::cli {
namespace {

constexpr double kNoise = 0.03;  // a run with more spread is void

double tflops_of(const BenchRow& row) {
  const NamedProblem& p = row.item.problem;
  return p.op->operations(p.ref()) / row.us * 1e-6;
}
double gbps_of(const BenchRow& row) {
  const NamedProblem& p = row.item.problem;
  return p.op->bytes_moved(p.ref()) / row.us * 1e-3;
}

Cell ratio_cell(const PairedRatio& r) {
  return positive_cell(r.ratio, print_ratio(r.ratio), ratio_tone(r.low, r.high));
}

Cell spread_cell(double spread) {
  return number_cell(spread, fmt::format("{:.1f} %", 100 * spread), spread > kNoise ? Tone::kWarning : Tone::kPlain);
}

// In the order in which they first appear.
std::vector<std::string> peer_names(const std::vector<BenchRow>& rows) {
  std::vector<std::string> names;
  for (const BenchRow& row : rows) {
    for (const BenchRow::Peer& peer : row.peers) {
      if (std::find(names.begin(), names.end(), peer.name) == names.end()) names.push_back(peer.name);
    }
  }
  return names;
}

const BenchRow::Peer* find_peer(const BenchRow& row, const std::string& name) {
  for (const BenchRow::Peer& peer : row.peers) {
    if (peer.name == name) return &peer;
  }
  return nullptr;
}

}  // namespace

const BenchRow::Peer* BenchRow::best_peer() const {
  const Peer* best = nullptr;
  for (const Peer& peer : peers) {
    if (peer.rival && (best == nullptr || peer.ratio.ratio < best->ratio.ratio)) best = &peer;
  }
  return best;
}

Table bench_csv_table(const std::vector<BenchRow>& rows) {
  Table table("rows", {{"op", ""},
                       {"shape", ""},
                       {"dtype", ""},
                       {"device", ""},
                       {"threads", ""},
                       {"regime", ""},
                       {"edges", ""},
                       {"kernel", ""},
                       {"us", ""},
                       {"spread", ""},
                       {"tflops", ""},
                       {"gbps", ""},
                       {"limit_frac", ""},
                       {"peer", ""},
                       {"peer_us", ""},
                       {"ratio", ""},
                       {"rel_err", ""},
                       {"ratio_low", ""},
                       {"ratio_high", ""}});
  for (const BenchRow& row : rows) {
    const NamedProblem& p = row.item.problem;
    const auto add = [&](const BenchRow::Peer* peer) {
      table.add({text_cell(std::string(p.op->name())), text_cell(p.text()), text_cell(p.op->dtype_text(p.ref())),
                 text_cell(row.device), count_cell(row.threads), text_cell(row.item.regime), text_cell(row.edges),
                 text_cell(row.recipe), number_cell(row.us, ""), number_cell(row.spread, ""),
                 number_cell(tflops_of(row), ""), number_cell(gbps_of(row), ""), positive_cell(row.limit.ratio, ""),
                 peer != nullptr ? text_cell(peer->name) : absent(),
                 peer != nullptr ? number_cell(peer->us, "") : absent(),
                 peer != nullptr ? number_cell(peer->ratio.ratio, "") : absent(), number_cell(row.rel_error, ""),
                 peer != nullptr ? number_cell(peer->ratio.low, "") : absent(),
                 peer != nullptr ? number_cell(peer->ratio.high, "") : absent()});
    };
    for (const BenchRow::Peer& peer : row.peers) add(&peer);
    if (row.peers.empty()) add(nullptr);
  }
  return table;
}

Table bench_text_table(const std::vector<BenchRow>& rows) {
  const std::vector<std::string> names = peer_names(rows);
  std::vector<Column> columns = {{"regime", "regime"},
                                 {"shape", "problem"},
                                 {"threads", "threads", Align::kRight},
                                 {"us", "us", Align::kRight},
                                 {"spread", "spread", Align::kRight},
                                 {"tflops", "TFLOP/s", Align::kRight},
                                 {"gbps", "GB/s", Align::kRight},
                                 {"limit_frac", "of limit", Align::kRight}};
  for (const std::string& name : names) columns.push_back({name, name, Align::kRight});
  columns.push_back({"rel_err", "error", Align::kRight});
  columns.push_back({"kernel", "kernel"});
  Table table("summary", std::move(columns));
  for (const BenchRow& row : rows) {
    std::vector<Cell> cells = {text_cell(row.item.regime),
                               text_cell(row.item.problem.text()),
                               count_cell(row.threads),
                               number_cell(row.us, print_significant(row.us, 4)),
                               spread_cell(row.spread),
                               number_cell(tflops_of(row), print_significant(tflops_of(row))),
                               number_cell(gbps_of(row), print_significant(gbps_of(row))),
                               positive_cell(row.limit.ratio, fmt::format("{:.1f} %", 100 * row.limit.ratio))};
    for (const std::string& name : names) {
      const BenchRow::Peer* peer = find_peer(row, name);
      cells.push_back(peer != nullptr ? ratio_cell(peer->ratio) : absent());
    }
    cells.push_back(number_cell(row.rel_error, fmt::format("{:.1e}", row.rel_error)));
    cells.push_back(text_cell(short_recipe(row.recipe)));
    table.add(std::move(cells));
  }
  return table;
}

namespace {

std::string print_counts(const std::map<std::string, int>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text;
}

// "gemm_sm90 7, gemv_gpu 2".
std::string families_of(const std::vector<const BenchRow*>& rows) {
  std::map<std::string, int> counts;
  for (const BenchRow* row : rows) ++counts[split_words(short_recipe(row->recipe), ' ').front()];
  return print_counts(counts);
}

// The family or library that took least time in each row: "gemm_cublaslt 2, gemm_sm90 7".
std::string winners_of(const std::vector<const BenchRow*>& rows) {
  std::map<std::string, int> counts;
  for (const BenchRow* row : rows) {
    const BenchRow::Peer* fastest = nullptr;
    for (const BenchRow::Peer& peer : row->peers) {
      const bool faster = peer.us < row->us && (fastest == nullptr || peer.us < fastest->us);
      if (faster && !row->item.baseline) fastest = &peer;
    }
    ++counts[fastest != nullptr ? fastest->name : split_words(short_recipe(row->recipe), ' ').front()];
  }
  return print_counts(counts);
}

// Of the reference that the row's bar was set with; 0 without one.
double reference_fraction(const BenchRow& row) {
  const NamedProblem& p = row.item.problem;
  const SuiteBar& bar = row.item.bar;
  const Roof roof{"", bar.gflops, 0, bar.read_gbps};
  return roof.fraction(p.op->operations(p.ref()), p.op->bytes_moved(p.ref()), row.us);
}

// "96 %, 1.00x".
Cell bar_cell(const SuiteBar& bar) {
  std::vector<std::string> words;
  if (bar.fraction > 0) words.push_back(fmt::format("{:.0f} %", 100 * bar.fraction));
  if (bar.ratio > 0) words.push_back(print_ratio(bar.ratio));
  return words.empty() ? absent() : text_cell(join(words));
}

// Furthest below its bar: by ratio where there is one and a peer, else by share of the limit.
const BenchRow* worst_of(const std::vector<const BenchRow*>& rows) {
  const auto standing = [](const BenchRow* row) {
    const BenchRow::Peer* peer = row->best_peer();
    return row->item.bar.ratio > 0 && peer != nullptr ? peer->ratio.ratio : row->limit.ratio;
  };
  return *std::min_element(rows.begin(), rows.end(),
                           [&](const BenchRow* x, const BenchRow* y) { return standing(x) < standing(y); });
}

}  // namespace

Table regime_table(const std::vector<BenchRow>& rows) {
  // Regimes in the order of the rows; in each, its peers and then the best of them.
  std::vector<std::string> order;
  std::map<std::string, std::vector<const BenchRow*>> regimes;
  for (const BenchRow& row : rows) {
    std::string name = row.item.regime;
    if (row.device == "cpu") name += fmt::format(", {} thread{}", row.threads, row.threads == 1 ? "" : "s");
    if (!regimes.contains(name)) order.push_back(name);
    regimes[name].push_back(&row);
  }
  const std::vector<std::string> names = peer_names(rows);
  std::vector<Column> columns = {
      {"regime", "geometric mean"}, {"rows", "rows", Align::kRight}, {"limit_frac", "of limit", Align::kRight}};
  const bool held = std::any_of(rows.begin(), rows.end(), [](const BenchRow& row) {
    return row.item.bar.fraction > 0 || row.item.bar.ratio > 0;
  });
  if (held) {
    columns.push_back({"reference_frac", "of reference", Align::kRight});
    columns.push_back({"bar", "at least", Align::kRight});
  }
  for (const std::string& name : names) columns.push_back({name, name, Align::kRight});
  columns.push_back({"ratio", "best of them", Align::kRight});
  columns.push_back({"lowest", "lowest", Align::kRight});
  columns.push_back({"worst", "worst row"});
  columns.push_back({"families", "families"});
  columns.push_back({"winners", "fastest"});
  Table table("regimes", std::move(columns));
  for (const std::string& name : order) {
    const std::vector<const BenchRow*>& members = regimes[name];
    std::vector<double> fractions, references, best;
    for (const BenchRow* row : members) {
      fractions.push_back(row->limit.ratio);
      references.push_back(reference_fraction(*row));
      if (const BenchRow::Peer* peer = row->best_peer()) best.push_back(peer->ratio.ratio);
    }
    const double fraction = geometric_mean(fractions);
    std::vector<Cell> cells = {text_cell(name), count_cell(static_cast<int64_t>(members.size())),
                               positive_cell(fraction, fmt::format("{:.1f} %", 100 * fraction))};
    if (held) {
      const double reference = geometric_mean(references);
      cells.push_back(positive_cell(reference, fmt::format("{:.1f} %", 100 * reference)));
      cells.push_back(bar_cell(members.front()->item.bar));
    }
    const auto add_mean = [&cells](const std::vector<double>& ratios) {
      const double mean = geometric_mean(ratios);
      cells.push_back(positive_cell(mean, print_ratio(mean)));
    };
    for (const std::string& peer : names) {
      std::vector<double> ratios;
      for (const BenchRow* row : members) {
        if (const BenchRow::Peer* found = find_peer(*row, peer)) ratios.push_back(found->ratio.ratio);
      }
      add_mean(ratios);
    }
    add_mean(best);
    const double lowest = best.empty() ? 0 : *std::min_element(best.begin(), best.end());
    cells.push_back(positive_cell(lowest, print_ratio(lowest)));
    cells.push_back(text_cell(worst_of(members)->item.problem.text()));
    cells.push_back(text_cell(families_of(members)));
    cells.push_back(text_cell(winners_of(members)));
    table.add(std::move(cells));
  }
  return table;
}

Table skipped_rows_table(const std::vector<SkippedProblem>& rows) {
  Table table("skipped", {{"regime", "regime"}, {"shape", "not measured"}, {"reason", "because"}});
  for (const SkippedProblem& row : rows) {
    table.add({text_cell(row.regime), text_cell(row.text), text_cell(row.reason, Tone::kWarning)});
  }
  return table;
}

}  // namespace tilewright::cli
