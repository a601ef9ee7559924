// SPDX-License-Identifier: MIT
// act_and_mul_backward through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/act_and_mul.hpp"

namespace tilewright::c_abi {
namespace {

Status read_act_and_mul_backward_call(const char* function, const tilewright_act_and_mul_backward_call* from,
                                      bool addresses, ActAndMulBackwardCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_act_and_mul_backward_call given = tilewright_act_and_mul_backward_call_defaults();
  if (Status s = read_struct<64>("tilewright_act_and_mul_backward_call", from, given); !s) return s;
  call.limit = given.limit, call.alpha = given.alpha, call.up_offset = given.up_offset;
  call.squared = given.squared != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  constexpr const char* kName = "act_and_mul_backward";
  Status s = read_number(kName, "activation", given.activation, call.activation);
  if (s) s = read_number(kName, "gate", given.gate, call.gate);
  if (s) s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("dy", given.dy, addresses, call.dy);
  if (s) s = read_tensor("dx", given.dx, addresses, call.dx);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_act_and_mul_backward(tilewright_context* context,
                                                  const tilewright_act_and_mul_backward_call* call,
                                                  const tilewright_exec* exec) {
  return with_call<ActAndMulBackwardCall>(read_act_and_mul_backward_call, "tilewright_act_and_mul_backward",
                                          /*addresses=*/true, context, call, exec, &act_and_mul_backward);
}

tilewright_status tilewright_act_and_mul_backward_prepare(tilewright_context* context,
                                                          const tilewright_act_and_mul_backward_call* call,
                                                          const tilewright_exec* exec) {
  return with_call<ActAndMulBackwardCall>(read_act_and_mul_backward_call, "tilewright_act_and_mul_backward_prepare",
                                          /*addresses=*/false, context, call, exec, &act_and_mul_backward_prepare);
}

tilewright_status tilewright_act_and_mul_backward_query(tilewright_context* context,
                                                        const tilewright_act_and_mul_backward_call* call,
                                                        const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_act_and_mul_backward_query";
  return with_call<ActAndMulBackwardCall>(read_act_and_mul_backward_call, kName, /*addresses=*/false, context, call,
                                          exec, [=](Context& c, const ActAndMulBackwardCall& r, const Exec& e) {
                                            return write_query(kName, act_and_mul_backward_query(c, r, e), result);
                                          });
}

tilewright_status tilewright_act_and_mul_backward_explain(tilewright_context* context,
                                                          const tilewright_act_and_mul_backward_call* call,
                                                          const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_act_and_mul_backward_explain";
  return with_call<ActAndMulBackwardCall>(read_act_and_mul_backward_call, kName, /*addresses=*/false, context, call,
                                          exec, [=](Context& c, const ActAndMulBackwardCall& r, const Exec& e) {
                                            return write_explained(kName, act_and_mul_backward_explain(c, r, e), buffer,
                                                                   size);
                                          });
}
