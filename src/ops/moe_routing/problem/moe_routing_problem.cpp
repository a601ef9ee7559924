// SPDX-License-Identifier: MIT
// From a call, or a line of text, to a problem.
#include "ops/moe_routing/problem/moe_routing_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/strided.hpp"
#include "core/text_fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_routing(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "moe_routing: " + fmt::format(format, std::forward<Args>(args)...));
}

bool is_router_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

Status check_router_tensor(const char* name, const TensorView& t, const TensorView& logits, int rank) {
  if (!t.defined()) return refuse_routing("argument '{}' is missing", name);
  if (t.layout != Layout::kStrided) return refuse_routing("argument '{}' is packed, allowed: strided", name);
  if (t.rank != rank) return refuse_routing("argument '{}' has rank {}, allowed: {}", name, t.rank, rank);
  for (int i = 0; i < rank; ++i) {
    if (t.shape[static_cast<size_t>(i)] < 0)
      return refuse_routing("argument '{}' has the negative size {}", name, t.shape[static_cast<size_t>(i)]);
  }
  const auto last = static_cast<size_t>(rank - 1);
  if (t.shape[last] > 1 && t.stride[last] != 1) {
    return refuse_routing("argument '{}' has stride {} along its last dimension, allowed: 1", name, t.stride[last]);
  }
  if (t.device == logits.device) return {};
  return refuse_routing("argument '{}' is on {}, 'logits' is on {}", name, to_string(t.device),
                        to_string(logits.device));
}

struct RouterTensor {
  const char* name;
  const void* data;
  ByteRange bytes;
  bool written;
};

Status check_router_addresses(const MoeRoutingProblem& p, const MoeRoutingBindings& b) {
  const auto tokens = [&p](DType dtype, int64_t inner, int64_t stride) {
    return touched_bytes(dtype, {{p.tokens, stride}, {inner, 1}});
  };
  const ByteRange bias =
      p.bias == DType::kNone || p.tokens == 0 ? ByteRange{} : touched_bytes(p.bias, {{p.experts, 1}});
  const RouterTensor tensors[] = {
      {"logits", b.pointers[kRouterLogits], tokens(p.x, p.experts, p.stride_logits), false},
      {"bias", b.pointers[kRouterBias], bias, false},
      {"weights", b.pointers[kRouterWeights], tokens(DType::kF32, p.k, p.stride_weights), true},
      {"ids", b.pointers[kRouterIds], tokens(DType::kI32, p.k, p.stride_ids), true}};
  for (const RouterTensor& t : tensors) {
    if (t.data == nullptr && !t.bytes.empty()) return refuse_routing("argument '{}' has a null data pointer", t.name);
    for (const RouterTensor& w : tensors) {
      if (w.written && &w != &t && ranges_overlap(w.data, w.bytes, t.data, t.bytes)) {
        return refuse_routing("argument '{}' overlaps '{}'", w.name, t.name);
      }
    }
  }
  return {};
}

}  // namespace

