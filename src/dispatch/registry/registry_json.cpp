// SPDX-License-Identifier: MIT
// The registry's JSON form: export for people and tools, import of quarantines and verification levels.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/fields.hpp"
#include "dispatch/registry/registry.hpp"

namespace tilewright {

std::string Registry::to_json() const {
  nlohmann::ordered_json json;
  json["tilewright_registry"] = 1;
  json["entries"] = nlohmann::ordered_json::array();
  for (const RegistryEntry& entry : filter([](const RegistryEntry&) { return true; })) {
    json["entries"].push_back({{"key", entry.key.text},
                               {"digest", entry.key.digest.hex()},
                               {"priority", fields_detail::print_value(entry.priority)},
                               {"verification", fields_detail::print_value(entry.verification)},
                               {"builtin", entry.builtin != nullptr},
                               {"note", entry.note}});
  }
  return json.dump(1) + "\n";
}

Status Registry::from_json(std::string_view text) {
  auto refuse = [](std::string message) {
    return Status(StatusCode::kCorrupt, "registry JSON: " + std::move(message));
  };
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return refuse("not valid JSON");
  if (!json.is_object() || !json.contains("tilewright_registry") || json["tilewright_registry"] != 1) {
    return refuse("'tilewright_registry' must be 1");
  }
  if (!json.contains("entries") || !json["entries"].is_array()) return refuse("'entries' must be an array");

  std::vector<RegistryEntry> incoming;
  for (size_t i = 0; i < json["entries"].size(); ++i) {
    const auto& item = json["entries"][i];
    auto text_of = [&item](const char* name) -> std::string {
      return item.is_object() && item.contains(name) && item[name].is_string() ? item[name].get<std::string>() : "";
    };
    Result<KernelKey> key = parse_key(text_of("key"));
    if (!key) return refuse(fmt::format("entry {}: {}", i, key.status().message()));
    RegistryEntry entry{.key = std::move(*key), .note = text_of("note")};
    if (Status s = fields_detail::parse_value(text_of("priority"), entry.priority); !s) {
      return refuse(fmt::format("entry {}: priority: {}", i, s.message()));
    }
    if (Status s = fields_detail::parse_value(text_of("verification"), entry.verification); !s) {
      return refuse(fmt::format("entry {}: verification: {}", i, s.message()));
    }
    incoming.push_back(std::move(entry));
  }
  for (const RegistryEntry& entry : incoming) add(entry);
  return {};
}

}  // namespace tilewright
