// SPDX-License-Identifier: MIT
// Errors as values: Status, and Result<T> = a value or the Status that explains its absence.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#if defined(_WIN32)
#define TILEWRIGHT_API
#else
#define TILEWRIGHT_API __attribute__((visibility("default")))
#endif

namespace tilewright {

enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 1,  // the call breaks the operator's contract; the message names argument, value, allowed set
  kUnsupported = 2,      // valid, but this kernel, option or device cannot do it; the message says why
  kNotFound = 3,         // a named thing (kernel, file, device) does not exist
  kOutOfMemory = 4,
  kCompileFailed = 5,    // the message carries the compiler's own words
  kCompileDisabled = 6,  // TILEWRIGHT_JIT=off and the instance is in no pack
  kDeviceError = 7,      // the driver refused; the message carries its name and text
  kVerifyFailed = 8,     // a kernel's output is outside its bound
  kTimeout = 9,
  kIoError = 10,
  kCorrupt = 11,  // a file's content fails its digest or its syntax
  kInternal = 12,
};

TILEWRIGHT_API const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message)
      : detail_(code == StatusCode::kOk ? nullptr : std::make_shared<Detail>(Detail{code, std::move(message)})) {}

  bool ok() const { return detail_ == nullptr; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return detail_ ? detail_->code : StatusCode::kOk; }
  const std::string& message() const {
    static const std::string kEmpty;
    return detail_ ? detail_->message : kEmpty;
  }
  // "invalid_argument: gemm: ..."
  TILEWRIGHT_API std::string to_string() const;

 private:
  struct Detail {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Detail> detail_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "Result made from an ok Status");
  }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tilewright
