// SPDX-License-Identifier: MIT
// What each target is and what is legal on it. The one source is arch_specs.json; a build step turns it into the
// constexpr table behind these functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tilewright/dtype.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

enum class ArchVendor : uint8_t { kX86 = 0, kNvidia = 1, kAmd = 2 };

// One matrix (or dot-product) instruction shape that a target can execute.
struct MmaSpec {
  std::string_view name;  // "fma_f32", "dot_bf16", "amx_bf16", "wgmma", "mfma", "wmma"
  DType input;            // element type of A and B
  DType accumulator;      // kF32 or kI32
  int m, n, k;            // one instruction's tile; for CPU vectors m = 1
  double ops_per_cycle;   // operations a unit (core, SM, CU) retires a cycle at best; 0 = not stated
};

// Waves of a workgroup along M, N and K.
struct WaveLayout {
  int m, n, k;
};

// What one wave computes in one step of a main loop: one matrix instruction, or several chained along K.
struct WarpTile {
  DType a, b;
  int m, n, k;
};

// Parts tell apart what shares a target (MI300X, MI325X; H100, H200; one CPU microarchitecture from another).
struct PartSpec {
  std::string_view name;  // "sapphire_rapids", "mi300x"
  std::span<const std::string_view>
      ids;             // what detection sees: of a CPU "intel-6-143" (vendor, family, model), of a GPU its name
  int units;           // cores, SMs, CUs; 0 = varies
  double memory_gib;   // 0 = not stated
  double memory_gbps;  // 0 = not stated
  int64_t l2_bytes;    // whole device for GPUs, a core for CPUs
  int64_t last_level_bytes;
  int hardware_streams;  // CPU: streams from memory that a core's prefetcher keeps up with alone; 0 = not measured
};

struct ArchSpec {
  std::string_view target;  // "x86-64-v4-amx", "sm_90a", "gfx942"
  std::string_view base;    // the target whose code this one also runs; "" = none
  ArchVendor vendor;
  std::string_view family;                     // "x86-64", "Hopper", "CDNA3"
  int wave_size;                               // 1 on CPUs
  int64_t shared_bytes;                        // shared memory or LDS a workgroup can use; 0 on CPUs
  int max_threads;                             // per workgroup; 1 on CPUs
  int registers;                               // vector registers a thread (CPU: architectural vector registers)
  int vector_bytes;                            // CPU: vector register width; GPU: widest load a lane issues
  std::string_view fp8;                        // "none", "e4m3", "e4m3fnuz"
  std::span<const std::string_view> features;  // CPU: cpuid names that must be there ("avx512_bf16")
  std::span<const std::string_view> flags;     // compiler flags of the target
  std::span<const MmaSpec> mma;                // inherited, then own
  std::span<const WaveLayout> wave_layouts;    // AMD GPUs: legal layouts of a GEMM's waves
  std::span<const WarpTile> warp_tiles;        // AMD GPUs: legal warp tiles of a GEMM
  std::span<const PartSpec> parts;
};

std::span<const ArchSpec> arch_specs();
// Null when unknown.
const ArchSpec* find_arch(std::string_view target);
// The error lists every known target.
Result<const ArchSpec*> require_arch(std::string_view target);
// True when code compiled for `code_target` runs on a device of `device_target` (equal, or in its chain of bases).
bool runs_on(std::string_view code_target, std::string_view device_target);
// The first of that name; null when the target has no such instruction.
const MmaSpec* find_mma(const ArchSpec& arch, std::string_view name);
// What the measured rate of the instruction is called: its name, with the type where the name has none. One type stands
// for all of the same rate: "wgmma_bf16" is also that of f16, "wgmma_e4m3" that of e5m2.
std::string peak_name(const MmaSpec& mma);
// The part of any target that carries the id; null when unknown.
const PartSpec* find_part(std::string_view id);
// The target's part of that name; null when it has none.
const PartSpec* find_part(const ArchSpec& arch, std::string_view name);

// The running CPU.
struct CpuInfo {
  std::string vendor;       // "GenuineIntel"
  std::string brand;        // "Intel(R) Xeon(R) Processor"
  std::string part;         // tuned tables' part: "intel-6-143" (vendor, family, model) or a name from arch_specs.json
  std::string_view target;  // best target that the CPU and the operating system allow; "" on other than x86-64
  int cores = 1;            // cores this process may use (affinity and cgroup quota respected)
  int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;
};

// Detected once; TILEWRIGHT_CPU_TARGET lowers the target (never raises it).
const CpuInfo& cpu_info();
// Asks Linux for permission to use AMX tiles; true when the process has it. Called by detection.
bool request_amx();

}  // namespace tilewright
