// SPDX-License-Identifier: MIT
// tilewright compare: two tuned tables, bench files or results, row by row.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "output/numbers.hpp"
#include "results/result_table.hpp"
#include "tables/measured_rows.hpp"

namespace tilewright::cli {
namespace {

struct CompareOptions {
  std::string a, b;
  double threshold = 5;
  bool changed = false;
  OutputOptions output;
};

Result<ExitCode> run_compare(const CompareOptions& options) {
  using Verdict = RowComparison::Verdict;
  if (options.a.empty() || options.b.empty()) {
    return Status(StatusCode::kInvalidArgument, "compare takes two files: tilewright compare A B");
  }
  Result<std::vector<MeasuredRow>> a = read_measured(options.a);
  if (!a) return a.status();
  Result<std::vector<MeasuredRow>> b = read_measured(options.b);
  if (!b) return b.status();
  const std::vector<RowComparison> rows = compare_rows(*a, *b, options.threshold / 100);

  Table table("rows", {{"key", ""},
                       {"label", "problem"},
                       {"a_us", "A us", Align::kRight},
                       {"b_us", "B us", Align::kRight},
                       {"speedup", "A / B", Align::kRight},
                       {"paired", "paired", Align::kRight},
                       {"paired_by", "by"},
                       {"paired_low", ""},
                       {"paired_high", ""},
                       {"recipe", "recipe"},
                       {"verdict", "B is"}});
  std::vector<double> speedups, paired;
  int64_t counts[5] = {};
  for (const RowComparison& row : rows) {
    ++counts[static_cast<int>(row.verdict)];
    if (row.speedup > 0) speedups.push_back(row.speedup), paired.push_back(row.decisive());
    if (options.changed && row.verdict == Verdict::kSame) continue;
    const bool both = row.a_us > 0 && row.b_us > 0;
    const Tone tone = row.verdict == Verdict::kFaster   ? Tone::kGood
                      : row.verdict == Verdict::kSlower ? Tone::kBad
                                                        : Tone::kPlain;
    table.add({text_cell(row.key), text_cell(row.label), positive_cell(row.a_us, print_significant(row.a_us, 4)),
               positive_cell(row.b_us, print_significant(row.b_us, 4)),
               positive_cell(row.speedup, print_ratio(row.speedup)), positive_cell(row.paired, print_ratio(row.paired)),
               row.paired > 0 ? text_cell(row.paired_by) : absent(), positive_cell(row.low, ""),
               positive_cell(row.high, ""), both ? text_cell(row.same_recipe ? "same" : "another") : absent(),
               text_cell(verdict_name(row.verdict), tone)});
  }
  if (speedups.empty()) {
    return Status(StatusCode::kNotFound, fmt::format("'{}' and '{}' have no row in common", options.a, options.b));
  }
  const int64_t slower = counts[static_cast<int>(Verdict::kSlower)];
  const double mean = geometric_mean(speedups), paired_mean = geometric_mean(paired);
  Document document("compare");
  document.add(std::move(table));
  document.fact("rows_in_common", static_cast<int64_t>(speedups.size()), "");
  document.fact("geomean", mean,
                fmt::format("geometric mean of {} rows: {} (A / B), {} paired; above 1, B is faster", speedups.size(),
                            print_ratio(mean), print_ratio(paired_mean)));
  document.fact("geomean_paired", paired_mean, "");
  document.fact("faster", counts[static_cast<int>(Verdict::kFaster)], "");
  document.fact("slower", slower,
                fmt::format("{} faster, {} slower by more than {:g} %, {} same, {} only in A, {} only in B",
                            counts[static_cast<int>(Verdict::kFaster)], slower, options.threshold,
                            counts[static_cast<int>(Verdict::kSame)], counts[static_cast<int>(Verdict::kOnlyA)],
                            counts[static_cast<int>(Verdict::kOnlyB)]));
  document.fact("only_in_a", counts[static_cast<int>(Verdict::kOnlyA)], "");
  document.fact("only_in_b", counts[static_cast<int>(Verdict::kOnlyB)], "");
  document.print(options.output);
  return slower > 0 ? ExitCode::kCheckFailed : ExitCode::kOk;
}

}  // namespace

void add_compare_command(CLI::App& program, Invocation& invocation) {
  add_command<CompareOptions>(
      program, invocation,
      {"compare", "Compare two tuned tables, bench files or results row by row",
       "  tilewright compare before.csv after.csv                  exit code 1 when a row of B is more than 5 % "
       "slower\n"
       "  tilewright compare old/gemm.csv new/gemm.csv --threshold 3 --changed"},
      [](Arguments& arguments, CompareOptions& options) {
        arguments.positional("A", options.a, "a tuned table, a bench's CSV file, or a results file of tune");
        arguments.positional("B", options.b, "another one of the same kind");
        arguments.number_above(0, "--threshold", options.threshold, "percent that a row may be slower (5)");
        arguments.flag("--changed", options.changed, "only rows that are not the same");
        add_output_arguments(arguments, options.output);
      },
      run_compare);
}

}  // namespace tilewright::cli
