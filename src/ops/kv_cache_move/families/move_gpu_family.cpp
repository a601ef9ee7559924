// SPDX-License-Identifier: MIT
// <op>_gpu, for pieces of 16 bytes and for each pair of types, and <op>_generic_gpu, which is typed at run time: every valid problem
// runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "kv_cache/cache_move_args.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/kv_cache_move/families/move_families.hpp"

namespace tilewright {
namespace {

constexpr double kMoveGpuLaunchSeconds = 3e-6;
constexpr int kMoveResidentBlocks = 4;
constexpr CacheMoveGpuConfig kMoveElements{DType::kNone, DType::kNone, false};

bool is_move_gpu(const ArchSpec& arch) { return arch.vendor != ArchVendor::kX86; }
CacheMoveGpuConfig move_gpu_config(const CacheMoveProblem& p) {
  if (p.in == p.out) return {DType::kNone, DType::kNone, true};
  return {p.in, p.out, true};
}

// Ok, or why a thread cannot take a piece in one load and one store.
Status check_whole_pieces(const CacheMoveProblem& p) {
  const int64_t elements = move_piece_elements(p);
  if (p.unaligned) return unsupported("pointers are no multiples of 16 bytes, needed");
  if (p.n % elements != 0) return unsupported(fmt::format("rows of {} elements, needs multiples of {}", p.n, elements));
  for (const PagedProblem* t : {&p.from, &p.to}) {
    const bool whole = t->element == 1 && t->elements % elements == 0 &&
                       std::ranges::all_of(std::array{t->block, t->head, t->position, t->position_run, t->element_run},
                                           [elements](int64_t stride) { return stride % elements == 0; });
    if (!whole) return unsupported(fmt::format("strides or runs are no multiples of {} elements, needed", elements));
  }
  return {};
}

class CacheMoveGpuFamily final : public KernelFamily {
 public:
  CacheMoveGpuFamily(const CacheMoveOp& op, bool generic)
      : op_(op), generic_(generic), name_(fmt::format("{}_{}gpu", op.name, generic ? "generic_" : "")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_.name; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    if (!is_move_gpu(*device.arch)) return refuse_gpu(fmt::format("{} is no GPU", device.arch->target));
    if (generic_) return {};
    const Status s = check_whole_pieces(problem_cast<CacheMoveProblem>(ref));
    return s ? s : refuse_gpu(s.message());
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    if (generic_) return {{{generic_key(device.arch->target), {}}, 8 * predict_gpu(p, device)}};
    if (!check_whole_pieces(p)) return {};
    return {{{key_of(move_gpu_config(p), device.arch->target), {}}, predict_gpu(p, device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    CacheMoveGpuConfig config{};
    if (Status s = parse_gpu_config(step.key, config); !s || generic_) return s;
    const CacheMoveGpuConfig need = move_gpu_config(problem_cast<CacheMoveProblem>(ref));
    if (config == need) return {};
    return refuse_gpu(fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_gpu(problem_cast<CacheMoveProblem>(ref), device) * (generic_ ? 8 : 1);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "elements"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    CacheMoveGpuConfig config{};
    if (Status s = parse_gpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? name_ : fmt::format("{}-{}-{}", name_, dtype_name(config.x), dtype_name(config.out));
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = gpu_instance_source(
        find_arch(key.target)->vendor, "kv_cache/cache_move_gpu.cuh", request.entry,
        fmt::format("cache_move_gpu<tilewright::{}{}>", CacheMoveGpuConfig::kTypeName, cpp_initializer(config)),
        "CacheMoveArgs", kRowBlockThreads, kMoveResidentBlocks);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey&) const override { return generic_ ? 0 : kCacheMoveSharedBytes; }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    if (arch == nullptr || !is_move_gpu(*arch)) return {};
    if (generic_) return {generic_key(target)};
    std::vector<KernelKey> keys{key_of({DType::kNone, DType::kNone, true}, target)};
    if (!op_.pairs) keys.push_back(key_of({DType::kF8E4M3, DType::kBf16, true}, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    const int64_t elements = p.items * p.heads * (op_.pairs ? p.block_size : 1) * p.n;
    const int64_t each = kRowBlockThreads * (generic_ ? 1 : kCacheMoveEach * move_piece_elements(p));
    const int64_t blocks = std::max<int64_t>((elements + each - 1) / each, 1);
    // The kernel goes on where the grid ends; AMD GPUs count work-items in 32 bits.
    const int64_t grid = std::min(blocks, (int64_t{1} << 31) / kRowBlockThreads);
    std::vector<Stage> stages;
    stages.push_back(move_stage(op_, p, grid, std::move(kernel)));
    stages.back().shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stages.back().shape.threads = kRowBlockThreads;
    stages.back().shape.shared_bytes = static_cast<uint32_t>(launch_shared_bytes(step.key));
    return stages;
  }

 private:
  Status refuse_gpu(const std::string& message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  KernelKey generic_key(std::string_view target) const {
    return make_key(op_.name, name_, target, "any", "run_time=1");
  }
  KernelKey key_of(const CacheMoveGpuConfig& config, std::string_view target) const {
    return make_key(op_.name, name_, target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_gpu_config(const KernelKey& key, CacheMoveGpuConfig& config) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && is_move_gpu(*arch);
    if (generic_) {
      config = kMoveElements;
      if (gpu && key == generic_key(key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_gpu(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(config, key.target))) {
      return refuse_gpu(key.text + ": signature and config name different types");
    }
    const bool bytes = config.x == DType::kNone && config.out == DType::kNone;
    if (!config.whole || (!bytes && config.x == config.out)) return refuse_gpu(key.text + ": no such kernel");
    const Status s = bytes ? Status() : check_move_types(op_, config.x, config.out);
    return s ? s : refuse_gpu(key.text + ": " + s.message());
  }
  double predict_gpu(const CacheMoveProblem& p, const DeviceSpec& device) const {
    return kMoveGpuLaunchSeconds + move_bytes(op_, p) / memory_bytes_per_second(device);
  }

  const CacheMoveOp& op_;
  const bool generic_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<KernelFamily> make_move_gpu_family(const CacheMoveOp& op) {
  return std::make_unique<CacheMoveGpuFamily>(op, false);
}
std::unique_ptr<KernelFamily> make_move_generic_gpu_family(const CacheMoveOp& op) {
  return std::make_unique<CacheMoveGpuFamily>(op, true);
}

}  // namespace tilewright
