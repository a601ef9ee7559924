// SPDX-License-Identifier: MIT
#include "problems/problem_arguments.hpp"

#include <fmt/format.h>

#include <charconv>

#include "command.hpp"
#include "core/fields.hpp"
#include "ops/op_list.hpp"

namespace tilewright::cli {
namespace {

Status refuse(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

// What is said about a problem names the argument that brought it.
Result<NamedProblem> named_error(Result<NamedProblem> problem, const char* argument, const std::string& value) {
  if (problem) return problem;
  return Status(problem.status().code(), fmt::format("{} '{}': {}", argument, value, problem.status().message()));
}

}  // namespace

std::string NamedProblem::label() const {
  if (layer == text()) return layer;
  const int64_t tokens = size("m");
  return fmt::format("{}, {} token{}", layer, tokens, tokens == 1 ? "" : "s");
}

int64_t NamedProblem::size(std::string_view name) const {
  const std::string sizes = op->signature(bytes).sizes;
  for (const std::string& item : split_words(sizes, ':')) {
    const size_t equal = item.find('=');
    if (equal == std::string::npos || std::string_view(item).substr(0, equal) != name) continue;
    int64_t value = 0;
    std::from_chars(item.data() + equal + 1, item.data() + item.size(), value);
    return value;
  }
  return 0;
}

void add_problem_arguments(Arguments& arguments, ProblemArguments& problems) {
  arguments.group("Problems");
  arguments.texts("--problem", problems.texts, "TEXT", "a problem's text, e.g. m=16:n=4096:k=4096:a=bf16:bias=bf16");
  arguments.texts("--gemm", problems.gemms, "MxNxK[:dtype][:packed]", "a gemm in short, e.g. 16x4096x4096:bf16:packed");
  arguments.group("");
}

Result<std::string> expand_gemm_shorthand(const std::string& shorthand) {
  const std::vector<std::string> parts = split_words(shorthand, ':');
  const std::vector<std::string> sizes = split_words(parts.empty() ? "" : parts[0], 'x');
  if (sizes.size() != 3)
    return refuse("allowed: MxNxK[:dtype][:packed][:name=value ...], e.g. 16x4096x4096:bf16:packed");
  std::string text = fmt::format("m={}:n={}:k={}", sizes[0], sizes[1], sizes[2]);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "packed") {
      text += ":packed=1";
    } else if (parts[i].find('=') != std::string::npos) {
      text += ":" + parts[i];
    } else {
      Result<DType> dtype = parse_dtype(parts[i]);
      if (!dtype) return dtype.status();
      text += ":a=" + parts[i];
    }
  }
  return text;
}

Result<NamedProblem> parse_problem_text(const std::string& text) {
  const size_t space = text.find(' ');
  const std::string name = space == std::string::npos ? "gemm" : text.substr(0, space);
  std::vector<std::string> known;
  for (const Operator* op : all_operators()) {
    known.emplace_back(op->name());
    if (op->name() != name) continue;
    Result<std::vector<std::byte>> bytes =
        op->parse_problem(space == std::string::npos ? text : text.substr(space + 1));
    if (!bytes) return bytes.status();
    NamedProblem problem{op, std::move(*bytes), {}};
    problem.layer = problem.text();
    return problem;
  }
  return refuse(fmt::format("operator '{}' is unknown; allowed: {}", name, join(known)));
}

Result<std::vector<NamedProblem>> parse_problems(const ProblemArguments& arguments) {
  std::vector<NamedProblem> problems;
  auto add = [&problems](Result<NamedProblem> problem) -> Status {
    if (!problem) return problem.status();
    problems.push_back(std::move(*problem));
    return {};
  };
  for (const std::string& text : arguments.texts) {
    if (Status s = add(named_error(parse_problem_text(text), "--problem", text)); !s) return s;
  }
  for (const std::string& shorthand : arguments.gemms) {
    Result<std::string> text = expand_gemm_shorthand(shorthand);
    Result<NamedProblem> problem = text ? parse_problem_text(*text) : Result<NamedProblem>(text.status());
    if (Status s = add(named_error(std::move(problem), "--gemm", shorthand)); !s) return s;
  }
  return problems;
}

Result<std::vector<NamedProblem>> require_problems(const ProblemArguments& arguments) {
  if (arguments.empty()) {
    return refuse("a problem is missing: --problem m=16:n=4096:k=4096:a=bf16, or --gemm 16x4096x4096:bf16:packed");
  }
  return parse_problems(arguments);
}

}  // namespace tilewright::cli
