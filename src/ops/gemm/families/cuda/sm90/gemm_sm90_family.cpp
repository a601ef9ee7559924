// SPDX-License-Identifier: MIT
// gemm_sm90: wgmma and the copy engine of Hopper, for operands that the copy engine can read.
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/cuda/sm90/sm90_promotion.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"

namespace tilewright {
namespace {

struct Tile {
  int m, n, warpgroups, stages, cluster_m, cluster_n;
};
constexpr Tile kTiles[] = {
    {128, 256, 2, 4, 2, 1}, {128, 256, 2, 4, 1, 2}, {128, 256, 2, 4, 1, 1}, {256, 128, 2, 4, 1, 2},
    {256, 128, 2, 4, 2, 1}, {256, 128, 2, 4, 1, 1}, {128, 240, 2, 4, 2, 1}, {128, 224, 2, 4, 2, 1},
    {128, 224, 2, 4, 1, 1}, {128, 192, 2, 4, 2, 1}, {128, 192, 2, 4, 1, 2}, {128, 192, 2, 4, 1, 1},
    {128, 176, 2, 5, 2, 1}, {128, 176, 2, 5, 1, 2}, {128, 144, 2, 6, 2, 1}, {128, 128, 2, 6, 1, 2},
    {128, 128, 2, 6, 2, 1}, {128, 128, 1, 6, 2, 1}, {128, 128, 2, 6, 1, 1}, {64, 256, 1, 5, 2, 1},
    {64, 128, 1, 8, 1, 1},  {64, 64, 1, 8, 1, 1}};
constexpr Tile kPrebuiltTiles[] = {{128, 256, 2, 4, 2, 1}, {128, 128, 2, 6, 2, 1}, {64, 128, 1, 8, 1, 1}};
constexpr int kRaster = 8;  // rows of tiles walked together, in clusters
constexpr int kOtherRaster = 16;
constexpr double kUnusualRaster = 1.01;
constexpr int kMaxSplit = 8;
constexpr int kCounterBytes = 16384;
constexpr int kMaxCounters = kCounterBytes / 4;

struct Sm90Knobs {
  int64_t raster = kRaster, split = 1;
};
Sm90Knobs typed(const Knobs& knobs) { return {knobs.values[0], knobs.values[1]}; }
Knobs erase_knobs(const Sm90Knobs& knobs) { return {{knobs.raster, knobs.split}}; }

// As many stages as there is shared memory for.
GemmSm90Config with_stages(GemmSm90Config c) {
  static const int kSharedBytes = find_arch("sm_90a")->shared_bytes;
  while (c.stages > 2 && gemm_sm90_shared_bytes(c) > kSharedBytes) --c.stages;
  return c;
}

// The config of a problem with this tile; the rest of it the problem decides.
GemmSm90Config make_config(const GemmProblem& p, const Tile& tile, Promotion promote) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  const bool words = e.kind != EpilogueKind::kFull && e.gate != GateMode::kInterleaved && has_d_words(p);
  return with_stages({.dtype = p.a_dtype,
                      .a_major = access_a(p).major,
                      .b_major = access_b(p).major,
                      .epilogue = e.kind,
                      .activation = e.activation,
                      .gate = e.gate,
                      .d_dtype = e.d_dtype,
                      .d_words = words,
                      .promote = promote,
                      .tile_m = tile.m,
                      .tile_n = tile.n,
                      .warpgroups = tile.warpgroups,
                      .stages = tile.stages,
                      .cluster_m = tile.cluster_m,
                      .cluster_n = tile.cluster_n});
}

class GemmSm90Family final : public GpuFamily<GemmSm90Config> {
 public:
  GemmSm90Family() : GpuFamily("gemm_sm90", {ArchVendor::kNvidia, "sm90/gemm_sm90.cuh", "GemmSm90Args"}) {}

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"raster", "split"};
    return kNames;
  }

 protected:
  Status check_product(const GemmProblem& p) const override { return check_sm90_product(p); }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (p.batch_invariant) return unsupported("batch_invariant: this device's order of summation is gemm_portable's");
    if (p.a_dtype == DType::kF32 && !p.allow_tf32) {
      return unsupported("wgmma rounds f32 to tf32, which allow_tf32 does not allow");
    }
    if (sm90_wgmma(*device.arch, p.a_dtype, 128) == nullptr) {
      return unsupported(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    for (const auto& [name, access] : {std::pair{"a", access_a(p)}, {"b", access_b(p)}}) {
      if (access.copy != 16) {
        return unsupported(fmt::format("{}: the copy engine wants rows at multiples of 16 bytes", name));
      }
      if (access.major == Major::kMn && dtype_bits(p.a_dtype) != 16) {
        return unsupported(fmt::format("{}: wgmma reads {} along K only", name, dtype_name(p.a_dtype)));
      }
    }
    if (Status s = check_copied_sizes(p); !s) return s;
    // The smallest tile makes the most.
    if ((p.m / 64 + 1) > kMaxCopiedSize / (p.n / 64 + 1) / p.batch) return unsupported("more than 2^31 tiles");
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c,
                    const Knobs& erased) const override {
    for (const auto& [name, need, have] :
         {std::tuple{"a", access_a(p).major, c.a_major}, {"b", access_b(p).major, c.b_major}}) {
      if (need != have) {
        return unsupported(fmt::format("{} lies along {}, the kernel reads along {}", name,
                                       fields_detail::print_value(need), fields_detail::print_value(have)));
      }
    }
    if (Status s = check_sm90_promotion(p, c.promote); !s) return s;
    if (c.d_words && !has_d_words(p)) return unsupported("d: the kernel writes 16 bytes at once");
    if (gemm_sm90_by_pieces(c)) {
      if (Status s = check_copied_output(p); !s) return s;
    }
    const Sm90Knobs knobs = typed(erased);
    if (knobs.raster < 1 || knobs.raster > 65536) {
      return unsupported(fmt::format("raster = {}, allowed: 1 to 65536", knobs.raster));
    }
    return check_split(p, device, c, knobs.split);
  }

  const char* refusal_of(const GemmSm90Config& c, const ArchSpec& arch) const override {
    if (const char* reason = gemm_sm90_refusal(c)) return reason;
    // The odd halves of 208 and 240 columns make the compiler spill.
    if (c.promote != Promotion::kNone && gemm_sm90_columns_at_once(c) % 16 != 0)
      return "promote: half of tile_n is no multiple of 16";
    if (c.promote != Promotion::kNone && gemm_sm90_last_columns(c) != 0 && c.tile_n > 192 && !gemm_sm90_is_short(c))
      return "promote: such an activation of such a tile makes the compiler spill";
    for (const int n : {c.tile_n, gemm_sm90_columns_at_once(c)}) {
      if (sm90_wgmma(arch, c.dtype, n) == nullptr) return "the target has no such wgmma";
    }
    if (gemm_sm90_shared_bytes(c) > arch.shared_bytes) return "more shared memory than a block can use";
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Promotion promote : sm90_promotions(p)) {
      for (const Tile& tile : kTiles) add_tile(p, device, make_config(p, tile, promote), found);
    }
  }
  std::vector<GemmSm90Config> builtin_configs(const GemmProblem& p, const ArchSpec&) const override {
    std::vector<GemmSm90Config> configs;
    if (p.a_dtype == DType::kF32 && !p.allow_tf32) return configs;
    for (const Tile& tile : kPrebuiltTiles) {
      configs.push_back(make_config(p, tile, sm90_promotions(p).front()));
      if (!is_ocp_f8(p.a_dtype)) continue;
      // With scales of groups, which are no work of the epilogue.
      GemmProblem scaled = p;
      scaled.has_alpha = 0;
      configs.push_back(make_config(scaled, tile, Promotion::kScaled));
    }
    return configs;
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c,
                 const Knobs& knobs) const override {
    return gemm_sm90_cost(p, device, c, static_cast<int>(typed(knobs).split));
  }
  int64_t workspace_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c,
                       const Knobs& knobs) const override {
    const int split = static_cast<int>(typed(knobs).split);
    return split > 1 ? gemm_sm90_partial_bytes(c, share_of(p, device, c, split).rest, split) : 0;
  }
  std::string order_of(const GemmSm90Config& c, const Knobs& knobs) const override {
    const int64_t split = typed(knobs).split;
    return fmt::format("{}:{}", split == 1 ? "seq" : fmt::format("split{}", split),
                       sm90_order(c.dtype, c.promote, "wgmma"));
  }
  std::string label_of(const GemmSm90Config& c) const override { return fmt::format("{}x{}", c.tile_m, c.tile_n); }
  int threads_of(const GemmSm90Config& c) const override { return gemm_sm90_threads(c); }
  int blocks_of(const GemmSm90Config&) const override { return 1; }

  int shared_bytes_of(const GemmSm90Config& c) const override { return gemm_sm90_shared_bytes(c); }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c,
                               const Knobs& erased, Kernel kernel) const override {
    const Sm90Knobs knobs = typed(erased);
    GemmSm90Args args{};
    args.batch_a = p.stride_a_batch != 0, args.batch_b = p.stride_b_batch != 0;
    args.scale = gemm_scale_args(p);
    args.share = share_of(p, device, c, knobs.split);
    args.walk = gemm_sm90_walk(c, args.share, p.k, static_cast<int>(knobs.raster), static_cast<int>(knobs.split));
    Stage stage = enclosing_stage(p, args, std::move(kernel));
    add_scale_patches(stage, p, offsetof(GemmSm90Args, scale));
    if (knobs.split > 1) {
      add_patch(stage, ArgPatch::Kind::kWorkspace, 0, offsetof(GemmSm90Args, partials));
      stage.zero_bytes = kCounterBytes;
      add_patch(stage, ArgPatch::Kind::kZeros, 0, offsetof(GemmSm90Args, counters));
    }
    add_operand_a(stage, p, offsetof(GemmSm90Args, a), c.a_major, c.tile_m / c.cluster_n);
    add_operand_b(stage, p, offsetof(GemmSm90Args, b), c.b_major, gemm_sm90_copy_columns(c));
    if (gemm_sm90_by_pieces(c)) {
      add_output_d(stage, p, offsetof(GemmSm90Args, d), 64, kSm90BoxColumns);
      if (const int last = gemm_sm90_last_columns(c); last != 0) {
        add_output_d(stage, p, offsetof(GemmSm90Args, d_last), 64, last);
      }
    }

    const GemmSm90Share share = args.share;
    const int clusters = share.rest > 0 ? clusters_of(device, c) : std::min(share.whole, clusters_of(device, c));
    stage.shape.cluster = {static_cast<uint32_t>(c.cluster_m * c.cluster_n), 1, 1};
    stage.shape.grid = {static_cast<uint32_t>(clusters) * stage.shape.cluster[0], 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemm_sm90_threads(c));
    stage.shape.programmatic_edge = true;
    stage.shape.cooperative = share.rest > 0;  // parts of a tile wait for each other
    stage.shape.shared_bytes = static_cast<uint32_t>(gemm_sm90_shared_bytes(c));
    return {std::move(stage)};
  }

 private:
  // Each way to cut what is left over and to walk the tiles.
  void add_tile(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& config,
                std::vector<Candidate>& found) const {
    if (refusal_of(config, *device.arch) != nullptr) return;
    const KernelKey key = key_of(config, device.arch->target);
    for (int split = 1; split <= kMaxSplit; ++split) {
      if (!check_split(p, device, config, split)) continue;
      const double cost = gemm_sm90_cost(p, device, config, split);
      const int tiles_m = share_of(p, device, config, split).tiles_m;
      // Where D leaves by pieces whole columns of tiles, one after another, are faster than squares of them.
      const bool columns = gemm_sm90_by_pieces(config) && tiles_m <= kOtherRaster;
      found.push_back(
          {{key, erase_knobs({kRaster, split})}, columns && tiles_m > kRaster ? cost * kUnusualRaster : cost});
      if (tiles_m > kRaster) {
        found.push_back({{key, erase_knobs({kOtherRaster, split})}, columns ? cost : cost * kUnusualRaster});
      }
    }
  }
  static int clusters_of(const DeviceSpec& device, const GemmSm90Config& c) {
    return std::max(1, device.units / (c.cluster_m * c.cluster_n));
  }
  static GemmSm90Share share_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c,
                                int64_t split) {
    return gemm_sm90_share(c, p.m, p.n, p.batch, static_cast<int>(split), clusters_of(device, c));
  }
  // Ok, or why the tiles that are left cannot be cut into so many parts.
  static Status check_split(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c, int64_t split) {
    if (split < 1 || split > kMaxSplit) {
      return unsupported(fmt::format("split = {}, allowed: 1 to {}", split, kMaxSplit));
    }
    if (split == 1) return {};
    const GemmSm90Share share = share_of(p, device, c, split);
    if (share.rest == 0) return unsupported("split: no tile is left over");
    if (share.rest * split > clusters_of(device, c)) {
      return unsupported(
          fmt::format("split = {}: {} tiles are left over for {} clusters", split, share.rest, clusters_of(device, c)));
    }
    if (split * sm90_tile_k(c.dtype) > p.k) {
      return unsupported(fmt::format("split = {}: K = {} has fewer steps", split, p.k));
    }
    if (share.rest * c.cluster_m * c.cluster_n * (c.tile_m / 64) > kMaxCounters) {
      return unsupported("split: too many parts");
    }
    return {};
  }
};

}  // namespace

const KernelFamily& gemm_sm90_family() {
  static const GemmSm90Family kFamily;
  return kFamily;
}

}  // namespace tilewright
