// SPDX-License-Identifier: MIT
// The gradients of norms through the C ABI: one struct, one reader.
#include "api/c_row_call.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright::c_abi {
namespace {

template <class TheCall>
Status read_norm_backward_call(const char* function, const tilewright_norm_backward_call* from, bool addresses,
                               TheCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_norm_backward_call given = tilewright_rms_norm_backward_call_defaults();
  given.eps = call.eps;
  if (Status s = read_struct<80>("tilewright_norm_backward_call", from, given); !s) return s;
  call.eps = given.eps, call.unit_offset = given.unit_offset != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  const struct {
    const char* name;
    const TwDLTensor* from;
    TensorView& to;
  } tensors[] = {{"x", given.x, call.x},
                 {"dy", given.dy, call.dy},
                 {"dx", given.dx, call.dx},
                 {"weight", given.weight, call.weight},
                 {"dresidual", given.dresidual, call.dresidual},
                 {"dweight", given.dweight, call.dweight},
                 {"dbias", given.dbias, call.dbias}};
  Status s;
  for (const auto& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  return s;
}

template <class TheCall, class Body>
tilewright_status with_backward(const char* function, bool addresses, tilewright_context* context,
                                const tilewright_norm_backward_call* call, const tilewright_exec* exec, Body&& body) {
  return with_call<TheCall>(read_norm_backward_call<TheCall>, function, addresses, context, call, exec, body);
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_rms_norm_backward(tilewright_context* context, const tilewright_norm_backward_call* call,
                                               const tilewright_exec* exec) {
  return with_backward<RmsNormBackwardCall>("tilewright_rms_norm_backward", /*addresses=*/true, context, call, exec,
                                            &rms_norm_backward);
}
tilewright_status tilewright_rms_norm_backward_prepare(tilewright_context* context,
                                                       const tilewright_norm_backward_call* call,
                                                       const tilewright_exec* exec) {
  return with_backward<RmsNormBackwardCall>("tilewright_rms_norm_backward_prepare", /*addresses=*/false, context, call,
                                            exec, &rms_norm_backward_prepare);
}
tilewright_status tilewright_rms_norm_backward_query(tilewright_context* context,
                                                     const tilewright_norm_backward_call* call,
                                                     const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_rms_norm_backward_query";
  return with_backward<RmsNormBackwardCall>(kName, /*addresses=*/false, context, call, exec,
                                            [=](Context& c, const RmsNormBackwardCall& r, const Exec& e) {
                                              return write_query(kName, rms_norm_backward_query(c, r, e), result);
                                            });
}
tilewright_status tilewright_rms_norm_backward_explain(tilewright_context* context,
                                                       const tilewright_norm_backward_call* call,
                                                       const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_rms_norm_backward_explain";
  return with_backward<RmsNormBackwardCall>(
      kName, /*addresses=*/false, context, call, exec, [=](Context& c, const RmsNormBackwardCall& r, const Exec& e) {
        return write_explained(kName, rms_norm_backward_explain(c, r, e), buffer, size);
      });
}

tilewright_status tilewright_layer_norm_backward(tilewright_context* context, const tilewright_norm_backward_call* call,
                                                 const tilewright_exec* exec) {
  return with_backward<LayerNormBackwardCall>("tilewright_layer_norm_backward", /*addresses=*/true, context, call, exec,
                                              &layer_norm_backward);
}
tilewright_status tilewright_layer_norm_backward_prepare(tilewright_context* context,
                                                         const tilewright_norm_backward_call* call,
                                                         const tilewright_exec* exec) {
  return with_backward<LayerNormBackwardCall>("tilewright_layer_norm_backward_prepare", /*addresses=*/false, context,
                                              call, exec, &layer_norm_backward_prepare);
}
tilewright_status tilewright_layer_norm_backward_query(tilewright_context* context,
                                                       const tilewright_norm_backward_call* call,
                                                       const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_layer_norm_backward_query";
  return with_backward<LayerNormBackwardCall>(kName, /*addresses=*/false, context, call, exec,
                                              [=](Context& c, const LayerNormBackwardCall& r, const Exec& e) {
                                                return write_query(kName, layer_norm_backward_query(c, r, e), result);
                                              });
}
tilewright_status tilewright_layer_norm_backward_explain(tilewright_context* context,
                                                         const tilewright_norm_backward_call* call,
                                                         const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_layer_norm_backward_explain";
  return with_backward<LayerNormBackwardCall>(
      kName, /*addresses=*/false, context, call, exec, [=](Context& c, const LayerNormBackwardCall& r, const Exec& e) {
        return write_explained(kName, layer_norm_backward_explain(c, r, e), buffer, size);
      });
}
