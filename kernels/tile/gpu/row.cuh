// SPDX-License-Identifier: MIT
// Rows on GPUs: which threads share one, reductions in one fixed order. Pieces of a row go round among its threads, of one block or of a
// cluster of blocks. An operator's kernel is made of these and of row_store.cuh's. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/kernel_edges.hpp"
#include "tile/gpu/math.hpp"
#include "tile/gpu/row_cluster.cuh"
#include "tile/gpu/row_piece.cuh"

namespace tilewright {

// What a call has of what few calls have.
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool has_weight(const RowArgs& args) {
  return kConfig.plain ? kConfig.weight : args.weight.data != nullptr;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool has_bias(const RowArgs& args) {
  return kConfig.plain ? kConfig.bias : args.bias.data != nullptr;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool adds_one(const RowArgs& args) {
  return !kConfig.plain && args.unit_offset;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool rounds_before_weight(const RowArgs& args) {
  return !kConfig.plain && args.round_before_weight;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool is_squared(const RowArgs& args) {
  return !kConfig.plain && args.squared;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ Activation activation_of(const RowArgs& args) {
  return kConfig.plain ? kConfig.activation : args.activation;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ GateMode gate_of(const RowArgs& args) {
  return kConfig.plain ? kConfig.gate : args.gate;
}

// Elements of a row, and 1 over that: known before the kernel runs where rows fill their threads.
template <RowGpuConfig kConfig>
__device__ __forceinline__ long long row_length(const RowArgs& args) {
  constexpr int kFull = kConfig.threads * kConfig.pieces * kConfig.cluster * kConfig.parts * kRowPiece;
  return kConfig.full ? kFull : args.n;
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ float inverse_length(const RowArgs& args) {
  const auto length = static_cast<float>(row_length<kConfig>(args));
  return kConfig.full ? 1 / length : reciprocal_near_one(length);
}

// kNone: the tensor tells its type.
template <DType kType>
__device__ __forceinline__ char* row_start(const RowTensor& t, const RowIndex& at) {
  const int bits = kType == DType::kNone ? dtype_bits(t.dtype) : dtype_bits(kType);
  const long long offset = row_offset(t.stride, at);
  // Codes of 4 bits begin with a byte.
  return static_cast<char*>(t.data) + (bits < 8 ? offset >> 1 : offset * (bits / 8));
}
// Whether element i of a piece is one of its `count`.
template <RowGpuConfig kConfig>
__device__ __forceinline__ bool is_there(int i, int count) {
  return kConfig.whole ? count > 0 : i < count;
}

// Which of a block's rows, of kThreads each, this thread has a part of, and which part.
template <int kThreads>
__device__ __forceinline__ unsigned row_of_block() {
#if !defined(__AMDGCN__)  // which has more vector registers for rows than scalar ones
  if constexpr (kThreads == row_block_threads(kThreads)) return 0;
#endif
  return static_cast<unsigned>(anew(static_cast<int>(threadIdx.x))) / kThreads;
}
template <int kThreads>
__device__ __forceinline__ int thread_of_row() {
  // Of a block's only row the mask changes nothing; compilers know by it how large it can be.
  constexpr bool kAlone = kThreads == row_block_threads(kThreads);
  constexpr unsigned kOf = kAlone ? power_at_least(kThreads) : kThreads;
  return static_cast<int>(static_cast<unsigned>(anew(static_cast<int>(threadIdx.x))) % kOf);
}

// Of kThreads neighbours, in each of them: of lanes first, then by 32 in their order. Two values at a time wait once. kFree: nobody
// reads any longer what the reduction before left in this place.
template <int kThreads, bool kFree = false, int kValues, class Merge>
__device__ __forceinline__ void reduce_threads(float (&x)[kValues], Merge&& merge, int place = 0) {
  static_assert(kThreads <= kRowLanes || kValues <= kRowReduced);
  constexpr int kTogether = kThreads < kRowLanes ? kThreads : kRowLanes;
  const auto me = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x)));
#pragma unroll
  for (int distance = 1; distance < kTogether; distance *= 2) {
    const bool lower = (me & static_cast<unsigned>(distance)) == 0;
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      const float other = lane_xor(x[v], static_cast<unsigned>(distance));
      if constexpr (requires { merge.kCommutes; }) {
        x[v] = merge(x[v], other);
      } else {
        // The lower lane's first: NaN and zeros of two signs then come out alike in both.
        x[v] = lower ? merge(x[v], other) : merge(other, x[v]);
      }
    }
  }
  if constexpr (kThreads > kRowLanes) {
    constexpr int kParts = kThreads / kRowLanes;
    auto* const parts = reinterpret_cast<float*>(dynamic_shared()) + place * kRowLeftFloats;
    if constexpr (!kFree) __syncthreads();
    if (me % kRowLanes == 0) {
#pragma unroll
      for (int v = 0; v < kValues; ++v) parts[me / kRowLanes * kValues + v] = x[v];
    }
    __syncthreads();
    const unsigned base = row_of_block<kThreads>() * kParts;
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      x[v] = parts[base * kValues + v];
#pragma unroll
      for (int i = 1; i < kParts; ++i) x[v] = merge(x[v], parts[(base + i) * kValues + v]);
    }
  }
}

struct SumOf {
  static constexpr bool kCommutes = true;
  __device__ __forceinline__ float operator()(float a, float b) const { return __fadd_rn(a, b); }
};
inline constexpr SumOf sum_of{};
__device__ __forceinline__ float larger_magnitude(float most, float x) { return at_least(fabsf(x), most); }

// Of kLanes neighbours, in each of them.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float x) {
  static_assert(kLanes <= kRowLanes);
  float one[1] = {x};
  reduce_threads<kLanes>(one, sum_of);
  return one[0];
}

// One thread's part of a row. Threads of rows behind the last one have nothing, but meet the others.
template <RowGpuConfig kConfig>
struct GpuRow {
  static constexpr int kThreads = kConfig.threads;  // of a block
  static constexpr int kStep = kThreads * kConfig.cluster * kConfig.parts * kRowPiece;
#if defined(__AMDGCN__)
  static constexpr bool kPairs = false;
#else
  static constexpr bool kPairs = has_pairs_of_pieces(kConfig);  // of pieces, side by side
#endif
  static constexpr int kRows = row_block_threads(kThreads) / kThreads;  // of a block at a time
  static constexpr int kKept = kConfig.pieces;
  // Every piece: a block's only row is there.
  static constexpr bool kAllThere = kConfig.full && kRows == 1 && !rehearses(kConfig);

  const RowArgs& args;
  long long index;  // of the row
  RowIndex at;
  bool there;
  int thread;  // of the row's
  RowCluster<kConfig.cluster>& cluster;
  Piece kept[kKept == 0 ? 1 : kKept];
  int place = 0;  // of the next reduction: of two by turns, none waits for who still reads the last one

  // Where a thread's j-th piece begins.
  __device__ __forceinline__ static int piece_begin(int j, int thread) {
    if constexpr (kPairs) return j / 2 * (2 * kStep) + (2 * thread + j % 2) * kRowPiece;
    return j * kStep + thread * kRowPiece;
  }

  __device__ __forceinline__ int count_at(long long n) const {
    if constexpr (kConfig.full) return kAllThere || there ? kRowPiece : 0;
    if constexpr (kConfig.whole) return there && n < anew(args).n ? kRowPiece : 0;
    const long long left = anew(args).n - n;
    return !there || left <= 0 ? 0 : left < kRowPiece ? static_cast<int>(left) : kRowPiece;
  }

  // Zero, made of arguments that the row's end needs, by a mask of zeros that compilers do not know: arguments come by lines of 64 bytes when
  // a multiprocessor first needs them, and whoever adds this to an address has these at hand from then on.
  __device__ __forceinline__ unsigned no_bytes() const {
    if constexpr (!kConfig.plain) return 0;
    unsigned any = __builtin_bit_cast(unsigned, args.limit);
    if constexpr (kConfig.residual != DType::kNone) any |= static_cast<unsigned>(args.residual_out.stride[2]);
    if constexpr (kConfig.quant != Quantisation::kNone) any |= static_cast<unsigned>(args.scale.stride[2]);
    return any & static_cast<unsigned>(args.unit_offset);
  }

  // Bodies may ask which of a thread's pieces theirs is.
  template <class Body>
  __device__ __forceinline__ static void take(Body&& body, long long n, int count, Piece& p, int j) {
    if constexpr (requires { body(n, count, p, j); }) {
      body(n, count, p, j);
    } else {
      body(n, count, p);
    }
  }

  // body(n, count, piece, j) for this thread's pieces, as often in every thread of a block. make(n, count, piece, j) comes first, for
  // its j-th piece: where pieces stay in registers only if kMake, else always.
  template <bool kMake, class Make, class Body>
  __device__ __forceinline__ void each(Make&& make, Body&& body) {
    const int mine = anew(thread);
    if constexpr (kKept > 0) {
#pragma unroll
      for (int j = 0; j < kKept; ++j) {
        const int n = piece_begin(j, mine), count = count_at(n);
        if constexpr (kMake) take(make, n, count, kept[j], j);
        take(body, n, count, kept[j], j);
      }
    } else {
#pragma unroll 1
      for (long long begin = 0; begin < args.n; begin += kStep) {
        const long long n = begin + mine * kRowPiece;
        const int count = count_at(n);
        take(make, n, count, kept[0], 0);
        take(body, n, count, kept[0], 0);
      }
    }
  }

  // The same of pieces side by side: body(n of the first, its count and the second one's, both).
  template <class Make, class Body>
  __device__ __forceinline__ void each_pair(Make&& make, Body&& body) {
    const int mine = anew(thread);
#pragma unroll
    for (int j = 0; j < kKept; j += 2) {
      const int n = piece_begin(j, mine), count = count_at(n), more = count_at(n + kRowPiece);
      take(make, n, count, kept[j], j);
      take(make, n + kRowPiece, more, kept[j + 1], j + 1);
      body(n, count, more, kept[j], kept[j + 1]);
    }
  }

  // Of all threads of the row, in each of them.
  template <int kValues, class Merge>
  __device__ __forceinline__ void reduce(float (&x)[kValues], Merge&& merge) {
    reduce_threads<kThreads, true>(x, merge, place);
    place ^= 1;
    cluster.reduce(x, merge);
  }
  template <class Merge>
  __device__ __forceinline__ float reduce(float x, Merge&& merge) {
    float one[1] = {x};
    reduce(one, merge);
    return one[0];
  }
};

// Which of the threads that share a row this one is.
template <RowGpuConfig kConfig>
__device__ __forceinline__ int row_thread() {
  const int thread = thread_of_row<kConfig.threads>();
  if constexpr (kConfig.parts > 1) return static_cast<int>(blockIdx.x % kConfig.parts) * kConfig.threads + thread;
  if constexpr (kConfig.cluster == 1) return thread;
  return RowCluster<kConfig.cluster>::rank() * kConfig.threads + thread;
}

// The rows of a block, or of a cluster, one set after another: body(GpuRow). Each has some: without rows nothing is launched. Kernels that
// need not walk have no loop on NVIDIA GPUs: what compilers move out of one comes before the first load.
template <RowGpuConfig kConfig, bool kMayWalk = false, class Body>
__device__ __forceinline__ void for_rows(const RowArgs& args, Body&& body) {
#if defined(__AMDGCN__)
  constexpr bool kWalks = true;
#else
  constexpr bool kWalks = kMayWalk || !row_grid_covers(kConfig);
#endif
  constexpr int kThreads = kConfig.threads, kRows = GpuRow<kConfig>::kRows, kBlocks = kConfig.cluster * kConfig.parts;
  static_assert(kConfig.cluster == 1 || kConfig.parts == 1);
  if constexpr (has_edge(kConfig)) allow_next_kernel();
  RowCluster<kConfig.cluster> cluster;
  long long first = static_cast<long long>(blockIdx.x) / kBlocks * kRows;
#pragma unroll 1
  do {
    // What follows from the arguments is no more than a row needs: a kernel that walks has no registers for what all rows share.
    const RowArgs& given = anew(args);
    const long long row = first + row_of_block<kThreads>();
    const bool there = kRows == 1 || row < given.rows;
    const long long known = there ? row : given.rows - 1;
    const RowIndex at = kConfig.plain ? RowIndex{{0, 0, known}} : row_index(given, known);
    GpuRow<kConfig> mine{given, row, at, there, row_thread<kConfig>(), cluster, {}};
    // Not there at first where that is a rehearsal: instructions come as slowly as rows where there are few of them.
#pragma unroll 1
    for (int pass = rehearses(kConfig) ? 0 : 1; pass < 2; ++pass) {
      if constexpr (rehearses(kConfig)) mine.there = there && pass == 1;
      body(mine);
    }
    first += args.grid / kBlocks * kRows;
    if (kWalks && first < args.rows) __syncthreads();  // for who still reads what these rows were reduced to
  } while (kWalks && first < args.rows);
}

}  // namespace tilewright
