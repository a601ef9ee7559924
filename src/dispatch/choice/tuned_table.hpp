// SPDX-License-Identifier: MIT
// Tuned rows: (target, part, units, signature, sizes) -> recipe, with where they come from. Layers: built in, then the
// user's, then those named by environment; a later layer wins, and inside one file the later row wins. Reading never
// writes and never throws: a bad row is a miss with one log line.
#pragma once

#include <span>
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
  std::string library;
  std::string kernels;  // digest of the operator's kernel sources
  std::string compiler, driver, date;
  double sustained_us = 0;  // on a GPU that the problem heats: of calls without rests; us is then that of rested bursts
  std::string own_recipe;   // the best of our own, where the choice is a vendor's library; "" = the choice
  double own_us = 0;
  std::string power;  // Device::power_state() after the measurement

  int32_t layer = -1;  // of the table that holds it; no column

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
    visit("kernels", self.kernels);
    visit("compiler", self.compiler);
    visit("driver", self.driver);
    visit("date", self.date);
    visit("sustained_us", self.sustained_us);
    visit("own_recipe", self.own_recipe);
    visit("own_us", self.own_us);
    visit("power", self.power);
  }
};

// What makes two rows answers to one question.
std::string tuned_row_key(const TunedRow& row);

// One header line, then one line a row. Cells hold no comma, quote or newline: printing refuses such a row.
std::string tuned_csv_header();
Result<std::string> print_tuned_row(const TunedRow& row);
// Rows that parse; each one that does not adds "origin:line: why" to `problems`. The file's header names its columns: those
// that say how a row was measured may be missing (an earlier version's file). A header without the others, or with a
// column that is not known, is one problem, and there are no rows.
std::vector<TunedRow> parse_tuned_csv(std::string_view text, std::string_view origin,
                                      std::vector<std::string>& problems);

// Where rows came from.
struct TunedLayer {
  std::string name;  // "built in", "user", "TILEWRIGHT_TUNED", "option"
  std::string path;
  size_t rows = 0;                    // read; a later layer may hide them
  std::vector<std::string> problems;  // rows that were ignored, and why
};

class TunedTable {
 public:
  void add_layer(std::vector<TunedRow> rows, TunedLayer layer = {});
  const std::vector<TunedLayer>& layers() const { return layers_; }
  // "user (<user data>/tuned/x86-64-v4/gemm.csv)".
  std::string origin(const TunedRow& row) const;
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
  std::vector<TunedLayer> layers_;
};

// The tables of tuned/<target>/<op>.csv, carried in the library.
struct EmbeddedTable {
  std::string_view path;
  std::string_view text;
};
std::span<const EmbeddedTable> embedded_tables();

// Built-in tables, the user's, TILEWRIGHT_TUNED's, then `extra_files`: a later layer wins. Folders are searched for
// <target>/<op>.csv. Without `user_tables`, only the first and the last.
TunedTable load_tuned_tables(bool user_tables, const std::vector<std::string>& extra_files);
// The user's table for an operator on a target: <user data>/tuned/<target>/<op>.csv; "" without a home directory.
std::string user_tuned_path(std::string_view target, std::string_view op);

}  // namespace tilewright
