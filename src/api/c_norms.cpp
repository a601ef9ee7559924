// SPDX-License-Identifier: MIT
// The norms through the C ABI: one struct, one reader.
#include "api/c_row_call.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright::c_abi {
namespace {

// The functions of an operator in C++; its name in C is "tilewright_" and this.
template <class TheCall>
struct Norm {
  const char* name;
  tilewright_norm_call (*defaults)();
  Status (*run)(Context&, const TheCall&, const Exec&);
  Status (*prepare)(Context&, const TheCall&, const Exec&);
  Result<QueryResult> (*query)(Context&, const TheCall&, const Exec&);
  Result<std::string> (*explain)(Context&, const TheCall&, const Exec&);

  std::string function(const char* what) const { return fmt::format("tilewright_{}{}", name, what); }
};
constexpr Norm<RmsNormCall> kRmsNormFunctions{
    "rms_norm", &tilewright_rms_norm_call_defaults, &rms_norm, &rms_norm_prepare, &rms_norm_query, &rms_norm_explain};
constexpr Norm<LayerNormCall> kLayerNormFunctions{"layer_norm",      &tilewright_layer_norm_call_defaults,
                                                  &layer_norm,       &layer_norm_prepare,
                                                  &layer_norm_query, &layer_norm_explain};

template <class TheCall>
Status read_norm_call(const Norm<TheCall>& norm, const char* what, const tilewright_norm_call* from, bool addresses,
                      TheCall& call) {
  if (from == nullptr) return missing(norm.function(what).c_str(), "call");
  tilewright_norm_call given = norm.defaults();
  if (Status s = read_struct<96>("tilewright_norm_call", from, given); !s) return s;
  call.eps = given.eps, call.group = given.group;
  call.unit_offset = given.unit_offset != 0, call.round_before_weight = given.round_before_weight != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number(norm.name, "quant", given.quant, call.quant);
  if (s) s = read_number(norm.name, "scale_rounding", given.scale_rounding, call.rounding);
  const struct {
    const char* name;
    const TwDLTensor* from;
    TensorView& to;
  } tensors[] = {{"x", given.x, call.x},
                 {"out", given.out, call.out},
                 {"weight", given.weight, call.weight},
                 {"bias", given.bias, call.bias},
                 {"smooth", given.smooth, call.smooth},
                 {"residual", given.residual, call.residual},
                 {"residual_out", given.residual_out, call.residual_out},
                 {"scale", given.scale, call.scale},
                 {"tensor_scale", given.tensor_scale, call.tensor_scale}};
  for (const auto& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  return s;
}

// Reads both structs, then runs `body(context, call, exec)`.
template <class TheCall, class Body>
tilewright_status with_norm_call(const Norm<TheCall>& norm, const char* what, bool addresses,
                                 tilewright_context* context, const tilewright_norm_call* given,
                                 const tilewright_exec* given_exec, Body&& body) {
  const auto read = [&](const char*, const tilewright_norm_call* from, bool check, TheCall& call) {
    return read_norm_call(norm, what, from, check, call);
  };
  return with_call<TheCall>(read, norm.name, addresses, context, given, given_exec, body);
}

template <class TheCall>
tilewright_status run_norm(const Norm<TheCall>& norm, tilewright_context* context, const tilewright_norm_call* call,
                           const tilewright_exec* exec) {
  return with_norm_call(norm, "", /*addresses=*/true, context, call, exec, norm.run);
}
template <class TheCall>
tilewright_status prepare_norm(const Norm<TheCall>& norm, tilewright_context* context, const tilewright_norm_call* call,
                               const tilewright_exec* exec) {
  return with_norm_call(norm, "_prepare", /*addresses=*/false, context, call, exec, norm.prepare);
}
template <class TheCall>
tilewright_status query_norm(const Norm<TheCall>& norm, tilewright_context* context, const tilewright_norm_call* call,
                             const tilewright_exec* exec, tilewright_query_result* result) {
  return with_norm_call(norm, "_query", /*addresses=*/false, context, call, exec,
                        [&](Context& c, const TheCall& n, const Exec& e) {
                          return write_query(norm.function("_query").c_str(), norm.query(c, n, e), result);
                        });
}
template <class TheCall>
tilewright_status explain_norm(const Norm<TheCall>& norm, tilewright_context* context, const tilewright_norm_call* call,
                               const tilewright_exec* exec, char* buffer, size_t* size) {
  return with_norm_call(
      norm, "_explain", /*addresses=*/false, context, call, exec, [&](Context& c, const TheCall& n, const Exec& e) {
        return write_explained(norm.function("_explain").c_str(), norm.explain(c, n, e), buffer, size);
      });
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_rms_norm(tilewright_context* context, const tilewright_norm_call* call,
                                      const tilewright_exec* exec) {
  return run_norm(kRmsNormFunctions, context, call, exec);
}
tilewright_status tilewright_rms_norm_prepare(tilewright_context* context, const tilewright_norm_call* call,
                                              const tilewright_exec* exec) {
  return prepare_norm(kRmsNormFunctions, context, call, exec);
}
tilewright_status tilewright_rms_norm_query(tilewright_context* context, const tilewright_norm_call* call,
                                            const tilewright_exec* exec, tilewright_query_result* result) {
  return query_norm(kRmsNormFunctions, context, call, exec, result);
}
tilewright_status tilewright_rms_norm_explain(tilewright_context* context, const tilewright_norm_call* call,
                                              const tilewright_exec* exec, char* buffer, size_t* size) {
  return explain_norm(kRmsNormFunctions, context, call, exec, buffer, size);
}

tilewright_status tilewright_layer_norm(tilewright_context* context, const tilewright_norm_call* call,
                                        const tilewright_exec* exec) {
  return run_norm(kLayerNormFunctions, context, call, exec);
}
tilewright_status tilewright_layer_norm_prepare(tilewright_context* context, const tilewright_norm_call* call,
                                                const tilewright_exec* exec) {
  return prepare_norm(kLayerNormFunctions, context, call, exec);
}
tilewright_status tilewright_layer_norm_query(tilewright_context* context, const tilewright_norm_call* call,
                                              const tilewright_exec* exec, tilewright_query_result* result) {
  return query_norm(kLayerNormFunctions, context, call, exec, result);
}
tilewright_status tilewright_layer_norm_explain(tilewright_context* context, const tilewright_norm_call* call,
                                                const tilewright_exec* exec, char* buffer, size_t* size) {
  return explain_norm(kLayerNormFunctions, context, call, exec, buffer, size);
}
