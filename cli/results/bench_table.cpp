// SPDX-License-Identifier: MIT
#include "results/bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "output/numbers.hpp"
#include "results/recipe_text.hpp"
#include "results/result_table.hpp"

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

Cell positive(double value, std::string text, Tone tone = Tone::kPlain) {
  return value > 0 ? number_cell(value, std::move(text), tone) : absent();
}

// Differences under 5 % are noise.
Cell ratio_cell(const PairedRatio& r) {
  return positive(r.ratio, print_ratio(r.ratio), r.low >= 1 ? Tone::kGood : r.high < 0.95 ? Tone::kBad : Tone::kPlain);
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
  const auto best = std::min_element(peers.begin(), peers.end(),
                                     [](const Peer& x, const Peer& y) { return x.ratio.ratio < y.ratio.ratio; });
  return best == peers.end() ? nullptr : &*best;
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
      table.add({text_cell(std::string(p.op->name())), text_cell(p.text()),
                 text_cell(dtype_name(p.op->multiplied_dtype(p.ref()))), text_cell(row.device), count_cell(row.threads),
                 text_cell(row.item.regime), text_cell("plain"), text_cell(row.recipe), number_cell(row.us, ""),
                 number_cell(row.spread, ""), number_cell(tflops_of(row), ""), number_cell(gbps_of(row), ""),
                 positive(row.limit.ratio, ""), peer != nullptr ? text_cell(peer->name) : absent(),
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
                               positive(row.limit.ratio, fmt::format("{:.1f} %", 100 * row.limit.ratio))};
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

Table regime_table(const std::vector<BenchRow>& rows) {
  // Regimes in the order of the rows; in each, its peers and then the best of them.
  std::vector<std::string> order;
  std::map<std::string, std::vector<const BenchRow*>> regimes;
  for (const BenchRow& row : rows) {
    const std::string name = fmt::format("{}, {} thread{}", row.item.regime, row.threads, row.threads == 1 ? "" : "s");
    if (!regimes.contains(name)) order.push_back(name);
    regimes[name].push_back(&row);
  }
  const std::vector<std::string> names = peer_names(rows);
  std::vector<Column> columns = {
      {"regime", "geometric mean"}, {"rows", "rows", Align::kRight}, {"limit_frac", "of limit", Align::kRight}};
  for (const std::string& name : names) columns.push_back({name, name, Align::kRight});
  columns.push_back({"ratio", "best of them", Align::kRight});
  columns.push_back({"lowest", "lowest", Align::kRight});
  Table table("regimes", std::move(columns));
  for (const std::string& name : order) {
    const std::vector<const BenchRow*>& members = regimes[name];
    std::vector<double> fractions, best;
    for (const BenchRow* row : members) {
      fractions.push_back(row->limit.ratio);
      if (const BenchRow::Peer* peer = row->best_peer()) best.push_back(peer->ratio.ratio);
    }
    const double fraction = geometric_mean(fractions);
    std::vector<Cell> cells = {text_cell(name), count_cell(static_cast<int64_t>(members.size())),
                               positive(fraction, fmt::format("{:.1f} %", 100 * fraction))};
    const auto add_mean = [&cells](const std::vector<double>& ratios) {
      const double mean = geometric_mean(ratios);
      cells.push_back(positive(mean, print_ratio(mean)));
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
    cells.push_back(positive(lowest, print_ratio(lowest)));
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace tilewright::cli
