// SPDX-License-Identifier: MIT
// MFMA, lane by lane: every row of the table on every target that has it. The rules of this file are those of the matrix
// instruction calculator written out for each shape; the emulation's own are not used.
#include <gmock/gmock.h>

#include <map>

#include "emulated/amd/matrix/check.hpp"

namespace tilewright::emulated {
namespace {

// Consecutive k that a lane holds, from the calculator's "register layout" of each instruction; of the forms that it does
// not know (gfx950) all that its registers hold: 8 of 16 bits, 16 of 8 bits.
const std::map<std::string, int>& k_of_a_lane() {
  static const std::map<std::string, int> table = {
      {"mfma_f32_32x32x1f32", 1},       {"mfma_f32_16x16x1f32", 1},       {"mfma_f32_4x4x1f32", 1},
      {"mfma_f32_32x32x2f32", 1},       {"mfma_f32_16x16x4f32", 1},       {"mfma_f32_32x32x4f16", 4},
      {"mfma_f32_16x16x4f16", 4},       {"mfma_f32_4x4x4f16", 4},         {"mfma_f32_32x32x8f16", 4},
      {"mfma_f32_16x16x16f16", 4},      {"mfma_f32_32x32x2bf16", 2},      {"mfma_f32_16x16x2bf16", 2},
      {"mfma_f32_4x4x2bf16", 2},        {"mfma_f32_32x32x4bf16", 2},      {"mfma_f32_16x16x8bf16", 2},
      {"mfma_f32_32x32x4bf16_1k", 4},   {"mfma_f32_16x16x4bf16_1k", 4},   {"mfma_f32_4x4x4bf16_1k", 4},
      {"mfma_f32_32x32x8bf16_1k", 4},   {"mfma_f32_16x16x16bf16_1k", 4},  {"mfma_i32_32x32x4i8", 4},
      {"mfma_i32_16x16x4i8", 4},        {"mfma_i32_4x4x4i8", 4},          {"mfma_i32_32x32x8i8", 4},
      {"mfma_i32_16x16x16i8", 4},       {"mfma_f64_16x16x4f64", 1},       {"mfma_f64_4x4x4f64", 1},
      {"mfma_i32_32x32x16_i8", 8},      {"mfma_i32_16x16x32_i8", 8},      {"mfma_f32_32x32x4_xf32", 2},
      {"mfma_f32_16x16x8_xf32", 2},     {"mfma_f32_32x32x16_fp8_fp8", 8}, {"mfma_f32_32x32x16_fp8_bf8", 8},
      {"mfma_f32_32x32x16_bf8_fp8", 8}, {"mfma_f32_32x32x16_bf8_bf8", 8}, {"mfma_f32_16x16x32_fp8_fp8", 8},
      {"mfma_f32_16x16x32_fp8_bf8", 8}, {"mfma_f32_16x16x32_bf8_fp8", 8}, {"mfma_f32_16x16x32_bf8_bf8", 8},
      {"mfma_f32_32x32x16_f16", 8},     {"mfma_f32_16x16x32_f16", 8},     {"mfma_f32_32x32x16_bf16", 8},
      {"mfma_f32_16x16x32_bf16", 8},    {"mfma_i32_32x32x32_i8", 16},     {"mfma_i32_16x16x64_i8", 16},
  };
  return table;
}

// A and B: 32 rows in 32 lanes, two blocks side by side or two groups of k; 16 rows: four; 4 rows: sixteen (f64: four
// blocks and four groups of k).
MatrixPlaces mfma_places(const MatrixInstruction& row) {
  const int run = k_of_a_lane().at(row.name), bits = bits_of(row.a);
  const auto input = [=, &row](int block, int i, int k) {
    const int side_by_side = row.m * row.blocks;  // lanes that one group of k fills
    return std::vector<Spot>{{block * row.m + i + k / run * side_by_side, k % run * bits}};
  };
  const auto output = [&row](int block, int i, int j) -> Spot {
    if (row.d == MatrixElement::kF64) {
      return row.m == 16 ? Spot{16 * (i % 4) + j, 64 * (i / 4)} : Spot{16 * i + 4 * block + j, 0};
    }
    if (row.m == 32) return {j + 32 * (i / 4 % 2), 32 * (16 * block + 4 * (i / 8) + i % 4)};
    if (row.m == 16) return {j + 16 * (i / 4), 32 * (4 * block + i % 4)};
    return {4 * block + j, 32 * i};
  };
  return {input, input, output};
}

const Instance& mfma(const char* name, MatrixTarget target) {
  static const std::vector<Instance> all = instances<MatrixLayout::kMfma>();
  for (const Instance& i : all) {
    if (i.row->name == std::string(name) && i.target == target) return i;
  }
  throw std::runtime_error(std::string("no ") + name);
}

TEST(EmulatedMfma, EveryRowMultipliesMatricesPlacedByTheCalculatorsRules) {
  std::mt19937_64 random(1);
  int count = 0;
  for (const Instance& instance : instances<MatrixLayout::kMfma>()) {
    check_matrix(instance, mfma_places(*instance.row), random);
    if (HasFailure()) return;
    ++count;
  }
  EXPECT_EQ(count, 27 + 32 + 36);  // gfx90a, gfx942, gfx950
}

// calculator, _get_cbsz_abid_transformed_block: "broadcast one block to 2^cbsz blocks".
TEST(EmulatedMfma, CbszBroadcastsBlockAbidOfA) {
  std::mt19937_64 random(2);
  for (const char* name : {"mfma_f32_32x32x1f32", "mfma_f32_16x16x4f16", "mfma_i32_4x4x4i8"}) {
    const Instance& instance = mfma(name, MatrixTarget::kGfx90a);
    const int blocks = instance.row->blocks, size = instance.row->m * instance.row->k;
    for (int cbsz = 1; 1 << cbsz <= blocks; ++cbsz) {
      const int group = 1 << cbsz;
      for (int abid = 0; abid < group; ++abid) {
        ASSERT_TRUE(takes(*instance.row, instance.target, {.cbsz = cbsz, .abid = abid}));
        MatrixProblem p(instance, mfma_places(*instance.row));
        p.fill_random(random);
        p.run({.cbsz = cbsz, .abid = abid});
        const std::vector<std::uint64_t> a = p.a;
        for (int block = 0; block < blocks; ++block) {
          const int from = block / group * group + abid;
          std::copy_n(a.begin() + static_cast<long>(from) * size, size, p.a.begin() + static_cast<long>(block) * size);
        }
        p.expect_product();
      }
    }
    EXPECT_FALSE(takes(*instance.row, instance.target, {.cbsz = 5}));
    EXPECT_FALSE(takes(*instance.row, instance.target, {.cbsz = 1, .abid = 2}));
  }
}

// calculator, _get_blgp_transformed_lane: which lane each group of 16 lanes reads.
TEST(EmulatedMfma, BlgpPermutesLanesOfB) {
  constexpr int kSource[8][4] = {{0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
                                 {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
  std::mt19937_64 random(3);
  const Instance& instance = mfma("mfma_f32_16x16x4f32", MatrixTarget::kGfx942);  // lane group = k
  for (int blgp = 0; blgp < 8; ++blgp) {
    ASSERT_TRUE(takes(*instance.row, instance.target, {.blgp = blgp}));
    MatrixProblem p(instance, mfma_places(*instance.row));
    p.fill_random(random);
    p.run({.blgp = blgp});
    const std::vector<std::uint64_t> b = p.b;
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < 16; ++j) p.b_at(0, k, j) = b[static_cast<size_t>(kSource[blgp][k]) * 16 + j];
    }
    p.expect_product();
  }
}

TEST(EmulatedMfma, ModifiersThatAreNotDocumentedAreRefused) {
  using emu::matrix_row;
  using emu::matrix_rows::kRows;
  const auto refused = [](const char* name, MatrixTarget target, const MatrixModifiers& m) {
    return !takes(kRows[matrix_row(name)], target, m);
  };
  EXPECT_TRUE(refused("mfma_f32_32x32x8f16", MatrixTarget::kGfx942, {.blgp = 1}));
  EXPECT_FALSE(refused("mfma_f32_32x32x8f16", MatrixTarget::kGfx90a, {.blgp = 1}));
  EXPECT_TRUE(refused("mfma_f32_32x32x8f16", MatrixTarget::kGfx90a, {.cbsz = 1}));
  EXPECT_TRUE(refused("mfma_f64_16x16x4f64", MatrixTarget::kGfx942, {.blgp = 1}));
  EXPECT_TRUE(refused("mfma_f32_16x16x32_fp8_fp8", MatrixTarget::kGfx942, {.cbsz = 1}));
  EXPECT_TRUE(refused("mfma_f32_16x16x4f32", MatrixTarget::kGfx942, {.blgp = 8}));
  EXPECT_TRUE(refused("mfma_i32_16x16x16i8", MatrixTarget::kGfx90a, {.clamp = true}));
  EXPECT_TRUE(refused("mfma_f32_16x16x4f32", MatrixTarget::kGfx942, {.opsel = true}));
}

TEST(EmulatedMfma, DenormalsStay) {
  const Instance& instance = mfma("mfma_f32_16x16x16bf16_1k", MatrixTarget::kGfx942);
  MatrixProblem p(instance, mfma_places(*instance.row));
  p.a_at(0, 3, 5) = 0x0001;  // 2^-133
  p.b_at(0, 5, 7) = 0x4000;  // 2
  p.a_at(0, 4, 6) = 0x1F00;  // 2^-65
  p.b_at(0, 6, 8) = 0x1C80;  // 2^-70
  p.run();
  EXPECT_EQ(p.d_at(0, 3, 7), 0x00020000u);  // 2^-132
  EXPECT_EQ(p.d_at(0, 4, 8), 0x00004000u);  // 2^-135
}

TEST(EmulatedMfma, Gfx90aTakesSubnormalFactorsOf16BitsForZero) {
  for (const MatrixTarget target : {MatrixTarget::kGfx90a, MatrixTarget::kGfx942}) {
    MatrixProblem halves(mfma("mfma_f32_16x16x16f16", target), mfma_places(*mfma("mfma_f32_16x16x16f16", target).row));
    halves.a_at(0, 3, 5) = 0x0200;  // 2^-15
    halves.a_at(0, 4, 5) = 0x0400;  // 2^-14
    halves.b_at(0, 5, 7) = 0x4000;  // 2
    halves.run();
    EXPECT_EQ(halves.d_at(0, 3, 7), target == MatrixTarget::kGfx90a ? 0u : 0x38800000u);
    EXPECT_EQ(halves.d_at(0, 4, 7), 0x39000000u);
  }
  const Instance& instance = mfma("mfma_f32_16x16x16bf16_1k", MatrixTarget::kGfx90a);
  MatrixProblem p(instance, mfma_places(*instance.row));
  p.a_at(0, 3, 5) = 0x0040;  // 2^-127
  p.b_at(0, 5, 7) = 0x4100;  // 8
  p.run();
  EXPECT_EQ(p.d_at(0, 3, 7), 0u);
}

// 2^24 + 1 + 1: the ones are lost one by one in ascending order of k, and kept where they come first.
TEST(EmulatedMfma, SumsStartAtCAndGoUpInK) {
  const Instance& instance = mfma("mfma_f32_32x32x8f16", MatrixTarget::kGfx942);
  MatrixProblem p(instance, mfma_places(*instance.row));
  for (int k : {0, 1}) p.a_at(0, 0, k) = p.b_at(0, k, 0) = 0x3C00;
  p.c_at(0, 0, 0) = 0x4B800000;
  p.a_at(0, 1, 2) = 0x7400;  // 2^14
  p.b_at(0, 2, 1) = 0x6400;  // 2^10
  for (int k : {0, 1}) p.a_at(0, 1, k) = p.b_at(0, k, 1) = 0x3C00;
  p.run();
  EXPECT_EQ(p.d_at(0, 0, 0), 0x4B800000u);
  EXPECT_EQ(p.d_at(0, 1, 1), 0x4B800001u);
}

TEST(EmulatedMfma, SumsOfIntegersWrap) {
  const Instance& instance = mfma("mfma_i32_16x16x64_i8", MatrixTarget::kGfx950);
  MatrixProblem p(instance, mfma_places(*instance.row));
  for (auto& code : p.a) code = 0x80;
  for (auto& code : p.b) code = 0x80;
  for (auto& code : p.c) code = 0x7FFFFFFF;
  p.run();
  p.expect_product();
  EXPECT_EQ(p.d_at(0, 9, 9), 0x800FFFFFu);
}

}  // namespace
}  // namespace tilewright::emulated
