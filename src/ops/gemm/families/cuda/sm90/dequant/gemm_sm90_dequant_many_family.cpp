// SPDX-License-Identifier: MIT
// gemm_sm90_dequant_many: any number of rows of A in 16 bits times narrow weights on Hopper, which are widened in registers.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "gemm/sm90/dequant/gemm_sm90_dequant_many_args.hpp"
#include "ops/gemm/families/cuda/narrow_weights_family.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_cost.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_tiles.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/gemm_families.hpp"

namespace tilewright {
namespace {

// Stages are the most that fit. With 128 tokens products last twice as long as what widens their weights.
constexpr DequantTile kManyTiles[] = {
    {256, 128, 2, 4, 1}, {128, 128, 2, 4, 1}, {192, 64, 3, 4, 1}, {128, 64, 2, 8, 1}, {128, 32, 2, 8, 1}};
constexpr DequantTile kSeparatedManyTiles[] = {{256, 64, 2, 4, 1}, {128, 64, 1, 8, 1}, {256, 32, 2, 6, 1}};
// A, rearranged, of one launch: rows beyond it are another launch's.
constexpr int64_t kMostRearranged = int64_t{256} << 20;

GemmSm90DequantConfig make_many_config(const GemmProblem& p, const DequantTile& tile, int scale_row) {
  GemmSm90DequantConfig c = dequant_config(p, tile, 1, scale_row);
  while (c.stages > 2 && !dequant_fits_shared(c)) --c.stages;
  return c;
}

class GemmSm90DequantManyFamily final : public NarrowWeightsFamily<GemmSm90DequantConfig> {
 public:
  GemmSm90DequantManyFamily()
      : NarrowWeightsFamily("gemm_sm90_dequant_many", {ArchVendor::kNvidia, "sm90/dequant/gemm_sm90_dequant_many.cuh",
                                                       "GemmSm90DequantManyArgs"}) {}

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"raster"};
    return kNames;
  }

