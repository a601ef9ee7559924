// SPDX-License-Identifier: MIT
// A tensor that is a paged cache of some layout, as strides.
#pragma once

#include "ops/kv_cache/problem/cache_problem.hpp"

namespace tilewright {

struct PagedView {
  int64_t blocks = 0, block_size = 0;
  PagedProblem strides;
};
// Of so many heads of n elements. A refusal names operator and argument.
Result<PagedView> read_paged_view(std::string_view op, const char* name, const TensorView& tensor, CacheLayout layout,
                                  int64_t heads, int64_t n);

}  // namespace tilewright
