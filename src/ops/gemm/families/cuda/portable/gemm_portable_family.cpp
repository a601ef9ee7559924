// SPDX-License-Identifier: MIT
// gemm_portable: mma.sync and cp.async on every NVIDIA GPU from capability 8.0 up, any strides and alignments.
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"

namespace tilewright {
namespace {

struct Tile {
  int m, n, k_bytes, warps_m, warps_n, stages;
};
// What is worth trying; gemm_portable_refusal() and the target's shared memory have the last word.
constexpr Tile kMmaTiles[] = {{128, 128, 64, 2, 2, 4},  {128, 256, 64, 2, 4, 4}, {256, 128, 64, 4, 2, 4},
                              {128, 128, 128, 2, 2, 3}, {128, 64, 128, 2, 2, 4}, {64, 128, 128, 2, 2, 4},
                              {64, 64, 128, 2, 2, 4},   {32, 128, 128, 1, 4, 4}, {32, 64, 128, 1, 4, 5},
                              {16, 128, 128, 1, 4, 5},  {16, 64, 256, 1, 4, 5}};
constexpr Tile kFmaTiles[] = {{128, 128, 64, 4, 2, 3},
                              {128, 64, 64, 4, 1, 3},
                              {64, 64, 64, 2, 2, 4},
                              {32, 64, 64, 1, 2, 4},
                              {16, 64, 64, 1, 2, 5}};
constexpr Tile kPrebuiltMmaTiles[] = {{128, 128, 64, 2, 2, 4}, {64, 64, 128, 2, 2, 4}, {16, 128, 128, 1, 4, 5}};
constexpr double kUnusualBand = 1.02;
constexpr double kMaxBlocks = 0x1p31 - 1;  // of a launch
constexpr const char* kTooManyBlocks = "D has more tiles than a launch has blocks";

struct PortableKnobs {
  int64_t band = 0, split_k = 0;
};
PortableKnobs typed(const Knobs& knobs) { return {knobs.values[0], knobs.values[1]}; }
Knobs erase_knobs(const PortableKnobs& knobs) { return {{knobs.band, knobs.split_k}}; }

PortableMma mma_of(const GemmProblem& p) {
  if (p.a_dtype != DType::kF32) return PortableMma::kMma;
  return p.allow_tf32 ? PortableMma::kTf32 : PortableMma::kFma;
}

// A copy that the instruction cannot take becomes one by elements: ldmatrix transposes 16-bit types only, and the FMA
// form wants rows of M or N.
int usable_copy(const OperandAccess& access, DType dtype, PortableMma mma) {
  const bool transposed = access.major == Major::kMn;
  if (mma == PortableMma::kFma) return transposed ? access.copy : 0;
  return transposed && dtype_bits(dtype) != 16 ? 0 : access.copy;
}

// The config of a problem with this tile; the rest of it the problem decides.
GemmPortableConfig make_config(const GemmProblem& p, const Tile& tile) {
  const OperandAccess a = access_a(p), b = access_b(p);
  const GemmEpilogueConfig e = choose_epilogue(p);
  const PortableMma mma = mma_of(p);
  return {p.a_dtype,
          mma,
          a.major,
          b.major,
          usable_copy(a, p.a_dtype, mma),
          usable_copy(b, p.b_dtype, mma),
          tile.m,
          tile.n,
          tile.k_bytes * 8 / dtype_bits(p.a_dtype),
          tile.warps_m,
          tile.warps_n,
          tile.stages,
          e.kind,
          e.activation,
          e.gate,
          e.d_dtype};
}

GemmPortableTiles tiles_of(const GemmProblem& p, const GemmPortableConfig& c, const PortableKnobs& knobs) {
  return gemm_portable_tiles(c, p.m, p.n, p.k, knobs.split_k);
}

// Whether each launch has no more blocks than a grid can have.
bool fits_launches(const GemmProblem& p, const GemmPortableConfig& c, const PortableKnobs& knobs) {
  const GemmPortableTiles tiles = tiles_of(p, c, knobs);
  const double count = static_cast<double>(tiles.m) * static_cast<double>(tiles.n) * static_cast<double>(p.batch);
  if (tiles.splits == 1) return count <= kMaxBlocks;
  return count * static_cast<double>(std::max<int64_t>(tiles.splits, gemm_portable_reduce_blocks(c))) <= kMaxBlocks;
}

// Splits of K that fill the SMs, in whole tiles.
std::vector<int64_t> splits(const GemmProblem& p, const DeviceSpec& device, const GemmPortableConfig& c) {
  std::vector<int64_t> found{0};
  const GemmPortableTiles tiles = tiles_of(p, c, {});
  if (p.batch_invariant) return found;
  const int64_t blocks = tiles.m * tiles.n * p.batch;
  for (const int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    const int64_t block_k = (p.k + count * c.tile_k - 1) / (count * c.tile_k) * c.tile_k;
    if (blocks * count > 4 * device.units || block_k < 4 * c.tile_k || block_k >= p.k) break;
    if (found.back() != block_k) found.push_back(block_k);
  }
  return found;
}

std::span<const Tile> tiles_for(const GemmProblem& p) {
  return mma_of(p) == PortableMma::kFma ? std::span<const Tile>(kFmaTiles) : std::span<const Tile>(kMmaTiles);
}

class GemmPortableFamily final : public GpuFamily<GemmPortableConfig> {
 public:
  GemmPortableFamily() : GpuFamily("gemm_portable", {ArchVendor::kNvidia, "portable/gemm_portable.cuh", "GemmArgs"}) {}

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"band", "split_k"};
    return kNames;
  }

