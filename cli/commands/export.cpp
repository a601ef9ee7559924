// SPDX-License-Identifier: MIT
// tilewright export: the plan of a call as files, for a GPU that need not be here.
#include <fmt/format.h>

#include <filesystem>

#include "command.hpp"
#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "export/plan_document.hpp"
#include "jit/system/files.hpp"
#include "ops/gemm/export/gemm_parts.hpp"
#include "output/numbers.hpp"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSize = int64_t{1} << 48;

struct PlanExportOptions {
  std::string arch, part, out, recipe;
  int64_t m = -1, n = -1, k = -1, batch = 1, split_k = 0;
  std::string dtype = "bf16", d_dtype, layout = "rcr", bias, act = "none", gate = "none";
  std::string scale_a = "none", scale_b = "none";
  bool untuned = false;
  ProblemArguments problems;
  OutputOptions output;
};

Status refuse_export(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

// The sizes and options as a problem's text: there is one parser.
std::string text_of_problem(const PlanExportOptions& o) {
  std::string text = fmt::format("m={}:n={}:k={}:batch={}:a={}:layout={}", o.m, o.n, o.k, o.batch, o.dtype, o.layout);
  const auto add = [&text](const char* name, const std::string& value) {
    if (!value.empty() && value != "none") text += fmt::format(":{}={}", name, value);
  };
  const auto scale = [](const std::string& kind) -> std::string {
    return kind == "none" ? "" : kind == "per-tensor" ? "f32.0.0.0" : "f32";
  };
  add("d", o.d_dtype);
  add("gate", o.gate);
  add("scale_a", scale(o.scale_a));
  add("scale_b", scale(o.scale_b));
  add("bias", o.bias);
  add("act", o.act);
  return text;
}

Result<NamedProblem> problem_of(const PlanExportOptions& options) {
  const bool sizes = options.m >= 0 || options.n >= 0 || options.k >= 0;
  if (options.problems.empty()) {
    if (options.m < 0 || options.n < 0 || options.k < 0) {
      return refuse_export("a problem is missing: --m, --n and --k, or --problem TEXT, or --gemm MxNxK[:dtype]");
    }
    return parse_problem_text(text_of_problem(options));
  }
  if (sizes) return refuse_export("--m, --n, --k and --problem or --gemm tell the problem twice; give one of them");
  Result<std::vector<NamedProblem>> problems = parse_problems(options.problems);
  if (!problems) return problems.status();
  if (problems->size() != 1)
    return refuse_export(fmt::format("{} problems are given; a plan is of one", problems->size()));
  if (problems->front().op->name() != "gemm") return refuse_export("--problem: a gemm is wanted");
  return std::move(problems->front());
}

Result<DeviceSpec> device_of(const PlanExportOptions& options) {
  if (options.arch.empty())
    return refuse_export("--arch is missing, e.g. --arch sm_90a; `tilewright arch` lists targets");
  Result<const ArchSpec*> arch = require_arch(options.arch);
  if (!arch) return arch.status();
  std::vector<std::string> parts;
  for (const PartSpec& part : (*arch)->parts) parts.emplace_back(part.name);
  if ((*arch)->vendor == ArchVendor::kX86 || parts.empty()) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("--arch '{}' is no GPU: kernels of CPUs are called, not launched; "
                              "allowed: targets of NVIDIA and AMD GPUs",
                              options.arch));
  }
  for (const PartSpec& part : (*arch)->parts) {
    if (options.part.empty() || options.part == part.name) return spec_of_part(**arch, part);
  }
  return Status(StatusCode::kNotFound,
                fmt::format("--part '{}' is unknown; allowed for {}: {}", options.part, options.arch, join(parts)));
}

