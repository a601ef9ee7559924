// SPDX-License-Identifier: MIT
// <op>_cpu, an instance for each set of types, and <op>_generic, which is typed at run time and always built: every valid problem
// runs. Both sum in one order, whatever the number of rows or threads.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "arch/cpu_levels.hpp"
#include "core/fields.hpp"
#include "ops/row/families/row_families.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core: they rank families, they promise nothing.
constexpr double kRowGbpsUnit = 10.0;
constexpr double kRowLaunchSeconds = 3e-6;
constexpr double kGenericElementSeconds = 3e-9;
// A part of the sums of columns costs its columns once more, in f32; more than units of any CPU are not needed.
constexpr int64_t kPartElements = 65536, kMostColumnParts = 128, kColumnsUnit = 16;
constexpr int64_t kVectorLanes = 16;
constexpr std::string_view kGenericRowTarget = "x86-64";

// Groups of neighbours whose scale is found.
bool finds_groups(Quantisation quant, DType out) { return quant == Quantisation::kGroup && is_quantised(out); }

RowCpuConfig row_cpu_config(const RowProblem& p) {
  const int group = finds_groups(p.quant, p.out.dtype) ? static_cast<int>(p.group) : 0;
  return {p.x.dtype, p.residual.dtype, p.out.dtype, p.quant, group, p.hadamard != 0, p.state_words != 0};
}

// Gradients of norms are slower with that instruction, whose branch for subnormal values stands between their sums of columns.
bool row_writes_bf16(const RowOp& op, const RowCpuConfig& config) {
  return !op.norm_backward() && (config.out == DType::kBf16 || config.residual == DType::kBf16);
}

