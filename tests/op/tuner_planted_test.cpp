// SPDX-License-Identifier: MIT
// The tuner on gemm with planted kernels: each stands first in the cost model's order, is found out for what it does, and
// costs nothing but its limit; the families' own kernels still win.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "gemm/cpu/gemm_generic.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"
#include "support/child_program.hpp"
#include "tuning/tuner.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

// ---- Kernels that are right but for one thing. D is f32 in these tests. --------------------------------------------

float* last_of_d(const GemmArgs& a) {
  const GemmEpilogueArgs& e = a.epilogue;
  return static_cast<float*>(e.d) + (a.m - 1) * e.stride_d_m + (a.n - 1) * e.stride_d_n;
}

void right(const GemmArgs& a) { gemm_generic({a, {}, {}}, 0, 1); }
void drops_k_tail(const GemmArgs& a) {
  GemmArgs b = a;
  b.k = a.k / 32 * 32;
  right(b);
}
void past_end(const GemmArgs& a) { right(a), last_of_d(a)[1] = 0; }
void leaves_nan(const GemmArgs& a) { right(a), *last_of_d(a) = std::numeric_limits<float>::quiet_NaN(); }
void leaves_poison(const GemmArgs& a) {
  uint32_t before;
  std::memcpy(&before, last_of_d(a), 4);
  right(a);
  std::memcpy(last_of_d(a), &before, 4);
}
void one_seed(const GemmArgs& a) {
  static uint64_t first = 0;
  uint64_t data = 0;
  if (a.k >= 4) std::memcpy(&data, a.a, 8);
  if (first == 0) first = data;
  right(a);
  if (data != first) *last_of_d(a) += 1000;
}
void crashes(const GemmArgs&) {
  signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into an exit
  raise(SIGSEGV);
}
void hangs(const GemmArgs&) {
  while (true) usleep(10000);
}
void eats_memory(const GemmArgs&) {
  while (true) {
    constexpr size_t kBytes = 16 << 20;
    void* taken = std::malloc(kBytes);
    if (taken != nullptr) std::memset(taken, 1, kBytes);
    usleep(1000);
  }
}

template <void (*kKernel)(const GemmArgs&)>
void entry(const void* args, uint32_t unit, uint32_t) {
  if (unit == 0) kKernel(*static_cast<const GemmArgs*>(args));
}

struct Planted {
  const char* name;
  CpuEntry entry;
  CandidateOutcome outcome;
  const char* reason;  // part of what the tuner must say
};
constexpr Planted kPlanted[] = {
    {"drops_k_tail", entry<drops_k_tail>, CandidateOutcome::kRejected, "k=259"},
    {"past_end", entry<past_end>, CandidateOutcome::kRejected, "past the end of the buffer of d"},
    {"leaves_nan", entry<leaves_nan>, CandidateOutcome::kRejected, "got nan"},
    {"leaves_poison", entry<leaves_poison>, CandidateOutcome::kRejected, "was not written (poison is left)"},
    {"one_seed", entry<one_seed>, CandidateOutcome::kRejected, "seed 1, normal data"},
    {"crashes", entry<crashes>, CandidateOutcome::kCrashed, "SIGSEGV"},
    {"hangs", entry<hangs>, CandidateOutcome::kTimedOut, "time limit"},
    {"eats_memory", entry<eats_memory>, CandidateOutcome::kOutOfMemory, "the limit is 512 MiB"},
};

// ---- Gemm with one more family ---------------------------------------------------------------------------------------

std::vector<std::string>& offered() {
  static std::vector<std::string> names;
  return names;
}

class PlantedFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_planted"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kNative; }
  Status supports(ProblemRef, const DeviceSpec&) const override { return {}; }
  std::vector<Candidate> candidates(ProblemRef, const DeviceSpec&) const override {
    std::vector<Candidate> all;
    for (const std::string& name : offered())
      all.push_back({{key(name), {}}, 1e-9 * static_cast<double>(all.size() + 1)});
    return all;
  }
  Status check(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return {}; }
  double cost(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 1e-9; }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "planted"; }
  std::span<const std::string_view> knob_names() const override { return {}; }
  Result<CompileRequest> source(const KernelKey&) const override {
    return Status(StatusCode::kUnsupported, "linked in");
  }
  std::vector<KernelKey> builtin_keys(std::string_view) const override { return {}; }
  Result<std::vector<Stage>> stages(ProblemRef problem, const DeviceSpec&, const RecipeStep&,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    return std::vector<Stage>{gemm_stage(problem_cast<GemmProblem>(problem), {}, 1, std::move(kernel))};
  }
  static KernelKey key(const std::string& kernel) {
    return make_key("gemm", "gemm_planted", "x86-64", "any", "kernel=" + kernel);
  }
};

