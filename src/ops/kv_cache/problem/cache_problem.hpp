// SPDX-License-Identifier: MIT
// CacheProblem: one call that writes heads of tokens to a paged cache, without addresses: kv_cache_write and, with queries, norms and
// angles, qk_norm_rope_cache.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/tensor/strided.hpp"
#include "dispatch/operator.hpp"
#include "kv_cache/kv_cache_args.hpp"
#include "ops/row/problem/rope_sections.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright {

// PagedTensor's strides and runs.
struct PagedProblem {
  int64_t block = 0, head = 0, position = 0, position_run = 0, positions = 1, element = 1, element_run = 0,
          elements = 1;
};
struct CacheHeadsProblem {
  int64_t heads = 0, n = 0;
  int64_t stride_token = 0, stride_head = 0;
  PagedProblem out;
  int64_t scale_block = 0, scale_position = 0, scale_head = 0;

  bool present() const { return heads > 0; }
};

struct CacheProblem {
  int64_t tokens = 0, blocks = 0, block_size = 0;
  std::array<CacheHeadsProblem, kCacheTensors> heads;
  int64_t stride_slot = 0, stride_position = 0, stride_axis = 0;  // in words
  SectionPairs section_pairs{};                                   // of each axis of the positions; of one axis none
  int64_t dims = 0, table_rows = 0, stride_table = 0;
  DType x = DType::kNone, q = DType::kNone, cache = DType::kNone;  // q: of the output
  DType weight = DType::kNone, table = DType::kNone;
  CacheScales q_scales = CacheScales::kNone, scales = CacheScales::kNone;
  uint8_t wide_slots = 0, positions = 0, wide_positions = 0, interleaved = 0;
  uint8_t norm = 0, q_weight = 0, k_weight = 0, unit_offset = 0;
  uint8_t unaligned = 0;  // some pointer is no multiple of 16 bytes; 0 on CPUs
  RopeSections sections = RopeSections::kRuns;
  uint8_t programmatic_edge = 0;  // GPU: the calls are launched so (Exec)
  uint8_t reserved[6] = {};       // no padding: problems are compared as bytes

  int64_t all_heads() const { return heads[0].heads + heads[1].heads + heads[2].heads; }
  int64_t slots() const { return blocks * block_size; }
  bool empty() const { return tokens == 0 || all_heads() == 0; }
  int axes() const { return rope_axes(section_pairs); }
  bool turns() const { return table != DType::kNone; }
  CacheScales scales_of(int tensor) const { return tensor == kCacheQueries ? q_scales : scales; }
  DType out_of(int tensor) const { return tensor == kCacheQueries ? q : cache; }
  // Blocks of the output of queries are tokens.
  int64_t blocks_of(int tensor) const { return tensor == kCacheQueries ? tokens : blocks; }
  int64_t block_size_of(int tensor) const { return tensor == kCacheQueries ? 1 : block_size; }
  // What `tensor`'s output touches, and its scales.
  std::array<Extent, 6> out_extents(int tensor) const;
  std::array<Extent, 3> scale_extents(int tensor) const;
};

// Where a call's addresses and numbers stand in CallBindings.
enum CachePointerSlot : uint16_t {
  kCacheIn,                                 // q, k, v
  kCacheOut = kCacheIn + kCacheTensors,     // their outputs
  kCacheScale = kCacheOut + kCacheTensors,  // and scales
  kCacheQWeight = kCacheScale + kCacheTensors,
  kCacheKWeight,
  kCacheSlots,
  kCacheCosine,
  kCacheSine,
  kCachePositions,
  kCachePointerSlots
};
struct CacheBindings {
  std::array<const void*, kCachePointerSlots> pointers{};
  std::array<float, 1> scalars{};  // eps
};

// What either operator may be called with.
struct CacheCall {
  std::array<TensorView, kCacheTensors> in, out, scale;  // out[0]: [T, H, D]
  std::array<CacheLayout, kCacheTensors> layout{};
  TensorView slot_mapping;
  CacheScales q_scales = CacheScales::kNone, scales = CacheScales::kNone;
  bool norm = false, unit_offset = false;
  TensorView q_weight{}, k_weight{};
  float eps = 0;
  TensorView cosine{}, sine{}, positions{};
  bool interleaved = false;
  std::array<int64_t, kRopeAxes> section_pairs{};
  RopeSections sections = RopeSections::kRuns;
};

// One of the two operators. Their kernels are the same: kernels/kv_cache/kv_cache_write_cpu.hpp and _gpu.cuh.
struct CacheOp {
  std::string_view name;
  bool queries;                                           // has queries, norms and angles
  std::array<const char*, kCacheTensors> in, out, scale;  // names of arguments
};

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_cache_problem(const CacheOp& op, const CacheCall& call, bool check_addresses, CacheProblem& problem,
                          CacheBindings& bindings);
// The part that needs no call: problems from text pass through it too.
Status validate_cache_problem(const CacheOp& op, const CacheProblem& problem);
// Whether any problem has these types.
Status check_cache_types(const CacheOp& op, DType x, DType q, DType cache);
Status check_cache_addresses(const CacheOp& op, const CacheProblem& problem, const CacheBindings& bindings);

// A contiguous cache of a layout; `x`: elements of a packed run.
PagedProblem paged_contiguous(CacheLayout layout, int64_t heads, int64_t n, int64_t block_size, int64_t x);

// "t=16:k=8:v=8:n=128:x=bf16:block=16:blocks=4"; what is not contiguous follows.
std::string print_cache_problem(const CacheProblem& problem);
Result<CacheProblem> parse_cache_problem(const CacheOp& op, std::string_view text);

ProblemSignature cache_signature(const CacheProblem& problem);
double cache_bytes_moved(const CacheProblem& problem);
// Heads alone, without scales.
double cache_bytes_written(const CacheProblem& problem);

}  // namespace tilewright
