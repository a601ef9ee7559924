// SPDX-License-Identifier: MIT
// tilewright tune: finds the fastest verified kernel for each problem, stores it, and compares it with PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "command.hpp"
#include "output/numbers.hpp"
#include "output/progress_bar.hpp"
#include "peer/bursts.hpp"
#include "peer/peer_set.hpp"
#include "problems/captured/captured_shapes.hpp"
#include "problems/tune_problems.hpp"
#include "results/layer_record.hpp"
#include "results/limit_probe.hpp"
#include "results/result_table.hpp"
#include "tuning/report/report.hpp"
#include "tuning/report/roofline.hpp"
#include "tuning/tuner.hpp"

namespace tilewright::cli {
namespace {

struct TuneArguments {
  TuneProblems problems;
  CaptureArguments capture;
  std::string shard;
  bool dry_run = false;
  double budget = 120;
  int threads = 0;
  std::string report, table;
  std::string peer = "auto", device = "cpu";
  bool retune = false;
  OutputOptions output;
};

// How a budget is shared: what limits and peers take, the tuner does not get.
struct Shares {
  static constexpr int kLimitProbes = 3;
  double limit_seconds;  // each probe
  double peer_start_seconds = 0, peer_seconds = 0;

  Shares(double budget, size_t problems, bool peer) : limit_seconds(std::clamp(budget / 80, 0.1, 2.0)) {
    if (!peer) return;
    peer_start_seconds = 4;
    peer_seconds = std::clamp(0.15 * budget / static_cast<double>(problems), 0.1, 1.2);
  }
  double kept(size_t problems) const {
    return kLimitProbes * limit_seconds + peer_start_seconds + peer_seconds * static_cast<double>(problems);
  }
};

LayerRecord record_of(const NamedProblem& problem, const DeviceSpec& spec, const TuneResult& result) {
  LayerRecord record;
  record.op = problem.op->name(), record.problem = problem.text(), record.layer = problem.layer;
  record.part = spec.part, record.units = spec.units;
  record.recipe = result.row.recipe, record.untuned_recipe = result.untuned_recipe;
  record.us = result.row.us, record.spread = result.row.spread;
  record.untuned_us = result.untuned_us > 0 ? result.untuned_us : result.row.untuned_us;
  record.gflops = result.row.gflops, record.rel_error = result.row.rel_error;
  record.samples = result.row.samples;
  record.library = result.row.library, record.compiler = result.row.compiler, record.date = result.row.date;
  return record;
}

// "cuda" and "hip" are every GPU like the first one; a number is that one alone.
std::vector<DeviceId> tuned_devices(const std::string& device, const DeviceSpec& first) {
  std::vector<DeviceId> devices;
  if (device != "cuda" && device != "hip") return devices;
  const Result<int> count = device_count(first.id.kind);
  for (int i = 0; i < (count ? *count : 0); ++i) {
    const Result<std::unique_ptr<Device>> opened = make_device({first.id.kind, i});
    if (opened && (*opened)->spec().part == first.part && (*opened)->spec().units == first.units)
      devices.push_back((*opened)->spec().id);
  }
  return devices;
}

// A session of `tilewright tune`, step by step.
class Session {
 public:
  Session(const TuneArguments& arguments, ContextImpl& context, PeerSet peers, std::vector<NamedProblem> problems,
          CapturedShapes captured)
      : arguments_(arguments),
        captured_(std::move(captured)),
        context_(context),
        peers_(std::move(peers)),
        problems_(std::move(problems)),
        spec_(context.spec(arguments.threads)),
        store_(spec_.arch->target),
        shares_(arguments.budget, problems_.size(), !peers_.empty()),
        limits_(context.device()) {}

