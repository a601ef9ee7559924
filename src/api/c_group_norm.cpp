// SPDX-License-Identifier: MIT
// group_norm and its gradient through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/group_norm.hpp"

namespace tilewright::c_abi {
namespace {

struct GivenTensor {
  const char* name;
  const TwDLTensor* from;
  TensorView& to;
};
// What calls of both have besides tensors, and these.
template <class Given, class Call, size_t kCount>
Status read_images(const char* op, const Given& given, bool addresses, Call& call,
                   const GivenTensor (&tensors)[kCount]) {
  call.eps = given.eps, call.groups = given.groups;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number(op, "activation", given.activation, call.activation);
  for (const GivenTensor& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  return s;
}

Status read_group_norm_call(const char* function, const tilewright_group_norm_call* from, bool addresses,
                            GroupNormCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_group_norm_call given = tilewright_group_norm_call_defaults();
  if (Status s = read_struct<64>("tilewright_group_norm_call", from, given); !s) return s;
  return read_images("group_norm", given, addresses, call,
                     {{"x", given.x, call.x},
                      {"out", given.out, call.out},
                      {"weight", given.weight, call.weight},
                      {"bias", given.bias, call.bias}});
}
Status read_group_norm_backward_call(const char* function, const tilewright_group_norm_backward_call* from,
                                     bool addresses, GroupNormBackwardCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_group_norm_backward_call given = tilewright_group_norm_backward_call_defaults();
  if (Status s = read_struct<88>("tilewright_group_norm_backward_call", from, given); !s) return s;
  return read_images("group_norm_backward", given, addresses, call,
                     {{"x", given.x, call.x},
                      {"dy", given.dy, call.dy},
                      {"dx", given.dx, call.dx},
                      {"weight", given.weight, call.weight},
                      {"bias", given.bias, call.bias},
                      {"dweight", given.dweight, call.dweight},
                      {"dbias", given.dbias, call.dbias}});
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_group_norm(tilewright_context* context, const tilewright_group_norm_call* call,
                                        const tilewright_exec* exec) {
  return with_call<GroupNormCall>(read_group_norm_call, "tilewright_group_norm", /*addresses=*/true, context, call,
                                  exec, &group_norm);
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

tilewright_status tilewright_group_norm_backward(tilewright_context* context,
                                                 const tilewright_group_norm_backward_call* call,
                                                 const tilewright_exec* exec) {
  return with_call<GroupNormBackwardCall>(read_group_norm_backward_call, "tilewright_group_norm_backward",
                                          /*addresses=*/true, context, call, exec, &group_norm_backward);
}

tilewright_status tilewright_group_norm_backward_prepare(tilewright_context* context,
                                                         const tilewright_group_norm_backward_call* call,
                                                         const tilewright_exec* exec) {
  return with_call<GroupNormBackwardCall>(read_group_norm_backward_call, "tilewright_group_norm_backward_prepare",
                                          /*addresses=*/false, context, call, exec, &group_norm_backward_prepare);
}

tilewright_status tilewright_group_norm_backward_query(tilewright_context* context,
                                                       const tilewright_group_norm_backward_call* call,
                                                       const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_group_norm_backward_query";
  return with_call<GroupNormBackwardCall>(read_group_norm_backward_call, kName, /*addresses=*/false, context, call,
                                          exec, [=](Context& c, const GroupNormBackwardCall& q, const Exec& e) {
                                            return write_query(kName, group_norm_backward_query(c, q, e), result);
                                          });
}

tilewright_status tilewright_group_norm_backward_explain(tilewright_context* context,
                                                         const tilewright_group_norm_backward_call* call,
                                                         const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_group_norm_backward_explain";
  return with_call<GroupNormBackwardCall>(read_group_norm_backward_call, kName, /*addresses=*/false, context, call,
                                          exec, [=](Context& c, const GroupNormBackwardCall& q, const Exec& e) {
                                            return write_explained(kName, group_norm_backward_explain(c, q, e), buffer,
                                                                   size);
                                          });
}
