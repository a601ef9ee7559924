// SPDX-License-Identifier: MIT
// What the instructions of a stretch of code do, counted by class, with the bytes that one wave moves.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/amdgcn/inspection/disassembly.hpp"
#include "tile/emu/matrix/table.hpp"

namespace tilewright {

enum class InstructionClass : uint8_t {
  kMatrix,
  kLdsRead,
  kLdsWrite,
  kLdsOther,  // atomics, and what moves between lanes
  kGlobalLoad,
  kGlobalStore,  // with atomics
  kDirectToLds,
  kScratch,
  kScalarLoad,
  kWait,
  kBarrier,
  kVectorInteger,  // addresses, masks, comparisons of integers
  kVectorConversion,
  kVectorOther,
  kAccumulatorMove,  // v_accvgpr_*
  kScalar,
  kBranch,
  kHint,  // that nothing executes: s_nop, s_setprio, s_delay_alu, cache control
};
inline constexpr const char* kInstructionClassNames[] = {
    "matrix",           "lds_read",    "lds_write", "lds_other", "global_load",    "global_store",      "direct_to_lds",
    "scratch",          "scalar_load", "wait",      "barrier",   "vector_integer", "vector_conversion", "vector_other",
    "accumulator_move", "scalar",      "branch",    "hint"};
inline constexpr int kInstructionClasses = 18;

InstructionClass class_of(const AmdInstruction& instruction);
// Bytes that a lane moves, of LDS and vector memory instructions; 0 of others.
int lane_bytes(const AmdInstruction& instruction);

struct MatrixUse {
  std::string mnemonic;
  int row = -1;    // of emu::matrix_rows::kRows; -1: not in that table
  int cycles = 0;  // of a SIMD's matrix pipe; 0: not in that table
  int count = 0;
};

// How the assembler of the target writes a row of the table: "v_mfma_f32_32x32x4_2b_bf16".
std::string isa_mnemonic(const emu::MatrixInstruction& row, emu::MatrixTarget target);
// The row that an instruction is, and its cycles with these operands (formats of f8f6f4). kUnsupported for another target.
MatrixUse matrix_use(const AmdInstruction& instruction, emu::MatrixTarget target);
// "gfx942"; kNotFound lists the targets.
Result<emu::MatrixTarget> matrix_target(std::string_view target);

struct ClassCount {
  int count = 0;
  int64_t bytes = 0;       // of one wave with all its lanes
  int64_t word_bytes = 0;  // the same, with at least four bytes a lane: what ports and banks are busy with
};

struct InstructionMix {
  int instructions = 0;
  std::array<ClassCount, kInstructionClasses> classes{};
  std::vector<MatrixUse> matrix;  // by mnemonic
  // Vector instructions of a quarter of the rate, which are among the counts above.
  int quarter_rate = 0;
  int nop_states = 0;  // wait states of s_nop
  const ClassCount& of(InstructionClass c) const { return classes[static_cast<size_t>(c)]; }
  int count(InstructionClass c) const { return of(c).count; }
  int64_t bytes(InstructionClass c) const { return of(c).bytes; }
};

// `code` runs on waves of `lanes`.
InstructionMix instruction_mix(std::span<const AmdInstruction> code, emu::MatrixTarget target, int lanes);

}  // namespace tilewright
