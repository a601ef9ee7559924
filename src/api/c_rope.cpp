// SPDX-License-Identifier: MIT
// rope through the C ABI.
#include <algorithm>
#include <iterator>

#include "api/c_row_call.hpp"
#include "tilewright/rope.hpp"

namespace tilewright::c_abi {
namespace {

Status read_rope_call(const char* function, const tilewright_rope_call* from, bool addresses, RopeCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_rope_call given = tilewright_rope_call_defaults();
  if (Status s = read_struct<72>("tilewright_rope_call", from, given); !s) return s;
  call.interleaved = given.interleaved != 0, call.inverse = given.inverse != 0;
  if (given.recipe != nullptr) call.recipe = given.recipe;
  if (Status s = read_number("rope", "section_order", given.section_order, call.section_order); !s) return s;
  std::copy(std::begin(given.sections), std::end(given.sections), call.sections.begin());
  const struct {
    const char* name;
    const TwDLTensor* from;
    TensorView& to;
  } tensors[] = {{"q", given.q, call.q},
                 {"q_out", given.q_out, call.q_out},
                 {"k", given.k, call.k},
                 {"k_out", given.k_out, call.k_out},
                 {"cos", given.cos, call.cos},
                 {"sin", given.sin, call.sin},
                 {"positions", given.positions, call.positions},
                 {"cumulative_lengths", given.cumulative_lengths, call.cumulative_lengths},
                 {"offsets", given.offsets, call.offsets}};
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

tilewright_status tilewright_rope(tilewright_context* context, const tilewright_rope_call* call,
                                  const tilewright_exec* exec) {
  return with_call<RopeCall>(read_rope_call, "tilewright_rope", /*addresses=*/true, context, call, exec,
                             [](Context& c, const RopeCall& r, const Exec& e) { return rope(c, r, e); });
}

tilewright_status tilewright_rope_prepare(tilewright_context* context, const tilewright_rope_call* call,
                                          const tilewright_exec* exec) {
  return with_call<RopeCall>(read_rope_call, "tilewright_rope_prepare", /*addresses=*/false, context, call, exec,
                             [](Context& c, const RopeCall& r, const Exec& e) { return rope_prepare(c, r, e); });
}

tilewright_status tilewright_rope_query(tilewright_context* context, const tilewright_rope_call* call,
                                        const tilewright_exec* exec, tilewright_query_result* result) {
  constexpr const char* kName = "tilewright_rope_query";
  return with_call<RopeCall>(
      read_rope_call, kName, /*addresses=*/false, context, call, exec,
      [=](Context& c, const RopeCall& r, const Exec& e) { return write_query(kName, rope_query(c, r, e), result); });
}

tilewright_status tilewright_rope_explain(tilewright_context* context, const tilewright_rope_call* call,
                                          const tilewright_exec* exec, char* buffer, size_t* size) {
  return with_call<RopeCall>(read_rope_call, "tilewright_rope_explain", /*addresses=*/false, context, call, exec,
                             [buffer, size](Context& c, const RopeCall& r, const Exec& e) {
                               return write_explained("tilewright_rope_explain", rope_explain(c, r, e), buffer, size);
                             });
}
