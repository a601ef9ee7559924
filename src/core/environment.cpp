// SPDX-License-Identifier: MIT
// The tables of environment variables, and the folders that follow from them.
#include "core/environment.hpp"

#include <cassert>
#include <cstdlib>

namespace tilewright {

namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"TILEWRIGHT_LOG", "off | error | warn | info | debug, each with an optional :path", "off",
     "What is logged, and the file to append it to (standard error without a path). One line an event."},
    {"TILEWRIGHT_PROFILE", "off, or nvtx, roctx, trace, each with an optional :path, separated by commas", "off",
     "Who is told of the stages of calls: profilers that listen to NVTX or roctx, and a trace file."},
    {"TILEWRIGHT_JIT", "off | on | background | force", "on",
     "Whether a missing kernel is compiled: never; when it is needed; on another thread while an always-built kernel "
     "serves; always, even when the code cache has it."},
    {"TILEWRIGHT_CACHE_DIR", "folder", "$XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright",
     "The writable root of the code cache. A root that others can write to is refused."},
    {"TILEWRIGHT_CACHE_READ", "folders, separated by colons", "none",
     "Further roots of the code cache, read only, searched in order before the writable one."},
    {"TILEWRIGHT_PACKS", "files, or folders of *.twpack, separated by colons", "none",
     "Ahead-of-time packs of kernels, searched before the roots of the code cache; those beside the library follow."},
    {"TILEWRIGHT_DATA_DIR", "folder", "$XDG_DATA_HOME/tilewright, else ~/.local/share/tilewright",
     "Where the user's tuned tables, tuning journals and quarantined kernels are kept."},
    {"TILEWRIGHT_TUNED", "CSV files or folders, separated by colons", "none",
     "Tuned tables layered last: their rows win over the user's, which win over the built-in ones."},
    {"TILEWRIGHT_CXX", "program", "$CXX, else c++, g++, clang++ on $PATH", "The host compiler of the JIT."},
    {"TILEWRIGHT_KERNEL_DIR", "folder", "the headers carried in the library",
     "A kernels/ folder that replaces the carried headers, and built CPU kernels but the generic ones, for kernel "
     "development."},
    {"TILEWRIGHT_CPU_TARGET", "an x86-64 target of `tilewright arch`, e.g. x86-64-v3", "the best that the CPU runs",
     "Lowers the CPU target; a target that the CPU does not run is ignored and logged as a warning."},
    {"TILEWRIGHT_NUM_THREADS", "positive integer", "the cores that the process may use", "Threads of the CPU device."},
    {"TILEWRIGHT_CUDA_DRIVER", "shared library", "libcuda.so.1", "The CUDA driver."},
    {"TILEWRIGHT_HIP_DRIVER", "shared library", "libamdhip64.so.7, .so.6, .so.5, .so", "HIP's runtime library."},
    {"TILEWRIGHT_NVRTC", "shared library", "the one in the process, else libnvrtc.so.13, libnvrtc.so.12",
     "NVRTC, the compiler of CUDA kernels."},
    {"TILEWRIGHT_AMDCLANG", "program", "clang of ROCm, else clang-23 to clang-20, clang on $PATH",
     "Clang with the target amdgcn and lld, the compiler of AMD kernels."},
    {"TILEWRIGHT_COMGR", "shared library", "the one in the process, else libamd_comgr.so.3 of ROCm",
     "ROCm's comgr, which compiles AMD kernels where ROCm's clang is not installed; TILEWRIGHT_AMDCLANG goes before "
     "it."},
    {"TILEWRIGHT_CUBLASLT", "shared library", "libcublasLt.so.13, libcublasLt.so.12",
     "cuBLASLt, where the process has none loaded yet."},
    {"TILEWRIGHT_VENDOR", "on | off", "on",
     "Whether libraries of a GPU's vendor may serve calls that a tuned row or the caller gives them (off: never "
     "opened)."},
    {"TILEWRIGHT_OPENMP", "on | off", "on",
     "Whether calls with PyTorch's tensors run on PyTorch's OpenMP threads (off: on tilewright's own)."},
    {"TILEWRIGHT_ONEDNN", "shared library", "the newest libdnnl that is found",
     "The oneDNN that `tilewright bench` compares with."},
    {"TILEWRIGHT_PYTHON", "program", "build/venv/bin/python of the source tree, else python3 on $PATH",
     "The Python whose PyTorch `tilewright tune` and `tilewright bench` compare with."},
};

constexpr EnvironmentVariable kBorrowed[] = {
    {"HOME", "folder", "none", "Where ~/.cache and ~/.local/share are."},
    {"XDG_CACHE_HOME", "folder", "~/.cache", "Parent of the code cache."},
    {"XDG_DATA_HOME", "folder", "~/.local/share", "Parent of the user's data."},
    {"CXX", "program", "none", "The host compiler of the JIT when TILEWRIGHT_CXX is unset."},
    {"NVTX_INJECTION64_PATH", "shared library", "none", "The profiler that TILEWRIGHT_PROFILE=nvtx tells of ranges."},
    {"NO_COLOR", "anything", "none", "The program prints no colours."},
    {"TERM", "terminal type", "none", "The program prints no colours on a terminal of type dumb, or of none."},
    {"ROCM_PATH", "folder", "/opt/rocm", "Where ROCm's clang is looked for."},
    {"PATH", "folders, separated by colons", "none", "Where compilers are looked for."},
};

[[maybe_unused]] bool known(std::string_view name) {
  for (const auto& variable : kVariables) {
    if (name == variable.name) return true;
  }
  for (const auto& variable : kBorrowed) {
    if (name == variable.name) return true;
  }
  return false;
}

// Own variable, else parent variable + "/tilewright", else home + fallback.
std::string user_dir(const char* own, const char* parent, const char* below_home) {
  if (auto dir = environment(own)) return *dir;
  // The XDG specification tells readers to ignore relative paths.
  if (auto dir = environment(parent); dir && dir->front() == '/') return *dir + "/tilewright";
  if (auto home = environment("HOME")) return *home + below_home;
  return {};
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }
std::span<const EnvironmentVariable> borrowed_environment_variables() { return kBorrowed; }

std::optional<std::string> environment(std::string_view name) {
  assert(known(name) && "a variable outside the tables of environment.cpp");
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::string user_cache_dir() { return user_dir("TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "/.cache/tilewright"); }

std::string user_data_dir() { return user_dir("TILEWRIGHT_DATA_DIR", "XDG_DATA_HOME", "/.local/share/tilewright"); }

}  // namespace tilewright
