// SPDX-License-Identifier: MIT
#include "ops/op_list.hpp"

#include <cstdio>
#include <cstdlib>

#include "dispatch/context_impl.hpp"

namespace tilewright {

std::span<const Operator* const> all_operators() {
  static const Operator* const kOperators[] = {
#define TILEWRIGHT_OPERATOR(name) &name##_operator(),
#include "ops/op_list.inc"
#undef TILEWRIGHT_OPERATOR
  };
  return kOperators;
}

Result<std::unique_ptr<Context>> Context::create(const ContextOptions& options) {
  Result<std::unique_ptr<ContextImpl>> impl = ContextImpl::create(options, all_operators());
  if (!impl) return impl.status();
  return std::unique_ptr<Context>(new Context(std::move(*impl)));
}

Context& Context::global() {
  // The one global with state; never destroyed, so that late calls of other static objects stay safe.
  static Context* const kContext = [] {
    Result<std::unique_ptr<Context>> context = create();
    if (!context) {
      // Default options only fail when the library itself is broken.
      std::fprintf(stderr, "tilewright: %s\n", context.status().to_string().c_str());
      std::abort();
    }
    return std::move(*context).release();
  }();
  return *kContext;
}

}  // namespace tilewright
