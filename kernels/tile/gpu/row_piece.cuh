// SPDX-License-Identifier: MIT
// Pieces of a row on GPUs, 8 elements of a thread: loads and stores with conversion, all at once where they lie together, else one by one.
// One source for NVIDIA and AMD.
#pragma once

#include "tile/common/row_args.hpp"
#include "tile/gpu/block.hpp"
#include "tile/gpu/convert.hpp"
#include "tile/gpu/lane_exchange.hpp"
#include "tile/gpu/vector4.hpp"

namespace tilewright {

struct Piece {
  float v[kRowPiece];
};

// Whether one access takes the piece, of so many bytes at most 16. kWhole: every piece that there is.
template <bool kWhole>
__device__ __forceinline__ bool at_once(const void* p, int count, unsigned bytes = 16) {
  if constexpr (kWhole) return count > 0;
  return count == kRowPiece && (reinterpret_cast<unsigned long long>(p) & (bytes - 1)) == 0;
}

#if !defined(__AMDGCN__)
__device__ __forceinline__ int anew(int x) { return x; }
#endif
// A kernel's arguments, which on AMD GPUs need not stay in scalar registers.
template <class Args>
  requires(__is_class(Args))
__device__ __forceinline__ const Args& anew(const Args& args) {
#if defined(__AMDGCN__)
  return read_again(args);
#else
  return args;
#endif
}

// body(element i), with constants as i.
template <class Body>
__device__ __forceinline__ void for_elements(Body&& body) {
#pragma unroll
  for (int i = 0; i < kRowPiece; ++i) body(i);
}

// `count` elements of a float type, zeros behind them; all 8 in loads of 16 bytes where `from` is aligned. Singly, what is not there
// is read from the last one that is: a mask a load would take many registers.
template <class Element, class Widen>
__device__ __forceinline__ void load_singly(const Element* from, int given, Piece& to, Widen&& widen_one) {
  for_elements([&](int i) { to.v[i] = 0; });
  const int count = anew(given);
  if (count == 0) return;
  for_elements([&](int i) {
    const float value = widen_one(from[i < count ? i : count - 1]);
    to.v[i] = i < count ? value : 0;
  });
}
template <bool kWhole>
__device__ __forceinline__ void load_f32(const char* from, int count, Piece& to) {
  if (at_once<kWhole>(from, count)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Vector4<float> four = load_vector4(reinterpret_cast<const float*>(from) + 4 * i);
      to.v[4 * i] = four.x, to.v[4 * i + 1] = four.y, to.v[4 * i + 2] = four.z, to.v[4 * i + 3] = four.w;
    }
    return;
  }
  if constexpr (kWhole) return for_elements([&](int i) { to.v[i] = 0; });
  load_singly(reinterpret_cast<const float*>(from), count, to, [](float x) { return x; });
}
__device__ __forceinline__ float widen_16(bool is_bf16, unsigned bits) {
  return is_bf16 ? widen_bf16(bits) : widen_f16(bits);
}
__device__ __forceinline__ void widen_words_16(bool is_bf16, const Vector4<unsigned>& words, Piece& to) {
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to.v[2 * i] = widen_16(is_bf16, word[i] & 0xFFFFu);
    to.v[2 * i + 1] = widen_16(is_bf16, word[i] >> 16);
  }
}
template <bool kWhole>
__device__ __forceinline__ void load_16(bool is_bf16, const char* from, int count, Piece& to) {
  if (at_once<kWhole>(from, count)) {
    return widen_words_16(is_bf16, load_vector4(reinterpret_cast<const unsigned*>(from)), to);
  }
  if constexpr (kWhole) return for_elements([&](int i) { to.v[i] = 0; });
  load_singly(reinterpret_cast<const unsigned short*>(from), count, to,
              [&](unsigned short bits) { return widen_16(is_bf16, bits); });
}
// kNone: `dtype` tells the type.
template <DType kType, bool kWhole = false>
__device__ __forceinline__ void load_piece(const char* row, DType dtype, long long n, int count, Piece& to) {
  const DType type = kType == DType::kNone ? dtype : kType;
  if (type == DType::kF32) return load_f32<kWhole>(row + n * 4, count, to);
  load_16<kWhole>(type == DType::kBf16, row + n * 2, count, to);
}

