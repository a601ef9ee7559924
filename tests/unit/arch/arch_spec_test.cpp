// SPDX-License-Identifier: MIT
// The generated table: what code relies on, and what only the finished table can show.
#include "arch/arch_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "gemm/gemm_args.hpp"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ArchSpec& arch_of(const char* target) {
  const ArchSpec* arch = find_arch(target);
  EXPECT_NE(arch, nullptr) << target;
  return arch != nullptr ? *arch : arch_specs().front();
}

bool has_warp_tile(const ArchSpec& arch, DType a, int m, int n, int k) {
  return std::any_of(arch.warp_tiles.begin(), arch.warp_tiles.end(),
                     [&](const WarpTile& tile) { return tile.a == a && tile.m == m && tile.n == n && tile.k == k; });
}

TEST(ArchTable, EveryPromisedTargetIsThereOnce) {
  std::map<std::string_view, int> seen;
  for (const ArchSpec& arch : arch_specs()) ++seen[arch.target];
  for (const auto& [target, times] : seen) EXPECT_EQ(times, 1) << target;
  for (const char* promised : {"x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx", "sm_80", "sm_90a",
                               "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}) {
    EXPECT_EQ(seen.count(promised), 1u) << promised;
  }
}

TEST(ArchTable, UnknownTargetsAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(find_arch(""), nullptr);
  const auto result = require_arch("sm_91");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(result.status().message(), HasSubstr("'sm_91' is unknown; known: x86-64, x86-64-v3, x86-64-v4"));
  ASSERT_TRUE(require_arch("sm_90a").ok());
  EXPECT_EQ((*require_arch("sm_90a"))->target, "sm_90a");
}

// Code for another architecture must never be loaded.
TEST(ArchTable, CodeRunsOnItsTargetAndOnThoseBuiltOnIt) {
  EXPECT_TRUE(runs_on("x86-64-v3", "x86-64-v3"));
  EXPECT_TRUE(runs_on("x86-64-v3", "x86-64-v4-amx"));
  EXPECT_FALSE(runs_on("x86-64-v4-amx", "x86-64-v4-bf16"));
  EXPECT_FALSE(runs_on("sm_80", "sm_90a"));
  EXPECT_FALSE(runs_on("gfx942", "gfx950"));
  EXPECT_FALSE(runs_on("", "x86-64-v3"));
  EXPECT_FALSE(runs_on("x86-64-v3", "unknown"));
}

TEST(ArchTable, EveryCpuMmaIsOneThatConfigsCanName) {
  std::set<std::string_view> seen;
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor != ArchVendor::kX86) continue;
    for (const MmaSpec& mma : arch.mma) seen.insert(mma.name);
  }
  EXPECT_EQ(seen, std::set<std::string_view>(std::begin(kCpuMmaNames), std::end(kCpuMmaNames)));
}

TEST(ArchTable, DerivedCpuTargetsInheritAndAdd) {
  const ArchSpec& v3 = arch_of("x86-64-v3");
  const ArchSpec& amx = arch_of("x86-64-v4-amx");
  EXPECT_NE(find_mma(amx, "fma_avx2"), nullptr);
  EXPECT_EQ(find_mma(v3, "amx_bf16"), nullptr);
  EXPECT_EQ(find_mma(arch_of("x86-64-v4"), "dot_bf16"), nullptr);
  const MmaSpec* tile = find_mma(amx, "amx_bf16");
  ASSERT_NE(tile, nullptr);
  EXPECT_EQ(tile->input, DType::kBf16);
  EXPECT_EQ(tile->accumulator, DType::kF32);
  EXPECT_EQ(tile->m * tile->n * tile->k, 16 * 16 * 32);
  EXPECT_EQ(tile->ops_per_cycle, 1024);
  EXPECT_EQ(find_mma(amx, "amx_i8")->ops_per_cycle, 2048);
  EXPECT_EQ(amx.family, "x86-64");
  EXPECT_EQ(amx.vector_bytes, 64);
  EXPECT_EQ(amx.registers, 32);
  for (const std::string_view feature : v3.features) {
    EXPECT_NE(std::find(amx.features.begin(), amx.features.end(), feature), amx.features.end()) << feature;
  }
  EXPECT_THAT(arch_of("x86-64-v4-bf16").flags, ElementsAre("-march=x86-64-v4", "-mavx512bf16", "-mavx512vnni"));
}

