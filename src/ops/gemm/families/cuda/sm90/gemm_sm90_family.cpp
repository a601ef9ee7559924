// SPDX-License-Identifier: MIT
// gemm_sm90: wgmma and the copy engine of Hopper, for operands that the copy engine can read.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "core/fields.hpp"
#include "ops/gemm/families/cuda/cuda_problem.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {
namespace {

struct Tile {
  int m, n, warpgroups, stages, cluster_m, cluster_n;
};
constexpr Tile kTiles[] = {{128, 256, 2, 4, 2, 1}, {128, 256, 2, 4, 1, 2}, {128, 256, 2, 4, 1, 1},
                           {256, 128, 2, 4, 1, 2}, {128, 192, 2, 4, 2, 1}, {128, 128, 2, 6, 1, 2},
                           {128, 128, 2, 6, 2, 1}, {128, 128, 2, 6, 1, 1}, {64, 256, 1, 5, 2, 1},
                           {64, 128, 1, 8, 1, 2},  {64, 128, 1, 8, 1, 1},  {64, 64, 1, 8, 1, 1}};
constexpr Tile kPrebuiltTiles[] = {{128, 256, 2, 4, 2, 1}, {128, 128, 2, 6, 1, 2}, {64, 128, 1, 8, 1, 1}};
constexpr int kRaster = 8;  // rows of tiles walked together, in clusters
constexpr int kOtherRaster = 16;
constexpr double kUnusualRaster = 1.01;
constexpr int kMaxSplit = 8;
constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1024;  // coordinates of the copy engine are 32 bits
constexpr int64_t kMaxStrideBytes = int64_t{1} << 40;
constexpr int kCounterBytes = 16384;
constexpr int kMaxCounters = kCounterBytes / 4;

struct Sm90Knobs {
  int64_t raster = kRaster, split = 1;
};
Sm90Knobs typed(const Knobs& knobs) { return {knobs.values[0], knobs.values[1]}; }
Knobs erase_knobs(const Sm90Knobs& knobs) { return {{knobs.raster, knobs.split}}; }

Status refuse(std::string_view message) {
  return Status(StatusCode::kUnsupported, fmt::format("gemm_sm90: {}", message));
}

// Whether D's rows are contiguous, begin at multiples of 16 bytes and hold whole pieces of 16.
bool has_words(const GemmProblem& p) {
  const int64_t steps = (p.m == 1 ? 0 : p.stride_d_m) | (p.batch == 1 ? 0 : p.stride_d_batch) | p.out_n();
  return dtype_bits(p.d_dtype) == 16 && p.stride_d_n == 1 && steps % 8 == 0 && p.shortfall_d == 0;
}

// The config of a problem with this tile; the rest of it the problem decides.
GemmSm90Config make_config(const GemmProblem& p, const Tile& tile) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  const bool words = e.kind != EpilogueKind::kFull && e.gate != GateMode::kInterleaved && has_words(p);
  return {
      p.a_dtype, access_a(p).major, access_b(p).major, e.kind,         e.activation,  e.gate, e.d_dtype, words, tile.m,
      tile.n,    tile.warpgroups,   tile.stages,       tile.cluster_m, tile.cluster_n};
}

// Null, or why no kernel of the target has this config.
const char* refusal_of(const GemmSm90Config& c, const ArchSpec& arch) {
  if (const char* reason = gemm_sm90_refusal(c)) return reason;
  if (sm90_wgmma(arch, c.dtype, c.tile_n) == nullptr) return "the target has no such wgmma";
  if (gemm_sm90_shared_bytes(c) > arch.shared_bytes) return "more shared memory than a block can use";
  return nullptr;
}

KernelKey key_of(const GemmSm90Config& c, std::string_view target) {
  return make_key("gemm", "gemm_sm90", target, fmt::format("dtype={}", dtype_name(c.dtype)), print_fields(c));
}

