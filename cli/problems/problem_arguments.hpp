// SPDX-License-Identifier: MIT
// Problems on the command line: --problem TEXT, or the shorthand --gemm MxNxK[:dtype][:packed].
#pragma once

#include <string>
#include <vector>

#include "arguments.hpp"
#include "dispatch/operator.hpp"

namespace tilewright::cli {

// A problem with what people call it.
struct NamedProblem {
  const Operator* op = nullptr;
  std::vector<std::byte> bytes;
  std::string layer;  // of a model, or the problem's own text
  ProblemRef ref() const { return bytes; }
  std::string text() const { return op->problem_text(bytes); }
  // "attn_qkv, 16 tokens", or the text when it has no other name.
  std::string label() const;
  // By its size name in the operator's signature ("m", "n", "k"); 0 where there is none.
  int64_t size(std::string_view name) const;
};

struct ProblemArguments {
  std::vector<std::string> texts;  // "[op ]m=16:n=4096:..."
  std::vector<std::string> gemms;  // "16x4096x4096:bf16:packed"
  bool empty() const { return texts.empty() && gemms.empty(); }
};
void add_problem_arguments(Arguments& arguments, ProblemArguments& problems);

// "16x4096x4096:i8:packed:act=gelu" -> the full text. What is neither a dtype nor "packed" passes as it is.
Result<std::string> expand_gemm_shorthand(const std::string& shorthand);

// `text` may start with an operator's name and a space; without one it is a gemm.
Result<NamedProblem> parse_problem_text(const std::string& text);
// Every argument, in order: texts, then shorthands. An error names the argument.
Result<std::vector<NamedProblem>> parse_problems(const ProblemArguments& arguments);
// The same, and at least one must be there.
Result<std::vector<NamedProblem>> require_problems(const ProblemArguments& arguments);

}  // namespace tilewright::cli
