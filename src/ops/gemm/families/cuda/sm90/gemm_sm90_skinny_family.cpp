// SPDX-License-Identifier: MIT
// gemm_sm90_skinny: at most 128 rows of A on Hopper, weights on the 64-row side of wgmma.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "core/fields.hpp"
#include "ops/gemm/families/cuda/cuda_problem.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_skinny_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {
namespace {

struct Tile {
  int rows, tokens, stages, cluster, blocks;
};
constexpr Tile kTiles[] = {{64, 8, 10, 1, 2},  {64, 16, 18, 1, 1}, {64, 16, 9, 1, 2}, {128, 32, 9, 1, 1},
                           {128, 64, 8, 1, 1}, {64, 64, 12, 2, 1}, {64, 64, 6, 2, 2}, {128, 128, 6, 1, 1},
                           {64, 128, 8, 2, 1}, {128, 128, 6, 2, 1}};
constexpr int kMaxTokens = 128;
constexpr int kBlockShared = 1024;                       // of every block, the system's own
constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1024;  // coordinates of the copy engine are 32 bits
constexpr int64_t kMaxStrideBytes = int64_t{1} << 40;
constexpr int64_t kMaxExchangeBytes = int64_t{64} << 20;

Status refuse(std::string_view message) {
  return Status(StatusCode::kUnsupported, fmt::format("gemm_sm90_skinny: {}", message));
}

GemmSm90SkinnyConfig make_config(const GemmProblem& p, const Tile& tile) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  return {p.a_dtype, e.kind,      e.activation, e.gate,       e.d_dtype,
          tile.rows, tile.tokens, tile.stages,  tile.cluster, tile.blocks};
}

// Null, or why no kernel of the target has this config.
const char* refusal_of(const GemmSm90SkinnyConfig& c, const ArchSpec& arch) {
  if (const char* reason = gemm_sm90_skinny_refusal(c)) return reason;
  if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
  if (c.blocks * (gemm_sm90_skinny_shared_bytes(c) + kBlockShared) > arch.shared_bytes + kBlockShared) {
    return "more shared memory than a multiprocessor has";
  }
  return nullptr;
}

KernelKey key_of(const GemmSm90SkinnyConfig& c, std::string_view target) {
  return make_key("gemm", "gemm_sm90_skinny", target, fmt::format("dtype={}", dtype_name(c.dtype)), print_fields(c));
}

Status parse_config(const KernelKey& key, GemmSm90SkinnyConfig& config) {
  const ArchSpec* arch = find_arch(key.target);
  if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return refuse(key.text + ": no target of NVIDIA");
  if (Status s = parse_fields(key.config(), config); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
  if (key.signature() != fmt::format("dtype={}", dtype_name(config.dtype))) {
    return refuse(key.text + ": signature and config name different dtypes");
  }
  if (const char* reason = refusal_of(config, *arch)) return refuse(fmt::format("{}: {}", key.text, reason));
  return {};
}

GemmSm90SkinnyCut cut_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c,
                         int64_t splits) {
  return gemm_sm90_skinny_cut(c, p.n, p.k, p.batch, splits, device.units);
}

// Ok, or why K cannot be cut so.
Status check_splits(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c, int64_t splits) {
  if (splits < 0 || splits > kSkinnyMaxSplits) {
    return refuse(fmt::format("splits = {}, allowed: 0 to {}", splits, kSkinnyMaxSplits));
  }
  const GemmSm90SkinnyCut cut = cut_of(p, device, c, splits);
  if (splits > cut.chunks) return refuse(fmt::format("splits = {}: K = {} has fewer tiles", splits, p.k));
  if (cut.steps > kMaxSize) return refuse("more than 2^31 tiles");
  if (cut.exchange_bytes > kMaxExchangeBytes) {
    return refuse(fmt::format("splits = {}: {} bytes of sums on their way, allowed: {}", splits, cut.exchange_bytes,
                              kMaxExchangeBytes));
  }
  return {};
}

