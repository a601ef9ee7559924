// SPDX-License-Identifier: MIT
// tilewright prebuild: compiles what will be needed, on all cores, into the code cache or into packs.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "command.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/cache/code_pack.hpp"
#include "jit/system/files.hpp"
#include "output/numbers.hpp"
#include "output/progress_bar.hpp"
#include "problems/model_layers.hpp"
#include "problems/profile_problems.hpp"
#include "results/recipe_text.hpp"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

struct PrebuildOptions {
  ModelArguments models;
  ProblemArguments problems;
  std::string profile = "none", out;
  std::vector<std::string> targets, tables;
  int candidates = 1, jobs = 0;
  bool tuned = false;
  OutputOptions output;
};

struct Job {
  CompileRequest request;
  bool built = false;  // before this run
  Status status;
  double seconds = 0;
  PackedCode packed;  // with --out
};

// An instance that a call may need, for one of the targets.
class Prebuild {
 public:
  Prebuild(ContextImpl& context, bool keep_code) : context_(context), keep_code_(keep_code) {
    // Linked into every library of this build: a pack need not carry them.
    for (const BuiltinInstance& builtin : builtin_instances()) linked_.insert(builtin.key);
  }

  // The first `candidates` choices for the problem; every choice when it is 0.
  Status add_problem(const NamedProblem& problem, const DeviceSpec& device, int candidates) {
    Result<std::vector<Choice>> choices =
        context_.dispatcher().choices(*problem.op, problem.ref(), device, *context_.tables(), "", nullptr);
    if (!choices) return choices.status();
    for (size_t i = 0; i < choices->size() && (candidates == 0 || i < static_cast<size_t>(candidates)); ++i) {
      if (Status s = add_recipe(*problem.op, (*choices)[i].recipe); !s) return s;
    }
    return {};
  }

  // A tuned row's recipe, when its code runs on the target; what no longer parses is left out.
  Status add_row(const TunedRow& row, const std::string& target) {
    const Operator* op = context_.find_op(row.op);
    if (op == nullptr || !runs_on(row.target, target)) return {};
    Result<Recipe> recipe = parse_recipe(op->families(), row.recipe);
    return recipe ? add_recipe(*op, *recipe) : Status();
  }

  void build(int jobs) {
    std::vector<Job*> todo;
    for (auto& [text, job] : jobs_) todo.push_back(&job);
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    size_t done = 0;
    ProgressBar bar;
    const auto start = std::chrono::steady_clock::now();
    auto seconds = [](auto since) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    };
    auto work = [&] {
      for (size_t i = next++; i < todo.size(); i = next++) {
        Job& job = *todo[i];
        const auto begun = std::chrono::steady_clock::now();
        job.status = build_one(job);
        job.seconds = seconds(begun);
        std::lock_guard lock(mutex);
        const double fraction = static_cast<double>(++done) / static_cast<double>(todo.size());
        bar.update({fraction, fmt::format("{} of {} kernels", done, todo.size()), job.request.name,
                    seconds_left(seconds(start), fraction)});
      }
    };
    const int cores = context_.spec(0).units;
    std::vector<std::thread> threads;
    for (int i = 1; i < std::min<int>(jobs > 0 ? jobs : cores, static_cast<int>(todo.size())); ++i)
      threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

  const std::map<std::string, Job>& jobs() const { return jobs_; }

 private:
  Status add_recipe(const Operator& op, const Recipe& recipe) {
    for (const RecipeStep& step : recipe.steps) {
      if (jobs_.contains(step.key.text) || linked_.contains(step.key.text)) continue;
      const KernelFamily* family = find_family(op.families(), step.key.family);
      if (family == nullptr || family->backend() == Backend::kVendor) continue;
      Result<CompileRequest> request = family->source(step.key);
      if (!request) return request.status();
      Job job;
      job.built = context_.cache().has(*request, compiler_for(request->target));
      job.request = std::move(*request);
      jobs_.emplace(step.key.text, std::move(job));
    }
    return {};
  }