  Result<ExitCode> run() {
    show_states();
    if (arguments_.dry_run) return dry_run();
    note_warm_weights(problems_, spec_, peers_.empty() ? 1 : 2);
    if (Status s = tune_all(); !s) return s;
    collect();
    compare();
    for (const LayerRecord& record : records_) store_.put(record);
    if (Status s = store_.save(); !s) note(s.message());
    return finish();
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<TuneTask> tasks() const {
    std::vector<TuneTask> tasks;
    for (const NamedProblem& problem : problems_) tasks.push_back({problem.op, problem.bytes, problem.label()});
    return tasks;
  }

  // "12 rows: 9 fresh, 2 stale (kernel sources changed), 1 new".
  void show_states() {
    TuneOptions options;
    options.units = arguments_.threads, options.retune = arguments_.retune, options.table = arguments_.table;
    states_ = task_states(context_, tasks(), options);
    std::map<std::string, int> reasons;
    for (const TaskState& state : states_) {
      if (state.kind == TaskState::Kind::kStale) ++reasons[state.reason];
    }
    std::string why;
    for (const auto& [reason, rows] : reasons) why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", reason, rows);
    note(fmt::format("{} rows: {} fresh, {} stale{}, {} new", states_.size(), count(TaskState::Kind::kFresh),
                     count(TaskState::Kind::kStale), why.empty() ? "" : " (" + why + ")",
                     count(TaskState::Kind::kNew)));
  }
  int64_t count(TaskState::Kind kind) const {
    return std::count_if(states_.begin(), states_.end(), [kind](const TaskState& s) { return s.kind == kind; });
  }

  // What was found out before anything is measured: the states, captured shapes, what was not taken.
  void add_plan(Document& document) {
    if (captured_.calls.size() > 0) document.add(std::move(captured_.calls));
    if (!captured_.skipped.empty()) document.add(skipped_table(captured_.skipped));
    document.fact("fresh", count(TaskState::Kind::kFresh), "");
    document.fact("stale", count(TaskState::Kind::kStale), "");
    document.fact("new", count(TaskState::Kind::kNew), "");
    add_quarantine_fact(QuarantineList(quarantine_path(spec_.arch->target), context_, FileAccess::kRead), document);
  }

  Result<ExitCode> dry_run() {
    constexpr const char* kNames[] = {"new", "stale", "fresh"};
    Table table("rows", {{"layer", "layer"}, {"problem", "problem"}, {"state", "state"}, {"reason", "because"}});
    for (size_t i = 0; i < problems_.size(); ++i) {
      const TaskState& state = states_[i];
      table.add({text_cell(problems_[i].label()), text_cell(problems_[i].text()),
                 text_cell(kNames[static_cast<int>(state.kind)],
                           state.kind == TaskState::Kind::kFresh ? Tone::kGood : Tone::kPlain),
                 state.reason.empty() ? absent() : text_cell(state.reason)});
    }
    Document document("tune");
    document.add(std::move(table));
    add_plan(document);
    document.print(arguments_.output);
    return ExitCode::kOk;
  }

  Status tune_all() {
    TuneOptions options;
    const double kept = shares_.kept(problems_.size());
    options.budget_seconds = std::max(arguments_.budget / 2, arguments_.budget - kept);
    options.units = arguments_.threads;
    options.retune = arguments_.retune;
    options.devices = tuned_devices(arguments_.device, spec_);
    options.costs = &costs_;
    options.table = arguments_.table;
    if (nothing_known()) probe("limits of the device", options.budget_seconds + kept);
    Result<std::vector<TuneResult>> results = tune(context_, tasks(), options, [&](const TuneProgress& p) {
      std::string best;
      if (p.best_us > 0)
        best = fmt::format("best {} us, {} GFLOP/s", print_significant(p.best_us, 4), print_significant(p.best_gflops));
      show(p.label, best, p.left_seconds + kept);
    });
    if (!results) return results.status();
    results_ = std::move(*results);
    return {};
  }

  // "61 kernels compiled, 1.2 s each, 8.3 s before the first measurement; 640 candidates verified and timed, 0.21 s each".
  void add_costs(Document& document) const {
    const auto each = [](double seconds, int count) { return count > 0 ? seconds / count : 0; };
    document.fact("compiled", int64_t{costs_.compiled}, "");
    document.fact("compile_seconds_each", each(costs_.compile_seconds, costs_.compiled), "");
    document.fact("compile_ahead_seconds", costs_.ahead_seconds, "");
    document.fact("measured", int64_t{costs_.measured}, "");
    const double measure_each = each(costs_.measure_seconds, costs_.measured);
    std::string line;
    if (costs_.measured > 0) {
      line = fmt::format(
          "{} kernels compiled, {:.2g} s each, {:.2g} s before the first measurement; {} candidates "
          "verified and timed, {:.2g} s each",
          costs_.compiled, each(costs_.compile_seconds, costs_.compiled), costs_.ahead_seconds, costs_.measured,
          measure_each);
    }
    document.fact("measure_seconds_each", measure_each, line);
  }

  void show(const std::string& label, const std::string& detail, double left) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    bar_.update({elapsed / std::max(1e-3, elapsed + left), label, detail, left});
  }

