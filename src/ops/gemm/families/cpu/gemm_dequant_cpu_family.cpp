// SPDX-License-Identifier: MIT
// gemm_dequant_cpu: gemm_cpu of operands that are widened, or take scales of groups: every product that gemm_cpu does not multiply.
#include <algorithm>

#include "ops/gemm/families/cpu/cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

// What values are multiplied as.
constexpr DType kMultiplied[] = {DType::kI8, DType::kBf16, DType::kF32};

// The forms that an instruction has for one of them; gemm_dequant_cpu_refusal() has the last word.
std::vector<GemmDequantCpuConfig> forms(DType dtype, CpuMma mma) {
  std::vector<GemmDequantCpuConfig> found;
  for (const bool by_group : {false, true}) {
    for (const CpuTile& tile : cpu_tiles(mma)) {
      const GemmDequantCpuConfig config{dtype, mma, tile.m, tile.n, by_group};
      if (gemm_dequant_cpu_refusal(config) == nullptr) found.push_back(config);
    }
  }
  return found;
}

class GemmDequantCpuFamily final : public CpuFamily<GemmDequantCpuConfig> {
 public:
  GemmDequantCpuFamily() : CpuFamily("gemm_dequant_cpu", /*scaled=*/true) {}

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const Choice& choice : choices(device, p)) {
      if (p.batch_invariant && choice.config.mma != invariant_mma(p, device)) continue;
      found.push_back(
          {{key_of(choice.config, choice.arch->target), {}}, gemm_dequant_cpu_cost(p, device, choice.config)});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  std::span<const std::string_view> knob_names() const override { return {}; }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    for (const DType dtype : kMultiplied) {
      for (const CpuMma mma : cpu_mma_introduced(target, dtype)) {
        // The best tile of each form, and of AMX the widest flat one for few rows.
        int built[2] = {};
        for (const GemmDequantCpuConfig& config : forms(dtype, mma)) {
          if (multiplies_other(config)) continue;
          if (built[config.by_group]++ < (is_amx(mma) ? 2 : 1)) keys.push_back(key_of(config, target));
        }
      }
    }
    return keys;
  }

 protected:
  Status check_product(const GemmProblem&) const override { return {}; }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (check_plain_product(p) && !cpu_mma_choices(device, p.a_dtype).empty()) {
      return unsupported("A and B are multiplied as they are: gemm_cpu's");
    }
    if (choices(device, p).empty()) {
      return unsupported(fmt::format("{} has no vector instruction for f32", device.arch->target));
    }
    return {};
  }
  DType kernel_dtype(const GemmProblem&, const GemmDequantCpuConfig& config) const override { return config.dtype; }
  CpuMma invariant_mma(const GemmProblem& p, const DeviceSpec& device) const override {
    return choices(device, p).front().config.mma;
  }
  Status check_pair(const GemmProblem& p, const GemmDequantCpuConfig& config) const override {
    const char* const refusal = dequant_product_refusal(config, gemm_scaled_args(p, {}));
    return refusal == nullptr ? Status() : unsupported(refusal);
  }
  const char* refusal_of(const GemmDequantCpuConfig& config) const override { return gemm_dequant_cpu_refusal(config); }
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmDequantCpuConfig& config,
                 const GemmKnobs&) const override {
    return gemm_dequant_cpu_cost(p, device, config);
  }
  int64_t workspace_of(const GemmScaledArgs& args, int units, const GemmDequantCpuConfig& config) const override {
    return gemm_dequant_cpu_workspace_bytes(config, args, units);
  }
  std::string_view order_of(const GemmDequantCpuConfig& config) const override {
    return config.by_group ? "groups" : "seq";
  }
  std::string label_of(const GemmDequantCpuConfig& config) const override {
    return fmt::format("{}x{}{}", config.tile_m, config.tile_n, config.by_group ? "-by_group" : "");
  }

 private:
  struct Choice {
    GemmDequantCpuConfig config;
    const ArchSpec* arch;
    double ops_per_cycle;
  };
  // fma multiplies bf16 too, for gemm_cpu; here it multiplies f32.
  static bool multiplies_other(const GemmDequantCpuConfig& c) {
    const bool fma = c.mma == CpuMma::kFmaAvx2 || c.mma == CpuMma::kFmaAvx512;
    return fma != (c.dtype == DType::kF32);
  }
  // Those that compute the problem, by what the instruction multiplies a cycle.
  std::vector<Choice> choices(const DeviceSpec& device, const GemmProblem& p) const {
    std::vector<Choice> found;
    for (const DType dtype : kMultiplied) {
      for (const CpuMmaChoice& choice : cpu_mma_choices(device, dtype)) {
        for (const GemmDequantCpuConfig& config : forms(dtype, choice.mma)) {
          if (multiplies_other(config) || !check_pair(p, config)) continue;
          found.push_back({config, choice.arch, choice.spec->ops_per_cycle});
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Choice& x, const Choice& y) { return x.ops_per_cycle > y.ops_per_cycle; });
    return found;
  }
};

}  // namespace

const KernelFamily& gemm_dequant_cpu_family() {
  static const GemmDequantCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
