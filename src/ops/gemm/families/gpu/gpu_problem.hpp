// SPDX-License-Identifier: MIT
// What the GPU families of gemm share: what any of them refuses, which part of the epilogue a problem needs compiled in,
// how its operands lie in memory, and the source of an instance.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// "NVIDIA"
std::string_view vendor_name(ArchVendor vendor);
// Ok, or why no kernel for the vendor's GPUs serves this device.
Status check_gpu(const DeviceSpec& device, ArchVendor vendor);
// Nominal, of the device's memory; an order of magnitude where its part states none.
double memory_bytes_per_second(const DeviceSpec& device);
// Of an SM; an order of magnitude where the device states none.
double clock_hz(const DeviceSpec& device);
// Ok, or why no kernel that multiplies tiles serves the problem.
Status check_tiled_problem(const GemmProblem& problem);
Status check_not_packed(const GemmProblem& problem);
// The same but for packed weights of 8 bits and more.
Status check_packed_bits(const GemmProblem& problem, const DeviceSpec& device);

// Ok, or why A and B cannot be read in pieces of 16 bytes along K, counted in 32 bits.
Status check_rows_of_words(const GemmProblem& problem);
// The part of it that asks how rows lie; packed ones do not.
Status check_rows_along_k(const GemmProblem& problem);

// The least that does it.
GemmEpilogueConfig choose_epilogue(const GemmProblem& problem);
// Ok, or why a kernel with the epilogue `have` does not serve the problem. A full one serves every problem of its gate.
Status check_gpu_epilogue(const GemmEpilogueConfig& have, const GemmProblem& problem);

// Instances that are built ahead are made for these: one an input type, weights as [N, K]; 8-bit types are scaled, those
// of floats as the target has them; f32 with and without tf32.
std::vector<GemmProblem> usual_gpu_problems(const ArchSpec& arch);

// How A or B can be copied: along which dimension its elements are neighbours, and in pieces of how many bytes (16, 4, or
// 0 = by elements).
struct OperandAccess {
  Major major;
  int copy;
};
OperandAccess access_a(const GemmProblem& problem);
OperandAccess access_b(const GemmProblem& problem);
// Whether D is of 16 bits, its rows contiguous, at multiples of 16 bytes and of whole pieces of 16.
bool has_d_words(const GemmProblem& problem);

// `entry` calls `kernel`, "gemm_portable<tilewright::GemmPortableConfig{...}>", with the argument struct `args`, both of
// namespace tilewright. `blocks`, a bound for registers: that an SM must be able to hold; of AMD's, waves of a SIMD.
std::string gpu_instance_source(ArchVendor vendor, std::string_view header, std::string_view entry,
                                std::string_view kernel, std::string_view args, int threads, int blocks);

}  // namespace tilewright
