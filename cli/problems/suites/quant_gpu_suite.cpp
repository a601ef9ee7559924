// SPDX-License-Identifier: MIT
#include "problems/suites/quant_gpu_suite.hpp"

#include <fmt/format.h>

#include "problems/suites/gpu_regimes.hpp"

namespace tilewright::cli {
namespace {

// DeepSeek-V3's: a scale for each row of A and 128 of K, and for each 128 x 128 of the weight. Those of A lie along M, as cuBLASLt and
// DeepGEMM want them.
void add_block_scaled(Suite& suite) {
  const auto scales = [](int64_t m) { return fmt::format(":d=bf16:scale_a=f32.1x128.0.1.{}:scale_b=f32.128x128", m); };
  const Regime regimes[] = {{"e4m3 blocks m=1..128", {1, 16, 64, 128}, eight_bit_bar(0.66), 0.72},
                            {"e4m3 blocks m=1024", {1024}, eight_bit_bar(0.80)},
                            {"e4m3 blocks m>=4096", {4096}, eight_bit_bar(0.87)}};
  for (const Regime& regime : regimes) {
    for (const int64_t m : regime.rows) {
      for (const Weight& w : kQuantisedWeights) add_to_regime(suite, regime, problem_text(m, w, "e4m3", scales(m)));
    }
  }
}

// Linear layers of Llama-3.1-70B, tensor-parallel degree 1: weights of 4 bits in groups of 128, plain and packed, beside the same layer in bf16.
void add_weight_only(Suite& suite) {
  constexpr Weight kLayers[] = {{10240, 8192}, {8192, 8192}, {57344, 8192}, {8192, 28672}};
  struct Weights {
    const char *name, *text;
  };
  const Weights weights[] = {{"w4a16 g128", ":b=i4:scale_b=f16.1x128"},
                             {"w4a16 g128 zero points", ":b=u4:scale_b=f16.1x128:zero_b=u4"},
                             {"w4a16 g128 packed", ":b=i4:packed=fragments:scale_b=f16.1x128"},
                             {"w4a16 g128 zero points packed", ":b=u4:packed=fragments:scale_b=f16.1x128:zero_b=u4"}};
  struct Rows {
    int64_t m;
    double fraction, over_bf16;  // 0 = not compared
  };
  for (const Weights& kind : weights) {
    for (const Rows& rows : {Rows{1, 0.80, 2.5}, Rows{16, 0.75, 2.5}, Rows{64, 0.70, 0}}) {
      for (const Weight& w : kLayers) {
        suite.add(problem_text(rows.m, w, "bf16", kind.text),
                  {.regime = fmt::format("{} m={}", kind.name, rows.m), .bar = bf16_bar(rows.fraction, rows.over_bf16)},
                  "", rows.over_bf16 == 0 ? "" : problem_text(rows.m, w, "bf16"));
      }
    }
  }
}

// gpt-oss-120b's 128 experts, each with as many rows, plain and packed.
void add_experts_of_4_bits(Suite& suite) {
  constexpr Weight kFirst = {5760, 2880}, kSecond = {2880, 2880};
  for (const bool packed : {false, true}) {
    for (const int64_t m : {1, 4, 16, 32, 64}) {
      for (const Weight& w : {kFirst, kSecond}) {
        suite.add(
            problem_text(m, w, "bf16",
                         fmt::format(":b=e2m1{}:scale_b=e8m0.1x32:batch=128", packed ? ":packed=fragments" : "")),
            {.regime = fmt::format("mxfp4 x bf16 experts{} m={}", packed ? " packed" : "", m), .bar = bf16_bar(0.70)});
      }
    }
  }
}

}  // namespace

Suite quant_gpu_suite() {
  Suite suite;
  add_block_scaled(suite);
  add_weight_only(suite);
  add_experts_of_4_bits(suite);
  return suite;
}

}  // namespace tilewright::cli
