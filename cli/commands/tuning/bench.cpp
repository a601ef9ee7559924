// SPDX-License-Identifier: MIT
// tilewright bench: times what the dispatcher chooses, in bursts that take turns with the limit's probe and with other
// libraries.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command.hpp"
#include "commands/tuning/gpu_bench.hpp"
#include "jit/system/files.hpp"
#include "output/progress_bar.hpp"
#include "peer/bursts.hpp"
#include "peer/peer_set.hpp"
#include "problems/captured/captured_shapes.hpp"
#include "problems/suites/bench_suites.hpp"
#include "resources.hpp"
#include "results/bench/bench_report.hpp"
#include "results/bench/bench_table.hpp"
#include "results/bench/limit_side.hpp"
#include "results/limit_probe.hpp"
#include "results/limit_table.hpp"
#include "tuning/tuner.hpp"

namespace tilewright::cli {
namespace {

struct BenchOptions {
  ProblemArguments problems;
  CaptureArguments capture;
  std::string suite, out, recipe, report, peer = "auto", device = "cpu";
  std::vector<std::string> only;
  int threads = 0;
  double seconds = 0;                 // 0 = 3 on the CPU, 0.3 on a GPU
  double tune_first = 0, budget = 0;  // seconds
  bool untuned = false;
  OutputOptions output;
  double row_seconds() const { return seconds > 0 ? seconds : 3; }
};

constexpr const char* kBaselineName = "plain GEMM";

// A problem with its plan and its buffers.
struct Prepared {
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<ProblemInstance> instance;
};

class Bench {
 public:
  Bench(const BenchOptions& options, ContextImpl& context, PeerSet peers)
      : options_(options),
        context_(context),
        peers_(std::move(peers)),
        probe_(context.device()),
        limit_(context.device()) {}

  // `each` is called after each row.
  Status run(const std::vector<SuiteProblem>& problems, const std::function<Status()>& each) {
    // Tells which roof a row is under; the limit itself is probed between the row's bursts.
    bar_.update({0, "limits of the device", ""});
    probe_.measure(std::clamp(options_.row_seconds(), 0.1, 1.5));  // a short run is short
    std::vector<NamedProblem> named;
    for (const SuiteProblem& item : problems) named.push_back(item.problem);
    note_warm_weights(named, context_.device().spec(), sides());
    for (size_t i = 0; i < problems.size(); ++i) {
      const double fraction = static_cast<double>(i) / static_cast<double>(problems.size());
      bar_.update({fraction, problems[i].problem.text(), problems[i].regime});
      if (Status s = time(problems[i]); !s) return s;
      if (Status s = each(); !s) return s;
    }
    bar_.finish();
    return {};
  }

  const std::vector<BenchRow>& rows() const { return rows_; }

 private:
  // That keep copies of a weight at the same time.
  int sides() const { return static_cast<int>(1 + peers_.size()); }

  Result<Prepared> prepare(const NamedProblem& problem, int threads, const std::string& recipe, int rotations) {
    Result<std::shared_ptr<const Plan>> plan =
        context_.plan(*problem.op, problem.ref(), threads, recipe, /*allow_compile=*/true);
    if (!plan) return plan.status();
    Result<std::unique_ptr<ProblemInstance>> instance =
        problem.op->instantiate(problem.ref(), context_.device(), {.rotations = rotations, .usual = true});
    if (!instance) return instance.status();
    (*instance)->fill(1, InputData::kNormal);
    return Prepared{std::move(*plan), std::move(*instance)};
  }

