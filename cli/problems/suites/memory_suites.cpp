// SPDX-License-Identifier: MIT
#include "problems/suites/memory_suites.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tilewright::cli {
namespace {

// Hidden sizes of Llama-3.1-8B, DeepSeek-V3 and Llama-3.1-70B.
constexpr int64_t kHidden[] = {4096, 7168, 8192};

struct MemoryMode {
  const char *name, *op;
  const char* text;  // behind the sizes
};
constexpr MemoryMode kModes[] = {
    {"rms_norm bf16", "rms_norm", "x=bf16:weight=bf16"},
    {"rms_norm f32", "rms_norm", "x=f32:weight=f32"},
    {"add+rms_norm bf16", "rms_norm", "x=bf16:residual=bf16:weight=bf16"},
    {"add+rms_norm+1x128 e4m3", "rms_norm", "x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group"},
    {"rms_norm+per-token i8", "rms_norm", "x=bf16:weight=bf16:out=i8:quant=row"},
    {"silu_and_mul bf16", "act_and_mul", "x=bf16:gate=separated:activation=silu"},
    {"gelu_tanh_and_mul bf16", "act_and_mul", "x=bf16:gate=separated:activation=gelu_tanh"},
    {"swiglu interleaved bf16", "act_and_mul", "x=bf16:gate=interleaved:activation=silu"},
    {"silu_and_mul+1x128 e4m3", "act_and_mul", "x=bf16:gate=separated:activation=silu:out=e4m3:quant=group"},
    {"layer_norm bf16", "layer_norm", "x=bf16:weight=bf16:bias=bf16"},
    {"add+layer_norm bf16", "layer_norm", "x=bf16:residual=bf16:weight=bf16:bias=bf16"},
    {"rms_norm_backward bf16", "rms_norm_backward", "x=bf16:residual=bf16:weight=bf16:dweight=bf16"},
    {"add+rms_norm_backward bf16", "rms_norm_backward", "x=bf16:residual=bf16:weight=bf16:dweight=bf16:dresidual=1"},
    {"layer_norm_backward bf16", "layer_norm_backward", "x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16"},
    {"silu_and_mul_backward bf16", "act_and_mul_backward", "x=bf16:residual=bf16:gate=separated:activation=silu"},
    {"quantize per-token e4m3", "quantize", "x=bf16:out=e4m3:quant=row"},
    {"quantize 1x128 e4m3", "quantize", "x=bf16:out=e4m3:quant=group"},
    {"quantize 128x128 e4m3", "quantize", "x=bf16:out=e4m3:quant=block"},
    {"quantize nvfp4", "quantize", "x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given"},
    {"quantize nvfp4 dynamic", "quantize", "x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found"},
    {"quantize dynamic e4m3", "quantize", "x=bf16:out=e4m3:quant=dynamic"},
    {"dequantize 1x128 e4m3", "dequantize", "x=e4m3:out=bf16:quant=group"},
    {"dequantize 128x128 e4m3", "dequantize", "x=e4m3:out=bf16:quant=block"},
    {"dequantize nvfp4", "dequantize", "x=e2m1:out=bf16:quant=group:scale=e4m3:tensor_scale=given"},
    {"gated_rms_norm bf16", "gated_rms_norm", "x=bf16:residual=bf16:weight=bf16:gate_first=1"},
    {"add bf16", "elementwise", "x=bf16:residual=bf16:arithmetic=add"},
    {"cast bf16>e4m3", "elementwise", "x=bf16:out=e4m3"}};

// Queries and keys of Llama-3.1-8B.
std::string rope_text(int64_t tokens, const char* order) {
  return fmt::format("rope m=1x{0}x40:n=128:x=bf16:residual=bf16:heads=32:table_rows={0}{1}", tokens, order);
}
constexpr MemoryMode kRopeModes[] = {{"rope q+k bf16", "rope", ""}, {"rope q+k pairs bf16", "rope", ":interleaved=1"}};

// Keys and values of Llama-3.1-70B, and of MLA; with its queries.
constexpr MemoryMode kCacheModes[] = {
    {"kv_cache_write bf16", "kv_cache_write", "k=8:n=128:x=bf16:wide_slots=1"},
    {"kv_cache_write e4m3 per token", "kv_cache_write", "k=8:n=128:x=bf16:cache=e4m3:scales=token:wide_slots=1"},
    {"kv_cache_write mla bf16", "kv_cache_write", "k=1:n=512:nv=64:x=bf16:wide_slots=1"},
    {"qk_norm_rope_cache bf16", "qk_norm_rope_cache",
     "q=64:k=8:n=128:x=bf16:weight=bf16:table=f32:positions=1:wide_positions=1:wide_slots=1"},
    {"qk_norm_rope_cache e4m3", "qk_norm_rope_cache",
     "q=64:k=8:n=128:x=bf16:weight=bf16:table=f32:cache=e4m3:positions=1:wide_positions=1:wide_slots=1"}};
std::string cache_text(const MemoryMode& mode, int64_t tokens) {
  return fmt::format("{} t={}:{}", mode.op, tokens, mode.text);
}

// Prompts of 1000 tokens and outputs of 1000, in place and not, and counts.
constexpr const char* kPenaltyModes[] = {
    "v=128256:x=f32:prompt=1000:output=1000:repetition=1:presence=1:frequency=1:in_place=1",
    "v=128256:x=f32:prompt=1000:output=1000:repetition=1:presence=1:frequency=1",
    "v=128256:x=f32:prompt_counts=1:output_counts=1:repetition=1:presence=1:frequency=1:in_place=1"};

// Square matrices, and heads of tokens.
constexpr const char* kTransposeModes[] = {"m=8192:n=8192:x=bf16", "m=8192:n=8192:x=f32", "m=8192:n=8192:x=i8",
                                           "b=64:m=4096:n=128:x=bf16"};

// Of SDXL's U-Net, and its autoencoder's widest.
constexpr const char* kGroupNormModes[] = {"n=2:c=320:s=16384:g=32", "n=2:c=640:s=4096:g=32", "n=2:c=1280:s=1024:g=32",
                                           "n=1:c=128:s=1048576:g=32"};
std::string group_norm_text(const char* mode, bool last) {
  return fmt::format("group_norm {}:x=bf16:weight=bf16:bias=bf16:activation=silu{}", mode,
                     last ? ":channels_last=1" : "");
}

std::string group_norm_backward_text(const char* mode, bool last) {
  return fmt::format("group_norm_backward {}:x=bf16:weight=bf16:bias=bf16:dweight=bf16:dbias=bf16{}", mode,
                     last ? ":channels_last=1" : "");
}

// Blocks of Llama-3.1-70B's keys, and requests of them and of MLA's rows.
constexpr MemoryMode kMoveModes[] = {{"kv_cache_copy bf16", "kv_cache_copy", "k=1:n=16384:x=bf16:wide=1"},
                                     {"kv_cache_gather bf16", "kv_cache_gather", "b=16:k=8:n=128:x=bf16"},
                                     {"kv_cache_gather e4m3>bf16", "kv_cache_gather", "b=16:k=8:n=128:x=e4m3:out=bf16"},
                                     {"kv_cache_gather mla bf16", "kv_cache_gather", "b=16:k=1:n=576:x=bf16"}};
// Tokens, or their blocks.
std::string move_text(const MemoryMode& mode, int64_t tokens) {
  const bool copies = std::string_view(mode.op) == "kv_cache_copy";
  return fmt::format("{} t={}:{}", mode.op, copies ? tokens / 16 : tokens, mode.text);
}

// Rows of logits (Llama-3's words), and of attention without a kernel of its own.
constexpr MemoryMode kSoftmaxModes[] = {{"softmax bf16", "softmax", "x=bf16"},
                                        {"softmax bf16>f32", "softmax", "x=bf16:out=f32"},
                                        {"log_softmax f32", "softmax", "x=f32:log=1"}};
struct SoftmaxRows {
  int64_t m, n;
  double fraction;
};
constexpr SoftmaxRows kSoftmaxGpuRows[] = {{16384, 4096, 0.95}, {1024, 128256, 0.95}, {16, 128256, 0}};
constexpr SoftmaxRows kSoftmaxCpuRows[] = {{8192, 4096, 0.85}, {16, 128256, 0.85}};
std::string softmax_text(const MemoryMode& mode, const SoftmaxRows& rows) {
  return fmt::format("softmax m={}:n={}:{}", rows.m, rows.n, mode.text);
}

// Losses of Llama-3's words, with the gradient.
std::string loss_text(int64_t rows) { return fmt::format("cross_entropy m={}:n=128256:x=bf16", rows); }

// Of Qwen3, DeepSeek-V3 and gpt-oss.
constexpr MemoryMode kRoutingModes[] = {
    {"moe_routing softmax bf16", "moe_routing", "e=256:k=8:x=bf16"},
    {"moe_routing softmax of the chosen bf16", "moe_routing", "e=128:k=4:x=bf16:renormalise=1"},
    {"moe_routing softmax f32", "moe_routing", "e=256:k=8:x=f32"},
    {"moe_routing biased groups bf16", "moe_routing",
     "e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1"},
    {"moe_routing biased groups f32", "moe_routing",
     "e=256:k=8:x=f32:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1"}};

// Of the vocabulary of Llama-3; reads: how often the row may be read.
struct SampleMode {
  const char* name;
  const char* text;
  double reads;
};
constexpr SampleMode kSampleModes[] = {{"sample greedy f32", "x=f32:greedy=1", 1.2},
                                       {"sample f32", "x=f32:temperature=1", 1.5},
                                       {"sample top_p f32", "x=f32:temperature=1:top_p=1", 3},
                                       {"sample top_k top_p bf16", "x=bf16:temperature=1:top_k=1:top_p=1", 0}};
std::string sample_text(const SampleMode& mode, int64_t rows) {
  return fmt::format("sample b={}:v=128256:{}", rows, mode.text);
}

constexpr const char* kTopKModes[] = {"n=128256:k=64:x=f32", "n=131072:k=2048:x=f32"};

// Of an H200, copying: what rows past its caches are held to.
constexpr double kCopyGbps = 4240;

// A problem, and of few rows the same with programmatic edges.
void add_edged(Suite& suite, const std::string& text, const std::string& regime, const SuiteBar& bar, bool few) {
  suite.add(text, {.regime = regime, .bar = bar});
  if (few) suite.add(text + ":programmatic_edge=1", {.regime = regime + ", pdl edges", .bar = bar});
}

}  // namespace

