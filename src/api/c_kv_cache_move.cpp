// SPDX-License-Identifier: MIT
// kv_cache_copy and kv_cache_gather through the C ABI.
#include "api/c_cache_call.hpp"
#include "tilewright/kv_cache_move.hpp"

namespace tilewright::c_abi {
namespace {

Status read_kv_cache_copy_call(const char* function, const tilewright_kv_cache_copy_call* from, bool addresses,
                               KvCacheCopyCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_kv_cache_copy_call given = tilewright_kv_cache_copy_call_defaults();
  Status s = read_struct<40>("tilewright_kv_cache_copy_call", from, given);
  if (given.recipe != nullptr) call.recipe = given.recipe;
  if (s) s = read_tensor("from", given.from, addresses, call.from);
  if (s) s = read_tensor("to", given.to, addresses, call.to);
  if (s) s = read_numbers("mapping", given.mapping, addresses, call.mapping);
  return s;
}

Status read_kv_cache_gather_call(const char* function, const tilewright_kv_cache_gather_call* from, bool addresses,
                                 KvCacheGatherCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_kv_cache_gather_call given = tilewright_kv_cache_gather_call_defaults();
  Status s = read_struct<64>("tilewright_kv_cache_gather_call", from, given);
  if (given.recipe != nullptr) call.recipe = given.recipe;
  if (s) s = read_number("kv_cache_gather", "layout", given.layout, call.layout);
  if (s) s = read_number("kv_cache_gather", "scales", given.scales, call.scales);
  const NamedCacheTensor tensors[] = {
      {"cache", given.cache, call.cache},
      {"out", given.out, call.out},
      {"block_table", given.block_table, call.block_table},
      {"cumulative_lengths", given.cumulative_lengths, call.cumulative_lengths},
      {"scale", given.scale, call.scale},
  };
  for (const NamedCacheTensor& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_kv_cache_copy(tilewright_context* context, const tilewright_kv_cache_copy_call* call,
                                           const tilewright_exec* exec) {
  return with_call<KvCacheCopyCall>(
      read_kv_cache_copy_call, "tilewright_kv_cache_copy", /*addresses=*/true, context, call, exec,
      [](Context& c, const KvCacheCopyCall& r, const Exec& e) { return kv_cache_copy(c, r, e); });
}

tilewright_status tilewright_kv_cache_copy_prepare(tilewright_context* context,
                                                   const tilewright_kv_cache_copy_call* call,
                                                   const tilewright_exec* exec) {
  return with_call<KvCacheCopyCall>(
      read_kv_cache_copy_call, "tilewright_kv_cache_copy_prepare", /*addresses=*/false, context, call, exec,
      [](Context& c, const KvCacheCopyCall& r, const Exec& e) { return kv_cache_copy_prepare(c, r, e); });
}

tilewright_status tilewright_kv_cache_copy_query(tilewright_context* context, const tilewright_kv_cache_copy_call* call,
                                                 const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_kv_cache_copy_query";
  return with_call<KvCacheCopyCall>(read_kv_cache_copy_call, kName, /*addresses=*/false, context, call, exec,
                                    [=](Context& c, const KvCacheCopyCall& r, const Exec& e) {
                                      return write_query(kName, kv_cache_copy_query(c, r, e), result);
                                    });
}

tilewright_status tilewright_kv_cache_copy_explain(tilewright_context* context,
                                                   const tilewright_kv_cache_copy_call* call,
                                                   const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_kv_cache_copy_explain";
  return with_call<KvCacheCopyCall>(read_kv_cache_copy_call, kName, /*addresses=*/false, context, call, exec,
                                    [=](Context& c, const KvCacheCopyCall& r, const Exec& e) {
                                      return write_explained(kName, kv_cache_copy_explain(c, r, e), buffer, size);
                                    });
}

tilewright_status tilewright_kv_cache_gather(tilewright_context* context, const tilewright_kv_cache_gather_call* call,
                                             const tilewright_exec* exec) {
  return with_call<KvCacheGatherCall>(
      read_kv_cache_gather_call, "tilewright_kv_cache_gather", /*addresses=*/true, context, call, exec,
      [](Context& c, const KvCacheGatherCall& r, const Exec& e) { return kv_cache_gather(c, r, e); });
}

tilewright_status tilewright_kv_cache_gather_prepare(tilewright_context* context,
                                                     const tilewright_kv_cache_gather_call* call,
                                                     const tilewright_exec* exec) {
  return with_call<KvCacheGatherCall>(
      read_kv_cache_gather_call, "tilewright_kv_cache_gather_prepare", /*addresses=*/false, context, call, exec,
      [](Context& c, const KvCacheGatherCall& r, const Exec& e) { return kv_cache_gather_prepare(c, r, e); });
}

tilewright_status tilewright_kv_cache_gather_query(tilewright_context* context,
                                                   const tilewright_kv_cache_gather_call* call,
                                                   const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_kv_cache_gather_query";
  return with_call<KvCacheGatherCall>(read_kv_cache_gather_call, kName, /*addresses=*/false, context, call, exec,
                                      [=](Context& c, const KvCacheGatherCall& r, const Exec& e) {
                                        return write_query(kName, kv_cache_gather_query(c, r, e), result);
                                      });
}

tilewright_status tilewright_kv_cache_gather_explain(tilewright_context* context,
                                                     const tilewright_kv_cache_gather_call* call,
                                                     const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_kv_cache_gather_explain";
  return with_call<KvCacheGatherCall>(read_kv_cache_gather_call, kName, /*addresses=*/false, context, call, exec,
                                      [=](Context& c, const KvCacheGatherCall& r, const Exec& e) {
                                        return write_explained(kName, kv_cache_gather_explain(c, r, e), buffer, size);
                                      });
}
