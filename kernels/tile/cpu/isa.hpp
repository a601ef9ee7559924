// SPDX-License-Identifier: MIT
// Which instructions this translation unit may use, and the namespace that keeps its code apart.
//
// Kernels of several targets are linked into one library, each unit compiled with its target's flags. An inline function
// or a template instance that two such units share would be merged by the linker, and the baseline could end up running
// the AVX-512 copy. Therefore everything under kernels/ that is compiled lives in an inline namespace whose digits say
// which features the unit has: cpu_<avx2><avx512><bf16><vnni><amx><twin>.
#pragma once

// A fifth of what this header weighs in GCC 12 are instructions that no kernel uses; their guards keep them out. Elsewhere
// the names mean nothing.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 12
#define __AVX512FP16INTRIN_H_INCLUDED
#define __AVX512FP16VLINTRIN_H_INCLUDED
#define _AVX512ERINTRIN_H_INCLUDED
#define _AVX512PFINTRIN_H_INCLUDED
#define _AVX512VBMI2VLINTRIN_H_INCLUDED
#define __AVX512VBMI2INTRIN_H_INCLUDED
#define _AVX512VBMIVLINTRIN_H_INCLUDED
#define _AVX512IFMAVLINTRIN_H_INCLUDED
#endif
#include <immintrin.h>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define TILEWRIGHT_AVX2 1
#else
#define TILEWRIGHT_AVX2 0
#endif
#if TILEWRIGHT_AVX2 && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define TILEWRIGHT_AVX512 1
#else
#define TILEWRIGHT_AVX512 0
#endif
#if TILEWRIGHT_AVX512 && defined(__AVX512BF16__)
#define TILEWRIGHT_AVX512_BF16 1
#else
#define TILEWRIGHT_AVX512_BF16 0
#endif
#if TILEWRIGHT_AVX512 && defined(__AVX512VNNI__)
#define TILEWRIGHT_AVX512_VNNI 1
#else
#define TILEWRIGHT_AVX512_VNNI 0
#endif
// TILEWRIGHT_AMX_TWIN runs the tile instructions on ordinary memory even where the CPU has them.
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && !defined(TILEWRIGHT_AMX_TWIN)
#define TILEWRIGHT_AMX 1
#else
#define TILEWRIGHT_AMX 0
#endif
#if defined(TILEWRIGHT_AMX_TWIN)
#define TILEWRIGHT_TWIN 1
#else
#define TILEWRIGHT_TWIN 0
#endif

#define TILEWRIGHT_ISA_JOIN(a, b, c, d, e, f) cpu_##a##b##c##d##e##f
#define TILEWRIGHT_ISA_NAME(a, b, c, d, e, f) TILEWRIGHT_ISA_JOIN(a, b, c, d, e, f)
#define TILEWRIGHT_ISA                                                                                    \
  TILEWRIGHT_ISA_NAME(TILEWRIGHT_AVX2, TILEWRIGHT_AVX512, TILEWRIGHT_AVX512_BF16, TILEWRIGHT_AVX512_VNNI, \
                      TILEWRIGHT_AMX, TILEWRIGHT_TWIN)

// For primitives: an instruction wrapped in a function must never become a call.
#define TILEWRIGHT_INLINE inline __attribute__((always_inline))

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A constant as a type, and a loop whose index is such a constant: compilers keep arrays of vectors in registers only
// when every index is constant from the start.
template <int kValue>
struct Index {
  static constexpr int value = kValue;
  constexpr operator int() const { return kValue; }
};

namespace detail {
template <int... kIndices>
struct IndexList {};
template <int kCount>
struct MakeIndexList {
  template <class Body, int... kIndices>
  static TILEWRIGHT_INLINE void run(Body&& body, IndexList<kIndices...>) {
    (body(Index<kIndices>{}), ...);
  }
#if defined(__clang__)
  template <class T, T... kIndices>
  struct Sequence {
    using List = IndexList<kIndices...>;
  };
  using List = typename __make_integer_seq<Sequence, int, kCount>::List;
#else
  using List = IndexList<__integer_pack(kCount)...>;
#endif
};
}  // namespace detail

// body(Index<0>{}), body(Index<1>{}), ... body(Index<kCount - 1>{})
template <int kCount, class Body>
TILEWRIGHT_INLINE void unroll(Body&& body) {
  detail::MakeIndexList<kCount>::run(body, typename detail::MakeIndexList<kCount>::List{});
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