  Status build_one(Job& job) {
    Compiler& compiler = compiler_for(job.request.target);
    Result<Artifact> artifact = context_.cache().get(job.request, compiler);
    if (!artifact || !keep_code_) return artifact.status();
    Result<Digest> content = CodeCache::content_digest(job.request, compiler);
    if (!content) return content.status();
    PackEntry& entry = job.packed.entry;
    entry.content = *content;
    entry.name = job.request.name;
    entry.target = artifact->target;
    entry.entry = artifact->entry;
    entry.kind = artifact->kind;
    entry.compiler = "taken from another pack";
    if (!artifact->path.empty()) {
      // What is in the cache may be an earlier compiler's.
      Result<CacheEntryData> stored = read_entry(fs::path(artifact->path).parent_path().string());
      entry.compiler = stored.ok() ? stored->compiler : compiler.identity();
    }
    if (!artifact->image.empty()) {
      job.packed.code.assign(reinterpret_cast<const char*>(artifact->image.data()), artifact->image.size());
      return {};
    }
    Result<std::string> code = read_file(artifact->path);
    if (!code) return code.status();
    job.packed.code = std::move(*code);
    return {};
  }

  ContextImpl& context_;
  const bool keep_code_;
  std::set<std::string, std::less<>> linked_;
  std::map<std::string, Job> jobs_;  // by key text
};

// --table: rows of CSV files.
Result<std::vector<TunedRow>> read_tables(const std::vector<std::string>& paths) {
  std::vector<TunedRow> rows;
  for (const std::string& path : paths) {
    Result<std::string> text = read_file(path);
    if (!text) return text.status();
    std::vector<std::string> problems;
    for (TunedRow& row : parse_tuned_csv(*text, path, problems)) rows.push_back(std::move(row));
    for (const std::string& problem : problems) note(problem);
  }
  return rows;
}

Status collect(const PrebuildOptions& options, const std::vector<std::string>& targets, ContextImpl& context,
               Prebuild& prebuild) {
  Result<std::vector<NamedProblem>> problems = parse_problems(options.problems);
  if (!problems) return problems.status();
  if (!options.models.empty()) {
    std::vector<std::string> notes;
    Result<std::vector<NamedProblem>> layers = model_problems(options.models, notes);
    if (!layers) return layers.status();
    for (const std::string& line : notes) note(line);
    problems->insert(problems->end(), layers->begin(), layers->end());
  }
  Result<Profile> profile = profile_problems(options.profile);
  if (!profile) return profile.status();
  Result<std::vector<TunedRow>> rows = read_tables(options.tables);
  if (!rows) return rows.status();
  if (problems->empty() && profile->problems.empty() && !options.tuned && options.tables.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "nothing to build: give --profile NAME, --model NAME, --shapes FILE, --problem TEXT, --gemm MxNxK, "
                  "--table FILE or --tuned");
  }
  const DeviceSpec here = context.spec(0);
  for (const std::string& target : targets) {
    Result<std::vector<DeviceSpec>> devices = devices_of_target(target, here);
    if (!devices) return devices.status();
    for (const DeviceSpec& device : *devices) {
      for (const NamedProblem& problem : *problems) {
        if (Status s = prebuild.add_problem(problem, device, options.candidates); !s) return s;
      }
      for (const NamedProblem& problem : profile->problems) {
        if (Status s = prebuild.add_problem(problem, device, profile->every_candidate ? 0 : 1); !s) return s;
      }
      // What a call of this very machine needs is known exactly.
      if (options.profile == "none" && target == here.arch->target) break;
    }
    for (const TunedRow& row : *rows) {
      if (Status s = prebuild.add_row(row, target); !s) return s;
    }
    if (!options.tuned) continue;
    for (const TunedRow* row : context.tables()->rows()) {
      if (target == here.arch->target && row->part != here.part) continue;
      if (Status s = prebuild.add_row(*row, target); !s) return s;
    }
  }
  return {};
}

// One file, or one a target when `out` is a folder.
Status write_packs(const std::string& out, const Prebuild& prebuild, Document& document) {
  std::map<std::string, std::vector<PackedCode>> files;
  std::error_code error;
  const bool folder = out.ends_with('/') || fs::is_directory(out, error);
  if (folder) {
    if (Status s = make_folders(fs::path(out).lexically_normal().string()); !s) return s;
  }
  for (const auto& [text, job] : prebuild.jobs()) {
    const std::string& target = job.packed.entry.target;
    files[folder ? (fs::path(out) / (target + std::string(kPackSuffix))).string() : out].push_back(job.packed);
  }
  Table table("packs", {{"path", "pack"}, {"entries", "kernels", Align::kRight}, {"bytes", "size", Align::kRight}});
  for (auto& [path, entries] : files) {
    const auto count = static_cast<int64_t>(entries.size());
    if (Status s = write_pack(path, std::move(entries)); !s) return s;
    // What was written is what will be read.
    Result<CodePack> pack = CodePack::open(path, 0);
    if (!pack) return pack.status();
    for (const PackEntry& entry : pack->entries()) {
      if (Result<std::vector<std::byte>> code = pack->read(entry); !code) return code.status();
    }
    table.add({text_cell(path), count_cell(count, fmt::format("{}", count)),
               count_cell(pack->file_bytes(), print_bytes(pack->file_bytes()))});
  }
  document.add(std::move(table));
  return {};
}

