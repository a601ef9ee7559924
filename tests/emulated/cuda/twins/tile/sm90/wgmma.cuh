// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/wgmma.cuh: products of operands along K, made when they are waited for and not before. Each thread
// makes the sums that are its own.
#pragma once

#include <array>
#include <deque>
#include <type_traits>
#include <vector>

#include "tile/common/dtype.hpp"
#include "tile/common/major.hpp"
#include "tile/common/numeric.hpp"
#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

// Of a thread: products since the last group, and groups, oldest first.
struct ProductsUnderWay {
  std::vector<std::function<void()>> open;
  std::deque<std::vector<std::function<void()>>> groups;
};
inline std::array<ProductsUnderWay, emulated::kMostThreads> products_under_way;

inline void begin_products() {}
inline void commit_products() {
  ProductsUnderWay& mine = products_under_way[emulated::running_thread()];
  mine.groups.push_back(std::move(mine.open));
  mine.open.clear();
}
template <int kPending>
void wait_products() {
  auto& groups = products_under_way[emulated::running_thread()].groups;
  for (; groups.size() > static_cast<size_t>(kPending); groups.pop_front()) {
    for (const auto& product : groups.front()) product();
  }
}
template <class T, int kCount>
void pin(T (&)[kCount]) {}

template <Major kMajor>
unsigned long long descriptor(unsigned address, unsigned) {
  static_assert(kMajor == Major::kK, "the twin has operands along K");
  return 1ull << 62 | 1024ull >> 4 << 32 | (address & 0x3FFFF) >> 4;
}
template <Major kMajor>
constexpr unsigned long long kDescriptorStep = 2;

template <DType kType>
using OperandSum = std::conditional_t<kType == DType::kI8, int, float>;
template <DType kType>
OperandSum<kType> operand_value(unsigned bits) {
  if constexpr (kType == DType::kBf16) return widen(bf16{static_cast<unsigned short>(bits)});
  if constexpr (kType == DType::kF16) return widen(f16{static_cast<unsigned short>(bits)});
  if constexpr (kType == DType::kF8E4M3) return widen(e4m3{static_cast<unsigned char>(bits)});
  if constexpr (kType == DType::kF8E5M2) return widen(e5m2{static_cast<unsigned char>(bits)});
  if constexpr (kType == DType::kI8) return static_cast<signed char>(bits);
}
// A row of an operand in shared memory: 32 bytes.
template <DType kType, size_t kValues>
void read_operand_row(unsigned long long descriptor, unsigned row, OperandSum<kType> (&values)[kValues]) {
  constexpr unsigned kBytes = dtype_bits(kType) / 8;
  static_assert(kValues * kBytes == 32);
  const unsigned start = static_cast<unsigned>(descriptor & 0x3FFF) << 4;
  const unsigned at = start + row / 8 * 1024 + row % 8 * 128;
  for (unsigned k = 0; k < kValues; ++k) {
    unsigned short bits = 0;
    const std::byte* from = emulated::shared_at(swizzle_128(at + k * kBytes), kBytes);
    if (from != nullptr) std::memcpy(&bits, from, kBytes);
    values[k] = operand_value<kType>(bits);
  }
}

template <DType kA, DType kB, int kN>
struct WgmmaInstruction {
  static_assert(kA == kB && kN % 8 == 0 && kN <= 256);
  using Accumulator = OperandSum<kA>;
  static constexpr int kBytes = dtype_bits(kA) / 8, kK = 32 / kBytes;

  template <int, int>
  static void multiply(Accumulator (&d)[kN / 2], unsigned long long a, unsigned long long b, int accumulate) {
    Accumulator* const sums = d;
    products_under_way[emulated::running_thread()].open.push_back([=] { make(sums, a, b, accumulate); });
  }

 private:
  static void make(Accumulator* d, unsigned long long a, unsigned long long b, int accumulate) {
    const unsigned thread = threadIdx.x % 128, row = thread / 32 * 16 + thread % 32 / 4;
    Accumulator upper[kK], lower[kK], column[kK];
    read_operand_row<kA>(a, row, upper), read_operand_row<kA>(a, row + 8, lower);
    for (unsigned j = 0; j < kN / 8; ++j) {
      for (unsigned i = 0; i < 2; ++i) {
        read_operand_row<kA>(b, 8 * j + thread % 4 * 2 + i, column);
        Accumulator x{}, y{};
        for (unsigned k = 0; k < kK; ++k) x += upper[k] * column[k], y += lower[k] * column[k];
        d[4 * j + i] = accumulate != 0 ? d[4 * j + i] + x : x;
        d[4 * j + 2 + i] = accumulate != 0 ? d[4 * j + 2 + i] + y : y;
      }
    }
  }
};

}  // namespace tilewright::sm90