// A tuned row that names a vendor's library stands before all others: what a machine with the library would run.
Status check_no_vendor(const NamedProblem& problem, const DeviceSpec& spec, const TunedTable& tables,
                       const std::string& recipe) {
  const auto families = problem.op->families();
  const auto vendor = [&](const std::string& text) {
    Result<Recipe> parsed = parse_recipe(families, text);
    return parsed && std::any_of(parsed->steps.begin(), parsed->steps.end(), [&](const RecipeStep& step) {
             return find_family(families, step.key.family)->backend() == Backend::kVendor;
           });
  };
  constexpr const char* kWhy = "which has no code to export";
  if (!recipe.empty()) {
    if (!vendor(recipe)) return {};
    return Status(StatusCode::kUnsupported, fmt::format("--recipe: the plan is a vendor's library, {}", kWhy));
  }
  ProblemSignature signature = problem.op->signature(problem.ref());
  const TunedRow* row = tables.find_exact(problem.op->name(), spec.arch->target, spec.part, spec.units, signature);
  if (row == nullptr) {
    row = tables.find_bucket(problem.op->name(), spec.arch->target, spec.part, spec.units, signature);
  }
  if (row == nullptr || !vendor(row->recipe)) return {};
  return Status(StatusCode::kUnsupported,
                fmt::format("the tuned row ({}) names a vendor's library, {}; {}", row->sizes, kWhy,
                            row->own_recipe.empty() ? "--untuned leaves tuned rows out"
                                                    : "our best rival of it: --recipe '" + row->own_recipe + "'"));
}

struct Chosen {
  Recipe recipe;
  ChoiceSource source;
};
Result<Chosen> choose(const PlanExportOptions& options, const NamedProblem& problem, const DeviceSpec& spec,
                      const TunedTable& tables, const Dispatcher& dispatcher) {
  Result<std::vector<Choice>> choices =
      dispatcher.choices(*problem.op, problem.ref(), spec, tables, options.recipe, nullptr);
  if (!choices) return choices.status();
  if (options.split_k == 0) return Chosen{choices->front().recipe, choices->front().source};
  Result<Recipe> recipe = choose_gemm_parts(problem_cast<GemmProblem>(problem.ref()), spec, problem.op->families(),
                                            *choices, options.split_k);
  if (!recipe) return recipe.status();
  return Chosen{std::move(*recipe), ChoiceSource::kForced};
}

// The code first: a plan.json that is there is whole.
Status write_files(const std::string& out, const ExportedPlan& exported) {
  if (Status s = make_folders(out); !s) return s;
  for (const ExportedCode& file : exported.files) {
    if (Status s = write_file((fs::path(out) / file.file).string(), file.code); !s) return s;
  }
  return write_file((fs::path(out) / "plan.json").string(), exported.text);
}

Result<ExitCode> run_export_gemm(const PlanExportOptions& options) {
  if (options.out.empty()) return refuse_export("--out is missing: the folder for plan.json and the code");
  if (!options.recipe.empty() && options.split_k != 0)
    return refuse_export("--recipe says how K is cut; leave out --split-k");
  Result<DeviceSpec> spec = device_of(options);
  if (!spec) return spec.status();
  Result<NamedProblem> problem = problem_of(options);
  if (!problem) return problem.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  // A command that compiles waits for it.
  if ((*context)->cache().mode() == JitMode::kBackground) (*context)->cache().set_mode(JitMode::kOn);

  const std::shared_ptr<const TunedTable> tuned = (*context)->tables();
  const TunedTable none;
  const TunedTable& tables = options.untuned ? none : *tuned;
  if (Status s = check_no_vendor(*problem, *spec, tables, options.recipe); !s) return s;
  const std::unique_ptr<Device> device = make_absent_device(*spec);
  Registry registry;
  Dispatcher dispatcher(*device, registry, (*context)->cache(), (*context)->counters());
  Result<Chosen> chosen = choose(options, *problem, *spec, tables, dispatcher);
  if (!chosen) return chosen.status();
  Result<std::shared_ptr<const Plan>> plan =
      dispatcher.bind(*problem->op, problem->ref(), *spec, chosen->recipe, chosen->source, /*allow_compile=*/true);
  // A compiler that is not there is the environment's fault, not a name that the user got wrong.
  if (plan.status().code() == StatusCode::kNotFound) return Status(StatusCode::kCompileFailed, plan.status().message());
  if (!plan) return plan.status();
  Result<ExportedPlan> exported = export_plan(*problem, *spec, **plan);
  if (!exported) return exported.status();
  if (Status s = write_files(options.out, *exported); !s) return s;

  Document document("export gemm");
  const std::string recipe = print_recipe(problem->op->families(), (*plan)->recipe);
  const auto stages = static_cast<int64_t>((*plan)->stages.size());
  document.fact("problem", problem->text(), fmt::format("problem    {}", problem->text()));
  document.fact("target", std::string(spec->arch->target),
                fmt::format("target     {}, {}", spec->arch->target, spec->part));
  document.fact("part", spec->part, "");
  document.fact("recipe", recipe, fmt::format("recipe     {}", recipe));
  document.fact("stages", stages,
                fmt::format("stages     {}, workspace {}", stages, print_bytes((*plan)->workspace_bytes)));
  document.fact("workspace_bytes", (*plan)->workspace_bytes, "");
  document.fact("plan", (fs::path(options.out) / "plan.json").string(),
                fmt::format("written    {}", (fs::path(options.out) / "plan.json").string()));
  document.print(options.output);
  return ExitCode::kOk;
}

