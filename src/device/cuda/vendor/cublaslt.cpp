// SPDX-License-Identifier: MIT
#include "device/cuda/vendor/cublaslt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/fields.hpp"

#include "device/cuda/driver/context_scope.hpp"
#include "device/cuda/vendor/cublaslt_call.hpp"
#include "device/cuda/vendor/cublaslt_descriptors.hpp"

namespace tilewright::cuda {
namespace {

// Most first: what an engine gives cuBLASLt on Hopper, so that the first proposal is what it would run.
constexpr int64_t kWorkspaceLimits[] = {int64_t{32} << 20, int64_t{4} << 20, 0};
constexpr int kWanted = 16;  // of each
constexpr size_t kRemembered = 512;

// Attributes that make a config, beside the algorithm's number, and the bytes that the library keeps them in.
struct Attribute {
  LtAlgoAttribute id;
  int32_t LtAlgo::* value;
  size_t bytes;
};
constexpr Attribute kAttributes[] = {
    {LtAlgoAttribute::kTile, &LtAlgo::tile, 4},       {LtAlgoAttribute::kStages, &LtAlgo::stages, 4},
    {LtAlgoAttribute::kSplitK, &LtAlgo::split_k, 4},  {LtAlgoAttribute::kReduction, &LtAlgo::reduction, 4},
    {LtAlgoAttribute::kSwizzle, &LtAlgo::swizzle, 4}, {LtAlgoAttribute::kCustom, &LtAlgo::custom, 4},
    {LtAlgoAttribute::kInner, &LtAlgo::inner, 2},     {LtAlgoAttribute::kCluster, &LtAlgo::cluster, 2},
};

}  // namespace

std::string CublasLt::where() const { return fmt::format("cuda:{}: cuBLASLt", place_.index); }

Result<std::unique_ptr<CublasLt>> CublasLt::open(const LtLibrary& library, const Place& place) {
  std::unique_ptr<CublasLt> opened(new CublasLt(library, place));
  const ContextScope scope(*place.driver, place.context);
  if (Status s = check(*place.driver, scope.result(), opened->where()); !s) return s;
  const RelaxedCapture relaxed(*place.driver);
  const LtStatus created = library.cublasLtCreate(&opened->handle_);
  if (Status s = lt_check(library, created, opened->where() + ": handle"); !s) return s;
  return opened;
}

CublasLt::~CublasLt() {
  if (handle_ == nullptr) return;
  const ContextScope scope(*place_.driver, place_.context);
  const RelaxedCapture relaxed(*place_.driver);
  library_.cublasLtDestroy(handle_);
}

Result<LtAlgo> CublasLt::read(const LtAlgorithm& algorithm) const {
  LtAlgo algo{};
  algo.version = static_cast<int32_t>(library_.version);
  const auto get = [&](LtAlgoAttribute id, int32_t& value, size_t bytes) {
    size_t written = 0;
    return lt_check(library_, library_.cublasLtMatmulAlgoConfigGetAttribute(&algorithm, id, &value, bytes, &written),
                    fmt::format("{}: attribute {}", where(), static_cast<int>(id)));
  };
  if (Status s = get(LtAlgoAttribute::kId, algo.algo, sizeof(algo.algo)); !s) return s;
  for (const Attribute& attribute : kAttributes) {
    if (Status s = get(attribute.id, algo.*attribute.value, attribute.bytes); !s) return s;
  }
  return algo;
}

Result<std::vector<LtAlgo>> CublasLt::ask(const LtProblem& problem) const {
  const Result<LtDescriptors> made = lt_describe(library_, problem);
  if (!made) return made.status();
  std::vector<LtAlgo> found;
  Status refused;
  for (const int64_t limit : kWorkspaceLimits) {
    const Result<LtPreference> preference = lt_preference(library_, problem, limit);
    if (!preference) return preference.status();
    std::array<LtHeuristic, kWanted> results{};
    int count = 0;
    const LtStatus asked = library_.cublasLtMatmulAlgoGetHeuristic(
        handle_, &made->matmul, &made->a, &made->b, &made->c, &made->d, &*preference, kWanted, results.data(), &count);
    if (Status s = lt_check(library_, asked, where() + ": heuristics"); !s && refused.ok()) refused = s;
    if (asked != LtStatus::kSuccess) continue;
    for (int i = 0; i < count; ++i) {
      if (results[static_cast<size_t>(i)].state != LtStatus::kSuccess) continue;
      const Result<LtAlgo> algo = read(results[static_cast<size_t>(i)].algorithm);
      if (!algo) return algo.status();
      if (std::find(found.begin(), found.end(), *algo) != found.end()) continue;
      // What cannot be had again by its name is no candidate.
      if (rebuild(problem, *algo)) found.push_back(*algo);
    }
  }
  if (!found.empty()) return found;
  if (!refused) return refused;
  return Status(StatusCode::kUnsupported, where() + ": heuristics: no algorithm serves the problem");
}

Result<CublasLt::Algos> CublasLt::propose(const LtProblem& problem) const {
  const std::string text = lt_problem_text(problem);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = proposed_.find(text); it != proposed_.end()) return it->second;
  }
  const ContextScope scope(*place_.driver, place_.context);
  if (Status s = check(*place_.driver, scope.result(), where()); !s) return s;
  const RelaxedCapture relaxed(*place_.driver);
  Result<std::vector<LtAlgo>> found = ask(problem);
  if (!found) return found.status();
  auto shared = std::make_shared<const std::vector<LtAlgo>>(std::move(*found));
  const std::lock_guard lock(mutex_);
  if (proposed_.size() >= kRemembered) proposed_.clear();
  proposed_[text] = shared;
  return shared;
}

