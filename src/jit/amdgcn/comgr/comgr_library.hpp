// SPDX-License-Identifier: MIT
// ROCm's code object manager, which HIP itself compiles with, opened when it is first asked for. Declarations follow
// amd_comgr.h of version 3, whose enumerators are not those of version 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright::comgr {

enum class ComgrStatus : int { kSuccess = 0 };
enum class Language : int { kHip = 3 };
enum class DataKind : int { kSource = 1, kInclude = 2, kLog = 5, kBitcode = 6, kRelocatable = 7, kExecutable = 8 };
enum class Action : int { kPreprocess = 0, kCompileToBitcode = 1, kBitcodeToRelocatable = 4, kLinkToExecutable = 7 };
// Passed by value.
struct Data {
  uint64_t handle = 0;
};
struct DataSet {
  uint64_t handle = 0;
};
struct ActionInfo {
  uint64_t handle = 0;
};

struct Library {
  void (*get_version)(size_t* major, size_t* minor);
  ComgrStatus (*status_string)(ComgrStatus status, const char** text);
  ComgrStatus (*get_isa_count)(size_t* count);
  ComgrStatus (*get_isa_name)(size_t index, const char** name);
  ComgrStatus (*create_data)(DataKind kind, Data* data);
  ComgrStatus (*release_data)(Data data);
  ComgrStatus (*set_data)(Data data, size_t bytes, const char* text);
  ComgrStatus (*set_data_name)(Data data, const char* name);
  ComgrStatus (*get_data)(Data data, size_t* bytes, char* text);
  ComgrStatus (*create_data_set)(DataSet* set);
  ComgrStatus (*destroy_data_set)(DataSet set);
  ComgrStatus (*data_set_add)(DataSet set, Data data);
  ComgrStatus (*action_data_count)(DataSet set, DataKind kind, size_t* count);
  ComgrStatus (*action_data_get_data)(DataSet set, DataKind kind, size_t index, Data* data);
  ComgrStatus (*create_action_info)(ActionInfo* info);
  ComgrStatus (*destroy_action_info)(ActionInfo info);
  ComgrStatus (*set_isa_name)(ActionInfo info, const char* name);
  ComgrStatus (*set_language)(ActionInfo info, Language language);
  ComgrStatus (*set_option_list)(ActionInfo info, const char** options, size_t count);
  ComgrStatus (*set_logging)(ActionInfo info, bool logging);
  ComgrStatus (*do_action)(Action action, ActionInfo info, DataSet input, DataSet result);

  size_t major = 0, minor = 0;
  std::string name;  // what it was opened by

  Status check(ComgrStatus status) const;
};

// The first of `names` that opens and is whole and new enough; the error lists them all with their reasons.
Result<Library> open_library(const std::vector<std::string>& names);
// $TILEWRIGHT_COMGR alone; else the dynamic linker's (one that the process has already goes first), and ROCm's.
std::vector<std::string> library_names(const std::string& rocm_folder);

}  // namespace tilewright::comgr
