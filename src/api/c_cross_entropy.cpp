// SPDX-License-Identifier: MIT
// cross_entropy through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/cross_entropy.hpp"

namespace tilewright::c_abi {
namespace {

Status read_cross_entropy_call(const char* function, const tilewright_cross_entropy_call* from, bool addresses,
                               CrossEntropyCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_cross_entropy_call given = tilewright_cross_entropy_call_defaults();
  if (Status s = read_struct<80>("tilewright_cross_entropy_call", from, given); !s) return s;
  call.grad_scale = given.grad_scale, call.label_smoothing = given.label_smoothing, call.z_loss = given.z_loss;
  call.ignore_index = given.ignore_index;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("target", given.target, addresses, call.target);
  if (s) s = read_tensor("loss", given.loss, addresses, call.loss);
  if (s && given.lse != nullptr) s = read_tensor("lse", given.lse, addresses, call.lse);
  if (s && given.out != nullptr) s = read_tensor("out", given.out, addresses, call.out);
  if (s && given.factor != nullptr) s = read_tensor("factor", given.factor, addresses, call.factor);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_cross_entropy(tilewright_context* context, const tilewright_cross_entropy_call* call,
                                           const tilewright_exec* exec) {
  return with_call<CrossEntropyCall>(read_cross_entropy_call, "tilewright_cross_entropy", /*addresses=*/true, context,
                                     call, exec, &cross_entropy);
}

tilewright_status tilewright_cross_entropy_prepare(tilewright_context* context,
                                                   const tilewright_cross_entropy_call* call,
                                                   const tilewright_exec* exec) {
  return with_call<CrossEntropyCall>(read_cross_entropy_call, "tilewright_cross_entropy_prepare", /*addresses=*/false,
                                     context, call, exec, &cross_entropy_prepare);
}

tilewright_status tilewright_cross_entropy_query(tilewright_context* context, const tilewright_cross_entropy_call* call,
                                                 const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_cross_entropy_query";
  return with_call<CrossEntropyCall>(read_cross_entropy_call, kName, /*addresses=*/false, context, call, exec,
                                     [=](Context& c, const CrossEntropyCall& q, const Exec& e) {
                                       return write_query(kName, cross_entropy_query(c, q, e), result);
                                     });
}

tilewright_status tilewright_cross_entropy_explain(tilewright_context* context,
                                                   const tilewright_cross_entropy_call* call,
                                                   const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_cross_entropy_explain";
  return with_call<CrossEntropyCall>(read_cross_entropy_call, kName, /*addresses=*/false, context, call, exec,
                                     [=](Context& c, const CrossEntropyCall& q, const Exec& e) {
                                       return write_explained(kName, cross_entropy_explain(c, q, e), buffer, size);
                                     });
}
