// SPDX-License-Identifier: MIT
#include "jit/nvrtc/nvrtc_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "core/environment.hpp"

namespace tilewright::nvrtc {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestMajor = 12;  // C++20
constexpr const char* kLibraryNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

template <class Function>
bool find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// NVRTC opens a second library by its bare name, which the dynamic linker finds in few of the places where NVRTC may be;
// one that is loaded already it takes. No error: without it every compile says what is missing.
void load_builtins(const Library& library) {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(library.nvrtcVersion), &info) == 0 || info.dli_fname == nullptr) return;
  const fs::path file = fmt::format("libnvrtc-builtins.so.{}.{}", library.major, library.minor);
  dlopen((fs::path(info.dli_fname).parent_path() / file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Result<Library> open_one(const std::string& name) {
  // One that the process has already, whoever brought it. Never closed: it holds state of its own.
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Status(StatusCode::kNotFound, reason != nullptr ? reason : name);
  }
  Library l{};
  const bool whole =
      find(handle, l.nvrtcVersion, "nvrtcVersion") && find(handle, l.nvrtcGetErrorString, "nvrtcGetErrorString") &&
      find(handle, l.nvrtcCreateProgram, "nvrtcCreateProgram") &&
      find(handle, l.nvrtcDestroyProgram, "nvrtcDestroyProgram") &&
      find(handle, l.nvrtcCompileProgram, "nvrtcCompileProgram") &&
      find(handle, l.nvrtcGetCUBINSize, "nvrtcGetCUBINSize") && find(handle, l.nvrtcGetCUBIN, "nvrtcGetCUBIN") &&
      find(handle, l.nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize") &&
      find(handle, l.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  find(handle, l.nvrtcSetFlowCallback, "nvrtcSetFlowCallback");
  l.name = name;
  if (!whole || l.nvrtcVersion(&l.major, &l.minor) != NvrtcResult::kSuccess || l.major < kOldestMajor) {
    return Status(StatusCode::kUnsupported, fmt::format("{}: NVRTC {}.{}{}; allowed: at least {}.0", name, l.major,
                                                        l.minor, whole ? "" : ", not whole", kOldestMajor));
  }
  load_builtins(l);
  return l;
}

// The folder that pip packages share with this library when it came in a wheel; "" elsewhere.
fs::path site_packages() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&open_library), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  for (fs::path folder = fs::canonical(info.dli_fname, error); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (folder.filename() == "site-packages" || folder.filename() == "dist-packages") return folder;
  }
  return {};
}

}  // namespace

std::vector<std::string> library_names() {
  if (const auto named = environment("TILEWRIGHT_NVRTC")) return {*named};
  std::vector<std::string> names(std::begin(kLibraryNames), std::end(kLibraryNames));
  if (const fs::path packages = site_packages(); !packages.empty()) {
    names.push_back((packages / "nvidia/cu13/lib/libnvrtc.so.13").string());
    names.push_back((packages / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12").string());
  }
  for (const char* name : kLibraryNames) names.push_back(fmt::format("/usr/local/cuda/lib64/{}", name));
  return names;
}

Result<Library> open_library(const std::vector<std::string>& names) {
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    Result<Library> opened = open_one(name);
    if (opened.ok()) return opened;
    reasons.push_back(opened.status().message());
  }
  return Status(StatusCode::kNotFound,
                fmt::format("jit: no NVRTC: {}; install the pip package nvidia-cuda-nvrtc, or set TILEWRIGHT_NVRTC",
                            fmt::join(reasons, "; ")));
}

}  // namespace tilewright::nvrtc
