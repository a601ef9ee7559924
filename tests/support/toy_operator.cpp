// SPDX-License-Identifier: MIT
#include "support/toy_operator.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "dispatch/problem_instance.hpp"
#include "support/child_program.hpp"
#include "tuning/tuner.hpp"

namespace tilewright::test {
namespace {

struct ToyArgs {
  const float* x;
  float* y;
  int64_t n;
};

// ---- Kernels ----------------------------------------------------------------------------------------------------

void compute(const ToyArgs& a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a.y[i] = 2 * a.x[i] + 1;
}

template <void (*kKernel)(const ToyArgs&)>
void entry(const void* args, uint32_t unit, uint32_t) {
  if (unit == 0) kKernel(*static_cast<const ToyArgs*>(args));
}

void plain(const ToyArgs& a) { compute(a, a.n); }
void slow(const ToyArgs& a) {
  for (int i = 0; i < 25; ++i) {
    compute(a, a.n);
    __asm__ volatile("" ::: "memory");
  }
}
void tail(const ToyArgs& a) {
  compute(a, std::max<int64_t>(a.n / 16 * 16, std::min<int64_t>(a.n, 1))), compute(a, a.n / 16 * 16);
}
void past_end(const ToyArgs& a) { compute(a, a.n), a.y[a.n] = 0; }
void skips(const ToyArgs& a) {
  const float kept = a.y[a.n / 2];
  compute(a, a.n);
  a.y[a.n / 2] = kept;
}
void nan_element(const ToyArgs& a) { compute(a, a.n), a.y[a.n - 1] = std::numeric_limits<float>::quiet_NaN(); }
void one_seed(const ToyArgs& a) {
  static const float first = a.x[0];
  compute(a, a.n);
  if (a.x[0] != first) a.y[0] += 1;
}
void hang(const ToyArgs&) {
  while (true) ::usleep(10000);
}
void crash(const ToyArgs&) {
  ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into an exit
  ::raise(SIGSEGV);
}
void memory(const ToyArgs&) {
  while (true) {
    constexpr size_t kBytes = 16 << 20;
    void* taken = std::malloc(kBytes);
    if (taken != nullptr) std::memset(taken, 1, kBytes);
    __asm__ volatile("" : : "r"(taken) : "memory");  // else nobody reads it, and clang leaves it out
    ::usleep(1000);
  }
}
void exits(const ToyArgs&) {
  std::fputs("toy: giving up\n", stderr);
  ::_exit(3);
}

struct Kernel {
  const char* name;
  CpuEntry entry;
};
constexpr Kernel kKernels[] = {
    {"plain", entry<plain>},  {"slow", entry<slow>},       {"tail", entry<tail>},         {"past_end", entry<past_end>},
    {"skips", entry<skips>},  {"nan", entry<nan_element>}, {"one_seed", entry<one_seed>}, {"hang", entry<hang>},
    {"crash", entry<crash>},  {"memory", entry<memory>},   {"exits", entry<exits>},       {"refuses", entry<plain>},
    {"generic", entry<slow>},
};

std::vector<std::string>& offered() {
  static std::vector<std::string> names = {"plain"};
  return names;
}

// ---- Family and operator ------------------------------------------------------------------------------------------

constexpr const char* kTarget = "x86-64";

class ToyFamily final : public KernelFamily {
 public:
  explicit ToyFamily(bool generic) : generic_(generic) {}
  std::string_view name() const override { return generic_ ? "toy_generic" : "toy_cpu"; }
  std::string_view op() const override { return "toy"; }
  Backend backend() const override { return Backend::kNative; }
  bool generic() const override { return generic_; }
  Status supports(ProblemRef, const DeviceSpec&) const override { return {}; }
  std::vector<Candidate> candidates(ProblemRef problem, const DeviceSpec& device) const override {
    std::vector<Candidate> all;
    for (const std::string& name : generic_ ? std::vector<std::string>{"generic"} : offered()) {
      all.push_back({{key(name), {}}, 0});
      // Equal enough that no candidate is hopeless, in the order given.
      all.back().cost = cost(problem, device, all.back().step) * (1 + 1e-3 * static_cast<double>(all.size()));
    }
    return all;
  }
  Status check(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return {}; }
  double cost(ProblemRef problem, const DeviceSpec&, const RecipeStep&) const override {
    return 1e-9 * static_cast<double>(problem_cast<ToyProblem>(problem).n) * (generic_ ? 10 : 1);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "seq"; }
  std::span<const std::string_view> knob_names() const override { return {}; }
  Result<CompileRequest> source(const KernelKey&) const override {
    return Status(StatusCode::kUnsupported, "toy: kernels are linked in");
  }
  std::vector<KernelKey> builtin_keys(std::string_view) const override { return {}; }
  Result<std::vector<Stage>> stages(ProblemRef problem, const DeviceSpec&, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (step.key.config() == "kernel=refuses") return Status(StatusCode::kUnsupported, "toy: this kernel refuses");
    const ToyArgs args{nullptr, nullptr, problem_cast<ToyProblem>(problem).n};
    Stage stage;
    stage.kernel = std::move(kernel);
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    stage.patches = {{ArgPatch::Kind::kPointer, 0, offsetof(ToyArgs, x)},
                     {ArgPatch::Kind::kPointer, 1, offsetof(ToyArgs, y)}};
    return std::vector<Stage>{std::move(stage)};
  }

  KernelKey key(const std::string& kernel) const {
    return make_key("toy", name(), kTarget, "dtype=f32", "kernel=" + kernel);
  }

