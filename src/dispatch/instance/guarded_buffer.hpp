// SPDX-License-Identifier: MIT
// The memory of one tensor of a ProblemInstance, with guard zones that show a write outside it. Where the host does not
// reach a device's memory, the host works on a copy: send() and fetch() carry it over; elsewhere they do nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
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
  // Room for every element of a strided tensor, one element when a size is 0, behind `shift` bytes.
  Status allocate(Device& device, DType dtype, std::initializer_list<Extent> extents, int64_t shift = 0);

  bool allocated() const { return base_ != nullptr; }
  uint8_t* begin() const;  // what the host reads and writes
  int64_t bytes() const { return bytes_; }
  void* host_data() const { return begin() + offset_; }    // the element with all indices zero
  void* data() const { return base_ + kGuard + offset_; }  // the same, for kernels
  void* first() const { return base_ + kGuard; }           // the lowest address, for kernels

  Status send() { return send_to(*this); }
  // The host's bytes into another buffer of the same size, which needs no host copy of its own.
  Status send_to(GuardedBuffer& other) const;
  Status fetch();
  // Only the guard zones; only `bytes` of them from `from` bytes behind the element with all indices zero.
  Status fetch_guards();
  Status fetch(int64_t from, int64_t bytes);
  // Every byte of the device's memory between the guard zones.
  Status fill(uint8_t value);

  // "wrote 3 bytes past the end of the buffer of d"; empty while the guard zones are intact.
  std::string guard_failure(const char* name) const;
  // Tells a changed input; cheap enough for hundreds of megabytes.
  uint64_t checksum() const;

 private:
  static constexpr int64_t kGuard = 4096;  // bytes before and after the buffer
  uint8_t* host() const;                   // the whole memory, as the host sees it

  Device* device_ = nullptr;
  uint8_t* base_ = nullptr;
  int64_t bytes_ = 0, offset_ = 0, total_ = 0;
  mutable std::unique_ptr<uint8_t[]> copy_;  // made when the host first looks
};

}  // namespace tilewright