Result<ExitCode> run_prebuild(const PrebuildOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  // A command that compiles waits for it.
  if ((*context)->cache().mode() == JitMode::kBackground) (*context)->cache().set_mode(JitMode::kOn);
  std::vector<std::string> targets = options.targets;
  if (targets.empty()) targets.emplace_back((*context)->spec(0).arch->target);
  Prebuild prebuild(**context, !options.out.empty());
  if (Status s = collect(options, targets, **context, prebuild); !s) return s;
  prebuild.build(options.jobs);

  Table table("kernels",
              {{"key", "kernel"}, {"state", "state"}, {"seconds", "seconds", Align::kRight}, {"error", "why"}});
  int compiled = 0, failed = 0, there = 0;
  Status first_failure;
  for (const auto& [text, job] : prebuild.jobs()) {
    const bool ok = job.status.ok();
    (!ok ? failed : job.built ? there : compiled) += 1;
    if (!ok && first_failure.ok()) first_failure = job.status;
    table.add({text_cell(text),
               !ok         ? text_cell("failed", Tone::kBad)
               : job.built ? text_cell("was built")
                           : text_cell("compiled", Tone::kGood),
               job.built ? absent() : number_cell(job.seconds, fmt::format("{:.2f}", job.seconds)),
               text_cell(ok ? "" : job.status.message().substr(0, job.status.message().find('\n')))});
  }
  Document document("prebuild");
  document.add(std::move(table));
  document.fact("compiled", int64_t{compiled},
                fmt::format("{} compiled, {} were built, {} failed", compiled, there, failed));
  document.fact("was_built", int64_t{there}, "");
  document.fact("failed", int64_t{failed}, "");
  // Half a pack would ship unnoticed.
  if (!options.out.empty() && failed == 0) {
    if (Status s = write_packs(options.out, prebuild, document); !s) return s;
  }
  document.print(options.output);
  // A compiler that is not there is the environment's fault, not a name that the user got wrong.
  if (first_failure.code() == StatusCode::kNotFound) return Status(StatusCode::kCompileFailed, first_failure.message());
  if (!first_failure.ok()) return first_failure;
  return ExitCode::kOk;
}

}  // namespace

void add_prebuild_command(CLI::App& program, Invocation& invocation) {
  add_command<PrebuildOptions>(
      program, invocation,
      {"prebuild", "Compile the kernels of a model or a profile, into the code cache or into packs",
       "  tilewright prebuild --model llama-3.1-8b --tokens 1,16,128\n"
       "  tilewright prebuild --tuned                            every tuned row of this device\n"
       "  tilewright prebuild --gemm 16x4096x4096:bf16 --candidates 0    every candidate\n"
       "  tilewright prebuild --profile inference --target x86-64-v3,x86-64-v4-amx --out packs/"},
      [](Arguments& arguments, PrebuildOptions& options) {
        add_model_arguments(arguments, options.models);
        add_problem_arguments(arguments, options.problems);
        arguments.choice("--profile", options.profile, profile_names(),
                         "what a kind of work needs: none, inference (forward, decode and prefill), training (forward "
                         "and gradients), all (both, every candidate)");
        arguments.flag("--tuned", options.tuned, "what the tuned rows in effect name");
        arguments.texts("--table", options.tables, "FILE", "what the rows of a tuned CSV file name");
        arguments.texts("--target", options.targets, "NAME", "for these targets instead of this CPU's",
                        /*commas=*/true);
        arguments.text("--out", options.out, "PATH",
                       "write a pack: a file, or a folder (one pack a target); nothing is written when a kernel fails");
        arguments.integer("--candidates", options.candidates, 0, 100000,
                          "the best so many choices of each problem (1); 0 = all");
        arguments.integer("--jobs", options.jobs, 0, 1024, "compilers at a time; 0 = one a core");
        add_output_arguments(arguments, options.output);
      },
      run_prebuild);
}

}  // namespace tilewright::cli
