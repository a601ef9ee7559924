// SPDX-License-Identifier: MIT
// A context of two CPU units that compiles nothing and reads no tables of the user: built kernels alone.
#pragma once

#include "dispatch/context_impl.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::test {

inline Context& built_context() {
  static const std::unique_ptr<Context> kContext = [] {
    ContextOptions options;
    options.jit = "off";
    options.user_tables = false;
    options.cpu_units = 2;
    return std::move(*Context::create(options));
  }();
  return *kContext;
}

}  // namespace tilewright::test
