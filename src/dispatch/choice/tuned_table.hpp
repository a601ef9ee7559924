// SPDX-License-Identifier: MIT
// Tuned rows: (target, part, units, signature, sizes) -> recipe, with where they come from. Layers: built in, then the
// user's, then those named by environment; a later layer wins, and inside one file the later row wins. Reading never
// writes and never throws: a bad row is a miss with one log line.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/digest.hpp"
#include "dispatch/operator.hpp"
#include "tile/common/fields.hpp"

namespace tilewright {

struct TunedRow {
  // Key.
  std::string op, target, part;
  int32_t units = 0;
  std::string core, epilogue, sizes, bucket;
  // Choice.
  std::string recipe;
  // How it was measured.
  double us = 0;          // median
  double spread = 0;      // interquartile range / median
  double untuned_us = 0;  // median of the untuned choice in the same interleaved run
  double gflops = 0;
  double rel_error = 0;  // worst over seeds and tails
  int32_t samples = 0;
  std::string library, compiler, driver, date;

  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("op", self.op);
    visit("target", self.target);
    visit("part", self.part);
    visit("units", self.units);
    visit("core", self.core);
    visit("epilogue", self.epilogue);
    visit("sizes", self.sizes);
    visit("bucket", self.bucket);
    visit("recipe", self.recipe);
    visit("us", self.us);
    visit("spread", self.spread);
    visit("untuned_us", self.untuned_us);
    visit("gflops", self.gflops);
    visit("rel_error", self.rel_error);
    visit("samples", self.samples);
    visit("library", self.library);
    visit("compiler", self.compiler);
    visit("driver", self.driver);
    visit("date", self.date);
  }
};

// One header line, then one line a row. Cells hold no comma, quote or newline: printing refuses such a row.
std::string tuned_csv_header();
Result<std::string> print_tuned_row(const TunedRow& row);
// Rows that parse; each one that does not adds "origin:line: why" to `problems`. A wrong header is one problem.
std::vector<TunedRow> parse_tuned_csv(std::string_view text, std::string_view origin,
                                      std::vector<std::string>& problems);

class TunedTable {
 public:
  void add_layer(std::vector<TunedRow> rows);
  // Null on a miss.
  const TunedRow* find_exact(std::string_view op, std::string_view target, std::string_view part, int units,
                             const ProblemSignature& signature) const;
  const TunedRow* find_bucket(std::string_view op, std::string_view target, std::string_view part, int units,
                              const ProblemSignature& signature) const;
  size_t size() const { return exact_.size(); }
  std::vector<const TunedRow*> rows() const;  // in key order
  Digest digest() const;                      // of every row in effect

 private:
  std::unordered_map<std::string, TunedRow> exact_;
  std::unordered_map<std::string, std::string> bucket_;  // bucket key -> exact key
};

// Built-in tables (share/tilewright/tuned beside the library, or `tuned/` of a source tree named by TILEWRIGHT_TUNED),
// the user's, TILEWRIGHT_TUNED's, then `extra_files`. Folders are searched for <target>/<op>.csv.
TunedTable load_tuned_tables(bool user_tables, const std::vector<std::string>& extra_files);
// The user's table for an operator on a target: <user data>/tuned/<target>/<op>.csv; "" without a home directory.
std::string user_tuned_path(std::string_view target, std::string_view op);

}  // namespace tilewright
