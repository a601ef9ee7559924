// SPDX-License-Identifier: MIT
// gemm_cpu: cache-blocked and packed, a micro-kernel per instruction set. The epilogue is typed at run time, so that one
// instance serves every epilogue.
#include <algorithm>

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "ops/gemm/families/cpu/cpu_family.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

// The kernel's own blocks were measured, the others are only predicted. What the model promises for the best of them, the
// kernel's own reach; the others come after, for the tuner to try.
constexpr double kUnusualBlocks = 1.15;

// Depth, width and height of cache blocks, in order of promise: a B block in half of L2, an A block beside it.
std::vector<GemmKnobs> blockings(const GemmProblem& p, const DeviceSpec& device, const GemmCpuConfig& c) {
  const int64_t element = dtype_bits(p.a_dtype) / 8;
  const int64_t l2 = device.l2_bytes > 0 ? device.l2_bytes : int64_t{1} << 20;
  const int64_t l1 = device.l1_bytes > 0 ? device.l1_bytes : int64_t{32} << 10;
  auto round_up = [](int64_t value, int64_t to) { return (value + to - 1) / to * to; };
  const int64_t full_m = round_up(p.m, c.tile_m), full_n = round_up(p.n, c.tile_n);

  std::vector<GemmKnobs> found;
  auto add = [&](int64_t m, int64_t n, int64_t k) {
    GemmKnobs knobs{std::clamp<int64_t>(round_up(m, c.tile_m), c.tile_m, full_m),
                    std::clamp<int64_t>(round_up(n, c.tile_n), c.tile_n, full_n), std::max<int64_t>(k, 64)};
    const bool known = std::any_of(found.begin(), found.end(), [&](const GemmKnobs& f) {
      return f.block_m == knobs.block_m && f.block_n == knobs.block_n && f.block_k == knobs.block_k;
    });
    if (!known) found.push_back(knobs);
  };
  found.push_back({});  // the kernel's own, always the first
  // A strip of B (tile_n wide, block_k deep) in L1 decides the depth; A's block in L2 the height; the width follows from
  // what is left, from the units, or from the accumulators.
  const int64_t deep = std::max<int64_t>(64, l1 / 2 / (c.tile_n * element) / 64 * 64);
  for (const int64_t k : {deep, deep * 2, deep / 2, p.k}) {
    const int64_t block_k = round_up(std::clamp<int64_t>(k, 64, std::max<int64_t>(p.k, 64)), 64);
    for (const int64_t share : {2, 4}) {
      const int64_t high = std::max<int64_t>(c.tile_m, l2 / share / (block_k * element));
      for (const int64_t wide : {512, 256, 1024}) add(high, wide, block_k);
    }
    add(full_m, std::max<int64_t>(c.tile_n, l2 / 2 / (full_m * 4)), block_k);
  }
  return found;
}

class GemmCpuFamily final : public CpuFamily<GemmCpuConfig> {
 public:
  GemmCpuFamily() : CpuFamily("gemm_cpu") {}

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    const std::vector<CpuMmaChoice> choices = cpu_mma_choices(device, p.a_dtype);
    for (const CpuMmaChoice& choice : choices) {
      // One order of summation per dtype and device: the best instruction's.
      if (p.batch_invariant && choice.mma != choices.front().mma) break;
      for (const CpuTile& tile : cpu_tiles(choice.mma)) {
        const GemmCpuConfig config{p.a_dtype, choice.mma, tile.m, tile.n, 0};
        if (gemm_cpu_refusal(config) != nullptr) continue;
        const KernelKey key = key_of(config, choice.arch->target);
        const size_t usual = found.size();
        for (const GemmKnobs& knobs : blockings(p, device, config)) {
          found.push_back({{key, erase_knobs(knobs)}, gemm_cpu_cost(p, device, config, knobs)});
          found[usual].cost = std::min(found[usual].cost, found.back().cost);
        }
        for (size_t i = usual + 1; i < found.size(); ++i) found[i].cost *= kUnusualBlocks;
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"block_m", "block_n", "block_k"};
    return kNames;
  }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}) {
      for (const CpuMma mma : cpu_mma_introduced(target, dtype)) {
        // The best tile, and the widest flat one for few rows.
        std::vector<CpuTile> legal;
        for (const CpuTile& tile : cpu_tiles(mma)) {
          if (gemm_cpu_refusal({dtype, mma, tile.m, tile.n, 0}) == nullptr) legal.push_back(tile);
        }
        if (legal.empty()) continue;
        keys.push_back(key_of({dtype, mma, legal.front().m, legal.front().n, 0}, target));
        if (mma == CpuMma::kAmxBf16 || mma == CpuMma::kAmxI8)
          keys.push_back(key_of({dtype, mma, legal[1].m, legal[1].n, 0}, target));
      }
    }
    return keys;
  }

 protected:
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (!cpu_mma_choices(device, p.a_dtype).empty()) return {};
    return unsupported(fmt::format("{} has no instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
  }
  const char* refusal_of(const GemmCpuConfig& config) const override { return gemm_cpu_refusal(config); }
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmCpuConfig& config,
                 const GemmKnobs& knobs) const override {
    return gemm_cpu_cost(p, device, config, knobs);
  }
  int64_t workspace_of(const GemmScaledArgs& args, int units, const GemmCpuConfig& config) const override {
    return gemm_cpu_workspace_bytes(config, gemm_cpu_sizes(args.gemm), units);
  }
  std::string_view order_of(const GemmCpuConfig&) const override { return "seq"; }
  std::string label_of(const GemmCpuConfig& config) const override {
    return fmt::format("{}x{}", config.tile_m, config.tile_n);
  }

 private:
  static Knobs erase_knobs(const GemmKnobs& knobs) { return {{knobs.block_m, knobs.block_n, knobs.block_k}}; }
};

}  // namespace

const KernelFamily& gemm_cpu_family() {
  static const GemmCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
