// SPDX-License-Identifier: MIT
// Runs a row operator's problem from its text, on guarded and poisoned buffers.
#pragma once

#include <gtest/gtest.h>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright::test {

inline std::unique_ptr<Context> row_context(const char* jit, int units = 2) {
  ContextOptions options;
  options.jit = jit;
  options.user_tables = false;
  options.cpu_units = units;
  return std::move(*Context::create(options));
}

inline VerifyReport run_row_problem(Context& context, const Operator& op, const std::string& text,
                                    const std::string& recipe = "", uint64_t seed = 1,
                                    InputData data = InputData::kNormal, bool usual = false) {
  const Result<std::vector<std::byte>> problem = op.parse_problem(text);
  if (!problem) return {.failure = problem.status().to_string()};
  auto instance = op.instantiate(*problem, context.impl().device(), {.usual = usual});
  if (!instance) return {.failure = instance.status().to_string()};
  (*instance)->fill(seed, data);
  (*instance)->poison();
  const Status status = context.impl().run(op, *problem, (*instance)->bindings(), {}, recipe);
  return status.ok() ? (*instance)->verify() : VerifyReport{.failure = status.to_string()};
}

}  // namespace tilewright::test
