// SPDX-License-Identifier: MIT
// One device of a vendor's runtime library, and what holds for a thread during a scope.
#pragma once

#include <string>
#include <string_view>

#include "device/gpu/functions.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::gpu {

class Runtime {
 public:
  // `functions` must outlive it.
  Runtime(const Functions& functions, DeviceId id) : functions_(functions), name_(to_string(id)) {}
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Functions& functions() const { return functions_; }
  const std::string& name() const { return name_; }  // "cuda:0"

  // Ok, or a Status with the library's name and text of the code.
  virtual Status check(Code code, std::string_view what) const = 0;

  // Makes the device current for this thread, where it is not. `undo` is for leave(), 0 = nothing to undo.
  struct Entered {
    Code code = kSuccess;
    int undo = 0;
  };
  virtual Entered enter() const = 0;
  virtual void leave(int undo) const = 0;

 private:
  const Functions& functions_;
  const std::string name_;
};

// The device is current; the caller's own is back at the end.
class DeviceScope {
 public:
  explicit DeviceScope(const Runtime& runtime) : runtime_(runtime), entered_(runtime.enter()) {}
  ~DeviceScope() {
    if (entered_.undo != 0) runtime_.leave(entered_.undo);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  Code code() const { return entered_.code; }

 private:
  const Runtime& runtime_;
  const Runtime::Entered entered_;
};

// Loading code and allocating are no part of what a stream captures, but by default the libraries forbid them while any
// stream of the process is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Functions& functions) : functions_(functions) {
    functions_.exchange_capture_mode(&mode_);
  }
  ~RelaxedCapture() { functions_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Functions& functions_;
  CaptureMode mode_ = CaptureMode::kRelaxed;
};

}  // namespace tilewright::gpu
