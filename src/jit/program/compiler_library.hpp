// SPDX-License-Identifier: MIT
// Compilers that are libraries of the machine, opened when they are first asked for.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

// One that the process has already, whoever brought it, goes first. Never closed: compilers hold state of their own.
inline Result<void*> open_shared_library(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* const reason = dlerror();
  return Status(StatusCode::kNotFound, reason != nullptr ? reason : name);
}

// The first of `names` that `open` takes; the error lists all with their reasons.
template <class Library>
Result<Library> open_first(const std::vector<std::string>& names, Result<Library> (*open)(const std::string& name)) {
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    Result<Library> opened = open(name);
    if (opened.ok()) return opened;
    reasons.push_back(opened.status().message());
  }
  return Status(StatusCode::kNotFound, fmt::format("{}", fmt::join(reasons, "; ")));
}

}  // namespace tilewright
