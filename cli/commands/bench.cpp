// SPDX-License-Identifier: MIT
// tilewright bench: times what the dispatcher chooses, against the measured limit and PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "command.hpp"
#include "jit/system/files.hpp"
#include "output/numbers.hpp"
#include "output/progress_bar.hpp"
#include "peer/peer_choice.hpp"
#include "problems/standard_problems.hpp"
#include "resources.hpp"
#include "results/limit_probe.hpp"
#include "results/recipe_text.hpp"
#include "results/result_table.hpp"
#include "tuning/measure.hpp"
#include "tuning/report/roofline.hpp"

namespace tilewright::cli {
namespace {

struct BenchOptions {
  ProblemArguments problems;
  std::string suite, out, recipe, peer = "auto";
  int threads = 0;
  double seconds = 1.2;
  OutputOptions output;
};

struct BenchRow {
  const SuiteProblem* item = nullptr;
  int threads = 0;
  std::string recipe;
  double us = 0, spread = 0, limit_fraction = 0, rel_error = 0;
  std::string peer;
  double peer_us = 0;
  PairedRatio ratio;
};

class Bench {
 public:
  Bench(const BenchOptions& options, ContextImpl& context, PeerChoice peer)
      : options_(options), context_(context), peer_(std::move(peer)), limits_(context.device()) {}

  Status run(const std::vector<SuiteProblem>& problems) {
    for (size_t i = 0; i < problems.size(); ++i) {
      // Limits are probed before each group of rows and after the last, so that they saw the machine that the rows saw.
      const bool fresh = i == 0 || problems[i].regime != problems[i - 1].regime;
      const double fraction = static_cast<double>(i) / static_cast<double>(problems.size());
      if (fresh) measure_limits(fraction);
      bar_.update({fraction, problems[i].problem.text(), ""});
      if (Status s = time(problems[i]); !s) return s;
    }
    measure_limits(1);
    for (BenchRow& row : rows_) {
      const NamedProblem& problem = row.item->problem;
      const Roof roof = roof_of(context_.device().spec(), limits_.limits(), *problem.op, problem.ref(), row.threads);
      row.limit_fraction =
          roof.fraction(problem.op->operations(problem.ref()), problem.op->bytes_moved(problem.ref()), row.us);
    }
    bar_.finish();
    return {};
  }

  Table table() const;
  Table regimes() const;

 private:
  void measure_limits(double fraction) {
    // As long as a problem, so that a short run is short.
    bar_.update({fraction, "limits of the device", ""});
    limits_.measure(std::clamp(options_.seconds, 0.1, 1.5));
  }

  Status time(const SuiteProblem& item) {
    const NamedProblem& problem = item.problem;
    BenchRow row;
    row.item = &item;
    const int wanted = options_.threads > 0 ? options_.threads : item.threads;
    const DeviceSpec spec = context_.spec(wanted);
    row.threads = spec.units;
    Result<std::shared_ptr<const Plan>> plan =
        context_.plan(*problem.op, problem.ref(), wanted, options_.recipe, /*allow_compile=*/true);
    if (!plan) return plan.status();
    row.recipe = print_recipe(problem.op->families(), (*plan)->recipe);

    TorchPeer::Request request;
    request.threads = spec.units;
    request.rotations = rotations_for(*problem.op, problem.ref(), spec);
    Result<std::unique_ptr<ProblemInstance>> instance =
        problem.op->instantiate(problem.ref(), context_.device(), {.rotations = request.rotations});
    if (!instance) return instance.status();
    (*instance)->fill(1, InputData::kNormal);
    if (Status s = check(**plan, **instance, row); !s) return s;

    TorchPeer* peer = torch_request(*problem.op, problem.ref(), request) ? peer_.get() : nullptr;
    if (peer == nullptr || !time_pairs(**plan, **instance, *peer, request, row)) {
      MeasureOptions measure;
      measure.seconds = options_.seconds / 2;
      const std::shared_ptr<const Plan> plans[] = {*plan};
      Result<std::vector<Timing>> timings = measure_plans(context_.device(), plans, **instance, measure);
      if (!timings) return timings.status();
      row.us = timings->front().us, row.spread = timings->front().spread;
    }
    rows_.push_back(std::move(row));
    return {};
  }

