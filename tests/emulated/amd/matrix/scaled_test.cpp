// SPDX-License-Identifier: MIT
// The block-scaled matrix instructions of gfx950: all 25 pairs of formats, placed by CK's tables of registers and scales.
#include <gmock/gmock.h>

#include <array>

#include "emulated/amd/matrix/wave.hpp"
#include "tile/emu/matrix/scaled.hpp"

namespace tilewright::emulated {
namespace {

using emu::F8f6f4;

constexpr int kFormatBits[5] = {8, 8, 6, 6, 4};

double format_value(F8f6f4 format, std::uint64_t code) {
  switch (format) {
    case F8f6f4::kF8: return element_value(MatrixElement::kF8, MatrixTarget::kGfx950, code);
    case F8f6f4::kB8: return element_value(MatrixElement::kB8, MatrixTarget::kGfx950, code);
    case F8f6f4::kF6: return float_value(code, 2, 3, 1);
    case F8f6f4::kB6: return float_value(code, 3, 2, 3);
    case F8f6f4::kF4: return float_value(code, 2, 1, 1);
  }
  return 0;
}

using RunScaled = void (*)(const Registers& a, const Registers& b, const Registers& c, Registers& d,
                           const std::uint32_t (&scale_a)[64], int opsel_a, const std::uint32_t (&scale_b)[64],
                           int opsel_b);

template <int kRow, F8f6f4 kA, F8f6f4 kB>
void run_scaled(const Registers& a, const Registers& b, const Registers& c, Registers& d,
                const std::uint32_t (&scale_a)[64], int opsel_a, const std::uint32_t (&scale_b)[64], int opsel_b) {
  static LaneWords<8> wave_a[64], wave_b[64];
  static LaneWords<emu::matrix_rows::kRows[kRow].d_registers()> wave_c[64], wave_d[64];
  std::memcpy(wave_a, a.words.data(), sizeof wave_a);
  std::memcpy(wave_b, b.words.data(), sizeof wave_b);
  std::memcpy(wave_c, c.words.data(), sizeof wave_c);
  emu::multiply_scaled<kRow, kA, kB>(wave_a, wave_b, wave_c, wave_d, scale_a, opsel_a, scale_b, opsel_b);
  std::memcpy(d.words.data(), wave_d, sizeof wave_d);
}

template <int kRow>
constexpr auto scaled_runs() {
  return []<int... kPairs>(std::integer_sequence<int, kPairs...>) {
    return std::array<RunScaled, 25>{
        run_scaled<kRow, static_cast<F8f6f4>(kPairs / 5), static_cast<F8f6f4>(kPairs % 5)>...};
  }(std::make_integer_sequence<int, 25>());
}

// CK's tables (load_A_row_major, load_mx_A_row_major): lanes and bits of an element, for 16 and for 32 rows.
struct ScaledSpot {
  int lane, bit;
};
ScaledSpot scaled_spot(int rows, int bits, int i, int k) {
  if (bits == 4) return {i + rows * (k / 32), 4 * (k % 32)};
  if (rows == 16) return {i + 16 * (k % 64 / 16), bits * (k % 16 + 16 * (k / 64))};
  return {i + 32 * (k % 32 / 16), bits * (k % 16 + 16 * (k / 32))};
}

// Matrices of codes and scales, the wave that they become, and their product in float64.
struct ScaledProblem {
  int size, depth;  // M = N, K
  F8f6f4 format_a, format_b;
  RunScaled run;
  int opsel_a = 0, opsel_b = 0;
  std::vector<std::uint64_t> a = std::vector<std::uint64_t>(static_cast<size_t>(size) * depth), b = a;
  std::vector<float> c = std::vector<float>(static_cast<size_t>(size) * size);
  std::vector<int> scale_a = std::vector<int>(static_cast<size_t>(size) * depth / 32, 127), scale_b = scale_a;

  void fill_random(std::mt19937_64& random) {
    const auto fill = [&](std::vector<std::uint64_t>& codes, F8f6f4 format) {
      for (auto& code : codes) {
        do {
          code = random() & ((1u << kFormatBits[static_cast<int>(format)]) - 1);
        } while (!(std::fabs(format_value(format, code)) < 8));
      }
    };
    fill(a, format_a);
    fill(b, format_b);
    for (auto& value : c) value = static_cast<float>(static_cast<double>(random() % 4096) / 256 - 8);
    for (auto* scales : {&scale_a, &scale_b}) {
      for (int& scale : *scales) scale = 120 + static_cast<int>(random() % 12);
    }
  }

