// SPDX-License-Identifier: MIT
// kv_cache_write: keys and values of new tokens to their slots of a paged cache, as they are or quantised.
//
// Shapes: key [T, H, D]; value [T, H, D'], optional; caches by their layout, the same number of blocks and tokens a block;
// slot_mapping [T], i32, or [T, 2]: the words of i64. Slot s is token s % block of block s / block. A negative slot is skipped, and so
// is one beyond the cache: nothing else is written. Elements of a head are neighbours in key and value, everything else has any
// strides, caches too: they may lie beside each other in one tensor. D and D' are at most 2048.
// Dtypes: key and value f32, f16, bf16, both the same; caches both the same, theirs, or e4m3, e5m2 (OCP and FNUZ), i8.
// Scales: f32; of a cache of codes, each code times its scale is the value, nearly. By `scales`: one number, [H], or found and
// written, [blocks, block, H].
// Sizes: H, D exact; T, blocks bucketed. Size 0 is legal. Aliasing: caches and found scales may overlap nothing else of the call.
// Two tokens of a call must not have one slot. docs/kv_cache.md has the contract.
#pragma once

#include <string>

#include "kv_cache/kv_cache_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct KvCacheWriteCall {
  TensorView key, value{};
  TensorView key_cache, value_cache{};
  CacheLayout key_layout = CacheLayout::kNhd, value_layout = CacheLayout::kNhd;
  TensorView slot_mapping;
  CacheScales scales = CacheScales::kNone;
  TensorView key_scale{}, value_scale{};
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Of MLA: kv_c [T, C] and k_pe [T, R] beside each other in rows of cache [blocks, block, C + R]. `scale`: of both.
TILEWRIGHT_API Result<KvCacheWriteCall> mla_cache_write_call(const TensorView& kv_c, const TensorView& k_pe,
                                                             const TensorView& cache, const TensorView& slot_mapping,
                                                             const TensorView& scale = {});

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status kv_cache_write(Context& context, const KvCacheWriteCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status kv_cache_write_prepare(Context& context, const KvCacheWriteCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> kv_cache_write_query(Context& context, const KvCacheWriteCall& call,
                                                        const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> kv_cache_write_explain(Context& context, const KvCacheWriteCall& call,
                                                          const Exec& exec = {});

}  // namespace tilewright
