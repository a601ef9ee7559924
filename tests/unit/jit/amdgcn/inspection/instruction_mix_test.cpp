// SPDX-License-Identifier: MIT
// Classes, bytes and matrix instructions of AMD GPUs' code, by the names that the assembler uses.
#include "jit/amdgcn/inspection/instruction_mix.hpp"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using emu::MatrixTarget;
using Class = InstructionClass;

AmdInstruction instruction(const std::string& mnemonic, const std::string& operands = "") {
  return {0, mnemonic, operands, {}};
}

std::string mnemonic_of(const char* row, MatrixTarget target) {
  const int index = emu::matrix_row(row);
  return index < 0 ? "no such row" : isa_mnemonic(emu::matrix_rows::kRows[index], target);
}

TEST(AmdInstructionMix, ClassesAndBytes) {
  struct Case {
    const char* mnemonic;
    Class kind;
    int bytes;  // of a lane
    const char* operands = "";
  };
  for (const Case& c :
       std::initializer_list<Case>{{"v_mfma_f32_32x32x8_bf16", Class::kMatrix, 0},
                                   {"v_mfma_scale_f32_16x16x128_f8f6f4", Class::kMatrix, 0},
                                   {"v_wmma_f32_16x16x16_bf16", Class::kMatrix, 0},
                                   {"ds_read_b128", Class::kLdsRead, 16},
                                   {"ds_read_u16_d16", Class::kLdsRead, 2},
                                   {"ds_read2_b32", Class::kLdsRead, 8},
                                   {"ds_read2st64_b64", Class::kLdsRead, 16},
                                   {"ds_read_b64_tr_b16", Class::kLdsRead, 8},
                                   {"ds_load_b128", Class::kLdsRead, 16},
                                   {"ds_load_2addr_stride64_b64", Class::kLdsRead, 16},
                                   {"ds_write_b96", Class::kLdsWrite, 12},
                                   {"ds_store_b64", Class::kLdsWrite, 8},
                                   {"ds_store_2addr_b32", Class::kLdsWrite, 8},
                                   {"ds_bpermute_b32", Class::kLdsOther, 4},
                                   {"ds_add_f32", Class::kLdsOther, 4},
                                   {"global_load_dwordx4", Class::kGlobalLoad, 16},
                                   {"global_load_ushort", Class::kGlobalLoad, 2},
                                   {"global_load_d16_u8", Class::kGlobalLoad, 1},
                                   {"global_load_b96", Class::kGlobalLoad, 12},
                                   {"global_load_tr_b128", Class::kGlobalLoad, 16},
                                   {"buffer_load_dwordx3", Class::kGlobalLoad, 12, "v[0:2], v3, s[0:3], 0 offen"},
                                   {"buffer_load_dwordx4", Class::kDirectToLds, 16, "v3, s[0:3], 0 offen lds"},
                                   {"global_load_lds_dword", Class::kDirectToLds, 4, "v[0:1], off"},
                                   {"global_store_short_d16_hi", Class::kGlobalStore, 2},
                                   {"buffer_store_b128", Class::kGlobalStore, 16},
                                   {"global_atomic_add_f32", Class::kGlobalStore, 4},
                                   {"flat_load_b32", Class::kGlobalLoad, 4},
                                   {"scratch_load_dwordx2", Class::kScratch, 8},
                                   {"global_inv", Class::kHint, 0},
                                   {"buffer_wbl2", Class::kHint, 0},
                                   {"s_load_dwordx4", Class::kScalarLoad, 0},
                                   {"s_buffer_load_b64", Class::kScalarLoad, 0},
                                   {"s_waitcnt", Class::kWait, 0},
                                   {"s_waitcnt_vscnt", Class::kWait, 0},
                                   {"s_wait_loadcnt_dscnt", Class::kWait, 0},
                                   {"s_barrier", Class::kBarrier, 0},
                                   {"s_barrier_wait", Class::kBarrier, 0},
                                   {"s_barrier_signal", Class::kHint, 0},
                                   {"s_delay_alu", Class::kHint, 0},
                                   {"s_setprio", Class::kHint, 0},
                                   {"s_add_u32", Class::kScalar, 0},
                                   {"s_cbranch_scc0", Class::kBranch, 0},
                                   {"s_endpgm", Class::kBranch, 0},
                                   {"v_add_u32", Class::kVectorInteger, 0},
                                   {"v_add_nc_u32", Class::kVectorInteger, 0},
                                   {"v_lshl_add_u64", Class::kVectorInteger, 0},
                                   {"v_mad_u64_u32", Class::kVectorInteger, 0},
                                   {"v_cmp_gt_i32", Class::kVectorInteger, 0},
                                   {"v_readfirstlane_b32", Class::kVectorInteger, 0},
                                   {"v_dual_lshlrev_b32", Class::kVectorInteger, 0},
                                   {"v_cmp_lt_f32", Class::kVectorOther, 0},
                                   {"v_add_f32", Class::kVectorOther, 0},
                                   {"v_pk_fma_f32", Class::kVectorOther, 0},
                                   {"v_mov_b32", Class::kVectorOther, 0},
                                   {"v_exp_f32", Class::kVectorOther, 0},
                                   {"v_cvt_pk_bf16_f32", Class::kVectorConversion, 0},
                                   {"v_perm_b32", Class::kVectorConversion, 0},
                                   {"v_accvgpr_write_b32", Class::kAccumulatorMove, 0},
                                   {"v_accvgpr_read_b32", Class::kAccumulatorMove, 0}}) {
    const AmdInstruction made = instruction(c.mnemonic, c.operands);
    EXPECT_STREQ(kInstructionClassNames[static_cast<int>(class_of(made))],
                 kInstructionClassNames[static_cast<int>(c.kind)])
        << c.mnemonic;
    EXPECT_EQ(lane_bytes(made), c.bytes) << c.mnemonic;
  }
}

