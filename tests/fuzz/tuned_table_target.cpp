// SPDX-License-Identifier: MIT
// Lines of a tuned CSV between two good rows.
#include "dispatch/choice/tuned_table.hpp"
#include "fuzz/fuzz_target.hpp"

namespace tilewright::fuzz {
namespace {

TunedRow row(const char* sizes) {
  TunedRow r;
  r.op = "gemm", r.target = "x86-64-v3", r.part = "zen3", r.units = 2;
  r.core = "a=bf16", r.epilogue = "d=bf16", r.sizes = sizes, r.bucket = "m<=16:n=64:k=32:batch=1";
  r.recipe = "gemm/f/x86-64/s/c";
  r.us = 12.345678901234567, r.spread = 0.01, r.untuned_us = 20, r.gflops = 0.3, r.rel_error = 1e-3, r.samples = 9;
  r.library = "0.1.0", r.compiler = "gcc-12", r.driver = "-", r.date = "2026-01-01T00:00:00Z";
  return r;
}

}  // namespace

std::vector<std::string> tuned_table_seeds() {
  std::string commas(18, ',');
  return {*print_tuned_row(row("m=3:n=64:k=32:batch=1")), tuned_csv_header(), "short,line", commas, "\r\n\"a\",b\n"};
}

void run_tuned_table(std::string_view input) {
  static const std::string first = *print_tuned_row(row("m=1:n=64:k=32:batch=1"));
  static const std::string last = *print_tuned_row(row("m=2:n=64:k=32:batch=1"));
  std::vector<std::string> problems;
  const std::string text = tuned_csv_header() + "\n" + first + "\n" + std::string(input) + "\n" + last + "\n";
  std::vector<TunedRow> rows = parse_tuned_csv(text, "fuzz", problems);
  require(rows.size() >= 2, "the good rows are there");
  require(*print_tuned_row(rows.front()) == first, "a bad row does not change the one before it");
  require(*print_tuned_row(rows.back()) == last, "a bad row does not change the one after it");
  for (const TunedRow& parsed : rows) {
    const Result<std::string> line = print_tuned_row(parsed);
    if (!line) continue;
    const std::vector<TunedRow> again = parse_tuned_csv(tuned_csv_header() + "\n" + *line + "\n", "again", problems);
    require(again.size() == 1 && *print_tuned_row(again[0]) == *line, "an accepted row prints and parses to itself");
  }
  // The last row wins, whatever stands before it.
  const TunedRow wanted = rows.back();
  TunedTable table;
  table.add_layer(std::move(rows));
  const ProblemSignature signature{wanted.core, wanted.epilogue, wanted.sizes, wanted.bucket};
  const TunedRow* found = table.find_exact(wanted.op, wanted.target, wanted.part, wanted.units, signature);
  require(found != nullptr && *print_tuned_row(*found) == last, "the good row is found");
  require(table.digest() == table.digest(), "a digest is a function of the rows");
  // And as a whole file.
  parse_tuned_csv(input, "fuzz", problems);
}

}  // namespace tilewright::fuzz
