// SPDX-License-Identifier: MIT
// A plan is the bound form of a recipe: stages whose argument bytes are ready but for addresses. Immutable, shareable.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "dispatch/registry/kernel_key.hpp"

namespace tilewright {

// Where a call's values go in a stage's argument bytes. Slots are the operator's own numbering.
struct ArgPatch {
  // kTensorMap: a pointer slot's, into a map. kZeros: the stream's zeros, as many as the stage wants.
  enum class Kind : uint8_t { kPointer, kWorkspace, kScalar, kTensorMap, kZeros };
  Kind kind;
  uint16_t slot;        // pointer or scalar slot; unused for the workspace
  uint32_t arg_offset;  // bytes from the start of the arguments
  int64_t add = 0;      // bytes added to the pointer; workspace: the stage's offset; zeros: an offset in the stage's
};

struct Stage {
  std::shared_ptr<const LoadedKernel> kernel;
  std::shared_ptr<const HostCall> call;  // made instead of launching `kernel`
  LaunchShape shape;
  std::vector<std::byte> args;
  std::vector<ArgPatch> patches;
  int64_t zero_bytes = 0;                  // of the stream's zeros
  std::vector<TensorMapSpec> tensor_maps;  // encoded into `args` when the plan is made
};

// Why this recipe: the order of design.md, section 3.
enum class ChoiceSource : uint8_t { kForced, kTuned, kBucket, kCost, kGeneric };
inline constexpr const char* kChoiceSourceNames[] = {"forced", "tuned", "bucket", "cost", "generic"};
constexpr const char* const* enum_names(ChoiceSource) { return kChoiceSourceNames; }
constexpr int enum_count(ChoiceSource) { return 5; }

struct Plan {
  Recipe recipe;
  std::vector<Stage> stages;
  int64_t workspace_bytes = 0;
  ChoiceSource source = ChoiceSource::kGeneric;
  bool programmatic_edge = false;  // chosen for calls with programmatic edges
  bool fallback = false;           // a better recipe existed but was not built
  // Of a fallback: the code cache's background_generation() before the choice. When that moves on, the better recipe may
  // be there.
  uint64_t generation = 0;
};

// What one call brings: addresses and scalars by slot. Read during the call only.
struct CallBindings {
  std::span<const void* const> pointers;
  std::span<const float> scalars;
  void* workspace = nullptr;  // at least plan.workspace_bytes, or null: the device's own
};

inline constexpr size_t kMaxArgBytes = 2048;

Status run_plan(Device& device, const Plan& plan, const CallBindings& bindings, const LaunchContext& context);
// One of a row of calls as it is measured: with programmatic edges where the plan was chosen for them. Nothing in front of it
// in the stream may still write what such a kernel reads early.
Status run_plan_in_row(Device& device, const Plan& plan, const CallBindings& bindings, const LaunchContext& context);

}  // namespace tilewright
