// SPDX-License-Identifier: MIT
// All instances known for a device, each with its priority and verification level. Families say what could exist; the
// registry says what does, and what must not be used.
#pragma once

#include <functional>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include "dispatch/registry/family.hpp"

namespace tilewright {

// A higher priority wins over a lower cost; a disabled instance is never chosen, not even by a tuned row.
enum class Priority : uint8_t { kDisabled, kLow, kNormal, kHigh };
inline constexpr const char* kPriorityNames[] = {"disabled", "low", "normal", "high"};
constexpr const char* const* enum_names(Priority) { return kPriorityNames; }
constexpr int enum_count(Priority) { return 4; }

// How an instance was shown to be right, weakest first.
enum class Verification : uint8_t { kNone, kStatic, kEmulatedObject, kEmulatedSource, kDevice };
inline constexpr const char* kVerificationNames[] = {"none", "static", "emulated_object", "emulated_source", "device"};
constexpr const char* const* enum_names(Verification) { return kVerificationNames; }
constexpr int enum_count(Verification) { return 5; }

struct RegistryEntry {
  KernelKey key;
  Priority priority = Priority::kNormal;
  Verification verification = Verification::kNone;
  const void* builtin = nullptr;  // linked into the library; never exported
  std::string note{};             // why it is disabled, where it came from
};

class Registry {
 public:
  // A new key is added. For a known one the stronger entry wins: higher priority, then higher verification, then the one
  // that was there; kDisabled counts as strongest, so that a quarantine survives every merge. A builtin address is kept.
  void add(const RegistryEntry& entry);
  // Replaces what is known of the key, whatever it was: the way to lift a quarantine.
  void set(RegistryEntry entry);
  // add() for every entry of the other one; returns how many entries changed or are new.
  int merge(const Registry& other);

  bool find(const std::string& key_text, RegistryEntry& out) const;
  // Normal for unknown keys.
  Priority priority(const std::string& key_text) const;
  // In key order.
  std::vector<RegistryEntry> filter(const std::function<bool(const RegistryEntry&)>& predicate) const;
  size_t size() const;

  // {"tilewright_registry": 1, "entries": [{"key": ..., "priority": ..., "verification": ..., "note": ...}]}
  std::string to_json() const;
  // add()s every entry, or none when anything in the text is malformed (the error says what and where).
  Status from_json(std::string_view text);

 private:
  bool add_locked(const RegistryEntry& entry);
  mutable std::shared_mutex mutex_;
  std::map<std::string, RegistryEntry> entries_;
};

}  // namespace tilewright
