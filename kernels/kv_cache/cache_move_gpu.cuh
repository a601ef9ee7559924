// SPDX-License-Identifier: MIT
// cache_move_gpu: rows of a paged cache to where they go, in pieces that all threads share: of 16 bytes as they are, or of 8 codes that
// become floats; or element by element, typed at run time. One source for NVIDIA and AMD.
#pragma once

#include "kv_cache/cache_move_args.hpp"
#include "tile/gpu/row_input.cuh"

namespace tilewright {

// The kernel's arguments, which on AMD GPUs need not stay in scalar registers.
__device__ __forceinline__ const CacheMoveArgs& anew(const CacheMoveArgs& args) {
#if defined(__AMDGCN__)
  return read_again(args);
#else
  return args;
#endif
}

__device__ __forceinline__ float widen_code(DType dtype, unsigned code) {
  switch (dtype) {
    case DType::kF8E4M3: return e4m3::Format::widen(code);
    case DType::kF8E5M2: return e5m2::Format::widen(code);
    case DType::kF8E4M3Fnuz: return e4m3fnuz::Format::widen(code);
    case DType::kF8E5M2Fnuz: return e5m2fnuz::Format::widen(code);
    default: return static_cast<float>(static_cast<signed char>(code));
  }
}
__device__ __forceinline__ float move_scale(const CacheMoveArgs& args, const CacheMove& move) {
  return static_cast<const float*>(args.scale.data)[paged_scale(args.scale, move.from, move.head)];
}

// A piece on its way: 16 bytes, or 8 codes.
template <CacheMoveGpuConfig kConfig>
struct MovedPiece {
  static constexpr bool kWidens = kConfig.x != DType::kNone;
  Vector4<unsigned> words;
  float scale;
  char* to;  // null = nowhere

  __device__ __forceinline__ void ask(const CacheMoveArgs& given, long long row, long long d) {
    const CacheMove move = cache_move(anew(given), row);
    to = nullptr;
    if (!move.from.known || !move.to.known) return;
    const int bytes = kWidens ? 1 : dtype_bits(anew(given).in) / 8;
    const auto element = static_cast<int>(d);
    const PagedTensor& source = anew(given).from;
    const long long at = paged_head(source, move.from, move.head) + paged_element(source, element);
    const char* const from = static_cast<const char*>(source.data) + at * bytes;
    if constexpr (kWidens) {
      words.x = reinterpret_cast<const unsigned*>(from)[0], words.y = reinterpret_cast<const unsigned*>(from)[1];
      scale = move_scale(anew(given), move);
    } else {
      words = load_vector4(reinterpret_cast<const unsigned*>(from));
    }
    const PagedTensor& target = anew(given).to;
    const long long there = paged_head(target, move.to, move.head) + paged_element(target, element);
    to = static_cast<char*>(target.data) + there * (kWidens ? dtype_bits(kConfig.out) / 8 : bytes);
  }
  __device__ __forceinline__ void store() const {
    if (to == nullptr) return;
    if constexpr (kWidens) {
      Piece p;
      for_elements([&](int i) {
        const unsigned code = (i < 4 ? words.x : words.y) >> (8 * (i % 4)) & 255;
        p.v[i] = __fmul_rn(widen_code(kConfig.x, code), scale);
      });
      store_piece<kConfig.out, true>(to, kConfig.out, 0, kRowPiece, p);
    } else {
      store_vector4(reinterpret_cast<unsigned*>(to), words);
    }
  }
};

template <CacheMoveGpuConfig kConfig>
__device__ __forceinline__ void move_pieces(const CacheMoveArgs& given) {
  constexpr int kSpan = kRowBlockThreads * kCacheMoveEach;
  const int elements = kConfig.x != DType::kNone ? kRowPiece : 128 / dtype_bits(given.in);
  const long long pieces = given.n / elements, all = given.rows * pieces;
#pragma unroll 1
  for (long long begin = static_cast<long long>(blockIdx.x) * kSpan; begin < all; begin += anew(given).grid * kSpan) {
    MovedPiece<kConfig> piece[kCacheMoveEach];
#pragma unroll
    for (int i = 0; i < kCacheMoveEach; ++i) {
      const long long at = begin + i * kRowBlockThreads + threadIdx.x;
      const Quotient place = divided_by(at < all ? at : begin, pieces);
      piece[i].ask(given, place.whole, place.rest * elements);
      if (at >= all) piece[i].to = nullptr;
    }
#pragma unroll
    for (int i = 0; i < kCacheMoveEach; ++i) piece[i].store();
  }
}

// Any types and layouts.
__device__ __forceinline__ void move_elements(const CacheMoveArgs& given) {
  const long long all = given.rows * given.n;
#pragma unroll 1
  for (long long at = static_cast<long long>(blockIdx.x) * kRowBlockThreads + threadIdx.x; at < all;
       at += anew(given).grid * kRowBlockThreads) {
    const Quotient place = divided_by(at, anew(given).n);
    const CacheMove move = cache_move(anew(given), place.whole);
    if (!move.from.known || !move.to.known) continue;
    const auto d = static_cast<int>(place.rest);
    const PagedTensor& source = anew(given).from;
    const DType in = anew(given).in, out = anew(given).out;
    const int bytes = dtype_bits(in) / 8;
    const char* const from = static_cast<const char*>(source.data) +
                             (paged_head(source, move.from, move.head) + paged_element(source, d)) * bytes;
    const PagedTensor& target = anew(given).to;
    char* const to = static_cast<char*>(target.data) +
                     (paged_head(target, move.to, move.head) + paged_element(target, d)) * (dtype_bits(out) / 8);
    if (in != out) {
      const float x =
          __fmul_rn(widen_code(in, *reinterpret_cast<const unsigned char*>(from)), move_scale(anew(given), move));
      if (out == DType::kF32) {
        *reinterpret_cast<float*>(to) = x;
      } else {
        *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(narrow_16(out == DType::kBf16, x));
      }
    } else if (bytes == 4) {
      *reinterpret_cast<unsigned*>(to) = *reinterpret_cast<const unsigned*>(from);
    } else if (bytes == 2) {
      *reinterpret_cast<unsigned short*>(to) = *reinterpret_cast<const unsigned short*>(from);
    } else {
      *to = *from;
    }
  }
}

template <CacheMoveGpuConfig kConfig>
__device__ __forceinline__ void cache_move_gpu(const CacheMoveArgs& args) {
  if constexpr (kConfig.whole) {
    move_pieces<kConfig>(args);
  } else {
    move_elements(args);
  }
}

}  // namespace tilewright