Status make_moe_routing_problem(const MoeRoutingCall& call, bool check_addresses, MoeRoutingProblem& p,
                                MoeRoutingBindings& b) {
  const TensorView& x = call.logits;
  Status s = check_router_tensor("logits", x, x, 2);
  if (s) s = check_router_tensor("weights", call.weights, x, 2);
  if (s) s = check_router_tensor("ids", call.ids, x, 2);
  if (s && call.bias.defined()) s = check_router_tensor("bias", call.bias, x, 1);
  if (!s) return s;
  p = MoeRoutingProblem();
  p.tokens = x.shape[0], p.experts = x.shape[1], p.k = call.weights.shape[1];
  p.groups = call.groups, p.topk_groups = call.topk_groups, p.group_score = call.group_score;
  p.first_expert = call.first_expert;
  p.local_experts = call.local_experts == 0 ? p.experts - p.first_expert : call.local_experts;
  p.x = x.dtype, p.bias = call.bias.defined() ? call.bias.dtype : DType::kNone;
  p.score = call.score, p.renormalise = call.renormalise;
  const struct {
    const char* name;
    const TensorView& t;
    DType dtype;
  } outputs[] = {{"weights", call.weights, DType::kF32}, {"ids", call.ids, DType::kI32}};
  for (const auto& out : outputs) {
    if (out.t.dtype != out.dtype) {
      return refuse_routing("argument '{}' is {}, allowed: {}", out.name, dtype_name(out.t.dtype),
                            dtype_name(out.dtype));
    }
    if (out.t.shape[0] != p.tokens || out.t.shape[1] != p.k) {
      return refuse_routing("argument '{}' has shape [{}, {}], expected [{}, {}]", out.name, out.t.shape[0],
                            out.t.shape[1], p.tokens, p.k);
    }
  }
  if (call.bias.defined() && call.bias.shape[0] != p.experts) {
    return refuse_routing("argument 'bias' has shape [{}], expected [{}]", call.bias.shape[0], p.experts);
  }
  if (p.tokens > 1) {
    p.stride_logits = x.stride[0], p.stride_weights = call.weights.stride[0], p.stride_ids = call.ids.stride[0];
  }
  b.pointers = {x.data, call.bias.data, call.weights.data, call.ids.data};
  b.scalars = {call.scale};
  const auto addresses = reinterpret_cast<uintptr_t>(x.data) | reinterpret_cast<uintptr_t>(call.bias.data);
  if (x.device.kind != DeviceKind::kCpu) p.unaligned = (addresses & 15) != 0;
  if (s = validate_moe_routing_problem(p); !s) return s;
  if (!std::isfinite(call.scale)) return refuse_routing("argument 'scale' is {}, allowed: finite numbers", call.scale);
  return check_addresses ? check_router_addresses(p, b) : Status();
}

Status validate_moe_routing_problem(const MoeRoutingProblem& p) {
  if (!is_router_float(p.x)) return refuse_routing("argument 'logits' is {}, allowed: f32, f16, bf16", dtype_name(p.x));
  if (p.bias != DType::kNone && !is_router_float(p.bias)) {
    return refuse_routing("argument 'bias' is {}, allowed: f32, f16, bf16", dtype_name(p.bias));
  }
  if (p.tokens < 0 || p.tokens > kMaxReach) return refuse_routing("size T is {}", p.tokens);
  if (p.experts < 1 || p.experts > kMostExperts) {
    return refuse_routing("argument 'logits' has {} experts, allowed: 1 to {}", p.experts, kMostExperts);
  }
  if (p.groups < 1 || p.groups > kMostExpertGroups || p.experts % p.groups != 0) {
    return refuse_routing("argument 'groups' is {}, allowed: 1 to {} that divide {} experts", p.groups,
                          kMostExpertGroups, p.experts);
  }
  if (p.topk_groups < 1 || p.topk_groups > p.groups) {
    return refuse_routing("argument 'topk_groups' is {}, allowed: 1 to {}", p.topk_groups, p.groups);
  }
  const int64_t open = p.experts / p.groups * p.topk_groups, most = std::min<int64_t>(open, kMostChosen);
  if (p.k < 1 || p.k > most) {
    return refuse_routing("argument 'k' is {}, allowed: 1 to {}{}", p.k, most,
                          open > kMostChosen ? "" : fmt::format(", the experts that may be chosen from"));
  }
  if (p.first_expert < 0 || p.local_experts < 1 || p.first_expert + p.local_experts > p.experts) {
    return refuse_routing("local experts are {} from {} on, allowed: within {}", p.local_experts, p.first_expert,
                          p.experts);
  }
  const struct {
    const char* name;
    int64_t inner, stride;
    bool written;
  } tensors[] = {{"logits", p.experts, p.stride_logits, false},
                 {"weights", p.k, p.stride_weights, true},
                 {"ids", p.k, p.stride_ids, true}};
  for (const auto& t : tensors) {
    if (!reach_fits({{p.tokens, t.stride}, {t.inner, 1}})) {
      return refuse_routing("argument '{}' reaches beyond 2^56 elements", t.name);
    }
    if (t.written && may_overlap_itself({{p.tokens, t.stride}, {t.inner, 1}})) {
      return refuse_routing("argument '{}' overlaps itself: stride {} of tokens", t.name, t.stride);
    }
  }
  return {};
}

