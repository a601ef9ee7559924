// SPDX-License-Identifier: MIT
// One matrix instruction against float64: operands as matrices of codes, placed into lanes by rules that a test gives.
#pragma once

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "emulated/amd/matrix/wave.hpp"

namespace tilewright::emulated {

struct Spot {
  int lane, bit;
};

// Where an element stands: all lanes that hold it (gfx11 wants A and B twice).
struct MatrixPlaces {
  std::function<std::vector<Spot>(int block, int i, int k)> a;
  std::function<std::vector<Spot>(int block, int j, int k)> b;
  std::function<Spot(int block, int i, int j)> d;
};

// Matrices of codes, and the wave that they become.
class MatrixProblem {
 public:
  MatrixProblem(const Instance& instance, MatrixPlaces places)
      : instance_(instance),
        row_(*instance.row),
        places_(std::move(places)),
        a(codes(row_.m * row_.k)),
        b(codes(row_.k * row_.n)),
        c(codes(row_.m * row_.n)),
        d(codes(row_.m * row_.n)) {}

  std::uint64_t& a_at(int block, int i, int k) { return a[(static_cast<size_t>(block) * row_.m + i) * row_.k + k]; }
  std::uint64_t& b_at(int block, int k, int j) { return b[(static_cast<size_t>(block) * row_.k + k) * row_.n + j]; }
  std::uint64_t& c_at(int block, int i, int j) { return c[(static_cast<size_t>(block) * row_.m + i) * row_.n + j]; }
  std::uint64_t& d_at(int block, int i, int j) { return d[(static_cast<size_t>(block) * row_.m + i) * row_.n + j]; }

  void fill_random(std::mt19937_64& random) {
    for (auto& code : a) code = random_code(row_.a, instance_.target, random);
    for (auto& code : b) code = random_code(row_.b, instance_.target, random);
    for (auto& code : c) code = random_code(row_.d, instance_.target, random);
  }

  // Lanes and bits that no element stands in hold 1s.
  void run(const MatrixModifiers& modifiers = {}) {
    Registers ra(row_.lanes(), row_.a_registers()), rb(row_.lanes(), row_.b_registers());
    Registers rc(row_.lanes(), row_.d_registers()), rd(row_.lanes(), row_.d_registers());
    for (Registers* r : {&ra, &rb, &rc}) std::fill(r->words.begin(), r->words.end(), ~0u);
    for (int block = 0; block < row_.blocks; ++block) {
      for (int k = 0; k < row_.k; ++k) {
        for (int i = 0; i < row_.m; ++i) {
          for (const Spot& s : places_.a(block, i, k)) ra.put(s.lane, s.bit, bits_of(row_.a), a_at(block, i, k));
        }
        for (int j = 0; j < row_.n; ++j) {
          for (const Spot& s : places_.b(block, j, k)) rb.put(s.lane, s.bit, bits_of(row_.b), b_at(block, k, j));
        }
      }
      for (int i = 0; i < row_.m; ++i) {
        for (int j = 0; j < row_.n; ++j) {
          const Spot s = places_.d(block, i, j);
          rc.put(s.lane, s.bit, bits_of(row_.d), c_at(block, i, j));
        }
      }
    }
    instance_.run(ra, rb, rc, rd, modifiers);
    for (int block = 0; block < row_.blocks; ++block) {
      for (int i = 0; i < row_.m; ++i) {
        for (int j = 0; j < row_.n; ++j) {
          const Spot s = places_.d(block, i, j);
          d_at(block, i, j) = rd.get(s.lane, s.bit, bits_of(row_.d));
        }
      }
    }
  }

