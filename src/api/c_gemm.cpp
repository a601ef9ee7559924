// SPDX-License-Identifier: MIT
// gemm through the C ABI: the caller's structs become a GemmCall and an Exec.
#include <cstring>

#include "api/c_gemm_call.hpp"

namespace tilewright::c_abi {
namespace {

template <class... Args>
Status refuse_call(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "gemm: " + fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

Status read_tensor(const char* name, const TwDLTensor* from, bool addresses, TensorView& to) {
  if (from == nullptr) return {};
  TwDLTensor tensor = *from;
  const bool absent = tensor.data == nullptr && !addresses;
  if (absent) tensor.data = &tensor;  // never read
  Result<TensorView> view = from_dlpack(tensor);
  if (!view) {
    return Status(view.status().code(), fmt::format("gemm: argument '{}': {}", name, view.status().message()));
  }
  to = *view;
  if (absent) to.data = nullptr;
  return {};
}

namespace {

Status read_step(size_t index, const tilewright_gemm_step& from, bool addresses, GemmStep& to) {
  const std::string name = fmt::format("steps[{}]", index);
  if (from.kind < TILEWRIGHT_STEP_ACTIVATION || from.kind > TILEWRIGHT_STEP_MULTIPLY) {
    return refuse_call("argument '{}' has kind {}, allowed: 1 (activation), 2 (add), 3 (multiply)", name, from.kind);
  }
  if (from.activation < 0 || from.activation > TILEWRIGHT_ACTIVATION_CLAMP) {
    return refuse_call("argument '{}' has activation {}, allowed: 0 to {}", name, from.activation,
                       int{TILEWRIGHT_ACTIVATION_CLAMP});
  }
  if (from.reserved[0] != 0 || from.reserved[1] != 0) return refuse_call("argument '{}' has reserved bytes set", name);
  to.kind = static_cast<StepKind>(from.kind);
  to.activation = static_cast<Activation>(from.activation);
  to.low = from.low;
  to.high = from.high;
  return from.kind == TILEWRIGHT_STEP_ACTIVATION ? Status()
                                                 : read_tensor(name.c_str(), from.tensor, addresses, to.tensor);
}

Status read_either_b(const tilewright_gemm_call& given, bool addresses, DeviceId device, TensorView& b) {
  if (given.b_packed == nullptr) return read_tensor("b", given.b, addresses, b);
  if (given.b != nullptr) return refuse_call("arguments 'b' and 'b_packed' are both given, allowed: one of them");
  Result<TensorView> view = read_packed(given.b_packed_info, device, given.b_packed, given.b_packed_bytes);
  if (!view) return view.status();
  b = *view;
  return {};
}

}  // namespace

Status read_call(const char* function, const tilewright_gemm_call* from, bool addresses, GemmCall& call) {
  if (from == nullptr) return missing(function, "call");
  tilewright_gemm_call given = tilewright_gemm_call_defaults();
  if (Status s = read_struct<128>("tilewright_gemm_call", from, given); !s) return s;

  // Numbers that the C++ enums have no room for.
  constexpr uint32_t kFlags = TILEWRIGHT_GEMM_DETERMINISTIC | TILEWRIGHT_GEMM_BATCH_INVARIANT |
                              TILEWRIGHT_GEMM_ALLOW_TF32 | TILEWRIGHT_GEMM_ALLOW_FAST_ACCUM;
  if ((given.flags & ~kFlags) != 0) {
    return refuse_call(
        "flags is {}, allowed: TILEWRIGHT_GEMM_DETERMINISTIC (1) | TILEWRIGHT_GEMM_BATCH_INVARIANT (2) | "
        "TILEWRIGHT_GEMM_ALLOW_TF32 (4) | TILEWRIGHT_GEMM_ALLOW_FAST_ACCUM (8)",
        given.flags);
  }
  if (given.activation < 0 || given.activation > TILEWRIGHT_ACTIVATION_CLAMP) {
    return refuse_call("argument 'activation' is {}, allowed: 0 to {}", given.activation,
                       int{TILEWRIGHT_ACTIVATION_CLAMP});
  }
  if (given.gate < 0 || given.gate > TILEWRIGHT_GATE_INTERLEAVED) {
    return refuse_call("argument 'gate' is {}, allowed: 0 to {}", given.gate, int{TILEWRIGHT_GATE_INTERLEAVED});
  }
  if (given.step_count > TILEWRIGHT_GEMM_MAX_STEPS) {
    return refuse_call("argument 'steps' has {} entries, allowed: at most {}", given.step_count,
                       int{TILEWRIGHT_GEMM_MAX_STEPS});
  }
  if (given.step_count > 0 && given.steps == nullptr) {
    return refuse_call("argument 'steps' is NULL while step_count is {}", given.step_count);
  }

  if (Status s = read_tensor("a", given.a, addresses, call.a); !s) return s;
  if (Status s = read_either_b(given, addresses, call.a.device, call.b); !s) return s;
  if (Status s = read_tensor("d", given.d, addresses, call.d); !s) return s;
  if (Status s = read_tensor("scale_a", given.scale_a, addresses, call.scale_a); !s) return s;
  if (Status s = read_tensor("scale_b", given.scale_b, addresses, call.scale_b); !s) return s;
  if (Status s = read_tensor("zero_b", given.zero_b, addresses, call.zero_b); !s) return s;
  if (given.scale_a_outer != 0) call.scale_group_a.outer = given.scale_a_outer;
  if (given.scale_b_outer != 0) call.scale_group_b.outer = given.scale_b_outer;
  call.scale_group_a.k = given.scale_a_k;
  call.scale_group_b.k = given.scale_b_k;
  if (given.beta != 0) {
    if (Status s = read_tensor("c", given.c, addresses, call.c); !s) return s;
  }
  if (Status s = read_tensor("bias", given.bias, addresses, call.bias); !s) return s;
  call.alpha = given.alpha;
  call.beta = given.beta;
  call.activation = static_cast<Activation>(given.activation);
  call.low = given.low;
  call.high = given.high;
  call.gate = static_cast<GateMode>(given.gate);
  call.steps.resize(given.step_count);
  for (size_t i = 0; i < given.step_count; ++i) {
    if (Status s = read_step(i, given.steps[i], addresses, call.steps[i]); !s) return s;
  }
  call.options.deterministic = (given.flags & TILEWRIGHT_GEMM_DETERMINISTIC) != 0;
  call.options.batch_invariant = (given.flags & TILEWRIGHT_GEMM_BATCH_INVARIANT) != 0;
  call.options.allow_tf32 = (given.flags & TILEWRIGHT_GEMM_ALLOW_TF32) != 0;
  call.options.allow_fast_accum = (given.flags & TILEWRIGHT_GEMM_ALLOW_FAST_ACCUM) != 0;
  if (given.recipe != nullptr) call.options.recipe = given.recipe;
  return {};
}

Status read_exec(const tilewright_exec* from, ReadExec& to) {
  if (from == nullptr) return {};
  tilewright_exec given = tilewright_exec_defaults();
  if (Status s = read_struct<48>("tilewright_exec", from, given); !s) return s;
  if (given.units < 0) return refuse_call("exec.units is {}, allowed: 0 (all) or more", given.units);
  to.exec.units = given.units;
  to.exec.stream = given.stream;
  to.exec.workspace = given.workspace;
  to.exec.workspace_bytes = given.workspace_bytes;
  to.exec.programmatic_edge = given.programmatic_edge != 0;
  if (given.parallel_for == nullptr) return {};
  to.parallel_for = [run = given.parallel_for, data = given.parallel_for_data](
                        uint32_t count, const std::function<void(uint32_t)>& body) {
    run(
        data, count,
        [](void* body_data, uint32_t index) { (*static_cast<const std::function<void(uint32_t)>*>(body_data))(index); },
        const_cast<std::function<void(uint32_t)>*>(&body));
  };
  to.exec.parallel_for = &to.parallel_for;
  return {};
}

Status write_explained(const char* function, const Result<std::string>& text, char* buffer, size_t* size) {
  if (size == nullptr) return missing(function, "size");
  if (!text) return text.status();
  write_text(*text, buffer, *size);
  return {};
}

Status write_query(const char* function, const Result<QueryResult>& found, tilewright_query_result* result) {
  if (result == nullptr) return missing(function, "result");
  tilewright_query_result out = tilewright_query_result_defaults();
  if (Status s = read_struct<56>("tilewright_query_result", result, out); !s) return s;
  if (!found) return found.status();
  out.built = found->built;
  out.fallback = found->fallback;
  out.workspace_bytes = found->workspace_bytes;
  out.predicted_us = found->predicted_us;
  size_t source_size = sizeof(out.source);
  write_text(found->source, out.source, source_size);
  write_text(found->recipe, out.recipe, out.recipe_size);
  write_struct(out, result);
  return {};
}

}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_gemm(tilewright_context* context, const tilewright_gemm_call* call,
                                  const tilewright_exec* exec) {
  return with_call<GemmCall>(read_call, "tilewright_gemm", /*addresses=*/true, context, call, exec,
                             [](Context& c, const GemmCall& g, const Exec& e) { return gemm(c, g, e); });
}

tilewright_status tilewright_gemm_prepare(tilewright_context* context, const tilewright_gemm_call* call,
                                          const tilewright_exec* exec) {
  return with_call<GemmCall>(read_call, "tilewright_gemm_prepare", /*addresses=*/false, context, call, exec,
                             [](Context& c, const GemmCall& g, const Exec& e) { return gemm_prepare(c, g, e); });
}

tilewright_status tilewright_gemm_query(tilewright_context* context, const tilewright_gemm_call* call,
                                        const tilewright_exec* exec, tilewright_query_result* result) {
  return with_call<GemmCall>(read_call, "tilewright_gemm_query", /*addresses=*/false, context, call, exec,
                             [result](Context& c, const GemmCall& g, const Exec& e) {
                               return write_query("tilewright_gemm_query", gemm_query(c, g, e), result);
                             });
}

tilewright_status tilewright_gemm_explain(tilewright_context* context, const tilewright_gemm_call* call,
                                          const tilewright_exec* exec, char* buffer, size_t* size) {
  return with_call<GemmCall>(read_call, "tilewright_gemm_explain", /*addresses=*/false, context, call, exec,
                             [buffer, size](Context& c, const GemmCall& g, const Exec& e) {
                               return write_explained("tilewright_gemm_explain", gemm_explain(c, g, e), buffer, size);
                             });
}

tilewright_status tilewright_gemm_reference(const tilewright_gemm_call* given) {
  return guarded([&]() -> Status {
    GemmCall call;
    if (Status s = read_call("tilewright_gemm_reference", given, /*addresses=*/true, call); !s) return s;
    return gemm_reference(call);
  });
}
