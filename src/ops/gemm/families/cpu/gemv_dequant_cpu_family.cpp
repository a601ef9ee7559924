// SPDX-License-Identifier: MIT
// gemv_dequant_cpu: up to 16 rows of f16 or bf16 times plain weights of 4 or 8 bits, [N, K] with K contiguous.
#include <algorithm>

#include "ops/gemm/families/cpu/cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

constexpr int64_t kMaxDequantRows = 16;

// Lines that are fetched ahead where the hardware is not trusted to: as of gemv_cpu.
constexpr int kDequantAhead = 48;

constexpr DType kDequantTypes[] = {DType::kU4, DType::kI4, DType::kF4E2M1, DType::kI8, DType::kF8E4M3, DType::kF8E5M2};

// Rows that share what is widened, columns that share what is read of A; as registers allow, the best first.
struct DequantTile {
  int rows, columns;
};
constexpr DequantTile kDequantTiles[] = {{1, 1}, {1, 2}, {1, 4}, {2, 2}, {2, 1}, {4, 2}, {8, 2}};

// Of those the ones that are always built: for one row, where A fits the first level and where it does not; for more.
std::vector<DequantTile> built_tiles(CpuMma mma) {
  if (mma == CpuMma::kFmaAvx2) return {{1, 1}, {2, 1}};
  if (mma == CpuMma::kDotI8) return {{1, 1}, {1, 2}, {4, 2}};
  return {{1, 1}, {4, 2}};
}

// A zero point of 8 bits comes off each weight, which bytes cannot hold then.
bool has_byte_zeros(const GemmProblem& p) { return dtype_bits(p.b_dtype) == 8 && p.zero_b.present(); }

class GemvDequantCpuFamily final : public CpuFamily<GemvDequantCpuConfig> {
 public:
  GemvDequantCpuFamily() : CpuFamily("gemv_dequant_cpu", /*scaled=*/true) {}

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const auto& [mma, arch] : choices(device, p)) {
      for (const DequantTile& tile : kDequantTiles) {
        if (tile.rows > 1 && tile.rows / 2 >= p.m) continue;
        for (const int prefetch : {kDequantAhead, 0}) {
          // One row is bound by reading: both ways to read are tried.
          if (prefetch == 0 && tile.rows > 1) continue;
          const GemvDequantCpuConfig config{p.b_dtype, mma, tile.rows, tile.columns, prefetch};
          if (gemv_dequant_cpu_refusal(config) != nullptr) continue;
          found.push_back({{key_of(config, arch->target), {}}, gemv_dequant_cpu_cost(p, device, config)});
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
    std::vector<CpuMma> introduced = cpu_mma_introduced(target, DType::kBf16);
    for (const CpuMma mma : cpu_mma_introduced(target, DType::kI8)) introduced.push_back(mma);
    for (const CpuMma mma : introduced) {
      for (const DType dtype : kDequantTypes) {
        for (const DequantTile& tile : built_tiles(mma)) {
          const GemvDequantCpuConfig config{dtype, mma, tile.rows, tile.columns, kDequantAhead};
          if (gemv_dequant_cpu_refusal(config) == nullptr) keys.push_back(key_of(config, target));
        }
      }
    }
    return keys;
  }

 protected:
  Status check_product(const GemmProblem& p) const override {
    const bool floats = p.a_dtype == DType::kBf16 || p.a_dtype == DType::kF16;
    if (!floats || !is_dequantised(p.b_dtype)) {
      return unsupported(fmt::format("A is {} and B {}, allowed: f16 or bf16 x i4, u4, e2m1, i8, e4m3, e5m2",
                                     dtype_name(p.a_dtype), dtype_name(p.b_dtype)));
    }
    if (p.scale_a.blocked()) return unsupported("A has scales of groups, the kernel has those of B");
    return check_dequant_group(p.scale_b);
  }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (p.m > kMaxDequantRows) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kMaxDequantRows));
    if (p.b_packed || p.stride_b_k != 1) {
      return unsupported("B is packed or has another stride along K than 1, allowed: [N, K] with K contiguous");
    }
    const bool odd = (p.n > 1 && p.stride_b_n % 2 != 0) || (p.batch > 1 && p.stride_b_batch % 2 != 0);
    if (dtype_bits(p.b_dtype) == 4 && odd) return unsupported("B has rows of half bytes");
    if (p.batch_invariant) return unsupported("batch_invariant: more than 16 rows are another family's");
    if (choices(device, p).empty()) {
      return unsupported(fmt::format("{} has no vector instruction for f32", device.arch->target));
    }
    return {};
  }
  DType kernel_dtype(const GemmProblem& p, const GemvDequantCpuConfig&) const override { return p.b_dtype; }
  Status check_pair(const GemmProblem& p, const GemvDequantCpuConfig& config) const override {
    if (config.mma == CpuMma::kDotBf16 && p.a_dtype != DType::kBf16) {
      return unsupported(fmt::format("kernel multiplies bf16, A is {}", dtype_name(p.a_dtype)));
    }
    if (config.mma == CpuMma::kDotI8 && has_byte_zeros(p)) return unsupported("kernel has no zero points of 8-bit B");
    return {};
  }
  const char* refusal_of(const GemvDequantCpuConfig& config) const override { return gemv_dequant_cpu_refusal(config); }
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvDequantCpuConfig& config,
                 const GemmKnobs&) const override {
    return gemv_dequant_cpu_cost(p, device, config);
  }
  int64_t workspace_of(const GemmScaledArgs& args, int units, const GemvDequantCpuConfig& config) const override {
    return gemv_dequant_cpu_workspace_bytes(config, gemm_cpu_sizes(args.gemm), units);
  }
  std::string_view order_of(const GemvDequantCpuConfig&) const override { return "groups16"; }
  std::string label_of(const GemvDequantCpuConfig& config) const override {
    return fmt::format("{}-{}x{}", dtype_name(config.dtype), config.rows, config.columns);
  }

 private:
  struct Choice {
    CpuMma mma;
    const ArchSpec* arch;
  };
  // The instructions that bf16 has, without AMX, and vpdpbusd; those of f32 serve f16 too.
  std::vector<Choice> choices(const DeviceSpec& device, const GemmProblem& p) const {
    std::vector<Choice> found;
    for (const DType input : {DType::kBf16, DType::kI8}) {
      for (const CpuMmaChoice& choice : cpu_mma_choices(device, input)) {
        const GemvDequantCpuConfig config{p.b_dtype, choice.mma, 1, 1, 0};
        if (gemv_dequant_cpu_refusal(config) != nullptr || !check_pair(p, config)) continue;
        found.push_back({choice.mma, choice.arch});
      }
    }
    return found;
  }
};

}  // namespace

const KernelFamily& gemv_dequant_cpu_family() {
  static const GemvDequantCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
