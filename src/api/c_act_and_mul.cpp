// SPDX-License-Identifier: MIT
// act_and_mul through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/act_and_mul.hpp"

namespace tilewright::c_abi {
namespace {

Status read_act_and_mul_call(const char* function, const tilewright_act_and_mul_call* from, bool addresses,
                             ActAndMulCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_act_and_mul_call given = tilewright_act_and_mul_call_defaults();
  if (Status s = read_struct<72>("tilewright_act_and_mul_call", from, given); !s) return s;
  call.limit = given.limit, call.alpha = given.alpha, call.up_offset = given.up_offset;
  call.squared = given.squared != 0, call.group = given.group;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  constexpr const char* kName = "act_and_mul";
  Status s = read_number(kName, "activation", given.activation, call.activation);
  if (s) s = read_number(kName, "gate", given.gate, call.gate);
  if (s) s = read_number(kName, "quant", given.quant, call.quant);
  if (s) s = read_number(kName, "scale_rounding", given.scale_rounding, call.rounding);
  if (s) s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("out", given.out, addresses, call.out);
  if (s) s = read_tensor("scale", given.scale, addresses, call.scale);
  if (s) s = read_tensor("tensor_scale", given.tensor_scale, addresses, call.tensor_scale);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_act_and_mul(tilewright_context* context, const tilewright_act_and_mul_call* call,
                                         const tilewright_exec* exec) {
  return with_call<ActAndMulCall>(
      read_act_and_mul_call, "tilewright_act_and_mul", /*addresses=*/true, context, call, exec,
      [](Context& c, const ActAndMulCall& a, const Exec& e) { return act_and_mul(c, a, e); });
}

tilewright_status tilewright_act_and_mul_prepare(tilewright_context* context, const tilewright_act_and_mul_call* call,
                                                 const tilewright_exec* exec) {
  return with_call<ActAndMulCall>(
      read_act_and_mul_call, "tilewright_act_and_mul_prepare", /*addresses=*/false, context, call, exec,
      [](Context& c, const ActAndMulCall& a, const Exec& e) { return act_and_mul_prepare(c, a, e); });
}

tilewright_status tilewright_act_and_mul_query(tilewright_context* context, const tilewright_act_and_mul_call* call,
                                               const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_act_and_mul_query";
  return with_call<ActAndMulCall>(read_act_and_mul_call, kName, /*addresses=*/false, context, call, exec,
                                  [=](Context& c, const ActAndMulCall& a, const Exec& e) {
                                    return write_query(kName, act_and_mul_query(c, a, e), result);
                                  });
}

tilewright_status tilewright_act_and_mul_explain(tilewright_context* context, const tilewright_act_and_mul_call* call,
                                                 const tilewright_exec* exec, char* buffer, size_t* size) {
  return with_call<ActAndMulCall>(read_act_and_mul_call, "tilewright_act_and_mul_explain", /*addresses=*/false, context,
                                  call, exec, [buffer, size](Context& c, const ActAndMulCall& a, const Exec& e) {
                                    return write_explained("tilewright_act_and_mul_explain",
                                                           act_and_mul_explain(c, a, e), buffer, size);
                                  });
}
