// SPDX-License-Identifier: MIT
#include "problems/bench_suites.hpp"

#include <fmt/format.h>

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

class SuiteBuilder {
 public:
  void add(const std::string& text, const std::string& regime, int threads, const std::string& name = "",
           const std::string& baseline = "") {
    Result<NamedProblem> problem = parse_problem_text(text);
    if (!problem) return fail(problem.status());
    if (!name.empty()) problem->layer = name;
    SuiteProblem item{std::move(*problem), regime, threads, {}};
    if (!baseline.empty()) {
      Result<NamedProblem> plain = parse_problem_text(baseline);
      if (!plain) return fail(plain.status());
      item.baseline = std::move(*plain);
    }
    problems_.push_back(std::move(item));
  }
  Result<std::vector<SuiteProblem>> take() {
    if (!status_.ok()) return status_;
    return std::move(problems_);
  }

 private:
  void fail(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  std::vector<SuiteProblem> problems_;
  Status status_;
};

// The table of what CPU GEMM is held to.
Result<std::vector<SuiteProblem>> gemm_suite() {
  SuiteBuilder suite;
  for (const char* dtype : {"f32", "bf16", "i8"}) {
    const char* scales = std::string_view(dtype) == "i8" ? ":scale_a=f32:scale_b=f32" : "";
    for (const bool packed : {true, false}) {
      for (const int threads : {1, 0}) {
        suite.add(fmt::format("m=2048:n=2048:k=2048:a={}{}{}", dtype, packed ? ":packed=1" : "", scales),
                  fmt::format("square {} {}", dtype, packed ? "packed" : "plain"), threads);
      }
    }
  }
  for (const int64_t m : {16, 64}) {
    suite.add(fmt::format("m={}:n=14336:k=4096:a=bf16:packed=1", m), fmt::format("m={} bf16", m), 1);
  }
  for (const char* dtype : {"bf16", "f32"}) {
    for (const auto& [n, k] : {std::pair{4096, 14336}, {28672, 4096}}) {
      for (const int64_t m : {1, 4}) {
        for (const int threads : {1, 0}) {
          suite.add(fmt::format("m={}:n={}:k={}:a={}:packed=1", m, n, k, dtype), fmt::format("decode {}", dtype),
                    threads);
        }
      }
    }
  }
  const auto layers = [&suite](auto&& table, const char* model) {
    for (const Layer& layer : table) {
      for (const int64_t m : {1, 16, 64, 256}) {
        suite.add(fmt::format("m={}:n={}:k={}:a=bf16:packed=1", m, layer.n, layer.k), "layers", 0,
                  fmt::format("{} {}", model, layer.name));
      }
    }
  };
  layers(kLlamaLayers, "llama-3.1-8b");
  layers(kQwenLayers, "qwen3-8b");
  for (const int64_t m : {64, 256}) {
    for (const int threads : {1, 0}) {
      const std::string up = fmt::format("m={}:n=14336:k=4096:a=bf16:packed=1", m);
      suite.add(up + ":bias=bf16:act=gelu", "bias+gelu over plain", threads, "", up);
      const std::string gate_up = fmt::format("m={}:n=28672:k=4096:a=bf16:packed=1", m);
      suite.add(gate_up + ":gate=separated:act=silu", "silu-mul over plain", threads, "", gate_up);
    }
  }
  return suite.take();
}

}  // namespace

std::vector<std::string> suite_names() { return {"gemm"}; }

Result<std::vector<SuiteProblem>> suite_problems(const std::string& suite) {
  if (suite == "gemm" || suite == "all") return gemm_suite();
  return Status(StatusCode::kNotFound, fmt::format("suite '{}' is unknown; known: gemm, all", suite));
}

}  // namespace tilewright::cli
