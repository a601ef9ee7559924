// SPDX-License-Identifier: MIT
// gated_rms_norm through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/gated_rms_norm.hpp"

namespace tilewright::c_abi {
namespace {

Status read_gated_rms_norm_call(const char* function, const tilewright_gated_rms_norm_call* from, bool addresses,
                                GatedRmsNormCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_gated_rms_norm_call given = tilewright_gated_rms_norm_call_defaults();
  if (Status s = read_struct<80>("tilewright_gated_rms_norm_call", from, given); !s) return s;
  call.eps = given.eps, call.norm_group = given.norm_group, call.group = given.group;
  call.norm_before_gate = given.norm_before_gate != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("gated_rms_norm", "quant", given.quant, call.quant);
  if (s) s = read_number("gated_rms_norm", "scale_rounding", given.scale_rounding, call.rounding);
  if (s) s = read_tensor("x", given.x, addresses, call.x);
  if (s) s = read_tensor("z", given.z, addresses, call.z);
  if (s) s = read_tensor("out", given.out, addresses, call.out);
  if (s) s = read_tensor("weight", given.weight, addresses, call.weight);
  if (s) s = read_tensor("scale", given.scale, addresses, call.scale);
  if (s) s = read_tensor("tensor_scale", given.tensor_scale, addresses, call.tensor_scale);
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_gated_rms_norm(tilewright_context* context, const tilewright_gated_rms_norm_call* call,
                                            const tilewright_exec* exec) {
  return with_call<GatedRmsNormCall>(read_gated_rms_norm_call, "tilewright_gated_rms_norm", /*addresses=*/true, context,
                                     call, exec, &gated_rms_norm);
}

tilewright_status tilewright_gated_rms_norm_prepare(tilewright_context* context,
                                                    const tilewright_gated_rms_norm_call* call,
                                                    const tilewright_exec* exec) {
  return with_call<GatedRmsNormCall>(read_gated_rms_norm_call, "tilewright_gated_rms_norm_prepare", /*addresses=*/false,
                                     context, call, exec, &gated_rms_norm_prepare);
}

tilewright_status tilewright_gated_rms_norm_query(tilewright_context* context,
                                                  const tilewright_gated_rms_norm_call* call,
                                                  const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_gated_rms_norm_query";
  return with_call<GatedRmsNormCall>(read_gated_rms_norm_call, kName, /*addresses=*/false, context, call, exec,
                                     [=](Context& c, const GatedRmsNormCall& r, const Exec& e) {
                                       return write_query(kName, gated_rms_norm_query(c, r, e), result);
                                     });
}

tilewright_status tilewright_gated_rms_norm_explain(tilewright_context* context,
                                                    const tilewright_gated_rms_norm_call* call,
                                                    const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_gated_rms_norm_explain";
  return with_call<GatedRmsNormCall>(read_gated_rms_norm_call, kName, /*addresses=*/false, context, call, exec,
                                     [=](Context& c, const GatedRmsNormCall& r, const Exec& e) {
                                       return write_explained(kName, gated_rms_norm_explain(c, r, e), buffer, size);
                                     });
}