Suite memory_cpu_suite() {
  Suite suite;
  for (const MemoryMode& mode : kModes) {
    for (const int64_t n : kHidden) {
      suite.add(fmt::format("{} m=8192:n={}:{}", mode.op, n, mode.text),
                {.regime = mode.name, .bar = {.fraction = 0.85, .ratio = 0}});
    }
  }
  for (const MemoryMode& mode : kRopeModes) {
    suite.add(rope_text(8192, mode.text), {.regime = mode.name, .bar = {.fraction = 0.85, .ratio = 0}});
  }
  for (const MemoryMode& mode : kCacheModes) {
    suite.add(cache_text(mode, 4096), {.regime = mode.name, .bar = {.fraction = 0, .ratio = 0}});
  }
  for (const MemoryMode& mode : kMoveModes) {
    suite.add(move_text(mode, 16384), {.regime = mode.name, .bar = {.fraction = 0, .ratio = 0}});
  }
  for (const char* mode : kTransposeModes) suite.add(fmt::format("transpose {}", mode), {.regime = "transpose"});
  for (const char* mode : kGroupNormModes) {
    for (const bool last : {false, true}) {
      suite.add(group_norm_text(mode, last), {.regime = "group_norm bf16"});
      suite.add(group_norm_backward_text(mode, last), {.regime = "group_norm_backward bf16"});
    }
  }
  for (const MemoryMode& mode : kSoftmaxModes) {
    for (const SoftmaxRows& rows : kSoftmaxCpuRows) {
      suite.add(softmax_text(mode, rows), {.regime = mode.name, .bar = {.fraction = rows.fraction, .ratio = 0}});
    }
  }
  suite.add(loss_text(16), {.regime = "cross_entropy bf16"});
  for (const MemoryMode& mode : kRoutingModes) {
    suite.add(fmt::format("{} t=8192:{}", mode.op, mode.text), {.regime = mode.name});
  }
  for (const SampleMode& mode : kSampleModes) suite.add(sample_text(mode, 16), {.regime = mode.name});
  for (const char* mode : kTopKModes) suite.add(fmt::format("top_k m=16:{}", mode), {.regime = "top_k"});
  for (const char* mode : kPenaltyModes)
    suite.add(fmt::format("apply_penalties b=16:{}", mode), {.regime = "penalties"});
  return suite;
}

