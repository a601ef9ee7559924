// SPDX-License-Identifier: MIT
// What a compute unit can do with a loop, against sums done by hand; how many waves it holds.
#include "jit/amdgcn/inspection/throughput_bound.hpp"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using emu::MatrixTarget;

std::vector<AmdInstruction> repeated(const std::vector<std::pair<const char*, int>>& counts) {
  std::vector<AmdInstruction> code;
  for (const auto& [mnemonic, count] : counts)
    code.insert(code.end(), static_cast<size_t>(count), {0, mnemonic, "", {}});
  return code;
}

ThroughputBound bound_of(const std::vector<AmdInstruction>& code, MatrixTarget target, int waves, int workgroups) {
  const AmdUnit& unit = amd_unit(target);
  Result<ThroughputBound> bound = throughput_bound(instruction_mix(code, target, unit.lanes), unit, waves, workgroups);
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  return bound ? *bound : ThroughputBound();
}

double cycles(const ThroughputBound& bound, const char* pipe) {
  const PipeLoad* const found = bound.find(pipe);
  return found != nullptr ? found->cycles : -1;
}

AmdKernel bound_kernel(int vgprs, int64_t lds, int threads, int sgprs = 32) {
  AmdKernel made;
  made.vgprs = vgprs;
  made.sgprs = sgprs;
  made.lds_bytes = lds;
  made.max_threads = threads;
  return made;
}

// A tile of 256x256x32 bf16 by four waves, each of which multiplies 128x128: 4 by 4 instructions of 32x32, 4 along K.
TEST(AmdThroughputBound, ALoopOfGfx942ByHand) {
  const auto code = repeated({{"v_mfma_f32_32x32x8_bf16", 64},
                              {"ds_read_b128", 16},
                              {"ds_write_b128", 8},
                              {"global_load_dwordx4", 8},
                              {"v_add_u32", 10},
                              {"v_cvt_f32_f16", 2},
                              {"v_exp_f32", 1},
                              {"s_add_u32", 6},
                              {"s_waitcnt", 5},
                              {"s_barrier", 2},
                              {"s_cbranch_scc0", 1}});
  const ThroughputBound one = bound_of(code, MatrixTarget::kGfx942, 4, 1);
  EXPECT_EQ(cycles(one, "matrix"), 64 * 32);
  // 13 of the vector ALU, two of them conversions and one transcendental at a quarter of the rate, and a turn each for 64.
  EXPECT_EQ(cycles(one, "vector"), 4 * (13 + 3 * 2 + 3 * 1 + 64));
  EXPECT_EQ(cycles(one, "lds"), 4 * 24 * 64 * 16 / 128);
  EXPECT_EQ(cycles(one, "vector_memory"), 4 * 8 * 64 * 16 / 64);
  EXPECT_EQ(cycles(one, "scalar"), 4 * 6);
  EXPECT_EQ(cycles(one, "branch"), 4);
  EXPECT_EQ(cycles(one, "issue"), 4 * (123 - 5));
  EXPECT_STREQ(one.limit, "matrix");
  EXPECT_TRUE(one.matrix_limit);
  EXPECT_EQ(one.cycles, 2048);
  EXPECT_EQ(one.matrix_busy, 1);

  // Two workgroups share every pipe but the turn of a wave.
  const ThroughputBound two = bound_of(code, MatrixTarget::kGfx942, 4, 2);
  EXPECT_EQ(cycles(two, "matrix"), 2 * cycles(one, "matrix"));
  EXPECT_EQ(cycles(two, "lds"), 2 * cycles(one, "lds"));
  EXPECT_EQ(cycles(two, "issue"), cycles(one, "issue"));
  // Five waves: one SIMD has two.
  EXPECT_EQ(cycles(bound_of(code, MatrixTarget::kGfx942, 5, 1), "matrix"), 2 * 2048);
}

TEST(AmdThroughputBound, LdsThatTakesLongerThanMatrixInstructionsIsTheLimit) {
  const auto code = repeated({{"v_mfma_f32_16x16x16_bf16", 8}, {"ds_read_b128", 16}, {"global_load_lds_dwordx4", 4}});
  const ThroughputBound bound = bound_of(code, MatrixTarget::kGfx942, 4, 2);
  EXPECT_EQ(cycles(bound, "matrix"), 2 * 8 * 16);
  EXPECT_EQ(cycles(bound, "lds"), 8 * 20 * 64 * 16 / 128) << "what goes directly to LDS is written there";
  EXPECT_EQ(cycles(bound, "vector_memory"), 8 * 4 * 64 * 16 / 64);
  EXPECT_STREQ(bound.limit, "lds");
  EXPECT_FALSE(bound.matrix_limit);
  EXPECT_DOUBLE_EQ(bound.matrix_busy, 256.0 / 1280);
}

