// SPDX-License-Identifier: MIT
// kv_cache_copy: blocks of a paged cache to blocks of the same one or another; kv_cache_gather: the tokens of requests from their blocks
// to rows that lie one behind the other, as they are or as floats. docs/kv_cache_move.md has the contract.
//
// Shapes of kv_cache_copy: from and to [blocks, ...], alike but for the number of blocks, any layout and strides (of one block at most
// three dimensions that strides keep apart); mapping [P, 2], i32, or [P, 2, 2]: the words of i64. Block mapping[i, 0] goes to mapping[i, 1].
// from and to may be one tensor; a block must not both come and go in one call, nor go to two.
// Shapes of kv_cache_gather: cache by its layout; block_table [B, columns] i32; cumulative_lengths [B + 1] i32, neighbours: the number
// of tokens before each request; out [T, H, D], or [T, D] of one head. Token t of request b is position t - cumulative_lengths[b].
// What is no block of its cache (-1), no column of the table or behind the last request is skipped: nothing is written.
// Dtypes: any of 8 bits or more, the same; of kv_cache_gather also codes (e4m3, e5m2, both flavours, i8) with scales to f32, f16, bf16.
// Sizes: heads and D exact, others bucketed; size 0 is legal. Aliasing: what is written overlaps nothing else, but for from and to
// that are one.
#pragma once

#include <string>

#include "kv_cache/kv_cache_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct KvCacheCopyCall {
  TensorView from, to;
  TensorView mapping;
  std::string recipe{};  // force this recipe (text form); "" = choose
};
struct KvCacheGatherCall {
  TensorView cache, out;
  CacheLayout layout = CacheLayout::kNhd;
  TensorView block_table, cumulative_lengths;
  CacheScales scales = CacheScales::kNone;
  TensorView scale{};  // f32: one number, [H], or [blocks, block, H]
  std::string recipe{};
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status kv_cache_copy(Context& context, const KvCacheCopyCall& call, const Exec& exec = {});
TILEWRIGHT_API Status kv_cache_gather(Context& context, const KvCacheGatherCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status kv_cache_copy_prepare(Context& context, const KvCacheCopyCall& call, const Exec& exec = {});
TILEWRIGHT_API Status kv_cache_gather_prepare(Context& context, const KvCacheGatherCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> kv_cache_copy_query(Context& context, const KvCacheCopyCall& call,
                                                       const Exec& exec = {});
TILEWRIGHT_API Result<QueryResult> kv_cache_gather_query(Context& context, const KvCacheGatherCall& call,
                                                         const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> kv_cache_copy_explain(Context& context, const KvCacheCopyCall& call,
                                                         const Exec& exec = {});
TILEWRIGHT_API Result<std::string> kv_cache_gather_explain(Context& context, const KvCacheGatherCall& call,
                                                           const Exec& exec = {});

}  // namespace tilewright
