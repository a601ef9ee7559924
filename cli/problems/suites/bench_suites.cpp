// SPDX-License-Identifier: MIT
#include "problems/suites/bench_suites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "problems/suites/gemm_gpu_suite.hpp"
#include "problems/suites/grouped_gpu_suite.hpp"
#include "problems/suites/memory_suites.hpp"
#include "problems/suites/quant_cpu_suite.hpp"
#include "problems/suites/quant_gpu_suite.hpp"

namespace tilewright::cli {
namespace {

struct Layer {
  const char* name;
  int64_t n, k;
};
// Linear layers, tensor-parallel degree 1, without lm_head. Those of Qwen3-8B that equal one of Llama-3.1-8B's stand once.
constexpr Layer kLlamaLayers[] = {
    {"attn_qkv", 6144, 4096}, {"attn_o", 4096, 4096}, {"mlp_gate_up", 28672, 4096}, {"mlp_down", 4096, 14336}};
constexpr Layer kQwenLayers[] = {{"mlp_gate_up", 24576, 4096}, {"mlp_down", 4096, 12288}};

// The table of what CPU GEMM is held to.
Suite gemm_suite() {
  Suite suite;
  const auto add = [&suite](const std::string& text, const std::string& regime, int threads,
                            const std::string& name = "", const std::string& baseline = "") {
    suite.add(text, {.regime = regime, .threads = threads}, name, baseline);
  };
  for (const char* dtype : {"f32", "bf16", "i8"}) {
    const char* scales = std::string_view(dtype) == "i8" ? ":scale_a=f32:scale_b=f32" : "";
    for (const bool packed : {true, false}) {
      for (const int threads : {1, 0}) {
        add(fmt::format("m=2048:n=2048:k=2048:a={}{}{}", dtype, packed ? ":packed=1" : "", scales),
            fmt::format("square {} {}", dtype, packed ? "packed" : "plain"), threads);
      }
    }
  }
  for (const int64_t m : {16, 64}) {
    add(fmt::format("m={}:n=14336:k=4096:a=bf16:packed=1", m), fmt::format("m={} bf16", m), 1);
  }
  for (const char* dtype : {"bf16", "f32"}) {
    for (const auto& [n, k] : {std::pair{4096, 14336}, {28672, 4096}}) {
      for (const int64_t m : {1, 4}) {
        for (const int threads : {1, 0}) {
          add(fmt::format("m={}:n={}:k={}:a={}:packed=1", m, n, k, dtype), fmt::format("decode {}", dtype), threads);
        }
      }
    }
  }
  const auto layers = [&add](auto&& table, const char* model) {
    for (const Layer& layer : table) {
      for (const int64_t m : {1, 16, 64, 256}) {
        add(fmt::format("m={}:n={}:k={}:a=bf16:packed=1", m, layer.n, layer.k), "layers", 0,
            fmt::format("{} {}", model, layer.name));
      }
    }
  };
  layers(kLlamaLayers, "llama-3.1-8b");
  layers(kQwenLayers, "qwen3-8b");
  for (const int64_t m : {64, 256}) {
    for (const int threads : {1, 0}) {
      const std::string up = fmt::format("m={}:n=14336:k=4096:a=bf16:packed=1", m);
      add(up + ":bias=bf16:act=gelu", "bias+gelu over plain", threads, "", up);
      const std::string gate_up = fmt::format("m={}:n=28672:k=4096:a=bf16:packed=1", m);
      add(gate_up + ":gate=separated:act=silu", "silu-mul over plain", threads, "", gate_up);
    }
  }
  return suite;
}

}  // namespace

void Suite::add(const std::string& text, SuiteProblem item, const std::string& name, const std::string& baseline) {
  Result<NamedProblem> problem = parse_problem_text(text);
  Result<NamedProblem> plain = parse_problem_text(baseline.empty() ? text : baseline);
  if (!problem || !plain) {
    const Status& status = problem ? plain.status() : problem.status();
    skipped.push_back({item.regime, text, status.message()});
    return;
  }
  item.problem = std::move(*problem);
  if (!name.empty()) item.problem.layer = name;
  if (!baseline.empty()) item.baseline = std::move(*plain);
  problems.push_back(std::move(item));
}

std::vector<std::string> suite_names() { return {"gemm", "quant", "grouped", "memory"}; }

Result<Suite> find_suite(const std::string& suite, DeviceKind kind) {
  const bool gpu = kind != DeviceKind::kCpu;
  if (suite == "gemm" || (suite == "all" && !gpu)) return gpu ? gemm_gpu_suite() : gemm_suite();
  if (suite == "quant") return gpu ? quant_gpu_suite() : quant_cpu_suite();
  if (suite == "grouped" && gpu) return grouped_gpu_suite();
  if (suite == "grouped")
    return Status(StatusCode::kUnsupported, "suite 'grouped' is for GPUs; on a CPU: gemm, quant, memory");
  if (suite == "memory") return gpu ? memory_gpu_suite() : memory_cpu_suite();
  if (suite != "all") {
    return Status(StatusCode::kNotFound,
                  fmt::format("suite '{}' is unknown; known: gemm, quant, grouped, memory, all", suite));
  }
  Suite every = gemm_gpu_suite();
  for (Suite more : {quant_gpu_suite(), grouped_gpu_suite(), memory_gpu_suite()}) {
    std::ranges::move(more.problems, std::back_inserter(every.problems));
    std::ranges::move(more.skipped, std::back_inserter(every.skipped));
  }
  return every;
}

}  // namespace tilewright::cli
