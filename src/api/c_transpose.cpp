// SPDX-License-Identifier: MIT
// transpose through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/transpose.hpp"

namespace tilewright::c_abi {
namespace {

Status read_transpose_call(const char* function, const tilewright_transpose_call* from, bool addresses,
                           TransposeCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_transpose_call given = tilewright_transpose_call_defaults();
  if (Status s = read_struct<32>("tilewright_transpose_call", from, given); !s) return s;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  const Status s = read_tensor("x", given.x, addresses, call.x);
  return s ? read_tensor("out", given.out, addresses, call.out) : s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_transpose(tilewright_context* context, const tilewright_transpose_call* call,
                                       const tilewright_exec* exec) {
  return with_call<TransposeCall>(read_transpose_call, "tilewright_transpose", /*addresses=*/true, context, call, exec,
                                  &transpose);
}

tilewright_status tilewright_transpose_prepare(tilewright_context* context, const tilewright_transpose_call* call,
                                               const tilewright_exec* exec) {
  return with_call<TransposeCall>(read_transpose_call, "tilewright_transpose_prepare", /*addresses=*/false, context,
                                  call, exec, &transpose_prepare);
}

tilewright_status tilewright_transpose_query(tilewright_context* context, const tilewright_transpose_call* call,
                                             const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_transpose_query";
  return with_call<TransposeCall>(read_transpose_call, kName, /*addresses=*/false, context, call, exec,
                                  [=](Context& c, const TransposeCall& q, const Exec& e) {
                                    return write_query(kName, transpose_query(c, q, e), result);
                                  });
}

tilewright_status tilewright_transpose_explain(tilewright_context* context, const tilewright_transpose_call* call,
                                               const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_transpose_explain";
  return with_call<TransposeCall>(read_transpose_call, kName, /*addresses=*/false, context, call, exec,
                                  [=](Context& c, const TransposeCall& q, const Exec& e) {
                                    return write_explained(kName, transpose_explain(c, q, e), buffer, size);
                                  });
}
