// SPDX-License-Identifier: MIT
#include "dispatch/choice/dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/log.hpp"
#include "core/profile/profile.hpp"

namespace tilewright {
namespace {

// Predicted costs closer than this are equal (differences under 5% are noise): built instances then go first.
constexpr double kCostTie = 1.05;

}  // namespace

Dispatcher::Dispatcher(Device& device, Registry& registry, CodeCache& cache, Counters& counters)
    : device_(device), registry_(registry), cache_(cache), counters_(counters) {}

bool Dispatcher::built(const Operator& op, const Recipe& recipe) const {
  for (const RecipeStep& step : recipe.steps) {
    RegistryEntry entry;
    if (registry_.find(step.key.text, entry) && entry.builtin != nullptr) continue;
    const KernelFamily* family = find_family(op.families(), step.key.family);
    if (family == nullptr) return false;
    if (family->backend() == Backend::kVendor) continue;
    Result<CompileRequest> request = family->source(step.key);
    if (!request || !cache_.has(*request, compiler_for(request->target, device_.spec().emulated))) return false;
  }
  return true;
}

Result<std::vector<Choice>> Dispatcher::choices(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                                const TunedTable& table, std::string_view forced,
                                                std::vector<std::string>* refusals, Asked asked) const {
  const ProfileRange range(op.name(), "dispatch");
  // "gemm_cpu: quarantined: crashed: SIGSEGV: <key>"
  auto disabled = [&](const KernelFamily& family, const KernelKey& key) {
    RegistryEntry entry;
    const bool noted = registry_.find(key.text, entry) && !entry.note.empty();
    return fmt::format("{}: {}: {}", family.name(), noted ? entry.note : "disabled in the registry", key.text);
  };
  // Whether this recipe may run here; the reason otherwise.
  auto check = [&](const Recipe& recipe) -> Status {
    for (const RecipeStep& step : recipe.steps) {
      const KernelFamily* family = find_family(op.families(), step.key.family);
      if (family == nullptr) {
        return Status(StatusCode::kNotFound, fmt::format("{}: no kernel family '{}'", op.name(), step.key.family));
      }
      if (!runs_on(step.key.target, spec.arch->target)) {
        return Status(StatusCode::kUnsupported, fmt::format("{}: code for {} does not run on {}", family->name(),
                                                            step.key.target, spec.arch->target));
      }
      if (registry_.priority(step.key.text) == Priority::kDisabled) {
        return Status(StatusCode::kUnsupported, disabled(*family, step.key));
      }
      if (Status s = family->check(problem, spec, step); !s) return s;
    }
    return {};
  };

  std::vector<Choice> found;
  if (!forced.empty()) {
    Result<Recipe> recipe = parse_recipe(op.families(), forced);
    if (!recipe) {
      const Status& why = recipe.status();
      return Status(why.code(), fmt::format("{}: argument 'recipe': {}", op.name(), why.message()));
    }
    if (Status s = check(*recipe); !s) return s;
    found.push_back({*recipe, ChoiceSource::kForced, 0, built(op, *recipe)});
    return found;
  }

  // Tuned rows: exact, then the bucket's; of each the problem's own before those of the same problem called otherwise. A
  // row that no longer fits is a miss.
  std::vector<ProblemSignature> signatures = {op.signature(problem)};
  if (!signatures.front().other_core.empty()) {
    signatures.push_back(signatures.front());
    signatures.back().core = signatures.front().other_core;
  }
  auto add_recipe = [&](const TunedRow& row, const std::string& text, double us, ChoiceSource source) {
    Result<Recipe> recipe = parse_recipe(op.families(), text);
    const Status status = recipe ? check(*recipe) : recipe.status();
    if (!status.ok()) {
      if (refusals != nullptr) refusals->push_back(fmt::format("tuned row ({}): {}", row.sizes, status.message()));
      if (log_first_time("tuned row: " + text + row.sizes)) {
        log(LogLevel::kWarn, "dispatch", "tuned row ignored ({} {}): {}", row.op, row.sizes, status.message());
      }
      return;
    }
    found.push_back({*recipe, source, us * 1e-6, built(op, *recipe)});
  };
  // Behind a vendor's library its best rival of our own: where the library is missing, that one serves.
  auto add_row = [&](const TunedRow* row, ChoiceSource source) {
    if (row == nullptr) return;
    add_recipe(*row, row->recipe, row->us, source);
    if (!row->own_recipe.empty()) add_recipe(*row, row->own_recipe, row->own_us, source);
  };
  for (const ProblemSignature& s : signatures) {
    add_row(table.find_exact(op.name(), spec.arch->target, spec.part, spec.units, s), ChoiceSource::kTuned);
  }
  for (const ProblemSignature& s : signatures) {
    add_row(table.find_bucket(op.name(), spec.arch->target, spec.part, spec.units, s), ChoiceSource::kBucket);
  }

  // The cost model's order, priorities first.
  struct Ranked {
    Choice choice;
    Priority priority;
    bool vendor;
  };
  std::vector<Ranked> ranked;
  Choice generic;
  for (const KernelFamily* family : op.families()) {
    const bool vendor = family->backend() == Backend::kVendor;
    if (vendor && asked == Asked::kOwn) continue;
    if (Status s = family->supports(problem, spec); !s) {
      if (refusals != nullptr) refusals->push_back(fmt::format("{}: {}", family->name(), s.message()));
      continue;
    }
    for (Candidate& candidate : family->candidates(problem, spec)) {
      const Priority priority = registry_.priority(candidate.step.key.text);
      if (priority == Priority::kDisabled) {
        if (refusals != nullptr) refusals->push_back(disabled(*family, candidate.step.key));
        continue;
      }
      Choice choice{Recipe{{std::move(candidate.step)}},
                    family->generic() ? ChoiceSource::kGeneric : ChoiceSource::kCost, candidate.cost,
                    family->generic()};
      if (family->generic()) {
        generic = std::move(choice);
      } else {
        ranked.push_back({std::move(choice), priority, vendor});
      }
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& x, const Ranked& y) {
    if (x.vendor != y.vendor) return y.vendor;
    return x.priority != y.priority ? x.priority > y.priority : x.choice.cost < y.choice.cost;
  });
  // Among near-equals, what is built goes first; only the head of the list decides what runs.
  const auto equals_end = std::find_if(ranked.begin(), ranked.end(), [&](const Ranked& r) {
    return r.choice.cost > ranked.front().choice.cost * kCostTie || r.priority != ranked.front().priority ||
           r.vendor != ranked.front().vendor;
  });
  for (auto r = ranked.begin(); r != equals_end; ++r) r->choice.built = built(op, r->choice.recipe);
  std::stable_partition(ranked.begin(), equals_end, [](const Ranked& r) { return r.choice.built; });
  for (Ranked& r : ranked) found.push_back(std::move(r.choice));
  if (!generic.recipe.steps.empty()) found.push_back(std::move(generic));
  if (found.empty()) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: no kernel family supports this problem: {}", op.name(), op.problem_text(problem)));
  }
  return found;
}

