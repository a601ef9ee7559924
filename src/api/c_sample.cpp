// SPDX-License-Identifier: MIT
// sample through the C ABI.
#include "api/c_row_call.hpp"
#include "tilewright/sample.hpp"

namespace tilewright::c_abi {
namespace {

Status read_sample_call(const char* function, const tilewright_sample_call* from, bool addresses, SampleCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_sample_call given = tilewright_sample_call_defaults();
  if (Status s = read_struct<96>("tilewright_sample_call", from, given); !s) return s;
  call.greedy = given.greedy != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  Status s = read_number("sample", "joint", given.joint, call.joint);
  if (s) s = read_tensor("logits", given.logits, addresses, call.logits);
  if (s) s = read_numbers("ids", given.ids, addresses, call.ids);
  if (s) s = read_numbers("seeds", given.seeds, addresses, call.seeds);
  if (s) s = read_numbers("offsets", given.offsets, addresses, call.offsets);
  if (s) s = read_tensor("temperature", given.temperature, addresses, call.temperature);
  if (s) s = read_tensor("top_k", given.top_k, addresses, call.top_k);
  if (s) s = read_tensor("top_p", given.top_p, addresses, call.top_p);
  if (s) s = read_tensor("min_p", given.min_p, addresses, call.min_p);
  return s ? read_tensor("log_probabilities", given.log_probabilities, addresses, call.log_probabilities) : s;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_sample(tilewright_context* context, const tilewright_sample_call* call,
                                    const tilewright_exec* exec) {
  return with_call<SampleCall>(read_sample_call, "tilewright_sample", /*addresses=*/true, context, call, exec, &sample);
}

tilewright_status tilewright_sample_prepare(tilewright_context* context, const tilewright_sample_call* call,
                                            const tilewright_exec* exec) {
  return with_call<SampleCall>(read_sample_call, "tilewright_sample_prepare", /*addresses=*/false, context, call, exec,
                               &sample_prepare);
}

tilewright_status tilewright_sample_query(tilewright_context* context, const tilewright_sample_call* call,
                                          const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_sample_query";
  return with_call<SampleCall>(read_sample_call, kName, /*addresses=*/false, context, call, exec,
                               [=](Context& c, const SampleCall& q, const Exec& e) {
                                 return write_query(kName, sample_query(c, q, e), result);
                               });
}

tilewright_status tilewright_sample_explain(tilewright_context* context, const tilewright_sample_call* call,
                                            const tilewright_exec* exec, char* buffer, size_t* size) {
  constexpr const char* kName = "tilewright_sample_explain";
  return with_call<SampleCall>(read_sample_call, kName, /*addresses=*/false, context, call, exec,
                               [=](Context& c, const SampleCall& q, const Exec& e) {
                                 return write_explained(kName, sample_explain(c, q, e), buffer, size);
                               });
}
