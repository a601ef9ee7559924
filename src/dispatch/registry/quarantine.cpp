// SPDX-License-Identifier: MIT
#include "dispatch/registry/quarantine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/digest.hpp"
#include "core/environment.hpp"
#include "dispatch/context_impl.hpp"
#include "dispatch/registry/family.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

// An entry as a line of the file.
constexpr std::pair<const char*, std::string QuarantineEntry::*> kFields[] = {
    {"op", &QuarantineEntry::op},           {"recipe", &QuarantineEntry::recipe},
    {"problem", &QuarantineEntry::problem}, {"outcome", &QuarantineEntry::outcome},
    {"reason", &QuarantineEntry::reason},   {"digest", &QuarantineEntry::digest},
    {"date", &QuarantineEntry::date},
};

// What may make a kernel right: another compiler, target or part. Neither the number of units nor the library's version.
std::string environment_id(const DeviceSpec& spec, std::string_view compiler) {
  Digester digester;
  digester.update(compiler).update(spec.arch != nullptr ? spec.arch->target : "").update(spec.part);
  return digester.finish().short_hex();
}

}  // namespace

std::string quarantine_path(std::string_view target) {
  const std::string data = user_data_dir();
  return data.empty() ? "" : fmt::format("{}/tuning/{}.quarantine", data, target);
}

QuarantineList::QuarantineList(std::string path, ContextImpl& context, FileAccess access, const DeviceSpec* device)
    : context_(context),
      device_(device != nullptr ? *device : context.device().spec()),
      file_(std::move(path), access, [this](const Record& record) { read(record); }) {
  std::erase_if(entries_, [this](const QuarantineEntry& entry) {
    const Operator* op = context_.find_op(entry.op);
    if (op == nullptr) return true;
    Result<Recipe> recipe = parse_recipe(op->families(), entry.recipe);
    return !recipe || digest_of_recipe(*op, *recipe) != entry.digest;
  });
}

std::string kernel_digest(const KernelFamily& family, const KernelKey& key) {
  const Result<CompileRequest> request = family.source(key);
  if (!request) return "";
  const auto headers = reachable_headers(request->source);
  if (!headers) return "";
  Digester digester;
  digester.update(request->source);
  for (const auto& [path, text] : *headers) digester.update(path).update(text);
  return digester.finish().short_hex();
}

const std::vector<std::string>& QuarantineList::environments() const {
  if (!environments_.empty()) return environments_;
  const Compiler& compiler = compiler_of(device_);
  const bool compiles = compiler.available().ok();
  environments_.push_back(environment_id(device_, compiles ? compiler.identity() : "-"));
  if (!compiles) {
    for (const std::string& identity : context_.cache().earlier_compilers()) {
      environments_.push_back(environment_id(device_, identity));
    }
  }
  return environments_;
}

// A later line about a recipe replaces the earlier one.
void QuarantineList::read(const Record& record) {
  const std::vector<std::string>& here = environments();
  if (std::find(here.begin(), here.end(), record.get("env")) == here.end()) return;
  std::erase_if(entries_, [&record](const QuarantineEntry& entry) {
    return entry.op == record.get("op") && entry.recipe == record.get("recipe");
  });
  if (record.verb() != "quarantine") return;
  QuarantineEntry entry;
  for (const auto& [name, field] : kFields) entry.*field = record.get(name);
  entries_.push_back(std::move(entry));
}

std::string QuarantineList::digest_of_recipe(const Operator& op, const Recipe& recipe) const {
  std::string digests;
  for (const RecipeStep& step : recipe.steps) {
    const KernelFamily* family = find_family(op.families(), step.key.family);
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
    const KernelFamily* family = find_family(op->families(), step.key.family);
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

void QuarantineList::add(QuarantineEntry entry) {
  const Operator* op = context_.find_op(entry.op);
  if (op == nullptr) return;
  const Result<Recipe> recipe = parse_recipe(op->families(), entry.recipe);
  if (!recipe) return;
  entry.digest = digest_of_recipe(*op, *recipe);
  entry.date = utc_now();
  Record record("quarantine");
  record.set("env", environments().front());
  for (const auto& [name, field] : kFields) record.set(name, entry.*field);
  read(record);
  file_.append(record);
  disable(entry);
}

bool QuarantineList::forget(std::string_view op, std::string_view recipe) {
  const auto known = [&](const QuarantineEntry& entry) { return entry.op == op && entry.recipe == recipe; };
  if (std::none_of(entries_.begin(), entries_.end(), known)) return false;
  for (const std::string& environment : environments()) {
    Record record("forget");
    record.set("env", environment).set("op", op).set("recipe", recipe).set("date", utc_now());
    read(record);
    file_.append(record);
  }
  return true;
}

}  // namespace tilewright
