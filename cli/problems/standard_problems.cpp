// SPDX-License-Identifier: MIT
#include "problems/standard_problems.hpp"

#include <fmt/format.h>

namespace tilewright::cli {
namespace {

constexpr const char* kStandardGemms[] = {
    "m=1:n=4096:k=1024:a=f32",
    "m=1:n=4096:k=1024:a=bf16:packed=1",
    "m=16:n=1040:k=1000:a=bf16:packed=1:bias=bf16:act=gelu",
    "m=200:n=520:k=1000:a=f32:layout=rrr",
    "m=200:n=520:k=1000:a=f32:layout=ccr:packed=0:alpha=1:c=f32",
    "m=200:n=520:k=1000:a=bf16",
    "m=200:n=520:k=1000:a=bf16:packed=1:steps=add.bf16+act.relu",
    "m=200:n=520:k=1000:a=f16:packed=1:d=f32",
    "m=200:n=520:k=1000:a=i8:packed=1:scale_a=f32:scale_b=f32",
    "m=5:n=520:k=1000:a=i8:scale_a=f32:scale_b=f32:bias=f32",
    "m=64:n=512:k=777:a=bf16:packed=1:gate=separated:act=silu",
    "m=31:n=65:k=100:batch=3:a=f32",
};

struct Dimensions {
  const char* name;
  int64_t n, k;
};
// The linear layers of Llama-3.1-8B.
constexpr Dimensions kLlamaLayers[] = {
    {"attn_qkv", 6144, 4096}, {"attn_o", 4096, 4096}, {"mlp_gate_up", 28672, 4096}, {"mlp_down", 4096, 14336}};

Result<std::vector<SuiteProblem>> gemm_suite() {
  std::vector<SuiteProblem> problems;
  Status status;
  auto add = [&](const std::string& text, const std::string& regime, int threads) {
    Result<NamedProblem> problem = parse_problem_text(text);
    if (problem) {
      problems.push_back({std::move(*problem), regime, threads});
    } else if (status.ok()) {
      status = problem.status();
    }
  };
  for (const char* dtype : {"f32", "bf16", "i8"}) {
    for (const char* weights : {":packed=1", ""}) {
      const char* scales = std::string_view(dtype) == "i8" ? ":scale_a=f32:scale_b=f32" : "";
      for (const int threads : {1, 0}) {
        add(fmt::format("m=2048:n=2048:k=2048:a={}{}{}", dtype, weights, scales), "square", threads);
      }
    }
  }
  for (const Dimensions& layer : kLlamaLayers) {
    for (const int64_t m : {1, 16, 64, 256}) {
      add(fmt::format("m={}:n={}:k={}:a=bf16:packed=1", m, layer.n, layer.k), m <= 16 ? "decode" : "prefill", 0);
      if (!problems.empty()) problems.back().problem.layer = layer.name;
    }
  }
  if (!status.ok()) return status;
  return problems;
}

}  // namespace

Result<std::vector<NamedProblem>> standard_problems() {
  std::vector<NamedProblem> problems;
  for (const char* text : kStandardGemms) {
    Result<NamedProblem> problem = parse_problem_text(text);
    if (!problem) return problem.status();
    problems.push_back(std::move(*problem));
  }
  return problems;
}

std::vector<std::string> suite_names() { return {"gemm"}; }

Result<std::vector<SuiteProblem>> suite_problems(const std::string& suite) {
  if (suite == "gemm" || suite == "all") return gemm_suite();
  return Status(StatusCode::kNotFound, fmt::format("suite '{}' is unknown; known: gemm, all", suite));
}

}  // namespace tilewright::cli
