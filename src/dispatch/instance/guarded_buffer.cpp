// SPDX-License-Identifier: MIT
#include "dispatch/instance/guarded_buffer.hpp"

#include <fmt/format.h>

#include <cstring>

namespace tilewright {
namespace {

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
  device.expose(base_, base_ + kGuard, bytes_);
  if (!device.host_memory()) return device.fill(base_, kGuardByte, total_);
  std::memset(base_, kGuardByte, kGuard);
  std::memset(base_ + kGuard + bytes_, kGuardByte, kGuard);
  return {};
}

Status GuardedBuffer::allocate(Device& device, DType dtype, std::initializer_list<Extent> extents, int64_t shift) {
  ByteRange range = touched_bytes(dtype, extents);
  if (range.empty()) range = touched_bytes(dtype, {});
  return allocate(device, range.high - range.low + shift, shift - range.low);
}

uint8_t* GuardedBuffer::host() const {
  if (device_->host_memory()) return base_;
  if (copy_ == nullptr) {
    copy_.reset(new uint8_t[static_cast<size_t>(total_)]);
    std::memset(copy_.get(), kGuardByte, kGuard);
    std::memset(copy_.get() + kGuard + bytes_, kGuardByte, kGuard);
  }
  return copy_.get();
}

uint8_t* GuardedBuffer::begin() const { return host() + kGuard; }

Status GuardedBuffer::send_to(GuardedBuffer& other) const {
  if (!device_->host_memory()) return device_->copy_from_host(other.base_, host(), total_);
  if (&other != this) std::memcpy(other.base_ + kGuard, base_ + kGuard, static_cast<size_t>(bytes_));
  return {};
}

Status GuardedBuffer::fetch() {
  return device_->host_memory() ? Status() : device_->copy_to_host(host(), base_, total_);
}

Status GuardedBuffer::fetch_guards() {
  if (device_->host_memory()) return {};
  const Status before = device_->copy_to_host(host(), base_, kGuard);
  const int64_t end = kGuard + bytes_;
  return before ? device_->copy_to_host(host() + end, base_ + end, kGuard) : before;
}

Status GuardedBuffer::fetch(int64_t from, int64_t bytes) {
  if (device_->host_memory()) return {};
  const int64_t at = kGuard + offset_ + from;
  return device_->copy_to_host(host() + at, base_ + at, bytes);
}

Status GuardedBuffer::fill(uint8_t value) { return device_->fill(base_ + kGuard, value, bytes_); }

std::string GuardedBuffer::guard_failure(const char* name) const {
  const uint8_t* const whole = host();
  for (int64_t i = 0; i < kGuard; ++i) {
    if (whole[kGuard + bytes_ + i] != kGuardByte) {
      return fmt::format("wrote {} bytes past the end of the buffer of {}", i + 1, name);
    }
    if (whole[kGuard - 1 - i] != kGuardByte) return fmt::format("wrote {} bytes before the buffer of {}", i + 1, name);
  }
  return {};
}

uint64_t GuardedBuffer::checksum() const {
  const uint8_t* const data = begin();
  uint64_t sum = 0, word = 0;
  int64_t i = 0;
  for (; i + 8 <= bytes_; i += 8) {
    std::memcpy(&word, data + i, 8);
    sum = (sum ^ word) * 0x100000001B3ull;
  }
  for (; i < bytes_; ++i) sum = (sum ^ data[i]) * 0x100000001B3ull;
  return sum;
}

}  // namespace tilewright
