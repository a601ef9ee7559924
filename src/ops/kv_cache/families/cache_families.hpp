// SPDX-License-Identifier: MIT
// The kernel families of operators that write to a paged cache: typed by configs on CPUs and GPUs, and typed at run time on both.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/registry/family.hpp"
#include "ops/kv_cache/problem/cache_problem.hpp"

namespace tilewright {

std::unique_ptr<KernelFamily> make_cache_cpu_family(const CacheOp& op);          // <op>_cpu
std::unique_ptr<KernelFamily> make_cache_gpu_family(const CacheOp& op);          // <op>_gpu
std::unique_ptr<KernelFamily> make_cache_generic_family(const CacheOp& op);      // <op>_generic
std::unique_ptr<KernelFamily> make_cache_generic_gpu_family(const CacheOp& op);  // <op>_generic_gpu

// Problems that always-built instances are made for.
std::vector<CacheProblem> usual_cache_problems(const CacheOp& op);

// Argument bytes without addresses, and where these go. `each`: heads of a set.
Stage cache_stage(const CacheProblem& problem, int each, long long grid, std::shared_ptr<const LoadedKernel> kernel,
                  bool stream = false);
// Whether kRowPiece elements of a head are one aligned store.
bool has_pieces(const CacheProblem& problem, int tensor);

}  // namespace tilewright
