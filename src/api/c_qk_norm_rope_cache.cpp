// SPDX-License-Identifier: MIT
// qk_norm_rope_cache through the C ABI.
#include <algorithm>
#include <iterator>

#include "api/c_cache_call.hpp"
#include "tilewright/qk_norm_rope_cache.hpp"

namespace tilewright::c_abi {
namespace {

Status read_qk_norm_rope_cache_call(const char* function, const tilewright_qk_norm_rope_cache_call* from,
                                    bool addresses, QkNormRopeCacheCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_qk_norm_rope_cache_call given = tilewright_qk_norm_rope_cache_call_defaults();
  Status s = read_struct<160>("tilewright_qk_norm_rope_cache_call", from, given);
  call.norm = given.norm != 0, call.unit_offset = given.unit_offset != 0, call.interleaved = given.interleaved != 0;
  call.eps = given.eps;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  std::copy(std::begin(given.sections), std::end(given.sections), call.sections.begin());
  if (s) s = read_number("qk_norm_rope_cache", "section_order", given.section_order, call.section_order);
  if (s) s = read_number("qk_norm_rope_cache", "key_layout", given.key_layout, call.key_layout);
  if (s) s = read_number("qk_norm_rope_cache", "value_layout", given.value_layout, call.value_layout);
  if (s) s = read_number("qk_norm_rope_cache", "scales", given.scales, call.scales);
  if (s) s = read_number("qk_norm_rope_cache", "q_scales", given.q_scales, call.q_scales);
  const NamedCacheTensor tensors[] = {
      {"q", given.q, call.q},
      {"k", given.k, call.k},
      {"v", given.v, call.v},
      {"q_out", given.q_out, call.q_out},
      {"key_cache", given.key_cache, call.key_cache},
      {"value_cache", given.value_cache, call.value_cache},
      {"q_weight", given.q_weight, call.q_weight},
      {"k_weight", given.k_weight, call.k_weight},
      {"cos", given.cos, call.cos},
      {"sin", given.sin, call.sin},
      {"q_scale", given.q_scale, call.q_scale},
      {"key_scale", given.key_scale, call.key_scale},
      {"value_scale", given.value_scale, call.value_scale},
  };
  for (const NamedCacheTensor& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  if (s) s = read_numbers("slot_mapping", given.slot_mapping, addresses, call.slot_mapping);
  if (s) s = read_numbers("positions", given.positions, addresses, call.positions);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_qk_norm_rope_cache(tilewright_context* context,
                                                const tilewright_qk_norm_rope_cache_call* call,
                                                const tilewright_exec* exec) {
  return with_call<QkNormRopeCacheCall>(
      read_qk_norm_rope_cache_call, "tilewright_qk_norm_rope_cache", /*addresses=*/true, context, call, exec,
      [](Context& c, const QkNormRopeCacheCall& r, const Exec& e) { return qk_norm_rope_cache(c, r, e); });
}

tilewright_status tilewright_qk_norm_rope_cache_prepare(tilewright_context* context,
                                                        const tilewright_qk_norm_rope_cache_call* call,
                                                        const tilewright_exec* exec) {
  return with_call<QkNormRopeCacheCall>(
      read_qk_norm_rope_cache_call, "tilewright_qk_norm_rope_cache_prepare", /*addresses=*/false, context, call, exec,
      [](Context& c, const QkNormRopeCacheCall& r, const Exec& e) { return qk_norm_rope_cache_prepare(c, r, e); });
}

tilewright_status tilewright_qk_norm_rope_cache_query(tilewright_context* context,
                                                      const tilewright_qk_norm_rope_cache_call* call,
                                                      const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_qk_norm_rope_cache_query";
  return with_call<QkNormRopeCacheCall>(read_qk_norm_rope_cache_call, kName, /*addresses=*/false, context, call, exec,
                                        [=](Context& c, const QkNormRopeCacheCall& r, const Exec& e) {
                                          return write_query(kName, qk_norm_rope_cache_query(c, r, e), result);
                                        });
}

tilewright_status tilewright_qk_norm_rope_cache_explain(tilewright_context* context,
                                                        const tilewright_qk_norm_rope_cache_call* call,
                                                        const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_qk_norm_rope_cache_explain";
  return with_call<QkNormRopeCacheCall>(read_qk_norm_rope_cache_call, kName, /*addresses=*/false, context, call, exec,
                                        [=](Context& c, const QkNormRopeCacheCall& r, const Exec& e) {
                                          return write_explained(kName, qk_norm_rope_cache_explain(c, r, e), buffer,
                                                                 size);
                                        });
}