__device__ __forceinline__ unsigned short narrow_16(bool is_bf16, float x) {
  return is_bf16 ? narrow_bf16(x) : narrow_f16(x);
}
template <bool kWhole>
__device__ __forceinline__ void store_16(bool is_bf16, char* to, int count, const Piece& from) {
  if (at_once<kWhole>(to, count)) {
    unsigned word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      word[i] = is_bf16 ? pack_bf16(from.v[2 * i], from.v[2 * i + 1]) : pack_f16(from.v[2 * i], from.v[2 * i + 1]);
    }
    return store_vector4(reinterpret_cast<unsigned*>(to), Vector4<unsigned>{word[0], word[1], word[2], word[3]});
  }
  if constexpr (kWhole) return;
  const int there = anew(count);
  for_elements([&](int i) {
    if (i < there) reinterpret_cast<unsigned short*>(to)[i] = narrow_16(is_bf16, from.v[i]);
  });
}
template <bool kWhole>
__device__ __forceinline__ void store_f32(char* to, int count, const Piece& from) {
  if (at_once<kWhole>(to, count)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      store_vector4(reinterpret_cast<float*>(to) + 4 * i,
                    Vector4<float>{from.v[4 * i], from.v[4 * i + 1], from.v[4 * i + 2], from.v[4 * i + 3]});
    }
    return;
  }
  if constexpr (kWhole) return;
  const int there = anew(count);
  for_elements([&](int i) {
    if (i < there) reinterpret_cast<float*>(to)[i] = from.v[i];
  });
}
template <DType kType, bool kWhole = false>
__device__ __forceinline__ void store_piece(char* row, DType dtype, long long n, int count, const Piece& from) {
  const DType type = kType == DType::kNone ? dtype : kType;
  if (type == DType::kF32) return store_f32<kWhole>(row + n * 4, count, from);
  store_16<kWhole>(type == DType::kBf16, row + n * 2, count, from);
}
// The same by all lanes of a warp, of which neighbours have neighbouring pieces. Two stores of half a piece would each leave half of a
// sector of 32 bytes, which costs as much as all of it; so lanes of a pair swap halves and write whole sectors.
template <DType kType, bool kWhole, bool kAll = false>
__device__ __forceinline__ void store_together(char* row, DType dtype, long long n, int count, const Piece& from) {
#if !defined(__AMDGCN__)
  if constexpr (kType == DType::kF32 && kWhole) {
    const bool odd = (threadIdx.x & 1) != 0;
    float keeps[4], gets[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      keeps[i] = odd ? from.v[4 + i] : from.v[i];
      gets[i] = lane_xor(odd ? from.v[i] : from.v[4 + i], 1);
    }
    const bool mine = kAll || count > 0, other = kAll || lane_xor(mine ? 1.0f : 0.0f, 1) != 0;
    // The even lane's piece, of which it has the first half, and the odd one's.
    const auto half = [&](int i) { return odd ? gets[i] : keeps[i]; };
    const auto other_half = [&](int i) { return odd ? keeps[i] : gets[i]; };
    auto* const to = reinterpret_cast<float*>(row) + n - (odd ? 4 : 0);
    if (odd ? other : mine) store_vector4(to, Vector4<float>{half(0), half(1), half(2), half(3)});
    if (odd ? mine : other)
      store_vector4(to + 8, Vector4<float>{other_half(0), other_half(1), other_half(2), other_half(3)});
    return;
  }
#endif
  store_piece<kType, kWhole>(row, dtype, n, count, from);
}
// What storing and loading again would give.
template <DType kType>
__device__ __forceinline__ void round_piece(DType dtype, Piece& p) {
  const DType type = kType == DType::kNone ? dtype : kType;
  for_elements([&](int i) {
    if (type == DType::kBf16) p.v[i] = widen_bf16(narrow_bf16(p.v[i]));
    if (type == DType::kF16) p.v[i] = widen_f16(narrow_f16(p.v[i]));
  });
}

}  // namespace tilewright
