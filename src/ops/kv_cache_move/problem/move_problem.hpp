// SPDX-License-Identifier: MIT
// CacheMoveProblem: one call of kv_cache_copy or kv_cache_gather without addresses.
#pragma once

#include "ops/kv_cache/problem/cache_problem.hpp"
#include "tilewright/kv_cache_move.hpp"

namespace tilewright {

struct CacheMoveProblem {
  int64_t items = 0;  // pairs of blocks, or tokens
  int64_t heads = 1, n = 0;
  int64_t from_blocks = 0, to_blocks = 0, block_size = 1;  // to_blocks: of tokens as many
  int64_t requests = 0, columns = 0;                       // of the block table
  PagedProblem from, to;
  int64_t scale_block = 0, scale_position = 0, scale_head = 0;
  int64_t stride_index = 0, stride_column = 0;  // in words
  DType in = DType::kNone, out = DType::kNone;
  CacheScales scales = CacheScales::kNone;
  uint8_t wide = 0;          // numbers of pairs are i64
  uint8_t unaligned = 0;     // some pointer is no multiple of 16 bytes; 0 on CPUs
  uint8_t reserved[3] = {};  // no padding: problems are compared as bytes

  bool empty() const { return items == 0 || heads == 0 || n == 0 || block_size == 0; }
  std::array<Extent, 6> from_extents() const { return extents(from, from_blocks, block_size); }
  std::array<Extent, 6> to_extents(bool pairs) const { return extents(to, to_blocks, pairs ? block_size : 1); }
  std::array<Extent, 3> scale_extents() const;

 private:
  std::array<Extent, 6> extents(const PagedProblem& t, int64_t blocks, int64_t positions) const;
};

enum CacheMovePointerSlot : uint16_t { kMoveFrom, kMoveTo, kMoveIndex, kMoveLengths, kMoveScale, kMovePointerSlots };
using CacheMovePointers = std::array<const void*, kMovePointerSlots>;

// One of the two operators. Their kernels are the same: kernels/kv_cache/cache_move_cpu.hpp and _gpu.cuh.
struct CacheMoveOp {
  std::string_view name;
  bool pairs;  // blocks to blocks; else tokens by a table
  const char *from, *to, *index;
};

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_copy_problem(const CacheMoveOp& op, const KvCacheCopyCall& call, bool check_addresses,
                         CacheMoveProblem& problem, CacheMovePointers& pointers);
Status make_gather_problem(const CacheMoveOp& op, const KvCacheGatherCall& call, bool check_addresses,
                           CacheMoveProblem& problem, CacheMovePointers& pointers);
// The part that needs no call: problems from text pass through it too.
Status validate_move_problem(const CacheMoveOp& op, const CacheMoveProblem& problem);
// Whether any problem has these types.
Status check_move_types(const CacheMoveOp& op, DType in, DType out);

// "t=4096:b=16:k=8:n=128:x=e4m3:out=bf16:block=16"; what is not contiguous follows. docs/kv_cache_move.md
std::string print_move_problem(const CacheMoveOp& op, const CacheMoveProblem& problem);
Result<CacheMoveProblem> parse_move_problem(const CacheMoveOp& op, std::string_view text);
// Strides of tensors without gaps.
void set_move_strides(const CacheMoveOp& op, CacheMoveProblem& problem, CacheLayout layout);

double move_bytes(const CacheMoveOp& op, const CacheMoveProblem& problem);

}  // namespace tilewright
