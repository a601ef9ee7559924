// SPDX-License-Identifier: MIT
#include "dispatch/instance/guarded_buffer.hpp"

#include <fmt/format.h>

#include <cstring>

namespace tilewright {
namespace {

constexpr int64_t kGuard = 4096;  // bytes before and after the buffer
constexpr uint8_t kGuardByte = 0xA5;

}  // namespace

GuardedBuffer::~GuardedBuffer() {
  if (base_ != nullptr) device_->deallocate(base_, total_);
}

Status GuardedBuffer::allocate(Device& device, int64_t bytes, int64_t offset) {
  device_ = &device;
  bytes_ = bytes;
  offset_ = offset;
  total_ = bytes + 2 * kGuard;
  Result<void*> memory = device.allocate(total_);
  if (!memory) return memory.status();
  base_ = static_cast<uint8_t*>(*memory);
  std::memset(base_, kGuardByte, kGuard);
  std::memset(base_ + kGuard + bytes_, kGuardByte, kGuard);
  return {};
}

Status GuardedBuffer::allocate(Device& device, DType dtype, std::initializer_list<Extent> extents) {
  ByteRange range = touched_bytes(dtype, extents);
  if (range.empty()) range = touched_bytes(dtype, {});
  return allocate(device, range.high - range.low, -range.low);
}

uint8_t* GuardedBuffer::begin() const { return base_ + kGuard; }

std::string GuardedBuffer::guard_failure(const char* name) const {
  for (int64_t i = 0; i < kGuard; ++i) {
    if (base_[kGuard + bytes_ + i] != kGuardByte) {
      return fmt::format("wrote {} bytes past the end of the buffer of {}", i + 1, name);
    }
    if (base_[kGuard - 1 - i] != kGuardByte) return fmt::format("wrote {} bytes before the buffer of {}", i + 1, name);
  }
  return {};
}

uint64_t GuardedBuffer::checksum() const {
  uint64_t sum = 0, word = 0;
  int64_t i = 0;
  for (; i + 8 <= bytes_; i += 8) {
    std::memcpy(&word, begin() + i, 8);
    sum = (sum ^ word) * 0x100000001B3ull;
  }
  for (; i < bytes_; ++i) sum = (sum ^ begin()[i]) * 0x100000001B3ull;
  return sum;
}

}  // namespace tilewright