 protected:
  bool reads_packed() const override { return true; }

  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (Status s = check_dequant_problem(p, device); !s) return s;
    // The smallest tile makes the most.
    if (p.n / 64 + 1 > kMaxCopiedSize / (p.m / 32 + 1) / std::max<int64_t>(p.batch, 1)) {
      return unsupported("more than 2^31 tiles");
    }
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec&, const GemmSm90DequantConfig& c,
                    const Knobs& knobs) const override {
    if (knobs.values[0] < 0 || knobs.values[0] > kMaxCopiedSize) {
      return unsupported(fmt::format("raster = {}, allowed: 0 to {}", knobs.values[0], kMaxCopiedSize));
    }
    return check_dequant_weights(p, c);
  }
  const char* refusal_of(const GemmSm90DequantConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemm_sm90_dequant_many_refusal(c)) return reason;
    return dequant_target_refusal(c, arch);
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    const bool separated = choose_epilogue(p).gate == GateMode::kSeparated;
    for (const DequantTile& tile : separated ? std::span<const DequantTile>(kSeparatedManyTiles) : kManyTiles) {
      for (const int scale_row : {0, dequant_scale_row(p)}) {
        const GemmSm90DequantConfig c = make_many_config(p, tile, scale_row);
        if (refusal_of(c, *device.arch) != nullptr) continue;
        if (!found.empty() && found.back().step.key == key_of(c, device.arch->target)) continue;
        found.push_back({{key_of(c, device.arch->target), {}}, cost_of(p, device, c, {})});
      }
    }
  }
  std::vector<GemmSm90DequantConfig> builtin_configs(const GemmProblem& usual, const ArchSpec&) const override {
    if (usual.a_dtype != DType::kBf16) return {};
    GemmProblem p = usual;
    p.b_dtype = DType::kI4, p.b_packed = 1;
    p.scale_b.dtype = DType::kF16, p.scale_b.outer = 1, p.scale_b.k = 128;
    return {make_many_config(p, {128, 128, 2, 4, 1}, 0)};
  }

  // As a batch of as many entries as there are pieces.
  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                 const Knobs&) const override {
    GemmProblem pieces = p;
    pieces.m = std::clamp<int64_t>(p.m, 1, c.tokens);
    pieces.batch = std::max<int64_t>(p.batch, 1) * pieces_of(p, c);
    pieces.stride_a_batch = pieces.m * p.k, pieces.stride_d_batch = pieces.m * p.n;
    return gemm_sm90_dequant_cost(pieces, device, c);
  }
  int64_t workspace_of(const GemmProblem& p, const DeviceSpec&, const GemmSm90DequantConfig& c,
                       const Knobs&) const override {
    return dequant_workspace_bytes(p, c, std::min(pieces_of(p, c), pieces_at_once(p, c)) * entries_of(p));
  }
  std::string order_of(const GemmSm90DequantConfig& c, const Knobs&) const override {
    return "seq:" + dequant_order(c);
  }
  std::string label_of(const GemmSm90DequantConfig& c) const override {
    return fmt::format("{}-{}x{}", dtype_name(c.weight), c.rows, c.tokens);
  }
  int threads_of(const GemmSm90DequantConfig& c) const override { return gemm_sm90_dequant_threads(c); }
  int blocks_of(const GemmSm90DequantConfig& c) const override { return c.blocks; }
  int shared_bytes_of(const GemmSm90DequantConfig& c) const override { return gemm_sm90_dequant_shared_bytes(c); }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                               const Knobs& knobs, Kernel kernel) const override {
    GemmSm90SkinnyArgs product{};
    product.batch_a = p.stride_a_batch != 0, product.batch_b = p.stride_b_batch != 0;
    product.stage_tokens = c.tokens;
    Stage stage = dequant_stage(p, c, product, 0, std::move(kernel));
    stage.shape.shared_bytes = static_cast<uint32_t>(gemm_sm90_dequant_shared_bytes(c));

    // The arguments of the product come first: their places stay.
    static_assert(offsetof(GemmSm90DequantManyArgs, product) == 0);
    static_assert(sizeof(GemmSm90DequantManyArgs) <= kMaxArgBytes);
    GemmSm90DequantManyArgs args{};
    std::memcpy(&args.product, stage.args.data(), sizeof(args.product));
    const int64_t pieces = pieces_of(p, c), at_once = pieces_at_once(p, c), columns = columns_of(p, c);
    std::vector<Stage> stages;
    for (int64_t first = 0; first < pieces; first += at_once) {
      args.first = static_cast<int>(first), args.pieces = static_cast<int>(std::min(at_once, pieces - first));
      args.raster = static_cast<int>(std::clamp<int64_t>(raster_of(c, device, knobs), 1, args.pieces));
      stage.args.resize(sizeof(args));
      std::memcpy(stage.args.data(), &args, sizeof(args));
      const int64_t tiles = columns * args.pieces * p.batch, present = int64_t{std::max(device.units, 1)} * c.blocks;
      stage.shape.grid = {static_cast<uint32_t>(std::clamp<int64_t>(tiles, 1, present)), 1, 1};
      stages.push_back(stage);
    }
    return stages;
  }

 private:
  static int64_t entries_of(const GemmProblem& p) { return p.stride_a_batch != 0 ? std::max<int64_t>(p.batch, 1) : 1; }
  static int64_t pieces_of(const GemmProblem& p, const GemmSm90DequantConfig& c) {
    return std::max<int64_t>((p.m + c.tokens - 1) / c.tokens, 1);
  }
  // Of each entry of the batch, of one launch.
  static int64_t pieces_at_once(const GemmProblem& p, const GemmSm90DequantConfig& c) {
    if (gemm_sm90_dequant_in_order(c)) return pieces_of(p, c);
    return std::max<int64_t>(kMostRearranged / std::max<int64_t>(dequant_workspace_bytes(p, c, entries_of(p)), 1), 1);
  }
  static int64_t columns_of(const GemmProblem& p, const GemmSm90DequantConfig& c) {
    const int columns = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(c));
    return ((c.gate == GateMode::kSeparated ? p.n / 2 : p.n) + columns - 1) / columns;
  }
  // What runs at a time then reads the fewest bytes of weights and A.
  static int64_t raster_of(const GemmSm90DequantConfig& c, const DeviceSpec& device, const Knobs& knobs) {
    if (knobs.values[0] > 0) return knobs.values[0];
    const double blocks = std::max(device.units, 1) * c.blocks, of_weights = c.rows * dtype_bits(c.weight);
    return std::llround(std::sqrt(blocks * of_weights / (c.tokens * 16.0)));
  }
};

}  // namespace

const KernelFamily& gemm_sm90_dequant_many_family() {
  static const GemmSm90DequantManyFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
