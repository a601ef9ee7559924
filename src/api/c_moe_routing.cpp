// SPDX-License-Identifier: MIT
// moe_routing through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/moe_routing.hpp"

namespace tilewright::c_abi {
namespace {

Status read_routing_call(const char* function, const tilewright_moe_routing_call* from, bool addresses,
                         MoeRoutingCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_moe_routing_call given = tilewright_moe_routing_call_defaults();
  if (Status s = read_struct<96>("tilewright_moe_routing_call", from, given); !s) return s;
  call.scale = given.scale, call.renormalise = given.renormalise != 0;
  call.groups = given.groups, call.topk_groups = given.topk_groups;
  call.first_expert = given.first_expert, call.local_experts = given.local_experts;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("moe_routing", "score", given.score, call.score);
  if (s) s = read_number("moe_routing", "group_score", given.group_score, call.group_score);
  if (s) s = read_tensor("logits", given.logits, addresses, call.logits);
  if (s) s = read_tensor("bias", given.bias, addresses, call.bias);
  if (s) s = read_tensor("weights", given.weights, addresses, call.weights);
  return s ? read_tensor("ids", given.ids, addresses, call.ids) : s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_moe_routing(tilewright_context* context, const tilewright_moe_routing_call* call,
                                         const tilewright_exec* exec) {
  return with_call<MoeRoutingCall>(read_routing_call, "tilewright_moe_routing", /*addresses=*/true, context, call, exec,
                                   &moe_routing);
}

tilewright_status tilewright_moe_routing_prepare(tilewright_context* context, const tilewright_moe_routing_call* call,
                                                 const tilewright_exec* exec) {
  return with_call<MoeRoutingCall>(read_routing_call, "tilewright_moe_routing_prepare", /*addresses=*/false, context,
                                   call, exec, &moe_routing_prepare);
}

tilewright_status tilewright_moe_routing_query(tilewright_context* context, const tilewright_moe_routing_call* call,
                                               const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_moe_routing_query";
  return with_call<MoeRoutingCall>(read_routing_call, kName, /*addresses=*/false, context, call, exec,
                                   [=](Context& c, const MoeRoutingCall& q, const Exec& e) {
                                     return write_query(kName, moe_routing_query(c, q, e), result);
                                   });
}

tilewright_status tilewright_moe_routing_explain(tilewright_context* context, const tilewright_moe_routing_call* call,
                                                 const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_moe_routing_explain";
  return with_call<MoeRoutingCall>(read_routing_call, kName, /*addresses=*/false, context, call, exec,
                                   [=](Context& c, const MoeRoutingCall& q, const Exec& e) {
                                     return write_explained(kName, moe_routing_explain(c, q, e), buffer, size);
                                   });
}
