// SPDX-License-Identifier: MIT
// elementwise through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/elementwise.hpp"

namespace tilewright::c_abi {
namespace {

Status read_elementwise_call(const char* function, const tilewright_elementwise_call* from, bool addresses,
                             ElementwiseCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_elementwise_call given = tilewright_elementwise_call_defaults();
  if (Status s = read_struct<40>("tilewright_elementwise_call", from, given); !s) return s;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("elementwise", "arithmetic", given.arithmetic, call.arithmetic);
  if (s) s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("b", given.b, addresses, call.b);
  if (s) s = read_tensor("out", given.out, addresses, call.out);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_elementwise(tilewright_context* context, const tilewright_elementwise_call* call,
                                         const tilewright_exec* exec) {
  return with_call<ElementwiseCall>(read_elementwise_call, "tilewright_elementwise", /*addresses=*/true, context, call,
                                    exec, &elementwise);
}

tilewright_status tilewright_elementwise_prepare(tilewright_context* context, const tilewright_elementwise_call* call,
                                                 const tilewright_exec* exec) {
  return with_call<ElementwiseCall>(read_elementwise_call, "tilewright_elementwise_prepare", /*addresses=*/false,
                                    context, call, exec, &elementwise_prepare);
}

tilewright_status tilewright_elementwise_query(tilewright_context* context, const tilewright_elementwise_call* call,
                                               const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_elementwise_query";
  return with_call<ElementwiseCall>(read_elementwise_call, kName, /*addresses=*/false, context, call, exec,
                                    [=](Context& c, const ElementwiseCall& r, const Exec& e) {
                                      return write_query(kName, elementwise_query(c, r, e), result);
                                    });
}

tilewright_status tilewright_elementwise_explain(tilewright_context* context, const tilewright_elementwise_call* call,
                                                 const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_elementwise_explain";
  return with_call<ElementwiseCall>(read_elementwise_call, kName, /*addresses=*/false, context, call, exec,
                                    [=](Context& c, const ElementwiseCall& r, const Exec& e) {
                                      return write_explained(kName, elementwise_explain(c, r, e), buffer, size);
                                    });
}
