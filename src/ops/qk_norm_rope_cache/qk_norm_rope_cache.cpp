// SPDX-License-Identifier: MIT
// qk_norm_rope_cache: what it takes, its public functions. Its kernels are kv_cache_write's, with queries, norms and angles.
#include "tilewright/qk_norm_rope_cache.hpp"

#include "ops/kv_cache/cache_operator.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

constexpr CacheOp kQkNormRopeCache{.name = "qk_norm_rope_cache",
                                   .queries = true,
                                   .in = {"q", "k", "v"},
                                   .out = {"q_out", "key_cache", "value_cache"},
                                   .scale = {"q_scale", "key_scale", "value_scale"}};

CacheCall qk_norm_rope_cache_call(const QkNormRopeCacheCall& c) {
  return {.in = {c.q, c.k, c.v},
          .out = {c.q_out, c.key_cache, c.value_cache},
          .scale = {c.q_scale, c.key_scale, c.value_scale},
          .layout = {CacheLayout::kNhd, c.key_layout, c.value_layout},
          .slot_mapping = c.slot_mapping,
          .q_scales = c.q_scales,
          .scales = c.scales,
          .norm = c.norm,
          .unit_offset = c.unit_offset,
          .q_weight = c.q_weight,
          .k_weight = c.k_weight,
          .eps = c.eps,
          .cosine = c.cos,
          .sine = c.sin,
          .positions = c.positions,
          .interleaved = c.interleaved,
          .section_pairs = c.sections,
          .sections = c.section_order};
}

CacheFunctions qk_norm_rope_cache_functions() { return {kQkNormRopeCache, qk_norm_rope_cache_operator()}; }

}  // namespace

const Operator& qk_norm_rope_cache_operator() {
  static const CacheOperator kOperator(kQkNormRopeCache);
  return kOperator;
}

Status qk_norm_rope_cache(Context& context, const QkNormRopeCacheCall& call, const Exec& exec) {
  return qk_norm_rope_cache_functions().run(context, qk_norm_rope_cache_call(call), call.recipe, exec);
}
Status qk_norm_rope_cache_prepare(Context& context, const QkNormRopeCacheCall& call, const Exec& exec) {
  return qk_norm_rope_cache_functions().prepare(context, qk_norm_rope_cache_call(call), call.recipe, exec);
}
Result<QueryResult> qk_norm_rope_cache_query(Context& context, const QkNormRopeCacheCall& call, const Exec& exec) {
  return qk_norm_rope_cache_functions().query(context, qk_norm_rope_cache_call(call), call.recipe, exec);
}
Result<std::string> qk_norm_rope_cache_explain(Context& context, const QkNormRopeCacheCall& call, const Exec& exec) {
  return qk_norm_rope_cache_functions().explain(context, qk_norm_rope_cache_call(call), call.recipe, exec);
}

}  // namespace tilewright
