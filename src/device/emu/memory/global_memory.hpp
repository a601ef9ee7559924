// SPDX-License-Identifier: MIT
// The buffers that emulated kernels may touch, and which of their bytes hold something.
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
  struct Buffer {
    uintptr_t begin = 0, end = 0;
    std::string name;
    std::unique_ptr<uint8_t[]> written;  // one mark a byte; null = all of it holds something

    void mark_written(uintptr_t address, size_t bytes) const;
    bool is_written(uintptr_t address, size_t bytes) const;
  };

  // `initialised`: by the host. Otherwise what a kernel reads must have been written by a kernel or set_initialised().
  void add(std::string name, const void* address, size_t bytes, bool initialised = true);
  void remove(const void* address);
  void set_initialised(const void* address, size_t bytes);
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
