// SPDX-License-Identifier: MIT
// A host shared object in this process, from a file or from bytes in memory.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tilewright/status.hpp"

namespace tilewright {

// Stays loaded as long as the object lives.
class SharedObject {
 public:
  static Result<std::shared_ptr<SharedObject>> open(const std::string& path);
  // `name` is what debuggers and profilers see. The bytes go through memory of their own kind (memfd) where the system
  // has that, so that nothing is written to a disk; else through a file that is gone when this returns.
  static Result<std::shared_ptr<SharedObject>> open_image(std::span<const std::byte> image, const std::string& name);

  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  const void* symbol(const std::string& name) const;  // null when it is not exported

 private:
  SharedObject(void* handle, int file) : handle_(handle), file_(file) {}
  void* handle_;
  int file_;  // of an image; -1 = none
};

}  // namespace tilewright
