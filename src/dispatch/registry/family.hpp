// SPDX-License-Identifier: MIT
// A kernel family: one template or one set of loadable objects, and everything dispatch needs to choose among its
// instances.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dispatch/operator.hpp"
#include "dispatch/plan.hpp"
#include "jit/compiler.hpp"

namespace tilewright {

// What kVendor names has no code of ours: source() refuses, stages() get no kernel, and its keys count as built.
enum class Backend : uint8_t { kTile, kNative, kAsm, kTriton, kVendor, kReference };
inline constexpr const char* kBackendNames[] = {"tile", "native", "asm", "triton", "vendor", "reference"};
constexpr const char* const* enum_names(Backend) { return kBackendNames; }
constexpr int enum_count(Backend) { return 6; }

struct Candidate {
  RecipeStep step;
  double cost = 0;  // predicted seconds
};

inline Status unsupported(std::string message) { return Status(StatusCode::kUnsupported, std::move(message)); }

class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view op() const = 0;
  virtual Backend backend() const = 0;
  // The generic family is typed at run time, always built, and supports every valid problem.
  virtual bool generic() const { return false; }

  // Ok, or the reason why no instance of this family serves the problem on this device.
  virtual Status supports(ProblemRef problem, const DeviceSpec& device) const = 0;
  // Every legal candidate, cheapest first. Empty only when supports() refuses.
  virtual std::vector<Candidate> candidates(ProblemRef problem, const DeviceSpec& device) const = 0;
  // Whether this recipe step (from a table, a journal, a user) is legal for the problem, or why not.
  virtual Status check(ProblemRef problem, const DeviceSpec& device, const RecipeStep& step) const = 0;
  virtual double cost(ProblemRef problem, const DeviceSpec& device, const RecipeStep& step) const = 0;
  virtual int64_t workspace_bytes(ProblemRef problem, const DeviceSpec& device, const RecipeStep& step) const = 0;
  // Order of reductions: equal ids give bitwise equal results. E.g. "seq:fma" or "seq:amx_bf16".
  virtual std::string numerics_id(const RecipeStep& step) const = 0;

  virtual std::span<const std::string_view> knob_names() const = 0;
  // The one-line source of an instance, its entry and its target. Refuses keys that are not legal.
  virtual Result<CompileRequest> source(const KernelKey& key) const = 0;
  // Shared memory (LDS) that a launch adds to the kernel's own, where the key tells it.
  virtual int64_t launch_shared_bytes(const KernelKey&) const { return 0; }
  // Keys compiled into the library for `target`.
  virtual std::vector<KernelKey> builtin_keys(std::string_view target) const = 0;
  // Stages with argument bytes; `kernel` is the loaded instance of step.key.
  virtual Result<std::vector<Stage>> stages(ProblemRef problem, const DeviceSpec& device, const RecipeStep& step,
                                            std::shared_ptr<const LoadedKernel> kernel) const = 0;
};

// The one of that name; null when there is none.
const KernelFamily* find_family(std::span<const KernelFamily* const> families, std::string_view name);

// "block_m=64:block_n=256"; parse refuses unknown names and missing ones.
std::string print_knobs(const KernelFamily& family, const Knobs& knobs);
Result<Knobs> parse_knobs(const KernelFamily& family, std::string_view text);

// "key@knobs+key@knobs"; `find` maps family names.
std::string print_recipe(std::span<const KernelFamily* const> families, const Recipe& recipe);
Result<Recipe> parse_recipe(std::span<const KernelFamily* const> families, std::string_view text);

// The source of a CPU instance: `entry` calls `kernel`, "gemm_cpu<tilewright::GemmCpuConfig{...}>", with the
// argument struct `args`, both of namespace tilewright.
std::string cpu_instance_source(std::string_view header, std::string_view entry, std::string_view kernel,
                                std::string_view args);

// An instance linked into the library.
struct BuiltinInstance {
  const char* key;
  const void* address;
};
std::span<const BuiltinInstance> builtin_instances();

}  // namespace tilewright
