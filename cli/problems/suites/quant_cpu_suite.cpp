// SPDX-License-Identifier: MIT
#include "problems/suites/quant_cpu_suite.hpp"

#include <fmt/format.h>

namespace tilewright::cli {
namespace {

struct QuantLayer {
  const char* name;
  int64_t n, k;
};
// Linear layers of Llama-3.1-70B, tensor-parallel degree 1, without lm_head.
constexpr QuantLayer kLlama70bLayers[] = {
    {"attn_qkv", 10240, 8192}, {"attn_o", 8192, 8192}, {"mlp_gate_up", 57344, 8192}, {"mlp_down", 8192, 28672}};

struct QuantMode {
  const char* name;
  const char* text;
};
constexpr QuantMode kQuantModes[] = {{"w4a16 g128 zero points", "a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4"},
                                     {"w4a16 g128", "a=bf16:b=i4:scale_b=f16.1x128"},
                                     {"w8a16", "a=bf16:b=i8:scale_b=f32"},
                                     {"mxfp4 x bf16", "a=bf16:b=e2m1:scale_b=e8m0.1x32"}};

}  // namespace

Suite quant_cpu_suite() {
  Suite suite;
  for (const QuantMode& mode : kQuantModes) {
    for (const int64_t m : {1, 16}) {
      for (const QuantLayer& layer : kLlama70bLayers) {
        suite.add(fmt::format("m={}:n={}:k={}:{}:packed=1", m, layer.n, layer.k, mode.text),
                  {.regime = fmt::format("{} m={}", mode.name, m)}, fmt::format("llama-3.1-70b {}", layer.name));
      }
    }
  }
  // What is left of a dynamically quantised layer once its input is quantised: a scale for each token and channel.
  for (const QuantLayer& layer : kLlama70bLayers) {
    suite.add(fmt::format("m=64:n={}:k={}:a=i8:scale_a=f32:scale_b=f32:d=bf16:packed=1", layer.n, layer.k),
              {.regime = "a8w8 m=64"}, fmt::format("llama-3.1-70b {}", layer.name));
  }
  return suite;
}

}  // namespace tilewright::cli
