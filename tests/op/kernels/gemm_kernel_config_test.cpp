// SPDX-License-Identifier: MIT
// Which configs are legal, and that units and blocks cover a problem exactly.
#include <gtest/gtest.h>

#include "gemm/cpu/gemv_cpu_blocking.hpp"

namespace tilewright {
namespace {

TEST(GemmKernelConfig, IllegalConfigsAreRefusedWithTheRule) {
  using enum DType;
  using enum CpuMma;
  for (const GemmCpuConfig& c : {GemmCpuConfig{kF32, kFmaAvx512, 14, 32, 0},
                                 {kF32, kFmaAvx512, 28, 16, 0},
                                 {kF32, kFmaAvx2, 6, 16, 0},
                                 {kI8, kDotI8Avx2, 6, 16, 0},
                                 {kI8, kDotI8, 14, 32, 0},
                                 {kBf16, kDotBf16, 6, 64, 0},
                                 {kBf16, kAmxBf16, 32, 32, 0},
                                 {kI8, kAmxI8, 16, 96, 0},
                                 {kBf16, kAmxBf16, 48, 16, 0}}) {
    EXPECT_EQ(gemm_cpu_refusal(c), nullptr) << gemm_cpu_refusal(c);
  }
  for (const GemmCpuConfig& c : {GemmCpuConfig{kI8, kFmaAvx512, 14, 32, 0},
                                 {kF32, kDotBf16, 14, 32, 0},
                                 {kBf16, kAmxI8, 32, 32, 0},
                                 {kF32, kFmaAvx512, 15, 32, 0},
                                 {kF32, kFmaAvx512, 0, 32, 0},
                                 {kF32, kFmaAvx512, 8, 24, 0},
                                 {kF32, kFmaAvx512, 8, 0, 0},
                                 {kF32, kFmaAvx2, 7, 16, 0},
                                 {kF32, kFmaAvx2, 4, 32, 0},
                                 {kF32, kFmaAvx512, 8, 32, 65},
                                 {kF32, kFmaAvx512, 8, 32, -1},
                                 {kBf16, kAmxBf16, 24, 32, 0},
                                 {kBf16, kAmxBf16, 32, 48, 0},
                                 {kBf16, kAmxBf16, 16, 112, 0},
                                 {kF8E4M3, kFmaAvx512, 8, 32, 0},
                                 {kBf16, kAmxBf16, 32, 32, 8}}) {
    EXPECT_NE(gemm_cpu_refusal(c), nullptr) << c.tile_m << "x" << c.tile_n;
  }
  EXPECT_EQ(gemv_cpu_refusal({kBf16, kFmaAvx512, true, 4, 4, 0}), nullptr);
  EXPECT_NE(gemv_cpu_refusal({kBf16, kAmxBf16, true, 4, 4, 0}), nullptr);
  EXPECT_NE(gemv_cpu_refusal({kBf16, kFmaAvx512, true, 16, 4, 0}), nullptr);
  EXPECT_NE(gemv_cpu_refusal({kBf16, kFmaAvx512, true, 17, 1, 0}), nullptr);
  EXPECT_NE(gemv_cpu_refusal({kBf16, kFmaAvx512, true, 1, 9, 0}), nullptr);
  EXPECT_NE(gemv_cpu_refusal({kBf16, kFmaAvx512, false, 1, 3, 0}), nullptr);
  EXPECT_NE(gemv_cpu_refusal({kF32, kFmaAvx2, true, 4, 2, 0}), nullptr);
}

// Shares follow each other without gap or overlap, and differ by at most one tile.
TEST(GemmKernelConfig, SharesCoverEveryTileOnce) {
  for (int64 tiles : {0, 1, 5, 16, 1000}) {
    for (int64 parts : {1, 2, 3, 16, 77}) {
      EXPECT_EQ(blocking::share_begin(tiles, parts, 0), 0);
      EXPECT_EQ(blocking::share_begin(tiles, parts, parts), tiles);
      for (int64 i = 0; i < parts; ++i) {
        const int64 size = blocking::share_begin(tiles, parts, i + 1) - blocking::share_begin(tiles, parts, i);
        EXPECT_GE(size, tiles / parts);
        EXPECT_LE(size, tiles / parts + 1);
      }
    }
  }
}

void expect_that_blocking_holds_the_problem(const GemmCpuConfig& config) {
  for (int64 m : {1, 33, 1000}) {
    for (int64 n : {2, 100, 4096}) {
      for (int64 k : {0, 1, 777, 14336}) {
        for (int64 units : {1, 2, 5, 64}) {
          for (GateMode gate : {GateMode::kNone, GateMode::kSeparated, GateMode::kInterleaved}) {
            const GemmCpuSizes sizes = {m, n, k, 1, gate, false, 0, 0, 0};
            const GemmCpuBlocking b = gemm_cpu_blocking(config, sizes, units);
            EXPECT_LE(b.units_batch * b.units_m * b.units_n, units);
            EXPECT_GE(b.m_grains * b.row_grain, m);
            EXPECT_GE(b.n_tiles * b.out_tile, b.out_n);
            EXPECT_GE(b.blocks_k * b.block_k, k);
            EXPECT_GE(b.blocks_m * b.block_m, blocking::ceil_div(b.m_grains, b.units_m) * b.row_grain);
            EXPECT_GE(b.blocks_n * b.block_out * b.units_n, b.out_n);
            EXPECT_EQ(b.block_k % 64, 0);
            EXPECT_EQ(b.unit_bytes % 64, 0);
            EXPECT_GT(gemm_cpu_workspace_bytes(config, sizes, units), 0);
          }
        }
      }
    }
  }
}
TEST(GemmKernelConfig, BlockingHoldsTheProblem) {
  expect_that_blocking_holds_the_problem({DType::kBf16, CpuMma::kAmxBf16, 32, 32, 0});
  expect_that_blocking_holds_the_problem({DType::kBf16, CpuMma::kDotBf16, 14, 32, 0});
  expect_that_blocking_holds_the_problem({DType::kF32, CpuMma::kFmaAvx2, 6, 16, 0});
}

// Two threads have the same number of rows, though that is no number of tiles; and a tile has columns of both halves of a gate
// where each begins with a panel.
TEST(GemmKernelConfig, VectorKernelsShareRowsFinelyAndTakeBothHalvesOfAGate) {
  const GemmCpuConfig config = {DType::kF32, CpuMma::kFmaAvx512, 14, 32, 0};
  const GemmCpuBlocking square = gemm_cpu_blocking(config, {2048, 2048, 2048, 1, GateMode::kNone, true, 0, 0, 0}, 2);
  EXPECT_EQ(square.units_m, 2);
  EXPECT_EQ(square.m_grains / 2 * square.row_grain, 1024);
  const GemmCpuBlocking gate = gemm_cpu_blocking(config, {64, 4096, 64, 1, GateMode::kSeparated, true, 0, 0, 0}, 2);
  EXPECT_TRUE(gate.both_halves);
  EXPECT_EQ(gate.out_tile, 16);
  EXPECT_FALSE(gemm_cpu_blocking(config, {64, 4098, 64, 1, GateMode::kSeparated, true, 0, 0, 0}, 2).both_halves);
}

// One row of a large weight: every unit gets columns.
TEST(GemmKernelConfig, SmallMIsSharedOverN) {
  const GemmCpuConfig config = {DType::kBf16, CpuMma::kAmxBf16, 32, 32, 0};
  const GemmCpuBlocking b = gemm_cpu_blocking(config, {16, 4096, 4096, 1, GateMode::kNone, true, 0, 0, 0}, 16);
  EXPECT_EQ(b.units_m, 1);
  EXPECT_EQ(b.units_n, 16);
  const GemmCpuBlocking square = gemm_cpu_blocking(config, {4096, 4096, 4096, 1, GateMode::kNone, true, 0, 0, 0}, 16);
  EXPECT_EQ(square.units_m * square.units_n, 16);
  EXPECT_GT(square.units_m, 1);
  const GemmCpuBlocking batch = gemm_cpu_blocking(config, {16, 64, 64, 32, GateMode::kNone, true, 0, 0, 0}, 16);
  EXPECT_EQ(batch.units_batch, 16);
}

}  // namespace
}  // namespace tilewright
