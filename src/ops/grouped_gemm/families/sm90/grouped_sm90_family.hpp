// SPDX-License-Identifier: MIT
// What the Hopper families of grouped_gemm share: what of groups any of them refuses, and a launch of one stage. A family adds its
// candidates and what is its own.
#pragma once

#include <fmt/format.h>

#include "ops/gemm/families/gpu/gpu_config_family.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"

namespace tilewright {

inline const GemmProblem* product_of(const GroupedGemmProblem* problem) { return &problem->gemm; }

template <class Config>
class GroupedSm90Family : public GpuConfigFamily<GroupedGemmProblem, Config> {
 protected:
  using Base = GpuConfigFamily<GroupedGemmProblem, Config>;
  using typename Base::Kernel;

  // The kernel's header in kernels/grouped_gemm, and its argument struct.
  GroupedSm90Family(std::string_view name, std::string_view header, std::string_view args)
      : Base(name, {ArchVendor::kNvidia, header, args, "grouped_gemm"}) {}

  // What is the family's own. Messages stand after its name.
  virtual Status check_sizes(const GroupedGemmProblem& problem, const DeviceSpec& device) const = 0;
  virtual std::string entry_order_of(const Config& config) const = 0;  // of one entry's sums
  // But for its threads and shared memory.
  virtual Stage stage_of(const GroupedGemmProblem& problem, const DeviceSpec& device, const Config& config,
                         const Knobs& knobs, Kernel kernel) const = 0;

  Status check_form(const GroupedGemmProblem& p) const final {
    if (p.mode == GroupMode::kRaggedK) return unsupported("mode is ragged_k, the kernel takes contiguous and masked");
    if (p.indexed()) return unsupported("indices name rows, the kernel takes them as they lie");
    return {};
  }
  Status check_problem(const GroupedGemmProblem& p, const DeviceSpec& device) const final {
    if (p.gemm.batch_invariant) return unsupported("batch_invariant: other rows are summed by other kernels");
    if (choose_epilogue(p.gemm).kind == EpilogueKind::kFull) {
      return unsupported("the epilogue has C, steps, or an operand that varies by both row and column");
    }
    return check_sizes(p, device);
  }
  std::string order_of(const Config& c, const Knobs&) const final { return "seq:" + entry_order_of(c); }
  int blocks_of(const Config&) const final { return 1; }
  std::vector<Stage> stages_of(const GroupedGemmProblem& p, const DeviceSpec& device, const Config& c,
                               const Knobs& knobs, Kernel kernel) const final {
    Stage stage = stage_of(p, device, c, knobs, std::move(kernel));
    stage.shape.threads = static_cast<uint32_t>(this->threads_of(c));
    stage.shape.shared_bytes = static_cast<uint32_t>(this->shared_bytes_of(c));
    return {std::move(stage)};
  }
};

}  // namespace tilewright
