// SPDX-License-Identifier: MIT
// grouped_sm90_dequant: groups of few rows of A in 16 bits times narrow weights on Hopper, which are widened in registers.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/fields.hpp"
#include "grouped_gemm/sm90/dequant/grouped_sm90_dequant_args.hpp"
#include "grouped_gemm/sm90/grouped_sm90_args.hpp"
#include "ops/gemm/families/cuda/narrow_weights_family.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_cost.hpp"
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_tiles.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"

namespace tilewright {
namespace {

constexpr std::string_view kGroupedDequant = "grouped_sm90_dequant";
constexpr double kSecondsToEntries = 2e-6;  // the groups' numbers, and their entries

bool grouped_dequant_fits(const GemmSm90DequantConfig& c) {
  static const int kSharedBytes = find_arch("sm_90a")->shared_bytes;
  return grouped_sm90_dequant_shared_bytes(c) <= kSharedBytes;
}
GemmSm90DequantConfig grouped_dequant_config(const GemmProblem& p, DequantTile tile, int scale_row) {
  tile.blocks = 1;
  GemmSm90DequantConfig c = dequant_config(p, tile, 1, scale_row);
  while (c.stages > 2 && !grouped_dequant_fits(c)) --c.stages;
  return c;
}

class GroupedSm90DequantFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return kGroupedDequant; }
  std::string_view op() const override { return "grouped_gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const Status s = check_problem(problem_cast<GroupedGemmProblem>(ref), device);
    return s ? s : refuse(s.message());
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    std::vector<Candidate> found;
    for (const DequantTile& tile : dequant_tiles_of(p.gemm)) {
      for (const int scale_row : {0, dequant_scale_row(p.gemm)}) {
        const GemmSm90DequantConfig c = grouped_dequant_config(p.gemm, tile, scale_row);
        if (scale_row != 0 && c.stages < kLeastStages) continue;
        if (refusal_of(c, *device.arch) != nullptr || !check_entries(p, c)) continue;
        if (found.empty() || !(found.back().step.key == key_of(c, device.arch->target))) {
          found.push_back({{key_of(c, device.arch->target), {}}, cost_of(p, device, c)});
        }
      }
    }
    std::ranges::stable_sort(found, {}, &Candidate::cost);
    return found;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GemmSm90DequantConfig c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.gemm.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.gemm.a_dtype)));
    }
    Status s = check_narrow_weights(p.gemm, c);
    if (s) s = check_gpu_epilogue({c.epilogue, c.activation, c.gate, c.d_dtype}, p.gemm);
    const int scale_row = dequant_scale_row(p.gemm);
    if (s && c.scale_row != 0 && (scale_row == 0 || scale_row > c.scale_row)) {
      s = unsupported(
          fmt::format("B's scales are no rows of at most {} bytes, which the kernel brings whole", c.scale_row));
    }
    if (s) s = check_entries(p, c);
    return s ? s : refuse(s.message());
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemmSm90DequantConfig c;
    return parse_config(step.key, c) ? cost_of(problem_cast<GroupedGemmProblem>(ref), device, c) : 0;
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep& step) const override {
    GemmSm90DequantConfig c;
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    return parse_config(step.key, c) ? dequant_workspace_bytes(p.gemm, c, most_entries(p, c.tokens)) : 0;
  }
  std::string numerics_id(const RecipeStep& step) const override {
    GemmSm90DequantConfig c;
    if (!parse_config(step.key, c)) return "";
    return fmt::format("seq:wgmma_t_w{}{}", dtype_bits(c.weight),
                       narrow_weights_promote(c) ? fmt::format("_scaled{}", c.group) : "");
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemmSm90DequantConfig c;
    if (Status s = parse_config(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("{}-{}-{}x{}", kGroupedDequant, dtype_name(c.weight), c.rows, c.tokens);
    request.entry = fmt::format("tw_{}_{}", kGroupedDequant, key.digest.hex());
    request.source = gpu_instance_source(
        ArchVendor::kNvidia, "grouped_gemm/sm90/dequant/grouped_sm90_dequant.cuh", request.entry,
        fmt::format("{}<tilewright::{}{}>", kGroupedDequant, GemmSm90DequantConfig::kTypeName, cpp_initializer(c)),
        "GroupedSm90DequantArgs", gemm_sm90_dequant_threads(c), 1);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    GemmSm90DequantConfig c;
    return parse_config(key, c) ? grouped_sm90_dequant_shared_bytes(c) : 0;
  }
  std::vector<KernelKey> builtin_keys(std::string_view) const override { return {}; }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    GemmSm90DequantConfig c;
    if (Status s = parse_config(step.key, c); !s) return s;
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    GemmSm90SkinnyArgs product{};
    product.batch_a = true, product.batch_b = p.gemm.stride_b_batch != 0;
    Stage stage = dequant_stage(p.gemm, c, product, 0, std::move(kernel));

    // The arguments of the product come first: their places stay.
    static_assert(offsetof(GroupedSm90DequantArgs, product) == 0);
    static_assert(sizeof(GroupedSm90DequantArgs) <= kMaxArgBytes);
    GroupedSm90DequantArgs args{};
    std::memcpy(&args.product, stage.args.data(), sizeof(args.product));
    args.groups = group_args(p);
    args.most_entries = static_cast<int>(most_entries(p, c.tokens));
    stage.args.resize(sizeof(args));
    std::memcpy(stage.args.data(), &args, sizeof(args));
    add_group_patches(stage, p, offsetof(GroupedSm90DequantArgs, groups));
    stage.shape.grid = {static_cast<uint32_t>(std::max(device.units, 1)), 1, 1};
    stage.shape.shared_bytes = static_cast<uint32_t>(grouped_sm90_dequant_shared_bytes(c));
    return std::vector<Stage>{std::move(stage)};
  }

 private:
  static constexpr int kLeastStages = 3;  // with fewer in flight memory rests

  static Status refuse(std::string_view message) {
    return unsupported(fmt::format("{}: {}", kGroupedDequant, message));
  }
  static KernelKey key_of(const GemmSm90DequantConfig& c, std::string_view target) {
    return make_key("grouped_gemm", kGroupedDequant, target, fmt::format("dtype={}", dtype_name(c.dtype)),
                    print_fields(c));
  }
  static const char* refusal_of(const GemmSm90DequantConfig& c, const ArchSpec& arch) {
    if (const char* reason = grouped_sm90_dequant_refusal(c)) return reason;
    if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
    if (!grouped_dequant_fits(c)) return "more shared memory than a multiprocessor has";
    return nullptr;
  }
  static Status parse_config(const KernelKey& key, GemmSm90DequantConfig& c) {
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
    if (Status s = check_narrow_product(g); !s) return s;
    if (g.batch_invariant) return unsupported("batch_invariant: other rows are summed by other kernels");
    if (choose_epilogue(g).kind == EpilogueKind::kFull) {
      return unsupported("the epilogue has C, steps, or an operand that varies by both row and column");
    }
    const GemmSm90DequantConfig least = grouped_dequant_config(g, least_dequant_tile(g), 0);
    if (const char* reason = grouped_sm90_dequant_refusal(least)) return unsupported(reason);
    if (sm90_wgmma(*device.arch, g.a_dtype, 8) == nullptr) {
      return unsupported(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(g.a_dtype)));
    }
    for (const auto& [name, access] : {std::pair{"a", access_a(g)}, {"b", access_b(g)}}) {
      if (access.major != Major::kK || access.copy != 16) {
        return unsupported(fmt::format("{}: the kernel wants rows along K, at multiples of 16 bytes", name));
      }
    }
    if (g.k % 8 != 0) return unsupported(fmt::format("K = {}, allowed: multiples of 8", g.k));
    if (Status s = check_copied_sizes(g); !s) return s;
    int widest = 0;
    for (const DequantTile& tile : dequant_tiles_of(g)) {
      const GemmSm90DequantConfig c = grouped_dequant_config(g, tile, 0);
      if (refusal_of(c, *device.arch) == nullptr) widest = std::max(widest, c.tokens);
    }
    if (widest == 0) return unsupported("no tile has a kernel for these types");
    return check_entries_of(p, widest);
  }

  // However rows are spread among groups that do not overlap.
  static int64_t most_entries(const GroupedGemmProblem& p, int tokens) {
    const bool masked = p.mode == GroupMode::kMasked;
    const int64_t rows = masked ? p.gemm.m * p.gemm.batch : p.gemm.m;
    return grouped_dequant_entries(p.gemm.batch, rows, p.gemm.m, tokens);
  }
  static Status check_entries_of(const GroupedGemmProblem& p, int tokens) {
    const int64_t most = most_entries(p, tokens);
    if (most > kGroupedDequantEntries) {
      return unsupported(fmt::format("groups may have {} pieces of {} rows, allowed: at most {}", most, tokens,
                                     kGroupedDequantEntries));
    }
    // The smallest tile makes the most.
    if (p.gemm.n / 64 + 1 > kMaxCopiedSize / std::max<int64_t>(most, 1)) return unsupported("more than 2^31 tiles");
    return {};
  }
  static Status check_entries(const GroupedGemmProblem& p, const GemmSm90DequantConfig& c) {
    return check_entries_of(p, c.tokens);
  }

  // A batch of as many entries as groups are likely to have.
  static double cost_of(const GroupedGemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c) {
    const double groups = std::max(1.0, likely_groups(p));
    const auto rows = static_cast<int64_t>(std::max(1.0, std::ceil(static_cast<double>(p.likely_rows()) / groups)));
    const GroupedRows cut = grouped_rows(static_cast<int>(rows), kGroupedDequantStep, c.tokens);
    GemmProblem batch = p.gemm;
    batch.m = std::min<int64_t>(rows, c.tokens);
    batch.batch = std::max<int64_t>(1, static_cast<int64_t>(groups * cut.tiles));
    batch.stride_a_batch = batch.m * batch.k, batch.stride_d_batch = batch.m * batch.n;
    return kSecondsToEntries + gemm_sm90_dequant_cost(batch, device, c);
  }
};

}  // namespace

const KernelFamily& grouped_sm90_dequant_family() {
  static const GroupedSm90DequantFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