Suite memory_gpu_suite() {
  struct Rows {
    const char* name;
    std::vector<int64_t> rows;
    double fraction, ratio;
  };
  const Rows regimes[] = {
      {"16384 rows", {16384}, 0.95, 0}, {"1024 rows", {1024}, 0, 1}, {"1 to 16 rows", {1, 4, 16}, 0, 0}};
  Suite suite;
  for (const Rows& regime : regimes) {
    const SuiteBar bar{.fraction = regime.fraction, .ratio = regime.ratio, .gflops = 0, .read_gbps = kCopyGbps};
    const auto add = [&](const std::string& text, const std::string& name) {
      add_edged(suite, text, name, bar, /*few=*/regime.rows.front() == 1);
    };
    for (const MemoryMode& mode : kModes) {
      for (const int64_t m : regime.rows) {
        for (const int64_t n : kHidden) {
          add(fmt::format("{} m={}:n={}:{}", mode.op, m, n, mode.text), fmt::format("{}, {}", mode.name, regime.name));
        }
      }
    }
    for (const MemoryMode& mode : kRopeModes) {
      for (const int64_t tokens : regime.rows) {
        add(rope_text(tokens, mode.text), fmt::format("{}, {}", mode.name, regime.name));
      }
    }
  }
  for (const char* mode : kTransposeModes) {
    suite.add(fmt::format("transpose {}", mode),
              {.regime = "transpose", .bar = {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
  }
  for (const char* mode : kGroupNormModes) {
    for (const bool last : {false, true}) {
      suite.add(group_norm_text(mode, last),
                {.regime = "group_norm bf16", .bar = {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
      suite.add(group_norm_backward_text(mode, last),
                {.regime = "group_norm_backward bf16",
                 .bar = {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
    }
  }
  for (const MemoryMode& mode : kCacheModes) {
    for (const int64_t tokens : {16384, 4096, 16, 1}) {
      const bool barred = tokens >= 4096 && std::string_view(mode.op) == "qk_norm_rope_cache";
      add_edged(suite, cache_text(mode, tokens), fmt::format("{}, {} tokens", mode.name, tokens),
                {.fraction = barred ? 0.85 : 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps},
                /*few=*/tokens <= 16);
    }
  }
  for (const MemoryMode& mode : kMoveModes) {
    for (const int64_t tokens : {65536, 16384, 1024}) {
      suite.add(move_text(mode, tokens), {.regime = fmt::format("{}, {} tokens", mode.name, tokens),
                                          .bar = {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
    }
  }
  for (const MemoryMode& mode : kSoftmaxModes) {
    for (const SoftmaxRows& rows : kSoftmaxGpuRows) {
      suite.add(softmax_text(mode, rows),
                {.regime = fmt::format("{}, {} rows of {}", mode.name, rows.m, rows.n),
                 .bar = {.fraction = rows.fraction, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
    }
  }
  for (const int64_t rows : {8192, 1024, 16}) {
    suite.add(loss_text(rows),
              {.regime = fmt::format("cross_entropy bf16, {} rows", rows),
               .bar = {.fraction = 0, .ratio = rows == 8192 ? 1.3 : 0, .gflops = 0, .read_gbps = kCopyGbps}});
  }
  for (const MemoryMode& mode : kRoutingModes) {
    for (const int64_t tokens : {16384, 1024, 16}) {
      add_edged(suite, fmt::format("{} t={}:{}", mode.op, tokens, mode.text),
                fmt::format("{}, {} tokens", mode.name, tokens),
                {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}, /*few=*/tokens <= 16);
    }
  }
  for (const SampleMode& mode : kSampleModes) {
    for (const int64_t rows : {128, 16, 1}) {
      suite.add(sample_text(mode, rows), {.regime = fmt::format("{}, {} rows", mode.name, rows),
                                          .bar = {.fraction = rows == 128 && mode.reads > 0 ? 1 / mode.reads : 0,
                                                  .ratio = 0,
                                                  .gflops = 0,
                                                  .read_gbps = kCopyGbps}});
    }
  }
  for (const char* mode : kPenaltyModes) {
    suite.add(fmt::format("apply_penalties b=128:{}", mode),
              {.regime = "penalties", .bar = {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
  }
  for (const char* mode : kTopKModes) {
    for (const int64_t rows : {64, 1}) {
      suite.add(fmt::format("top_k m={}:{}", rows, mode),
                {.regime = fmt::format("top_k, {} rows", rows),
                 .bar = {.fraction = 0, .ratio = 0, .gflops = 0, .read_gbps = kCopyGbps}});
    }
  }
  return suite;
}

}  // namespace tilewright::cli
