// SPDX-License-Identifier: MIT
// An operator of one line, y[i] = 2 x[i] + 1, with a kernel for every way to go wrong: what the tuner's tests tune.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dispatch/context_impl.hpp"

namespace tilewright::test {

struct ToyProblem {
  int64_t n = 0;
};

const Operator& toy_operator();
std::vector<std::byte> toy_problem(int64_t n);

// The kernels that the family offers, cheapest by the cost model first. Known:
//   plain          right
//   slow           right, and many times slower
//   tail           leaves out what is behind the last multiple of 16
//   past_end       right, but writes one element behind the output
//   skips          leaves one element unwritten
//   nan            NaN in one element
//   one_seed       right with the first data that the process saw only
//   hang, crash, memory, exits
//   refuses        its stages cannot be made
void offer_toy_kernels(std::vector<std::string> names);

// A context with the toy operator on `units` units and its kernels registered; no user tables, files in `folder`.
std::unique_ptr<ContextImpl> toy_context(const std::string& folder);
// The recipe text of a kernel.
std::string toy_recipe(const std::string& kernel);
// argv of a worker that knows the toy operator; works in every test program.
std::vector<std::string> toy_worker();

}  // namespace tilewright::test
