// SPDX-License-Identifier: MIT
// The kernel families of moves from a paged cache: typed by configs on CPUs and GPUs, and typed at run time on both.
#pragma once

#include <cstdint>
#include <memory>

#include "dispatch/registry/family.hpp"
#include "kv_cache/cache_move_args.hpp"
#include "ops/kv_cache_move/problem/move_problem.hpp"

namespace tilewright {

std::unique_ptr<KernelFamily> make_move_cpu_family(const CacheMoveOp& op);          // <op>_cpu
std::unique_ptr<KernelFamily> make_move_gpu_family(const CacheMoveOp& op);          // <op>_gpu
std::unique_ptr<KernelFamily> make_move_generic_family(const CacheMoveOp& op);      // <op>_generic
std::unique_ptr<KernelFamily> make_move_generic_gpu_family(const CacheMoveOp& op);  // <op>_generic_gpu

// Elements of a GPU's piece: 16 bytes as they are, or codes that become floats.
inline int64_t move_piece_elements(const CacheMoveProblem& p) {
  return p.in == p.out ? 128 / dtype_bits(p.in) : kRowPiece;
}

// Argument bytes without addresses, and where these go.
Stage move_stage(const CacheMoveOp& op, const CacheMoveProblem& problem, long long grid,
                 std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
