// SPDX-License-Identifier: MIT
// The codes of integer weights in 32-bit words, as AWQ and GPTQ store them, to and from tensors of u4, i4 or i8. A code is
// the stored, unsigned value.
#pragma once

#include <cstdint>

#include "tilewright/stored_weights.hpp"

namespace tilewright {

// Where words lie and which code is which: K x N codes.
struct WordCodes {
  char* words;
  int64_t stride_k, stride_n;  // from word to word, in bytes
  int bits;                    // of a code: 4 or 8
  bool along_k;                // a word holds neighbours along K, not along N
  bool awq;                    // in AWQ's order

  constexpr int per_word() const { return 32 / bits; }
  // The lowest bit of code `index` of a word.
  constexpr int shift(int64_t index) const {
    const int at = static_cast<int>(index % per_word());
    return (awq ? at % 2 * 4 + at / 2 : at) * bits;
  }
  const char* word(int64_t k, int64_t n) const { return const_cast<WordCodes*>(this)->word(k, n); }
  char* word(int64_t k, int64_t n) {
    const int64_t row = along_k ? k / per_word() : k, column = along_k ? n : n / per_word();
    return words + row * stride_k + column * stride_n;
  }
};
unsigned load_code(const WordCodes& words, int64_t k, int64_t n);

// The other side. The tensor's bytes, for two codes each where `bits` is 4: neighbours along K or N.
struct PlainCodes {
  char* data;
  int64_t stride_k, stride_n;  // in elements
  unsigned flip;               // of a code: 0 for u4, 8 for i4, 128 for i8, which hold it less half of the range
};

// A CpuEntry's arguments.
struct CodeCopy {
  int64_t n, k;
  WordCodes words;
  PlainCodes plain;
  const int32_t* order;  // stored row of each row, or null
};

// Each code from words to the tensor, or back (without an order), on the units of the context.
Status import_codes(Context& context, const CodeCopy& copy);
Status export_codes(Context& context, const CodeCopy& copy);

}  // namespace tilewright
