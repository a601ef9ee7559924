// SPDX-License-Identifier: MIT
#include "jit/amdgcn/comgr/comgr_library.hpp"

#include <fmt/format.h>

#include "core/environment.hpp"
#include "device/gpu/functions.hpp"
#include "jit/program/compiler_library.hpp"

namespace tilewright::comgr {
namespace {

constexpr size_t kOldestComgr = 3;
constexpr const char* kComgrFiles[] = {"libamd_comgr.so.3", "libamd_comgr.so"};

const char* find_comgr_functions(void* handle, Library& l) {
  gpu::Symbols symbols(handle);
  symbols.find(l.get_version, "amd_comgr_get_version");
  symbols.find(l.status_string, "amd_comgr_status_string");
  symbols.find(l.get_isa_count, "amd_comgr_get_isa_count");
  symbols.find(l.get_isa_name, "amd_comgr_get_isa_name");
  symbols.find(l.create_data, "amd_comgr_create_data");
  symbols.find(l.release_data, "amd_comgr_release_data");
  symbols.find(l.set_data, "amd_comgr_set_data");
  symbols.find(l.set_data_name, "amd_comgr_set_data_name");
  symbols.find(l.get_data, "amd_comgr_get_data");
  symbols.find(l.create_data_set, "amd_comgr_create_data_set");
  symbols.find(l.destroy_data_set, "amd_comgr_destroy_data_set");
  symbols.find(l.data_set_add, "amd_comgr_data_set_add");
  symbols.find(l.action_data_count, "amd_comgr_action_data_count");
  symbols.find(l.action_data_get_data, "amd_comgr_action_data_get_data");
  symbols.find(l.create_action_info, "amd_comgr_create_action_info");
  symbols.find(l.destroy_action_info, "amd_comgr_destroy_action_info");
  symbols.find(l.set_isa_name, "amd_comgr_action_info_set_isa_name");
  symbols.find(l.set_language, "amd_comgr_action_info_set_language");
  symbols.find(l.set_option_list, "amd_comgr_action_info_set_option_list");
  symbols.find(l.set_logging, "amd_comgr_action_info_set_logging");
  symbols.find(l.do_action, "amd_comgr_do_action");
  return symbols.missing();
}

Result<Library> open_comgr(const std::string& name) {
  Result<void*> handle = open_shared_library(name);
  if (!handle) return handle.status();
  Library l{};
  if (const char* const missing = find_comgr_functions(*handle, l)) {
    return Status(StatusCode::kUnsupported, fmt::format("{} has no {}", name, missing));
  }
  l.get_version(&l.major, &l.minor);
  if (l.major < kOldestComgr) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: comgr {}.{}; allowed: {} or later", name, l.major, l.minor, kOldestComgr));
  }
  l.name = name;
  return l;
}

}  // namespace

Status Library::check(ComgrStatus status) const {
  if (status == ComgrStatus::kSuccess) return {};
  const char* words = nullptr;
  if (status_string(status, &words) != ComgrStatus::kSuccess || words == nullptr) words = "no name";
  return Status(StatusCode::kCompileFailed, fmt::format("comgr: error {} ({})", static_cast<int>(status), words));
}

std::vector<std::string> library_names(const std::string& rocm_folder) {
  if (const auto named = environment("TILEWRIGHT_COMGR"); named && !named->empty()) return {*named};
  std::vector<std::string> names(std::begin(kComgrFiles), std::end(kComgrFiles));
  names.push_back(rocm_folder + "/lib/" + kComgrFiles[0]);
  return names;
}

Result<Library> open_library(const std::vector<std::string>& names) { return open_first(names, open_comgr); }

}  // namespace tilewright::comgr
