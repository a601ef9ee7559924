// SPDX-License-Identifier: MIT
// top_k through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/top_k.hpp"

namespace tilewright::c_abi {
namespace {

Status read_top_k_call(const char* function, const tilewright_top_k_call* from, bool addresses, TopKCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_top_k_call given = tilewright_top_k_call_defaults();
  if (Status s = read_struct<48>("tilewright_top_k_call", from, given); !s) return s;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("indices", given.indices, addresses, call.indices);
  if (s) s = read_tensor("values", given.values, addresses, call.values);
  return s ? read_tensor("lengths", given.lengths, addresses, call.lengths) : s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_top_k(tilewright_context* context, const tilewright_top_k_call* call,
                                   const tilewright_exec* exec) {
  return with_call<TopKCall>(read_top_k_call, "tilewright_top_k", /*addresses=*/true, context, call, exec, &top_k);
}

tilewright_status tilewright_top_k_prepare(tilewright_context* context, const tilewright_top_k_call* call,
                                           const tilewright_exec* exec) {
  return with_call<TopKCall>(read_top_k_call, "tilewright_top_k_prepare", /*addresses=*/false, context, call, exec,
                             &top_k_prepare);
}

tilewright_status tilewright_top_k_query(tilewright_context* context, const tilewright_top_k_call* call,
                                         const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_top_k_query";
  return with_call<TopKCall>(
      read_top_k_call, kName, /*addresses=*/false, context, call, exec,
      [=](Context& c, const TopKCall& q, const Exec& e) { return write_query(kName, top_k_query(c, q, e), result); });
}

tilewright_status tilewright_top_k_explain(tilewright_context* context, const tilewright_top_k_call* call,
                                           const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_top_k_explain";
  return with_call<TopKCall>(read_top_k_call, kName, /*addresses=*/false, context, call, exec,
                             [=](Context& c, const TopKCall& q, const Exec& e) {
                               return write_explained(kName, top_k_explain(c, q, e), buffer, size);
                             });
}
