// SPDX-License-Identifier: MIT
// grouped_gemm through the C ABI.
#include "api/c_gemm_call.hpp"
#include "tilewright/grouped_gemm.hpp"

namespace tilewright::c_abi {
namespace {

Status read_grouped_call(const char* function, const tilewright_grouped_gemm_call* from, bool addresses,
                         GroupedGemmCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_grouped_gemm_call given = tilewright_grouped_gemm_call_defaults();
  if (Status s = read_struct<72>("tilewright_grouped_gemm_call", from, given); !s) return s;
  if (given.mode < 0 || given.mode > TILEWRIGHT_GROUPS_RAGGED_K) {
    return Status(StatusCode::kInvalidArgument, fmt::format("grouped_gemm: argument 'mode' is {}, allowed: 0 to {}",
                                                            given.mode, int{TILEWRIGHT_GROUPS_RAGGED_K}));
  }
  call.mode = static_cast<GroupMode>(given.mode);
  call.alignment = given.alignment == 0 ? 1 : given.alignment;
  call.expected_rows = given.expected_rows;
  Status s = read_call(function, given.gemm, addresses, call.gemm);
  if (s) s = read_tensor("sizes", given.sizes, addresses, call.sizes);
  if (s) s = read_tensor("offsets", given.offsets, addresses, call.offsets);
  if (s) s = read_tensor("gather", given.gather, addresses, call.gather);
  if (s) s = read_tensor("scatter", given.scatter, addresses, call.scatter);
  return s ? read_tensor("status", given.status, addresses, call.status) : s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_grouped_gemm(tilewright_context* context, const tilewright_grouped_gemm_call* call,
                                          const tilewright_exec* exec) {
  return with_call<GroupedGemmCall>(
      read_grouped_call, "tilewright_grouped_gemm", /*addresses=*/true, context, call, exec,
      [](Context& c, const GroupedGemmCall& g, const Exec& e) { return grouped_gemm(c, g, e); });
}

tilewright_status tilewright_grouped_gemm_prepare(tilewright_context* context, const tilewright_grouped_gemm_call* call,
                                                  const tilewright_exec* exec) {
  return with_call<GroupedGemmCall>(
      read_grouped_call, "tilewright_grouped_gemm_prepare", /*addresses=*/false, context, call, exec,
      [](Context& c, const GroupedGemmCall& g, const Exec& e) { return grouped_gemm_prepare(c, g, e); });
}

tilewright_status tilewright_grouped_gemm_query(tilewright_context* context, const tilewright_grouped_gemm_call* call,
                                                const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_grouped_gemm_query";
  return with_call<GroupedGemmCall>(read_grouped_call, kName, /*addresses=*/false, context, call, exec,
                                    [=](Context& c, const GroupedGemmCall& g, const Exec& e) {
                                      return write_query(kName, grouped_gemm_query(c, g, e), result);
                                    });
}

tilewright_status tilewright_grouped_gemm_explain(tilewright_context* context, const tilewright_grouped_gemm_call* call,
                                                  const tilewright_exec* exec, char* buffer, size_t* size) {
  return with_call<GroupedGemmCall>(read_grouped_call, "tilewright_grouped_gemm_explain", /*addresses=*/false, context,
                                    call, exec, [buffer, size](Context& c, const GroupedGemmCall& g, const Exec& e) {
                                      return write_explained("tilewright_grouped_gemm_explain",
                                                             grouped_gemm_explain(c, g, e), buffer, size);
                                    });
}

tilewright_status tilewright_grouped_gemm_reference(const tilewright_grouped_gemm_call* given) {
  return guarded([&]() -> Status {
    GroupedGemmCall call;
    if (Status s = read_grouped_call("tilewright_grouped_gemm_reference", given, /*addresses=*/true, call); !s)
      return s;
    return grouped_gemm_reference(call);
  });
}
