// SPDX-License-Identifier: MIT
// grouped_gemm_sm90: groups of any number of rows on Hopper, weights on the 64-row side of wgmma.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/fields.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/cuda/sm90/sm90_promotion.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "ops/grouped_gemm/families/sm90/grouped_gemm_sm90_cost.hpp"

namespace tilewright {
namespace {

constexpr std::string_view kGroupedSm90 = "grouped_gemm_sm90";

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

class GroupedGemmSm90Family final : public KernelFamily {
 public:
  std::string_view name() const override { return kGroupedSm90; }
  std::string_view op() const override { return "grouped_gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const Status s = check_problem(problem_cast<GroupedGemmProblem>(ref), device);
    return s ? s : refuse(s.message());
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    std::vector<Candidate> found;
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
    std::ranges::stable_sort(found, {}, &Candidate::cost);
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GroupedGemmSm90Config c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.gemm.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.gemm.a_dtype)));
    }
    const GroupKnobs knobs = group_knobs(step.knobs);
    if (knobs.raster < 1 || knobs.raster > 1024)
      return refuse(fmt::format("raster = {}, allowed: 1 to 1024", knobs.raster));
    if (knobs.counted != 0 && knobs.counted != 1)
      return refuse(fmt::format("counted = {}, allowed: 0, 1", knobs.counted));
    Status s = check_gpu_epilogue({c.epilogue, c.activation, c.gate, c.d_dtype}, p.gemm);
    if (s) s = check_sm90_promotion(p.gemm, c.promote);
    if (s) s = check_tiles(p, device, c);
    if (s) s = check_cluster(device, c);
    if (s) s = check_words(p.gemm, c);
    return s ? s : refuse(s.message());
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GroupedGemmSm90Config c;
    if (!parse_config(step.key, c)) return 0;
    return grouped_gemm_sm90_cost(problem_cast<GroupedGemmProblem>(ref), device, c,
                                  group_knobs(step.knobs).counted != 0);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep& step) const override {
    GroupedGemmSm90Config c;
    if (!parse_config(step.key, c)) return "";
    return "seq:" + sm90_order(c.dtype, c.promote, "wgmma_t");
  }
  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"raster", "counted"};
    return kNames;
  }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GroupedGemmSm90Config c;
    if (Status s = parse_config(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("{}-{}-{}x{}", kGroupedSm90, dtype_name(c.dtype), c.rows, c.tokens);
    request.entry = fmt::format("tw_{}_{}", kGroupedSm90, key.digest.hex());
    request.source = gpu_instance_source(
        ArchVendor::kNvidia, "grouped_gemm/sm90/grouped_gemm_sm90.cuh", request.entry,
        fmt::format("{}<tilewright::{}{}>", kGroupedSm90, GroupedGemmSm90Config::kTypeName, cpp_initializer(c)),
        "GroupedGemmSm90Args", grouped_sm90_threads(c), 1);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    GroupedGemmSm90Config c;
    return parse_config(key, c) ? grouped_sm90_shared_bytes(c) : 0;
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

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    GroupedGemmSm90Config c;
    if (Status s = parse_config(step.key, c); !s) return s;
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    const GroupKnobs knobs = group_knobs(step.knobs);

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
    stage.shape.threads = static_cast<uint32_t>(grouped_sm90_threads(c));
    stage.shape.programmatic_edge = true;
    stage.shape.shared_bytes = static_cast<uint32_t>(grouped_sm90_shared_bytes(c));
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  // Each way to walk the tiles.
  static void offer(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c,
                    std::vector<Candidate>& found) {
    for (const int raster : kGroupRasters) {
      // One tile of rows a group is walked alike, whatever the raster.
      if (raster != kGroupRasters[0] && p.likely_rows() <= c.tokens * p.gemm.batch) continue;
      for (const int counted : {1, 0}) {
        found.push_back({{key_of(c, device.arch->target), {{raster, counted}}},
                         grouped_gemm_sm90_cost(p, device, c, counted != 0)});
      }
    }
  }
  static Status refuse(std::string_view message) { return unsupported(fmt::format("{}: {}", kGroupedSm90, message)); }

  static KernelKey key_of(const GroupedGemmSm90Config& c, std::string_view target) {
    return make_key("grouped_gemm", kGroupedSm90, target, fmt::format("dtype={}", dtype_name(c.dtype)),
                    print_fields(c));
  }
  static const char* refusal_of(const GroupedGemmSm90Config& c, const ArchSpec& arch) {
    if (const char* reason = grouped_sm90_refusal(c)) return reason;
    if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
    if (!group_fits_shared(c)) return "more shared memory than a multiprocessor has";
    return nullptr;
  }
  static Status parse_config(const KernelKey& key, GroupedGemmSm90Config& c) {
    const ArchSpec* arch = find_arch(key.target);
    if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) {
      return refuse(fmt::format("{}: no target of NVIDIA", key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
    if (key.signature() != fmt::format("dtype={}", dtype_name(c.dtype))) {
      return refuse(key.text + ": signature and config name different dtypes");
    }
    if (const char* reason = refusal_of(c, *arch)) return refuse(fmt::format("{}: {}", key.text, reason));
    return {};
  }

  static Status check_problem(const GroupedGemmProblem& p, const DeviceSpec& device) {
    if (Status s = check_gpu(device, ArchVendor::kNvidia); !s) return s;
    if (p.mode == GroupMode::kRaggedK) return unsupported("mode is ragged_k, the kernel takes contiguous and masked");
    if (p.indexed()) return unsupported("indices name rows, the kernel takes them as they lie");
    const GemmProblem& g = p.gemm;
    if (Status s = check_tiled_problem(g); !s) return s;
    if (Status s = check_not_packed(g); !s) return s;
    if (Status s = check_sm90_product(g); !s) return s;
    if (g.batch_invariant) return unsupported("batch_invariant: other rows are summed by other kernels");
    if (choose_epilogue(g).kind == EpilogueKind::kFull) {
      return unsupported("the epilogue has C, steps, or an operand that varies by both row and column");
    }
    if (sm90_wgmma(*device.arch, g.a_dtype, 16) == nullptr) {
      return unsupported(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(g.a_dtype)));
    }
    if (dtype_bits(g.a_dtype) > 16)
      return unsupported(fmt::format("A is {}, allowed: 8 and 16 bits", dtype_name(g.a_dtype)));
    for (const auto& [name, access] : {std::pair{"a", access_a(g)}, {"b", access_b(g)}}) {
      if (access.major != Major::kK || access.copy != 16) {
        return unsupported(fmt::format("{}: the copy engine wants rows along K, at multiples of 16 bytes", name));
      }
    }
    return check_copied_sizes(g);
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
