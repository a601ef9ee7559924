// SPDX-License-Identifier: MIT
// Chunks of a row, as a block's threads have their elements. One source for NVIDIA and AMD.
#pragma once

#include "tile/common/quotient.hpp"
#include "tile/gpu/block_select.cuh"
#include "top_k/top_k_args.hpp"

namespace tilewright {

// An element of a row.
struct RowElement {
  float x;
  long long index;
  __device__ __forceinline__ float value() const { return top_k_value(x); }
  __device__ __forceinline__ TokenKey key() const { return top_k_key(x, index); }
  __device__ __forceinline__ unsigned long long mass() const { return 0; }
};

// One that is a number, or whose key nobody asks for.
struct RowNumber {
  float x;
  long long index;
  __device__ __forceinline__ float value() const { return x; }
  __device__ __forceinline__ TokenKey key() const { return token_key(x, index); }
  __device__ __forceinline__ unsigned long long mass() const { return 0; }
};

struct RowChunk {
  long long row, start;
  int count;  // of its elements; 0 behind the row's end

  __device__ __forceinline__ RowChunk(const TopKArgs& args, long long its_row, long long which)
      : row(its_row), start(which * kTopKChunk) {
    const long long left = top_k_length(args, row) - start;
    count = left < 0 ? 0 : left < kTopKChunk ? static_cast<int>(left) : kTopKChunk;
  }
};

__device__ __forceinline__ RowChunk chunk_of_item(const TopKArgs& args, long long item) {
  const Quotient of = divided_by(item, args.chunks);
  return {args, of.whole, of.rest};
}

// A thread has two pieces of a chunk; where the j-th begins.
__device__ __forceinline__ int piece_place(int j) {
  return (j * kSelectThreads + anew(static_cast<int>(threadIdx.x))) * kRowPiece;
}
// A row's piece that begins at `start`, of which so many elements are there; minus infinity stands behind them.
template <TopKGpuConfig kConfig>
__device__ __forceinline__ void load_row_piece(const TopKArgs& args, long long row, long long start, int here,
                                               Piece& p) {
  const int bits = kConfig.x == DType::kNone ? dtype_bits(args.dtype) : dtype_bits(kConfig.x);
  const char* const from = static_cast<const char*>(args.x) + row * args.stride * bits / 8;
  load_piece<kConfig.x>(from, args.dtype, start, here < 0 ? 0 : here < kRowPiece ? here : kRowPiece, p);
  if (here < kRowPiece) {
    for_elements([&](int i) { p.v[i] = i < here ? p.v[i] : kMinusInfinity; });
  }
}
template <TopKGpuConfig kConfig>
__device__ __forceinline__ float load_row_element(const TopKArgs& args, long long row, long long index) {
  const DType type = kConfig.x == DType::kNone ? args.dtype : kConfig.x;
  const long long at = row * args.stride + index;
  if (type == DType::kF32) return static_cast<const float*>(args.x)[at];
  return widen_16(type == DType::kBf16, static_cast<const unsigned short*>(args.x)[at]);
}
template <TopKGpuConfig kConfig>
__device__ __forceinline__ void load_chunk(const TopKArgs& args, const RowChunk& chunk, Piece (&p)[2]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    load_row_piece<kConfig>(args, chunk.row, chunk.start + piece_place(j), chunk.count - piece_place(j), p[j]);
  }
}

// How many chunks a row has.
__device__ __forceinline__ long long chunks_of_row(const TopKArgs& args, long long row) {
  return (top_k_length(args, row) + kTopKChunk - 1) / kTopKChunk;
}
// A row's elements, read anew whenever they are asked for.
template <TopKGpuConfig kConfig>
struct RowElements {
  const TopKArgs* args;
  long long row;

  template <class Body>
  __device__ __forceinline__ void each(Body&& body) const {
#pragma unroll 1
    for (long long start = piece_place(0); start < top_k_length(anew(*args), row);
         start += kSelectThreads * kRowPiece) {
      const long long left = top_k_length(anew(*args), row) - start;
      const int here = left < kRowPiece ? static_cast<int>(left) : kRowPiece;
      Piece p;
      load_row_piece<kConfig>(anew(*args), row, start, here, p);
      for_elements([&](int i) {
        if (i < here) body(RowElement{renewed(p.v[i]), start + i});
      });
    }
  }
};

}  // namespace tilewright
