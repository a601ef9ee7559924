// SPDX-License-Identifier: MIT
// cuBLASLt, opened when it is first asked for: a table of its functions, and its errors as Status.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/driver/driver_types.hpp"
#include "device/cuda/vendor/cublaslt_types.hpp"
#include "tilewright/status.hpp"

namespace tilewright::cuda {

// Functions of libcublasLt.so, by the names of their exported symbols.
struct LtLibrary {
  size_t (*cublasLtGetVersion)();
  const char* (*cublasLtGetStatusName)(LtStatus status);
  const char* (*cublasLtGetStatusString)(LtStatus status);
  LtStatus (*cublasLtCreate)(LtHandle* handle);
  LtStatus (*cublasLtDestroy)(LtHandle handle);
  // Descriptors in memory of the caller.
  LtStatus (*cublasLtMatrixLayoutInit_internal)(LtLayout* layout, size_t bytes, LtType type, uint64_t rows,
                                                uint64_t columns, int64_t leading);
  LtStatus (*cublasLtMatrixLayoutSetAttribute)(LtLayout* layout, LtLayoutAttribute attribute, const void* value,
                                               size_t bytes);
  LtStatus (*cublasLtMatmulDescInit_internal)(LtMatmulDescriptor* descriptor, size_t bytes, LtCompute compute,
                                              LtType scale);
  LtStatus (*cublasLtMatmulDescSetAttribute)(LtMatmulDescriptor* descriptor, LtMatmulAttribute attribute,
                                             const void* value, size_t bytes);
  LtStatus (*cublasLtMatmulPreferenceInit_internal)(LtPreference* preference, size_t bytes);
  LtStatus (*cublasLtMatmulPreferenceSetAttribute)(LtPreference* preference, LtPreferenceAttribute attribute,
                                                   const void* value, size_t bytes);
  // Algorithms.
  LtStatus (*cublasLtMatmulAlgoGetHeuristic)(LtHandle handle, const LtMatmulDescriptor* descriptor, const LtLayout* a,
                                             const LtLayout* b, const LtLayout* c, const LtLayout* d,
                                             const LtPreference* preference, int wanted, LtHeuristic* results,
                                             int* count);
  LtStatus (*cublasLtMatmulAlgoInit)(LtHandle handle, LtCompute compute, LtType scale, LtType a, LtType b, LtType c,
                                     LtType d, int id, LtAlgorithm* algorithm);
  LtStatus (*cublasLtMatmulAlgoCheck)(LtHandle handle, const LtMatmulDescriptor* descriptor, const LtLayout* a,
                                      const LtLayout* b, const LtLayout* c, const LtLayout* d,
                                      const LtAlgorithm* algorithm, LtHeuristic* result);
  LtStatus (*cublasLtMatmulAlgoConfigSetAttribute)(LtAlgorithm* algorithm, LtAlgoAttribute attribute, const void* value,
                                                   size_t bytes);
  LtStatus (*cublasLtMatmulAlgoConfigGetAttribute)(const LtAlgorithm* algorithm, LtAlgoAttribute attribute, void* value,
                                                   size_t bytes, size_t* written);
  LtStatus (*cublasLtMatmulAlgoCapGetAttribute)(const LtAlgorithm* algorithm, LtCapability capability, void* value,
                                                size_t bytes, size_t* written);
  LtStatus (*cublasLtMatmul)(LtHandle handle, const LtMatmulDescriptor* descriptor, const void* alpha, const void* a,
                             const LtLayout* layout_a, const void* b, const LtLayout* layout_b, const void* beta,
                             const void* c, const LtLayout* layout_c, void* d, const LtLayout* layout_d,
                             const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes, CuStream stream);

  int64_t version = 0;  // 130102 = 13.1.2
  std::string name;     // what it was opened by
};

// "13.1.2"
std::string lt_version_text(int64_t version);

// One of `present` that the process has loaded already, whoever did; else the first of `names` that opens. The error lists them
// with their reasons.
Result<const LtLibrary*> open_lt_library(const std::vector<std::string>& present,
                                         const std::vector<std::string>& names);
// The one that the process has, $TILEWRIGHT_CUBLASLT alone, or the dynamic linker's and a toolkit's. The error also says when
// TILEWRIGHT_VENDOR has switched it off.
Result<const LtLibrary*> find_lt_library();
// find_lt_library(), once a process.
Result<const LtLibrary*> lt_library();

// Ok, or a Status with cuBLASLt's name and text: "cuBLASLt: heuristics: CUBLAS_STATUS_NOT_SUPPORTED (15): ...".
Status lt_check(const LtLibrary& library, LtStatus status, std::string_view what);

}  // namespace tilewright::cuda
