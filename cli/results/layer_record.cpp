// SPDX-License-Identifier: MIT
#include "results/layer_record.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/environment.hpp"
#include "jit/system/files.hpp"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

std::string limits_key(const std::string& part, int units) { return fmt::format("{}/{}", part, units); }

double number_of(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_number() ? it->get<double>() : 0;
}

// Members of another type stay at their defaults.
LayerRecord record_from_json(const Json& json) {
  LayerRecord record;
  for_each_field(record, [&json](const char* name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const auto it = json.find(name);
    if (it == json.end()) return;
    if constexpr (std::is_same_v<Field, std::string>) {
      if (it->is_string()) field = it->template get<std::string>();
    } else if (it->is_number()) {
      field = it->template get<Field>();
    }
  });
  return record;
}

Json record_json(const LayerRecord& record) {
  Json json = Json::object();
  for_each_field(record, [&json](const char* name, const auto& field) { json[name] = field; });
  return json;
}

Json limits_json(const DeviceLimits& limits) {
  Json peaks = Json::array();
  for (const DeviceLimits::Peak& peak : limits.peaks) {
    peaks.push_back({{"mma", peak.mma},
                     {"gflops_unit", peak.gflops_unit},
                     {"gflops_all", peak.gflops_all},
                     {"gflops_sustained", peak.gflops_sustained}});
  }
  return {{"read_gbps_unit", limits.read_gbps_unit},
          {"read_gbps_all", limits.read_gbps_all},
          {"copy_gbps_all", limits.copy_gbps_all},
          {"launch_us", limits.launch_us},
          {"peaks", peaks}};
}

DeviceLimits limits_from_json(const Json& json) {
  DeviceLimits limits;
  if (!json.is_object()) return limits;
  limits.read_gbps_unit = number_of(json, "read_gbps_unit");
  limits.read_gbps_all = number_of(json, "read_gbps_all");
  limits.copy_gbps_all = number_of(json, "copy_gbps_all");
  limits.launch_us = number_of(json, "launch_us");
  const auto peaks = json.find("peaks");
  if (peaks == json.end() || !peaks->is_array()) return limits;
  for (const Json& peak : *peaks) {
    if (!peak.is_object() || !peak.contains("mma") || !peak["mma"].is_string()) continue;
    limits.peaks.push_back({peak["mma"].get<std::string>(), number_of(peak, "gflops_unit"),
                            number_of(peak, "gflops_all"), number_of(peak, "gflops_sustained")});
  }
  return limits;
}

}  // namespace

RecordStore::RecordStore(std::string_view target) {
  const std::string folder = user_data_dir();
  if (folder.empty()) return;
  path_ = fmt::format("{}/tuning/{}.results.json", folder, target);
  const Result<std::string> text = read_file(path_);
  if (!text) return;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || number_of(json, "tilewright_results") != kVersion) return;
  if (const auto rows = json.find("rows"); rows != json.end() && rows->is_array()) {
    for (const Json& row : *rows) {
      if (row.is_object()) put(record_from_json(row));
    }
  }
  if (const auto limits = json.find("limits"); limits != json.end() && limits->is_object()) {
    for (const auto& [key, value] : limits->items()) limits_[key] = limits_from_json(value);
  }
}

const LayerRecord* RecordStore::find(const std::string& op, const std::string& problem, const std::string& part,
                                     int units) const {
  for (const LayerRecord& record : records_) {
    if (record.problem == problem && record.op == op && record.part == part && record.units == units) return &record;
  }
  return nullptr;
}

void RecordStore::put(LayerRecord record) {
  if (const LayerRecord* old = find(record.op, record.problem, record.part, record.units)) {
    records_[static_cast<size_t>(old - records_.data())] = std::move(record);
  } else {
    records_.push_back(std::move(record));
  }
}

DeviceLimits RecordStore::limits(const std::string& part, int units) const {
  const auto it = limits_.find(limits_key(part, units));
  return it == limits_.end() ? DeviceLimits() : it->second;
}

void RecordStore::put_limits(const std::string& part, int units, const DeviceLimits& limits) {
  limits_[limits_key(part, units)] = limits;
}

Status RecordStore::save() const {
  if (path_.empty()) {
    return Status(StatusCode::kIoError, "no home directory: results are not kept; set TILEWRIGHT_DATA_DIR");
  }
  Json json = {{"tilewright_results", kVersion}, {"limits", Json::object()}, {"rows", Json::array()}};
  for (const auto& [key, limits] : limits_) json["limits"][key] = limits_json(limits);
  for (const LayerRecord& record : records_) json["rows"].push_back(record_json(record));
  if (Status s = make_folders(std::filesystem::path(path_).parent_path().string()); !s) return s;
  // Readers see the old file or the new one.
  const std::string fresh = fmt::format("{}.{}", path_, getpid());
  if (Status s = write_file(fresh, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"); !s) return s;
  if (std::rename(fresh.c_str(), path_.c_str()) != 0) {
    std::remove(fresh.c_str());
    return Status(StatusCode::kIoError, fmt::format("cannot replace '{}'", path_));
  }
  return {};
}

}  // namespace tilewright::cli
