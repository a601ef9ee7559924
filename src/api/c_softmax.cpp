// SPDX-License-Identifier: MIT
// softmax through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/softmax.hpp"

namespace tilewright::c_abi {
namespace {

Status read_softmax_call(const char* function, const tilewright_softmax_call* from, bool addresses, SoftmaxCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_softmax_call given = tilewright_softmax_call_defaults();
  if (Status s = read_struct<40>("tilewright_softmax_call", from, given); !s) return s;
  call.scale = given.scale, call.log = given.log != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("out", given.out, addresses, call.out);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_softmax(tilewright_context* context, const tilewright_softmax_call* call,
                                     const tilewright_exec* exec) {
  return with_call<SoftmaxCall>(read_softmax_call, "tilewright_softmax", /*addresses=*/true, context, call, exec,
                                &softmax);
}

tilewright_status tilewright_softmax_prepare(tilewright_context* context, const tilewright_softmax_call* call,
                                             const tilewright_exec* exec) {
  return with_call<SoftmaxCall>(read_softmax_call, "tilewright_softmax_prepare", /*addresses=*/false, context, call,
                                exec, &softmax_prepare);
}

tilewright_status tilewright_softmax_query(tilewright_context* context, const tilewright_softmax_call* call,
                                           const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_softmax_query";
  return with_call<SoftmaxCall>(read_softmax_call, kName, /*addresses=*/false, context, call, exec,
                                [=](Context& c, const SoftmaxCall& q, const Exec& e) {
                                  return write_query(kName, softmax_query(c, q, e), result);
                                });
}

tilewright_status tilewright_softmax_explain(tilewright_context* context, const tilewright_softmax_call* call,
                                             const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_softmax_explain";
  return with_call<SoftmaxCall>(read_softmax_call, kName, /*addresses=*/false, context, call, exec,
                                [=](Context& c, const SoftmaxCall& q, const Exec& e) {
                                  return write_explained(kName, softmax_explain(c, q, e), buffer, size);
                                });
}
