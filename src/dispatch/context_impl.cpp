// SPDX-License-Identifier: MIT
#include "dispatch/context_impl.hpp"

#include <fmt/format.h>

#include <chrono>

#include "core/environment.hpp"
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

// op, device, units, problem and forced recipe as bytes; small keys stay on the stack.
class PlanKey {
 public:
  PlanKey(const Operator& op, const OpenDevice* on, ProblemRef problem, int units, std::string_view forced) {
    const void* const addresses[] = {&op, on};
    append(addresses, sizeof(addresses));
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
  std::unique_ptr<Device> cpu = make_cpu_device(options.cpu_units);

  // Always-built instances that run on this device. A folder of headers takes their place, but for what serves every problem.
  const bool edited = environment("TILEWRIGHT_KERNEL_DIR").has_value();
  for (const BuiltinInstance& builtin : builtin_instances()) {
    Result<KernelKey> key = parse_key(builtin.key);
    if (!key) return key.status();
    if (!runs_on(key->target, cpu->spec().arch->target)) continue;
    if (edited && key->config() != "run_time=1") continue;
    impl->registry_.add({.key = std::move(*key), .builtin = builtin.address, .note = "always built"});
  }
  impl->tables_ = std::make_shared<TunedTable>(load_tuned_tables(options.user_tables, options.tuned_files));
  impl->fill_side(impl->cpu_, std::move(cpu));
  return impl;
}

void ContextImpl::fill_side(OpenDevice& side, std::unique_ptr<Device> device) {
  side.device = std::move(device);
  side.dispatcher = std::make_unique<Dispatcher>(*side.device, registry_, *cache_, counters_);
  const DeviceSpec& spec = side.device->spec();
  if (!options_.user_tables || spec.arch == nullptr) return;
  const QuarantineList quarantine(quarantine_path(spec.arch->target), *this, FileAccess::kRead, &spec);
  quarantine.apply();
  for (const QuarantineEntry& entry : quarantine.entries()) {
    side.quarantined += fmt::format("{} {}\n", entry.op, entry.recipe);
  }
}

Result<OpenDevice*> ContextImpl::open_other_device(std::string_view op, DeviceId id) {
  const auto refuse = [&](std::string_view why) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: tensors are on {}, which this context does not have: {}", op, to_string(id), why));
  };
  if (id.index < 0 || static_cast<size_t>(id.index) >= kMaxDevices) {
    return refuse(fmt::format("allowed: the first {} of a kind", kMaxDevices));
  }
  std::atomic<OpenDevice*>& slot = opened_[static_cast<size_t>(id.kind)][static_cast<size_t>(id.index)];
  if (OpenDevice* known = slot.load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(opening_);
  if (OpenDevice* known = slot.load(std::memory_order_acquire)) return known;
  Result<std::unique_ptr<Device>> device = make_device(id);
  if (!device) return refuse(device.status().message());
  others_.push_back(std::make_unique<OpenDevice>());
  fill_side(*others_.back(), std::move(*device));
  slot.store(others_.back().get(), std::memory_order_release);
  return others_.back().get();
}

Status ContextImpl::select_device(DeviceId id) {
  Result<OpenDevice*> found = open_device("context", id);
  if (found) selected_ = *found;
  return found.status();
}

DeviceData* ContextImpl::device_data() {
  OpenDevice& on = *selected_;
  const bool nvidia = on.device->spec().arch != nullptr && on.device->spec().arch->vendor == ArchVendor::kNvidia;
  if (!nvidia || on.data != nullptr) return on.data.get();
  const auto compile = [this](const std::string& source, const std::string& entry, std::string_view target) {
    CompileRequest request;
    request.name = request.entry = entry;
    request.source = source;
    request.target = target;
    return cache_->get(request, compiler_for(target));
  };
  Result<std::unique_ptr<DeviceData>> made = DeviceData::make(*on.device, compile);
  if (made) {
    on.data = std::move(*made);
  } else if (log_first_time("device data: " + made.status().message())) {
    log(LogLevel::kInfo, "tools", "operands are made on the host: {}", made.status().message());
  }
  return on.data.get();
}

const Operator* ContextImpl::find_op(std::string_view name) const {
  for (const Operator* op : ops_) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

DeviceSpec OpenDevice::spec(int units) const {
  DeviceSpec spec = device->spec();
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
  std::string quarantined = cpu_.quarantined;
  for (const auto& kind : opened_) {
    for (const auto& device : kind) {
      if (const OpenDevice* open = device.load(std::memory_order_acquire)) quarantined += open->quarantined;
    }
  }
  return quarantined.empty() ? tables : Digester().update_bytes(tables.bytes).update(quarantined).finish();
}

bool ContextImpl::outdated(const Plan& plan) const {
  return plan.fallback && cache_->mode() == JitMode::kBackground && plan.generation != cache_->background_generation();
}

uint64_t ContextImpl::next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

RecentPlans::Pin ContextImpl::known_plan(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                                         OpenDevice* on) {
  if (!forced.empty()) return {};
  if (on == nullptr) on = selected_;
  const RecentPlans::Key key{serial_, plans_.epoch(), &op, on, units, problem};
  RecentPlans& recent = RecentPlans::of_this_thread();
  if (RecentPlans::Pin pin = recent.find(key); pin && !outdated(*pin)) return pin;
  std::shared_ptr<const Plan> plan = plans_.find(PlanKey(op, on, problem, units, forced).view());
  if (plan == nullptr || outdated(*plan)) return {};
  return recent.insert(key, std::move(plan));
}

Status ContextImpl::run_known(const Operator& op, ProblemRef problem, const Plan& plan, const CallBindings& bindings,
                              const Exec& exec, OpenDevice* on) {
  count(counters_.calls);
  count(counters_.plan_hits);
  return run_plan(op, problem, plan, bindings, exec, on);
}

Result<std::shared_ptr<const Plan>> ContextImpl::plan(const Operator& op, ProblemRef problem, int units,
                                                      std::string_view forced, bool allow_compile,
                                                      const std::function<void()>* on_new_problem, OpenDevice* on) {
  if (on == nullptr) on = selected_;
  const PlanKey key(op, on, problem, units, forced);
  if (std::shared_ptr<const Plan> plan = plans_.find(key.view()); plan != nullptr && !outdated(*plan)) {
    count(counters_.plan_hits);
    return plan;
  }
  count(counters_.plan_misses);
  const ProfileRange range(op.name(), "plan");
  const uint64_t generation = cache_->background_generation();
  if (on_new_problem != nullptr) (*on_new_problem)();
  Result<std::shared_ptr<const Plan>> plan =
      on->dispatcher->plan(op, problem, on->spec(units), *tables(), forced, allow_compile);
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
                             const Exec& exec, OpenDevice* on) {
  Device& device = on == nullptr ? *selected_->device : *on->device;
  CallBindings bound = bindings;
  if (exec.workspace != nullptr) {
    if (exec.workspace_bytes < plan.workspace_bytes) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: argument 'workspace_bytes' is {}, this problem needs {}", op.name(),
                                exec.workspace_bytes, plan.workspace_bytes));
    }
    bound.workspace = exec.workspace;
  }
  const LaunchContext launch{exec.stream, exec.parallel_for, exec.programmatic_edge};
  if (!log_enabled(LogLevel::kInfo) && !profile_enabled()) return tilewright::run_plan(device, plan, bound, launch);
  const ProfileRange range(op.name(), "launch", plan.recipe.steps.front().key.text);
  const auto start = std::chrono::steady_clock::now();
  Status status = tilewright::run_plan(device, plan, bound, launch);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (log_enabled(LogLevel::kInfo)) {
    log(LogLevel::kInfo, "call", "{},{},{},{},{:.2f}", op.name(), op.problem_text(problem),
        fields_detail::print_value(plan.source), print_recipe(op.families(), plan.recipe), us);
  }
  return status;
}

