// SPDX-License-Identifier: MIT
#include "dispatch/plan.hpp"

#include <fmt/format.h>

namespace tilewright {

Status run_plan(Device& device, const Plan& plan, const CallBindings& bindings, const LaunchContext& context) {
  char* workspace = static_cast<char*>(bindings.workspace);
  Workspace own;  // in use until the last stage is launched
  if (workspace == nullptr && plan.workspace_bytes > 0) {
    Result<Workspace> got = device.workspace(plan.workspace_bytes, context.stream);
    if (!got) return got.status();
    own = std::move(*got);
    workspace = static_cast<char*>(own.data);
  }
  alignas(64) std::byte args[kMaxArgBytes];
  for (const Stage& stage : plan.stages) {
    std::memcpy(args, stage.args.data(), stage.args.size());
    for (const ArgPatch& patch : stage.patches) {
      std::byte* to = args + patch.arg_offset;
      if (patch.kind == ArgPatch::Kind::kScalar) {
        std::memcpy(to, &bindings.scalars[patch.slot], sizeof(float));
        continue;
      }
      if (patch.kind == ArgPatch::Kind::kZeros) {
        const Result<void*> zeros = device.zeros(stage.zero_bytes, context.stream);
        if (!zeros) return zeros.status();
        const char* const address = static_cast<const char*>(*zeros) + patch.add;
        std::memcpy(to, &address, sizeof(address));
        continue;
      }
      const char* base = patch.kind == ArgPatch::Kind::kWorkspace
                             ? workspace
                             : static_cast<const char*>(bindings.pointers[patch.slot]);
      const char* address = base == nullptr ? nullptr : base + patch.add;
      if (patch.kind == ArgPatch::Kind::kTensorMap) {
        if (Status s = device.set_tensor_map_address(to, address); !s) return s;
        continue;
      }
      std::memcpy(to, &address, sizeof(address));
    }
    const std::span<const std::byte> bound(args, stage.args.size());
    const Status s = stage.call != nullptr ? stage.call->run(bound, context)
                                           : device.launch(*stage.kernel, bound, stage.shape, context);
    if (!s) return s;
  }
  return {};
}

Status run_plan_in_row(Device& device, const Plan& plan, const CallBindings& bindings, const LaunchContext& context) {
  LaunchContext launch = context;
  launch.programmatic_edge = plan.programmatic_edge;
  return run_plan(device, plan, bindings, launch);
}

}  // namespace tilewright
