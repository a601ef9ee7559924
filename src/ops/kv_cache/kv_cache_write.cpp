// SPDX-License-Identifier: MIT
// kv_cache_write: what it takes, its public functions.
#include <fmt/format.h>

#include "ops/kv_cache/cache_operator.hpp"
#include "ops/op_list.hpp"
#include "tilewright/kv_cache.hpp"

namespace tilewright {
namespace {

constexpr CacheOp kCacheWrite{.name = "kv_cache_write",
                              .queries = false,
                              .in = {"q", "key", "value"},
                              .out = {"q_out", "key_cache", "value_cache"},
                              .scale = {"q_scale", "key_scale", "value_scale"}};

CacheCall kv_cache_write_call(const KvCacheWriteCall& c) {
  return {.in = {TensorView(), c.key, c.value},
          .out = {TensorView(), c.key_cache, c.value_cache},
          .scale = {TensorView(), c.key_scale, c.value_scale},
          .layout = {CacheLayout::kNhd, c.key_layout, c.value_layout},
          .slot_mapping = c.slot_mapping,
          .scales = c.scales};
}

CacheFunctions kv_cache_write_functions() { return {kCacheWrite, kv_cache_write_operator()}; }

// [T, C] as one head.
TensorView one_head(TensorView t) {
  t.rank = 3;
  t.shape[2] = t.shape[1], t.stride[2] = t.stride[1];
  t.shape[1] = 1, t.stride[1] = t.shape[2];
  return t;
}

}  // namespace

const Operator& kv_cache_write_operator() {
  static const CacheOperator kOperator(kCacheWrite);
  return kOperator;
}

Result<KvCacheWriteCall> mla_cache_write_call(const TensorView& kv_c, const TensorView& k_pe, const TensorView& cache,
                                              const TensorView& slot_mapping, const TensorView& scale) {
  if (kv_c.rank != 2 || k_pe.rank != 2 || cache.rank != 3 || cache.shape[2] != kv_c.shape[1] + k_pe.shape[1]) {
    return Status(
        StatusCode::kInvalidArgument,
        "kv_cache_write: of MLA 'kv_c' [T, C], 'k_pe' [T, R] and 'cache' [blocks, block, C + R] are expected");
  }
  KvCacheWriteCall call;
  call.key = one_head(kv_c), call.value = one_head(k_pe);
  call.key_cache = call.value_cache = cache;
  call.key_cache.shape[2] = kv_c.shape[1], call.value_cache.shape[2] = k_pe.shape[1];
  if (cache.data != nullptr) {
    call.value_cache.data =
        static_cast<char*>(cache.data) + kv_c.shape[1] * cache.stride[2] * dtype_bits(cache.dtype) / 8;
  }
  call.slot_mapping = slot_mapping;
  if (scale.defined()) call.scales = CacheScales::kTensor, call.key_scale = call.value_scale = scale;
  return call;
}

Status kv_cache_write(Context& context, const KvCacheWriteCall& call, const Exec& exec) {
  return kv_cache_write_functions().run(context, kv_cache_write_call(call), call.recipe, exec);
}
Status kv_cache_write_prepare(Context& context, const KvCacheWriteCall& call, const Exec& exec) {
  return kv_cache_write_functions().prepare(context, kv_cache_write_call(call), call.recipe, exec);
}
Result<QueryResult> kv_cache_write_query(Context& context, const KvCacheWriteCall& call, const Exec& exec) {
  return kv_cache_write_functions().query(context, kv_cache_write_call(call), call.recipe, exec);
}
Result<std::string> kv_cache_write_explain(Context& context, const KvCacheWriteCall& call, const Exec& exec) {
  return kv_cache_write_functions().explain(context, kv_cache_write_call(call), call.recipe, exec);
}

}  // namespace tilewright
