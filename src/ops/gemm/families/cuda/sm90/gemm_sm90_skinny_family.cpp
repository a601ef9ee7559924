// SPDX-License-Identifier: MIT
// gemm_sm90_skinny: at most 128 rows of A on Hopper, weights on the 64-row side of wgmma.
#include <algorithm>

#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_skinny_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/cuda/sm90/sm90_cut.hpp"
#include "ops/gemm/families/cuda/sm90/sm90_promotion.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"

namespace tilewright {
namespace {

struct Tile {
  int rows, tokens, warpgroups, depth, stages, cluster, blocks;
};
constexpr Tile kTiles[] = {
    {64, 8, 1, 2, 6, 1, 2},   {64, 8, 1, 4, 6, 1, 1},    {64, 8, 1, 4, 3, 1, 1},    {64, 16, 1, 2, 5, 1, 2},
    {64, 16, 1, 2, 11, 1, 1}, {64, 16, 1, 2, 5, 1, 1},   {64, 16, 1, 4, 5, 1, 1},   {64, 32, 1, 2, 4, 1, 2},
    {64, 32, 1, 2, 9, 1, 1},  {64, 32, 1, 4, 4, 1, 1},   {64, 64, 1, 2, 6, 1, 1},   {64, 64, 1, 2, 3, 1, 2},
    {64, 64, 1, 1, 6, 1, 2},  {64, 64, 1, 1, 13, 1, 1},  {64, 64, 1, 4, 3, 1, 1},   {64, 64, 1, 2, 6, 2, 1},
    {64, 64, 1, 2, 6, 4, 1},  {64, 128, 1, 1, 9, 1, 1},  {64, 128, 1, 2, 4, 1, 1},  {64, 128, 1, 1, 9, 2, 1},
    {64, 128, 1, 1, 9, 4, 1}, {128, 128, 2, 1, 6, 1, 1}, {128, 128, 2, 1, 6, 2, 1}, {128, 128, 2, 1, 6, 4, 1},
    {256, 128, 2, 1, 4, 1, 1}};
// Of a separated gate a warpgroup has 128 rows.
constexpr Tile kSeparatedTiles[] = {{128, 8, 1, 2, 6, 1, 1},   {128, 16, 1, 2, 6, 1, 1},  {128, 16, 1, 2, 3, 1, 2},
                                    {128, 32, 1, 2, 5, 1, 1},  {128, 64, 1, 2, 4, 1, 1},  {128, 64, 1, 2, 4, 2, 1},
                                    {128, 64, 1, 2, 4, 4, 1},  {128, 128, 1, 1, 6, 1, 1}, {128, 128, 1, 1, 6, 2, 1},
                                    {128, 128, 1, 1, 6, 4, 1}, {256, 128, 2, 1, 4, 1, 1}, {256, 128, 2, 1, 4, 2, 1}};
constexpr int kSplits[] = {0, 1, 2, 4, 8}, kMeetings[] = {2, 3, 4, 6, 8};
constexpr int kMaxTokens = 128;
constexpr int kBlockShared = 1024;  // of every block, the system's own

std::span<const Tile> tiles_of(const GemmProblem& p) {
  if (choose_epilogue(p).gate == GateMode::kSeparated) return kSeparatedTiles;
  return kTiles;
}
// Whether a multiprocessor has room for its blocks.
bool fits_shared(const GemmSm90SkinnyConfig& c) {
  static const int kSharedBytes = find_arch("sm_90a")->shared_bytes;
  return c.blocks * (gemm_sm90_skinny_shared_bytes(c) + kBlockShared) <= kSharedBytes + kBlockShared;
}

// `meet`: the parts of a tile are the blocks of a cluster.
GemmSm90SkinnyConfig make_config(const GemmProblem& p, const Tile& tile, Promotion promote, int splits,
                                 bool meet = false) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  GemmSm90SkinnyConfig c{.dtype = p.a_dtype,
                         .epilogue = e.kind,
                         .activation = e.activation,
                         .gate = e.gate,
                         .d_dtype = e.d_dtype,
                         .promote = promote,
                         .rows = tile.rows,
                         .tokens = tile.tokens,
                         .warpgroups = tile.warpgroups,
                         .depth = tile.depth,
                         .stages = tile.stages,
                         .cluster = meet ? splits : tile.cluster,
                         .blocks = tile.blocks,
                         .splits = splits};
  // Scales take room in shared memory, and so do sums of other parts.
  while ((c.promote == Promotion::kScaled || meet) && c.stages > 2 && !fits_shared(c)) --c.stages;
  return c;
}

class GemmSm90SkinnyFamily final : public GpuFamily<GemmSm90SkinnyConfig> {
 public:
  GemmSm90SkinnyFamily()
      : GpuFamily("gemm_sm90_skinny", {ArchVendor::kNvidia, "sm90/skinny/gemm_sm90_skinny.cuh", "GemmSm90SkinnyArgs"}) {
  }

