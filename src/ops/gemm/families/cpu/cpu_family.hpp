// SPDX-License-Identifier: MIT
// What the CPU families with a compile-time config share: keys, what any of them refuses, and the way from a recipe step
// through its config to cost, workspace, source and stage. A family adds its candidates and what is its own of each.
#pragma once

#include <fmt/format.h>

#include "core/fields.hpp"
#include "dispatch/registry/family.hpp"
#include "ops/gemm/families/cpu/gemm_cpu_cost.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {

// Register tiles of gemm_cpu worth trying for an instruction; gemm_cpu_refusal() has the last word. The first one is always
// built.
struct CpuTile {
  int m, n;
};
std::vector<CpuTile> cpu_tiles(CpuMma mma);

// Ok, or why no such kernel multiplies the problem on this device.
Status check_cpu_problem(const GemmProblem& problem, const DeviceSpec& device);
// The same but for what is multiplied.
Status check_cpu_sizes(const GemmProblem& problem, const DeviceSpec& device);
// Ok, or why kernels that widen weights have no such scales of groups: they have those of 32, 64 or 128 of K.
Status check_dequant_group(const ScaleProblem& scale);
// Ok, or why no kernel of the key's target has this dtype and instruction.
Status check_cpu_key(const KernelKey& key, DType dtype, CpuMma mma);

template <class Config>
class CpuFamily : public KernelFamily {
 public:
  std::string_view name() const final { return name_; }
  std::string_view op() const final { return "gemm"; }
  Backend backend() const final { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const final {
    const auto& p = problem_cast<GemmProblem>(ref);
    Status s = check_cpu_sizes(p, device);
    if (s) s = check_product(p);
    if (s) s = check_problem(p, device);
    return s ? s : refuse(s.message());
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    Config config;
    if (Status s = parse_config(step.key, config); !s) return s;
    if (const DType dtype = kernel_dtype(p, config); config.dtype != dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(config.dtype), dtype_name(dtype)));
    }
    if (p.batch_invariant && config.mma != invariant_mma(p, device)) {
      return refuse("batch_invariant: this device's order of summation is another instruction's");
    }
    const Status s = check_pair(p, config);
    return s ? s : refuse(s.message());
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    Config config;
    if (!parse_config(step.key, config)) return 0;
    return cost_of(problem_cast<GemmProblem>(ref), device, config, typed(step.knobs));
  }

  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    Config config;
    if (!parse_config(step.key, config)) return 0;
    return workspace_of(gemm_scaled_args(problem_cast<GemmProblem>(ref), typed(step.knobs)), device.units, config);
  }

  std::string numerics_id(const RecipeStep& step) const final {
    Config config;
    if (!parse_config(step.key, config)) return "";
    return fmt::format("{}:{}", order_of(config), fields_detail::print_value(config.mma));
  }

  Result<CompileRequest> source(const KernelKey& key) const final {
    Config config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("{}-{}-{}", name_, fields_detail::print_value(config.mma), label_of(config));
    request.entry = fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source =
        "#include \"gemm/cpu/gemm_support_cpu.hpp\"\n" +
        cpu_instance_source(fmt::format("gemm/cpu/{}.hpp", name_), request.entry,
                            fmt::format("{}<tilewright::{}{}>", name_, Config::kTypeName, cpp_initializer(config)),
                            scaled_ ? "GemmScaledArgs" : "GemmArgs");
    return request;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const final {
    if (Status s = check(ref, device, step); !s) return s;
    return std::vector<Stage>{(scaled_ ? gemm_scaled_stage : gemm_stage)(
        problem_cast<GemmProblem>(ref), typed(step.knobs), static_cast<uint32_t>(device.units), std::move(kernel))};
  }

 protected:
  // `scaled`: the kernel takes GemmScaledArgs.
  explicit CpuFamily(std::string_view name, bool scaled = false) : name_(name), scaled_(scaled) {}

  KernelKey key_of(const Config& config, std::string_view target) const {
    return make_key("gemm", name_, target, fmt::format("dtype={}", dtype_name(config.dtype)), print_fields(config));
  }

  // What is the family's own. Messages stand after its name.
  virtual Status check_product(const GemmProblem& problem) const { return check_plain_product(problem); }
  virtual Status check_problem(const GemmProblem& problem, const DeviceSpec& device) const = 0;
  virtual DType kernel_dtype(const GemmProblem& problem, const Config&) const {
    return problem.a_dtype;
  }  // of a config
  // The instruction whose order of summation batch_invariant promises.
  virtual CpuMma invariant_mma(const GemmProblem& problem, const DeviceSpec& device) const {
    return cpu_mma_choices(device, problem.a_dtype).front().mma;
  }
  virtual Status check_pair(const GemmProblem&, const Config&) const { return {}; }
  virtual const char* refusal_of(const Config& config) const = 0;  // null = legal
  virtual double cost_of(const GemmProblem& problem, const DeviceSpec& device, const Config& config,
                         const GemmKnobs& knobs) const = 0;
  virtual int64_t workspace_of(const GemmScaledArgs& args, int units, const Config& config) const = 0;
  virtual std::string_view order_of(const Config& config) const = 0;  // of summation
  virtual std::string label_of(const Config& config) const = 0;       // in the name of a compiled file

 private:
  static GemmKnobs typed(const Knobs& knobs) { return {knobs.values[0], knobs.values[1], knobs.values[2]}; }
  Status refuse(std::string_view message) const { return unsupported(fmt::format("{}: {}", name_, message)); }

  Status parse_config(const KernelKey& key, Config& config) const {
    Status s = parse_fields(key.config(), config);
    if (s) s = check_cpu_key(key, config.dtype, config.mma);
    if (!s) return refuse(fmt::format("{}: {}", key.text, s.message()));
    if (const char* reason = refusal_of(config)) return refuse(fmt::format("{}: {}", key.text, reason));
    return {};
  }

  const std::string_view name_;
  const bool scaled_;
};

}  // namespace tilewright
