// SPDX-License-Identifier: MIT
// The kernel families behind gemm, one line each.
#pragma once

#include "dispatch/registry/family.hpp"

namespace tilewright {

const KernelFamily& gemm_cpu_family();                 // cache-blocked, a micro-kernel per instruction set
const KernelFamily& gemm_dequant_cpu_family();         // the same of operands that are widened or scaled first
const KernelFamily& gemv_cpu_family();                 // M <= 16, bandwidth-bound
const KernelFamily& gemv_dequant_cpu_family();         // M <= 16, weights of 4 or 8 bits beside an A of 16
const KernelFamily& gemv_dequant_packed_cpu_family();  // the same of packed weights
const KernelFamily& gemm_generic_family();             // typed at run time, always built, every valid problem

const KernelFamily& gemm_sm90_family();               // Hopper: wgmma and the copy engine
const KernelFamily& gemm_sm90_skinny_family();        // Hopper: M <= 128, the weights on wgmma's side of 64
const KernelFamily& gemm_sm90_dequant_family();       // Hopper: M <= 128, 16-bit A, weights widened in registers
const KernelFamily& gemm_sm90_dequant_many_family();  // the same of any M
const KernelFamily& gemv_gpu_family();                // every NVIDIA GPU: M <= 8, weights streamed once
const KernelFamily& gemv_dot_gpu_family();            // every NVIDIA GPU: M <= 2, a warp a row of the weights
const KernelFamily& gemv_dequant_gpu_family();  // every NVIDIA GPU: M <= 16, 16-bit A, weights widened in registers
const KernelFamily& gemm_portable_family();     // every NVIDIA GPU: mma.sync, any strides
const KernelFamily& gemm_cublaslt_family();     // NVIDIA's library, opened at run time
const KernelFamily& gemm_amd_family();          // AMD GPUs: MFMA and WMMA
const KernelFamily& gemv_amd_family();          // AMD GPUs: M <= 32, weights streamed once
const KernelFamily& gemm_generic_gpu_family();  // gemm_generic of GPUs

}  // namespace tilewright