 private:
  bool generic_;
};

const ToyFamily& family(bool generic) {
  static const ToyFamily kNormal(false), kGeneric(true);
  return generic ? kGeneric : kNormal;
}

class ToyInstance final : public ProblemInstance {
 public:
  ToyInstance(int64_t n, int rotations)
      : n_(n), x_(static_cast<size_t>(std::max(1, rotations))), y_(static_cast<size_t>(n) + 2 * kGuard) {
    for (auto& x : x_) x.resize(static_cast<size_t>(n));
  }
  void fill(uint64_t seed, InputData data) override {
    for (int64_t i = 0; i < n_; ++i) {
      const uint64_t bits = (seed * 1000003 + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ull >> 40;
      x_[0][static_cast<size_t>(i)] =
          data == InputData::kIntegers ? static_cast<float>(bits % 7) - 3 : static_cast<float>(bits) * 0x1p-23f - 1;
    }
    for (auto& x : x_) x = x_[0];
  }
  void poison() override { std::memset(y_.data(), 0xFF, y_.size() * sizeof(float)); }
  CallBindings bindings(int rotation) override {
    pointers_[0] = x_[static_cast<size_t>(rotation) % x_.size()].data();
    pointers_[1] = y_.data() + kGuard;
    return {pointers_, {}, nullptr};
  }
  int rotations() const override { return static_cast<int>(x_.size()); }
  VerifyReport verify() override {
    VerifyReport report;
    const auto poisoned = [this](int64_t i) {
      uint32_t bits;
      std::memcpy(&bits, &y_[static_cast<size_t>(i + kGuard)], 4);
      return bits == 0xFFFFFFFFu;
    };
    report.compared = n_;
    for (int64_t i = -kGuard; i < n_ + kGuard && report.failure.empty(); ++i) {
      const bool inside = i >= 0 && i < n_;
      if (!inside && !poisoned(i)) report.failure = "wrote past the end of the buffer of y";
      if (inside && poisoned(i)) report.failure = fmt::format("element [{}] was not written (poison is left)", i);
      if (!inside || !report.failure.empty()) continue;
      const float got = y_[static_cast<size_t>(i + kGuard)], want = 2 * x_[0][static_cast<size_t>(i)] + 1;
      if (!(std::fabs(got - want) <= 1e-5f))
        report.failure = fmt::format("element [{}]: got {}, expected {}", i, got, want);
    }
    report.passed = report.failure.empty();
    report.worst_ratio = report.passed ? 0 : std::numeric_limits<double>::infinity();
    return report;
  }

 private:
  static constexpr int64_t kGuard = 64;
  int64_t n_;
  std::vector<std::vector<float>> x_;
  std::vector<float> y_;
  std::array<const void*, 2> pointers_{};
};

class ToyOperator final : public Operator {
 public:
  std::string_view name() const override { return "toy"; }
  std::span<const KernelFamily* const> families() const override {
    static const KernelFamily* const kFamilies[] = {&family(false), &family(true)};
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef problem) const override {
    const int64_t n = problem_cast<ToyProblem>(problem).n;
    return {"x=f32", "none", fmt::format("n={}", n), fmt::format("n<={}", n)};
  }
  std::string problem_text(ProblemRef problem) const override {
    return fmt::format("n={}", problem_cast<ToyProblem>(problem).n);
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    if (!text.starts_with("n=")) return Status(StatusCode::kInvalidArgument, "toy: expected n=NUMBER");
    return toy_problem(std::atoll(std::string(text.substr(2)).c_str()));
  }
  double operations(ProblemRef problem) const override {
    return 2.0 * static_cast<double>(problem_cast<ToyProblem>(problem).n);
  }
  double bytes_moved(ProblemRef problem) const override {
    return 8.0 * static_cast<double>(problem_cast<ToyProblem>(problem).n);
  }
  DType multiplied_dtype(ProblemRef) const override { return DType::kF32; }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef problem, Device&,
                                                       const InstanceOptions& options) const override {
    return std::unique_ptr<ProblemInstance>(
        std::make_unique<ToyInstance>(problem_cast<ToyProblem>(problem).n, options.rotations));
  }
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef) const override {
    return {toy_problem(1), toy_problem(17), toy_problem(63)};
  }
};

std::unique_ptr<ContextImpl> make_context(const ContextOptions& options) {
  static const Operator* const kOps[] = {&toy_operator()};
  Result<std::unique_ptr<ContextImpl>> context = ContextImpl::create(options, kOps);
  if (!context) return nullptr;
  for (const Kernel& kernel : kKernels) {
    const bool generic = std::string_view(kernel.name) == "generic";
    (*context)->registry().add(
        {.key = family(generic).key(kernel.name), .builtin = reinterpret_cast<const void*>(kernel.entry)});
  }
  return std::move(*context);
}

int run_worker() {
  ContextOptions options;
  options.user_tables = false;
  const std::unique_ptr<ContextImpl> context = make_context(options);
  return context == nullptr ? 1 : tune_worker(*context, STDIN_FILENO, STDOUT_FILENO);
}

const ChildProgram kWorker("toy-worker", run_worker);

}  // namespace

const Operator& toy_operator() {
  static const ToyOperator kOperator;
  return kOperator;
}

std::vector<std::byte> toy_problem(int64_t n) {
  const ToyProblem problem{n};
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

void offer_toy_kernels(std::vector<std::string> names) { offered() = std::move(names); }

std::unique_ptr<ContextImpl> toy_context(const std::string& folder) {
  ContextOptions options;
  options.user_tables = false;
  options.cache_dir = folder + "/cache";
  return make_context(options);
}

std::string toy_recipe(const std::string& kernel) { return family(kernel == "generic").key(kernel).text; }

std::vector<std::string> toy_worker() { return {"/proc/self/exe", "toy-worker"}; }

}  // namespace tilewright::test