 protected:
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (portable_mma(*device.arch, p.a_dtype, mma_of(p)) == nullptr) {
      return unsupported(fmt::format("{} has no instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    // The first tile is legal for every problem.
    if (!fits_launches(p, make_config(p, tiles_for(p).front()), {})) return unsupported(kTooManyBlocks);
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec&, const GemmPortableConfig& c,
                    const Knobs& erased) const override {
    if (c.mma == PortableMma::kTf32 && !p.allow_tf32) {
      return unsupported("tf32 rounds A and B, which allow_tf32 does not allow");
    }
    for (const auto& [name, access, major, copy] :
         {std::tuple{"a", access_a(p), c.a_major, c.a_copy}, {"b", access_b(p), c.b_major, c.b_copy}}) {
      if (copy == 0 || (major == access.major && copy <= access.copy)) continue;
      return unsupported(fmt::format("{} lies along {} in pieces of {} bytes, the kernel copies {} bytes along {}",
                                     name, fields_detail::print_value(access.major), access.copy, copy,
                                     fields_detail::print_value(major)));
    }
    const PortableKnobs knobs = typed(erased);
    if (knobs.band < 0 || knobs.band > 65536) {
      return unsupported(fmt::format("band = {}, allowed: 0 to 65536", knobs.band));
    }
    if (knobs.split_k < 0 || knobs.split_k % c.tile_k != 0) {
      return unsupported(fmt::format("split_k = {}, allowed: multiples of tile_k = {}", knobs.split_k, c.tile_k));
    }
    const GemmPortableTiles tiles = tiles_of(p, c, knobs);
    if (tiles.splits > 1 && p.batch_invariant) return unsupported("batch_invariant: a split of K has another order");
    if (!fits_launches(p, c, knobs)) return unsupported(kTooManyBlocks);
    return {};
  }

  const char* refusal_of(const GemmPortableConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemm_portable_refusal(c)) return reason;
    if (portable_mma(arch, c.dtype, c.mma) == nullptr) return "the target has no such instruction";
    if (gemm_portable_shape(c).shared_bytes > arch.shared_bytes) return "more shared memory than a block can use";
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Tile& tile : tiles_for(p)) {
      const GemmPortableConfig config = make_config(p, tile);
      if (refusal_of(config, *device.arch) != nullptr || !fits_launches(p, config, {})) continue;
      const KernelKey key = key_of(config, device.arch->target);
      for (const int64_t split_k : splits(p, device, config)) {
        const double cost = gemm_portable_cost(p, device, config, split_k);
        found.push_back({{key, erase_knobs({0, split_k})}, cost});
        if (split_k != 0 || tiles_of(p, config, {}).m <= kPortableBand) continue;
        for (const int64_t band : {4, 16}) found.push_back({{key, erase_knobs({band, 0})}, cost * kUnusualBand});
      }
    }
  }
  // The least epilogue and the full one: what serves while better instances are built.
  std::vector<GemmPortableConfig> builtin_configs(const GemmProblem& usual, const ArchSpec&) const override {
    const bool fma = mma_of(usual) == PortableMma::kFma;
    std::vector<GemmPortableConfig> configs;
    for (const uint8_t steps : {0, 1}) {
      GemmProblem p = usual;
      p.step_count = steps;
      for (const Tile& tile : fma ? std::span<const Tile>(kFmaTiles).first(1) : std::span(kPrebuiltMmaTiles)) {
        configs.push_back(make_config(p, tile));
      }
    }
    return configs;
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmPortableConfig& c,
                 const Knobs& knobs) const override {
    return gemm_portable_cost(p, device, c, typed(knobs).split_k);
  }
  int64_t workspace_of(const GemmProblem& p, const DeviceSpec&, const GemmPortableConfig& c,
                       const Knobs& knobs) const override {
    return gemm_portable_workspace_bytes(c, tiles_of(p, c, typed(knobs)), p.batch);
  }
  std::string order_of(const GemmPortableConfig& c, const Knobs& knobs) const override {
    const int64_t split_k = typed(knobs).split_k;
    const std::string order = split_k == 0 ? "seq" : fmt::format("split{}", split_k);
    return fmt::format("{}:{}", order, fields_detail::print_value(c.mma));
  }
  std::string label_of(const GemmPortableConfig& c) const override {
    return fmt::format("{}x{}x{}", c.tile_m, c.tile_n, c.tile_k);
  }
  int threads_of(const GemmPortableConfig& c) const override { return gemm_portable_shape(c).threads; }
  int blocks_of(const GemmPortableConfig& c) const override { return gemm_portable_shape(c).blocks; }

  int shared_bytes_of(const GemmPortableConfig& c) const override { return gemm_portable_shape(c).shared_bytes; }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec&, const GemmPortableConfig& c,
                               const Knobs& erased, Kernel kernel) const override {
    const PortableKnobs knobs = typed(erased);
    const GemmPortableShape shape = gemm_portable_shape(c);
    const GemmPortableTiles tiles = tiles_of(p, c, knobs);
    const int64_t count = tiles.m * tiles.n * p.batch;
    const auto stage = [&](GemmPortablePhase phase, int64_t blocks) {
      Stage made = gemm_stage(p, {knobs.band, phase, knobs.split_k}, 1, kernel);
      made.shape.grid = {static_cast<uint32_t>(blocks), 1, 1};
      made.shape.threads = static_cast<uint32_t>(shape.threads);
      made.shape.shared_bytes = static_cast<uint32_t>(shape.shared_bytes);
      return made;
    };
    std::vector<Stage> made{stage(kPortableWhole, count * tiles.splits)};
    if (tiles.splits > 1) made.push_back(stage(kPortableReduce, count * gemm_portable_reduce_blocks(c)));
    return made;
  }
};

}  // namespace

const KernelFamily& gemm_portable_family() {
  static const GemmPortableFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