  // Results become records; what an earlier run measured of the same row is taken over.
  void collect() {
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!results_[i].status.ok()) continue;
      LayerRecord record = record_of(problems_[i], spec_, results_[i]);
      const LayerRecord* old = store_.find(record.op, record.problem, record.part, record.units);
      const bool same =
          old != nullptr && results_[i].resumed && old->recipe == record.recipe && old->date == record.date;
      if (same) {
        record.limit_fraction = old->limit_fraction;
        record.peer = old->peer, record.peer_us = old->peer_us;
        record.ratio = old->ratio, record.ratio_low = old->ratio_low, record.ratio_high = old->ratio_high;
      }
      // A peer of another version says nothing about this one; without one the old comparison stands.
      if (!peers_.empty() && record.peer != peers_.name()) stale_peers_.push_back(records_.size());
      if (record.limit_fraction <= 0) stale_limits_.push_back(records_.size());
      record_problems_.push_back(i);
      records_.push_back(std::move(record));
    }
  }

  // Peers, and the limits around them: probed before, between and after, so that they saw the machine that the rows saw.
  void compare() {
    if (!stale_limits_.empty())
      probe("limits of the device", shares_.peer_seconds * static_cast<double>(stale_peers_.size()));
    for (size_t done = 0; done < stale_peers_.size() && !peers_.empty(); ++done) {
      LayerRecord& record = records_[stale_peers_[done]];
      const NamedProblem& problem = problems_[record_problems_[stale_peers_[done]]];
      show(problem.label(), "against " + peers_.name(),
           shares_.limit_seconds + shares_.peer_seconds * static_cast<double>(stale_peers_.size() - done));
      if (Status s = measure_peer(problem, record); !s) {
        bar_.finish();
        note(fmt::format("{}: {}", problem.label(), s.message()));
      }
    }
    if (!stale_limits_.empty()) {
      probe("limits of the device", 0);
      store_.put_limits(spec_.part, spec_.units, limits_.limits());
    }
    for (const size_t i : stale_limits_) {
      LayerRecord& record = records_[i];
      const NamedProblem& problem = problems_[record_problems_[i]];
      const Roof roof = roof_of(context_.device().spec(), limits_.limits(), *problem.op, problem.ref(), spec_.units);
      record.limit_fraction =
          roof.fraction(problem.op->operations(problem.ref()), problem.op->bytes_moved(problem.ref()), record.us);
    }
    bar_.finish();
  }

  void probe(const char* label, double left_after) {
    show(label, "", shares_.limit_seconds + left_after);
    limits_.measure(shares_.limit_seconds);
  }

  // A run that resumes every row measures nothing.
  bool nothing_known() const {
    return arguments_.retune || std::any_of(problems_.begin(), problems_.end(), [this](const NamedProblem& problem) {
             const LayerRecord* record =
                 store_.find(std::string(problem.op->name()), problem.text(), spec_.part, spec_.units);
             return record == nullptr || record->limit_fraction <= 0;
           });
  }