TEST(AmdInstructionMix, EachTargetWritesMatrixInstructionsInItsOwnWay) {
  EXPECT_EQ(mnemonic_of("mfma_f32_32x32x8bf16_1k", MatrixTarget::kGfx90a), "v_mfma_f32_32x32x8bf16_1k");
  EXPECT_EQ(mnemonic_of("mfma_f32_32x32x8bf16_1k", MatrixTarget::kGfx942), "v_mfma_f32_32x32x8_bf16");
  EXPECT_EQ(mnemonic_of("mfma_f32_32x32x4bf16_1k", MatrixTarget::kGfx942), "v_mfma_f32_32x32x4_2b_bf16");
  EXPECT_EQ(mnemonic_of("mfma_f32_16x16x32_fp8_bf8", MatrixTarget::kGfx942), "v_mfma_f32_16x16x32_fp8_bf8");
  EXPECT_EQ(mnemonic_of("mfma_i32_32x32x32_i8", MatrixTarget::kGfx950), "v_mfma_i32_32x32x32_i8");
  EXPECT_EQ(mnemonic_of("wmma_f32_16x16x16_bf16_w32", MatrixTarget::kGfx1100), "v_wmma_f32_16x16x16_bf16");
  EXPECT_EQ(mnemonic_of("wmma_f32_16x16x16_fp8_fp8_w32_gfx12", MatrixTarget::kGfx1201), "v_wmma_f32_16x16x16_fp8_fp8");
}