Result<std::shared_ptr<const LoadedKernel>> Dispatcher::load(const KernelFamily& family, const KernelKey& key,
                                                             bool allow_compile) {
  {
    std::shared_lock lock(mutex_);
    if (const auto it = loaded_.find(key.text); it != loaded_.end()) return it->second;
  }
  const ProfileRange range(family.op(), "load", key.text);
  Artifact artifact;
  RegistryEntry entry;
  if (registry_.find(key.text, entry) && entry.builtin != nullptr) {
    artifact.kind = ArtifactKind::kBuiltin;
    artifact.target = key.target;
    artifact.address = entry.builtin;
  } else {
    Result<CompileRequest> request = family.source(key);
    if (!request) return request.status();
    request->op = family.op();
    if (!allow_compile && !cache_.has(*request, compiler_for(request->target, device_.spec().emulated))) {
      return Status(StatusCode::kCompileDisabled, fmt::format("{} is not built and may not be compiled now", key.text));
    }
    Result<Artifact> compiled = cache_.get(*request, compiler_for(request->target, device_.spec().emulated));
    if (!compiled) return compiled.status();
    artifact = std::move(*compiled);
    registry_.add({.key = key, .note = "compiled"});
  }
  artifact.key = key.text;
  Result<std::shared_ptr<const LoadedKernel>> kernel = device_.load(artifact);
  if (!kernel) return kernel.status();
  std::unique_lock lock(mutex_);
  return loaded_.emplace(key.text, *kernel).first->second;
}