class RowCpuFamily final : public KernelFamily {
 public:
  RowCpuFamily(const RowOp& op, bool generic)
      : op_(op), generic_(generic), name_(fmt::format("{}_{}", op.name, generic ? "generic" : "cpu")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_.name; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (device.arch->vendor != ArchVendor::kX86) return refuse_cpu(fmt::format("{} is a GPU", device.arch->target));
    if (generic_ || runs_on("x86-64-v3", device.arch->target)) return {};
    return refuse_cpu(fmt::format("{} has no AVX2, needs x86-64-v3", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<RowProblem>(ref);
    if (generic_) return {{{generic_key(), {}}, predict_cpu(p, device)}};
    const RowCpuConfig config = row_cpu_config(p);
    for (const ArchSpec* arch : device.targets) {
      if (is_vector_level(arch->target, row_writes_bf16(op_, config)))
        return {{{key_of(config, arch->target), {}}, predict_cpu(p, device)}};
    }
    return {};
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    RowCpuConfig config;
    if (Status s = parse_cpu_config(step.key, config); !s || generic_) return s;
    const RowCpuConfig need = row_cpu_config(problem_cast<RowProblem>(ref));
    if (config == need) return {};
    return refuse_cpu(fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    return predict_cpu(problem_cast<RowProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep&) const override {
    const auto& p = problem_cast<RowProblem>(ref);
    if (p.column_sums() > 0) return row_workspace_bytes(p, column_parts(p));
    const LaunchShape shape = row_shape(p, device);
    if (const int64_t kept = kept_exponentials(p, device); kept > 0) {
      return shape.shares * kept * static_cast<int64_t>(sizeof(float));
    }
    return row_workspace_bytes(p, shape.shares);
  }
  std::string numerics_id(const RecipeStep& step) const override {
    return step.key.target == kGenericRowTarget ? "lanes16x4" : "lanes16x4:fma";
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    RowCpuConfig config{};
    if (Status s = parse_cpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_ ? name_
                            : fmt::format("{}-{}-{}-{}", name_, dtype_name(config.x), dtype_name(config.out),
                                          kQuantisationNames[static_cast<int>(config.quant)]);
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source = cpu_instance_source(
        fmt::format("{0}/{0}_cpu.hpp", op_.name), request.entry,
        fmt::format("{}_cpu<tilewright::{}{}>", op_.name, RowCpuConfig::kTypeName, cpp_initializer(config)), "RowArgs");
    return request;
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    if (generic_ && target == kGenericRowTarget) keys.push_back(generic_key());
    if (generic_) return keys;
    for (const RowProblem& p : usual_row_problems(op_)) {
      const RowCpuConfig config = row_cpu_config(p);
      if (is_vector_level(target, row_writes_bf16(op_, config))) keys.push_back(key_of(config, target));
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    const auto& p = problem_cast<RowProblem>(ref);
    Stage stage = row_stage(p, passes_caches(row_bytes_moved(p), device), 0, std::move(kernel));
    if (p.column_sums() > 0) {
      const int64_t parts = column_parts(p), columns = (p.n + kColumnsUnit - 1) / kColumnsUnit;
      LaunchShape of_columns = stage.shape;
      share_work(stage.shape, predict_cpu(p, device), parts, device);
      of_columns.units = static_cast<uint32_t>(std::clamp<int64_t>(columns, 1, device.units));
      return column_stages(p, stage, of_columns, parts);
    }
    stage.shape = row_shape(p, device);
    if (const int64_t kept = kept_exponentials(p, device); kept > 0) {
      RowArgs args;
      std::memcpy(&args, stage.args.data(), sizeof(args));
      args.part_count = kept;
      std::memcpy(stage.args.data(), &args, sizeof(args));
      stage.patches.push_back({ArgPatch::Kind::kWorkspace, 0, static_cast<uint32_t>(offsetof(RowArgs, parts))});
    }
    const LaunchShape find = stage.shape;
    LaunchShape scale = find;
    scale.units = scale.shares = 1;
    return row_stages(p, std::move(stage), find, scale, find.shares);
  }

 private:
  // Floats of a unit that hold the exponentials of a long row between the sum and the output, which a core's second level of cache holds; 0
  // where none are.
  int64_t kept_exponentials(const RowProblem& p, const DeviceSpec& device) const {
    if (generic_ || p.rows() == 0 || p.n <= kExponentialPart || p.log != 0) return 0;
    if (!op_.softmax && !(op_.loses && p.out.present())) return 0;
    const int64_t room = (p.n + kVectorLanes - 1) / kVectorLanes * kVectorLanes;
    return room * static_cast<int64_t>(sizeof(float)) <= device.l2_bytes ? room : 0;
  }
  // A unit keeps exponentials where its cache has them already: a share each.
  LaunchShape row_shape(const RowProblem& p, const DeviceSpec& device) const {
    LaunchShape shape;
    share_work(shape, predict_cpu(p, device), p.items(), device);
    if (kept_exponentials(p, device) > 0) shape.shares = shape.units;
    return shape;
  }
  // Of the rows of a sum of columns: as many whatever the units are, so that their number changes no bit.
  static int64_t column_parts(const RowProblem& p) {
    const int64_t rows = std::max<int64_t>(p.rows(), 1);
    return std::clamp<int64_t>(rows * p.n / kPartElements, 1, std::min(rows, kMostColumnParts));
  }
  Status refuse_cpu(const std::string& message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  KernelKey generic_key() const { return make_key(op_.name, name_, kGenericRowTarget, "any", "run_time=1"); }
  KernelKey key_of(const RowCpuConfig& config, std::string_view target) const {
    return make_key(op_.name, name_, target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_cpu_config(const KernelKey& key, RowCpuConfig& config) const {
    if (generic_) {
      if (key == generic_key()) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_cpu(key.text + ": " + s.message());
    if (!(key == key_of(config, key.target)))
      return refuse_cpu(key.text + ": signature and config name different types");
    if ((config.hadamard || config.chance) && !op_.quantises)
      return refuse_cpu(key.text + ": hadamard and chance are quantize's");
    if (finds_groups(config.quant, config.out) ? !is_row_group(config.group) : config.group != 0)
      return refuse_cpu(
          fmt::format("{}: argument 'group' is {}, allowed where scales of groups are found: 16, 32, 64, 128; else 0",
                      key.text, config.group));
    if (!runs_on("x86-64-v3", key.target)) return refuse_cpu(key.text + ": needs x86-64-v3 or better");
    const Status s = check_row_types(op_, config.x, config.residual, config.out, config.quant);
    return s ? s : refuse_cpu(key.text + ": " + s.message());
  }
  double predict_cpu(const RowProblem& p, const DeviceSpec& device) const {
    const double elements = static_cast<double>(p.rows()) * static_cast<double>(p.n);
    const double memory = row_bytes_moved(p) / (kRowGbpsUnit * 1e9 * device.units);
    return kRowLaunchSeconds + memory + (generic_ ? elements * kGenericElementSeconds / device.units : 0);
  }

  const RowOp& op_;
  const bool generic_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<KernelFamily> make_row_cpu_family(const RowOp& op) { return std::make_unique<RowCpuFamily>(op, false); }
std::unique_ptr<KernelFamily> make_row_generic_family(const RowOp& op) {
  return std::make_unique<RowCpuFamily>(op, true);
}

}  // namespace tilewright