Result<LtHeuristic> CublasLt::rebuild(const LtProblem& p, const LtAlgo& algo) const {
  const auto refuse = [](std::string message) { return Status(StatusCode::kUnsupported, std::move(message)); };
  if (algo.version != library_.version) {
    return refuse(fmt::format("an algorithm of cuBLASLt {}, this process has {}", lt_version_text(algo.version),
                              lt_version_text(library_.version)));
  }
  const auto reduction = static_cast<uint32_t>(algo.reduction);
  if ((reduction & ~p.reductions) != 0) {
    return refuse(fmt::format("reduction scheme {}, allowed for this problem: mask {}", reduction, p.reductions));
  }
  const LtType c_type = p.has_c ? p.c.type : p.d.type;
  LtHeuristic result{};
  const std::string what = where() + ": " + print_fields(algo);
  const LtStatus begun = library_.cublasLtMatmulAlgoInit(handle_, p.compute, lt_scale_type(p.compute), p.a.type,
                                                         p.b.type, c_type, p.d.type, algo.algo, &result.algorithm);
  if (Status s = lt_check(library_, begun, what); !s) return s;
  for (const Attribute& attribute : kAttributes) {
    const int32_t value = algo.*attribute.value;
    const LtStatus set =
        library_.cublasLtMatmulAlgoConfigSetAttribute(&result.algorithm, attribute.id, &value, attribute.bytes);
    if (Status s = lt_check(library_, set, what); !s) return s;
  }
  const Result<LtDescriptors> made = lt_describe(library_, p);
  if (!made) return made.status();
  LtHeuristic checked{};
  const LtStatus legal = library_.cublasLtMatmulAlgoCheck(handle_, &made->matmul, &made->a, &made->b, &made->c,
                                                          &made->d, &result.algorithm, &checked);
  if (Status s = lt_check(library_, legal, what); !s) return s;
  if (Status s = check_alignment(p, result.algorithm); !s) return s;
  result.workspace_bytes = checked.workspace_bytes;
  return result;
}

// The library's own check does not know the addresses to come.
Status CublasLt::check_alignment(const LtProblem& p, const LtAlgorithm& algorithm) const {
  for (const auto& [name, capability, promised] :
       {std::tuple{'A', LtCapability::kAlignmentA, p.a.alignment},
        {'B', LtCapability::kAlignmentB, p.b.alignment},
        {'C', LtCapability::kAlignmentC, p.has_c ? p.c.alignment : p.d.alignment},
        {'D', LtCapability::kAlignmentD, p.d.alignment}}) {
    uint32_t wanted = 0;
    size_t written = 0;
    const LtStatus asked =
        library_.cublasLtMatmulAlgoCapGetAttribute(&algorithm, capability, &wanted, sizeof(wanted), &written);
    if (Status s = lt_check(library_, asked, where() + ": alignment"); !s) return s;
    if (wanted <= promised) continue;
    return Status(StatusCode::kUnsupported,
                  fmt::format("the algorithm takes {} at multiples of {} bytes, here of {}", name, wanted, promised));
  }
  return {};
}

Result<int64_t> CublasLt::workspace_bytes(const LtProblem& problem, const LtAlgo& algo) const {
  const ContextScope scope(*place_.driver, place_.context);
  if (Status s = check(*place_.driver, scope.result(), where()); !s) return s;
  const RelaxedCapture relaxed(*place_.driver);
  const Result<LtHeuristic> built = rebuild(problem, algo);
  if (!built) return built.status();
  return static_cast<int64_t>(built->workspace_bytes);
}

Result<std::shared_ptr<const HostCall>> CublasLt::make_call(const LtProblem& problem, const LtAlgo& algo) const {
  const ContextScope scope(*place_.driver, place_.context);
  if (Status s = check(*place_.driver, scope.result(), where()); !s) return s;
  const RelaxedCapture relaxed(*place_.driver);
  const Result<LtHeuristic> built = rebuild(problem, algo);
  if (!built) return built.status();
  const Result<LtDescriptors> made = lt_describe(library_, problem);
  if (!made) return made.status();
  return std::shared_ptr<const HostCall>(
      std::make_shared<const LtCall>(library_, place_, handle_, problem, *made, *built, print_fields(algo)));
}

}  // namespace tilewright::cuda
