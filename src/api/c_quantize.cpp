// SPDX-License-Identifier: MIT
// quantize through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/quantize.hpp"

namespace tilewright::c_abi {
namespace {

Status read_quantize_call(const char* function, const tilewright_quantize_call* from, bool addresses,
                          QuantizeCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_quantize_call given = tilewright_quantize_call_defaults();
  if (Status s = read_struct<56>("tilewright_quantize_call", from, given); !s) return s;
  call.group = given.group, call.hadamard = given.hadamard, call.find_tensor_scale = given.find_tensor_scale != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("quantize", "quant", given.quant, call.quant);
  if (s) s = read_number("quantize", "scale_rounding", given.scale_rounding, call.rounding);
  if (s) s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("out", given.out, addresses, call.out);
  if (s) s = read_tensor("scale", given.scale, addresses, call.scale);
  if (s) s = read_tensor("tensor_scale", given.tensor_scale, addresses, call.tensor_scale);
  if (s) s = read_tensor("smooth", given.smooth, addresses, call.smooth);
  if (s) s = read_numbers("random_state", given.random_state, addresses, call.random_state);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_quantize(tilewright_context* context, const tilewright_quantize_call* call,
                                      const tilewright_exec* exec) {
  return with_call<QuantizeCall>(read_quantize_call, "tilewright_quantize", /*addresses=*/true, context, call, exec,
                                 &quantize);
}

tilewright_status tilewright_quantize_prepare(tilewright_context* context, const tilewright_quantize_call* call,
                                              const tilewright_exec* exec) {
  return with_call<QuantizeCall>(read_quantize_call, "tilewright_quantize_prepare", /*addresses=*/false, context, call,
                                 exec, &quantize_prepare);
}

tilewright_status tilewright_quantize_query(tilewright_context* context, const tilewright_quantize_call* call,
                                            const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_quantize_query";
  return with_call<QuantizeCall>(read_quantize_call, kName, /*addresses=*/false, context, call, exec,
                                 [=](Context& c, const QuantizeCall& q, const Exec& e) {
                                   return write_query(kName, quantize_query(c, q, e), result);
                                 });
}

tilewright_status tilewright_quantize_explain(tilewright_context* context, const tilewright_quantize_call* call,
                                              const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_quantize_explain";
  return with_call<QuantizeCall>(read_quantize_call, kName, /*addresses=*/false, context, call, exec,
                                 [=](Context& c, const QuantizeCall& q, const Exec& e) {
                                   return write_explained(kName, quantize_explain(c, q, e), buffer, size);
                                 });
}
