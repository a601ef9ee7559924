// SPDX-License-Identifier: MIT
// <op>_gpu, an instance for each set of types and way to share heads among threads, and <op>_generic_gpu, which is typed at run time:
// every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/kv_cache/families/cache_families.hpp"
#include "tile/common/quantise.hpp"

namespace tilewright {
namespace {

constexpr double kCacheGpuLaunchSeconds = 3e-6;
constexpr CacheGpuConfig kAnyHeads{
    DType::kNone, DType::kNone, DType::kNone, DType::kNone, DType::kNone, false, false, kAnyHeadThreads, 1};

bool is_cache_gpu(const ArchSpec& arch) { return arch.vendor != ArchVendor::kX86; }

// NVIDIA: blocks that an SM's registers are to have room for. AMD: waves of a SIMD, 128 registers each.
int resident_cache_blocks(const CacheGpuConfig& c, ArchVendor vendor) {
  if (c.x == DType::kNone || (vendor == ArchVendor::kAmd && c.heads <= 2)) return 4;
  return c.heads >= 4 || c.x == DType::kF32 ? 2 : c.heads == 2 || c.norm ? 3 : 4;
}

// Blocks that have a call's heads between them. On NVIDIA GPUs so many an SM go on from set to set, which is faster than a block for each
// set where no scales are found.
int64_t cache_blocks(int64_t blocks, const CacheGpuConfig& c, const DeviceSpec& device) {
  const int64_t most = most_walking_blocks(row_block_threads(c.threads));
  if (device.arch->vendor != ArchVendor::kNvidia || c.x == DType::kNone || c.finds) return std::min(blocks, most);
  const int64_t at_a_time = std::max(1, device.units) * int64_t{c.heads >= 4 ? 2 : c.heads == 2 ? 3 : 6};
  const int64_t turns = (blocks + at_a_time - 1) / at_a_time;
  return (blocks + turns - 1) / turns;
}

// Ok, or why a thread cannot take 16 elements of a head in two loads.
Status check_whole_heads(const CacheProblem& p) {
  const auto no = [](const char* what) { return unsupported(fmt::format("{} of 16 bytes, needed", what)); };
  if (p.unaligned) return no("pointers are no multiples");
  for (const CacheHeadsProblem& h : p.heads) {
    if (!h.present()) continue;
    if (h.n % kHeadPieces != 0) return unsupported(fmt::format("heads of {} elements, needs multiples of 16", h.n));
    if (h.stride_token % kRowPiece != 0 || h.stride_head % kRowPiece != 0) return no("strides are no multiples");
  }
  if (!p.turns()) return {};
  if (p.dims % kHeadPieces != 0) return unsupported(fmt::format("{} elements turn, needs multiples of 16", p.dims));
  return p.stride_table % (128 / dtype_bits(p.table)) == 0 ? Status() : no("a table's stride is no multiple");
}

int head_threads(const CacheProblem& p) {
  int64_t most = 1;
  for (const CacheHeadsProblem& h : p.heads) most = std::max(most, h.present() ? h.n / kHeadPieces : 1);
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(most)));
}
// Sets of so many heads: of one tensor each.
bool takes_heads(const CacheProblem& p, int each) {
  return std::ranges::all_of(p.heads, [each](const CacheHeadsProblem& h) { return h.heads % each == 0; });
}
CacheGpuConfig cache_gpu_config(const CacheProblem& p, int each) {
  const bool finds = p.scales == CacheScales::kToken || p.q_scales == CacheScales::kToken;
  bool plain = p.unit_offset == 0 && p.interleaved == 0 && p.axes() <= 1;
  for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
    plain = plain && (!p.heads[static_cast<size_t>(tensor)].present() || has_pieces(p, tensor));
  }
  return {p.x,
          p.q,
          p.cache,
          p.table,
          p.weight,
          p.norm != 0,
          finds,
          head_threads(p),
          each,
          plain,
          p.programmatic_edge != 0 && p.tokens <= kEdgedTokens};
}

