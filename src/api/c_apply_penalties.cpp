// SPDX-License-Identifier: MIT
// apply_penalties through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/apply_penalties.hpp"

namespace tilewright::c_abi {
namespace {

Status read_apply_penalties_call(const char* function, const tilewright_apply_penalties_call* from, bool addresses,
                                 ApplyPenaltiesCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_apply_penalties_call given = tilewright_apply_penalties_call_defaults();
  if (Status s = read_struct<88>("tilewright_apply_penalties_call", from, given); !s) return s;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  const struct {
    const char* name;
    const TwDLTensor* from;
    TensorView& to;
  } tensors[] = {{"logits", given.logits, call.logits},
                 {"out", given.out, call.out},
                 {"prompt_tokens", given.prompt_tokens, call.prompt_tokens},
                 {"output_tokens", given.output_tokens, call.output_tokens},
                 {"prompt_counts", given.prompt_counts, call.prompt_counts},
                 {"output_counts", given.output_counts, call.output_counts},
                 {"repetition", given.repetition, call.repetition},
                 {"presence", given.presence, call.presence},
                 {"frequency", given.frequency, call.frequency}};
  Status s;
  for (const auto& t : tensors) {
    if (s) s = read_tensor(t.name, t.from, addresses, t.to);
  }
  return s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_apply_penalties(tilewright_context* context, const tilewright_apply_penalties_call* call,
                                             const tilewright_exec* exec) {
  return with_call<ApplyPenaltiesCall>(read_apply_penalties_call, "tilewright_apply_penalties", /*addresses=*/true,
                                       context, call, exec, &apply_penalties);
}

tilewright_status tilewright_apply_penalties_prepare(tilewright_context* context,
                                                     const tilewright_apply_penalties_call* call,
                                                     const tilewright_exec* exec) {
  return with_call<ApplyPenaltiesCall>(read_apply_penalties_call, "tilewright_apply_penalties_prepare",
                                       /*addresses=*/false, context, call, exec, &apply_penalties_prepare);
}

tilewright_status tilewright_apply_penalties_query(tilewright_context* context,
                                                   const tilewright_apply_penalties_call* call,
                                                   const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_apply_penalties_query";
  return with_call<ApplyPenaltiesCall>(read_apply_penalties_call, kName, /*addresses=*/false, context, call, exec,
                                       [=](Context& c, const ApplyPenaltiesCall& q, const Exec& e) {
                                         return write_query(kName, apply_penalties_query(c, q, e), result);
                                       });
}

tilewright_status tilewright_apply_penalties_explain(tilewright_context* context,
                                                     const tilewright_apply_penalties_call* call,
                                                     const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_apply_penalties_explain";
  return with_call<ApplyPenaltiesCall>(read_apply_penalties_call, kName, /*addresses=*/false, context, call, exec,
                                       [=](Context& c, const ApplyPenaltiesCall& q, const Exec& e) {
                                         return write_explained(kName, apply_penalties_explain(c, q, e), buffer, size);
                                       });
}