  // Compares D with float64: exactly for integers (which wrap, or saturate), else within the bound of a sum of K + 1
  // terms in f32 and of one rounding of the result.
  void expect_product(const MatrixModifiers& m = {}) {
    for (int block = 0; block < row_.blocks; ++block) {
      for (int i = 0; i < row_.m; ++i) {
        for (int j = 0; j < row_.n; ++j) {
          expect_element(block, i, j, m);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }

 private:
  std::vector<std::uint64_t> codes(int size) const {
    return std::vector<std::uint64_t>(static_cast<size_t>(size) * row_.blocks);
  }

  void expect_element(int block, int i, int j, const MatrixModifiers& m) {
    double sum = element_value(row_.d, instance_.target, c_at(block, i, j));
    double size = std::fabs(sum);
    for (int k = 0; k < row_.k; ++k) {
      const double product = element_value(row_.a, instance_.target, a_at(block, i, k), m.a_signed) *
                             element_value(row_.b, instance_.target, b_at(block, k, j), m.b_signed);
      sum += product;
      size += std::fabs(product);
    }
    const std::uint64_t code = d_at(block, i, j);
    const double got = element_value(row_.d, instance_.target, code);
    const std::string where = fmt::format("{}: block {} row {} column {}", instance_.name(), block, i, j);
    if (row_.d == MatrixElement::kI32) {
      const double low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
      const auto wrapped = static_cast<std::int32_t>(static_cast<std::int64_t>(sum));
      EXPECT_EQ(got, m.clamp ? std::min(std::max(sum, low), high) : wrapped) << where;
    } else if (std::isnan(sum)) {
      EXPECT_TRUE(std::isnan(got)) << where << ": " << got;
    } else if (std::isinf(sum)) {
      EXPECT_EQ(got, sum) << where;
    } else {
      const double unit = row_.d == MatrixElement::kF64 ? 0x1p-53 : 0x1p-24;
      double bound = (row_.k + 1) * unit * size;
      if (row_.d == MatrixElement::kF16) bound += std::fabs(sum) * 0x1p-11;
      if (row_.d == MatrixElement::kBf16) bound += std::fabs(sum) * 0x1p-8;
      EXPECT_NEAR(got, sum, bound) << where;
    }
  }

  Instance instance_;
  const MatrixInstruction& row_;
  MatrixPlaces places_;

 public:
  std::vector<std::uint64_t> a, b, c, d;  // [block][row][column]
};

// The emulation's rule against the test's. The same change of k in A and in B would not show in any product.
inline void expect_places(const MatrixInstruction& row, const MatrixPlaces& places) {
  const auto expect = [&](const Spot& s, int outer, int block, int i, int k) {
    const emu::MatrixInput at = emu::input_of(row, outer, s.lane, s.bit / bits_of(row.a));
    EXPECT_TRUE(at.block == block && at.outer == i && at.k == k)
        << fmt::format("{}: lane {} bit {} is ({}, {}, {})", row.name, s.lane, s.bit, at.block, at.outer, at.k);
  };
  for (int block = 0; block < row.blocks; ++block) {
    for (int k = 0; k < row.k; ++k) {
      for (int i = 0; i < row.m; ++i) expect(places.a(block, i, k)[0], row.m, block, i, k);
      for (int j = 0; j < row.n; ++j) expect(places.b(block, j, k)[0], row.n, block, j, k);
    }
  }
}

// Random operands; then a one at every place of A and of B in turn, which must bring the other's row or column to its
// row or column of D and nothing anywhere else; then NaN and infinities.
inline void check_matrix(const Instance& instance, const MatrixPlaces& places, std::mt19937_64& random) {
  const MatrixInstruction& row = *instance.row;
  expect_places(row, places);
  MatrixProblem p(instance, places);
  for (int round = 0; round < 3; ++round) {
    p.fill_random(random);
    p.run();
    p.expect_product();
  }
  const std::vector<std::uint64_t> random_a = p.a, random_b = p.b;
  std::fill(p.c.begin(), p.c.end(), 0);
  for (int step = 0; step < std::max(row.m, row.k * row.blocks);
       ++step) {  // each row, column and (block, k) has its turn
    const int k = step % row.k, block = step / row.k % row.blocks, i = 5 * step % row.m, j = 3 * step % row.n;
    std::fill(p.a.begin(), p.a.end(), 0);
    p.b = random_b;
    p.a_at(block, i, k) = one_of(row.a, instance.target);
    p.run();
    p.expect_product();
    std::fill(p.b.begin(), p.b.end(), 0);
    p.a = random_a;
    p.b_at(block, k, j) = one_of(row.b, instance.target);
    p.run();
    p.expect_product();
    if (testing::Test::HasFailure()) return;
  }
  if (is_integer(row.a)) return;
  for (int round = 0; round < 4; ++round) {
    p.fill_random(random);
    const int block = static_cast<int>(random() % row.blocks), i = static_cast<int>(random() % row.m);
    const int j = static_cast<int>(random() % row.n), k = static_cast<int>(random() % row.k);
    p.a_at(block, i, k) = special_code(row.a, instance.target, round % 2 == 1);
    if (round == 3) p.b_at(block, k, j) = 0;  // infinity times zero
    p.run();
    p.expect_product();
  }
}

}  // namespace tilewright::emulated
