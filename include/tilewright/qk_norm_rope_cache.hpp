// SPDX-License-Identifier: MIT
// qk_norm_rope_cache: what lies between the projection of queries, keys and values and attention, in one launch: each head of q and k
// over the root of its mean square, times a weight; turned by the angle of its token; k and v to their slots of a paged cache.
//
// Shapes: q, q_out [T, H, D]; k [T, H', D]; v [T, H', D'], optional; q_weight, k_weight [D], optional; cos, sin [P, R / 2], optional:
// without them nothing turns; positions [T], i32, or [T, 2], the words of i64; without them a token's number; with sections [axes, T]
// or [axes, T, 2] (MRoPE). Caches, slots, strides,
// dtypes and scales as kv_cache_write's; q_out as q, or codes with scales of their own: one number, [H], or found and written, [T, H].
// q, k and v may be heads of one packed tensor. Dtypes: q, k, v all the same, weights too. Arithmetic: f32, rounded once.
// Aliasing: q_out may be q, the same elements; else what is written may overlap nothing. docs/qk_norm_rope_cache.md has the contract.
#pragma once

#include <array>

#include "tilewright/kv_cache.hpp"

namespace tilewright {

struct QkNormRopeCacheCall {
  TensorView q, k, v{};
  TensorView q_out, key_cache, value_cache{};
  CacheLayout key_layout = CacheLayout::kNhd, value_layout = CacheLayout::kNhd;
  TensorView slot_mapping;
  bool norm = true;
  TensorView q_weight{}, k_weight{};
  float eps = 1e-6f;
  bool unit_offset = false;  // weights are 1 + what stands there
  TensorView cos{}, sin{}, positions{};
  bool interleaved = false;                   // pairs are neighbours (GPT-J), not R / 2 apart (NeoX)
  std::array<int64_t, kRopeAxes> sections{};  // pairs of each axis of the positions, R / 2 in all; none: one axis
  RopeSections section_order = RopeSections::kRuns;                        // or interleaved
  CacheScales scales = CacheScales::kNone, q_scales = CacheScales::kNone;  // of the caches, of q_out
  TensorView key_scale{}, value_scale{}, q_scale{};
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status qk_norm_rope_cache(Context& context, const QkNormRopeCacheCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status qk_norm_rope_cache_prepare(Context& context, const QkNormRopeCacheCall& call,
                                                 const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> qk_norm_rope_cache_query(Context& context, const QkNormRopeCacheCall& call,
                                                            const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> qk_norm_rope_cache_explain(Context& context, const QkNormRopeCacheCall& call,
                                                              const Exec& exec = {});

}  // namespace tilewright
