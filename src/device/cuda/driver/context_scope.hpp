// SPDX-License-Identifier: MIT
// What holds for one thread during one scope: a current context.
#pragma once

#include "device/cuda/driver/driver.hpp"
#include "device/gpu/runtime.hpp"

namespace tilewright::cuda {

inline gpu::Runtime::Entered enter_context(const Driver& driver, CuContext context) {
  CuContext current = nullptr;
  driver.cuCtxGetCurrent(&current);
  if (current == context) return {};
  const CuResult result = driver.cuCtxPushCurrent_v2(context);
  return {static_cast<gpu::Code>(result), result == CuResult::kSuccess};
}
inline void leave_context(const Driver& driver) {
  CuContext ours = nullptr;
  driver.cuCtxPopCurrent_v2(&ours);
}

// Makes a context current; the caller's own is back at the end. Costs one look-up when it is current already.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CuContext context) : driver_(driver), entered_(enter_context(driver, context)) {}
  ~ContextScope() {
    if (entered_.undo != 0) leave_context(driver_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  CuResult result() const { return static_cast<CuResult>(entered_.code); }

 private:
  const Driver& driver_;
  const gpu::Runtime::Entered entered_;
};

using gpu::RelaxedCapture;

// A device with its primary context, which was retained for it: given back when all that was made with it is gone.
class CudaRuntime final : public gpu::Runtime {
 public:
  CudaRuntime(const Driver& driver, CuContext context, CuDevice device, int index)
      : Runtime(driver, {DeviceKind::kCuda, index}), driver_(driver), context_(context), device_(device) {}
  ~CudaRuntime() override { driver_.cuDevicePrimaryCtxRelease_v2(device_); }
  Status check(gpu::Code code, std::string_view what) const override { return cuda::check(driver_, code, what); }
  Entered enter() const override { return enter_context(driver_, context_); }
  void leave(int) const override { leave_context(driver_); }

 private:
  const Driver& driver_;
  const CuContext context_;
  const CuDevice device_;
};

}  // namespace tilewright::cuda
