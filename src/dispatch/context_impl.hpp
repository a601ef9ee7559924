// SPDX-License-Identifier: MIT
// What a Context owns, and the path of a call through it. Knows operators only through their descriptors.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/counters.hpp"
#include "dispatch/choice/dispatcher.hpp"
#include "dispatch/choice/tuned_table.hpp"
#include "dispatch/plan_map.hpp"
#include "dispatch/recent_plans.hpp"
#include "dispatch/registry/registry.hpp"
#include "jit/code_cache.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

class ContextImpl {
 public:
  static Result<std::unique_ptr<ContextImpl>> create(const ContextOptions& options,
                                                     std::span<const Operator* const> ops);

  // The whole path: plan from the map or the dispatcher, bind, launch.
  Status run(const Operator& op, ProblemRef problem, const CallBindings& bindings, const Exec& exec,
             std::string_view forced);
  // The plan of a problem that was planned before, and so has passed validation; empty otherwise. run_known() is the rest
  // of such a call.
  RecentPlans::Pin known_plan(const Operator& op, ProblemRef problem, int units, std::string_view forced);
  Status run_known(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                   const Exec& exec);
  // The plan that run() would use, made now; `on_new_problem` is called when the map has none.
  Result<std::shared_ptr<const Plan>> plan(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                                           bool allow_compile, const std::function<void()>* on_new_problem = nullptr);
  Result<QueryResult> query(const Operator& op, ProblemRef problem, int units, std::string_view forced);
  Result<std::string> explain(const Operator& op, ProblemRef problem, int units, std::string_view forced);
  Status run_plan(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                  const Exec& exec);

  std::span<const Operator* const> ops() const { return ops_; }
  const Operator* find_op(std::string_view name) const;
  // Refuses tensors of a device that this context does not have.
  Status require_device(std::string_view op, DeviceId device) const;
  Device& device() { return *device_; }
  DeviceSpec spec(int units) const;  // with the unit budget applied
  Dispatcher& dispatcher() { return *dispatcher_; }
  Registry& registry() { return registry_; }
  CodeCache& cache() { return *cache_; }
  Counters& counters() { return counters_; }
  std::shared_ptr<const TunedTable> tables() const;
  void set_tables(TunedTable tables);  // forgets every plan
  // Of all that a choice follows from besides the problem: tuned rows, and kernels in quarantine.
  Digest choice_digest() const;
  const ContextOptions& options() const { return options_; }

 private:
  ContextImpl() = default;
  static uint64_t next_serial();
  // A fallback that was chosen before a background compile ended: what it stands in for may be there.
  bool outdated(const Plan& plan) const;

  ContextOptions options_;
  std::span<const Operator* const> ops_;
  Counters counters_;
  Registry registry_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<CodeCache> cache_;
  std::unique_ptr<Dispatcher> dispatcher_;
  mutable std::mutex tables_mutex_;
  std::shared_ptr<const TunedTable> tables_;
  std::string quarantined_;  // what the user's quarantine disabled, one line a recipe
  PlanMap plans_;
  const uint64_t serial_ = next_serial();
};

}  // namespace tilewright
