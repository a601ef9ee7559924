// SPDX-License-Identifier: MIT
// Multiplies as fast as mma.sync can: random operands and sums in registers. What the rates of kernels are compared with.
#pragma once

#include "tile/common/probe_args.hpp"
#include "tile/common/probe_data.hpp"
#include "tile/portable/mma.cuh"

namespace tilewright::portable {

template <DType kType>
__device__ __forceinline__ void multiply_all(const PeakProbeArgs& args) {
  using Step = Mma<kType>;
  unsigned a[kMmaProbeSteps][4], b[kMmaProbeSteps][2];
  const unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) * 64;
#pragma unroll
  for (int step = 0; step < kMmaProbeSteps; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[step][i] = random_word<kType>(first + step * 8 + i);
#pragma unroll
    for (int i = 0; i < 2; ++i) b[step][i] = random_word<kType>(first + step * 8 + 4 + i);
  }
  typename Step::Accumulator sums[kMmaProbeTiles][4] = {};
  for (long long round = 0; round < args.rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kMmaProbeSteps; ++step) {
      // Neighbouring tiles take another step's operands, so that these change from one instruction to the next.
#pragma unroll
      for (int tile = 0; tile < kMmaProbeTiles; ++tile) {
        const int other = (step + tile) % kMmaProbeSteps;
        Step::run(sums[tile], a[other], b[step][0], b[step][1]);
      }
    }
  }
  // Never true; the sums are needed all the same.
  if (gridDim.x > kPeakSinkBlocks) {
#pragma unroll
    for (int tile = 0; tile < kMmaProbeTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) args.sink[threadIdx.x + tile * 4 + i] = static_cast<unsigned>(sums[tile][i]);
    }
  }
}

}  // namespace tilewright::portable
