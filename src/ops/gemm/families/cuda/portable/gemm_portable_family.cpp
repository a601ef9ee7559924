// SPDX-License-Identifier: MIT
// gemm_portable: mma.sync and cp.async on every NVIDIA GPU from capability 8.0 up, any strides and alignments.
#include <algorithm>

#include <fmt/format.h>

#include "core/fields.hpp"
#include "ops/gemm/families/cuda/cuda_problem.hpp"
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

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

Status refuse(std::string_view message) {
  return Status(StatusCode::kUnsupported, fmt::format("gemm_portable: {}", message));
}

PortableMma mma_of(DType dtype) { return dtype == DType::kF32 ? PortableMma::kFma : PortableMma::kMma; }

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
  const PortableMma mma = mma_of(p.a_dtype);
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

// Null, or why no kernel of the target has this config.
const char* refusal_of(const GemmPortableConfig& c, const ArchSpec& arch) {
  if (const char* reason = gemm_portable_refusal(c)) return reason;
  if (portable_mma(arch, c.dtype, c.mma) == nullptr) return "the target has no such instruction";
  if (gemm_portable_shape(c).shared_bytes > arch.shared_bytes) return "more shared memory than a block can use";
  return nullptr;
}

KernelKey key_of(const GemmPortableConfig& c, std::string_view target) {
  return make_key("gemm", "gemm_portable", target, fmt::format("dtype={}", dtype_name(c.dtype)), print_fields(c));
}