  Status time(const SuiteProblem& item) {
    const NamedProblem& problem = item.problem;
    const int wanted = options_.threads > 0 ? options_.threads : item.threads;
    const DeviceSpec spec = context_.spec(wanted);
    const int rotations = rotations_for(*problem.op, problem.ref(), spec, item.baseline ? 2 : sides()).copies;
    Result<Prepared> own = prepare(problem, wanted, options_.recipe, rotations);
    if (!own) return own.status();

    BenchRow row;
    row.item = item;
    row.device = to_string(spec.id);
    row.threads = spec.units;
    row.recipe = print_recipe(problem.op->families(), own->plan->recipe);
    if (Status s = check(*own, row); !s) return s;

    // Ours first, the limit second, then those that we are compared with.
    std::vector<BurstSide> timed = {plan_side(context_.device(), *own->plan, *own->instance)};
    const Roof roof = roof_of(context_.device().spec(), probe_.limits(), *problem.op, problem.ref(), spec.units);
    Result<BurstSide> limit =
        limit_.side(roof, problem.op->operations(problem.ref()), problem.op->bytes_moved(problem.ref()), spec.units);
    if (limit) timed.push_back(std::move(*limit));
    const size_t first_peer = timed.size();
    std::vector<std::string> names;
    Result<Prepared> baseline = Status(StatusCode::kNotFound, "");
    PeerRequest request;
    if (item.baseline) {
      baseline = prepare(*item.baseline, wanted, "", rotations);
      if (!baseline) return baseline.status();
      names.emplace_back(kBaselineName);
      timed.push_back(plan_side(context_.device(), *baseline->plan, *baseline->instance));
    } else if (peer_request(*problem.op, problem.ref(), request)) {
      request.threads = spec.units, request.rotations = rotations;
      for (Peer* peer : peers_.serving(request)) {
        names.push_back(peer->name());
        timed.push_back(peer_side(*peer, request));
      }
    }
    Result<std::vector<Timing>> timings = measure(timed, names, first_peer, problem);
    if (!timings) return timings.status();

    const Timing& ours = timings->front();
    row.us = ours.us, row.spread = ours.spread;
    if (first_peer > 1) row.limit = paired_ratio((*timings)[1], ours);
    for (size_t i = 0; i < names.size(); ++i) {
      const Timing& peer = (*timings)[first_peer + i];
      row.peers.push_back({names[i], peer.us, paired_ratio(peer, ours)});
    }
    rows_.push_back(std::move(row));
    return {};
  }

  // A peer that cannot run the problem is left out of this row.
  Result<std::vector<Timing>> measure(std::vector<BurstSide>& timed, std::vector<std::string>& names, size_t first_peer,
                                      const NamedProblem& problem) {
    while (true) {
      size_t failed = 0;
      Result<std::vector<Timing>> timings = measure_bursts(timed, options_.row_seconds(), &failed);
      if (timings || failed < first_peer) return timings;
      bar_.finish();
      note(fmt::format("{}: {}", problem.text(), timings.status().message()));
      timed.erase(timed.begin() + static_cast<ptrdiff_t>(failed));
      names.erase(names.begin() + static_cast<ptrdiff_t>(failed - first_peer));
    }
  }

  // A time without a right result is worth nothing.
  Status check(const Prepared& own, BenchRow& row) {
    own.instance->poison();
    if (Status s = run_plan(context_.device(), *own.plan, own.instance->bindings(0), {}); !s) return s;
    const VerifyReport report = own.instance->verify();
    row.rel_error = report.rel_error;
    if (report.passed) return {};
    return Status(StatusCode::kVerifyFailed,
                  fmt::format("{} with {}: {}", row.item.problem.text(), row.recipe, report.failure));
  }