  // A time without a right result is worth nothing.
  Status check(const Plan& plan, ProblemInstance& instance, BenchRow& row) {
    instance.poison();
    if (Status s = run_plan(context_.device(), plan, instance.bindings(0), {}); !s) return s;
    const VerifyReport report = instance.verify();
    row.rel_error = report.rel_error;
    if (report.passed) return {};
    return Status(StatusCode::kVerifyFailed,
                  fmt::format("{} with {}: {}", row.item->problem.text(), row.recipe, report.failure));
  }

  bool time_pairs(const Plan& plan, ProblemInstance& instance, TorchPeer& peer, const TorchPeer::Request& request,
                  BenchRow& row) {
    Result<PeerTimes> times = measure_pairs(context_.device(), plan, instance, peer, request, options_.seconds);
    if (!times) {
      bar_.finish();
      note(fmt::format("{}: {}", row.item->problem.text(), times.status().message()));
      return false;
    }
    row.us = times->us, row.spread = times->spread;
    row.peer = peer_.name(), row.peer_us = times->peer_us, row.ratio = times->ratio;
    return true;
  }

  const BenchOptions& options_;
  ContextImpl& context_;
  PeerChoice peer_;
  ProgressBar bar_;
  LimitProbe limits_;
  std::vector<BenchRow> rows_;
};

// The columns of the design; people see the short forms.
Table Bench::table() const {
  Table table("rows", {{"op", ""},
                       {"shape", "problem"},
                       {"dtype", ""},
                       {"device", ""},
                       {"threads", "threads", Align::kRight},
                       {"regime", "regime"},
                       {"edges", ""},
                       {"kernel", "kernel"},
                       {"us", "us", Align::kRight},
                       {"spread", "spread", Align::kRight},
                       {"tflops", "TFLOP/s", Align::kRight},
                       {"gbps", "GB/s", Align::kRight},
                       {"limit_frac", "of limit", Align::kRight},
                       {"peer", ""},
                       {"peer_us", "peer us", Align::kRight},
                       {"ratio", "ratio", Align::kRight},
                       {"rel_err", "error", Align::kRight}});
  for (const BenchRow& row : rows_) {
    const NamedProblem& problem = row.item->problem;
    const double tflops = problem.op->operations(problem.ref()) / row.us * 1e-6;
    const double gbps = problem.op->bytes_moved(problem.ref()) / row.us * 1e-3;
    constexpr double kNoise = 0.03;  // a run with more is void
    auto positive = [](double value, std::string text) {
      return value > 0 ? number_cell(value, std::move(text)) : absent();
    };
    Cell kernel{row.recipe, short_recipe(row.recipe)};
    table.add({text_cell(std::string(problem.op->name())), text_cell(problem.text()),
               text_cell(dtype_name(problem.op->multiplied_dtype(problem.ref()))),
               text_cell(to_string(context_.device().spec().id)), count_cell(row.threads), text_cell(row.item->regime),
               text_cell("plain"), std::move(kernel), number_cell(row.us, print_significant(row.us, 4)),
               number_cell(row.spread, fmt::format("{:.1f} %", 100 * row.spread),
                           row.spread > kNoise ? Tone::kWarning : Tone::kPlain),
               number_cell(tflops, print_significant(tflops)), number_cell(gbps, print_significant(gbps)),
               positive(row.limit_fraction, print_percent(row.limit_fraction)),
               row.peer.empty() ? absent() : text_cell(row.peer),
               positive(row.peer_us, print_significant(row.peer_us, 4)),
               positive(row.ratio.ratio, print_ratio(row.ratio.ratio)),
               number_cell(row.rel_error, fmt::format("{:.1e}", row.rel_error))});
  }
  return table;
}

Table Bench::regimes() const {
  std::map<std::string, std::vector<const BenchRow*>> groups;
  for (const BenchRow& row : rows_) {
    groups[fmt::format("{}, {} thread{}", row.item->regime, row.threads, row.threads == 1 ? "" : "s")].push_back(&row);
  }
  Table table("regimes", {{"regime", "geometric mean"},
                          {"rows", "rows", Align::kRight},
                          {"limit_frac", "of limit", Align::kRight},
                          {"ratio", "over the peer", Align::kRight}});
  for (const auto& [name, rows] : groups) {
    std::vector<double> fractions, ratios;
    for (const BenchRow* row : rows) fractions.push_back(row->limit_fraction), ratios.push_back(row->ratio.ratio);
    const double fraction = geometric_mean(fractions), ratio = geometric_mean(ratios);
    table.add({text_cell(name), count_cell(static_cast<int64_t>(rows.size())),
               fraction > 0 ? number_cell(fraction, print_percent(fraction)) : absent(),
               ratio > 0 ? number_cell(ratio, print_ratio(ratio)) : absent()});
  }
  return table;
}

// build/bench/<suite>.csv of the source tree, or of the folder one stands in.
std::string default_out(const std::string& suite) {
  const std::string root = source_root();
  return (root.empty() ? "" : root + "/") + "build/bench/" + suite + ".csv";
}

Result<ExitCode> run_bench(const BenchOptions& options) {
  std::vector<SuiteProblem> problems;
  if (!options.suite.empty()) {
    Result<std::vector<SuiteProblem>> suite = suite_problems(options.suite);
    if (!suite) return suite.status();
    problems = std::move(*suite);
  }
  if (options.suite.empty() || !options.problems.empty()) {
    Result<std::vector<NamedProblem>> named = require_problems(options.problems);
    if (!named) return named.status();
    for (NamedProblem& problem : *named) problems.push_back({std::move(problem), "given", 0});
  }
  Result<PeerChoice> peer = PeerChoice::make(options.peer);
  if (!peer) return peer.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  Bench bench(options, **context, std::move(*peer));
  if (Status s = bench.run(problems); !s) return s;

  Document document("bench");
  Table rows = bench.table();
  const std::string csv = rows.to_csv();
  document.add(std::move(rows));
  if (!options.output.csv) document.add(bench.regimes());
  if (!options.out.empty() || !options.suite.empty()) {
    const std::string path = options.out.empty() ? default_out(options.suite) : options.out;
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (Status s = folder.empty() ? Status() : make_folders(folder); !s) return s;
    if (Status s = write_file(path, csv); !s) return s;
    document.fact("csv", path, "rows written to " + path);
  }
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_bench_command(CLI::App& program, Invocation& invocation) {
  add_command<BenchOptions>(
      program, invocation,
      {"bench", "Time what the dispatcher chooses, against the limit and PyTorch",
       "  tilewright bench --suite gemm                          writes build/bench/gemm.csv\n"
       "  tilewright bench --gemm 2048x2048x2048:f32 --threads 1\n"
       "  tilewright bench --problem m=16:n=4096:k=4096:a=bf16:packed=1 --peer none --csv"},
      [](Arguments& arguments, BenchOptions& options) {
        std::vector<std::string> suites = suite_names();
        suites.emplace_back("all");
        arguments.choice("--suite", options.suite, suites, "a suite of problems");
        add_problem_arguments(arguments, options.problems);
        arguments.text("--recipe", options.recipe, "RECIPE", "time this recipe instead of the dispatcher's choice");
        arguments.text("--out", options.out, "FILE",
                       "write the rows to this CSV file (suites: build/bench/<suite>.csv)");
        arguments.number_above(0, "--seconds", options.seconds,
                               "time for each problem, and for each probe of the limits (1.2)");
        add_threads_argument(arguments, options.threads);
        add_peer_argument(arguments, options.peer);
        add_output_arguments(arguments, options.output);
      },
      run_bench);
}

}  // namespace tilewright::cli