class CacheGpuFamily final : public KernelFamily {
 public:
  CacheGpuFamily(const CacheOp& op, bool generic)
      : op_(op), generic_(generic), name_(fmt::format("{}_{}gpu", op.name, generic ? "generic_" : "")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_.name; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    if (!is_cache_gpu(*device.arch)) return refuse_gpu(fmt::format("{} is no GPU", device.arch->target));
    if (generic_) return {};
    const Status s = check_whole_heads(problem_cast<CacheProblem>(ref));
    return s ? s : refuse_gpu(s.message());
  }
  // The best first: four heads have loads enough in flight, for which AMD GPUs, and on sm_90a kernels that make
  // codes, lack registers.
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<CacheProblem>(ref);
    if (generic_) return {{{generic_key(device.arch->target), {}}, 8 * predict_gpu(p, device)}};
    std::vector<Candidate> found;
    double cost = predict_gpu(p, device);
    for (const int each : heads_of(*device.arch, p)) {
      if (!takes_heads(p, each)) continue;
      CacheGpuConfig config = cache_gpu_config(p, each);
      found.push_back({{key_of(config, device.arch->target), {}}, cost});
      cost *= 1.05;
      if (!config.edge) continue;
      config.edge = false;  // the kernel of plain calls, which may be built already
      found.push_back({{key_of(config, device.arch->target), {}}, cost});
      cost *= 1.05;
    }
    return found;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    CacheGpuConfig config;
    if (Status s = parse_gpu_config(step.key, config); !s) return s;
    const auto& p = problem_cast<CacheProblem>(ref);
    if (generic_) return {};
    CacheGpuConfig need = cache_gpu_config(p, config.heads);
    if (!config.plain) need.plain = false;  // the arguments tell it all
    need.edge = config.edge;
    if (config == need && takes_heads(p, config.heads)) return {};
    return refuse_gpu(fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    for (const Candidate& c : candidates(ref, device)) {
      if (c.step.key == step.key) return c.cost;
    }
    return predict_gpu(problem_cast<CacheProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep& step) const override {
    CacheGpuConfig config;
    if (!parse_gpu_config(step.key, config)) return "";
    return generic_ ? "elements" : fmt::format("threads{}", config.threads);
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    CacheGpuConfig config;
    if (Status s = parse_gpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? name_
                            : fmt::format("{}-{}-{}-{}x{}", name_, dtype_name(config.x), dtype_name(config.cache),
                                          config.threads, config.heads);
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    const ArchVendor vendor = find_arch(key.target)->vendor;
    request.source = gpu_instance_source(
        vendor, "kv_cache/kv_cache_write_gpu.cuh", request.entry,
        fmt::format("kv_cache_write_gpu<tilewright::{}{}>", CacheGpuConfig::kTypeName, cpp_initializer(config)),
        "CacheArgs", row_block_threads(config.threads), resident_cache_blocks(config, vendor));
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey&) const override { return kRowSharedBytes; }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || !is_cache_gpu(*arch)) return keys;
    if (generic_) return {generic_key(target)};
    for (const CacheProblem& p : usual_cache_problems(op_)) {
      keys.push_back(key_of(cache_gpu_config(p, heads_of(*arch, p).front()), target));
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    CacheGpuConfig config;
    if (Status s = parse_gpu_config(step.key, config); !s) return s;
    const auto& p = problem_cast<CacheProblem>(ref);
    const int64_t block = row_block_threads(config.threads), each = block / config.threads * config.heads;
    const int64_t heads = p.tokens * p.all_heads(), blocks = std::max<int64_t>((heads + each - 1) / each, 1);
    const int64_t grid = cache_blocks(blocks, config, device);
    std::vector<Stage> stages;
    stages.push_back(cache_stage(p, config.heads, grid, std::move(kernel)));
    stages.back().shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stages.back().shape.threads = static_cast<uint32_t>(block);
    stages.back().shape.shared_bytes = kRowSharedBytes;
    stages.back().shape.programmatic_edge = config.edge;
    return stages;
  }

 private:
  static std::array<int, 3> heads_of(const ArchSpec& arch, const CacheProblem& p) {
    constexpr int64_t kFewHeads = 2048;  // then as many threads as there can be
    if (p.tokens * p.all_heads() <= kFewHeads) return {1, 2, 4};
    if (arch.vendor == ArchVendor::kAmd) return {2, 1, 4};
    return is_quantised(p.cache) && arch.target == "sm_90a" ? std::array{2, 4, 1} : std::array{4, 2, 1};
  }
  Status refuse_gpu(const std::string& message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  KernelKey generic_key(std::string_view target) const {
    return make_key(op_.name, name_, target, "any", "run_time=1");
  }
  KernelKey key_of(const CacheGpuConfig& config, std::string_view target) const {
    return make_key(op_.name, name_, target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_gpu_config(const KernelKey& key, CacheGpuConfig& config) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && is_cache_gpu(*arch);
    if (generic_) {
      config = kAnyHeads;
      if (gpu && key == generic_key(key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_gpu(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(config, key.target))) {
      return refuse_gpu(key.text + ": signature and config name different types");
    }
    const auto power = [](int x, int most) {
      return x >= 1 && x <= most && std::has_single_bit(static_cast<unsigned>(x));
    };
    if (!power(config.threads, kMostHeadElements / kHeadPieces) || !power(config.heads, 4)) {
      return refuse_gpu(fmt::format("{}: {} threads with {} heads each", key.text, config.threads, config.heads));
    }
    const bool floats = std::ranges::all_of(std::array{config.table, config.weight}, [](DType t) {
      return t == DType::kNone || t == DType::kF32 || t == DType::kF16 || t == DType::kBf16;
    });
    const bool codes = is_quantised(config.q) || is_quantised(config.cache);
    if (!floats || (config.finds && !codes) || (config.weight != DType::kNone && !config.norm)) {
      return refuse_gpu(key.text + ": no such kernel");
    }
    const Status s = check_cache_types(op_, config.x, config.q, config.cache);
    return s ? s : refuse_gpu(key.text + ": " + s.message());
  }
  static double predict_gpu(const CacheProblem& p, const DeviceSpec& device) {
    return kCacheGpuLaunchSeconds + cache_bytes_moved(p) / memory_bytes_per_second(device);
  }

  const CacheOp& op_;
  const bool generic_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<KernelFamily> make_cache_gpu_family(const CacheOp& op) {
  return std::make_unique<CacheGpuFamily>(op, false);
}
std::unique_ptr<KernelFamily> make_cache_generic_gpu_family(const CacheOp& op) {
  return std::make_unique<CacheGpuFamily>(op, true);
}

}  // namespace tilewright
