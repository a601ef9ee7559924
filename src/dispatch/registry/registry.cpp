// SPDX-License-Identifier: MIT
#include "dispatch/registry/registry.hpp"

#include <mutex>

namespace tilewright {
namespace {

int strength(Priority priority) { return priority == Priority::kDisabled ? 100 : static_cast<int>(priority); }

}  // namespace

bool Registry::add_locked(const RegistryEntry& entry) {
  auto [it, added] = entries_.emplace(entry.key.text, entry);
  if (added) return true;
  RegistryEntry& known = it->second;
  const bool gains_builtin = known.builtin == nullptr && entry.builtin != nullptr;
  const int difference = strength(entry.priority) - strength(known.priority);
  const bool wins = difference > 0 || (difference == 0 && entry.verification > known.verification);
  const void* builtin = gains_builtin ? entry.builtin : known.builtin;
  if (wins) known = entry;
  known.builtin = builtin;
  return wins || gains_builtin;
}

void Registry::add(const RegistryEntry& entry) {
  std::unique_lock lock(mutex_);
  add_locked(entry);
}

void Registry::set(RegistryEntry entry) {
  std::unique_lock lock(mutex_);
  RegistryEntry& known = entries_[entry.key.text];
  if (entry.builtin == nullptr) entry.builtin = known.builtin;
  known = std::move(entry);
}

int Registry::merge(const Registry& other) {
  if (&other == this) return 0;
  std::vector<RegistryEntry> incoming = other.filter([](const RegistryEntry&) { return true; });
  std::unique_lock lock(mutex_);
  int changed = 0;
  for (const RegistryEntry& entry : incoming) changed += add_locked(entry);
  return changed;
}

bool Registry::find(const std::string& key_text, RegistryEntry& out) const {
  std::shared_lock lock(mutex_);
  const auto it = entries_.find(key_text);
  if (it == entries_.end()) return false;
  out = it->second;
  return true;
}

Priority Registry::priority(const std::string& key_text) const {
  std::shared_lock lock(mutex_);
  const auto it = entries_.find(key_text);
  return it == entries_.end() ? Priority::kNormal : it->second.priority;
}

std::vector<RegistryEntry> Registry::filter(const std::function<bool(const RegistryEntry&)>& predicate) const {
  std::shared_lock lock(mutex_);
  std::vector<RegistryEntry> found;
  for (const auto& [text, entry] : entries_) {
    if (predicate(entry)) found.push_back(entry);
  }
  return found;
}

size_t Registry::size() const {
  std::shared_lock lock(mutex_);
  return entries_.size();
}

}  // namespace tilewright
