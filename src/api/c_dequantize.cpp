// SPDX-License-Identifier: MIT
// dequantize through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/dequantize.hpp"

namespace tilewright::c_abi {
namespace {

Status read_dequantize_call(const char* function, const tilewright_dequantize_call* from, bool addresses,
                            DequantizeCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_dequantize_call given = tilewright_dequantize_call_defaults();
  if (Status s = read_struct<48>("tilewright_dequantize_call", from, given); !s) return s;
  call.group = given.group;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("dequantize", "quant", given.quant, call.quant);
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

tilewright_status tilewright_dequantize(tilewright_context* context, const tilewright_dequantize_call* call,
                                        const tilewright_exec* exec) {
  return with_call<DequantizeCall>(read_dequantize_call, "tilewright_dequantize", /*addresses=*/true, context, call,
                                   exec, &dequantize);
}

tilewright_status tilewright_dequantize_prepare(tilewright_context* context, const tilewright_dequantize_call* call,
                                                const tilewright_exec* exec) {
  return with_call<DequantizeCall>(read_dequantize_call, "tilewright_dequantize_prepare", /*addresses=*/false, context,
                                   call, exec, &dequantize_prepare);
}

tilewright_status tilewright_dequantize_query(tilewright_context* context, const tilewright_dequantize_call* call,
                                              const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_dequantize_query";
  return with_call<DequantizeCall>(read_dequantize_call, kName, /*addresses=*/false, context, call, exec,
                                   [=](Context& c, const DequantizeCall& q, const Exec& e) {
                                     return write_query(kName, dequantize_query(c, q, e), result);
                                   });
}

tilewright_status tilewright_dequantize_explain(tilewright_context* context, const tilewright_dequantize_call* call,
                                                const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_dequantize_explain";
  return with_call<DequantizeCall>(read_dequantize_call, kName, /*addresses=*/false, context, call, exec,
                                   [=](Context& c, const DequantizeCall& q, const Exec& e) {
                                     return write_explained(kName, dequantize_explain(c, q, e), buffer, size);
                                   });
}
