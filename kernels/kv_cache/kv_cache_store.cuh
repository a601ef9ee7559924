// SPDX-License-Identifier: MIT
// Heads into a paged cache on GPUs: pieces in one store where these lie together, else element by element.
#pragma once

#include "kv_cache/kv_cache_args.hpp"
#include "tile/gpu/row_store.cuh"

namespace tilewright {

__device__ __forceinline__ float larger_of(float a, float b) { return at_least(a, b); }

template <DType kType>
struct PagedType {
  static constexpr DType value = kType;
};

// One element of any type.
__device__ __forceinline__ float load_one(const void* from, DType dtype, long long i) {
  if (dtype == DType::kF32) return static_cast<const float*>(from)[i];
  return widen_16(dtype == DType::kBf16, static_cast<const unsigned short*>(from)[i]);
}
__device__ __forceinline__ void store_one(void* to, DType dtype, long long i, float x) {
  unsigned code = 0;
  switch (dtype) {
    case DType::kF32: static_cast<float*>(to)[i] = x; return;
    case DType::kF16:
    case DType::kBf16: static_cast<unsigned short*>(to)[i] = narrow_16(dtype == DType::kBf16, x); return;
    case DType::kF8E4M3: code = narrow_many<e4m3::Format>(x); break;
    case DType::kF8E5M2: code = narrow_many<e5m2::Format>(x); break;
    case DType::kF8E4M3Fnuz: code = narrow_many<e4m3fnuz::Format>(x); break;
    case DType::kF8E5M2Fnuz: code = narrow_many<e5m2fnuz::Format>(x); break;
    default: code = narrow_i8(x); break;
  }
  static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(code);
}

// Elements d to d + 8 of a head that starts at `head`, of which d lies `at` elements behind. kPieces: always in one store.
template <DType kType, bool kPieces>
__device__ __forceinline__ void store_paged(const PagedTensor& t, char* head, int d, long long at, const Piece& from) {
  constexpr int kBytes = dtype_bits(kType) / 8;
  if (kPieces || t.pieces) return encode_piece<kType, true>(head + at * kBytes, kType, 0, kRowPiece, from);
  if constexpr (kPieces) {
    return;
  } else if constexpr (is_quantised(kType)) {
    unsigned word[2];
    narrow_codes(kType, from, word);
    for_elements([&](int i) { head[paged_element(t, d + i)] = static_cast<char>(word[i / 4] >> (8 * (i % 4))); });
  } else {
    for_elements([&](int i) { store_one(head, kType, paged_element(t, d + i), from.v[i]); });
  }
}

// The scale of a head of a token, found from its largest magnitude or given. One thread writes what is found.
__device__ __forceinline__ Divisor paged_divisor(const PagedScale& s, DType dtype, const CachePlace& at, int head,
                                                 float most, bool writes) {
  auto* const scale = static_cast<float*>(s.data) + paged_scale(s, at, head);
  if (s.mode != CacheScales::kToken) return divisor(*scale);
  const float found = scale_for(most, dtype);
  if (writes) *scale = found;
  return divisor(found);
}

}  // namespace tilewright