void set_contiguous(MoeRoutingProblem& p) {
  p.stride_logits = p.tokens > 1 ? p.experts : 0;
  p.stride_weights = p.stride_ids = p.tokens > 1 ? p.k : 0;
}

std::string print_moe_routing_problem(const MoeRoutingProblem& p) {
  std::string text = fmt::format("t={}:e={}:k={}:x={}", p.tokens, p.experts, p.k, dtype_name(p.x));
  const MoeRoutingProblem usual;
  const auto add = [&text](const char* name, const auto& value, const auto& unless) {
    if (value != unless) text += fmt::format(":{}={}", name, fields_detail::print_value(value));
  };
  add("score", p.score, usual.score);
  add("bias", p.bias, usual.bias);
  add("renormalise", p.renormalise, usual.renormalise);
  add("groups", p.groups, usual.groups), add("topk_groups", p.topk_groups, usual.topk_groups);
  add("group_score", p.group_score, usual.group_score);
  add("first", p.first_expert, usual.first_expert), add("local", p.local_experts, p.experts - p.first_expert);
  add("unaligned", p.unaligned, usual.unaligned);
  add("programmatic_edge", p.programmatic_edge, usual.programmatic_edge);
  MoeRoutingProblem plain = p;
  set_contiguous(plain);
  add("sx", p.stride_logits, plain.stride_logits);
  add("sw", p.stride_weights, plain.stride_weights), add("si", p.stride_ids, plain.stride_ids);
  return text;
}

Result<MoeRoutingProblem> parse_moe_routing_problem(std::string_view text) {
  MoeRoutingProblem p;
  constexpr int64_t kUnset = INT64_MIN;
  p.tokens = p.experts = p.k = kUnset;
  p.stride_logits = p.stride_weights = p.stride_ids = p.local_experts = kUnset;
  bool renormalise = false, unaligned = false, programmatic_edge = false;
  const Status taken = for_each_text_field(text, [&](TextField& field) {
    field.read("t", p.tokens), field.read("e", p.experts), field.read("k", p.k);
    field.read("x", p.x), field.read("bias", p.bias);
    field.read("score", p.score), field.read("renormalise", renormalise);
    field.read("groups", p.groups), field.read("topk_groups", p.topk_groups), field.read("group_score", p.group_score);
    field.read("first", p.first_expert), field.read("local", p.local_experts);
    field.read("unaligned", unaligned), field.read("programmatic_edge", programmatic_edge);
    field.read("sx", p.stride_logits), field.read("sw", p.stride_weights), field.read("si", p.stride_ids);
  });
  if (!taken) return refuse_routing("problem '{}': {}", text, taken.message());
  if (p.tokens == kUnset || p.experts == kUnset || p.k == kUnset || p.x == DType::kNone) {
    return refuse_routing("problem '{}': expected t=..:e=..:k=..:x=..", text);
  }
  p.renormalise = renormalise, p.unaligned = unaligned, p.programmatic_edge = programmatic_edge;
  if (p.local_experts == kUnset) p.local_experts = p.experts - p.first_expert;
  MoeRoutingProblem plain = p;
  set_contiguous(plain);
  if (p.stride_logits == kUnset) p.stride_logits = plain.stride_logits;
  if (p.stride_weights == kUnset) p.stride_weights = plain.stride_weights;
  if (p.stride_ids == kUnset) p.stride_ids = plain.stride_ids;
  if (Status s = validate_moe_routing_problem(p); !s) return s;
  return p;
}

double moe_routing_bytes(const MoeRoutingProblem& p) {
  const auto tokens = static_cast<double>(p.tokens), experts = static_cast<double>(p.experts);
  return tokens * (experts * dtype_bits(p.x) / 8 + static_cast<double>(p.k) * 8) + experts * dtype_bits(p.bias) / 8;
}

}  // namespace tilewright
