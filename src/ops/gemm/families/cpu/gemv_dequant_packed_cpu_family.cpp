// SPDX-License-Identifier: MIT
// gemv_dequant_packed_cpu: rows of f16 or bf16 times packed weights of 4 or 8 bits.
#include <algorithm>

#include "gemm/cpu/gemv_dequant_packed_cpu_blocking.hpp"
#include "ops/gemm/families/cpu/cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

// Blocks that are fetched ahead where the hardware is not trusted to.
constexpr int kPackedAhead = 3;

constexpr DType kPackedTypes[] = {DType::kU4, DType::kI4, DType::kF4E2M1, DType::kI8};

// Rows that share what is widened, panels that share what is read of A; as registers allow, the best first.
struct PackedTile {
  int rows, panels;
};
constexpr PackedTile kPackedTiles[] = {{1, 2}, {1, 1}, {2, 1}, {4, 1}, {6, 1}};
// Of those the ones that are always built.
std::vector<PackedTile> built_packed_tiles(CpuMma mma) {
  if (mma == CpuMma::kFmaAvx2) return {{1, 1}};
  return {{1, 2}, {4, 1}};
}

class GemvDequantPackedCpuFamily final : public CpuFamily<GemvDequantPackedCpuConfig> {
 public:
  GemvDequantPackedCpuFamily() : CpuFamily("gemv_dequant_packed_cpu", /*scaled=*/true) {}

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const auto& [mma, arch] : choices(device, p.b_dtype)) {
      for (const PackedTile& tile : kPackedTiles) {
        if (tile.rows > 1 && tile.rows / 2 >= p.m) continue;
        for (const int prefetch : {kPackedAhead, 0}) {
          // One row is bound by reading: both ways to read are tried.
          if (prefetch == 0 && tile.rows > 1) continue;
          const GemvDequantPackedCpuConfig config{p.b_dtype, mma, tile.rows, tile.panels, prefetch};
          if (gemv_dequant_packed_cpu_refusal(config) != nullptr) continue;
          found.push_back({{key_of(config, arch->target), {}}, gemv_dequant_packed_cpu_cost(p, device, config)});
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
    std::vector<CpuMma> introduced = cpu_mma_introduced(target, DType::kF32);
    for (const CpuMma mma : cpu_mma_introduced(target, DType::kI8)) introduced.push_back(mma);
    for (const CpuMma mma : introduced) {
      for (const DType dtype : kPackedTypes) {
        for (const PackedTile& tile : built_packed_tiles(mma)) {
          const GemvDequantPackedCpuConfig config{dtype, mma, tile.rows, tile.panels, kPackedAhead};
          if (gemv_dequant_packed_cpu_refusal(config) == nullptr) keys.push_back(key_of(config, target));
        }
      }
    }
    return keys;
  }

 protected:
  Status check_product(const GemmProblem& p) const override {
    const bool floats = p.a_dtype == DType::kBf16 || p.a_dtype == DType::kF16;
    const bool weights =
        std::find(std::begin(kPackedTypes), std::end(kPackedTypes), p.b_dtype) != std::end(kPackedTypes);
    if (!floats || !weights) {
      return unsupported(fmt::format("A is {} and B {}, allowed: f16 or bf16 x i4, u4, e2m1, i8", dtype_name(p.a_dtype),
                                     dtype_name(p.b_dtype)));
    }
    if (p.scale_a.blocked()) return unsupported("A has scales of groups, the kernel has those of B");
    return check_dequant_group(p.scale_b);
  }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (!p.b_packed) return unsupported("B is plain, allowed: packed");
    if (p.batch_invariant) return unsupported("batch_invariant: rows that are multiplied together share how");
    if (choices(device, p.b_dtype).empty()) {
      return unsupported(fmt::format("{} has no vector instruction for f32", device.arch->target));
    }
    return {};
  }
  DType kernel_dtype(const GemmProblem& p, const GemvDequantPackedCpuConfig&) const override { return p.b_dtype; }
  const char* refusal_of(const GemvDequantPackedCpuConfig& config) const override {
    return gemv_dequant_packed_cpu_refusal(config);
  }
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvDequantPackedCpuConfig& config,
                 const GemmKnobs&) const override {
    return gemv_dequant_packed_cpu_cost(p, device, config);
  }
  int64_t workspace_of(const GemmScaledArgs& args, int units, const GemvDequantPackedCpuConfig& config) const override {
    return gemv_dequant_packed_cpu_workspace_bytes(config, gemm_cpu_sizes(args.gemm), units);
  }
  std::string_view order_of(const GemvDequantPackedCpuConfig&) const override { return "panels"; }
  std::string label_of(const GemvDequantPackedCpuConfig& config) const override {
    return fmt::format("{}-{}x{}", dtype_name(config.dtype), config.rows, config.panels);
  }

 private:
  struct Choice {
    CpuMma mma;
    const ArchSpec* arch;
  };
  // The instructions that f32 has, and vpdpbusd.
  static std::vector<Choice> choices(const DeviceSpec& device, DType dtype) {
    std::vector<Choice> found;
    for (const DType input : {DType::kI8, DType::kF32}) {
      for (const CpuMmaChoice& choice : cpu_mma_choices(device, input)) {
        const GemvDequantPackedCpuConfig config{dtype, choice.mma, 1, 1, 0};
        if (gemv_dequant_packed_cpu_refusal(config) == nullptr) found.push_back({choice.mma, choice.arch});
      }
    }
    return found;
  }
};

}  // namespace

const KernelFamily& gemv_dequant_packed_cpu_family() {
  static const GemvDequantPackedCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
