// SPDX-License-Identifier: MIT
// The linear layers of real models, from models/*.csv or a file of the same columns, as problems.
#pragma once

#include <string>
#include <vector>

#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

struct ModelArguments {
  std::vector<std::string> models;  // "llama-3.1-8b"
  std::vector<std::string> shapes;  // files
  std::vector<std::string> layers;  // empty = all
  std::string tokens = "1,16,128";
  std::string dtype;  // "" = each row's own
  int tensor_parallel = 1;
  bool plain = false;         // weights as they are stored, not packed
  bool with_lm_head = false;  // its one product is far larger than the others and runs once a token
  bool empty() const { return models.empty() && shapes.empty(); }
};
void add_model_arguments(Arguments& arguments, ModelArguments& models);

// One problem a layer and token count, layers first. Rows that gemm cannot take (quantised schemes) are left out, and
// `notes` says so in a line.
Result<std::vector<NamedProblem>> model_problems(const ModelArguments& arguments, std::vector<std::string>& notes);

// "1,16,128" -> {1, 16, 128}.
Result<std::vector<int64_t>> parse_tokens(const std::string& text);

}  // namespace tilewright::cli