  const BenchOptions& options_;
  ContextImpl& context_;
  PeerSet peers_;
  ProgressBar bar_;
  LimitProbe probe_;
  LimitSide limit_;
  std::vector<BenchRow> rows_;
};

// build/bench/<suite>.csv of the source tree, or of the folder one stands in.
std::string default_out(const std::string& suite) {
  const std::string root = source_root();
  return (root.empty() ? "" : root + "/") + "build/bench/" + suite + ".csv";
}

Result<Suite> wanted_problems(const BenchOptions& options, DeviceKind kind) {
  Suite wanted;
  std::vector<SuiteProblem>& problems = wanted.problems;
  if (!options.suite.empty()) {
    Result<Suite> suite = find_suite(options.suite, kind);
    if (!suite) return suite.status();
    wanted = std::move(*suite);
  }
  if (!options.capture.empty()) {
    Result<CapturedShapes> captured = captured_problems(options.capture);
    if (!captured) return captured.status();
    for (NamedProblem& problem : captured->problems) problems.push_back({std::move(problem), "captured", 0, {}});
    for (const SkippedShapes& skipped : captured->skipped) {
      note(fmt::format("{}: {} rows not taken: {}", skipped.source, skipped.rows, skipped.reason));
    }
  }
  if ((options.suite.empty() && options.capture.empty()) || !options.problems.empty()) {
    Result<std::vector<NamedProblem>> named = require_problems(options.problems);
    if (!named) return named.status();
    for (NamedProblem& problem : *named) problems.push_back({std::move(problem), "given", 0, {}});
  }
  if (options.only.empty()) return wanted;
  const auto unwanted = [&](std::initializer_list<std::string> texts) {
    return std::none_of(options.only.begin(), options.only.end(), [&](const std::string& word) {
      return std::any_of(texts.begin(), texts.end(),
                         [&](const std::string& text) { return text.find(word) != std::string::npos; });
    });
  };
  std::erase_if(problems, [&](const SuiteProblem& item) {
    return unwanted({item.regime, item.problem.text(), item.problem.layer});
  });
  std::erase_if(wanted.skipped, [&](const SkippedProblem& row) { return unwanted({row.regime, row.text}); });
  if (!problems.empty() || !wanted.skipped.empty()) return wanted;
  return Status(StatusCode::kNotFound,
                fmt::format("--only {}: no problem's regime, text or layer contains it", join(options.only)));
}

// Where rows go, "" = nowhere; its folder is made.
Result<std::string> out_path(const BenchOptions& options, DeviceKind kind) {
  std::string path = options.out;
  if (path.empty() && !options.suite.empty())
    path = default_out(options.suite + (kind == DeviceKind::kCpu ? "" : "-gpu"));
  if (const std::string folder = std::filesystem::path(path).parent_path().string(); !folder.empty()) {
    if (Status s = make_folders(folder); !s) return s;
  }
  return path;
}

void print_rows(const BenchOptions& options, const std::vector<BenchRow>& rows, const std::string& path,
                Document& document) {
  document.add(options.output.form() == Form::kText ? bench_text_table(rows) : bench_csv_table(rows));
  if (!options.output.csv) document.add(regime_table(rows));
  if (!path.empty()) document.fact("csv", path, "rows written to " + path);
}

// Rows of the suite into the user's table, as `tilewright tune` makes them.
Status tune_first(const BenchOptions& options, ContextImpl& context, const std::vector<SuiteProblem>& problems) {
  std::vector<TuneTask> tasks;
  for (const SuiteProblem& item : problems) {
    tasks.push_back({item.problem.op, item.problem.bytes, item.problem.label()});
    if (item.baseline) tasks.push_back({item.baseline->op, item.baseline->bytes, item.baseline->label()});
  }
  ProgressBar bar;
  TuneOptions tuning;
  tuning.budget_seconds = options.tune_first;
  const auto results = tune(context, tasks, tuning, [&](const TuneProgress& p) {
    const double all = std::max(1e-3, p.elapsed_seconds + p.left_seconds);
    bar.update({p.elapsed_seconds / all, p.label, "tuning", p.left_seconds});
  });
  return results.status();
}

Result<ExitCode> run_on_gpu(const BenchOptions& options, ContextImpl& context, PeerSet peers, const Suite& suite,
                            const std::string& path) {
  const double seconds = options.seconds > 0 ? options.seconds : 0.3;
  const GpuBenchOptions own{.recipe = options.recipe,
                            .seconds = seconds,
                            .limit_seconds = options.suite.empty() ? std::clamp(10 * seconds, 0.2, 3.0) : 3,
                            .budget = options.budget,
                            .vendor = options.peer != "none",
                            .untuned = options.untuned};
  if (options.tune_first > 0) {
    if (Status s = tune_first(options, context, suite.problems); !s) return s;
  }
  GpuBench bench(own, context, std::move(peers));
  const auto write = [&]() -> Status {
    return path.empty() ? Status() : write_file(path, bench_csv_table(bench.rows()).to_csv());
  };
  if (Status s = bench.run(suite.problems, write); !s) return s;
  Document document("bench");
  print_rows(options, bench.rows(), path, document);
  std::vector<SkippedProblem> skipped = suite.skipped;
  skipped.insert(skipped.end(), bench.skipped().begin(), bench.skipped().end());
  if (!skipped.empty() && !options.output.csv) document.add(skipped_rows_table(skipped));
  if (!options.output.csv) {
    Table limits = limit_table();
    add_limits(context.device().spec(), bench.limits(), limits);
    document.add(std::move(limits));
  }
  if (!options.report.empty()) {
    const ReportData report = bench_report(context.device().spec(), bench.limits(), bench.rows(), skipped);
    if (Status s = write_report(report, options.report); !s) return s;
    document.fact("report", options.report, "report: " + options.report);
  }
  document.print(options.output);
  return bench.failures() > 0 ? ExitCode::kCheckFailed : ExitCode::kOk;
}

Result<ExitCode> run_bench(const BenchOptions& options) {
  const Result<DeviceId> id = parse_device_argument(options.device);
  if (!id) return id.status();
  Result<Suite> suite = wanted_problems(options, id->kind);
  if (!suite) return suite.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(0, options.device);
  if (!context) return context.status();
  Result<PeerSet> peers = PeerSet::make(options.peer, *id, PeerScope::kAll);
  if (!peers) return peers.status();
  Result<std::string> path = out_path(options, id->kind);
  if (!path) return path.status();
  if (id->kind != DeviceKind::kCpu) return run_on_gpu(options, **context, std::move(*peers), *suite, *path);

  Bench bench(options, **context, std::move(*peers));
  // Written after each row: what an interrupted run measured is not lost.
  const auto write = [&]() -> Status {
    return path->empty() ? Status() : write_file(*path, bench_csv_table(bench.rows()).to_csv());
  };
  if (Status s = bench.run(suite->problems, write); !s) return s;
  Document document("bench");
  print_rows(options, bench.rows(), *path, document);
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_bench_command(CLI::App& program, Invocation& invocation) {
  add_command<BenchOptions>(
      program, invocation,
      {"bench", "Time what the dispatcher chooses, against the limit and other libraries",
       "  tilewright bench --suite gemm                          writes build/bench/gemm.csv\n"
       "  tilewright bench --suite gemm --only decode,m=256 --seconds 6\n"
       "  tilewright bench --suite gemm --device cuda:0          on a GPU; writes build/bench/gemm-gpu.csv\n"
       "  tilewright bench --from-log calls.log --top 20         what a program called, replayed\n"
       "  tilewright bench --gemm 2048x2048x2048:f32 --threads 1 --peer onednn\n"
       "  tilewright bench --problem m=16:n=4096:k=4096:a=bf16:packed=1 --peer none --csv"},
      [](Arguments& arguments, BenchOptions& options) {
        std::vector<std::string> suites = suite_names();
        suites.emplace_back("all");
        arguments.choice("--suite", options.suite, suites, "a suite of problems");
        arguments.texts("--only", options.only, "TEXT",
                        "only problems whose regime, text or layer contains one of these",
                        /*commas=*/true);
        add_problem_arguments(arguments, options.problems);
        add_capture_arguments(arguments, options.capture);
        arguments.text("--recipe", options.recipe, "RECIPE", "time this recipe instead of the dispatcher's choice");
        arguments.text("--out", options.out, "FILE",
                       "write the rows to this CSV file (suites: build/bench/<suite>.csv)");
        arguments.number_above(0, "--seconds", options.seconds,
                               "time for each problem, shared by all sides (3; on a GPU 0.3)");
        arguments.text("--report", options.report, "FILE", "on a GPU: write an HTML report to this file");
        arguments.number_above(0, "--tune-first", options.tune_first,
                               "on a GPU: seconds to tune the problems in, before they are timed");
        arguments.number_above(
            0, "--budget", options.budget,
            "on a GPU: seconds for all rows; those that it has no time for are listed as not measured");
        arguments.flag("--untuned", options.untuned, "on a GPU: time also what would run without tuned rows");
        add_threads_argument(arguments, options.threads);
        add_device_argument(arguments, options.device);
        add_peer_argument(arguments, options.peer, PeerScope::kAll);
        add_output_arguments(arguments, options.output);
      },
      run_bench);
}

}  // namespace tilewright::cli
