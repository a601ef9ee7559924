// SPDX-License-Identifier: MIT
// What the suites for a GPU are made of: weights, bars, and regimes of rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

struct Weight {
  int64_t n, k;
};
// DeepSeek-V3: what is quantised.
inline constexpr Weight kQuantisedWeights[] = {{24576, 1536}, {2112, 7168}, {32768, 512}, {4096, 7168}, {7168, 2048}};

// On an H200, in rested bursts; the chip's rates of i8 and e4m3 are the same.
inline constexpr double kBf16Gflops = 840e3, kEightBitGflops = 1602e3, kReadGbps = 4690;
constexpr SuiteBar bf16_bar(double fraction, double ratio = 0) { return {fraction, ratio, kBf16Gflops, kReadGbps}; }
constexpr SuiteBar eight_bit_bar(double fraction) { return {fraction, 0, kEightBitGflops, kReadGbps}; }

struct Regime {
  const char* name;
  std::vector<int64_t> rows;
  SuiteBar bar;
  double edged_fraction = 0;  // what calls with programmatic edges are held to; 0 = there are none
  bool sustained = false;
};

// "m=16:n=4096:k=4096:a=bf16", and `rest` behind it.
std::string problem_text(int64_t m, const Weight& weight, const char* dtype, std::string_view rest = "");
// The regime's rows of this problem: with ordinary edges, and with programmatic ones.
void add_to_regime(Suite& suite, const Regime& regime, const std::string& text);

}  // namespace tilewright::cli
