// SPDX-License-Identifier: MIT
// Whether a matrix instruction reads what somebody wrote. Emulated kernels are compiled with
// -ftrivial-auto-var-init=pattern: a register that nobody wrote holds the compiler's pattern, which as a float is a huge
// or a tiny number or NaN that no data holds twice side by side. Integers of 8 bits may hold it, so operands A and B are
// looked at only where their elements are floats of 16 bits or more.
#pragma once

#include "tile/emu/matrix/table.hpp"
#include "tile/emu/runtime.hpp"

namespace tilewright::emu {

// g++ repeats one byte; clang fills integers with another, and floats with NaN of all bits set.
template <class Type>
constexpr uint32_t unwritten_word() {
#ifdef __clang__
  bool floats = false;
  if constexpr (requires(Type v) { v[0]; }) {
    floats = static_cast<__typeof__(Type{}[0])>(0.5f) != 0;
  } else {
    floats = static_cast<Type>(0.5f) != 0;
  }
  return floats ? ~uint32_t{0} : 0xaaaaaaaau;
#else
  return 0xfefefefeu;
#endif
}

template <class Type>
TILEWRIGHT_EMU_PLAIN static inline bool holds_unwritten(const Type (&registers)[kWaveSize], uint32_t lane) {
  constexpr uint32_t kWords = sizeof(Type) / 4;
  uint32_t words[kWords == 0 ? 1 : kWords];
  __builtin_memcpy(words, &registers[lane], kWords * 4);
  bool found = false;
  for (uint32_t i = 0; i < kWords; ++i) found |= words[i] == unwritten_word<Type>();
  return found;
}
template <class Type>
TILEWRIGHT_EMU_PLAIN static inline void require_written(const WaveView* view, const Type (&registers)[kWaveSize],
                                                        const char* text) {
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    if (!holds_unwritten(registers, lane)) continue;
    view->state[lane]->engine->unwritten_register(view->state[lane], text);
    return;
  }
}

constexpr bool is_wide_float(MatrixElement e) {
  return e == MatrixElement::kF16 || e == MatrixElement::kBf16 || e == MatrixElement::kF32 ||
         e == MatrixElement::kXf32 || e == MatrixElement::kF64;
}

// An integer sum may come to the pattern by itself: from then on the kernel's sums are not looked at.
static bool sums_held_pattern = false;

template <int kRow, class A, class B, class C>
TILEWRIGHT_EMU_PLAIN static inline void require_written_operands(const WaveView* view, const A (&a)[kWaveSize],
                                                                 const B (&b)[kWaveSize], const C (&c)[kWaveSize]) {
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  if constexpr (is_wide_float(row.a)) require_written(view, a, "A of a matrix instruction");
  if constexpr (is_wide_float(row.b)) require_written(view, b, "B of a matrix instruction");
  if (!__atomic_load_n(&sums_held_pattern, __ATOMIC_RELAXED)) {
    require_written(view, c, "C of a matrix instruction, its accumulator");
  }
}
template <class C>
TILEWRIGHT_EMU_PLAIN static inline void note_results(const C (&d)[kWaveSize]) {
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    if (holds_unwritten(d, lane)) __atomic_store_n(&sums_held_pattern, true, __ATOMIC_RELAXED);
  }
}

}  // namespace tilewright::emu
