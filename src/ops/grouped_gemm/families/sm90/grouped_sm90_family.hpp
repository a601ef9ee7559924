// SPDX-License-Identifier: MIT
// What the Hopper families of grouped_gemm share: keys, what any of them refuses, and the way from a recipe step through its config to
// cost, workspace, source and stages. A family adds its candidates and what is its own of each.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"

namespace tilewright {

// The kernel's header in kernels/grouped_gemm, and its argument struct.
struct GroupedKernelFile {
  std::string_view header, args;
};

template <class Config>
class GroupedSm90Family : public KernelFamily {
 public:
  std::string_view name() const final { return name_; }
  std::string_view op() const final { return "grouped_gemm"; }
  Backend backend() const final { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const final {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    Status s = check_gpu(device, ArchVendor::kNvidia);
    if (s) s = check_groups(p);
    if (s) s = check_tiled_problem(p.gemm);
    if (s) s = reads_packed() ? check_packed_bits(p.gemm, device) : check_not_packed(p.gemm);
    if (s) s = check_product(p.gemm);
    if (s) s = check_sums(p.gemm);
    if (s) s = check_problem(p, device);
    return s ? s : refuse(s.message());
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const final {
    std::vector<Candidate> found;
    add_candidates(problem_cast<GroupedGemmProblem>(ref), device, found);
    std::ranges::stable_sort(found, {}, &Candidate::cost);
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    const auto& p = problem_cast<GroupedGemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    Config c;
    if (Status s = parse_config(step.key, c); !s) return s;
    if (c.dtype != p.gemm.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(c.dtype), dtype_name(p.gemm.a_dtype)));
    }
    Status s = check_gpu_epilogue({c.epilogue, c.activation, c.gate, c.d_dtype}, p.gemm);
    if (s) s = check_pair(p, device, c, step.knobs);
    return s ? s : refuse(s.message());
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const final {
    Config c;
    return parse_config(step.key, c) ? cost_of(problem_cast<GroupedGemmProblem>(ref), device, c, step.knobs) : 0;
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec&, const RecipeStep& step) const final {
    Config c;
    return parse_config(step.key, c) ? workspace_of(problem_cast<GroupedGemmProblem>(ref), c) : 0;
  }
  std::string numerics_id(const RecipeStep& step) const final {
    Config c;
    return parse_config(step.key, c) ? "seq:" + order_of(c) : "";
  }

  Result<CompileRequest> source(const KernelKey& key) const final {
    Config c;
    if (Status s = parse_config(key, c); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("{}-{}", name_, label_of(c));
    request.entry = fmt::format("tw_{}_{}", name_, key.digest.hex());
    request.source =
        gpu_instance_source(ArchVendor::kNvidia, fmt::format("grouped_gemm/{}", file_.header), request.entry,
                            fmt::format("{}<tilewright::{}{}>", name_, Config::kTypeName, cpp_initializer(c)),
                            file_.args, threads_of(c), 1);
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const final {
    Config c;
    return parse_config(key, c) ? shared_bytes_of(c) : 0;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const final {
    if (Status s = check(ref, device, step); !s) return s;
    Config c;
    if (Status s = parse_config(step.key, c); !s) return s;
    Stage stage = stage_of(problem_cast<GroupedGemmProblem>(ref), device, c, step.knobs, std::move(kernel));
    stage.shape.threads = static_cast<uint32_t>(threads_of(c));
    stage.shape.shared_bytes = static_cast<uint32_t>(shared_bytes_of(c));
    return std::vector<Stage>{std::move(stage)};
  }

 protected:
  using Kernel = std::shared_ptr<const LoadedKernel>;

  GroupedSm90Family(std::string_view name, GroupedKernelFile file) : name_(name), file_(file) {}

  Status refuse(std::string_view message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  KernelKey key_of(const Config& c, std::string_view target) const {
    return make_key("grouped_gemm", name_, target, fmt::format("dtype={}", dtype_name(c.dtype)), print_fields(c));
  }

  // What is the family's own. Messages stand after its name.
  virtual bool reads_packed() const { return false; }
  virtual Status check_product(const GemmProblem& problem) const = 0;
  virtual Status check_problem(const GroupedGemmProblem& problem, const DeviceSpec& device) const = 0;
  virtual Status check_pair(const GroupedGemmProblem& problem, const DeviceSpec& device, const Config& config,
                            const Knobs& knobs) const = 0;
  virtual const char* refusal_of(const Config& config, const ArchSpec& arch) const = 0;  // null = legal
  virtual void add_candidates(const GroupedGemmProblem& problem, const DeviceSpec& device,
                              std::vector<Candidate>& found) const = 0;
  virtual double cost_of(const GroupedGemmProblem& problem, const DeviceSpec& device, const Config& config,
                         const Knobs& knobs) const = 0;
  virtual int64_t workspace_of(const GroupedGemmProblem&, const Config&) const { return 0; }
  virtual std::string order_of(const Config& config) const = 0;  // of one entry's sums
  virtual std::string label_of(const Config& config) const = 0;
  virtual int threads_of(const Config& config) const = 0;
  virtual int shared_bytes_of(const Config& config) const = 0;
  // But for its threads and shared memory.
  virtual Stage stage_of(const GroupedGemmProblem& problem, const DeviceSpec& device, const Config& config,
                         const Knobs& knobs, Kernel kernel) const = 0;

  Status parse_config(const KernelKey& key, Config& c) const {
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

 private:
  static Status check_groups(const GroupedGemmProblem& p) {
    if (p.mode == GroupMode::kRaggedK) return unsupported("mode is ragged_k, the kernel takes contiguous and masked");
    if (p.indexed()) return unsupported("indices name rows, the kernel takes them as they lie");
    return {};
  }
  static Status check_sums(const GemmProblem& g) {
    if (g.batch_invariant) return unsupported("batch_invariant: other rows are summed by other kernels");
    if (choose_epilogue(g).kind == EpilogueKind::kFull) {
      return unsupported("the epilogue has C, steps, or an operand that varies by both row and column");
    }
    return {};
  }

  std::string_view name_;
  GroupedKernelFile file_;
};

}  // namespace tilewright
