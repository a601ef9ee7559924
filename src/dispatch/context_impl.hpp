// SPDX-License-Identifier: MIT
// What a Context owns, and the path of a call through it. Knows operators only through their descriptors.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/counters.hpp"
#include "dispatch/choice/dispatcher.hpp"
#include "dispatch/choice/tuned_table.hpp"
#include "dispatch/instance/device_data.hpp"
#include "dispatch/plan_map.hpp"
#include "dispatch/recent_plans.hpp"
#include "dispatch/registry/registry.hpp"
#include "jit/code_cache.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

// One device of a context.
struct OpenDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<DeviceData> data;  // made when a tool first asks
  std::string quarantined;           // what the user's quarantine disabled, one line a recipe
  DeviceSpec spec(int units) const;  // with the unit budget applied
};

// Whether a call on a device is a problem with programmatic edges.
inline bool has_programmatic_edge(const Exec& exec, DeviceId device) {
  return exec.programmatic_edge && device.kind == DeviceKind::kCuda;
}

// The CPU is open from the start; another device is opened by the first call whose tensors are on it, so that programs
// without one pay nothing. Functions that take `on` work on that device, or, without it, on the selected one.
class ContextImpl {
 public:
  static Result<std::unique_ptr<ContextImpl>> create(const ContextOptions& options,
                                                     std::span<const Operator* const> ops);

  // The whole path: plan from the map or the dispatcher, bind, launch.
  Status run(const Operator& op, ProblemRef problem, const CallBindings& bindings, const Exec& exec,
             std::string_view forced, OpenDevice* on = nullptr);
  // The plan of a problem that was planned before, and so has passed validation; empty otherwise. run_known() is the rest
  // of such a call.
  RecentPlans::Pin known_plan(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                              OpenDevice* on = nullptr);
  Status run_known(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                   const Exec& exec, OpenDevice* on = nullptr);
  // The plan that run() would use, made now; `on_new_problem` is called when the map has none.
  Result<std::shared_ptr<const Plan>> plan(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                                           bool allow_compile, const std::function<void()>* on_new_problem = nullptr,
                                           OpenDevice* on = nullptr);
  Result<QueryResult> query(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                            OpenDevice* on = nullptr);
  Result<std::string> explain(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                              OpenDevice* on = nullptr);
  Status run_plan(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                  const Exec& exec, OpenDevice* on = nullptr);

  std::span<const Operator* const> ops() const { return ops_; }
  const Operator* find_op(std::string_view name) const;
  // The device, opened if it is not yet. `op` stands before the message that says why there is none.
  Result<OpenDevice*> open_device(std::string_view op, DeviceId id) {
    if (id == DeviceId{}) return &cpu_;
    return open_other_device(op, id);
  }
  OpenDevice& cpu() { return cpu_; }
  // The device that tools (tuner, bench, verifier) work on: the CPU unless another one is selected.
  Status select_device(DeviceId id);
  Device& device() { return *selected_->device; }
  DeviceSpec spec(int units) const { return selected_->spec(units); }
  Dispatcher& dispatcher() { return *selected_->dispatcher; }
  // InstanceOptions::device_data of the selected device; null where data is made on the host: on other than NVIDIA GPUs, without a compiler.
  DeviceData* device_data();
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
  Result<OpenDevice*> open_other_device(std::string_view op, DeviceId id);
  void fill_side(OpenDevice& side, std::unique_ptr<Device> device);
  // A fallback that was chosen before a background compile ended: what it stands in for may be there.
  bool outdated(const Plan& plan) const;

  ContextOptions options_;
  std::span<const Operator* const> ops_;
  Counters counters_;
  Registry registry_;
  std::unique_ptr<CodeCache> cache_;
  OpenDevice cpu_;
  static constexpr size_t kMaxDevices = 64;  // of a kind
  std::mutex opening_;
  std::vector<std::unique_ptr<OpenDevice>> others_;
  // By kind and index, where they are open.
  std::array<std::array<std::atomic<OpenDevice*>, kMaxDevices>, 4> opened_{};
  OpenDevice* selected_ = &cpu_;
  mutable std::mutex tables_mutex_;
  std::shared_ptr<const TunedTable> tables_;
  PlanMap plans_;
  const uint64_t serial_ = next_serial();
};

}  // namespace tilewright
