// SPDX-License-Identifier: MIT
// A problem of a paged cache made real: guarded buffers with data, and the float64 reference.
#pragma once

#include <span>
#include <vector>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/kv_cache/problem/cache_problem.hpp"

namespace tilewright {

// A problem's tensors on the host, by slot.
struct CacheHostTensors {
  std::array<const void*, kCachePointerSlots> data{};
  float eps = 0;
};

// The slot of a token, -1 where it is none of the cache's; queries go to their own number.
int64_t cache_slot(const CacheProblem& problem, const CacheHostTensors& tensors, int tensor, int64_t token);
// Element d of head h at a slot of an output, from its first; and its scale.
int64_t cache_element(const CacheProblem& problem, int tensor, int64_t slot, int64_t head, int64_t d);
int64_t cache_scale_element(const CacheProblem& problem, int tensor, int64_t slot, int64_t head);
// What a head becomes before it is quantised.
void cache_reference(const CacheProblem& problem, const CacheHostTensors& tensors, int tensor, int64_t token,
                     int64_t head, std::vector<ReferenceElement>& y);
// Compares a head of an output, and its scale where one is found.
void compare_cache_head(const CacheProblem& problem, const CacheHostTensors& tensors, int tensor, int64_t token,
                        int64_t head, std::span<const ReferenceElement> y, Comparison& comparison);

Result<std::unique_ptr<ProblemInstance>> make_cache_instance(const CacheOp& op, const CacheProblem& problem,
                                                             Device& device, const InstanceOptions& options);

}  // namespace tilewright