  void check() {
    const int bits_a = kFormatBits[static_cast<int>(format_a)], bits_b = kFormatBits[static_cast<int>(format_b)];
    const int d_registers = size * size / 64;
    Registers ra(64, 8), rb(64, 8), rc(64, d_registers), rd(64, d_registers);
    // What no element stands in must not matter: registers past the format's, and the other bytes of scales.
    for (Registers* r : {&ra, &rb}) std::fill(r->words.begin(), r->words.end(), ~0u);
    std::uint32_t words_a[64], words_b[64];
    std::fill(std::begin(words_a), std::end(words_a), 0xFFFFFFFFu);
    std::fill(std::begin(words_b), std::end(words_b), 0xFFFFFFFFu);
    for (int i = 0; i < size; ++i) {
      for (int k = 0; k < depth; ++k) {
        const ScaledSpot sa = scaled_spot(size, bits_a, i, k), sb = scaled_spot(size, bits_b, i, k);
        ra.put(sa.lane, sa.bit, bits_a, a[static_cast<size_t>(i) * depth + k]);
        rb.put(sb.lane, sb.bit, bits_b, b[static_cast<size_t>(i) * depth + k]);
      }
      for (int block = 0; block < depth / 32; ++block) {
        const int lane = i + size * block;
        words_a[lane] &= ~(255u << 8 * opsel_a);
        words_a[lane] |= static_cast<std::uint32_t>(scale_a[static_cast<size_t>(i) * depth / 32 + block])
                         << 8 * opsel_a;
        words_b[lane] &= ~(255u << 8 * opsel_b);
        words_b[lane] |= static_cast<std::uint32_t>(scale_b[static_cast<size_t>(i) * depth / 32 + block])
                         << 8 * opsel_b;
      }
    }
    const auto d_lane = [&](int i, int j) { return size == 16 ? j + 16 * (i / 4) : j + 32 * (i / 4 % 2); };
    const auto d_register = [&](int i) { return size == 16 ? i % 4 : 4 * (i / 8) + i % 4; };
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j) {
        std::uint32_t word;
        std::memcpy(&word, &c[static_cast<size_t>(i) * size + j], 4);
        rc.put(d_lane(i, j), 32 * d_register(i), 32, word);
      }
    }
    run(ra, rb, rc, rd, words_a, opsel_a, words_b, opsel_b);
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j) {
        const double got =
            element_value(MatrixElement::kF32, MatrixTarget::kGfx950, rd.get(d_lane(i, j), 32 * d_register(i), 32));
        expect_element(i, j, got);
        if (testing::Test::HasFailure()) return;
      }
    }
  }

  void expect_element(int i, int j, double got) const {
    const auto scale = [&](const std::vector<int>& scales, int outer, int k) {
      const int e = scales[static_cast<size_t>(outer) * depth / 32 + k / 32];
      return e == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, e - 127);
    };
    double sum = c[static_cast<size_t>(i) * size + j], magnitude = std::fabs(sum);
    for (int k = 0; k < depth; ++k) {
      const double product = format_value(format_a, a[static_cast<size_t>(i) * depth + k]) * scale(scale_a, i, k) *
                             format_value(format_b, b[static_cast<size_t>(j) * depth + k]) * scale(scale_b, j, k);
      sum += product;
      magnitude += std::fabs(product);
    }
    const std::string where = fmt::format("{}x{} formats {} {}: row {} column {}", size, depth,
                                          static_cast<int>(format_a), static_cast<int>(format_b), i, j);
    if (std::isnan(sum)) {
      EXPECT_TRUE(std::isnan(got)) << where << ": " << got;
    } else if (std::fabs(sum) > std::numeric_limits<float>::max()) {
      EXPECT_EQ(got, std::copysign(std::numeric_limits<double>::infinity(), sum)) << where;
    } else {
      EXPECT_NEAR(got, sum, (depth + 1) * 0x1p-24 * magnitude) << where;
    }
  }
};

TEST(EmulatedScaledMfma, ElementsAndScalesStandWhereCkPutsThem) {
  for (const char* name : {"mfma_scale_f32_16x16x128_f8f6f4", "mfma_scale_f32_32x32x64_f8f6f4"}) {
    const MatrixInstruction& row = emu::matrix_rows::kRows[emu::matrix_row(name)];
    for (const int bits : {4, 6, 8}) {
      for (int i = 0; i < row.m; ++i) {
        for (int k = 0; k < row.k; ++k) {
          const ScaledSpot s = scaled_spot(row.m, bits, i, k);
          const emu::MatrixInput at = emu::f8f6f4_input_of(row, bits, s.lane, s.bit / bits);
          EXPECT_TRUE(at.block == 0 && at.outer == i && at.k == k) << name << " " << bits << ": " << i << ", " << k;
          EXPECT_EQ(emu::scale_lane(row, i, k), i + row.m * (k / 32));
        }
      }
    }
  }
}

