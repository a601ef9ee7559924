// SPDX-License-Identifier: MIT
#include "problems/standard_problems.hpp"

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
    "m=5:n=520:k=1008:a=e4m3:scale_a=f32:scale_b=f32",
    "m=200:n=520:k=1008:a=e5m2:scale_a=f32:scale_b=f32:bias=bf16",
    "m=40:n=260:k=520:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
    "m=40:n=260:k=544:a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32:bias=bf16",
    "m=5:n=260:k=512:a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16:alpha=1",
    "m=5:n=260:k=544:a=bf16:b=e2m1:scale_b=e8m0.1x32",
    "m=5:n=260:k=544:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4",
    "m=1:n=260:k=544:a=f16:b=i4:scale_b=bf16.1x32:bias=f16",
    "m=5:n=260:k=544:a=bf16:b=i8:scale_b=f32.1x64:zero_b=i8",
    "m=1:n=260:k=544:a=bf16:b=i8:scale_b=f32",
    "m=64:n=512:k=777:a=bf16:packed=1:gate=separated:act=silu",
    "m=31:n=65:k=100:batch=3:a=f32",
};

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

}  // namespace tilewright::cli
