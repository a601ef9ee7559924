// SPDX-License-Identifier: MIT
#include "device/cuda/vendor/cublaslt_call.hpp"

#include <fmt/format.h>

#include <cstring>

#include "device/cuda/driver/context_scope.hpp"

namespace tilewright::cuda {

LtStatus LtCall::set_pointers(const LtArgs& args, LtMatmulDescriptor& descriptor) const {
  LtStatus status = LtStatus::kSuccess;
  for (const auto& [wanted, attribute, pointer] : {std::tuple{has_bias_, LtMatmulAttribute::kBiasPointer, args.bias},
                                                   std::tuple{scaled_a_, LtMatmulAttribute::kScaleA, args.scale_a},
                                                   std::tuple{scaled_b_, LtMatmulAttribute::kScaleB, args.scale_b}}) {
    if (wanted && status == LtStatus::kSuccess) {
      status = library_.cublasLtMatmulDescSetAttribute(&descriptor, attribute, &pointer, sizeof(pointer));
    }
  }
  return status;
}

Status LtCall::run(std::span<const std::byte> bytes, const LaunchContext& context) const {
  if (bytes.size() != sizeof(LtArgs)) {
    return Status(StatusCode::kInternal,
                  fmt::format("cuBLASLt: call with {} bytes of arguments, it takes {}", bytes.size(), sizeof(LtArgs)));
  }
  LtArgs args;
  std::memcpy(&args, bytes.data(), sizeof(args));
  const ContextScope scope(*place_.driver, place_.context);
  if (Status s = check(*place_.driver, scope.result(), "cuBLASLt"); !s) return s;
  // The library loads a kernel when it is first called.
  const RelaxedCapture relaxed(*place_.driver);

  // A descriptor of this call's own where addresses stand in it: other threads may run the same plan.
  const LtMatmulDescriptor* descriptor = &descriptors_.matmul;
  LtMatmulDescriptor own;
  LtStatus status = LtStatus::kSuccess;
  if (has_bias_ || scaled_a_ || scaled_b_) {
    own = descriptors_.matmul;
    status = set_pointers(args, own);
    descriptor = &own;
  }
  constexpr int32_t kOne = 1, kZero = 0;
  const void *const alpha = integer_ ? static_cast<const void*>(&kOne) : &args.alpha,
                    *const beta = integer_ ? static_cast<const void*>(&kZero) : &args.beta;
  if (status == LtStatus::kSuccess) {
    status = library_.cublasLtMatmul(handle_, descriptor, alpha, args.a, &descriptors_.a, args.b, &descriptors_.b, beta,
                                     args.c != nullptr ? args.c : args.d, &descriptors_.c, args.d, &descriptors_.d,
                                     &algorithm_.algorithm, args.workspace, algorithm_.workspace_bytes,
                                     static_cast<CuStream>(context.stream));
  }
  if (status == LtStatus::kSuccess) return {};
  return lt_check(library_, status, fmt::format("cuda:{}: cublasLtMatmul ({})", place_.index, name_));
}

}  // namespace tilewright::cuda
