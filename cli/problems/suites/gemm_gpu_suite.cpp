// SPDX-License-Identifier: MIT
#include "problems/suites/gemm_gpu_suite.hpp"

#include <fmt/format.h>

#include "problems/suites/gpu_regimes.hpp"

namespace tilewright::cli {
namespace {

// Llama-3.1-8B and 70B (o, gate-up, down; gate-up, down), DeepSeek-V3 (qkv_a, q_b, o, shared down).
constexpr Weight kWeights[] = {{4096, 4096}, {28672, 4096}, {4096, 14336}, {57344, 8192}, {8192, 28672},
                               {2112, 7168}, {24576, 1536}, {7168, 16384}, {7168, 2048}};
void add_bf16(Suite& suite) {
  const Regime regimes[] = {{"bf16 m=1", {1}, bf16_bar(0.88), 0.93},
                            {"bf16 m=16", {16}, bf16_bar(0.84), 0.89},
                            {"bf16 m=64", {64}, bf16_bar(0.82), 0.87},
                            {"bf16 m=128", {128}, bf16_bar(0.79), 0.84},
                            {"bf16 m=512", {512}, bf16_bar(0.91)},
                            {"bf16 m>=2048", {2048, 4096, 8192}, bf16_bar(0.96, 1), 0, /*sustained=*/true}};
  for (const Regime& regime : regimes) {
    for (const int64_t m : regime.rows) {
      for (const Weight& w : kWeights) add_to_regime(suite, regime, problem_text(m, w, "bf16"));
      if (m == 8192) add_to_regime(suite, regime, problem_text(m, {8192, 8192}, "bf16"));
    }
  }
}

// A scale for each token and each output channel. Sums of e4m3 twice: those that keep f32's bits, and those that need not.
void add_quantised(Suite& suite) {
  const Regime fp8[] = {{"e4m3 m=1..128", {1, 16, 64, 128}, eight_bit_bar(0.68), 0.75},
                        {"e4m3 m=1024", {1024}, eight_bit_bar(0.84)},
                        {"e4m3 m>=4096", {4096}, eight_bit_bar(0.88)}};
  const Regime fast[] = {{"e4m3 fast m=1..128", {1, 16, 64, 128}, eight_bit_bar(0.68), 0.75},
                         {"e4m3 fast m=1024", {1024}, eight_bit_bar(0.84)},
                         {"e4m3 fast m>=4096", {4096}, eight_bit_bar(0.88)}};
  const Regime int8[] = {{"i8 m=64", {64}, eight_bit_bar(0.68)},
                         {"i8 m=128", {128}, eight_bit_bar(0.68)},
                         {"i8 m=1024", {1024}, eight_bit_bar(0.80)},
                         {"i8 m>=4096", {4096}, eight_bit_bar(0.85)}};
  const auto add = [&suite](std::span<const Regime> regimes, const char* dtype, std::string_view options = "") {
    const std::string scales = fmt::format(":d=bf16:scale_a=f32:scale_b=f32{}", options);
    for (const Regime& regime : regimes) {
      for (const int64_t m : regime.rows) {
        for (const Weight& w : kQuantisedWeights) add_to_regime(suite, regime, problem_text(m, w, dtype, scales));
        if (m == 4096) add_to_regime(suite, regime, problem_text(8192, {8192, 8192}, dtype, scales));
      }
    }
  };
  add(fp8, "e4m3");
  add(fast, "e4m3", ":allow_fast_accum=1");
  add(int8, "i8");
}

}  // namespace

Suite gemm_gpu_suite() {
  Suite suite;
  add_bf16(suite);
  add_quantised(suite);
  for (const char* layout : {"rrr", "crr", "ccr"}) {
    suite.add(problem_text(4096, {4096, 4096}, "bf16", fmt::format(":layout={}", layout)),
              {.regime = "layouts 4096^3", .bar = bf16_bar(0, 1)});
  }
  for (const int64_t m : {128, 4096}) {
    const std::string plain = problem_text(m, {28672, 4096}, "bf16");
    suite.add(plain + ":gate=separated:act=silu", {.regime = "silu-mul over plain", .bar = bf16_bar(0, 1)}, "", plain);
  }
  return suite;
}

}  // namespace tilewright::cli
