// SPDX-License-Identifier: MIT
// The loops behind fma_limits.hpp, compiled for AVX-512.
#include "fma_limits.hpp"

#include "gemm/cpu/gemm_micro_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {
namespace {

constexpr int kRows = kFmaLimitRows, kPanels = kFmaLimitColumns / kPanelColumns;
constexpr int64 kSteps = kFmaLimitSteps, kMiB = 1 << 20;
// A block of the kernel: so many panels of A in the second level, which pass a tile of B after the other.
constexpr int64 kPanelsA = 7, kPanelBytesA = kRows * kSteps * 4, kPanelBytesB = kSteps * 64,
                kTileBytesB = kPanels * kPanelBytesB;
constexpr int64 kTilesB = 60, kSumStride = kFmaLimitColumns + 16;
constexpr int64 kRowBytesD = 8192, kTilesD = kRowBytesD / (kFmaLimitColumns * 4);

// The same products of operands that stay in registers.
void run_registers(char* memory, long long calls) {
  F32x16 acc[kRows][kPanels], b[kPanels];
  const F32x16 a = F32x16::load(memory);
  unroll<kPanels>([&](auto p) __attribute__((always_inline)) { b[p] = F32x16::load(memory + 64 + p * 64); });
  unroll<kRows * kPanels>([&](auto t) __attribute__((always_inline)) {
    acc[t / kPanels][t % kPanels] = F32x16::load(memory + 4096 + t * 64);
  });
  for (int64 step = 0; step < calls * kSteps; ++step) {
    unroll<kRows * kPanels>([&](auto t) __attribute__((always_inline)) {
      F32x16& sum = acc[t / kPanels][t % kPanels];
      sum = fma(a, b[t % kPanels], sum);
    });
  }
  unroll<kRows * kPanels>(
      [&](auto t) __attribute__((always_inline)) { acc[t / kPanels][t % kPanels].store(memory + 31 * kMiB + t * 64); });
}

// Sums that go straight to D, past the caches, as those of the last block of k do.
struct StreamSums {
  char* d;
  TILEWRIGHT_INLINE bool operator()(const F32x16 (&acc)[kRows][kPanels]) const {
    if (d == nullptr) return false;
    unroll<kRows * kPanels>([&](auto t) __attribute__((always_inline)) {
      const F32x16 line[1] = {acc[t / kPanels][t % kPanels]};
      stream_line<DType::kF32>(d + t / kPanels * kRowBytesD + t % kPanels * 64, line);
    });
    return true;
  }
};

// The micro-kernel over panels of A and tiles of B, of which there are `tiles`: one stays in the second level, sixty come from
// the third. With D every second call ends in it: K = 2 * kSteps.
template <int64 kTiles, bool kToD>
void run_micro(char* memory, long long calls) {
  char *a = memory, *sums = memory + kMiB, *b = memory + 2 * kMiB, *d = memory + 16 * kMiB;
  int64 tile = 0;
  for (int64 call = 0; call < calls; tile = (tile + 1) % kTiles) {
    const char *columns = b + tile * kTileBytesB, *next = b + (tile + 1) % kTiles * kTileBytesB;
    for (int64 panel = 0; panel < kPanelsA && call < calls; ++panel, ++call) {
      PanelLines<kPanels> lines = {};
      FetchStreams<kPanels + 2> streams = {};
      unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        lines.base[p] = columns + p * kPanelBytesB;
        streams.stream[p] = {next + p * kPanelBytesB + panel * (kPanelBytesB / kPanelsA), 64 / kPanelsA};
      });
      streams.stream[kPanels] = streams.stream[kPanels + 1] = {a, 0};
      lines.stride = 64;
      float* sum = reinterpret_cast<float*>(sums) + panel * kRows * kSumStride;
      char* tile_of_d = d + (panel * kRows * kTilesD + tile % kTilesD) * (kFmaLimitColumns * 4);
      const auto finish = [&](const auto& acc) __attribute__((always_inline)) {
        return StreamSums{kToD && call % 2 != 0 ? tile_of_d : nullptr}(acc);
      };
      micro_vector<DType::kF32, CpuMma::kFmaAvx512, kRows, kPanels, false, 0, kPanels + 2>(
          a + panel * kPanelBytesA, kSteps, lines, {sum, kSumStride, sum, kSumStride}, streams, finish);
    }
  }
}

constexpr FmaLimit kLimits[] = {
    {"operands in registers", run_registers},
    {"A and B from L2", run_micro<1, false>},
    {"A from L2, B from L3 once in 98 rows", run_micro<kTilesB, false>},
    {"the same, and D written past the caches", run_micro<kTilesB, true>},
};

}  // namespace
}  // namespace TILEWRIGHT_ISA

const FmaLimits& fma_limits() {
  static const FmaLimits limits = {kLimits, static_cast<int>(sizeof(kLimits) / sizeof(kLimits[0]))};
  return limits;
}

}  // namespace tilewright
