// SPDX-License-Identifier: MIT
// rms_norm through the C ABI.
#include "api/c_gemm_call.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright::c_abi {
namespace {

template <class Enum>
Status read_number(const char* name, int32_t given, Enum& to) {
  if (given >= 0 && given < enum_count(Enum{})) {
    to = static_cast<Enum>(given);
    return {};
  }
  return Status(StatusCode::kInvalidArgument,
                fmt::format("rms_norm: argument '{}' is {}, allowed: 0 to {}", name, given, enum_count(Enum{}) - 1));
}

Status read_norm_call(const char* function, const tilewright_rms_norm_call* from, bool addresses, RmsNormCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_rms_norm_call given = tilewright_rms_norm_call_defaults();
  if (Status s = read_struct<96>("tilewright_rms_norm_call", from, given); !s) return s;
  call.eps = given.eps, call.group = given.group;
  call.unit_offset = given.unit_offset != 0, call.round_before_weight = given.round_before_weight != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("quant", given.quant, call.quant);
  if (s) s = read_number("scale_rounding", given.scale_rounding, call.rounding);
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
                 {"scale", given.scale, call.scale}};
  for (const auto& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  return s;
}

// Reads both structs, then runs `body(context, call, exec)`.
template <class Body>
tilewright_status with_norm_call(const char* function, bool addresses, tilewright_context* context,
                                 const tilewright_rms_norm_call* given, const tilewright_exec* given_exec,
                                 Body&& body) {
  return guarded([&]() -> Status {
    RmsNormCall call;
    ReadExec exec;
    if (Status s = read_norm_call(function, given, addresses, call); !s) return s;
    if (Status s = read_exec(given_exec, exec); !s) return s;
    return body(context_of(context), call, exec.exec);
  });
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_rms_norm(tilewright_context* context, const tilewright_rms_norm_call* call,
                                      const tilewright_exec* exec) {
  return with_norm_call("tilewright_rms_norm", /*addresses=*/true, context, call, exec,
                        [](Context& c, const RmsNormCall& n, const Exec& e) { return rms_norm(c, n, e); });
}

tilewright_status tilewright_rms_norm_prepare(tilewright_context* context, const tilewright_rms_norm_call* call,
                                              const tilewright_exec* exec) {
  return with_norm_call("tilewright_rms_norm_prepare", /*addresses=*/false, context, call, exec,
                        [](Context& c, const RmsNormCall& n, const Exec& e) { return rms_norm_prepare(c, n, e); });
}

tilewright_status tilewright_rms_norm_query(tilewright_context* context, const tilewright_rms_norm_call* call,
                                            const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_rms_norm_query";
  return with_norm_call(kName, /*addresses=*/false, context, call, exec,
                        [=](Context& c, const RmsNormCall& n, const Exec& e) {
                          return write_query(kName, rms_norm_query(c, n, e), result);
                        });
}

tilewright_status tilewright_rms_norm_explain(tilewright_context* context, const tilewright_rms_norm_call* call,
                                              const tilewright_exec* exec, char* buffer, size_t* size) {
  return with_norm_call("tilewright_rms_norm_explain", /*addresses=*/false, context, call, exec,
                        [buffer, size](Context& c, const RmsNormCall& n, const Exec& e) -> Status {
                          if (size == nullptr) return missing("tilewright_rms_norm_explain", "size");
                          Result<std::string> text = rms_norm_explain(c, n, e);
                          if (!text) return text.status();
                          write_text(*text, buffer, *size);
                          return {};
                        });
}
