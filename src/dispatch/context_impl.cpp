// SPDX-License-Identifier: MIT
#include "dispatch/context_impl.hpp"

#include <fmt/format.h>

#include <chrono>

#include "core/fields.hpp"
#include "core/log.hpp"
#include "core/profile/profile.hpp"
#include "dispatch/registry/quarantine.hpp"

namespace tilewright {
namespace {

Result<JitMode> parse_jit_mode(std::string_view text) {
  constexpr std::pair<std::string_view, JitMode> kModes[] = {
      {"off", JitMode::kOff}, {"on", JitMode::kOn}, {"background", JitMode::kBackground}, {"force", JitMode::kForce}};
  for (const auto& [name, mode] : kModes) {
    if (name == text) return mode;
  }
  return Status(StatusCode::kInvalidArgument,
                fmt::format("context: option 'jit' is '{}', allowed: off, on, background, force", text));
}

// op, units, problem and forced recipe as bytes; small keys stay on the stack.
class PlanKey {
 public:
  PlanKey(const Operator& op, ProblemRef problem, int units, std::string_view forced) {
    const Operator* address = &op;
    append(&address, sizeof(address));
    append(&units, sizeof(units));
    append(problem.data(), problem.size());
    if (!forced.empty() || overflow_) {
      long_.assign(small_, size_);
      if (overflow_) long_.append(reinterpret_cast<const char*>(problem.data()), problem.size());
      long_.append(forced);
    }
  }
  std::string_view view() const { return long_.empty() ? std::string_view(small_, size_) : std::string_view(long_); }

 private:
  void append(const void* data, size_t bytes) {
    if (size_ + bytes > sizeof(small_)) {
      overflow_ = true;
      return;
    }
    std::memcpy(small_ + size_, data, bytes);
    size_ += bytes;
  }
  char small_[1024];
  size_t size_ = 0;
  bool overflow_ = false;
  std::string long_;
};

std::atomic<uint64_t>& chosen_counter(Counters& counters, ChoiceSource source) {
  switch (source) {
    case ChoiceSource::kForced: return counters.chosen_forced;
    case ChoiceSource::kTuned: return counters.chosen_tuned;
    case ChoiceSource::kBucket: return counters.chosen_bucket;
    case ChoiceSource::kCost: return counters.chosen_cost;
    case ChoiceSource::kGeneric: break;
  }
  return counters.chosen_generic;
}

}  // namespace

Result<std::unique_ptr<ContextImpl>> ContextImpl::create(const ContextOptions& options,
                                                         std::span<const Operator* const> ops) {
  std::unique_ptr<ContextImpl> impl(new ContextImpl());
  impl->options_ = options;
  impl->ops_ = ops;
  CodeCacheOptions cache = code_cache_options_from_environment();
  if (!options.cache_dir.empty()) cache.root = options.cache_dir;
  if (!options.jit.empty()) {
    Result<JitMode> mode = parse_jit_mode(options.jit);
    if (!mode) return mode.status();
    cache.mode = *mode;
  }
  impl->cache_ = std::make_unique<CodeCache>(cache, impl->counters_);
  impl->device_ = make_cpu_device(options.cpu_units);
  impl->dispatcher_ = std::make_unique<Dispatcher>(*impl->device_, impl->registry_, *impl->cache_, impl->counters_);

  // Always-built instances that run on this device.
  for (const BuiltinInstance& builtin : builtin_instances()) {
    Result<KernelKey> key = parse_key(builtin.key);
    if (!key) return key.status();
    if (!runs_on(key->target, impl->device_->spec().arch->target)) continue;
    impl->registry_.add({.key = std::move(*key), .builtin = builtin.address, .note = "always built"});
  }
  impl->tables_ = std::make_shared<TunedTable>(load_tuned_tables(options.user_tables, options.tuned_files));
  if (const ArchSpec* arch = impl->device_->spec().arch; options.user_tables && arch != nullptr) {
    const QuarantineList quarantine(quarantine_path(arch->target), *impl, FileAccess::kRead);
    quarantine.apply();
    for (const QuarantineEntry& entry : quarantine.entries()) {
      impl->quarantined_ += fmt::format("{} {}\n", entry.op, entry.recipe);
    }
  }
  return impl;
}

const Operator* ContextImpl::find_op(std::string_view name) const {
  for (const Operator* op : ops_) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

Status ContextImpl::require_device(std::string_view op, DeviceId device) const {
  if (device == device_->spec().id) return {};
  return Status(StatusCode::kUnsupported, fmt::format("{}: tensors are on {}, this context has: {}", op,
                                                      to_string(device), to_string(device_->spec().id)));
}

DeviceSpec ContextImpl::spec(int units) const {
  DeviceSpec spec = device_->spec();
  if (units > 0 && units < spec.units) spec.units = units;
  return spec;
}

std::shared_ptr<const TunedTable> ContextImpl::tables() const {
  std::lock_guard lock(tables_mutex_);
  return tables_;
}

void ContextImpl::set_tables(TunedTable tables) {
  {
    std::lock_guard lock(tables_mutex_);
    tables_ = std::make_shared<TunedTable>(std::move(tables));
  }
  plans_.clear();
}

Digest ContextImpl::choice_digest() const {
  const Digest tables = this->tables()->digest();
  return quarantined_.empty() ? tables : Digester().update_bytes(tables.bytes).update(quarantined_).finish();
}

bool ContextImpl::outdated(const Plan& plan) const {
  return plan.fallback && cache_->mode() == JitMode::kBackground && plan.generation != cache_->background_generation();
}

uint64_t ContextImpl::next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

RecentPlans::Pin ContextImpl::known_plan(const Operator& op, ProblemRef problem, int units, std::string_view forced) {
  if (!forced.empty()) return {};
  const RecentPlans::Key key{serial_, plans_.epoch(), &op, units, problem};
  RecentPlans& recent = RecentPlans::of_this_thread();
  if (RecentPlans::Pin pin = recent.find(key); pin && !outdated(*pin)) return pin;
  std::shared_ptr<const Plan> plan = plans_.find(PlanKey(op, problem, units, forced).view());
  if (plan == nullptr || outdated(*plan)) return {};
  return recent.insert(key, std::move(plan));
}

Status ContextImpl::run_known(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                              const Exec& exec) {
  count(counters_.calls);
  count(counters_.plan_hits);
  return run_plan(op, problem, plan, bindings, exec);
}

Result<std::shared_ptr<const Plan>> ContextImpl::plan(const Operator& op, ProblemRef problem, int units,
                                                      std::string_view forced, bool allow_compile,
                                                      const std::function<void()>* on_new_problem) {
  const PlanKey key(op, problem, units, forced);
  if (std::shared_ptr<const Plan> plan = plans_.find(key.view()); plan != nullptr && !outdated(*plan)) {
    count(counters_.plan_hits);
    return plan;
  }
  count(counters_.plan_misses);
  const ProfileRange range(op.name(), "plan");
  const uint64_t generation = cache_->background_generation();
  if (on_new_problem != nullptr) (*on_new_problem)();
  Result<std::shared_ptr<const Plan>> plan =
      dispatcher_->plan(op, problem, spec(units), *tables(), forced, allow_compile);
  if (!plan) return plan;
  count(chosen_counter(counters_, (*plan)->source));
  if ((*plan)->fallback) {
    auto stamped = std::make_shared<Plan>(**plan);
    stamped->generation = generation;
    plan = std::shared_ptr<const Plan>(std::move(stamped));
  }
  plans_.insert(key.view(), *plan);
  return plan;
}

Status ContextImpl::run_plan(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                             const Exec& exec) {
  CallBindings bound = bindings;
  if (exec.workspace != nullptr) {
    if (exec.workspace_bytes < plan.workspace_bytes) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: argument 'workspace_bytes' is {}, this problem needs {}", op.name(),
                                exec.workspace_bytes, plan.workspace_bytes));
    }
    bound.workspace = exec.workspace;
  }
  const LaunchContext launch{exec.stream, exec.parallel_for};
  if (!log_enabled(LogLevel::kInfo) && !profile_enabled()) return tilewright::run_plan(*device_, plan, bound, launch);
  const ProfileRange range(op.name(), "launch", plan.recipe.steps.front().key.text);
  const auto start = std::chrono::steady_clock::now();
  Status status = tilewright::run_plan(*device_, plan, bound, launch);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (log_enabled(LogLevel::kInfo)) {
    log(LogLevel::kInfo, "call", "{},{},{},{},{:.2f}", op.name(), op.problem_text(problem),
        fields_detail::print_value(plan.source), print_recipe(op.families(), plan.recipe), us);
  }
  return status;
}

