// SPDX-License-Identifier: MIT
// From problem to plan: asks the families, chooses a recipe in design.md's order, gets its code, binds it.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/counters.hpp"
#include "dispatch/choice/tuned_table.hpp"
#include "dispatch/registry/family.hpp"
#include "dispatch/registry/registry.hpp"
#include "jit/code_cache.hpp"

namespace tilewright {

// One thing that could run, and why it would.
struct Choice {
  Recipe recipe;
  ChoiceSource source = ChoiceSource::kGeneric;
  double cost = 0;     // predicted seconds; 0 where nobody predicted
  bool built = false;  // loads without a compile
};

// Which families are asked for candidates. Those of vendors' libraries always stand behind the others, so that a call whose
// kernels are there need not open a library.
enum class Asked : uint8_t { kAll, kOwn };

class Dispatcher {
 public:
  Dispatcher(Device& device, Registry& registry, CodeCache& cache, Counters& counters);

  // Every choice, best first: forced alone, or tuned, bucket, cost (vendors' libraries last), generic. Families' refusals go
  // to `refusals` as "family: reason". An illegal forced recipe is an error; an illegal tuned row is skipped with one log line.
  Result<std::vector<Choice>> choices(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                      const TunedTable& table, std::string_view forced,
                                      std::vector<std::string>* refusals, Asked asked = Asked::kAll) const;

  // The first choice whose code can be had, bound. With `allow_compile` false only built ones count.
  Result<std::shared_ptr<const Plan>> plan(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                           const TunedTable& table, std::string_view forced, bool allow_compile);

  // Binds one recipe, whatever the tables say: for the tuner and the verifier.
  Result<std::shared_ptr<const Plan>> bind(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                           const Recipe& recipe, ChoiceSource source, bool allow_compile);

  // Whether the recipe's code loads without a compile.
  bool built(const Operator& op, const Recipe& recipe) const;
  // What the dispatcher saw, for people.
  Result<std::string> explain(const Operator& op, ProblemRef problem, const DeviceSpec& spec, const TunedTable& table,
                              std::string_view forced) const;
  // The loaded instance of a key: registry's builtin, or through the code cache.
  Result<std::shared_ptr<const LoadedKernel>> load(const KernelFamily& family, const KernelKey& key,
                                                   bool allow_compile);

 private:
  Device& device_;
  Registry& registry_;
  CodeCache& cache_;
  Counters& counters_;
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const LoadedKernel>> loaded_;  // by key text
};

}  // namespace tilewright
