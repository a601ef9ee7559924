// SPDX-License-Identifier: MIT
// Reads from LDS that transpose: each sixteen lanes read rows of a matrix and get its columns. Sources: AMD CDNA4 ISA
// reference, DS_READ_B64_TR_B16, _TR_B8, _TR_B4 and DS_READ_B96_TR_B6 (all lanes on; addresses are multiples of the size,
// of 6 bits of 16 bytes); which lane has what as triton-lang/triton has it (LinearLayoutConversions.cpp,
// chooseLLDsReadB64TrLayout), whose tests run on the hardware.
#pragma once

#include "tile/emu/runtime.hpp"

#if defined(__gfx950__)
namespace tilewright::emu {

using TransposedWords2 = int __attribute__((vector_size(8)));
using TransposedHalves4 = short __attribute__((vector_size(8)));
struct TransposedWords3 {  // g++ has no vector of three
  int words[3];
  int operator[](int i) const { return words[i]; }
};

struct TransposedRead {
  uint64_t low, high;       // what this lane read: 64 bits, or 96
  uint64_t result[2] = {};  // what it gets
  const void* site;
};

// Element `i` of what a lane read, at most 16 bits. The one of 6 bits that lies across both words is put together.
template <uint32_t kBits>
TILEWRIGHT_EMU_PLAIN static inline uint64_t element(const TransposedRead& read, uint32_t i) {
  const uint32_t at = i * kBits;
  const uint64_t bits =
      at >= 64 ? read.high >> (at - 64) : read.low >> at | (at + kBits > 64 ? read.high << (64 - at) : uint64_t{0});
  return bits & ((uint64_t{1} << kBits) - 1);
}

// Of sixteen lanes: 64 (96) bits of a lane are kElements neighbours of a row of sixteen, lanes in the order of the matrix.
// Lane j gets column j, the first kElements rows.
template <uint32_t kBits>
TILEWRIGHT_EMU_PLAIN static inline void transpose(WaveView* view) {
  constexpr uint32_t kElements = kBits == 6 ? 16 : 64 / kBits, kLanesOfRow = 16 / kElements;
  const TransposedRead& first = operands_of<TransposedRead>(view, first_active(view));
  if (!require_whole_wave(view, "transposed read of LDS with lanes switched off", first.site)) return;
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    TransposedRead& mine = operands_of<TransposedRead>(view, lane);
    const uint32_t column = lane % 16;
    for (uint32_t row = 0; row < kElements; ++row) {
      const uint32_t from = lane / 16 * 16 + row * kLanesOfRow + column / kElements;
      const uint64_t value = element<kBits>(operands_of<TransposedRead>(view, from), column % kElements);
      const uint32_t at = row * kBits;
      mine.result[at / 64] |= value << at % 64;
      if (at % 64 + kBits > 64) mine.result[at / 64 + 1] |= value >> (64 - at % 64);
    }
  }
}

template <uint32_t kBits>
TILEWRIGHT_EMU_PLAIN static inline TransposedRead read_transposed(const void* lds, const void* site) {
  constexpr uint32_t kReadBytes = kBits == 6 ? 12 : 8, kAlignment = kBits == 6 ? 16 : 8;
  LaneState* lane = this_lane();
  if (reinterpret_cast<uintptr_t>(lds) % kAlignment != 0) {
    lane->engine->misaligned(lane, lds, kAlignment, __FILE__, __LINE__, site);
  }
  lane->engine->access(lane, lds, kReadBytes, kRead, site);
  TransposedRead read{0, 0, {}, site};
  __builtin_memcpy(&read.low, lds, 8);
  if constexpr (kBits == 6) __builtin_memcpy(&read.high, static_cast<const char*>(lds) + 8, 4);
  meet(read, transpose<kBits>, site);
  return read;
}

template <class Result>
TILEWRIGHT_EMU_PLAIN static inline Result result_of(const TransposedRead& read) {
  Result result;
  __builtin_memcpy(&result, read.result, sizeof(Result));
  return result;
}

}  // namespace tilewright::emu

#define TILEWRIGHT_EMU_TRANSPOSED(name, bits, Result)                                                   \
  TILEWRIGHT_EMU_INSTRUCTION tilewright::emu::Result __builtin_amdgcn_ds_read_##name(const void* lds) { \
    return tilewright::emu::result_of<tilewright::emu::Result>(                                         \
        tilewright::emu::read_transposed<bits>(lds, TILEWRIGHT_EMU_SITE));                              \
  }
TILEWRIGHT_EMU_TRANSPOSED(tr4_b64_v2i32, 4, TransposedWords2)
TILEWRIGHT_EMU_TRANSPOSED(tr6_b96_v3i32, 6, TransposedWords3)
TILEWRIGHT_EMU_TRANSPOSED(tr8_b64_v2i32, 8, TransposedWords2)
TILEWRIGHT_EMU_TRANSPOSED(tr16_b64_v4i16, 16, TransposedHalves4)
#undef TILEWRIGHT_EMU_TRANSPOSED
#endif