Status ContextImpl::run(const Operator& op, ProblemRef problem, const CallBindings& bindings, const Exec& exec,
                        std::string_view forced) {
  count(counters_.calls);
  Result<std::shared_ptr<const Plan>> found =
      plan(op, problem, exec.units, forced, /*allow_compile=*/true, exec.on_new_problem);
  if (!found) return found.status();
  return run_plan(op, problem, **found, bindings, exec);
}

Result<QueryResult> ContextImpl::query(const Operator& op, ProblemRef problem, int units, std::string_view forced) {
  const DeviceSpec device = spec(units);
  Result<std::vector<Choice>> choices = dispatcher_->choices(op, problem, device, *tables(), forced, nullptr);
  if (!choices) return choices.status();
  // With compiling off, or in the background, the best built choice serves.
  const JitMode mode = cache_->mode();
  const bool compiles = (mode == JitMode::kOn || mode == JitMode::kForce) && host_compiler().available().ok();
  const Choice* served = &choices->front();
  for (const Choice& choice : *choices) {
    if (compiles || dispatcher_->built(op, choice.recipe)) {
      served = &choice;
      break;
    }
  }
  QueryResult result;
  result.source = fields_detail::print_value(served->source);
  result.recipe = print_recipe(op.families(), served->recipe);
  result.built = dispatcher_->built(op, served->recipe);
  result.fallback = served != &choices->front();
  result.predicted_us = served->cost * 1e6;
  for (const RecipeStep& step : served->recipe.steps) {
    const KernelFamily* family = find_family(op.families(), step.key.family);
    if (family == nullptr) continue;
    result.workspace_bytes = std::max(result.workspace_bytes, family->workspace_bytes(problem, device, step));
  }
  return result;
}

Result<std::string> ContextImpl::explain(const Operator& op, ProblemRef problem, int units, std::string_view forced) {
  return dispatcher_->explain(op, problem, spec(units), *tables(), forced);
}

}  // namespace tilewright
