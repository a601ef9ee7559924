// SPDX-License-Identifier: MIT
// gemv_cpu: up to 16 rows, bound by reading B. Packed weights, or plain [N, K] rows with K contiguous.
#include <algorithm>

#include "gemm/cpu/gemv_cpu_blocking.hpp"
#include "ops/gemm/families/cpu/cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

constexpr int64_t kMaxRows = 16;

// Lines of each stream of B that are fetched ahead: what a core reads while memory answers.
constexpr int kAhead = 48;

// Streams of B side by side, and lines of each that the kernel fetches ahead.
struct Streams {
  int panels, prefetch;
  bool operator==(const Streams&) const = default;
};

// As measured (docs/kernels/gemv_cpu.md). Each stream starts anew with every panel or row, so the fewer the better: as many as
// keep the multipliers from waiting for one chain of sums. Where the hardware keeps up with `hardware_streams` of them it
// is left alone.
Streams best_streams(DType dtype, bool packed, int rows, int hardware_streams) {
  if (!packed) return {dtype == DType::kF32 ? 2 : 1, kAhead};
  if (rows <= 4 && hardware_streams > 0) return {rows == 1 ? 1 : hardware_streams, 0};
  return {rows == 1 ? 1 : 2, kAhead};
}

int hardware_streams(const DeviceSpec& device) {
  const PartSpec* part = find_part(*device.arch, device.part);
  return part == nullptr ? 0 : part->hardware_streams;
}

class GemvCpuFamily final : public CpuFamily<GemvCpuConfig> {
 public:
  GemvCpuFamily() : CpuFamily("gemv_cpu") {}

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    const std::vector<CpuMmaChoice> choices = vector_choices(device, p.a_dtype);
    for (const CpuMmaChoice& choice : choices) {
      if (p.batch_invariant && choice.mma != choices.front().mma) break;
      for (const int rows : {1, 2, 4, 8, 16}) {
        if (rows / 2 >= p.m) break;
        // The best first: the order stays among those of equal cost.
        const Streams best = best_streams(p.a_dtype, p.b_packed != 0, rows, hardware_streams(device));
        std::vector<Streams> streams = {best};
        for (const int panels : {best.panels, 1, 2, 4, 8}) {
          for (const int prefetch : {kAhead, 0}) {
            if (std::ranges::find(streams, Streams{panels, prefetch}) == streams.end())
              streams.push_back({panels, prefetch});
          }
        }
        for (const auto& [panels, prefetch] : streams) {
          const GemvCpuConfig config{p.a_dtype, choice.mma, p.b_packed != 0, rows, panels, prefetch};
          if (gemv_cpu_refusal(config) != nullptr) continue;
          found.push_back({{key_of(config, choice.arch->target), {}}, gemv_cpu_cost(p, device, config)});
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  std::span<const std::string_view> knob_names() const override { return {}; }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}) {
      for (const CpuMma mma : cpu_mma_introduced(target, dtype)) {
        if (is_amx(mma)) continue;
        for (const bool packed : {true, false}) {
          for (const int rows : {1, 4}) {
            const Streams fetching = best_streams(dtype, packed, rows, 0);
            for (const int panels : {fetching.panels, 1}) {
              const GemvCpuConfig config{dtype, mma, packed, rows, panels, kAhead};
              if (gemv_cpu_refusal(config) != nullptr) continue;
              keys.push_back(key_of(config, target));
              break;
            }
            // For the parts whose hardware keeps up; all of them have AVX-512.
            const Streams alone = best_streams(dtype, packed, rows, 4);
            const GemvCpuConfig config{dtype, mma, packed, rows, alone.panels, alone.prefetch};
            if (alone == fetching || is_avx2(mma) || gemv_cpu_refusal(config) != nullptr) continue;
            keys.push_back(key_of(config, target));
          }
        }
      }
    }
    return keys;
  }

 protected:
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (p.m > kMaxRows) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kMaxRows));
    if (!p.b_packed && p.stride_b_k != 1) {
      return unsupported(fmt::format("B has stride {} along K, allowed: packed, or 1", p.stride_b_k));
    }
    if (vector_choices(device, p.a_dtype).empty()) {
      return unsupported(
          fmt::format("{} has no vector instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    if (p.batch_invariant) {
      const CpuMma order = cpu_mma_choices(device, p.a_dtype).front().mma;
      if (!p.b_packed || is_amx(order)) {
        return unsupported(fmt::format("batch_invariant: this device's order of summation is gemm_cpu's with {}",
                                       fields_detail::print_value(order)));
      }
    }
    return {};
  }
  Status check_pair(const GemmProblem& p, const GemvCpuConfig& config) const override {
    if (config.packed == (p.b_packed != 0)) return {};
    return unsupported(fmt::format("kernel takes {} weights", config.packed ? "packed" : "plain"));
  }
  const char* refusal_of(const GemvCpuConfig& config) const override { return gemv_cpu_refusal(config); }
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvCpuConfig& config,
                 const GemmKnobs&) const override {
    return gemv_cpu_cost(p, device, config);
  }
  int64_t workspace_of(const GemmScaledArgs& args, int units, const GemvCpuConfig& config) const override {
    return gemv_cpu_workspace_bytes(config, gemm_cpu_sizes(args.gemm), units);
  }
  std::string_view order_of(const GemvCpuConfig& config) const override { return config.packed ? "seq" : "lanes"; }
  std::string label_of(const GemvCpuConfig& config) const override {
    return fmt::format("{}-{}x{}", config.packed ? "packed" : "plain", config.rows, config.panels);
  }

 private:
  static std::vector<CpuMmaChoice> vector_choices(const DeviceSpec& device, DType dtype) {
    std::vector<CpuMmaChoice> choices = cpu_mma_choices(device, dtype);
    std::erase_if(choices, [](const CpuMmaChoice& c) { return is_amx(c.mma); });
    return choices;
  }
};

}  // namespace

const KernelFamily& gemv_cpu_family() {
  static const GemvCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
