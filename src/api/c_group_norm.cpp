// SPDX-License-Identifier: MIT
// group_norm through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/group_norm.hpp"

namespace tilewright::c_abi {
namespace {

Status read_group_norm_call(const char* function, const tilewright_group_norm_call* from, bool addresses,
                           GroupNormCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_group_norm_call given = tilewright_group_norm_call_defaults();
  if (Status s = read_struct<64>("tilewright_group_norm_call", from, given); !s) return s;
  call.eps = given.eps, call.groups = given.groups;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("group_norm", "activation", given.activation, call.activation);
  if (s) s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("out", given.out, addresses, call.out);
  if (s) s = read_tensor("weight", given.weight, addresses, call.weight);
  return s ? read_tensor("bias", given.bias, addresses, call.bias) : s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_group_norm(tilewright_context* context, const tilewright_group_norm_call* call,
                                       const tilewright_exec* exec) {
  return with_call<GroupNormCall>(read_group_norm_call, "tilewright_group_norm", /*addresses=*/true, context, call, exec,
                                  &group_norm);
}

tilewright_status tilewright_group_norm_prepare(tilewright_context* context, const tilewright_group_norm_call* call,
                                               const tilewright_exec* exec) {
  return with_call<GroupNormCall>(read_group_norm_call, "tilewright_group_norm_prepare", /*addresses=*/false, context,
                                  call, exec, &group_norm_prepare);
}

tilewright_status tilewright_group_norm_query(tilewright_context* context, const tilewright_group_norm_call* call,
                                             const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_group_norm_query";
  return with_call<GroupNormCall>(read_group_norm_call, kName, /*addresses=*/false, context, call, exec,
                                  [=](Context& c, const GroupNormCall& q, const Exec& e) {
                                    return write_query(kName, group_norm_query(c, q, e), result);
                                  });
}

tilewright_status tilewright_group_norm_explain(tilewright_context* context, const tilewright_group_norm_call* call,
                                               const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_group_norm_explain";
  return with_call<GroupNormCall>(read_group_norm_call, kName, /*addresses=*/false, context, call, exec,
                                  [=](Context& c, const GroupNormCall& q, const Exec& e) {
                                    return write_explained(kName, group_norm_explain(c, q, e), buffer, size);
                                  });
}
