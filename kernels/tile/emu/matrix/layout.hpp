// SPDX-License-Identifier: MIT
// Which lane and which register of it hold an element of a matrix instruction's operands.
//
// Sources, as comments name them: "calculator" is matrix_calculator.py of ROCm/amd_matrix_instruction_calculator 1.3.2,
// with the function that has the rule; "CK" is test/mx_mfma_op/mx_mfma_op.hpp of ROCm/composable_kernel, whose tables of
// registers and scales its tests check on hardware.
#pragma once

#include "tile/emu/matrix/table.hpp"

namespace tilewright::emu {

// Always inline: with a row that the compiler knows nothing of them is left but shifts.
//
// An element of A (outer = row) or B (outer = column).
struct MatrixInput {
  int block, outer, k;
};

// What element `e` of a lane is, counted from bit 0 of its first register. `outer` is M for A and N for B. Lanes 16 to 31
// of gfx11 give the same as lanes 0 to 15.
TILEWRIGHT_MATRIX_INLINE constexpr MatrixInput input_of(const MatrixInstruction& row, int outer, int lane, int e) {
  switch (row.layout) {
    case MatrixLayout::kMfma: {
      // Calculator, InstCalcGfx9.__get_input_reg_lanes: rows of a block, then blocks, then groups of consecutive k.
      // The double-K forms of gfx950 are the same with twice the elements.
      const int group = lane / (outer * row.blocks);
      const int elements = row.k * outer * row.blocks / 64;
      return {lane / outer % row.blocks, lane % outer, group * elements + e};
    }
    case MatrixLayout::kWmma11:
      // Calculator, InstCalcGfx11.__get_input_reg_lanes: a lane has all of k, and both half-waves have every row.
      return {0, lane % 16, e};
    case MatrixLayout::kWmma12:
      // Calculator, InstCalcGfx12._reg_lane_to_k_coord_eqn. 16 bits: groups of 4 alternate between the half-waves.
      // 8 and 4 bits: each half-wave has its half of k.
      if (bits_of(row.a) == 16) return {0, lane % 16, 8 * (e / 4) + 4 * (lane / 16) + e % 4};
      return {0, lane % 16, row.k / 2 * (lane / 16) + e};
  }
  return {};
}

// The same for an operand of f8f6f4, whose format has `bits`. CK: formats of 8 bits lie in two runs of 16 with half of K
// between them, fp4 in one run of 32. For 6 bits: two runs, by chooseScaledMfmaScaleLayout of triton-lang/triton
// (LinearLayoutConversions.cpp) and CK's type f6x16x2_pk_t.
TILEWRIGHT_MATRIX_INLINE constexpr MatrixInput f8f6f4_input_of(const MatrixInstruction& row, int bits, int lane,
                                                               int e) {
  const int group = lane / row.m;
  if (bits == 4) return {0, lane % row.m, 32 * group + e};
  return {0, lane % row.m, e / 16 * (row.k / 2) + 16 * group + e % 16};
}

// Which lane has the scale of element (outer, k). CK, load_mx_A_row_major: a scale belongs to 32 consecutive k whatever
// lanes hold them; lane / M counts the blocks of 32.
TILEWRIGHT_MATRIX_INLINE constexpr int scale_lane(const MatrixInstruction& row, int outer, int k) {
  return outer + row.m * (k / 32);
}

// Which element of a lane (16-bit results of gfx11: which register) has D[row i][column j] of a block.
struct MatrixOutput {
  int lane, element;
};
TILEWRIGHT_MATRIX_INLINE constexpr MatrixOutput output_of(const MatrixInstruction& row, int block, int i, int j) {
  switch (row.layout) {
    case MatrixLayout::kMfma: {
      // Calculator, InstCalcGfx9.__get_output_reg_lanes: pieces of 4 rows (1 for f64) and N columns fill a register's
      // lanes, several blocks side by side where they are small.
      const int height = row.d == MatrixElement::kF64 ? 1 : 4;
      const int pieces = 64 / row.n;  // that a register holds
      const int piece_count = row.m / height;
      const int together = pieces > piece_count ? pieces / piece_count : 1;  // blocks that share a register
      const int element = block * (row.m * row.n / 64) + i / (height * pieces) * height + i % height;
      const int lane = block % together * row.n + i / height % pieces * together * row.n + j;
      return {lane, element};
    }
    case MatrixLayout::kWmma11:
      // Calculator, InstCalcGfx11.__get_output_reg_lanes: even rows in the first half-wave, odd rows in the second.
      return {16 * (i % 2) + j, i / 2};
    case MatrixLayout::kWmma12:
      // Calculator, InstCalcGfx12.__get_output_reg_lanes: rows 0 to 7 in the first half-wave; 16 bits are packed.
      return {16 * (i / 8) + j, i % 8};
  }
  return {};
}

// The block of A that `block` multiplies. Calculator, _get_cbsz_abid_transformed_block: within groups of 2^cbsz blocks,
// block abid of the group serves all.
TILEWRIGHT_MATRIX_INLINE constexpr int broadcast_block(int block, const MatrixModifiers& m) {
  return (block >> m.cbsz << m.cbsz) + m.abid;
}

// The lane that stands for a lane of B. Calculator, _get_blgp_transformed_lane.
TILEWRIGHT_MATRIX_INLINE constexpr int permuted_lane(int lane, int blgp) {
  switch (blgp) {
    case 1: return lane % 32;
    case 2: return lane % 32 + 32;
    case 3: return (lane + 16) % 64;
    case 4:
    case 5:
    case 6:
    case 7: return lane % 16 + 16 * (blgp - 4);
    default: return lane;
  }
}

}  // namespace tilewright::emu
