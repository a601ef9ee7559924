// SPDX-License-Identifier: MIT
#include "device/cuda/vendor/cublaslt_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "core/environment.hpp"

namespace tilewright::cuda {
namespace {

constexpr int64_t kOldestCublasLt = 120000;  // clusters
constexpr const char* kSonames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

// The first symbol that is missing, or null.
const char* find_cublaslt_functions(void* library, LtLibrary& l) {
  const char* missing = nullptr;
  const auto find = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
  find(l.cublasLtGetVersion, "cublasLtGetVersion");
  find(l.cublasLtGetStatusName, "cublasLtGetStatusName");
  find(l.cublasLtGetStatusString, "cublasLtGetStatusString");
  find(l.cublasLtCreate, "cublasLtCreate");
  find(l.cublasLtDestroy, "cublasLtDestroy");
  find(l.cublasLtMatrixLayoutInit_internal, "cublasLtMatrixLayoutInit_internal");
  find(l.cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
  find(l.cublasLtMatmulDescInit_internal, "cublasLtMatmulDescInit_internal");
  find(l.cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  find(l.cublasLtMatmulPreferenceInit_internal, "cublasLtMatmulPreferenceInit_internal");
  find(l.cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  find(l.cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(l.cublasLtMatmulAlgoInit, "cublasLtMatmulAlgoInit");
  find(l.cublasLtMatmulAlgoCheck, "cublasLtMatmulAlgoCheck");
  find(l.cublasLtMatmulAlgoConfigSetAttribute, "cublasLtMatmulAlgoConfigSetAttribute");
  find(l.cublasLtMatmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  find(l.cublasLtMatmulAlgoCapGetAttribute, "cublasLtMatmulAlgoCapGetAttribute");
  find(l.cublasLtMatmul, "cublasLtMatmul");
  return missing;
}

Result<const LtLibrary*> open_one(const std::string& name, int more_flags) {
  // Never closed: it holds state of its own.
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Status(StatusCode::kNotFound, reason != nullptr ? reason : name);
  }
  auto opened = std::make_unique<LtLibrary>();
  const char* const missing = find_cublaslt_functions(handle, *opened);
  if (opened->cublasLtGetVersion != nullptr) opened->version = static_cast<int64_t>(opened->cublasLtGetVersion());
  if (missing != nullptr || opened->version < kOldestCublasLt) {
    return Status(
        StatusCode::kUnsupported,
        fmt::format("{}: cuBLASLt {}{}; allowed: at least {}", name, lt_version_text(opened->version),
                    missing != nullptr ? fmt::format(" without {}", missing) : "", lt_version_text(kOldestCublasLt)));
  }
  opened->name = name;
  return opened.release();
}

}  // namespace

std::string lt_version_text(int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<const LtLibrary*> open_lt_library(const std::vector<std::string>& present,
                                         const std::vector<std::string>& names) {
  for (const std::string& name : present) {
    if (Result<const LtLibrary*> opened = open_one(name, RTLD_NOLOAD)) return opened;
  }
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    Result<const LtLibrary*> opened = open_one(name, 0);
    if (opened) return opened;
    reasons.push_back(opened.status().message());
  }
  return Status(StatusCode::kNotFound,
                fmt::format("no cuBLASLt: {}; set TILEWRIGHT_CUBLASLT to its file", fmt::join(reasons, "; ")));
}

Result<const LtLibrary*> find_lt_library() {
  if (environment("TILEWRIGHT_VENDOR").value_or("on") == "off") {
    return Status(StatusCode::kUnsupported, "no cuBLASLt: switched off by TILEWRIGHT_VENDOR=off");
  }
  const std::vector<std::string> sonames(std::begin(kSonames), std::end(kSonames));
  std::vector<std::string> names = sonames;
  for (const char* soname : kSonames) names.push_back(fmt::format("/usr/local/cuda/lib64/{}", soname));
  if (const auto named = environment("TILEWRIGHT_CUBLASLT")) names = {*named};
  return open_lt_library(sonames, names);
}

Result<const LtLibrary*> lt_library() {
  static const auto* const kOpened = new Result<const LtLibrary*>(find_lt_library());
  return *kOpened;
}

Status lt_check(const LtLibrary& library, LtStatus status, std::string_view what) {
  if (status == LtStatus::kSuccess) return {};
  const char *const name = library.cublasLtGetStatusName(status), *const text = library.cublasLtGetStatusString(status);
  const bool refused = status == LtStatus::kNotSupported || status == LtStatus::kArchMismatch;
  return Status(status == LtStatus::kAllocFailed ? StatusCode::kOutOfMemory
                : refused                        ? StatusCode::kUnsupported
                                                 : StatusCode::kDeviceError,
                fmt::format("{}: {} ({}): {}", what, name != nullptr ? name : "unknown cuBLASLt status",
                            static_cast<int>(status), text != nullptr ? text : "no description"));
}

}  // namespace tilewright::cuda