  Status measure_peer(const NamedProblem& problem, LayerRecord& record) {
    PeerRequest request;
    if (!peer_request(*problem.op, problem.ref(), request)) return {};  // another function: "-"
    const std::vector<Peer*> serving = peers_.serving(request);
    if (serving.empty()) return {};
    Peer& peer = *serving.front();
    request.threads = spec_.units;
    request.rotations = rotations_for(*problem.op, problem.ref(), spec_, /*sides=*/2).copies;
    Result<Recipe> recipe = parse_recipe(problem.op->families(), record.recipe);
    if (!recipe) return recipe.status();
    Result<std::shared_ptr<const Plan>> plan =
        context_.dispatcher().bind(*problem.op, problem.ref(), spec_, *recipe, ChoiceSource::kTuned, true);
    if (!plan) return plan.status();
    Result<std::unique_ptr<ProblemInstance>> instance =
        problem.op->instantiate(problem.ref(), context_.device(),
                                {.rotations = request.rotations, .device_data = context_.device_data(), .usual = true});
    if (!instance) return instance.status();
    (*instance)->fill(1, InputData::kNormal);
    const BurstSide sides[] = {plan_side(context_.device(), **plan, **instance), peer_side(peer, request)};
    Result<std::vector<Timing>> timings = measure_bursts(sides, shares_.peer_seconds);
    if (!timings) return timings.status();
    const PairedRatio ratio = paired_ratio((*timings)[1], (*timings)[0]);
    record.peer = peer.name(), record.peer_us = (*timings)[1].us;
    record.ratio = ratio.ratio, record.ratio_low = ratio.low, record.ratio_high = ratio.high;
    return {};
  }

  Result<ExitCode> finish() {
    Document document("tune");
    document.add(result_table(context_, records_));
    add_summary(summarise(records_), document);
    add_costs(document);
    add_plan(document);
    Table failures("failures", {{"layer", "no row for"}, {"problem", ""}, {"reason", "because"}});
    for (size_t i = 0; i < results_.size(); ++i) {
      const Status& status = results_[i].status;
      if (status.ok()) continue;
      failures.add({text_cell(problems_[i].label()), text_cell(problems_[i].text()), text_cell(status.message())});
    }
    const bool failed = failures.size() > 0;
    if (failed) document.add(std::move(failures));
    std::vector<std::string> tables;
    for (const NamedProblem& problem : problems_) {
      std::string path =
          arguments_.table.empty() ? user_tuned_path(spec_.arch->target, problem.op->name()) : arguments_.table;
      if (std::find(tables.begin(), tables.end(), path) == tables.end()) tables.push_back(std::move(path));
    }
    document.fact("tables", tables, tables.empty() ? "" : "rows stored in " + join(tables));
    if (!arguments_.report.empty()) {
      if (Status s = write_html(); !s) return s;
      std::error_code error;
      const std::string path = std::filesystem::absolute(arguments_.report, error).string();
      document.fact("report", path, "report: " + path);
    }
    document.print(arguments_.output);
    return failed ? ExitCode::kCheckFailed : ExitCode::kOk;
  }

  Status write_html() {
    // A resumed run draws the roofs that its rows were measured under.
    const DeviceLimits& limits = stale_limits_.empty() ? store_.limits(spec_.part, spec_.units) : limits_.limits();
    ReportData report = report_data(context_, results_, limits, spec_.units);
    report.title =
        arguments_.problems.models.models.empty() ? "Tuning report" : join(arguments_.problems.models.models);
    add_records(records_, report);
    add_quarantine(QuarantineList(quarantine_path(spec_.arch->target), context_, FileAccess::kRead), report);
    return write_report(report, arguments_.report);
  }

  const TuneArguments& arguments_;
  CapturedShapes captured_;
  ContextImpl& context_;
  PeerSet peers_;
  std::vector<NamedProblem> problems_;
  const DeviceSpec spec_;
  RecordStore store_;
  const Shares shares_;
  ProgressBar bar_;
  const Clock::time_point start_ = Clock::now();
  std::vector<TaskState> states_;
  std::vector<TuneResult> results_;
  std::vector<LayerRecord> records_;
  std::vector<size_t> record_problems_;             // record -> problem
  std::vector<size_t> stale_limits_, stale_peers_;  // records that lack them
  LimitProbe limits_;
  TuneCosts costs_;
};