// RDNA3: a WMMA is 32 cycles of the vector ALU itself; two compute units share the waves.
TEST(AmdThroughputBound, ALoopOfGfx1100ByHand) {
  const auto code = repeated({{"v_wmma_f32_16x16x16_bf16", 16},
                              {"ds_load_b128", 16},
                              {"ds_store_b128", 4},
                              {"global_load_b128", 4},
                              {"v_add_nc_u32", 20},
                              {"v_cvt_f32_f16", 3},
                              {"v_exp_f32", 2},
                              {"s_add_i32", 5},
                              {"s_delay_alu", 7},
                              {"s_waitcnt", 5},
                              {"s_cbranch_scc0", 1}});
  const ThroughputBound bound = bound_of(code, MatrixTarget::kGfx1100, 8, 2);
  EXPECT_EQ(cycles(bound, "matrix"), 4 * 16 * 32) << "16 waves on 4 SIMDs";
  EXPECT_EQ(cycles(bound, "vector"), 4 * (16 * 32 + 25 + 3 * 2));
  EXPECT_EQ(cycles(bound, "lds"), 16 * 20 * 32 * 16 / (2 * 128));
  EXPECT_EQ(cycles(bound, "vector_memory"), 16 * 4 * 32 * 16 / (2 * 64));
  EXPECT_EQ(cycles(bound, "scalar"), 4 * 5);
  EXPECT_EQ(cycles(bound, "issue"), 83 - 12);
  EXPECT_STREQ(bound.limit, "vector");
  EXPECT_TRUE(bound.matrix_limit) << "the vector ALU is what multiplies";
  EXPECT_DOUBLE_EQ(bound.matrix_busy, 512.0 / 543);
}

TEST(AmdThroughputBound, AWaveThatIsAloneWaitsForItsTurns) {
  std::vector<AmdInstruction> code = repeated({{"v_mfma_f32_4x4x4_16b_bf16", 1}, {"v_mov_b32", 3}});
  code.push_back({0, "s_nop", "5", {}});
  const ThroughputBound bound = bound_of(code, MatrixTarget::kGfx942, 4, 1);
  EXPECT_EQ(cycles(bound, "issue"), 4 * (4 + 6));
  EXPECT_STREQ(bound.limit, "issue");
}

TEST(AmdThroughputBound, UnknownMatrixInstructionsAreNamed) {
  const AmdUnit& unit = amd_unit(MatrixTarget::kGfx942);
  const auto code = repeated({{"v_smfmac_f32_16x16x32_bf16", 1}});
  const Status status = throughput_bound(instruction_mix(code, unit.target, 64), unit, 4, 1).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("v_smfmac_f32_16x16x32_bf16"));
}

TEST(AmdOccupancy, RegistersLdsAndSlotsLimitWorkgroups) {
  const AmdUnit& cdna = amd_unit(MatrixTarget::kGfx942);
  // 132 registers are given out as 136: three waves of 512.
  const AmdOccupancy registers = amd_occupancy(cdna, bound_kernel(132, 0, 256));
  EXPECT_EQ(registers.waves_per_workgroup, 4);
  EXPECT_EQ(registers.by_registers, 3);
  EXPECT_EQ(registers.by_lds, 8);
  EXPECT_EQ(registers.workgroups, 3);
  EXPECT_EQ(registers.waves(3), 3);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(128, 0, 256)).workgroups, 4);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(512, 0, 256)).workgroups, 1);
  // LDS in pieces of 512 bytes; a launch adds to it.
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 16384, 256)).by_lds, 4);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 16385, 256)).by_lds, 3);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 0, 256), 65536).by_lds, 1);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 512, 256), 65536).by_lds, 0) << "more than there is";
  EXPECT_EQ(amd_occupancy(amd_unit(MatrixTarget::kGfx950), bound_kernel(32, 0, 256), 65536).by_lds, 2);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 0, 64)).workgroups, 32);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 0, 128)).workgroups, 16);
  EXPECT_EQ(amd_occupancy(cdna, bound_kernel(32, 0, 256, 104)).by_scalars, 7);

  const AmdUnit& rdna = amd_unit(MatrixTarget::kGfx1100);
  // 1536 registers in pieces of 24, four SIMDs, 128 KiB of LDS.
  EXPECT_EQ(amd_occupancy(rdna, bound_kernel(256, 0, 256)).by_registers, 2) << "five waves a SIMD, eight a workgroup";
  EXPECT_EQ(amd_occupancy(rdna, bound_kernel(96, 0, 256)).by_registers, 8);
  EXPECT_EQ(amd_occupancy(rdna, bound_kernel(96, 65536, 256)).by_lds, 2);
  EXPECT_EQ(amd_occupancy(rdna, bound_kernel(96, 0, 256, 104)).by_scalars, 8);
}

TEST(AmdOccupancy, LaunchBoundsAreReadFromTheSource) {
  EXPECT_EQ(declared_waves("extern \"C\" __global__ void __launch_bounds__(256, 2) tw_entry(Args a) {}"), 2);
  EXPECT_EQ(declared_waves("__global__ void __launch_bounds__(256) tw_entry(int a, int b) {}"), 0);
  EXPECT_EQ(declared_waves("TILEWRIGHT_KERNEL(tw_entry, 256, 3)(Args a) {}\nTILEWRIGHT_KERNEL_ENTRY(tw_entry)\n"), 3);
  EXPECT_EQ(declared_waves("int x;"), 0);
}

}  // namespace
}  // namespace tilewright
