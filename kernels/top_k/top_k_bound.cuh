// SPDX-License-Identifier: MIT
// What all of a row's best k reach, found of the largest of groups of its elements, and the elements that reach it. One source for NVIDIA and
// AMD.
#pragma once

#include "top_k/top_k_chunk.cuh"
#include "top_k/top_k_order.cuh"

namespace tilewright {

// A row's groups: `chunk` of each of its chunks, one chunk's behind the other's. Pieces of a group are one of a thread's, or both, or those of
// as many neighbours.
struct RowGroups {
  const float* largest;  // of each
  int bits;              // of a group's pieces; -1 = there are none
  int all;

  __device__ __forceinline__ RowGroups(const TopKArgs& args, long long row)
      : largest(reinterpret_cast<const float*>(args.workspace) + row * args.groups) {
    const long long chunks = chunks_of_row(args, row);
    bits = args.groups > 0 ? top_k_group_bits(args.k, chunks) : -1;
    all = static_cast<int>(chunks) * chunk();
  }
  __device__ __forceinline__ int chunk() const { return bits < 0 ? 0 : kChunkPieces >> bits; }
  // Of a group's threads.
  __device__ __forceinline__ int thread_bits() const { return bits > 0 ? bits - 1 : 0; }
  // Where a group's piece begins in the row.
  __device__ __forceinline__ long long place(int group, int piece) const {
    const int thread = ((group & (chunk() - 1)) << thread_bits()) + (piece & ((1 << thread_bits()) - 1));
    const int of = thread + (piece >> thread_bits()) * kSelectThreads;
    return static_cast<long long>(group >> (kChunkBits - bits)) * kTopKChunk + of * kRowPiece;
  }
};

// What groups of a chunk have as their largest; NaN stands with minus infinity.
template <TopKGpuConfig kConfig>
__device__ __forceinline__ void store_largest(const TopKArgs& args, const RowChunk& chunk, const Piece (&p)[2]) {
  const RowGroups groups(args, chunk.row);
  if (chunk.count == 0 || groups.bits < 0) return;
  float largest[2] = {kMinusInfinity, kMinusInfinity};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    for_elements([&](int i) { largest[j] = number_between(p[j].v[i], largest[j], -kMinusInfinity); });
  }
  float* const to = const_cast<float*>(groups.largest) + chunk.start / kTopKChunk * groups.chunk();
  const unsigned me = select_thread();
  if (groups.bits == 0) {
#pragma unroll
    for (unsigned j = 0; j < 2; ++j) to[j * kSelectThreads + me] = largest[j];
    return;
  }
  float one = at_least(largest[0], largest[1]);
  const unsigned lanes = 1u << groups.thread_bits();
#pragma unroll 1
  for (unsigned distance = 1; distance < lanes; distance *= 2) one = at_least(lane_xor(one, distance), one);
  if ((me & (lanes - 1)) == 0) to[me >> groups.thread_bits()] = one;
}

// The same of all chunks: a block's next one is on its way while it has one.
template <TopKGpuConfig kConfig>
__device__ __forceinline__ void find_largest(const TopKArgs& args) {
  const auto is_there = [&](long long item) { return item < anew(args).rows * anew(args).chunks; };
  long long item = blockIdx.x;
  if (!is_there(item)) return;
  RowChunk next = chunk_of_item(anew(args), item);
  Piece ahead[2];
  load_chunk<kConfig>(anew(args), next, ahead);
#pragma unroll 1
  while (is_there(item)) {
    const RowChunk chunk = next;
    const Piece p[2] = {ahead[0], ahead[1]};
    item += anew(args).grid;
    if (is_there(item)) {
      next = chunk_of_item(anew(args), item);
      load_chunk<kConfig>(anew(args), next, ahead);
    }
    store_largest<kConfig>(anew(args), chunk, p);
  }
}

// Keys of a row's elements that reach what at least k of its groups do, so that the best k are among them: in shared memory, then in registers.
template <TopKGpuConfig kConfig>
struct ReachingKeys {
  static constexpr int kHeld = kMostReaching / kSelectThreads;

  float largest, bound;  // of the row
  int listed;            // keys; -1 = more reach it than are listed, or bins do not tell groups apart
  TokenKey held[kHeld];

