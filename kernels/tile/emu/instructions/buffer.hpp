// SPDX-License-Identifier: MIT
// Raw buffer loads and stores: what lies past the end of the buffer reads as zero and is not written. Sources: AMD CDNA3
// ISA reference, "Buffer Addressing" and "Range Checking" (each dword of a wide access is checked); RDNA3 ISA reference, the
// same sections (a raw buffer's access is out of range as a whole).
#pragma once

#include "tile/emu/runtime.hpp"

namespace tilewright::emu {

struct BufferResource {
  unsigned char* base;
  uint64_t records;  // bytes of a raw buffer
};

using Words2 = unsigned __attribute__((vector_size(8)));
using Words4 = unsigned __attribute__((vector_size(16)));

// How much of an access at `offset` a target checks at once.
inline constexpr uint32_t range_check_bytes(uint32_t bytes) {
#if defined(__GFX9__)
  return bytes < 4 ? bytes : 4;
#else
  return bytes;
#endif
}

TILEWRIGHT_EMU_PLAIN static inline bool in_range(const BufferResource& buffer, uint64_t offset, uint32_t bytes) {
  return offset + bytes <= buffer.records;
}

template <class Value>
TILEWRIGHT_EMU_PLAIN static inline Value buffer_load(const BufferResource& buffer, uint32_t offset,
                                                     uint32_t scalar_offset, const void* site) {
  constexpr uint32_t kPart = range_check_bytes(sizeof(Value));
  union {
    unsigned char bytes[sizeof(Value)];
    Value value;
  } result = {};
  const uint64_t at = uint64_t{offset} + scalar_offset;
  LaneState* lane = this_lane();
  uint32_t inside = 0;
  while (inside < sizeof(Value) && in_range(buffer, at + inside, kPart)) inside += kPart;
  if (inside == 0) return result.value;
  const unsigned char* from = buffer.base + at;
  lane->engine->access(lane, from, inside, kRead, site);
  for (uint32_t i = 0; i < inside; ++i) result.bytes[i] = from[i];
  return result.value;
}

template <class Value>
TILEWRIGHT_EMU_PLAIN static inline void buffer_store(Value value, const BufferResource& buffer, uint32_t offset,
                                                     uint32_t scalar_offset, const void* site) {
  constexpr uint32_t kPart = range_check_bytes(sizeof(Value));
  union {
    Value value;
    unsigned char bytes[sizeof(Value)];
  } data = {value};
  const uint64_t at = uint64_t{offset} + scalar_offset;
  LaneState* lane = this_lane();
  uint32_t inside = 0;
  while (inside < sizeof(Value) && in_range(buffer, at + inside, kPart)) inside += kPart;
  if (inside == 0) return;
  unsigned char* to = buffer.base + at;
  lane->engine->access(lane, to, inside, kWrite, site);
  for (uint32_t i = 0; i < inside; ++i) to[i] = data.bytes[i];
}

}  // namespace tilewright::emu

using __amdgpu_buffer_rsrc_t = tilewright::emu::BufferResource;

TILEWRIGHT_EMU_PLAIN static inline __amdgpu_buffer_rsrc_t __builtin_amdgcn_make_buffer_rsrc(void* base, short,
                                                                                            unsigned records, int) {
  return {static_cast<unsigned char*>(base), records};
}

#define TILEWRIGHT_EMU_BUFFER(bits, Value)                                                                             \
  TILEWRIGHT_EMU_INSTRUCTION Value __builtin_amdgcn_raw_buffer_load_b##bits(__amdgpu_buffer_rsrc_t buffer, int offset, \
                                                                            int scalar_offset, int) {                  \
    return tilewright::emu::buffer_load<Value>(buffer, static_cast<uint32_t>(offset),                                  \
                                               static_cast<uint32_t>(scalar_offset), TILEWRIGHT_EMU_SITE);             \
  }                                                                                                                    \
  TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_raw_buffer_store_b##bits(                                           \
      Value value, __amdgpu_buffer_rsrc_t buffer, int offset, int scalar_offset, int) {                                \
    tilewright::emu::buffer_store<Value>(value, buffer, static_cast<uint32_t>(offset),                                 \
                                         static_cast<uint32_t>(scalar_offset), TILEWRIGHT_EMU_SITE);                   \
  }
TILEWRIGHT_EMU_BUFFER(8, unsigned char)
TILEWRIGHT_EMU_BUFFER(16, unsigned short)
TILEWRIGHT_EMU_BUFFER(32, unsigned)
TILEWRIGHT_EMU_BUFFER(64, tilewright::emu::Words2)
TILEWRIGHT_EMU_BUFFER(128, tilewright::emu::Words4)
#undef TILEWRIGHT_EMU_BUFFER
