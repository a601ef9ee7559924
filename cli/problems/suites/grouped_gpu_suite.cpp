// SPDX-License-Identifier: MIT
#include "problems/suites/grouped_gpu_suite.hpp"

#include <fmt/format.h>

#include "problems/suites/gpu_regimes.hpp"

namespace tilewright::cli {
namespace {

// The two GEMMs of an expert: gate and up as one, and down.
struct Experts {
  const char* name;
  int64_t groups, top, hidden, inter;
  Weight first() const { return {2 * inter, hidden}; }
  Weight second() const { return {hidden, inter}; }
};
constexpr Experts kDeepSeekV3 = {"deepseek-v3", 256, 8, 7168, 2048}, kMixtral8x7B = {"mixtral-8x7b", 8, 2, 4096, 14336},
                  kGptOss120B = {"gpt-oss-120b", 128, 4, 2880, 2880};

void add(Suite& suite, const std::string& text, const std::string& regime, SuiteBar bar, const char* name) {
  suite.add(text, {.regime = regime, .bar = bar}, name);
}

}  // namespace

Suite grouped_gpu_suite() {
  Suite suite;
  for (const Weight& w : {kDeepSeekV3.first(), kDeepSeekV3.second()}) {
    const bool first = w.k == kDeepSeekV3.hidden;
    // Scales of A lie along its rows, as DeepGEMM wants them.
    const int64_t rows = 8192 * kDeepSeekV3.top;
    add(suite,
        fmt::format("grouped_gemm groups={}:m={}:n={}:k={}:a=e4m3:d=bf16:scale_a=f32.1x128.0.1.{}:scale_b=f32.128x128",
                    kDeepSeekV3.groups, rows, w.n, w.k, rows),
        "e4m3 blocks, contiguous, 8192 tokens", eight_bit_bar(0.75), kDeepSeekV3.name);
    // One token: eight of the groups have a row.
    add(suite,
        fmt::format(
            "grouped_gemm mode=masked:groups={}:m=16:n={}:k={}:a=e4m3:d=bf16:scale_a=f32.1x128:scale_b=f32.128x128:"
            "rows={}",
            kDeepSeekV3.groups, w.n, w.k, kDeepSeekV3.top),
        first ? "e4m3 blocks, masked, 1 token, first" : "e4m3 blocks, masked, 1 token, second",
        eight_bit_bar(first ? 0.72 : 0.62), kDeepSeekV3.name);
  }
  for (const Weight& w : {kMixtral8x7B.first(), kMixtral8x7B.second()}) {
    add(suite,
        fmt::format("grouped_gemm groups={}:m={}:n={}:k={}:a=bf16", kMixtral8x7B.groups, 1024 * kMixtral8x7B.top, w.n,
                    w.k),
        "bf16, contiguous, 1024 tokens", bf16_bar(0.80), kMixtral8x7B.name);
  }
  // mxfp4 beside bf16, plain and packed.
  for (const bool packed : {false, true}) {
    for (const int64_t tokens : {1, 16, 64, 256, 1024}) {
      for (const Weight& w : {kGptOss120B.first(), kGptOss120B.second()}) {
        const int64_t rows = tokens * kGptOss120B.top;
        add(suite,
            fmt::format("grouped_gemm groups={}:m={}:n={}:k={}:a=bf16:b=e2m1:{}scale_b=e8m0.1x32:rows={}",
                        kGptOss120B.groups, rows, w.n, w.k, packed ? "packed=fragments:" : "", rows),
            fmt::format("mxfp4 x bf16{}, contiguous, {} token{}", packed ? ", packed" : "", tokens,
                        tokens == 1 ? "" : "s"),
            bf16_bar(0.70), kGptOss120B.name);
      }
    }
  }
  return suite;
}

}  // namespace tilewright::cli
