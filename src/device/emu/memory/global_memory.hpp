// SPDX-License-Identifier: MIT
// The buffers that emulated kernels may touch, which of their bytes hold something, and who wrote them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tilewright::emu {

// Changed by the host between launches only. Two workgroups may set marks of one buffer at a time.
class GlobalMemory {
 public:
  // What a byte holds: nothing; what was there before the launch, or atomics put there; what one workgroup wrote. Of two
  // workgroups 254 apart one passes for the other.
  using Mark = uint8_t;
  static constexpr Mark kNothing = 0, kShared = 1;
  static Mark mark_of(uint64_t workgroup) { return static_cast<Mark>(2 + workgroup % 254); }

  struct Buffer {
    uintptr_t begin = 0, end = 0;
    std::string name;
    std::unique_ptr<Mark[]> marks;  // one a byte
    mutable bool fresh = false;     // there are marks of a workgroup

    // False when another workgroup of the launch wrote one of the bytes and this one is no atomic (kShared).
    bool mark_written(uintptr_t address, size_t bytes, Mark mark) const;
    bool is_written(uintptr_t address, size_t bytes) const;
  };

  // `initialised`: by the host. Otherwise what a kernel reads must have been written by a kernel or set_initialised().
  void add(std::string name, const void* address, size_t bytes, bool initialised = true);
  void remove(const void* address);
  void set_initialised(const void* address, size_t bytes);
  // A launch begins: what others wrote was there before.
  void begin_launch() const;
  // Nothing of the buffer that begins here holds anything.
  void forget(const void* address);

  // The buffer with this byte, or null.
  const Buffer* find(uintptr_t address) const;
  // For messages: the nearest one.
  const Buffer* nearest(uintptr_t address) const;

 private:
  std::map<uintptr_t, Buffer> buffers_;  // by where they begin
};

}  // namespace tilewright::emu
