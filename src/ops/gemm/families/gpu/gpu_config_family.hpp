// SPDX-License-Identifier: MIT
// What GPU families with a compile-time config share, whatever their operator's problem is: keys, what any of them refuses, and the way
// from a recipe step through its config to cost, workspace, source and stages.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/fields.hpp"
#include "dispatch/registry/family.hpp"
#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {

// Whose GPUs run a kernel, its header in its operator's room of kernels, "sm90/gemm_sm90.cuh", and its argument struct.
struct GpuKernelFile {
  ArchVendor vendor;
  std::string_view header, args;
  std::string_view op = "gemm";
};

// The product that a problem has for each of its entries.
inline const GemmProblem* product_of(const GemmProblem* problem) { return problem; }

template <class Problem, class Config>
class GpuConfigFamily : public KernelFamily {
 public:
  std::string_view name() const final { return name_; }
  std::string_view op() const final { return file_.op; }
  Backend backend() const final { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const final {
    const auto& p = problem_cast<Problem>(ref);
    const GemmProblem& product = *product_of(&p);
    Status s = check_gpu(device, file_.vendor);
    if (s) s = check_form(p);
    if (s) s = check_tiled_problem(product);
    if (s) s = reads_packed() ? check_packed_bits(product, device) : check_not_packed(product);
    if (s) s = check_product(product);
    if (s) s = check_problem(p, device);
    return s ? s : refuse(s.message());
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const final {
    std::vector<Candidate> found;
    add_candidates(problem_cast<Problem>(ref), device, found);
    std::ranges::stable_sort(found, {}, &Candidate::cost);
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    const auto& p = problem_cast<Problem>(ref);
    const GemmProblem& product = *product_of(&p);
    if (Status s = supports(ref, device); !s) return s;
    Config config;
    if (Status s = parse_config(step.key, config); !s) return s;
    if (config.dtype != product.a_dtype) {
      return refuse(
          fmt::format("kernel takes {}, the problem is {}", dtype_name(config.dtype), dtype_name(product.a_dtype)));
    }
    Status s = check_gpu_epilogue({config.epilogue, config.activation, config.gate, config.d_dtype}, product);
    if (s) s = check_pair(p, device, config, step.knobs);
    return s ? s : refuse(s.message());
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    Config config;
    if (!parse_config(step.key, config)) return 0;
    return cost_of(problem_cast<Problem>(ref), device, config, step.knobs);
  }

  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    Config config;
    if (!parse_config(step.key, config)) return 0;
    return workspace_of(problem_cast<Problem>(ref), device, config, step.knobs);
  }

  std::string numerics_id(const RecipeStep& step) const final {
    Config config;
    if (!parse_config(step.key, config)) return "";
    return order_of(config, step.knobs);
  }

  Result<CompileRequest> source(const KernelKey& key) const final {
    Config config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("{}-{}-{}", name_, dtype_name(config.dtype), label_of(config));
    request.entry = fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source =
        gpu_instance_source(file_.vendor, fmt::format("{}/{}", file_.op, file_.header), request.entry,
                            fmt::format("{}<tilewright::{}{}>", name_, Config::kTypeName, cpp_initializer(config)),
                            file_.args, threads_of(config), blocks_of(config));
    return request;
  }

  int64_t launch_shared_bytes(const KernelKey& key) const final {
    Config config;
    return parse_config(key, config) ? shared_bytes_of(config) : 0;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const final {
    if (Status s = check(ref, device, step); !s) return s;
    Config config;
    if (Status s = parse_config(step.key, config); !s) return s;
    return stages_of(problem_cast<Problem>(ref), device, config, step.knobs, std::move(kernel));
  }

 protected:
  using Kernel = std::shared_ptr<const LoadedKernel>;

  GpuConfigFamily(std::string_view name, GpuKernelFile file) : name_(name), file_(file) {}

  ArchVendor vendor() const { return file_.vendor; }
  KernelKey key_of(const Config& config, std::string_view target) const {
    return make_key(file_.op, name_, target, fmt::format("dtype={}", dtype_name(config.dtype)), print_fields(config));
  }

  // What is the family's own. Messages stand after its name.
  virtual Status check_form(const Problem&) const { return {}; }  // asked before all else
  virtual bool reads_packed() const { return false; }
  virtual Status check_product(const GemmProblem& product) const { return check_plain_product(product); }
  virtual Status check_problem(const Problem& problem, const DeviceSpec& device) const = 0;
  virtual Status check_pair(const Problem&, const DeviceSpec&, const Config&, const Knobs&) const { return {}; }
  virtual const char* refusal_of(const Config& config, const ArchSpec& arch) const = 0;  // null = legal
  virtual void add_candidates(const Problem& problem, const DeviceSpec& device,
                              std::vector<Candidate>& found) const = 0;
  virtual double cost_of(const Problem& problem, const DeviceSpec& device, const Config& config,
                         const Knobs& knobs) const = 0;
  virtual int64_t workspace_of(const Problem&, const DeviceSpec&, const Config&, const Knobs&) const { return 0; }
  virtual std::string order_of(const Config& config, const Knobs& knobs) const = 0;  // of summation
  virtual std::string label_of(const Config& config) const = 0;                      // in the name of a compiled file
  virtual int threads_of(const Config& config) const = 0;
  virtual int blocks_of(const Config& config) const = 0;        // that an SM must be able to hold
  virtual int shared_bytes_of(const Config& config) const = 0;  // that a launch adds to the kernel's own
  virtual std::vector<Stage> stages_of(const Problem& problem, const DeviceSpec& device, const Config& config,
                                       const Knobs& knobs, Kernel kernel) const = 0;

 private:
  Status refuse(std::string_view message) const { return unsupported(fmt::format("{}: {}", name_, message)); }

  Status parse_config(const KernelKey& key, Config& config) const {
    const ArchSpec* arch = find_arch(key.target);
    if (arch == nullptr || arch->vendor != file_.vendor) {
      return refuse(fmt::format("{}: no target of {}", key.text, vendor_name(file_.vendor)));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
    if (key.signature() != fmt::format("dtype={}", dtype_name(config.dtype))) {
      return refuse(key.text + ": signature and config name different dtypes");
    }
    if (const char* reason = refusal_of(config, *arch)) return refuse(fmt::format("{}: {}", key.text, reason));
    return {};
  }

  const std::string_view name_;
  const GpuKernelFile file_;
};

}  // namespace tilewright
