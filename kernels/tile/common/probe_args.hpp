// SPDX-License-Identifier: MIT
// Arguments of the kernels that measure a GPU's limits. Freestanding: host and kernels share them.
#pragma once

namespace tilewright {

struct ReadProbeArgs {
  const void* data;  // aligned to 16 bytes
  long long words;   // of 16 bytes
  unsigned* sink;    // written only if the words' bits come out as no data has them
};

struct CopyProbeArgs {
  const void* from;  // aligned to 16 bytes, as is `to`
  void* to;
  long long words;  // of 16 bytes
};

struct PeakProbeArgs {
  long long rounds;
  unsigned* sink;  // written only by a grid of more than kPeakSinkBlocks blocks, which none has
};
inline constexpr unsigned kPeakSinkBlocks = 1u << 30;

// A round of the probe of sm_90: two warpgroups, each 64 x 256 of sums, over four stages of 128 bytes of K.
inline constexpr int kWgmmaProbeThreads = 256;
inline constexpr int kWgmmaProbeRows = 128, kWgmmaProbeColumns = 256;
inline constexpr int kWgmmaProbeStages = 4, kWgmmaProbeRowBytes = 128;
inline constexpr int kWgmmaProbeSharedBytes =
    kWgmmaProbeStages * (kWgmmaProbeRows + kWgmmaProbeColumns) * kWgmmaProbeRowBytes + 1024;  // to align in

// A round of the probe of mma.sync: each warp, eight tiles of 16 x 8, four steps of 32 bytes of K.
inline constexpr int kMmaProbeWarps = 8, kMmaProbeThreads = 32 * kMmaProbeWarps;
inline constexpr int kMmaProbeBlocks = 2;  // of a multiprocessor
inline constexpr int kMmaProbeTiles = 8, kMmaProbeSteps = 4;

}  // namespace tilewright
