// SPDX-License-Identifier: MIT
// kv_cache_write through the C ABI.
#include "api/c_cache_call.hpp"
#include "tilewright/kv_cache.hpp"

namespace tilewright::c_abi {
namespace {

Status read_kv_cache_write_call(const char* function, const tilewright_kv_cache_write_call* from, bool addresses,
                                KvCacheWriteCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_kv_cache_write_call given = tilewright_kv_cache_write_call_defaults();
  Status s = read_struct<80>("tilewright_kv_cache_write_call", from, given);
  if (given.recipe != nullptr) call.recipe = given.recipe;
  if (s) s = read_number("kv_cache_write", "key_layout", given.key_layout, call.key_layout);
  if (s) s = read_number("kv_cache_write", "value_layout", given.value_layout, call.value_layout);
  if (s) s = read_number("kv_cache_write", "scales", given.scales, call.scales);
  const NamedCacheTensor tensors[] = {
      {"key", given.key, call.key},
      {"value", given.value, call.value},
      {"key_cache", given.key_cache, call.key_cache},
      {"value_cache", given.value_cache, call.value_cache},
      {"key_scale", given.key_scale, call.key_scale},
      {"value_scale", given.value_scale, call.value_scale},
  };
  for (const NamedCacheTensor& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  if (s) s = read_numbers("slot_mapping", given.slot_mapping, addresses, call.slot_mapping);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_kv_cache_write(tilewright_context* context, const tilewright_kv_cache_write_call* call,
                                            const tilewright_exec* exec) {
  return with_call<KvCacheWriteCall>(
      read_kv_cache_write_call, "tilewright_kv_cache_write", /*addresses=*/true, context, call, exec,
      [](Context& c, const KvCacheWriteCall& r, const Exec& e) { return kv_cache_write(c, r, e); });
}

tilewright_status tilewright_kv_cache_write_prepare(tilewright_context* context,
                                                    const tilewright_kv_cache_write_call* call,
                                                    const tilewright_exec* exec) {
  return with_call<KvCacheWriteCall>(
      read_kv_cache_write_call, "tilewright_kv_cache_write_prepare", /*addresses=*/false, context, call, exec,
      [](Context& c, const KvCacheWriteCall& r, const Exec& e) { return kv_cache_write_prepare(c, r, e); });
}

tilewright_status tilewright_kv_cache_write_query(tilewright_context* context,
                                                  const tilewright_kv_cache_write_call* call,
                                                  const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_kv_cache_write_query";
  return with_call<KvCacheWriteCall>(read_kv_cache_write_call, kName, /*addresses=*/false, context, call, exec,
                                     [=](Context& c, const KvCacheWriteCall& r, const Exec& e) {
                                       return write_query(kName, kv_cache_write_query(c, r, e), result);
                                     });
}

tilewright_status tilewright_kv_cache_write_explain(tilewright_context* context,
                                                    const tilewright_kv_cache_write_call* call,
                                                    const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_kv_cache_write_explain";
  return with_call<KvCacheWriteCall>(read_kv_cache_write_call, kName, /*addresses=*/false, context, call, exec,
                                     [=](Context& c, const KvCacheWriteCall& r, const Exec& e) {
                                       return write_explained(kName, kv_cache_write_explain(c, r, e), buffer, size);
                                     });
}
