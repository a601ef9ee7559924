// SPDX-License-Identifier: MIT
#include "tuning/store/quarantine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/environment.hpp"
#include "jit/cache/cache_entry.hpp"
#include "tuning/store/journal.hpp"
#include "tuning/store/provenance.hpp"

namespace tilewright {
namespace {

// The number of units and the library's version make no kernel right.
std::string environment_id(ContextImpl& context) {
  TuningEnvironment environment = tuning_environment(context, 0);
  environment.library.clear(), environment.kernels.clear(), environment.units = 0;
  return environment.id();
}

const KernelFamily* family_of(const Operator& op, const KernelKey& key) {
  for (const KernelFamily* family : op.families()) {
    if (family->name() == key.family) return family;
  }
  return nullptr;
}

}  // namespace

std::string quarantine_path(std::string_view target) {
  const std::string data = user_data_dir();
  return data.empty() ? "" : fmt::format("{}/tuning/{}.quarantine", data, target);
}

QuarantineList::QuarantineList(std::string path, ContextImpl& context, FileAccess access)
    : context_(context),
      environment_(environment_id(context)),
      file_(std::move(path), access, [this](const Record& record) { read(record); }) {
  std::erase_if(entries_, [this](const QuarantineEntry& entry) {
    const Operator* op = context_.find_op(entry.op);
    if (op == nullptr) return true;
    Result<Recipe> recipe = parse_recipe(op->families(), entry.recipe);
    return !recipe || digest_of_recipe(*op, *recipe) != entry.digest;
  });
}

// A later line about a recipe replaces the earlier one.
void QuarantineList::read(const Record& record) {
  if (record.get("env") != environment_) return;
  std::erase_if(entries_, [&record](const QuarantineEntry& entry) {
    return entry.op == record.get("op") && entry.recipe == record.get("recipe");
  });
  if (record.verb() != "quarantine") return;
  QuarantineEntry entry;
  for (auto [name, field] : {std::pair{"op", &entry.op},
                             {"recipe", &entry.recipe},
                             {"problem", &entry.problem},
                             {"outcome", &entry.outcome},
                             {"reason", &entry.reason},
                             {"digest", &entry.digest},
                             {"date", &entry.date}}) {
    *field = record.get(name);
  }
  entries_.push_back(std::move(entry));
}

std::string QuarantineList::digest_of_recipe(const Operator& op, const Recipe& recipe) const {
  std::string digests;
  for (const RecipeStep& step : recipe.steps) {
    const KernelFamily* family = family_of(op, step.key);
    digests += (digests.empty() ? "" : "+") + (family != nullptr ? kernel_digest(*family, step.key) : "");
  }
  return digests;
}

void QuarantineList::disable(const QuarantineEntry& entry) const {
  const Operator* op = context_.find_op(entry.op);
  if (op == nullptr) return;
  const Result<Recipe> recipe = parse_recipe(op->families(), entry.recipe);
  if (!recipe) return;
  for (const RecipeStep& step : recipe->steps) {
    const KernelFamily* family = family_of(*op, step.key);
    // What always works is never taken away.
    if (family == nullptr || family->generic()) continue;
    context_.registry().add({.key = step.key,
                             .priority = Priority::kDisabled,
                             .note = fmt::format("quarantined: {}: {}", entry.outcome, entry.reason)});
  }
}

void QuarantineList::apply() const {
  for (const QuarantineEntry& entry : entries_) disable(entry);
}

void QuarantineList::add(const Operator& op, std::string_view problem, const CandidateResult& candidate) {
  const Result<Recipe> recipe = parse_recipe(op.families(), candidate.recipe);
  if (!recipe) return;
  const QuarantineEntry entry{std::string(op.name()),
                              candidate.recipe,
                              std::string(problem),
                              kOutcomeNames[static_cast<int>(candidate.outcome)],
                              candidate.reason,
                              digest_of_recipe(op, *recipe),
                              utc_now()};
  Record record("quarantine");
  record.set("env", environment_);
  for (const auto& [name, value] : {std::pair{"op", &entry.op},
                                    {"recipe", &entry.recipe},
                                    {"problem", &entry.problem},
                                    {"outcome", &entry.outcome},
                                    {"reason", &entry.reason},
                                    {"digest", &entry.digest},
                                    {"date", &entry.date}}) {
    record.set(name, *value);
  }
  read(record);
  file_.append(record);
  disable(entry);
}

bool QuarantineList::forget(std::string_view op, std::string_view recipe) {
  const auto known = [&](const QuarantineEntry& entry) { return entry.op == op && entry.recipe == recipe; };
  if (std::none_of(entries_.begin(), entries_.end(), known)) return false;
  Record record("forget");
  record.set("env", environment_).set("op", op).set("recipe", recipe).set("date", utc_now());
  read(record);
  file_.append(record);
  return true;
}

}  // namespace tilewright