TEST(AmdInstructionMix, AMatrixInstructionIsARowOfTheTargetsTable) {
  const auto cycles = [](const char* mnemonic, MatrixTarget target, const char* operands = "") {
    return matrix_use(instruction(mnemonic, operands), target).cycles;
  };
  EXPECT_EQ(cycles("v_mfma_f32_32x32x8bf16_1k", MatrixTarget::kGfx90a), 64);
  EXPECT_EQ(cycles("v_mfma_f32_32x32x8_bf16", MatrixTarget::kGfx942), 32);
  EXPECT_EQ(cycles("v_mfma_f32_32x32x16_bf16", MatrixTarget::kGfx950), 32);
  EXPECT_EQ(cycles("v_mfma_f32_32x32x16_bf16", MatrixTarget::kGfx942), 0) << "gfx942 does not have it";
  EXPECT_EQ(cycles("v_wmma_f32_16x16x16_bf16", MatrixTarget::kGfx1100), 32);
  EXPECT_EQ(cycles("v_wmma_f32_16x16x16_bf16", MatrixTarget::kGfx1201), 16);
  EXPECT_EQ(cycles("v_smfmac_f32_16x16x32_bf16", MatrixTarget::kGfx942), 0);
  // fp8 is format 0, which is not written; 2 has 6 bits, 4 has 4.
  EXPECT_EQ(cycles("v_mfma_f32_16x16x128_f8f6f4", MatrixTarget::kGfx950, "v[0:3], v[4:11], v[12:19], v[0:3]"), 32);
  EXPECT_EQ(
      cycles("v_mfma_f32_16x16x128_f8f6f4", MatrixTarget::kGfx950, "v[0:3], v[4:7], v[8:11], v[0:3] cbsz:4 blgp:4"),
      16);
  EXPECT_EQ(cycles("v_mfma_scale_f32_32x32x64_f8f6f4", MatrixTarget::kGfx950,
                   "v[0:15], v[16:23], v[24:29], v[0:15], v30, v31 op_sel_hi:[0,0,0] blgp:2"),
            64);
  EXPECT_EQ(cycles("v_mfma_scale_f32_32x32x64_f8f6f4", MatrixTarget::kGfx950,
                   "v[0:15], v[16:19], v[24:29], v[0:15], v30, v31 op_sel_hi:[0,0,0] cbsz:4 blgp:2"),
            32);
}

TEST(AmdInstructionMix, CountsAndBytesAreOfAWholeWave) {
  const std::vector<AmdInstruction> code = {instruction("global_load_dwordx4"),
                                            instruction("global_load_ushort"),
                                            instruction("ds_write_b128"),
                                            instruction("ds_read_b64"),
                                            instruction("ds_read_b64"),
                                            instruction("v_mfma_f32_32x32x8_bf16"),
                                            instruction("v_mfma_f32_32x32x8_bf16"),
                                            instruction("v_mfma_f32_16x16x16_bf16"),
                                            instruction("v_exp_f32"),
                                            instruction("s_nop", "5"),
                                            instruction("s_waitcnt", "vmcnt(0)")};
  const InstructionMix mix = instruction_mix(code, MatrixTarget::kGfx942, 64);
  EXPECT_EQ(mix.instructions, 11);
  EXPECT_EQ(mix.count(Class::kMatrix), 3);
  ASSERT_EQ(mix.matrix.size(), 2u);
  EXPECT_EQ(mix.matrix[0].mnemonic, "v_mfma_f32_16x16x16_bf16");
  EXPECT_EQ(mix.matrix[1].count, 2);
  EXPECT_EQ(mix.bytes(Class::kGlobalLoad), 64 * 18);
  EXPECT_EQ(mix.of(Class::kGlobalLoad).word_bytes, 64 * 20) << "two bytes take the place of four";
  EXPECT_EQ(mix.bytes(Class::kLdsWrite), 64 * 16);
  EXPECT_EQ(mix.count(Class::kLdsRead), 2);
  EXPECT_EQ(mix.bytes(Class::kLdsRead), 64 * 16);
  EXPECT_EQ(mix.quarter_rate, 1);
  EXPECT_EQ(mix.nop_states, 6);
  EXPECT_EQ(instruction_mix(code, MatrixTarget::kGfx942, 32).bytes(Class::kLdsWrite), 32 * 16);
}

TEST(AmdInstructionMix, TargetsAreKnownByName) {
  EXPECT_EQ(*matrix_target("gfx90a"), MatrixTarget::kGfx90a);
  EXPECT_EQ(*matrix_target("gfx1201"), MatrixTarget::kGfx1201);
  EXPECT_THAT(matrix_target("sm_90a").status().message(), testing::HasSubstr("gfx950"));
}

}  // namespace
}  // namespace tilewright
