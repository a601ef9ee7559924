// SPDX-License-Identifier: MIT
// What holds for one thread during one scope: a current context, and leave to allocate while a stream is captured.
#pragma once

#include "device/cuda/driver/driver.hpp"

namespace tilewright::cuda {

// Makes a context current; the caller's own is back at the end. Costs one look-up when it is current already.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CuContext context) : driver_(driver) {
    CuContext current = nullptr;
    driver.cuCtxGetCurrent(&current);
    if (current == context) return;
    result_ = driver.cuCtxPushCurrent_v2(context);
    pushed_ = result_ == CuResult::kSuccess;
  }
  ~ContextScope() {
    CuContext ours = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent_v2(&ours);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  CuResult result() const { return result_; }

 private:
  const Driver& driver_;
  CuResult result_ = CuResult::kSuccess;
  bool pushed_ = false;
};

// Loading code and allocating are no part of what a stream captures, but by default the driver forbids them while any
// stream of the process is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  CaptureMode mode_ = CaptureMode::kRelaxed;
};

}  // namespace tilewright::cuda
