// SPDX-License-Identifier: MIT
// NVTX and roctx: two functions of a library that a profiler brings, found at run time.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/environment.hpp"
#include "core/profile/profile_sink.hpp"

namespace tilewright {
namespace {

using Push = int (*)(const char* name);
using Pop = int (*)();

class MarkerSink final : public ProfileSink {
 public:
  MarkerSink(Push push, Pop pop) : push_(push), pop_(pop) {}
  void push(const char* name, std::string_view) override { push_(name); }
  void pop() override { pop_(); }

 private:
  Push push_;
  Pop pop_;
};

std::string loader_error() {
  const char* error = dlerror();
  return error == nullptr ? "unknown error of the loader" : error;
}

// From a library that stays loaded; null handle: from what the process has loaded already.
std::unique_ptr<ProfileSink> find_markers(void* library, const char* push, const char* pop) {
  void* const handle = library == nullptr ? RTLD_DEFAULT : library;
  const auto found_push = reinterpret_cast<Push>(dlsym(handle, push));
  const auto found_pop = reinterpret_cast<Pop>(dlsym(handle, pop));
  if (found_push == nullptr || found_pop == nullptr) return nullptr;
  return std::make_unique<MarkerSink>(found_push, found_pop);
}

// The first of the libraries that opens and has both functions.
Result<std::unique_ptr<ProfileSink>> open_markers(const std::vector<std::string>& libraries, const char* push,
                                                  const char* pop) {
  std::vector<std::string> reasons;
  for (const std::string& name : libraries) {
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reasons.push_back(loader_error());
      continue;
    }
    if (std::unique_ptr<ProfileSink> sink = find_markers(library, push, pop)) return sink;
    reasons.push_back(fmt::format("{} has no {} and {}", name, push, pop));
    dlclose(library);
  }
  return Status(StatusCode::kNotFound, fmt::format("{}", fmt::join(reasons, "; ")));
}

// ---- A tool of NVTX 3 --------------------------------------------------------------------------------------------------
// Profilers set NVTX_INJECTION64_PATH to a library, which a program initialises with a function that hands out tables of
// pointers to fill in: one table a module of the API. Only two functions are used here; the tool may fill in the others,
// which then lie in a place that nobody reads.

using Function = void (*)();

constexpr uint32_t kCallbacksTable = 1;           // id of the export table
constexpr size_t kPushIndex = 9, kPopIndex = 11;  // of nvtxRangePushA and nvtxRangePop in the core module
constexpr int kCoreModule = 1;

Function pushed_to = nullptr, popped_to = nullptr, unused = nullptr;

// Functions of each module: invalid, core, cuda, opencl, cudart, core2, sync.
constexpr std::array<unsigned, 7> kModuleSizes = {0, 16, 9, 15, 7, 16, 7};

int module_functions(int module, Function*** table, unsigned* size) {
  static std::array<Function*, 17> core, other;
  if (module <= 0 || module >= static_cast<int>(kModuleSizes.size())) return 0;
  core.fill(&unused), other.fill(&unused);
  core[kPushIndex] = &pushed_to, core[kPopIndex] = &popped_to;
  core[0] = other[0] = nullptr;  // no function has this number
  if (table != nullptr) *table = module == kCoreModule ? core.data() : other.data();
  if (size != nullptr) *size = kModuleSizes[static_cast<size_t>(module)];
  return 1;
}

struct CallbackTable {
  size_t struct_size;
  int (*module_functions)(int module, Function*** table, unsigned* size);
};

const void* export_table(uint32_t id) {
  static const CallbackTable table = {sizeof(CallbackTable), module_functions};
  return id == kCallbacksTable ? &table : nullptr;
}

Result<std::unique_ptr<ProfileSink>> open_injection(const std::string& path) {
  constexpr const char* kInitialize = "InitializeInjectionNvtx2";
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return Status(StatusCode::kNotFound, "NVTX_INJECTION64_PATH: " + loader_error());
  const auto initialize = reinterpret_cast<int (*)(const void* (*)(uint32_t))>(dlsym(library, kInitialize));
  std::string problem;
  if (initialize == nullptr) {
    problem = fmt::format("has no {}", kInitialize);
  } else if (initialize(export_table) == 0) {
    problem = "refused to start";
  } else if (pushed_to == nullptr || popped_to == nullptr) {
    problem = "takes no ranges";
  } else {
    return std::unique_ptr<ProfileSink>(
        std::make_unique<MarkerSink>(reinterpret_cast<Push>(pushed_to), reinterpret_cast<Pop>(popped_to)));
  }
  return Status(StatusCode::kNotFound, fmt::format("NVTX_INJECTION64_PATH: {} {}", path, problem));
}

}  // namespace

Result<std::unique_ptr<ProfileSink>> make_nvtx_sink(const std::string& library) {
  constexpr const char *kPush = "nvtxRangePushA", *kPop = "nvtxRangePop";
  if (!library.empty()) return open_markers({library}, kPush, kPop);
  if (const auto path = environment("NVTX_INJECTION64_PATH")) return open_injection(*path);
  if (std::unique_ptr<ProfileSink> loaded = find_markers(nullptr, kPush, kPop)) return loaded;
  return open_markers({"libnvToolsExt.so.1"}, kPush, kPop);
}

Result<std::unique_ptr<ProfileSink>> make_roctx_sink(const std::string& library) {
  constexpr const char *kPush = "roctxRangePushA", *kPop = "roctxRangePop";
  if (!library.empty()) return open_markers({library}, kPush, kPop);
  if (std::unique_ptr<ProfileSink> loaded = find_markers(nullptr, kPush, kPop)) return loaded;
  return open_markers({"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4", "libroctx64.so"}, kPush, kPop);
}

}  // namespace tilewright