Status ContextImpl::run(const Operator& op, ProblemRef problem, const CallBindings& bindings, const Exec& exec,
                        std::string_view forced, OpenDevice* on) {
  count(counters_.calls);
  Result<std::shared_ptr<const Plan>> found =
      plan(op, problem, exec.units, forced, /*allow_compile=*/true, exec.on_new_problem, on);
  if (!found) return found.status();
  return run_plan(op, problem, **found, bindings, exec, on);
}

Result<QueryResult> ContextImpl::query(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                                       OpenDevice* on) {
  if (on == nullptr) on = selected_;
  const Dispatcher& dispatcher = *on->dispatcher;
  const DeviceSpec device = on->spec(units);
  // With compiling off, or in the background, the best built choice serves.
  const JitMode mode = cache_->mode();
  const bool compiles = (mode == JitMode::kOn || mode == JitMode::kForce) && compiler_of(device).available().ok();
  Result<std::vector<Choice>> choices =
      dispatcher.choices(op, problem, device, *tables(), forced, nullptr, compiles ? Asked::kOwn : Asked::kAll);
  if (!choices) return choices.status();
  const Choice* served = &choices->front();
  for (const Choice& choice : *choices) {
    if (compiles || dispatcher.built(op, choice.recipe)) {
      served = &choice;
      break;
    }
  }
  QueryResult result;
  result.source = fields_detail::print_value(served->source);
  result.recipe = print_recipe(op.families(), served->recipe);
  result.built = dispatcher.built(op, served->recipe);
  result.fallback = served != &choices->front();
  result.predicted_us = served->cost * 1e6;
  for (const RecipeStep& step : served->recipe.steps) {
    const KernelFamily* family = find_family(op.families(), step.key.family);
    if (family == nullptr) continue;
    result.workspace_bytes = std::max(result.workspace_bytes, family->workspace_bytes(problem, device, step));
  }
  return result;
}

Result<std::string> ContextImpl::explain(const Operator& op, ProblemRef problem, int units, std::string_view forced,
                                         OpenDevice* on) {
  if (on == nullptr) on = selected_;
  return on->dispatcher->explain(op, problem, on->spec(units), *tables(), forced);
}

}  // namespace tilewright