Result<std::shared_ptr<const Plan>> Dispatcher::bind(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                                     const Recipe& recipe, ChoiceSource source, bool allow_compile) {
  auto plan = std::make_shared<Plan>();
  plan->recipe = recipe;
  plan->source = source;
  plan->programmatic_edge = op.programmatic_edge(problem);
  for (const RecipeStep& step : recipe.steps) {
    const KernelFamily* family = find_family(op.families(), step.key.family);
    if (family == nullptr) {
      return Status(StatusCode::kNotFound, fmt::format("{}: no kernel family '{}'", op.name(), step.key.family));
    }
    Result<std::shared_ptr<const LoadedKernel>> kernel = family->backend() == Backend::kVendor
                                                             ? Result<std::shared_ptr<const LoadedKernel>>(nullptr)
                                                             : load(*family, step.key, allow_compile);
    if (!kernel) return kernel.status();
    Result<std::vector<Stage>> stages = family->stages(problem, spec, step, *kernel);
    if (!stages) return stages.status();
    for (Stage& stage : *stages) {
      if (stage.args.size() > kMaxArgBytes)
        return Status(StatusCode::kInternal, "argument struct larger than kMaxArgBytes");
      for (const TensorMapSpec& map : stage.tensor_maps) {
        if (Status s = device_.encode_tensor_map(map, stage.args.data() + map.arg_offset); !s) return s;
      }
      plan->stages.push_back(std::move(stage));
    }
    // Stages run one after another: each may use the whole workspace.
    plan->workspace_bytes = std::max(plan->workspace_bytes, family->workspace_bytes(problem, spec, step));
  }
  return std::shared_ptr<const Plan>(std::move(plan));
}

Result<std::shared_ptr<const Plan>> Dispatcher::plan(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                                     const TunedTable& table, std::string_view forced,
                                                     bool allow_compile) {
  Result<std::vector<Choice>> found = choices(op, problem, spec, table, forced, nullptr, Asked::kOwn);
  if (!found) return found.status();
  bool asked_all = spec.vendor == nullptr || !forced.empty();
  Status first_failure;
  for (size_t next = 0;;) {
    // Vendors' libraries need no compiler: where nothing of ours is built, they serve before the last resort does.
    const bool last = next == found->size() || (*found)[next].source == ChoiceSource::kGeneric;
    if (last && !asked_all && !first_failure.ok()) {
      asked_all = true;
      Result<std::vector<Choice>> all = choices(op, problem, spec, table, forced, nullptr);
      if (!all) continue;
      std::erase_if(*all, [&](const Choice& choice) {
        const KernelFamily* family = find_family(op.families(), choice.recipe.steps.front().key.family);
        return family->backend() != Backend::kVendor || choice.source != ChoiceSource::kCost;
      });
      found->insert(found->begin() + static_cast<ptrdiff_t>(next), std::make_move_iterator(all->begin()),
                    std::make_move_iterator(all->end()));
    }
    if (next == found->size()) return first_failure;
    const Choice& choice = (*found)[next++];
    Result<std::shared_ptr<const Plan>> plan = bind(op, problem, spec, choice.recipe, choice.source, allow_compile);
    if (plan) {
      if (first_failure.ok()) return plan;
      // A better recipe exists that could not be had: say so once, and let the plan tell.
      count(counters_.fallbacks);
      const std::string served = print_recipe(op.families(), choice.recipe);
      if (log_first_time("fallback: " + served + op.problem_text(problem))) {
        log(LogLevel::kWarn, "dispatch", "{} serves {}: {}", served, op.problem_text(problem), first_failure.message());
      }
      auto marked = std::make_shared<Plan>(**plan);
      marked->fallback = true;
      return std::shared_ptr<const Plan>(std::move(marked));
    }
    if (choice.source == ChoiceSource::kForced) return plan.status();
    allow_compile = false;  // one compile a miss: after a failure only built instances serve
    if (first_failure.ok()) first_failure = plan.status();
  }
}

}  // namespace tilewright
