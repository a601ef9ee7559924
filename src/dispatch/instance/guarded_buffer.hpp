// SPDX-License-Identifier: MIT
// The memory of one tensor of a ProblemInstance, with guard zones that show a write outside it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/tensor/strided.hpp"
#include "device/device.hpp"

namespace tilewright {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();

  // `offset` bytes lie before the element with all indices zero. Fills the guard zones.
  Status allocate(Device& device, int64_t bytes, int64_t offset = 0);
  // Room for every element of a strided tensor; one element when a size is 0.
  Status allocate(Device& device, DType dtype, std::initializer_list<Extent> extents);

  bool allocated() const { return base_ != nullptr; }
  uint8_t* begin() const;
  int64_t bytes() const { return bytes_; }
  void* data() const { return begin() + offset_; }  // the element with all indices zero

  // "wrote 3 bytes past the end of the buffer of d"; empty while the guard zones are intact.
  std::string guard_failure(const char* name) const;
  // Tells a changed input; cheap enough for hundreds of megabytes.
  uint64_t checksum() const;

 private:
  Device* device_ = nullptr;
  uint8_t* base_ = nullptr;
  int64_t bytes_ = 0, offset_ = 0, total_ = 0;
};

}  // namespace tilewright
