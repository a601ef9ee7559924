// SPDX-License-Identifier: MIT
#include "device/cuda/vendor/cuda_libraries.hpp"

namespace tilewright::cuda {

Result<const CublasLt*> CudaLibraries::cublaslt() const {
  const std::lock_guard lock(mutex_);
  if (cublaslt_ != nullptr) return cublaslt_.get();
  const Result<const LtLibrary*> library = open_();
  if (!library) return library.status();
  Result<std::unique_ptr<CublasLt>> opened = CublasLt::open(**library, place_);
  if (!opened) return opened.status();
  cublaslt_ = std::move(*opened);
  return cublaslt_.get();
}

std::vector<VendorLibrary> CudaLibraries::list() const {
  const Result<const CublasLt*> found = cublaslt();
  if (!found) return {{"cublaslt", "", "", found.status()}};
  const LtLibrary& library = (*found)->library();
  return {{"cublaslt", lt_version_text(library.version), library.name, {}}};
}

}  // namespace tilewright::cuda
