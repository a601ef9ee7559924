// SPDX-License-Identifier: MIT
// What one compute unit of an AMD GPU has and does in a cycle, and how many waves of a kernel it holds.
//
// Sources:
//  [profiler] ROCm Compute Profiler documentation, "Pipeline descriptions" (ROCm/rocprofiler-compute,
//             docs/conceptual/pipeline-descriptions.rst): four SIMDs of 16 lanes; of each instruction category one is
//             issued a cycle, from the SIMD whose turn it is, so every fourth cycle for one SIMD; matrix instructions are
//             issued as vector ones and let others run in their shadow; LDS of 32 banks of four bytes, 128 bytes a cycle.
//  [hip]      HIP documentation, "Hardware implementation": a wave of 64 takes a SIMD of 16 lanes four cycles; of five
//             categories (vector, vector memory, scalar with scalar memory, LDS, branch) one instruction each a cycle.
//  [matrix]   ROCm/amd_matrix_instruction_calculator 1.3.2: an MFMA lets vector instructions run in all but four of its
//             cycles, a WMMA of RDNA3 in none ("Can co-execute with VALU: False").
//  [llvm]     LLVM's AMDGPU backend: GCNProcessors.td and AMDGPUBaseInfo.cpp (registers and their granules, waves,
//             workgroups, LDS and its granules), SISchedule.td (rates).
//  [rdna]     RDNA3 Instruction Set Architecture, 2.3 and 12.1: a workgroup processor is two compute units of two SIMDs of
//             32 lanes; its LDS is two sets of 32 banks, one beside each pair of SIMDs.
//  [gcn]      AMD Graphics Cores Next Architecture, white paper: 64 bytes a cycle from the vector cache; the addresses of 16
//             lanes a cycle.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/hip/object/code_object.hpp"
#include "tile/emu/matrix/table.hpp"

namespace tilewright {

// What the waves of a workgroup are spread over: a compute unit of CDNA; of RDNA a workgroup processor, two compute units,
// for clang compiles in that mode.
struct AmdUnit {
  emu::MatrixTarget target;
  int compute_units;
  int simds;
  int lanes;               // of a wave
  int issue_cycles;        // of a SIMD between two instructions of one category: 4 [hip], 1 [rdna]
  bool matrix_in_vector;   // a matrix instruction keeps the vector ALU busy for all its cycles [matrix]
  bool slow_conversions;   // at a quarter of the rate [llvm, WriteFloatCvt]
  int waves;               // that a SIMD holds [llvm]
  int registers, granule;  // vector registers of a lane that a SIMD has, and how they are given out [llvm]
  bool scalar_limit;       // scalar registers are given out too [llvm]
  int workgroups;          // of several waves each, by barriers [llvm]
  int64_t lds_bytes;       // [llvm]
  int lds_granule;         // [llvm]
};

// Bytes a cycle of one compute unit. gfx950 has 64 banks; without an instruction-set manual that says what its ports carry,
// it is counted as the others.
inline constexpr int kLdsBytesPerCycle = 128;          // [profiler, rdna]
inline constexpr int kVectorMemoryBytesPerCycle = 64;  // [gcn]; RDNA is counted as that

inline constexpr AmdUnit kAmdUnits[] = {
    {emu::MatrixTarget::kGfx90a, 1, 4, 64, 4, false, true, 8, 512, 8, true, 16, 65536, 512},
    {emu::MatrixTarget::kGfx942, 1, 4, 64, 4, false, true, 8, 512, 8, true, 16, 65536, 512},
    {emu::MatrixTarget::kGfx950, 1, 4, 64, 4, false, true, 8, 512, 8, true, 16, 163840, 1280},
    {emu::MatrixTarget::kGfx1100, 2, 4, 32, 1, true, false, 16, 1536, 24, false, 32, 131072, 512},
    {emu::MatrixTarget::kGfx1201, 2, 4, 32, 1, true, false, 16, 1536, 24, false, 32, 131072, 512},
};
constexpr const AmdUnit& amd_unit(emu::MatrixTarget target) { return kAmdUnits[static_cast<int>(target)]; }

// How many workgroups a unit holds, by each of its means.
struct AmdOccupancy {
  int waves_per_workgroup = 0;
  int by_registers = 0, by_scalars = 0, by_lds = 0, by_slots = 0;  // workgroups
  int workgroups = 0;                                              // the least of them
  int simds = 1;
  // Waves of a SIMD, of `held` workgroups.
  double waves(int held) const { return static_cast<double>(held) * waves_per_workgroup / simds; }
};

// `launch_lds`: what a launch adds to the kernel's own.
AmdOccupancy amd_occupancy(const AmdUnit& unit, const AmdKernel& kernel, int64_t launch_lds = 0);

// The waves of a SIMD that a kernel's source declares: __launch_bounds__(threads, waves), TILEWRIGHT_KERNEL(entry, threads,
// waves); 0 = none.
int declared_waves(std::string_view source);

}  // namespace tilewright
