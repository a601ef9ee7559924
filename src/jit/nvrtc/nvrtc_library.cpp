// SPDX-License-Identifier: MIT
#include "jit/nvrtc/nvrtc_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "core/environment.hpp"
#include "device/gpu/functions.hpp"
#include "jit/program/compiler_library.hpp"

namespace tilewright::nvrtc {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestMajor = 12;  // C++20
constexpr const char* kLibraryNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

// NVRTC opens a second library by its bare name, which the dynamic linker finds in few of the places where NVRTC may be;
// one that is loaded already it takes. No error: without it every compile says what is missing.
void load_builtins(const Library& library) {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(library.nvrtcVersion), &info) == 0 || info.dli_fname == nullptr) return;
  const fs::path file = fmt::format("libnvrtc-builtins.so.{}.{}", library.major, library.minor);
  dlopen((fs::path(info.dli_fname).parent_path() / file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Result<Library> open_one(const std::string& name) {
  Result<void*> handle = open_shared_library(name);
  if (!handle) return handle.status();
  Library l{};
  gpu::Symbols symbols(*handle);
  symbols.find(l.nvrtcVersion, "nvrtcVersion");
  symbols.find(l.nvrtcGetErrorString, "nvrtcGetErrorString");
  symbols.find(l.nvrtcCreateProgram, "nvrtcCreateProgram");
  symbols.find(l.nvrtcDestroyProgram, "nvrtcDestroyProgram");
  symbols.find(l.nvrtcCompileProgram, "nvrtcCompileProgram");
  symbols.find(l.nvrtcGetCUBINSize, "nvrtcGetCUBINSize");
  symbols.find(l.nvrtcGetCUBIN, "nvrtcGetCUBIN");
  symbols.find(l.nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize");
  symbols.find(l.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  symbols.find_optional(l.nvrtcSetFlowCallback, "nvrtcSetFlowCallback");
  const bool whole = symbols.missing() == nullptr;
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
  Result<Library> opened = open_first(names, open_one);
  if (opened.ok()) return opened;
  return Status(StatusCode::kNotFound,
                fmt::format("jit: no NVRTC: {}; install the pip package nvidia-cuda-nvrtc, or set TILEWRIGHT_NVRTC",
                            opened.status().message()));
}

}  // namespace tilewright::nvrtc