void declare(Arguments& arguments, PlanExportOptions& options) {
  arguments.text("--arch", options.arch, "TARGET", "a GPU's target: sm_90a, gfx942 ... (`tilewright arch`)");
  arguments.text("--part", options.part, "NAME",
                 "whose units and tuned rows count: mi300x, h200 ... (the target's first)");
  arguments.text("--out", options.out, "DIR", "folder for plan.json and the code");
  arguments.group("The problem");
  arguments.integer("--m", options.m, 0, kMaxSize, "rows of A and D");
  arguments.integer("--n", options.n, 0, kMaxSize, "columns of B");
  arguments.integer("--k", options.k, 0, kMaxSize, "columns of A, rows of B");
  arguments.integer("--batch", options.batch, 0, kMaxSize, "products (1)");
  arguments.text("--dtype", options.dtype, "TYPE", "of A and B: bf16, f16, f32, i8, e4m3, e5m2, e4m3fnuz ... (bf16)");
  arguments.text("--d-dtype", options.d_dtype, "TYPE", "of D (that of A; bf16 for 8-bit types)");
  arguments.text("--layout", options.layout, "ABD",
                 "of A, B and D, r = rows contiguous, c = columns: rcr, rrr, crr, ccr (rcr)");
  arguments.text("--bias", options.bias, "TYPE", "add a bias for each column: f32, f16, bf16");
  arguments.text("--act", options.act, "NAME", "activation: relu, gelu, gelu_tanh, silu ... (none)");
  arguments.choice("--gate", options.gate, {"none", "separated", "interleaved"}, "gated pairs of columns");
  arguments.choice("--scale-a", options.scale_a, {"none", "per-tensor", "per-token"}, "f32 scales of A");
  arguments.choice("--scale-b", options.scale_b, {"none", "per-tensor", "per-channel"}, "f32 scales of B");
  arguments.texts("--problem", options.problems.texts, "TEXT",
                  "instead: the problem's text, with strides, C and steps");
  arguments.texts("--gemm", options.problems.gemms, "MxNxK[:dtype]", "instead: the problem in short");
  arguments.group("The plan");
  arguments.integer("--split-k", options.split_k, 0, 1 << 20,
                    "cut K in about so many parts; 1: in one; 0: as dispatch chooses (0)");
  arguments.text("--recipe", options.recipe, "RECIPE", "this one (text form)");
  arguments.flag("--untuned", options.untuned, "leave tuned rows out");
  arguments.group("");
  add_output_arguments(arguments, options.output);
}

}  // namespace

void add_export_command(CLI::App& program, Invocation& invocation) {
  CLI::App& group =
      add_command_group(program, {"export", "Write a call's plan as files: code, grids, arguments field by field",
                                  "  tilewright export gemm --arch sm_90a --m 4096 --n 4096 --k 4096 --out plan/"});
  add_command<PlanExportOptions>(
      group, invocation,
      {"gemm", "Write a gemm's plan for a GPU target, which need not be here",
       "  tilewright export gemm --arch sm_90a --m 4096 --n 4096 --k 4096 --dtype bf16 --layout rcr --out plan/\n"
       "  tilewright export gemm --arch sm_80 --m 64 --n 4096 --k 8192 --split-k 4 --out plan/\n"
       "  tilewright export gemm --arch sm_90a --part h200 --problem m=16:n=4096:k=4096:a=bf16:act=silu --out plan/"},
      declare, run_export_gemm);
}

}  // namespace tilewright::cli