  __device__ __forceinline__ ReachingKeys(const TopKArgs& args, long long row) : largest(0), bound(0), listed(-1) {
    const RowGroups groups(args, row);
    if (groups.bits < 0) return;
    const int reaching = list_groups(groups, anew(args).k);
    if (reaching == 0) return;
    listed = list_elements(anew(args), row, groups, reaching);
    if (listed < 0) return;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int i = static_cast<int>(select_thread()) + j * kSelectThreads;
      held[j] = i < listed ? order_shared().sorted[i] : 0;
    }
    __syncthreads();
  }
  template <class Body>
  __device__ __forceinline__ void each(Body&& body) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (held[j] != 0) body(KeyedToken{held[j]});
    }
  }

 private:
  // Groups that reach it: how many, or 0.
  __device__ __forceinline__ int list_groups(const RowGroups& groups, int k) {
    const auto each = [&](auto&& body) {
#pragma unroll 8
      for (int i = static_cast<int>(select_thread()); i < groups.all; i += kSelectThreads) {
        body(RowNumber{groups.largest[i], i});
      }
    };
    const BestBins best(k, bins_of_values<kOrderBins>(each), each);
    if (!best.serve || best.listed > kMostReaching || best.listed < static_cast<unsigned>(k)) return 0;
    // The least of them, inverted: infinity where fewer have numbers than are sought.
    float least[1] = {kMinusInfinity};
    unsigned own = 0;
    each([&](const RowNumber& group) {
      if (best.bins.of(group.x) > best.last) return;
      least[0] = at_least(-group.x, least[0]), ++own;
    });
    reduce_threads<kSelectThreads>(least, [](float a, float b) { return at_least(a, b); });
    auto at = static_cast<unsigned>(sums_of_threads(own).before);
    each([&](const RowNumber& group) {
      if (best.bins.of(group.x) <= best.last) order_shared().reaching[at++] = static_cast<int>(group.index);
    });
    __syncthreads();
    largest = best.bins.most, bound = -least[0];
    return bound == kMinusInfinity ? 0 : static_cast<int>(best.listed);
  }

  // These groups' elements that reach it: how many, or -1.
  __device__ __forceinline__ int list_elements(const TopKArgs& args, long long row, const RowGroups& groups,
                                               int reaching) const {
    // Typed at run time, two have no registers on capability 8.
    constexpr int kAtOnce = kConfig.x == DType::kNone ? 1 : 2;
    SelectShared& shared = select_shared();
    if (select_thread() == 0) shared.listed = 0;
    __syncthreads();
    const int items = reaching << groups.bits;
#pragma unroll 1
    for (int first = static_cast<int>(select_thread()); first < items; first += kAtOnce * kSelectThreads) {
      Piece p[kAtOnce];
      long long start[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int item = first + j * kSelectThreads;
        start[j] = groups.place(order_shared().reaching[item < items ? item >> groups.bits : 0],
                                item & ((1 << groups.bits) - 1));
        const long long left = item < items ? top_k_length(anew(args), row) - start[j] : 0;
        load_row_piece<kConfig>(anew(args), row, start[j], left < kRowPiece ? static_cast<int>(left) : kRowPiece, p[j]);
      }
      // A bit each, of which hardly any are set: these are read once more.
      unsigned reached = 0, own = 0;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        for_elements([&](int i) {
          const bool reaches = p[j].v[i] >= bound;
          reached |= reaches ? 1u << (j * kRowPiece + i) : 0, own += reaches ? 1 : 0;
        });
      }
      unsigned at = own > 0 ? add_shared(&shared.listed, own) : 0;
#pragma unroll 1
      for (; reached != 0; reached &= reached - 1, ++at) {
        const int which = place_of_lowest(reached);
        const long long index = (which < kRowPiece ? start[0] : start[kAtOnce - 1]) + which % kRowPiece;
        const float x = load_row_element<kConfig>(anew(args), row, index);
        if (at < kMostReaching) order_shared().sorted[at] = token_key(x, index);
      }
    }
    __syncthreads();
    const auto all = static_cast<int>(shared.listed);
    return all > kMostReaching ? -1 : all;
  }
  // Of a word's lowest bit that is set.
  __device__ __forceinline__ static int place_of_lowest(unsigned word) {
    const auto alone = static_cast<float>(word & (0 - word));
    return __builtin_bit_cast(int, alone) / (1 << 23) - 127;
  }
};

}  // namespace tilewright