template <class Check>
void for_all_forms(Check check) {
  static const auto small = scaled_runs<emu::matrix_row("mfma_scale_f32_16x16x128_f8f6f4")>();
  static const auto large = scaled_runs<emu::matrix_row("mfma_scale_f32_32x32x64_f8f6f4")>();
  for (int pair = 0; pair < 25; ++pair) {
    const auto format_a = static_cast<F8f6f4>(pair / 5), format_b = static_cast<F8f6f4>(pair % 5);
    check(ScaledProblem{16, 128, format_a, format_b, small[static_cast<size_t>(pair)]});
    check(ScaledProblem{32, 64, format_a, format_b, large[static_cast<size_t>(pair)]});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(EmulatedScaledMfma, EveryPairOfFormatsWithRandomScales) {
  std::mt19937_64 random(21);
  for_all_forms([&](ScaledProblem p) {
    for (int opsel = 0; opsel < 4; ++opsel) {
      p.opsel_a = opsel;
      p.opsel_b = 3 - opsel;
      p.fill_random(random);
      p.check();
    }
  });
}

// One element of A and its row's other elements zero, the scales of its block alone not 1.
TEST(EmulatedScaledMfma, AScaleBelongsToItsBlockOfK) {
  std::mt19937_64 random(22);
  for_all_forms([&](ScaledProblem p) {
    p.fill_random(random);
    for (int k = 0; k < p.depth; k += 16) {
      std::fill(p.scale_a.begin(), p.scale_a.end(), 127);
      std::fill(p.scale_b.begin(), p.scale_b.end(), 127);
      const int i = k % p.size;
      p.scale_a[static_cast<size_t>(i) * p.depth / 32 + k / 32] = 140;
      p.scale_b[static_cast<size_t>(p.size - 1 - i) * p.depth / 32 + k / 32] = 110;
      p.check();
    }
  });
}

TEST(EmulatedScaledMfma, NanScalesAndExtremeScales) {
  std::mt19937_64 random(23);
  for_all_forms([&](ScaledProblem p) {
    p.fill_random(random);
    p.scale_a[3] = 255;
    p.scale_b[5] = 255;
    p.scale_a[6] = 0;
    p.scale_b[6] = 254;
    p.check();
  });
}

TEST(EmulatedScaledMfma, OperandsOfEightBitsTakeTwiceTheCycles) {
  const auto& small = emu::matrix_rows::kRows[emu::matrix_row("mfma_scale_f32_16x16x128_f8f6f4")];
  EXPECT_EQ(emu::f8f6f4_cycles(small, F8f6f4::kF4, F8f6f4::kB6), 16);
  EXPECT_EQ(emu::f8f6f4_cycles(small, F8f6f4::kF4, F8f6f4::kB8), 32);
  EXPECT_EQ(emu::f8f6f4_cycles(small, F8f6f4::kF8, F8f6f4::kF8), 32);
}

// Every code of every small format against the definition of a binary float.
TEST(EmulatedScaledMfma, CodesOfSixAndFourBitsHaveTheirValues) {
  for (unsigned code = 0; code < 64; ++code) {
    EXPECT_EQ(emu::e2m3::Format::widen(code), float_value(code, 2, 3, 1)) << code;
    EXPECT_EQ(emu::e3m2::Format::widen(code), float_value(code, 3, 2, 3)) << code;
    const unsigned words[8] = {code << 6 | (63 & ~code) << 12 | code << 30, code >> 2};
    const auto* bytes = reinterpret_cast<const unsigned char*>(words);
    EXPECT_EQ(emu::code_at<6>(bytes, 0), 0u);
    EXPECT_EQ(emu::code_at<6>(bytes, 1), code);
    EXPECT_EQ(emu::code_at<6>(bytes, 2), 63 & ~code);
    EXPECT_EQ(emu::code_at<6>(bytes, 5), code);
  }
  EXPECT_EQ(emu::e2m3::Format::widen(0x1F), 7.5f);
  EXPECT_EQ(emu::e3m2::Format::widen(0x1F), 28.0f);
  for (unsigned code = 0; code < 16; ++code) {
    EXPECT_EQ(e2m1x2::Format::widen(code), float_value(code, 2, 1, 1)) << code;
  }
}

}  // namespace
}  // namespace tilewright::emulated
