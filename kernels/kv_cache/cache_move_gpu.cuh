// SPDX-License-Identifier: MIT
// cache_move_gpu: rows of a paged cache to where they go, in pieces that a block's threads share: of 16 bytes as they are, or of 8 codes that
// become floats; or element by element, typed at run time. One source for NVIDIA and AMD.
#pragma once

#include "kv_cache/cache_move_args.hpp"
#include "tile/gpu/row_codes.cuh"

namespace tilewright {

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

// A row of a block's pieces: where it comes from and goes to, found once for all of them. Null = nowhere.
struct MovedRow {
  const char* from;
  char* to;
  float scale;
};
static_assert(sizeof(MovedRow) * kCacheMoveSpan == kCacheMoveSharedBytes);
template <CacheMoveGpuConfig kConfig>
__device__ __forceinline__ MovedRow find_row(const CacheMoveArgs& given, long long row) {
  const CacheMove move = cache_move(given, row);
  if (!move.from.known || !move.to.known) return {nullptr, nullptr, 0};
  const auto start = [&move](const PagedTensor& t, const CachePlace& at, DType dtype) {
    return static_cast<char*>(t.data) + paged_head(t, at, move.head) * (dtype_bits(dtype) / 8);
  };
  return {start(anew(given).from, move.from, anew(given).in), start(anew(given).to, move.to, anew(given).out),
          kConfig.x != DType::kNone ? move_scale(anew(given), move) : 0};
}

// A piece on its way: 16 bytes, or 8 codes.
template <CacheMoveGpuConfig kConfig>
struct MovedPiece {
  static constexpr bool kWidens = kConfig.x != DType::kNone;
  Vector4<unsigned> words;
  float scale;
  char* to;

  // Of elements from `d` on.
  __device__ __forceinline__ void ask(const CacheMoveArgs& given, const MovedRow& row, int d) {
    to = row.to;
    if (to == nullptr) return;
    const int bytes = kWidens ? 1 : dtype_bits(anew(given).in) / 8;
    const char* const from = row.from + paged_element(anew(given).from, d) * bytes;
    if constexpr (kWidens) {
      words.x = reinterpret_cast<const unsigned*>(from)[0], words.y = reinterpret_cast<const unsigned*>(from)[1];
      scale = row.scale;
    } else {
      words = load_vector4(reinterpret_cast<const unsigned*>(from));
    }
    to += paged_element(anew(given).to, d) * (kWidens ? dtype_bits(kConfig.out) / 8 : bytes);
  }
  __device__ __forceinline__ void store() const {
    if (to == nullptr) return;
    if constexpr (kWidens) {
      Piece p;
      widen_codes(kConfig.x, {{words.x, words.y}}, p);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], scale); });
      store_piece<kConfig.out, true>(to, kConfig.out, 0, kRowPiece, p);
    } else {
      store_vector4(reinterpret_cast<unsigned*>(to), words);
    }
  }
};

template <CacheMoveGpuConfig kConfig>
__device__ __forceinline__ void move_pieces(const CacheMoveArgs& given) {
  const int elements = kConfig.x != DType::kNone ? kRowPiece : 128 / dtype_bits(given.in);
  const long long pieces = given.pieces.by, all = given.n == 0 ? 0 : given.rows * pieces;
  auto* const rows = reinterpret_cast<MovedRow*>(dynamic_shared());
#pragma unroll 1
  for (long long begin = static_cast<long long>(blockIdx.x) * kCacheMoveSpan; begin < all;
       begin += anew(given).grid * kCacheMoveSpan) {
    // The rows of these pieces.
    const Quotient first = divided_by(begin, pieces);
    const auto before = static_cast<unsigned>(first.rest);
    const unsigned left = all - begin < kCacheMoveSpan ? static_cast<unsigned>(all - begin) : kCacheMoveSpan;
    const unsigned count = divided(before + left - 1, anew(given).pieces) + 1;
#pragma unroll 1
    for (unsigned r = threadIdx.x; r < count; r += kRowBlockThreads) {
      rows[r] = find_row<kConfig>(anew(given), first.whole + r);
    }
    __syncthreads();

    // The pieces: all of a thread's are asked for before the first is written.
    MovedPiece<kConfig> piece[kCacheMoveEach];
#pragma unroll
    for (int i = 0; i < kCacheMoveEach; ++i) {
      const unsigned mine = i * kRowBlockThreads + threadIdx.x, at = before + (mine < left ? mine : 0);
      const unsigned row = divided(at, anew(given).pieces);
      piece[i].ask(given, rows[row], static_cast<int>(at - row * anew(given).pieces.by) * elements);
      if (mine >= left) piece[i].to = nullptr;
    }
#pragma unroll
    for (int i = 0; i < kCacheMoveEach; ++i) piece[i].store();
    __syncthreads();
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