Status parse_config(const KernelKey& key, GemmSm90Config& config) {
  const ArchSpec* arch = find_arch(key.target);
  if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return refuse(key.text + ": no target of NVIDIA");
  if (Status s = parse_fields(key.config(), config); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
  if (key.signature() != fmt::format("dtype={}", dtype_name(config.dtype))) {
    return refuse(key.text + ": signature and config name different dtypes");
  }
  if (const char* reason = refusal_of(config, *arch)) return refuse(fmt::format("{}: {}", key.text, reason));
  return {};
}

int clusters_of(const DeviceSpec& device, const GemmSm90Config& c) {
  return std::max(1, device.units / (c.cluster_m * c.cluster_n));
}
GemmSm90Share share_of(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c, int64_t split) {
  return gemm_sm90_share(c, p.m, p.n, p.batch, static_cast<int>(split), clusters_of(device, c));
}

// Ok, or why the tiles that are left cannot be cut into so many parts.
Status check_split(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c, int64_t split) {
  if (split < 1 || split > kMaxSplit) return refuse(fmt::format("split = {}, allowed: 1 to {}", split, kMaxSplit));
  if (split == 1) return {};
  const GemmSm90Share share = share_of(p, device, c, split);
  if (share.rest == 0) return refuse("split: no tile is left over");
  if (share.rest * split > clusters_of(device, c)) {
    return refuse(
        fmt::format("split = {}: {} tiles are left over for {} clusters", split, share.rest, clusters_of(device, c)));
  }
  if (split * sm90_tile_k(c.dtype) > p.k) return refuse(fmt::format("split = {}: K = {} has fewer steps", split, p.k));
  if (share.rest * c.cluster_m * c.cluster_n * (c.tile_m / 64) > kMaxCounters) return refuse("split: too many parts");
  return {};
}

class GemmSm90Family final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_sm90"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    Status s = check_cuda_device(device);
    if (s) s = check_cuda_problem(p);
    if (!s) return refuse(s.message());
    if (p.batch_invariant) return refuse("batch_invariant: this device's order of summation is gemm_portable's");
    if (sm90_wgmma(*device.arch, p.a_dtype, 128) == nullptr) {
      return refuse(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    for (const auto& [name, access] : {std::pair{"a", access_a(p)}, {"b", access_b(p)}}) {
      if (access.copy != 16) {
        return refuse(fmt::format("{}: the copy engine wants rows at multiples of 16 bytes", name));
      }
      if (access.major == Major::kMn && dtype_bits(p.a_dtype) != 16) {
        return refuse(fmt::format("{}: wgmma reads {} along K only", name, dtype_name(p.a_dtype)));
      }
    }
    if (std::max({p.m, p.n, p.k, p.batch}) > kMaxSize) return refuse(fmt::format("a size exceeds {}", kMaxSize));
    for (const int64_t stride :
         {p.stride_a_m, p.stride_a_k, p.stride_a_batch, p.stride_b_n, p.stride_b_k, p.stride_b_batch}) {
      if (stride < 0 || stride >= kMaxStrideBytes / 4) return refuse("a stride of A or B exceeds 2^40 bytes");
    }
    // The smallest tile makes the most.
    if ((p.m / 64 + 1) > kMaxSize / (p.n / 64 + 1) / p.batch) return refuse("more than 2^31 tiles");
    return {};
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const Tile& tile : kTiles) {
      const GemmSm90Config config = make_config(p, tile);
      if (refusal_of(config, *device.arch) != nullptr) continue;
      const KernelKey key = key_of(config, device.arch->target);
      for (int split = 1; split <= kMaxSplit; ++split) {
        if (!check_split(p, device, config, split)) continue;
        const double cost = gemm_sm90_cost(p, device, config, split);
        found.push_back({{key, erase_knobs({kRaster, split})}, cost});
        if (share_of(p, device, config, split).tiles_m > kRaster) {
          found.push_back({{key, erase_knobs({kOtherRaster, split})}, cost * kUnusualRaster});
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GemmSm90Config c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.a_dtype)));
    }
    for (const auto& [name, need, have] :
         {std::tuple{"a", access_a(p).major, c.a_major}, {"b", access_b(p).major, c.b_major}}) {
      if (need != have) {
        return refuse(fmt::format("{} lies along {}, the kernel reads along {}", name, fields_detail::print_value(need),
                                  fields_detail::print_value(have)));
      }
    }
    if (c.d_words && !has_words(p)) return refuse("d: the kernel writes 16 bytes at once");
    // A full epilogue serves every problem of its gate.
    const GemmEpilogueConfig have = gemm_sm90_epilogue(c), need = choose_epilogue(p);
    const bool full = have.kind == EpilogueKind::kFull && (have.d_dtype == DType::kNone || have.d_dtype == p.d_dtype);
    if (have.gate != need.gate || (!full && !(have == need))) {
      return refuse(
          fmt::format("the kernel's epilogue is {}, the problem needs {}", print_fields(have), print_fields(need)));
    }
    const Sm90Knobs knobs = typed(step.knobs);
    if (knobs.raster < 1 || knobs.raster > 65536) {
      return refuse(fmt::format("raster = {}, allowed: 1 to 65536", knobs.raster));
    }
    return check_split(p, device, c, knobs.split);
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemmSm90Config config;
    if (!parse_config(step.key, config)) return 0;
    return gemm_sm90_cost(problem_cast<GemmProblem>(ref), device, config, static_cast<int>(typed(step.knobs).split));
  }

  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    GemmSm90Config config;
    if (!parse_config(step.key, config)) return 0;
    const int split = static_cast<int>(typed(step.knobs).split);
    return split > 1 ? gemm_sm90_partial_bytes(config, share_of(p, device, config, split).rest, split) : 0;
  }

  std::string numerics_id(const RecipeStep& step) const override {
    const int64_t split = typed(step.knobs).split;
    return split == 1 ? "seq:wgmma" : fmt::format("split{}:wgmma", split);
  }

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"raster", "split"};
    return kNames;
  }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemmSm90Config config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("gemm_sm90-{}-{}x{}", dtype_name(config.dtype), config.tile_m, config.tile_n);
    request.entry = fmt::format("tw_gemm_sm90_{}", key.digest.hex());
    request.source =
        cuda_instance_source("gemm/sm90/gemm_sm90.cuh", request.entry,
                             fmt::format("gemm_sm90<tilewright::GemmSm90Config{}>", cpp_initializer(config)),
                             "GemmSm90Args", gemm_sm90_threads(config), 1);
    return request;
  }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return keys;
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kI8}) {
      GemmProblem p;
      p.m = p.n = p.k = 4096;
      p.a_dtype = p.b_dtype = dtype;
      p.d_dtype = dtype == DType::kI8 ? DType::kBf16 : dtype;
      p.stride_a_m = p.stride_b_n = p.stride_d_m = 4096, p.stride_a_k = p.stride_b_k = p.stride_d_n = 1;
      if (dtype == DType::kI8) p.has_alpha = 1;
      for (const Tile& tile : kPrebuiltTiles) {
        const GemmSm90Config config = make_config(p, tile);
        if (refusal_of(config, *arch) == nullptr) keys.push_back(key_of(config, target));
      }
    }
    return keys;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GemmProblem>(ref);
    GemmSm90Config c;
    if (Status s = parse_config(step.key, c); !s) return s;
    const Sm90Knobs knobs = typed(step.knobs);

    // GemmArgs stand inside; their places move with them.
    Stage stage = gemm_stage(p, {}, 1, std::move(kernel));
    GemmSm90Args args{};
    std::memcpy(&args.gemm, stage.args.data(), sizeof(args.gemm));
    args.batch_a = p.stride_a_batch != 0, args.batch_b = p.stride_b_batch != 0;
    args.raster = static_cast<int>(knobs.raster);
    args.split = static_cast<int>(knobs.split);
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    for (ArgPatch& patch : stage.patches) patch.arg_offset += offsetof(GemmSm90Args, gemm);
    const auto patch = [&stage](ArgPatch::Kind kind, uint16_t slot, size_t offset) {
      stage.patches.push_back({kind, slot, static_cast<uint32_t>(offset)});
    };
    patch(ArgPatch::Kind::kTensorMap, kSlotA, offsetof(GemmSm90Args, a));
    patch(ArgPatch::Kind::kTensorMap, kSlotB, offsetof(GemmSm90Args, b));
    if (knobs.split > 1) {
      patch(ArgPatch::Kind::kWorkspace, 0, offsetof(GemmSm90Args, partials));
      stage.zero_bytes = kCounterBytes;
      patch(ArgPatch::Kind::kZeros, 0, offsetof(GemmSm90Args, counters));
    }
    stage.tensor_maps.push_back(operand_map(offsetof(GemmSm90Args, a), c.dtype, c.a_major, p.m, p.k, p.batch,
                                            p.stride_a_m, p.stride_a_k, p.stride_a_batch, c.tile_m / c.cluster_n));
    stage.tensor_maps.push_back(operand_map(offsetof(GemmSm90Args, b), c.dtype, c.b_major, p.n, p.k, p.batch,
                                            p.stride_b_n, p.stride_b_k, p.stride_b_batch, gemm_sm90_copy_columns(c)));

    const GemmSm90Share share = share_of(p, device, c, knobs.split);
    const int clusters = share.rest > 0 ? clusters_of(device, c) : std::min(share.whole, clusters_of(device, c));
    stage.shape.cluster = {static_cast<uint32_t>(c.cluster_m * c.cluster_n), 1, 1};
    stage.shape.grid = {static_cast<uint32_t>(clusters) * stage.shape.cluster[0], 1, 1};
    stage.shape.threads = static_cast<uint32_t>(gemm_sm90_threads(c));
    stage.shape.shared_bytes = static_cast<uint32_t>(gemm_sm90_shared_bytes(c));
    return std::vector<Stage>{std::move(stage)};
  }
};

}  // namespace

const KernelFamily& gemm_sm90_family() {
  static const GemmSm90Family kFamily;
  return kFamily;
}

}  // namespace tilewright
