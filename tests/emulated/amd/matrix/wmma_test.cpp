// SPDX-License-Identifier: MIT
// WMMA of wave32, lane by lane, on gfx11 and gfx12. The rules of this file are those of the matrix instruction calculator
// written out for each size of element; the emulation's own are not used.
#include <gmock/gmock.h>

#include "emulated/amd/matrix/check.hpp"

namespace tilewright::emulated {
namespace {

MatrixPlaces gfx11_places(const MatrixInstruction& row, bool upper = false) {
  const int bits = bits_of(row.a);
  // Row i in lanes i and i + 16, k in order.
  const auto input = [=](int, int i, int k) { return std::vector<Spot>{{i, k * bits}, {i + 16, k * bits}}; };
  const auto output = [=](int, int i, int j) { return Spot{16 * (i % 2) + j, 32 * (i / 2) + (upper ? 16 : 0)}; };
  return {input, input, output};
}

MatrixPlaces gfx12_places(const MatrixInstruction& row) {
  const auto input = [&row](int, int i, int k) -> std::vector<Spot> {
    switch (bits_of(row.a)) {
      case 16: return {{16 * (k / 4 % 2) + i, 32 * (2 * (k / 8) + k / 2 % 2) + 16 * (k % 2)}};
      case 8: return {{16 * (k / 8) + i, 32 * (k / 4 % 2) + 8 * (k % 4)}};
      default:
        if (row.k == 16) return {{16 * (k / 8) + i, 4 * (k % 8)}};
        return {{16 * (k / 16) + i, 32 * (k / 8 % 2) + 4 * (k % 8)}};
    }
  };
  const auto output = [&row](int, int i, int j) -> Spot {
    if (bits_of(row.d) == 16) return {16 * (i / 8) + j, 32 * (i / 2 % 4) + 16 * (i % 2)};
    return {16 * (i / 8) + j, 32 * (i % 8)};
  };
  return {input, input, output};
}

template <MatrixLayout kLayout>
const Instance& wmma(const char* name) {
  static const std::vector<Instance> all = instances<kLayout>();
  for (const Instance& i : all) {
    if (i.row->name == std::string(name)) return i;
  }
  throw std::runtime_error(std::string("no ") + name);
}

TEST(EmulatedWmma, EveryRowOfGfx11MultipliesMatricesPlacedByTheCalculatorsRules) {
  std::mt19937_64 random(11);
  const auto all = instances<MatrixLayout::kWmma11>();
  EXPECT_EQ(all.size(), 8u);
  for (const Instance& instance : all) check_matrix(instance, gfx11_places(*instance.row), random);
}

TEST(EmulatedWmma, EveryRowOfGfx12MultipliesMatricesPlacedByTheCalculatorsRules) {
  std::mt19937_64 random(12);
  const auto all = instances<MatrixLayout::kWmma12>();
  EXPECT_EQ(all.size(), 11u);
  for (const Instance& instance : all) check_matrix(instance, gfx12_places(*instance.row), random);
}

TEST(EmulatedWmma, OperandsAreSignedOrNotEachAndClampSaturates) {
  std::mt19937_64 random(13);
  std::vector<std::pair<Instance, MatrixPlaces>> all;
  for (const char* name : {"wmma_i32_16x16x16_iu8_w32", "wmma_i32_16x16x16_iu4_w32"}) {
    const Instance& i = wmma<MatrixLayout::kWmma11>(name);
    all.emplace_back(i, gfx11_places(*i.row));
  }
  for (const char* name :
       {"wmma_i32_16x16x16_iu8_w32_gfx12", "wmma_i32_16x16x16_iu4_w32_gfx12", "wmma_i32_16x16x32_iu4_w32_gfx12"}) {
    const Instance& i = wmma<MatrixLayout::kWmma12>(name);
    all.emplace_back(i, gfx12_places(*i.row));
  }
  for (const auto& [instance, places] : all) {
    for (int bits = 0; bits < 8; ++bits) {
      const MatrixModifiers m{.a_signed = (bits & 1) != 0, .b_signed = (bits & 2) != 0, .clamp = (bits & 4) != 0};
      ASSERT_TRUE(takes(*instance.row, instance.target, m));
      MatrixProblem p(instance, places);
      p.fill_random(random);
      for (int i = 0; i < 16; ++i) p.c_at(0, i, i) = i % 2 != 0 ? 0x7FFFFFFF : 0x80000000;
      p.run(m);
      p.expect_product(m);
    }
  }
}

// opsel chooses the halves of the registers of C and D. The other halves stay in the tied forms and are lost else.
TEST(EmulatedWmma, SixteenBitResultsOfGfx11TakeHalfOfEachRegister) {
  std::mt19937_64 random(14);
  for (const char* name : {"wmma_f16_16x16x16_f16_w32", "wmma_bf16_16x16x16_bf16_w32", "wmma_f16_16x16x16_f16_tied_w32",
                           "wmma_bf16_16x16x16_bf16_tied_w32"}) {
    const Instance& instance = wmma<MatrixLayout::kWmma11>(name);
    const bool tied = std::string(name).find("tied") != std::string::npos;
    for (const bool upper : {false, true}) {
      MatrixProblem p(instance, gfx11_places(*instance.row, upper));
      p.fill_random(random);
      p.run({.opsel = upper});
      p.expect_product();

      Registers a(32, 8), b(32, 8), c(32, 8), d(32, 8);
      for (auto& word : c.words) word = 0x12343456;
      instance.run(a, b, c, d, {.opsel = upper});
      const std::uint32_t kept = tied ? (upper ? 0x3456 : 0x1234) : 0x7FFD, sum = upper ? 0x1234 : 0x3456;
      for (const auto word : d.words) ASSERT_EQ(word, upper ? sum << 16 | kept : kept << 16 | sum) << name;
    }
  }
}

TEST(EmulatedWmma, SixteenBitResultsAreRoundedOnce) {
  const Instance& instance = wmma<MatrixLayout::kWmma12>("wmma_bf16_16x16x16_bf16_w32_gfx12");
  MatrixProblem p(instance, gfx12_places(*instance.row));
  p.c_at(0, 0, 0) = 0x4380;  // 256, whose neighbour in bf16 is 258
  for (int k = 0; k < 3; ++k) p.a_at(0, 0, k) = 0x3F80, p.b_at(0, k, 0) = 0x3F00;  // + 0.5 each
  p.run();
  EXPECT_EQ(p.d_at(0, 0, 0), 0x4381u);
}

}  // namespace
}  // namespace tilewright::emulated
