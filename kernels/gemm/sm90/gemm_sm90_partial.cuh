// SPDX-License-Identifier: MIT
// Warpgroups that computed parts of one sum over K finish it together: each owns some boxes of columns, gives its sums of
// the others away through global memory, and adds to its own what it gets, in the order of the parts. The order of the sum
// follows from box and number of parts, not from who is first.
#pragma once

#include "gemm/sm90/gemm_sm90_args.hpp"
#include "tile/sm90/barrier.cuh"

namespace tilewright {

// Which part of how many, and the place of its 64 rows among all that are shared.
struct GemmSm90Part {
  int part, parts, place;
};

// kBoxes boxes of up to kCount sums a thread. Four sums leave as 16 bytes, so they stand side by side in registers; with `kTurned`
// neighbours in turned order, which is what gemm_sm90_apart wants of them.
template <class Sum, int kBoxes, int kCount, bool kTurned>
class GemmSm90Exchange {
 public:
  __device__ GemmSm90Exchange(const GemmSm90Args& args, GemmSm90Part part, int barrier)
      : base_(reinterpret_cast<Sum*>(args.partials)),
        counter_(args.counters + part.place),
        part_(part),
        barrier_(barrier) {}

  __device__ __forceinline__ bool owns(int box) const { return box % part_.parts == part_.part; }

  // The `count` sums of a box that another part owns: four a thread side by side, so that a warp writes 512 bytes at once.
  // `x(j)` is this thread's j-th sum of the box.
  template <class Sums>
  __device__ __forceinline__ void give(int box, int count, Sums&& x) const {
    Sum* to = slot(part_.part, box);
#pragma unroll
    for (int i = 0; i < kCount && i < count; i += 4) {
      store_four(to + i * 128, x(turned(i)), x(turned(i + 1)), x(turned(i + 2)), x(turned(i + 3)));
    }
  }
  // All boxes are given; waits until every part has done so. Parts count themselves in, then out: the last one's count is
  // zero again, and nobody waits for it.
  __device__ __forceinline__ void meet() const {
    // One thread's release covers what the barrier has brought to it; so does its acquire on the other side.
    const auto parts = static_cast<unsigned>(part_.parts);
    sm90::named_barrier(barrier_, 128);
    if (threadIdx.x % 128 == 0) {
      sm90::count_release(counter_, 2 * parts - 1);
      while (sm90::load_acquire(counter_) < parts) {
      }
      sm90::count_relaxed(counter_, 2 * parts - 1);
    }
    sm90::named_barrier(barrier_, 128);
  }
  // Makes the sums of a box of this part's own whole.
  template <class Sums>
  __device__ __forceinline__ void take(int box, int count, Sums&& x) const {
#pragma unroll 1
    for (int part = 0; part < part_.parts; ++part) {
      if (part == part_.part) continue;
      const Sum* from = slot(part, box);
#pragma unroll
      for (int i = 0; i < kCount && i < count; i += 4) {
        add_four(from + i * 128, x(turned(i)), x(turned(i + 1)), x(turned(i + 2)), x(turned(i + 3)));
      }
    }
  }

 private:
  __device__ static constexpr int turned(int i) { return kTurned ? i ^ 1 : i; }
  __device__ __forceinline__ Sum* slot(int part, int box) const {
    const int64 index = (static_cast<int64>(part_.place) * part_.parts + part) * kBoxes + box;
    return base_ + index * kCount * 128 + threadIdx.x % 128 * 4;
  }
  // Past the first level of cache, which may hold an older part's.
  __device__ __forceinline__ static void store_four(float* to, float a, float b, float c, float d) {
    __stcg(reinterpret_cast<float4*>(to), float4{a, b, c, d});
  }
  __device__ __forceinline__ static void store_four(int* to, int a, int b, int c, int d) {
    __stcg(reinterpret_cast<int4*>(to), int4{a, b, c, d});
  }
  __device__ __forceinline__ static void add_four(const float* from, float& a, float& b, float& c, float& d) {
    const float4 x = __ldcg(reinterpret_cast<const float4*>(from));
    a += x.x, b += x.y, c += x.z, d += x.w;
  }
  __device__ __forceinline__ static void add_four(const int* from, int& a, int& b, int& c, int& d) {
    const int4 x = __ldcg(reinterpret_cast<const int4*>(from));
    a += x.x, b += x.y, c += x.z, d += x.w;
  }

  Sum* const base_;
  unsigned* const counter_;
  const GemmSm90Part part_;
  const int barrier_;
};

// 64 rows of a warpgroup: afterwards `sum` is whole in the boxes of this part's own. Boxes are those of Output.
template <class Output, class Sum, int kCount>
__device__ __forceinline__ void gemm_sm90_exchange(const GemmSm90Args& args, GemmSm90Part part, int barrier,
                                                   Sum (&sum)[kCount]) {
  const GemmSm90Exchange<Sum, Output::kBoxes, Output::kBoxSums, Output::kTurned> exchange(args, part, barrier);
#pragma unroll
  for (int i = 0; i < Output::kBoxes; ++i) {
    if (!exchange.owns(i)) exchange.give(i, Output::sums_of(i), [&](int j) { return sum[Output::place(i, j)]; });
  }
  exchange.meet();
#pragma unroll
  for (int i = 0; i < Output::kBoxes; ++i) {
    if (exchange.owns(i)) exchange.take(i, Output::sums_of(i), [&](int j) -> Sum& { return sum[Output::place(i, j)]; });
  }
}

}  // namespace tilewright
