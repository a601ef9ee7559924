// SPDX-License-Identifier: MIT
// Multiplies as fast as wgmma can: random operands that stay in shared memory, sums that stay in registers. What the rates
// of kernels are compared with.
#pragma once

#include "tile/common/probe_args.hpp"
#include "tile/common/probe_data.hpp"
#include "tile/sm90/wgmma.cuh"

namespace tilewright::sm90 {

template <DType kType>
__device__ __forceinline__ void multiply_all(const PeakProbeArgs& args) {
  using Wgmma = WgmmaInstruction<kType, kType, kWgmmaProbeColumns>;
  constexpr int kBytesA = kWgmmaProbeRows * kWgmmaProbeRowBytes, kBytesB = kWgmmaProbeColumns * kWgmmaProbeRowBytes;
  constexpr int kInstructions = kWgmmaProbeRowBytes / 32;
  extern __shared__ unsigned char probe_memory[];
  unsigned char* const tiles = probe_memory + (1024 - shared_address(probe_memory) % 1024) % 1024;

  // Every stage has data of its own, so that operands change from one instruction to the next as in a product.
  auto* const words = reinterpret_cast<unsigned*>(tiles);
  for (unsigned i = threadIdx.x; i < kWgmmaProbeStages * (kBytesA + kBytesB) / 4; i += blockDim.x) {
    words[i] = random_word<kType>(blockIdx.x * 65536u + i);
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();

  typename Wgmma::Accumulator sums[kWgmmaProbeColumns / 2] = {};
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const unsigned long long a = descriptor<Major::kK>(shared_address(tiles) + warpgroup * 64 * kWgmmaProbeRowBytes, 0);
  const unsigned long long b = descriptor<Major::kK>(shared_address(tiles) + kWgmmaProbeStages * kBytesA, 0);
  for (long long round = 0; round < args.rounds; ++round) {
    begin_products();
#pragma unroll
    for (int stage = 0; stage < kWgmmaProbeStages; ++stage) {
#pragma unroll
      for (int i = 0; i < kInstructions; ++i) {
        Wgmma::template multiply<0, 0>(sums, a + stage * (kBytesA >> 4) + i * kDescriptorStep<Major::kK>,
                                       b + stage * (kBytesB >> 4) + i * kDescriptorStep<Major::kK>, 1);
      }
    }
    commit_products();
    wait_products<1>();
  }
  wait_products<0>();
  pin(sums);
  // Never true; the sums are needed all the same.
  if (gridDim.x > kPeakSinkBlocks) {
#pragma unroll
    for (int i = 0; i < kWgmmaProbeColumns / 2; ++i) args.sink[threadIdx.x + i] = static_cast<unsigned>(sums[i]);
  }
}

}  // namespace tilewright::sm90