TEST(ArchTable, GpuLimitsAreThoseAWorkgroupCanUse) {
  EXPECT_EQ(arch_of("sm_80").shared_bytes, 163 * 1024);
  EXPECT_EQ(arch_of("sm_90a").shared_bytes, 227 * 1024);
  EXPECT_EQ(arch_of("gfx942").shared_bytes, 64 * 1024);
  EXPECT_EQ(arch_of("gfx950").shared_bytes, 160 * 1024);
  EXPECT_EQ(arch_of("gfx1100").shared_bytes, 64 * 1024);
  for (const char* wide : {"gfx90a", "gfx942", "gfx950"}) EXPECT_EQ(arch_of(wide).wave_size, 64);
  for (const char* narrow : {"sm_80", "sm_90a", "gfx1100", "gfx1201"}) EXPECT_EQ(arch_of(narrow).wave_size, 32);
}

// A target without an fp8 instruction must not list fp8 tiles, and FNUZ and OCP must not meet on one target.
TEST(ArchTable, EightBitFloatsFollowTheTargetsFlavour) {
  for (const ArchSpec& arch : arch_specs()) {
    std::set<DType> types;
    for (const MmaSpec& mma : arch.mma) types.insert(mma.input);
    for (const WarpTile& tile : arch.warp_tiles) types.insert({tile.a, tile.b});
    const bool ocp = types.count(DType::kF8E4M3) + types.count(DType::kF8E5M2) > 0;
    const bool fnuz = types.count(DType::kF8E4M3Fnuz) + types.count(DType::kF8E5M2Fnuz) > 0;
    EXPECT_EQ(ocp, arch.fp8 == "e4m3") << arch.target;
    EXPECT_EQ(fnuz, arch.fp8 == "e4m3fnuz") << arch.target;
  }
}

TEST(ArchTable, WarpTilesAreWholeInstructionsOrChainsOfThemAlongK) {
  EXPECT_TRUE(has_warp_tile(arch_of("gfx942"), DType::kF16, 32, 32, 8));
  EXPECT_TRUE(has_warp_tile(arch_of("gfx950"), DType::kF4E2M1, 16, 16, 128));
  EXPECT_FALSE(has_warp_tile(arch_of("gfx1100"), DType::kF16, 32, 32, 8));
  for (const ArchSpec& arch : arch_specs()) {
    for (const WarpTile& tile : arch.warp_tiles) {
      // 4x64 and 64x4 are made of four 4x4 blocks a wave, which no MmaSpec lists.
      if (tile.m == 4 || tile.n == 4) continue;
      const bool made = std::any_of(arch.mma.begin(), arch.mma.end(), [&](const MmaSpec& mma) {
        return mma.input == tile.a && mma.m == tile.m && mma.n == tile.n && tile.k % mma.k == 0;
      });
      EXPECT_TRUE(made) << arch.target << " " << dtype_name(tile.a) << " " << tile.m << "x" << tile.n << "x" << tile.k;
    }
  }
}

TEST(ArchTable, PartsTellDevicesOfOneTargetApart) {
  const PartSpec* part = find_part("intel-6-143");
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->name, "sapphire_rapids");
  EXPECT_EQ(find_part("intel-6-207")->name, "emerald_rapids");
  EXPECT_EQ(find_part("amd-25-17")->name, "zen4");
  EXPECT_EQ(find_part("intel-6-9999"), nullptr);
  int units = 0;
  for (const PartSpec& p : arch_of("gfx942").parts) {
    if (p.name == "mi300x") units = p.units;
  }
  EXPECT_EQ(units, 304);
}

}  // namespace
}  // namespace tilewright
