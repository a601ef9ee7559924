// SPDX-License-Identifier: MIT
// transpose_gpu, an instance for each size of elements that takes whole pieces of 16 bytes, and transpose_generic_gpu, element by element:
// every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/transpose/families/transpose_families.hpp"

namespace tilewright {
namespace {

constexpr double kTransposeGpuLaunchSeconds = 3e-6;
// NVIDIA: blocks that an SM's registers have room for. AMD: waves of a SIMD.
int transpose_blocks(ArchVendor vendor, int bytes) { return vendor == ArchVendor::kAmd || bytes == 1 ? 4 : 8; }
int transpose_bytes_of(const TransposeProblem& p) { return dtype_bits(p.dtype) / 8; }

// Ok, or why both sides are not made of whole pieces.
Status check_transpose_pieces(const TransposeProblem& p) {
  if (p.unaligned) return unsupported("pointers are no multiples of 16 bytes, needed");
  const int64_t each = 16 / transpose_bytes_of(p);
  if (p.m % each != 0 || p.n % each != 0) {
    return unsupported(fmt::format("{} x {} elements, needs multiples of {}", p.m, p.n, each));
  }
  const auto whole = [each](int64_t stride) { return stride % each == 0; };
  if (std::ranges::all_of(p.x, whole) && std::ranges::all_of(p.out, whole)) return {};
  return unsupported(fmt::format("strides are no multiples of {} elements, needed", each));
}

class TransposeGpuFamily final : public KernelFamily {
 public:
  explicit TransposeGpuFamily(bool generic) : generic_(generic) {}

  std::string_view name() const override { return generic_ ? "transpose_generic_gpu" : "transpose_gpu"; }
  std::string_view op() const override { return "transpose"; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    if (device.arch->vendor == ArchVendor::kX86) {
      return refuse_gpu_transpose(fmt::format("{} is no GPU", device.arch->target));
    }
    if (generic_) return {};
    const Status s = check_transpose_pieces(problem_cast<TransposeProblem>(ref));
    return s ? s : refuse_gpu_transpose(s.message());
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<TransposeProblem>(ref);
    if (!supports(ref, device)) return {};
    return {{{key_of(transpose_bytes_of(p), device.arch->target), {}}, predict_gpu_transpose(p, device)}};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    TransposeConfig c{};
    if (Status s = parse_gpu_transpose(step.key, c); !s || generic_) return s;
    if (c.bytes == transpose_bytes_of(problem_cast<TransposeProblem>(ref))) return {};
    return refuse_gpu_transpose(fmt::format("{}: the problem has other elements", step.key.text));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_gpu_transpose(problem_cast<TransposeProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef, const DeviceSpec&, const RecipeStep&) const override { return 0; }
  std::string numerics_id(const RecipeStep&) const override { return "elements"; }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    TransposeConfig c{};
    if (Status s = parse_gpu_transpose(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? std::string(name()) : fmt::format("{}-{}", name(), c.bytes);
    request.entry = generic_ ? fmt::format("tw_{}", name()) : fmt::format("tw_{}_{}", name(), key.digest.hex());
    const ArchVendor vendor = find_arch(key.target)->vendor;
    request.source = gpu_instance_source(
        vendor, "transpose/transpose_gpu.cuh", request.entry,
        fmt::format("transpose_gpu<tilewright::{}{}>", TransposeConfig::kTypeName, cpp_initializer(c)), "TransposeArgs",
        transpose_threads(c.bytes), transpose_blocks(vendor, c.bytes));
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    TransposeConfig c{};
    return parse_gpu_transpose(key, c) ? transpose_shared_bytes(c.bytes) : 0;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || arch->vendor == ArchVendor::kX86) return keys;
    if (generic_) return {key_of(0, target)};
    for (const int bytes : {1, 2, 4}) keys.push_back(key_of(bytes, target));
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<TransposeProblem>(ref);
    TransposeConfig c{};
    if (Status s = parse_gpu_transpose(step.key, c); !s) return s;
    const int64_t side = transpose_side(c.bytes);
    const int threads = transpose_threads(c.bytes);
    const int64_t tiles = p.batches() * ((p.m + side - 1) / side) * ((p.n + side - 1) / side);
    const int64_t grid = std::clamp<int64_t>(tiles, 1, most_walking_blocks(threads));
    Stage stage = transpose_stage(p, grid, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(threads);
    stage.shape.shared_bytes = transpose_shared_bytes(c.bytes);
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  Status refuse_gpu_transpose(const std::string& message) const {
    return unsupported(fmt::format("{}: {}", name(), message));
  }
  KernelKey key_of(int bytes, std::string_view target) const {
    if (generic_) return make_key(op(), name(), target, "any", "run_time=1");
    return make_key(op(), name(), target, fmt::format("bytes={}", bytes), print_fields(TransposeConfig{bytes}));
  }
  Status parse_gpu_transpose(const KernelKey& key, TransposeConfig& c) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && arch->vendor != ArchVendor::kX86;
    if (generic_) {
      c = {0};
      if (gpu && key == key_of(0, key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name(), key.text));
    }
    if (Status s = parse_fields(key.config(), c); !s) return refuse_gpu_transpose(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu_transpose(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(c.bytes, key.target)))
      return refuse_gpu_transpose(key.text + ": signature and config name different elements");
    const bool legal = c.bytes == 1 || c.bytes == 2 || c.bytes == 4;
    return legal ? Status() : refuse_gpu_transpose(key.text + ": no legal config");
  }
  double predict_gpu_transpose(const TransposeProblem& p, const DeviceSpec& device) const {
    return (kTransposeGpuLaunchSeconds + transpose_bytes(p) / memory_bytes_per_second(device)) * (generic_ ? 4 : 1);
  }

  const bool generic_;
};

}  // namespace

const KernelFamily& transpose_gpu_family() {
  static const TransposeGpuFamily kFamily(false);
  return kFamily;
}
const KernelFamily& transpose_generic_gpu_family() {
  static const TransposeGpuFamily kFamily(true);
  return kFamily;
}

}  // namespace tilewright
