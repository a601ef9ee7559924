// SPDX-License-Identifier: MIT
// The matrix instructions of a warp (mma.sync) and the loads of their fragments (ldmatrix). One step along K is 32 bytes of
// every type: 8 tf32, 16 bf16 or f16, 32 of an 8-bit type.
//
// In lane l, g = l / 4 and t = l % 4: the accumulators of a 16 x 8 tile are rows g and g + 8, columns 2 t and 2 t + 1.
#pragma once

#include "tile/portable/widen_f8.cuh"

namespace tilewright {

// Four 8 x 8 matrices of 16-bit elements (8 rows of 16 bytes); lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// f32 to tf32, to nearest, ties away from zero, as the vendor's libraries round.
__device__ __forceinline__ unsigned round_tf32(unsigned bits) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}

// c += a b for one step along K. kType: of a and b; kF32 stands for tf32.
template <DType kType>
struct Mma;

template <>
struct Mma<DType::kBf16> {
  using Accumulator = float;
  __device__ __forceinline__ static void run(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
template <>
struct Mma<DType::kF16> {
  using Accumulator = float;
  __device__ __forceinline__ static void run(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
template <>
struct Mma<DType::kF32> {
  using Accumulator = float;
  __device__ __forceinline__ static void run(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
// 8-bit floats as f16: the same words of A and B hold the same k, so any pairing of them is a step of the instruction. Before
// Blackwell the instruction for 8-bit types does no better (sm_90) or sums with fewer bits (sm_89).
template <DType kType>
struct MmaF8 {
  using Accumulator = float;
  __device__ __forceinline__ static void run(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const F16Pairs x0 = widen_f8<kType>(a[0]), x1 = widen_f8<kType>(a[1]), x2 = widen_f8<kType>(a[2]),
                   x3 = widen_f8<kType>(a[3]), y0 = widen_f8<kType>(b0), y1 = widen_f8<kType>(b1);
    const unsigned low[4] = {x0.low, x1.low, x2.low, x3.low}, high[4] = {x0.high, x1.high, x2.high, x3.high};
    Mma<DType::kF16>::run(c, low, y0.low, y1.low);
    Mma<DType::kF16>::run(c, high, y0.high, y1.high);
  }
};
template <>
struct Mma<DType::kF8E4M3> : MmaF8<DType::kF8E4M3> {};
template <>
struct Mma<DType::kF8E5M2> : MmaF8<DType::kF8E5M2> {};
// Wraps modulo 2^32, as documented: without .satfinite.
template <>
struct Mma<DType::kI8> {
  using Accumulator = int;
  __device__ __forceinline__ static void run(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

}  // namespace tilewright