Status parse_config(const KernelKey& key, GemmPortableConfig& config) {
  const ArchSpec* arch = find_arch(key.target);
  if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return refuse(key.text + ": no target of NVIDIA");
  if (Status s = parse_fields(key.config(), config); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
  if (key.signature() != fmt::format("dtype={}", dtype_name(config.dtype))) {
    return refuse(key.text + ": signature and config name different dtypes");
  }
  if (const char* reason = refusal_of(config, *arch)) return refuse(fmt::format("{}: {}", key.text, reason));
  return {};
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

class GemmPortableFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm_portable"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    Status s = check_cuda_device(device);
    if (s) s = check_cuda_problem(p);
    if (!s) return refuse(s.message());
    if (portable_mma(*device.arch, p.a_dtype, mma_of(p.a_dtype)) == nullptr) {
      return refuse(fmt::format("{} has no instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    // The first tile is legal for every problem.
    if (!fits_launches(p, make_config(p, tiles_for(p.a_dtype).front()), {})) return refuse(kTooManyBlocks);
    return {};
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    for (const Tile& tile : tiles_for(p.a_dtype)) {
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
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GemmPortableConfig c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.a_dtype)));
    }
    if (c.mma != mma_of(p.a_dtype)) return refuse("tf32 rounds A and B, which no caller has allowed");
    for (const auto& [name, access, major, copy] :
         {std::tuple{"a", access_a(p), c.a_major, c.a_copy}, {"b", access_b(p), c.b_major, c.b_copy}}) {
      if (copy == 0 || (major == access.major && copy <= access.copy)) continue;
      return refuse(fmt::format("{} lies along {} in pieces of {} bytes, the kernel copies {} bytes along {}", name,
                                fields_detail::print_value(access.major), access.copy, copy,
                                fields_detail::print_value(major)));
    }
    // A full epilogue serves every problem of its gate.
    const GemmEpilogueConfig have = c.epilogue_config(), need = choose_epilogue(p);
    const bool full = have.kind == EpilogueKind::kFull && (have.d_dtype == DType::kNone || have.d_dtype == p.d_dtype);
    if (have.gate != need.gate || (!full && !(have == need))) {
      return refuse(
          fmt::format("the kernel's epilogue is {}, the problem needs {}", print_fields(have), print_fields(need)));
    }
    const PortableKnobs knobs = typed(step.knobs);
    if (knobs.band < 0 || knobs.band > 65536) return refuse(fmt::format("band = {}, allowed: 0 to 65536", knobs.band));
    if (knobs.split_k < 0 || knobs.split_k % c.tile_k != 0) {
      return refuse(fmt::format("split_k = {}, allowed: multiples of tile_k = {}", knobs.split_k, c.tile_k));
    }
    const GemmPortableTiles tiles = tiles_of(p, c, knobs);
    if (tiles.splits > 1 && p.batch_invariant) return refuse("batch_invariant: a split of K has another order");
    if (!fits_launches(p, c, knobs)) return refuse(kTooManyBlocks);
    return {};
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemmPortableConfig config;
    if (!parse_config(step.key, config)) return 0;
    return gemm_portable_cost(problem_cast<GemmProblem>(ref), device, config, typed(step.knobs).split_k);
  }

  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    GemmPortableConfig config;
    if (!parse_config(step.key, config)) return 0;
    return gemm_portable_workspace_bytes(config, tiles_of(p, config, typed(step.knobs)), p.batch);
  }

  std::string numerics_id(const RecipeStep& step) const override {
    GemmPortableConfig config;
    if (!parse_config(step.key, config)) return "";
    const int64_t split_k = typed(step.knobs).split_k;
    const std::string order = split_k == 0 ? "seq" : fmt::format("split{}", split_k);
    return fmt::format("{}:{}", order, fields_detail::print_value(config.mma));
  }

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"band", "split_k"};
    return kNames;
  }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemmPortableConfig config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name =
        fmt::format("gemm_portable-{}-{}x{}x{}", dtype_name(config.dtype), config.tile_m, config.tile_n, config.tile_k);
    request.entry = fmt::format("tw_gemm_portable_{}", key.digest.hex());
    request.source =
        cuda_instance_source("gemm/portable/gemm_portable.cuh", request.entry,
                             fmt::format("gemm_portable<tilewright::GemmPortableConfig{}>", cpp_initializer(config)),
                             "GemmArgs", gemm_portable_shape(config).threads, gemm_portable_shape(config).blocks);
    return request;
  }

  // Plain and full epilogues of the usual layouts: what serves while better instances are built.
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || arch->vendor != ArchVendor::kNvidia) return keys;
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kI8, DType::kF32}) {
      GemmProblem p;
      p.m = p.n = p.k = 4096;
      p.a_dtype = p.b_dtype = dtype;
      p.d_dtype = dtype == DType::kI8 ? DType::kBf16 : dtype;
      p.stride_a_m = p.stride_b_n = p.stride_d_m = 4096, p.stride_a_k = p.stride_b_k = p.stride_d_n = 1;
      for (const bool full : {false, true}) {
        p.step_count = full ? 1 : 0;
        for (const Tile& tile : dtype == DType::kF32 ? std::span<const Tile>(kFmaTiles).first(1)
                                                     : std::span<const Tile>(kPrebuiltMmaTiles)) {
          const GemmPortableConfig config = make_config(p, tile);
          if (refusal_of(config, *arch) == nullptr) keys.push_back(key_of(config, target));
        }
      }
    }
    return keys;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<GemmProblem>(ref);
    GemmPortableConfig config;
    if (Status s = parse_config(step.key, config); !s) return s;
    const PortableKnobs knobs = typed(step.knobs);
    const GemmPortableShape shape = gemm_portable_shape(config);
    const GemmPortableTiles tiles = tiles_of(p, config, knobs);
    const int64_t count = tiles.m * tiles.n * p.batch;
    const auto stage = [&](GemmPortablePhase phase, int64_t blocks) {
      Stage made = gemm_stage(p, {knobs.band, phase, knobs.split_k}, 1, kernel);
      made.shape.grid = {static_cast<uint32_t>(blocks), 1, 1};
      made.shape.threads = static_cast<uint32_t>(shape.threads);
      made.shape.shared_bytes = static_cast<uint32_t>(shape.shared_bytes);
      return made;
    };
    std::vector<Stage> made{stage(kPortableWhole, count * tiles.splits)};
    if (tiles.splits > 1) {
      made.push_back(stage(kPortableReduce, count * gemm_portable_reduce_blocks(config)));
    }
    return made;
  }

 private:
  static std::span<const Tile> tiles_for(DType dtype) {
    return dtype == DType::kF32 ? std::span<const Tile>(kFmaTiles) : std::span<const Tile>(kMmaTiles);
  }
};

}  // namespace

const KernelFamily& gemm_portable_family() {
  static const GemmPortableFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