Result<ExitCode> run_tune(const TuneArguments& arguments) {
  const Result<DeviceId> id = parse_device_argument(arguments.device);
  if (!id) return id.status();
  Result<CapturedShapes> captured = captured_problems(arguments.capture);
  if (!captured) return captured.status();
  Result<std::vector<NamedProblem>> problems = problems_to_tune(arguments.problems, id->kind, captured->problems);
  if (!problems) return problems.status();
  if (problems->empty()) {
    if (!captured->skipped.empty()) {
      const SkippedShapes& first = captured->skipped.front();
      return Status(StatusCode::kUnsupported,
                    fmt::format("nothing to tune: {} rows of {}: {}", first.rows, first.source, first.reason));
    }
    return Status(StatusCode::kInvalidArgument,
                  "nothing to tune: give --model NAME, --shapes FILE, --suite NAME, --problem TEXT, --gemm MxNxK, "
                  "--from-log FILE or --from-aiter FILE");
  }
  if (!arguments.shard.empty()) {
    const Result<Shard> shard = parse_shard(arguments.shard);
    if (!shard) return shard.status();
    const size_t all = problems->size();
    std::erase_if(*problems, [&shard](const NamedProblem& problem) { return !in_shard(problem, *shard); });
    note(fmt::format("shard {} has {} of {} problems", arguments.shard, problems->size(), all));
  }
  Result<std::unique_ptr<ContextImpl>> context = open_context(0, arguments.device);
  if (!context) return context.status();
  if ((*context)->device().spec().emulated && arguments.table.empty()) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("argument '--table' is missing: {} is emulated, and its times are not those of a {}; rows of "
                    "them belong in a table of their own",
                    to_string(*id), (*context)->device().spec().part));
  }
  Result<PeerSet> peers = PeerSet::make(arguments.peer, (*context)->device().spec().id, PeerScope::kTorch);
  if (!peers) return peers.status();
  return Session(arguments, **context, std::move(*peers), std::move(*problems), std::move(*captured)).run();
}

}  // namespace

void add_tune_command(CLI::App& program, Invocation& invocation) {
  add_command<TuneArguments>(
      program, invocation,
      {"tune", "Find and store the fastest kernel for each problem",
       "  tilewright tune --model llama-3.1-8b --tokens 1,16,128 --budget 120 --report report.html\n"
       "  tilewright tune --model llama-3.1-8b --layer attn_o,mlp_down --tokens 1 --threads 1\n"
       "  tilewright tune --model llama-3.1-8b --device cuda               on every GPU like the first one\n"
       "  tilewright tune --shapes my_layers.csv --dtype i8 --peer none\n"
       "  tilewright tune --gemm 16x4096x4096:bf16:packed --retune\n"
       "  TILEWRIGHT_LOG=info:calls.log python serve.py; tilewright tune --from-log calls.log --top 50\n"
       "  tilewright tune --from-aiter bf16_untuned_gemm.csv --dry-run\n"
       "  tilewright tune --model llama-3.1-8b --shard 2/8           the second of eight jobs"},
      [](Arguments& arguments, TuneArguments& a) {
        add_tune_problems_arguments(arguments, a.problems);
        add_capture_arguments(arguments, a.capture);
        arguments.text("--table", a.table, "FILE", "store the rows in this table instead of the user's");
        arguments.text("--shard", a.shard, "i/n",
                       "only the i-th of n parts of the problems, as every machine splits them");
        arguments.flag("--dry-run", a.dry_run, "only tell which rows are fresh, stale or new, and why");
        arguments.number_above(0, "--budget", a.budget, "seconds for everything (120)");
        add_threads_argument(arguments, a.threads);
        add_device_argument(arguments, a.device);
        arguments.text("--report", a.report, "FILE", "write an HTML report to this file");
        arguments.flag("--retune", a.retune, "measure again what is known already");
        add_peer_argument(arguments, a.peer, PeerScope::kTorch);
        add_output_arguments(arguments, a.output);
      },
      run_tune);
}

}  // namespace tilewright::cli
