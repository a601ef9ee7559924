// SPDX-License-Identifier: MIT
// Where the time of a first call goes: a cold process that compiles one kernel, a warm one that finds it, and the parts of
// the compile. Wall time, and processor time of the process and of the compiler, which other work on the machine does not
// change.
//
//   first_call              one gemv and one gemm kernel of this CPU, three times each; the least is printed
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/system/files.hpp"
#include "jit/system/process.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

using namespace tilewright;  // NOLINT(google-build-using-namespace): a program of one file

namespace {

constexpr int kRepeats = 3;
constexpr const char* kProblems[][2] = {{"gemv_cpu", "m=2:n=1024:k=1024:a=bf16:packed=1"},
                                        {"gemm_cpu", "m=48:n=512:k=512:a=f32"}};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
double cpu_ms(int who) {
  rusage usage;
  getrusage(who, &usage);
  return 1e3 * static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-3 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

struct Cost {
  double wall = 0, own = 0, children = 0;  // ms
};
Cost now() { return {1e-6 * static_cast<double>(now_ns()), cpu_ms(RUSAGE_SELF), cpu_ms(RUSAGE_CHILDREN)}; }

template <class Body>
auto measured(const char* step, Body&& body) {
  const Cost begin = now();
  auto result = body();
  const Cost end = now();
  fmt::print("step,{},{:.3f},{:.3f},{:.3f}\n", step, end.wall - begin.wall, end.own - begin.own,
             end.children - begin.children);
  return result;
}

[[noreturn]] void fail(const Status& status) {
  fmt::print(stderr, "first_call: {}\n", status.to_string());
  std::exit(1);
}

// The best choice of the family that is not linked in; null when all are.
const Choice* first_unlinked(const std::vector<Choice>& choices, ContextImpl& context, const std::string& family) {
  for (const Choice& choice : choices) {
    const RecipeStep& step = choice.recipe.steps.front();
    RegistryEntry entry;
    const bool linked = context.registry().find(step.key.text, entry) && entry.builtin != nullptr;
    if (step.key.family == family && !linked) return &choice;
  }
  return nullptr;
}

// One process: everything up to the first result, step by step.
int run_child(const std::string& family, const std::string& text, int64_t started) {
  const auto arrived = static_cast<double>(now_ns() - started) * 1e-6;
  fmt::print("step,program starts,{:.3f},{:.3f},0\n", arrived, cpu_ms(RUSAGE_SELF));
  ContextOptions options;
  options.user_tables = false;
  options.jit = "on";
  auto context = measured("context", [&] { return Context::create(options); });
  if (!context) fail(context.status());
  ContextImpl& impl = (*context)->impl();
  const Operator& op = gemm_operator();
  Result<std::vector<std::byte>> problem = op.parse_problem(text);
  if (!problem) fail(problem.status());
  const Status compiler = measured("compiler found", [&] { return host_compiler().available(); });
  if (!compiler) fail(compiler);
  auto choices = measured(
      "choice", [&] { return impl.dispatcher().choices(op, *problem, impl.spec(0), *impl.tables(), "", nullptr); });
  if (!choices) fail(choices.status());
  const Choice* choice = first_unlinked(*choices, impl, family);
  if (choice == nullptr) return 77;
  const std::string recipe = print_recipe(op.families(), choice->recipe);
  for (const KernelFamily* each : op.families()) {
    if (each->name() != family) continue;
    Result<CompileRequest> request = each->source(choice->recipe.steps.front().key);
    if (!request) fail(request.status());
    auto artifact = measured("kernel compiled or found", [&] { return impl.cache().get(*request, host_compiler()); });
    if (!artifact) fail(artifact.status());
    auto again = measured("found again in memory", [&] { return impl.cache().get(*request, host_compiler()); });
    if (!again) fail(again.status());
    auto loaded = measured("kernel loaded", [&] { return impl.device().load(*artifact); });
    if (!loaded) fail(loaded.status());
  }
  auto instance = op.instantiate(*problem, impl.device(), {});
  if (!instance) fail(instance.status());
  (*instance)->fill(1, InputData::kNormal);
  const Status status =
      measured("plan and first result", [&] { return impl.run(op, *problem, (*instance)->bindings(), {}, recipe); });
  if (!status) fail(status);
  fmt::print("kernel,{}\n", choice->recipe.steps.front().key.text);
  return 0;
}

using Steps = std::vector<std::pair<std::string, Cost>>;

Steps run_process_once(const std::string& family, const std::string& text, std::string& kernel) {
  ProcessOptions options;
  options.argv = {"/proc/self/exe", "child", family, text, std::to_string(now_ns())};
  options.seconds = 300;
  Result<ProcessResult> run = run_process(options);
  if (!run) fail(run.status());
  if (run->exit_code == 77) return {};
  if (!run->ok()) {
    fmt::print(stderr, "{}", run->output);
    fail(Status(StatusCode::kInternal, run->describe()));
  }
  Steps steps;
  std::istringstream lines(run->output);
  Cost sum;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string kind, name, cell;
    std::getline(cells, kind, ',');
    std::getline(cells, name, ',');
    if (kind == "kernel") kernel = line.substr(7);
    if (kind != "step") continue;
    Cost cost;
    for (double* value : {&cost.wall, &cost.own, &cost.children}) {
      std::getline(cells, cell, ',');
      *value = std::atof(cell.c_str());
    }
    sum.wall += cost.wall, sum.own += cost.own, sum.children += cost.children;
    steps.emplace_back(name, cost);
  }
  steps.emplace_back("all", sum);
  return steps;
}

void print_steps(const char* title, const Steps& steps) {
  fmt::print("{:28} {:>9} {:>9} {:>9}   ms\n", title, "wall", "own cpu", "compiler");
  for (const auto& [name, c] : steps) {
    fmt::print("  {:26} {:9.2f} {:9.2f} {:9.2f}\n", name, c.wall, c.own, c.children);
  }
}

Steps least(const Steps& a, const Steps& b) { return a.empty() || b.back().second.wall < a.back().second.wall ? b : a; }

// The compile again, ended after each of its parts, by the command that the cache kept.
void print_compile_parts(const std::string& root) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
    if (file.path().filename() != "build.log") continue;
    const std::string folder = file.path().parent_path().string();
    Result<std::string> log = read_file(file.path().string());
    Result<std::string> source = read_file(folder + "/instance.cpp");
    if (!log || !source) continue;
    Result<std::string> scratch = make_unique_folder(root, "parts-");
    if (!scratch) fail(scratch.status());
    const ScopedFolder scoped(*scratch);
    auto headers = find_kernel_headers(*source);
    if (!headers) fail(headers.status());
    for (const auto& header : *headers) {
      const std::string path = scoped.path() + "/include/" + header->path;
      (void)make_folders(path.substr(0, path.rfind('/')));
      (void)write_file(path, header->text);
    }
    (void)write_file(scoped.path() + "/instance.cpp", *source);
    (void)write_file(scoped.path() + "/intrinsics.cpp", "#include <immintrin.h>\n");
    std::vector<std::string> common;
    for (std::string& word : split_words(log->substr(0, log->find('\n')))) {
      if (word == "-pipe" || word == "-shared") break;
      common.push_back(std::move(word));
    }
    common.insert(common.end(), {"-I", "include", "-DTILEWRIGHT_LINKED_SUPPORT"});
    const auto time = [&](std::vector<std::string> more) {
      double best = 1e9;
      for (int i = 0; i < kRepeats; ++i) {
        ProcessOptions options;
        options.argv = common;
        options.argv.insert(options.argv.end(), more.begin(), more.end());
        options.folder = scoped.path();
        const double before = cpu_ms(RUSAGE_CHILDREN);
        (void)run_process(options);
        best = std::min(best, cpu_ms(RUSAGE_CHILDREN) - before);
      }
      return best;
    };
    const double intrinsics = time({"-fsyntax-only", "intrinsics.cpp"});
    const double parsed = time({"-fsyntax-only", "instance.cpp"});
    const double assembly = time({"-S", "-o", "instance.s", "instance.cpp"});
    const double object = time({"-c", "-o", "instance.o", "instance.cpp"});
    fmt::print("{:28} {:>9}   ms of processor time\n", "the compile", "");
    fmt::print("  {:26} {:9.0f}\n", "<immintrin.h>", intrinsics);
    fmt::print("  {:26} {:9.0f}\n", "the rest of parsing", std::max(0.0, parsed - intrinsics));
    fmt::print("  {:26} {:9.0f}\n", "instances, optimising", assembly - parsed);
    fmt::print("  {:26} {:9.0f}\n", "assembling", std::max(0.0, object - assembly));
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "child") return run_child(argv[2], argv[3], std::atoll(argv[4]));
  std::error_code ignored;
  for (const auto& [family, text] : kProblems) {
    Steps cold, warm;
    std::string kernel, root;
    Result<std::string> scratch =
        make_unique_folder(std::filesystem::temp_directory_path(ignored).string(), "tilewright-first-call-");
    if (!scratch) fail(scratch.status());
    const ScopedFolder scoped(*scratch);
    for (int i = 0; i < kRepeats; ++i) {
      root = fmt::format("{}/cache{}", scoped.path(), i);
      setenv("TILEWRIGHT_CACHE_DIR", root.c_str(), 1);
      const Steps first = run_process_once(family, text, kernel);
      if (first.empty()) break;
      cold = least(cold, first);
      warm = least(warm, run_process_once(family, text, kernel));
    }
    if (cold.empty()) {
      fmt::print("{}: every kernel is linked in on this CPU\n", family);
      continue;
    }
    fmt::print("{}\n", kernel);
    print_steps("cold cache", cold);
    print_steps("warm cache", warm);
    print_compile_parts(root);
    fmt::print("\n");
  }
  return 0;
}
