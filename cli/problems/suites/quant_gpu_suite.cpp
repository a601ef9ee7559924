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

}  // namespace

Suite quant_gpu_suite() {
  Suite suite;
  add_block_scaled(suite);
  return suite;
}

}  // namespace tilewright::cli
