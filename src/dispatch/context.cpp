// SPDX-License-Identifier: MIT
#include "tilewright/context.hpp"

#include "dispatch/context_impl.hpp"

namespace tilewright {

Context::Context(std::unique_ptr<ContextImpl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;

std::string Context::tables_digest() const { return impl_->choice_digest().hex(); }

std::vector<std::pair<std::string, uint64_t>> Context::counters() const {
  std::vector<std::pair<std::string, uint64_t>> values;
  const CounterValues counts = snapshot(impl_->counters());
  for_each_field(counts, [&values](const char* name, uint64_t value) { values.emplace_back(name, value); });
  return values;
}

}  // namespace tilewright