class GemmSm90SkinnyFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_sm90_skinny"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    Status s = check_cuda_device(device);
    if (s) s = check_cuda_problem(p);
    if (!s) return refuse(s.message());
    if (p.m > kMaxTokens) return refuse(fmt::format("M = {}, allowed: at most {}", p.m, kMaxTokens));
    if (p.batch_invariant) return refuse("batch_invariant: more rows are summed in another order");
    if (choose_epilogue(p).kind == EpilogueKind::kFull) {
      return refuse("the epilogue has C, steps, or an operand that varies by both row and column");
    }
    if (sm90_wgmma(*device.arch, p.a_dtype, 8) == nullptr) {
      return refuse(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    for (const auto& [name, access] : {std::pair{"a", access_a(p)}, {"b", access_b(p)}}) {
      if (access.major != Major::kK || access.copy != 16) {
        return refuse(fmt::format("{}: the copy engine wants rows along K, at multiples of 16 bytes", name));
      }
    }
    if (std::max({p.n, p.k, p.batch}) > kMaxSize) return refuse(fmt::format("a size exceeds {}", kMaxSize));
    for (const int64_t stride : {p.stride_a_m, p.stride_a_batch, p.stride_b_n, p.stride_b_batch}) {
      if (stride < 0 || stride >= kMaxStrideBytes / 4) return refuse("a stride of A or B exceeds 2^40 bytes");
    }
    // The smallest tile makes the most.
    if (p.n / 64 + 1 > kMaxSize / (p.k / 64 + 1) / p.batch) return refuse("more than 2^31 tiles");
    return {};
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const Tile& tile : kTiles) {
      // Rows that are not there cost what others do: the fewest that hold M.
      if (tile.tokens < p.m || (tile.tokens > 16 && tile.tokens / 2 >= p.m)) continue;
      if (tile.tokens == 16 && p.m <= 8) continue;
      const GemmSm90SkinnyConfig config = make_config(p, tile);
      if (refusal_of(config, *device.arch) != nullptr) continue;
      const KernelKey key = key_of(config, device.arch->target);
      for (int splits = 0; splits <= kSkinnyMaxSplits; ++splits) {
        if (!check_splits(p, device, config, splits)) continue;
        // Parts that wait for a second round of clusters win nothing.
        const GemmSm90SkinnyCut cut = cut_of(p, device, config, splits);
        if (splits > 1 && cut.tiles * splits > 2 * cut.clusters) continue;
        found.push_back({{key, {{splits}}}, gemm_sm90_skinny_cost(p, device, config, splits)});
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GemmSm90SkinnyConfig c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.a_dtype)));
    }
    if (p.m > c.tokens) return refuse(fmt::format("M = {}, the kernel takes {}", p.m, c.tokens));
    const GemmEpilogueConfig have = gemm_sm90_skinny_epilogue(c), need = choose_epilogue(p);
    if (!(have == need)) {
      return refuse(
          fmt::format("the kernel's epilogue is {}, the problem needs {}", print_fields(have), print_fields(need)));
    }
    return check_splits(p, device, c, step.knobs.values[0]);
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemmSm90SkinnyConfig config;
    if (!parse_config(step.key, config)) return 0;
    return gemm_sm90_skinny_cost(problem_cast<GemmProblem>(ref), device, config, step.knobs.values[0]);
  }

  // Sums on their way stand in the stream's zeros.
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }

  std::string numerics_id(const RecipeStep& step) const override {
    GemmSm90SkinnyConfig c;
    if (!parse_config(step.key, c)) return "";
    const int64_t splits = step.knobs.values[0];
    if (splits == 1) return "seq:wgmma_t";
    if (splits > 1) return fmt::format("split{}:wgmma_t", splits);
    return fmt::format("even{}x{}x{}:wgmma_t", c.rows, c.cluster, c.blocks);
  }

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"splits"};
    return kNames;
  }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemmSm90SkinnyConfig config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("gemm_sm90_skinny-{}-{}x{}", dtype_name(config.dtype), config.rows, config.tokens);
    request.entry = fmt::format("tw_gemm_sm90_skinny_{}", key.digest.hex());
    request.source = cuda_instance_source(
        "gemm/sm90/gemm_sm90_skinny.cuh", request.entry,
        fmt::format("gemm_sm90_skinny<tilewright::GemmSm90SkinnyConfig{}>", cpp_initializer(config)),
        "GemmSm90SkinnyArgs", gemm_sm90_skinny_threads(config), config.blocks);
    return request;
  }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return keys;
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kI8}) {
      GemmProblem p;
      p.m = 1, p.n = p.k = 4096;
      p.a_dtype = p.b_dtype = dtype;
      p.d_dtype = dtype == DType::kI8 ? DType::kBf16 : dtype;
      if (dtype == DType::kI8) p.has_alpha = 1;
      for (const Tile& tile : {kTiles[1], kTiles[4], kTiles[7]}) {
        const GemmSm90SkinnyConfig config = make_config(p, tile);
        if (refusal_of(config, *arch) == nullptr) keys.push_back(key_of(config, target));
      }
    }
    return keys;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GemmProblem>(ref);
    GemmSm90SkinnyConfig c;
    if (Status s = parse_config(step.key, c); !s) return s;
    const GemmSm90SkinnyCut cut = cut_of(p, device, c, step.knobs.values[0]);

    // GemmArgs stand inside; their places move with them. The workspace is the stream's zeros.
    Stage stage = gemm_stage(p, {}, 1, std::move(kernel));
    GemmSm90SkinnyArgs args{};
    std::memcpy(&args.gemm, stage.args.data(), sizeof(args.gemm));
    args.batch_a = p.stride_a_batch != 0, args.batch_b = p.stride_b_batch != 0;
    args.splits = static_cast<int>(step.knobs.values[0]);
    args.share = static_cast<int>(cut.share), args.extra = static_cast<int>(cut.extra);
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    std::erase_if(stage.patches, [](const ArgPatch& patch) { return patch.kind == ArgPatch::Kind::kWorkspace; });
    for (ArgPatch& patch : stage.patches) patch.arg_offset += offsetof(GemmSm90SkinnyArgs, gemm);
    const auto patch = [&stage](ArgPatch::Kind kind, uint16_t slot, size_t offset) {
      stage.patches.push_back({kind, slot, static_cast<uint32_t>(offset)});
    };
    patch(ArgPatch::Kind::kTensorMap, kSlotA, offsetof(GemmSm90SkinnyArgs, a));
    patch(ArgPatch::Kind::kTensorMap, kSlotB, offsetof(GemmSm90SkinnyArgs, b));
    if (cut.exchange_bytes > 0) {
      stage.zero_bytes = cut.exchange_bytes;
      patch(ArgPatch::Kind::kZeros, 0, offsetof(GemmSm90SkinnyArgs, gemm) + offsetof(GemmArgs, workspace));
    }
    stage.tensor_maps.push_back(operand_map(offsetof(GemmSm90SkinnyArgs, a), c.dtype, Major::kK, p.m, p.k, p.batch,
                                            p.stride_a_m, p.stride_a_k, p.stride_a_batch, c.tokens / c.cluster));
    stage.tensor_maps.push_back(operand_map(offsetof(GemmSm90SkinnyArgs, b), c.dtype, Major::kK, p.n, p.k, p.batch,
                                            p.stride_b_n, p.stride_b_k, p.stride_b_batch,
                                            gemm_sm90_skinny_box_rows(c)));
    stage.shape.cluster = {static_cast<uint32_t>(c.cluster), 1, 1};
    stage.shape.grid = {static_cast<uint32_t>(cut.clusters * c.cluster), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemm_sm90_skinny_threads(c));
    stage.shape.shared_bytes = static_cast<uint32_t>(gemm_sm90_skinny_shared_bytes(c));
    return std::vector<Stage>{std::move(stage)};
  }
};

}  // namespace

const KernelFamily& gemm_sm90_skinny_family() {
  static const GemmSm90SkinnyFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