  std::span<const std::string_view> knob_names() const override { return {}; }

 protected:
  Status check_product(const GemmProblem& p) const override { return check_sm90_product(p); }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (p.m > kMaxTokens) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kMaxTokens));
    if (p.batch_invariant) return unsupported("batch_invariant: more rows are summed in another order");
    if (choose_epilogue(p).kind == EpilogueKind::kFull) {
      return unsupported("the epilogue has C, steps, or an operand that varies by both row and column");
    }
    if (const char* reason =
            gemm_sm90_skinny_refusal(make_config(p, tiles_of(p).front(), sm90_promotions(p).front(), 1)))
      return unsupported(reason);
    if (sm90_wgmma(*device.arch, p.a_dtype, 8) == nullptr) {
      return unsupported(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    for (const auto& [name, access] : {std::pair{"a", access_a(p)}, {"b", access_b(p)}}) {
      if (access.major != Major::kK || access.copy != 16) {
        return unsupported(fmt::format("{}: the copy engine wants rows along K, at multiples of 16 bytes", name));
      }
    }
    if (Status s = check_copied_sizes(p); !s) return s;
    // The smallest tile makes the most.
    if (p.n / 64 + 1 > kMaxCopiedSize / (p.k / 64 + 1) / p.batch) return unsupported("more than 2^31 tiles");
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c,
                    const Knobs&) const override {
    if (p.m > c.tokens) return unsupported(fmt::format("M = {}, the kernel takes {}", p.m, c.tokens));
    if (Status s = check_sm90_promotion(p, c.promote); !s) return s;
    return check_sm90_cut(cut_of(p, device, c), c.splits, p.k);
  }

  const char* refusal_of(const GemmSm90SkinnyConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemm_sm90_skinny_refusal(c)) return reason;
    if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
    if (!fits_shared(c)) return "more shared memory than a multiprocessor has";
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Tile& tile : tiles_of(p)) {
      // Rows that are not there cost what others do: the fewest that hold M.
      if (tile.tokens < p.m || (tile.tokens > 16 && tile.tokens / 2 >= p.m)) continue;
      if (tile.tokens == 16 && p.m <= 8) continue;
      for (const Promotion promote : sm90_promotions(p)) {
        for (const int splits : kSplits) {
          // Two or more blocks that share A's tiles cannot be as many parts: those would be one cluster.
          if (tile.cluster == 1 || tile.cluster != splits) {
            add_config(p, device, make_config(p, tile, promote, splits), found);
          }
        }
        if (tile.cluster > 1) continue;
        for (const int parts : kMeetings) add_config(p, device, make_config(p, tile, promote, parts, true), found);
      }
    }
  }
  std::vector<GemmSm90SkinnyConfig> builtin_configs(const GemmProblem& p, const ArchSpec&) const override {
    std::vector<GemmSm90SkinnyConfig> configs;
    for (const int tokens : {8, 32, 64}) {
      const auto holds = [&](const Tile& tile) { return tile.tokens == tokens && tile.blocks == 1; };
      const Tile& tile = *std::ranges::find_if(tiles_of(p), holds);
      configs.push_back(make_config(p, tile, sm90_promotions(p).front(), 1));
      if (!is_ocp_f8(p.a_dtype)) continue;
      // With scales of groups, which are no work of the epilogue.
      GemmProblem scaled = p;
      scaled.has_alpha = 0;
      configs.push_back(make_config(scaled, tile, Promotion::kScaled, 1));
    }
    return configs;
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c,
                 const Knobs&) const override {
    return gemm_sm90_skinny_cost(p, device, c);
  }
  std::string order_of(const GemmSm90SkinnyConfig& c, const Knobs&) const override {
    const std::string order = sm90_order(c.dtype, c.promote, "wgmma_t");
    if (c.splits == 1) return "seq:" + order;
    if (c.splits > 1) return fmt::format("split{}x{}:{}", c.splits, c.depth, order);
    return fmt::format("even{}x{}x{}x{}:{}", c.rows, c.depth, c.cluster, c.blocks, order);
  }
  std::string label_of(const GemmSm90SkinnyConfig& c) const override { return fmt::format("{}x{}", c.rows, c.tokens); }
  int threads_of(const GemmSm90SkinnyConfig& c) const override { return gemm_sm90_skinny_threads(c); }
  int blocks_of(const GemmSm90SkinnyConfig& c) const override { return c.blocks; }

  int shared_bytes_of(const GemmSm90SkinnyConfig& c) const override { return gemm_sm90_skinny_shared_bytes(c); }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c,
                               const Knobs&, Kernel kernel) const override {
    const GemmSm90SkinnyCut cut = cut_of(p, device, c);
    GemmSm90SkinnyArgs args{};
    args.batch_a = p.stride_a_batch != 0, args.batch_b = p.stride_b_batch != 0;
    args.share = static_cast<int>(cut.share), args.extra = static_cast<int>(cut.extra);
    // Blocks that share A bring a slice each, which is there or not.
    const int sharers = gemm_sm90_skinny_sharers(c);
    args.stage_tokens = sharers == 1 ? static_cast<int>(p.m) : c.tokens;
    args.scale = gemm_scale_args(p);
    Stage stage = enclosing_stage(p, args, std::move(kernel));
    add_scale_patches(stage, p, offsetof(GemmSm90SkinnyArgs, scale));
    // Sums on their way stand in the stream's zeros, which are the workspace.
    std::erase_if(stage.patches, [](const ArgPatch& patch) { return patch.kind == ArgPatch::Kind::kWorkspace; });
    if (cut.exchange_bytes > 0) {
      stage.zero_bytes = cut.exchange_bytes;
      add_patch(stage, ArgPatch::Kind::kZeros, 0, offsetof(GemmSm90SkinnyArgs, gemm) + offsetof(GemmArgs, workspace));
    }
    add_operand_a(stage, p, offsetof(GemmSm90SkinnyArgs, a), Major::kK, args.stage_tokens / sharers);
    add_operand_b(stage, p, offsetof(GemmSm90SkinnyArgs, b), Major::kK, gemm_sm90_skinny_box_rows(c));
    stage.shape.cluster = {static_cast<uint32_t>(c.cluster), 1, 1};
    stage.shape.grid = {static_cast<uint32_t>(cut.clusters * sharers), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemm_sm90_skinny_threads(c));
    stage.shape.programmatic_edge = true;
    stage.shape.cooperative = c.splits != 1 && !gemm_sm90_skinny_parts_meet(c);
    stage.shape.shared_bytes = static_cast<uint32_t>(gemm_sm90_skinny_shared_bytes(c));
    return {std::move(stage)};
  }

 private:
  void add_config(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& config,
                  std::vector<Candidate>& found) const {
    if (refusal_of(config, *device.arch) != nullptr || !check_sm90_cut(cut_of(p, device, config), config.splits, p.k))
      return;
    // Parts that wait for a second round of clusters win nothing.
    const GemmSm90SkinnyCut cut = cut_of(p, device, config);
    if (config.splits > 1 && cut.tiles * config.splits > gemm_sm90_skinny_parts_at_a_time(config, cut, device.units))
      return;
    found.push_back({{key_of(config, device.arch->target), {}}, gemm_sm90_skinny_cost(p, device, config)});
  }
  static GemmSm90SkinnyCut cut_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c) {
    return gemm_sm90_skinny_cut(c, p.n, p.k, p.batch, device.units);
  }
};

}  // namespace

const KernelFamily& gemm_sm90_skinny_family() {
  static const GemmSm90SkinnyFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
