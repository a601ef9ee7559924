// SPDX-License-Identifier: MIT
// grouped_gemm_sm90: groups of any number of rows on Hopper, weights on the 64-row side of wgmma.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/cuda/sm90/sm90_promotion.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"
#include "ops/grouped_gemm/families/sm90/grouped_gemm_sm90_cost.hpp"
#include "ops/grouped_gemm/families/sm90/grouped_sm90_family.hpp"

namespace tilewright {
namespace {

struct GroupTile {
  int rows, tokens, step, warpgroups, depth, stages;
  GroupedTall tall = GroupedTall::kWeights;
};
// Stages are the most; what does not fit is left out.
constexpr GroupTile kGroupTiles[] = {{128, 256, 16, 2, 1, 4},
                                     {128, 256, 32, 2, 1, 4},
                                     {128, 192, 16, 2, 1, 5},
                                     {128, 160, 16, 2, 1, 5},
                                     {256, 128, 16, 2, 1, 4},
                                     {256, 192, 16, 2, 1, 3},
                                     {128, 128, 16, 2, 1, 6},
                                     {128, 64, 16, 2, 1, 8},
                                     {128, 64, 16, 2, 2, 4},
                                     {128, 32, 16, 2, 2, 5},
                                     {128, 16, 16, 2, 2, 5},
                                     {128, 16, 16, 2, 1, 11},
                                     {64, 64, 16, 1, 2, 6},
                                     {64, 32, 16, 1, 2, 8},
                                     {64, 16, 16, 1, 2, 10},
                                     {64, 16, 16, 1, 4, 5},
                                     {128, 256, 64, 2, 1, 4, GroupedTall::kTokens},
                                     {256, 128, 64, 2, 1, 4, GroupedTall::kTokens}};
// Of a separated gate a warpgroup has 128 rows.
constexpr GroupTile kSeparatedGroupTiles[] = {{256, 128, 16, 2, 1, 4}, {256, 96, 16, 2, 1, 5}, {256, 64, 16, 2, 1, 5},
                                              {256, 32, 16, 2, 1, 6},  {256, 16, 16, 2, 1, 6}, {128, 128, 16, 1, 1, 6},
                                              {128, 64, 16, 1, 2, 4},  {128, 16, 16, 1, 2, 5}};
constexpr int kGroupRasters[] = {8, 1};  // tiles of rows walked together
constexpr int kGroupClusters[] = {1, 2};
constexpr int kSharedTokens = 128;  // narrower tiles have little to share

std::span<const GroupTile> group_tiles_of(const GemmProblem& p) {
  if (choose_epilogue(p).gate == GateMode::kSeparated) return kSeparatedGroupTiles;
  return kGroupTiles;
}
bool group_fits_shared(const GroupedGemmSm90Config& c) {
  static const int kSharedBytes = find_arch("sm_90a")->shared_bytes;
  return grouped_sm90_shared_bytes(c) <= kSharedBytes;
}

GroupedGemmSm90Config group_config(const GemmProblem& p, const GroupTile& tile, Promotion promote, int cluster = 1) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  GroupedGemmSm90Config c{.dtype = p.a_dtype,
                          .epilogue = e.kind,
                          .activation = e.activation,
                          .gate = e.gate,
                          .d_dtype = e.d_dtype,
                          .promote = promote,
                          .rows = tile.rows,
                          .tokens = tile.tokens,
                          .step = tile.step,
                          .warpgroups = tile.warpgroups,
                          .depth = tile.depth,
                          .stages = tile.stages,
                          .cluster = cluster,
                          .tall = tile.tall};
  while (c.stages > 2 && !group_fits_shared(c)) --c.stages;
  return c;
}

// Knobs: how tiles are walked, and whether blocks take the next one from a counter or by turns.
struct GroupKnobs {
  int64_t raster = 8, counted = 1;
};
GroupKnobs group_knobs(const Knobs& knobs) { return {knobs.values[0], knobs.values[1]}; }

class GroupedGemmSm90Family final : public GroupedSm90Family<GroupedGemmSm90Config> {
 public:
  GroupedGemmSm90Family()
      : GroupedSm90Family("grouped_gemm_sm90", "sm90/grouped_gemm_sm90.cuh", "GroupedGemmSm90Args") {}

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"raster", "counted"};
    return kNames;
  }
  // Of 16 rows, for groups of few, and of 128.
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return keys;
    for (GemmProblem p : usual_gpu_problems(*arch)) {
      if (p.a_dtype != DType::kBf16 && p.a_dtype != DType::kF8E4M3) continue;
      p.has_alpha = 0;
      const Promotion promote = is_ocp_f8(p.a_dtype) ? Promotion::kScaled : Promotion::kNone;
      for (const GroupTile& tile : {GroupTile{128, 16, 16, 2, 2, 5}, {128, 128, 16, 2, 1, 6}}) {
        const GroupedGemmSm90Config c = group_config(p, tile, promote);
        if (refusal_of(c, *arch) == nullptr) keys.push_back(key_of(c, target));
      }
    }
    return keys;
  }

 protected:
  Status check_product(const GemmProblem& g) const override { return check_sm90_product(g); }
  Status check_sizes(const GroupedGemmProblem& p, const DeviceSpec& device) const override {
    const GemmProblem& g = p.gemm;
    if (sm90_wgmma(*device.arch, g.a_dtype, 16) == nullptr) {
      return unsupported(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(g.a_dtype)));
    }
    if (dtype_bits(g.a_dtype) > 16)
      return unsupported(fmt::format("A is {}, allowed: 8 and 16 bits", dtype_name(g.a_dtype)));
    const Status s = check_rows_along_k(g);
    return s ? check_copied_sizes(g) : s;
  }
  Status check_pair(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c,
                    const Knobs& given) const override {
    const GroupKnobs knobs = group_knobs(given);
    if (knobs.raster < 1 || knobs.raster > 1024)
      return unsupported(fmt::format("raster = {}, allowed: 1 to 1024", knobs.raster));
    if (knobs.counted != 0 && knobs.counted != 1)
      return unsupported(fmt::format("counted = {}, allowed: 0, 1", knobs.counted));
    Status s = check_sm90_promotion(p.gemm, c.promote);
    if (s) s = check_tiles(p, device, c);
    if (s) s = check_cluster(device, c);
    return s ? check_words(p.gemm, c) : s;
  }
  const char* refusal_of(const GroupedGemmSm90Config& c, const ArchSpec& arch) const override {
    if (const char* reason = grouped_sm90_refusal(c)) return reason;
    if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
    if (!group_fits_shared(c)) return "more shared memory than a multiprocessor has";
    return nullptr;
  }

  void add_candidates(const GroupedGemmProblem& p, const DeviceSpec& device,
                      std::vector<Candidate>& found) const override {
    for (const GroupTile& tile : group_tiles_of(p.gemm)) {
      for (const Promotion promote : sm90_promotions(p.gemm)) {
        for (const int cluster : kGroupClusters) {
          const GroupedGemmSm90Config c = group_config(p.gemm, tile, promote, cluster);
          if (cluster > 1 && (c.tokens < kSharedTokens || grouped_sm90_columns(c, p.gemm.n) < cluster)) continue;
          if (!check_cluster(device, c) || !check_words(p.gemm, c)) continue;
          if (refusal_of(c, *device.arch) == nullptr && check_tiles(p, device, c)) offer(p, device, c, found);
        }
      }
    }
  }
  double cost_of(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c,
                 const Knobs& knobs) const override {
    return grouped_gemm_sm90_cost(p, device, c, group_knobs(knobs).counted != 0);
  }
  std::string entry_order_of(const GroupedGemmSm90Config& c) const override {
    return sm90_order(c.dtype, c.promote, "wgmma_t");
  }
  std::string label_of(const GroupedGemmSm90Config& c) const override {
    return fmt::format("{}-{}x{}", dtype_name(c.dtype), c.rows, c.tokens);
  }
  int threads_of(const GroupedGemmSm90Config& c) const override { return grouped_sm90_threads(c); }
  int shared_bytes_of(const GroupedGemmSm90Config& c) const override { return grouped_sm90_shared_bytes(c); }

  Stage stage_of(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c,
                 const Knobs& given, Kernel kernel) const override {
    const GroupKnobs knobs = group_knobs(given);
    GemmSm90SkinnyArgs product{};
    product.batch_a = p.gemm.stride_a_batch != 0, product.batch_b = p.gemm.stride_b_batch != 0;
    product.scale = gemm_scale_args(p.gemm);
    Stage stage = enclosing_stage(p.gemm, product, std::move(kernel));
    add_scale_patches(stage, p.gemm, offsetof(GemmSm90SkinnyArgs, scale));
    std::erase_if(stage.patches, [](const ArgPatch& patch) { return patch.kind == ArgPatch::Kind::kWorkspace; });

    // The arguments of the product come first: their places stay.
    static_assert(offsetof(GroupedGemmSm90Args, product) == 0);
    static_assert(sizeof(GroupedGemmSm90Args) <= kMaxArgBytes);
    GroupedGemmSm90Args args{};
    std::memcpy(&args.product, stage.args.data(), sizeof(args.product));
    args.groups = group_args(p);
    args.raster = static_cast<int>(knobs.raster);
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    add_group_patches(stage, p, offsetof(GroupedGemmSm90Args, groups));
    for (int i = 0; i < kGroupedBoxes; ++i) {
      add_operand_a(stage, p.gemm, offsetof(GroupedGemmSm90Args, tokens) + static_cast<size_t>(i) * sizeof(TensorMap),
                    Major::kK, kGroupedSmallestBox << i);
    }
    add_operand_b(stage, p.gemm, offsetof(GroupedGemmSm90Args, product) + offsetof(GemmSm90SkinnyArgs, b), Major::kK,
                  gemm_sm90_skinny_box_rows(grouped_sm90_product(c, c.tokens)));
    if (knobs.counted != 0) {
      stage.zero_bytes = sizeof(GroupedCounters);
      add_patch(stage, ArgPatch::Kind::kZeros, 0, offsetof(GroupedGemmSm90Args, counters));
    }
    const int64_t clusters = std::clamp<int64_t>(most_tiles(p, c), 1, std::max(device.units / c.cluster, 1));
    stage.shape.cluster = {static_cast<uint32_t>(c.cluster), 1, 1};
    stage.shape.grid = {static_cast<uint32_t>(clusters * c.cluster), 1, 1};
    stage.shape.programmatic_edge = true;
    return stage;
  }

 private:
  // Each way to walk the tiles.
  void offer(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c,
             std::vector<Candidate>& found) const {
    for (const int raster : kGroupRasters) {
      // One tile of rows a group is walked alike, whatever the raster.
      if (raster != kGroupRasters[0] && p.likely_rows() <= c.tokens * p.gemm.batch) continue;
      for (const int counted : {1, 0}) {
        found.push_back({{key_of(c, device.arch->target), {{raster, counted}}},
                         grouped_gemm_sm90_cost(p, device, c, counted != 0)});
      }
    }
  }
  // However rows are spread, and were each group all of them; of clusters.
  static int64_t most_tiles(const GroupedGemmProblem& p, const GroupedGemmSm90Config& c) {
    return (p.gemm.m + c.tokens - 1) / c.tokens * p.gemm.batch * grouped_sm90_cluster_columns(c, p.gemm.n);
  }
  static Status check_words(const GemmProblem& p, const GroupedGemmSm90Config& c) {
    if (c.tall == GroupedTall::kWeights || has_d_words(p)) return {};
    return unsupported("d: tiles with tokens on the tall side write 16 bytes at once");
  }
  static Status check_cluster(const DeviceSpec& device, const GroupedGemmSm90Config& c) {
    if (c.cluster <= std::max(device.units, 1)) return {};
    return unsupported(fmt::format("cluster = {}, the device has {} multiprocessors", c.cluster, device.units));
  }
  static Status check_tiles(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c) {
    const int64_t tiles = (p.gemm.m + c.tokens - 1) / c.tokens;
    const double most =
        static_cast<double>(tiles) * static_cast<double>(p.gemm.batch) * grouped_sm90_cluster_columns(c, p.gemm.n);
    if (most + 2.0 * device.units < static_cast<double>(kMaxCopiedSize)) return {};
    return unsupported(fmt::format("groups may have {:.0f} tiles of {} rows, allowed: 2^31", most, c.tokens));
  }
};

}  // namespace

const KernelFamily& grouped_gemm_sm90_family() {
  static const GroupedGemmSm90Family kFamily;
  return kFamily;
}

}  // namespace tilewright