class PlantedGemm final : public Operator {
 public:
  std::string_view name() const override { return gemm_operator().name(); }
  std::span<const KernelFamily* const> families() const override {
    static const PlantedFamily kPlantedFamily;
    static const std::vector<const KernelFamily*> kFamilies = [] {
      std::vector<const KernelFamily*> all = {&kPlantedFamily};
      for (const KernelFamily* family : gemm_operator().families()) all.push_back(family);
      return all;
    }();
    return kFamilies;
  }
  ProblemSignature signature(ProblemRef p) const override { return gemm_operator().signature(p); }
  std::string problem_text(ProblemRef p) const override { return gemm_operator().problem_text(p); }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    return gemm_operator().parse_problem(text);
  }
  double operations(ProblemRef p) const override { return gemm_operator().operations(p); }
  double bytes_moved(ProblemRef p) const override { return gemm_operator().bytes_moved(p); }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef p, Device& device,
                                                       const InstanceOptions& options) const override {
    return gemm_operator().instantiate(p, device, options);
  }
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef p) const override {
    return gemm_operator().tail_problems(p);
  }
};

const Operator& planted_gemm() {
  static const PlantedGemm kOperator;
  return kOperator;
}

std::unique_ptr<ContextImpl> planted_context(const std::string& cache_dir) {
  static const Operator* const kOps[] = {&planted_gemm()};
  ContextOptions options;
  options.user_tables = false;
  options.jit = "off";  // the always-built kernels are enough
  options.cache_dir = cache_dir;
  Result<std::unique_ptr<ContextImpl>> context = ContextImpl::create(options, kOps);
  if (!context) return nullptr;
  for (const Planted& planted : kPlanted) {
    (*context)->registry().add(
        {.key = PlantedFamily::key(planted.name), .builtin = reinterpret_cast<const void*>(planted.entry)});
  }
  return std::move(*context);
}

int run_worker() {
  const std::unique_ptr<ContextImpl> context = planted_context("");
  return context == nullptr ? 1 : tune_worker(*context, STDIN_FILENO, STDOUT_FILENO);
}
const test::ChildProgram kWorker("planted-gemm-worker", run_worker);

class TunerPlanted : public testing::Test {
 protected:
  void SetUp() override {
    context_ = planted_context(folder_ / "cache");
    ASSERT_NE(context_, nullptr);
    Result<std::vector<std::byte>> problem = planted_gemm().parse_problem("m=16:n=256:k=512:a=bf16:d=f32");
    ASSERT_TRUE(problem.ok()) << problem.status().to_string();
    problem_ = *problem;
    options_.budget_seconds = 20;
    options_.candidate_seconds = 3;
    options_.candidate_bytes = int64_t{512} << 20;
    options_.journal = folder_ / "tuning.journal";
    options_.table = folder_ / "tuned.csv";
    options_.worker = {"/proc/self/exe", "planted-gemm-worker"};
  }
  TuneResult tune_with(std::vector<std::string> planted) {
    offered() = std::move(planted);
    Result<std::vector<TuneResult>> results = tune(*context_, {{&planted_gemm(), problem_, "planted"}}, options_, {});
    EXPECT_TRUE(results.ok()) << results.status().to_string();
    return results ? (*results)[0] : TuneResult();
  }
  void expect_found_out(const TuneResult& result, const Planted& planted) {
    const std::string recipe = PlantedFamily::key(planted.name).text;
    const auto found = std::find_if(result.candidates.begin(), result.candidates.end(),
                                    [&recipe](const CandidateResult& c) { return c.recipe == recipe; });
    ASSERT_NE(found, result.candidates.end()) << planted.name;
    EXPECT_EQ(found->outcome, planted.outcome) << planted.name << ": " << found->reason;
    EXPECT_NE(found->reason.find(planted.reason), std::string::npos) << planted.name << ": " << found->reason;
    EXPECT_EQ(context_->registry().priority(recipe), Priority::kDisabled) << planted.name;
  }

  test::ScratchFolder folder_;
  std::unique_ptr<ContextImpl> context_;
  std::vector<std::byte> problem_;
  TuneOptions options_;
};

class EachPlanted : public TunerPlanted, public testing::WithParamInterface<Planted> {};

TEST_P(EachPlanted, IsFoundOutAndAnHonestKernelWins) {
  const TuneResult result = tune_with({GetParam().name});
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  expect_found_out(result, GetParam());
  EXPECT_EQ(result.row.recipe.find("gemm_planted"), std::string::npos) << result.row.recipe;
  EXPECT_LT(result.row.rel_error, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(TunerPlanted, EachPlanted, testing::ValuesIn(kPlanted),
                         [](const testing::TestParamInfo<Planted>& info) { return std::string(info.param.name); });

TEST_F(TunerPlanted, AllTogetherCostTheirLimitsAndTheRowIsDispatched) {
  options_.budget_seconds = 60;
  std::vector<std::string> names;
  for (const Planted& planted : kPlanted) names.emplace_back(planted.name);
  const TuneResult result = tune_with(names);
  ASSERT_TRUE(result.status.ok()) << result.status.to_string();
  for (const Planted& planted : kPlanted) expect_found_out(result, planted);
  Result<QueryResult> query = context_->query(planted_gemm(), problem_, 0, "");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->source, "tuned");
  EXPECT_EQ(query->recipe, result.row.recipe);
  EXPECT_EQ(query->recipe.find("gemm_planted"), std::string::npos) << query->recipe;
}

}  // namespace
}  // namespace tilewright
