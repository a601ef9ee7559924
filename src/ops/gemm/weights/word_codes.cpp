// SPDX-License-Identifier: MIT
#include "ops/gemm/weights/word_codes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <type_traits>

#include "device/cpu/run_on_units.hpp"
#include "dispatch/context_impl.hpp"
#include "gemm/cpu/gemm_cpu_blocking.hpp"

namespace tilewright {
namespace {

// Codes go through a square of bytes that stays in the first cache: each side walks along its own neighbours.
constexpr int64_t kSide = 64;
struct Square {
  int64_t k, n;  // first row and column
  int64_t rows, columns;
  std::array<std::array<uint8_t, kSide>, kSide> codes;  // [k][n]
};

uint32_t load_word(const char* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// A row whose codes stand at one place of neighbouring words.
template <class Stride>
void read_row(const char* words, Stride stride, int shift, unsigned mask, int64_t columns, uint8_t* codes) {
  for (int64_t j = 0; j < columns; ++j) codes[j] = static_cast<uint8_t>(load_word(words + j * stride) >> shift & mask);
}

void codes_of_words(const CodeCopy& copy, Square& square) {
  const WordCodes& words = copy.words;
  const unsigned mask = (1U << words.bits) - 1;
  std::array<int, 8> shifts{};
  for (int at = 0; at < words.per_word(); ++at) shifts[at] = words.shift(at);
  for (int64_t i = 0; i < square.rows; ++i) {
    const int64_t row = copy.order != nullptr ? copy.order[square.k + i] : square.k + i;
    uint8_t* codes = square.codes[i].data();
    const char* from = words.word(row, square.n);
    if (words.along_k && words.stride_n == sizeof(uint32_t)) {
      read_row(from, std::integral_constant<int64_t, sizeof(uint32_t)>(), words.shift(row), mask, square.columns,
               codes);
    } else if (words.along_k) {
      read_row(from, words.stride_n, words.shift(row), mask, square.columns, codes);
    } else {
      for (int64_t j = 0; j < square.columns; j += words.per_word(), from += words.stride_n) {
        const uint32_t word = load_word(from);
        for (int at = 0; at < words.per_word(); ++at) codes[j + at] = static_cast<uint8_t>(word >> shifts[at] & mask);
      }
    }
  }
}

// Whole words: their codes' dimension is a multiple of what a word holds, and so is a square's first row and column.
void words_of_codes(CodeCopy copy, const Square& square) {
  const int64_t step_k = copy.words.along_k ? copy.words.per_word() : 1;
  const int64_t step_n = copy.words.along_k ? 1 : copy.words.per_word();
  for (int64_t i = 0; i < square.rows; i += step_k) {
    for (int64_t j = 0; j < square.columns; j += step_n) {
      uint32_t word = 0;
      for (int64_t at = 0; at < copy.words.per_word(); ++at) {
        const uint32_t code = step_k > 1 ? square.codes[i + at][j] : square.codes[i][j + at];
        word |= code << copy.words.shift(at);
      }
      std::memcpy(copy.words.word(square.k + i, square.n + j), &word, sizeof(word));
    }
  }
}

// Two codes a byte, the even one low. An odd number of neighbours leaves the last byte's high half as it is.
void write_nibbles(const PlainCodes& plain, const Square& square, bool along_k) {
  const int64_t lines = along_k ? square.columns : square.rows, length = along_k ? square.rows : square.columns;
  const auto code = [&](int64_t line, int64_t at) {
    return (along_k ? square.codes[at][line] : square.codes[line][at]) ^ plain.flip;
  };
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t first =
        square.k * plain.stride_k + square.n * plain.stride_n + line * (along_k ? plain.stride_n : plain.stride_k);
    auto* to = reinterpret_cast<uint8_t*>(plain.data) + first / 2;
    for (int64_t at = 0; at + 1 < length; at += 2) {
      *to++ = static_cast<uint8_t>(code(line, at) | code(line, at + 1) << 4);
    }
    if (length % 2 != 0) *to = static_cast<uint8_t>((*to & 0xF0U) | code(line, length - 1));
  }
}

void read_nibbles(const PlainCodes& plain, Square& square) {
  const auto* data = reinterpret_cast<const uint8_t*>(plain.data);
  for (int64_t i = 0; i < square.rows; ++i) {
    for (int64_t j = 0; j < square.columns; ++j) {
      const int64_t at = (square.k + i) * plain.stride_k + (square.n + j) * plain.stride_n;
      square.codes[i][j] = static_cast<uint8_t>((data[at >> 1] >> (at % 2 * 4) & 15U) ^ plain.flip);
    }
  }
}

void write_bytes(const PlainCodes& plain, const Square& square) {
  for (int64_t i = 0; i < square.rows; ++i) {
    for (int64_t j = 0; j < square.columns; ++j) {
      plain.data[(square.k + i) * plain.stride_k + (square.n + j) * plain.stride_n] =
          static_cast<char>(square.codes[i][j] ^ plain.flip);
    }
  }
}

void read_bytes(const PlainCodes& plain, Square& square) {
  for (int64_t i = 0; i < square.rows; ++i) {
    for (int64_t j = 0; j < square.columns; ++j) {
      const char byte = plain.data[(square.k + i) * plain.stride_k + (square.n + j) * plain.stride_n];
      square.codes[i][j] = static_cast<uint8_t>(static_cast<uint8_t>(byte) ^ plain.flip);
    }
  }
}

void import_square(const CodeCopy& copy, Square& square) {
  codes_of_words(copy, square);
  if (copy.words.bits == 8) return write_bytes(copy.plain, square);
  write_nibbles(copy.plain, square, copy.plain.stride_k == 1);
}

void export_square(const CodeCopy& copy, Square& square) {
  copy.words.bits == 8 ? read_bytes(copy.plain, square) : read_nibbles(copy.plain, square);
  words_of_codes(copy, square);
}

// A unit's share of the columns, all of K: no byte and no word has two writers.
template <void (*kSquare)(const CodeCopy&, Square&)>
void copy_share(const void* data, uint32_t unit, uint32_t units) {
  const CodeCopy& copy = *static_cast<const CodeCopy*>(data);
  const int64_t squares = (copy.n + kSide - 1) / kSide;
  const int64_t end = blocking::share_begin(squares, units, unit + int64_t{1});
  Square square;
  for (int64_t i = blocking::share_begin(squares, units, unit); i < end; ++i) {
    square.n = i * kSide;
    square.columns = std::min(kSide, copy.n - square.n);
    for (square.k = 0; square.k < copy.k; square.k += kSide) {
      square.rows = std::min(kSide, copy.k - square.k);
      kSquare(copy, square);
    }
  }
}

}  // namespace

unsigned load_code(const WordCodes& words, int64_t k, int64_t n) {
  return load_word(words.word(k, n)) >> words.shift(words.along_k ? k : n) & ((1U << words.bits) - 1);
}

Status import_codes(Context& context, const CodeCopy& copy) {
  return run_on_units(*context.impl().cpu().device, "import_weights", &copy_share<import_square>,
                      std::as_bytes(std::span(&copy, 1)));
}

Status export_codes(Context& context, const CodeCopy& copy) {
  return run_on_units(*context.impl().cpu().device, "export_weights", &copy_share<export_square>,
                      std::as_bytes(std::span(&copy, 1)));
}

}  // namespace tilewright
