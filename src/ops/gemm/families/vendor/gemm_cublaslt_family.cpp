// SPDX-License-Identifier: MIT
// gemm_cublaslt: cuBLASLt's algorithms as candidates. They have no code of ours; a stage is a call of the library.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/fields.hpp"
#include "device/cuda/vendor/cuda_libraries.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gemm/families/vendor/cublaslt_problem.hpp"

namespace tilewright {
namespace {

using cuda::CublasLt;
using cuda::LtAlgo;
using cuda::LtArgs;

// A roofline: which of its algorithms is the best, the library tells by their order.
constexpr double kMemoryShare = 0.9;  // of the nominal bandwidth
constexpr double kRateShare = 0.75;   // of the best instruction's rate
constexpr double kFixedSeconds = 4e-6;
constexpr double kRankShare = 0.03;  // that each place in the library's order costs

Status refuse(std::string_view message) { return unsupported(fmt::format("gemm_cublaslt: {}", message)); }

// What the library knows of the problem; the error is the reason of a refusal.
struct Found {
  const CublasLt* library = nullptr;
  CublasLtProblem problem;
};

Result<Found> find(const GemmProblem& p, const DeviceSpec& device) {
  Status s = check_gpu(device, ArchVendor::kNvidia);
  if (s) s = check_tiled_problem(p);
  if (s) s = check_not_packed(p);
  if (!s) return refuse(s.message());
  if (p.batch_invariant) return refuse("batch_invariant: the library chooses the order of summation by the shape");
  const auto* const libraries = dynamic_cast<const cuda::CudaLibraries*>(device.vendor);
  if (libraries == nullptr) return refuse("no device is open");
  // Fewer units than the device has is a budget, which the library is told.
  Result<CublasLtProblem> problem = cublaslt_problem(p, device.units < libraries->units() ? device.units : 0);
  if (!problem) return refuse(problem.status().message());
  const Result<const CublasLt*> library = libraries->cublaslt();
  if (!library) return refuse(library.status().message());
  return Found{*library, *problem};
}

std::string signature_of(const GemmProblem& p) {
  return fmt::format("a={}:b={}:d={}{}{}", dtype_name(p.a_dtype), dtype_name(p.b_dtype), dtype_name(p.d_dtype),
                     p.allow_tf32 ? ":compute=tf32" : "", p.allow_fast_accum ? ":accumulate=fast" : "");
}

Status parse_algo(const KernelKey& key, LtAlgo& algo) {
  const ArchSpec* arch = find_arch(key.target);
  if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return refuse(key.text + ": no target of NVIDIA");
  const Status s = parse_fields(key.config(), algo);
  return s ? s : refuse(fmt::format("{}: {}", key.text, s.message()));
}

double base_cost(const GemmProblem& p, const DeviceSpec& device) {
  double best = 0;
  for (const MmaSpec& spec : device.arch->mma) {
    if (spec.input != p.a_dtype || (spec.name.ends_with("tf32") && !p.allow_tf32)) continue;
    best = std::max(best, spec.ops_per_cycle);
  }
  const double rate = (best > 0 ? best : 1024) * clock_hz(device) * std::max(1, device.units) * kRateShare;
  const double memory = gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device));
  return kFixedSeconds + std::max(gemm_operations(p) / rate, memory);
}

double ranked_cost(double base, size_t rank) { return base * (1 + kRankShare * static_cast<double>(rank)); }

class GemmCublasLtFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_cublaslt"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kVendor; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const Result<Found> found = find(problem_cast<GemmProblem>(ref), device);
    if (!found) return found.status();
    const Result<CublasLt::Algos> algos = found->library->propose(found->problem.lt);
    return algos ? Status() : refuse(algos.status().message());
  }

  // In the library's own order: the first is what it would run.
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> made;
    const Result<Found> found = find(p, device);
    if (!found) return made;
    const Result<CublasLt::Algos> algos = found->library->propose(found->problem.lt);
    if (!algos) return made;
    const double base = base_cost(p, device);
    for (const LtAlgo& algo : **algos) {
      const KernelKey key = make_key("gemm", "gemm_cublaslt", device.arch->target, signature_of(p), print_fields(algo));
      made.push_back({{key, {}}, ranked_cost(base, made.size())});
    }
    return made;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = workspace_of(ref, device, step).status(); !s) return s;
    if (p.bias.shortfall == 0) return {};
    // What an algorithm wants of a bias's address, the library tells only by proposing it.
    const std::vector<Candidate> found = candidates(ref, device);
    const bool proposed = std::any_of(found.begin(), found.end(), [&](const Candidate& c) { return c.step == step; });
    return proposed ? Status()
                    : refuse(fmt::format("bias at multiples of {} bytes: only what the library proposes for it",
                                         16 >> p.bias.shortfall));
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    const double base = base_cost(p, device);
    LtAlgo algo;
    const Result<Found> found = find(p, device);
    if (!found || !parse_algo(step.key, algo)) return base;
    const Result<CublasLt::Algos> algos = found->library->propose(found->problem.lt);
    if (!algos) return base;
    const auto at = std::find((*algos)->begin(), (*algos)->end(), algo);
    return ranked_cost(base, static_cast<size_t>(at - (*algos)->begin()));
  }

  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const Result<int64_t> bytes = workspace_of(ref, device, step);
    return bytes ? *bytes : 0;
  }

  // Who knows what an algorithm sums in which order; it does so each time.
  std::string numerics_id(const RecipeStep& step) const override { return "cublaslt:" + step.key.digest.hex(); }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    return refuse(key.text + ": a library's algorithm has no source");
  }
  std::vector<KernelKey> builtin_keys(std::string_view) const override { return {}; }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel>) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    LtAlgo algo;
    if (Status s = parse_step(p, step, algo); !s) return s;
    const Result<Found> found = find(p, device);
    if (!found) return found.status();
    Result<std::shared_ptr<const HostCall>> call = found->library->make_call(found->problem.lt, algo);
    if (!call) return refuse(call.status().message());
    Stage stage;
    stage.call = std::move(*call);
    bind_arguments(p, found->problem.swapped, stage);
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  static Status parse_step(const GemmProblem& p, const RecipeStep& step, LtAlgo& algo) {
    if (Status s = parse_algo(step.key, algo); !s) return s;
    if (step.key.signature() == signature_of(p)) return {};
    return refuse(fmt::format("the algorithm takes {}, the problem is {}", step.key.signature(), signature_of(p)));
  }

  static Result<int64_t> workspace_of(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) {
    const auto& p = problem_cast<GemmProblem>(ref);
    LtAlgo algo;
    if (Status s = parse_step(p, step, algo); !s) return s;
    const Result<Found> found = find(p, device);
    if (!found) return found.status();
    const Result<int64_t> bytes = found->library->workspace_bytes(found->problem.lt, algo);
    return bytes ? bytes : refuse(bytes.status().message());
  }

  static void bind_arguments(const GemmProblem& p, bool swapped, Stage& stage) {
    LtArgs args{};
    args.alpha = 1;
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    const auto patch = [&stage](ArgPatch::Kind kind, uint16_t slot, size_t offset) {
      stage.patches.push_back({kind, slot, static_cast<uint32_t>(offset)});
    };
    patch(ArgPatch::Kind::kPointer, swapped ? kSlotB : kSlotA, offsetof(LtArgs, a));
    patch(ArgPatch::Kind::kPointer, swapped ? kSlotA : kSlotB, offsetof(LtArgs, b));
    patch(ArgPatch::Kind::kPointer, kSlotD, offsetof(LtArgs, d));
    patch(ArgPatch::Kind::kWorkspace, 0, offsetof(LtArgs, workspace));
    if (p.c.present()) {
      patch(ArgPatch::Kind::kPointer, kSlotC, offsetof(LtArgs, c));
      patch(ArgPatch::Kind::kScalar, kScalarBeta, offsetof(LtArgs, beta));
    }
    if (p.bias.present()) patch(ArgPatch::Kind::kPointer, kSlotBias, offsetof(LtArgs, bias));
    if (p.has_alpha) patch(ArgPatch::Kind::kScalar, kScalarAlpha, offsetof(LtArgs, alpha));
    const uint16_t of_a = swapped ? kSlotScaleB : kSlotScaleA, of_b = swapped ? kSlotScaleA : kSlotScaleB;
    if ((swapped ? p.scale_b : p.scale_a).present()) patch(ArgPatch::Kind::kPointer, of_a, offsetof(LtArgs, scale_a));
    if ((swapped ? p.scale_a : p.scale_b).present()) patch(ArgPatch::Kind::kPointer, of_b, offsetof(LtArgs, scale_b));
  }
};

}  // namespace

const KernelFamily& gemm_cublaslt_family() {
  static const GemmCublasLtFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
