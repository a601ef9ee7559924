// SPDX-License-Identifier: MIT
// From a call, or a line of text, to a problem.
#include "ops/apply_penalties/problem/apply_penalties_problem.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor/strided.hpp"
#include "core/text_fields.hpp"

namespace tilewright {
namespace {

constexpr const char* kSeenNames[2][2] = {{"prompt_tokens", "prompt_counts"}, {"output_tokens", "output_counts"}};

template <class... Args>
Status refuse_penalties(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "apply_penalties: " + fmt::format(format, std::forward<Args>(args)...));
}

// [B, columns], or [B]; `columns` below 0: any. Elements along the last dimension are neighbours, but of tokens.
Status check_penalty_tensor(const char* name, const TensorView& t, const TensorView& logits, int rank, int64_t columns,
                            DType dtype, bool neighbours) {
  if (!t.defined()) return refuse_penalties("argument '{}' is missing", name);
  if (t.layout != Layout::kStrided) return refuse_penalties("argument '{}' is packed, allowed: strided", name);
  if (t.rank != rank) return refuse_penalties("argument '{}' has rank {}, allowed: {}", name, t.rank, rank);
  const auto last = static_cast<size_t>(rank - 1);
  if (neighbours && t.shape[last] > 1 && t.stride[last] != 1) {
    return refuse_penalties("argument '{}' has stride {} along its last dimension, allowed: 1", name, t.stride[last]);
  }
  if (t.dtype != dtype) {
    return refuse_penalties("argument '{}' is {}, allowed: {}", name, dtype_name(t.dtype), dtype_name(dtype));
  }
  if (t.shape[0] != logits.shape[0]) {
    return refuse_penalties("argument '{}' has {} rows, 'logits' has {}", name, t.shape[0], logits.shape[0]);
  }
  if (columns >= 0 && t.shape[last] != columns) {
    return refuse_penalties("argument '{}' has {} columns, 'logits' has {}", name, t.shape[last], columns);
  }
  if (t.device == logits.device) return {};
  return refuse_penalties("argument '{}' is on {}, 'logits' is on {}", name, to_string(t.device),
                          to_string(logits.device));
}

Status check_penalty_addresses(const ApplyPenaltiesProblem& p, const ApplyPenaltiesPointers& pointers) {
  struct Touched {
    const char* name;
    const void* data;
    ByteRange bytes;
  };
  const auto numbers = [&](const char* name, size_t slot, bool present) {
    return Touched{name, pointers[slot], touched_bytes(DType::kF32, {{present ? p.rows : 0, 1}})};
  };
  const auto tokens = [&](size_t i) {
    const SeenProblem& s = p.seen[i];
    return Touched{kSeenNames[i][0], pointers[kPenaltyTokens + i],
                   touched_bytes(DType::kI32, {{p.rows, s.stride_row}, {s.tokens, s.stride}})};
  };
  const auto counts = [&](size_t i) {
    const SeenProblem& s = p.seen[i];
    return Touched{kSeenNames[i][1], pointers[kPenaltyCounts + i],
                   touched_bytes(DType::kI32, {{s.counts ? p.rows : 0, s.stride_counts}, {p.n, 1}})};
  };
  const Touched out{"out", pointers[kPenaltyOut], touched_bytes(p.x, {{p.rows, p.stride_out}, {p.n, 1}})};
  const Touched read[] = {{"logits", pointers[kPenaltyLogits], touched_bytes(p.x, {{p.rows, p.stride}, {p.n, 1}})},
                          tokens(0),
                          tokens(1),
                          counts(0),
                          counts(1),
                          numbers("repetition", kPenaltyRepetition, p.repetition != 0),
                          numbers("presence", kPenaltyPresence, p.presence != 0),
                          numbers("frequency", kPenaltyFrequency, p.frequency != 0)};
  if (out.data == nullptr && !out.bytes.empty()) return refuse_penalties("argument 'out' has a null data pointer");
  for (const Touched& t : read) {
    if (t.data == nullptr && !t.bytes.empty()) return refuse_penalties("argument '{}' has a null data pointer", t.name);
    if (&t == &read[0] && p.in_place) continue;
    if (ranges_overlap(out.data, out.bytes, t.data, t.bytes)) {
      return refuse_penalties("argument 'out' overlaps '{}'{}", t.name,
                              &t == &read[0] ? " without being the same elements" : "");
    }
  }
  return {};
}

}  // namespace

Status make_apply_penalties_problem(const ApplyPenaltiesCall& call, bool check_addresses, ApplyPenaltiesProblem& p,
                                    ApplyPenaltiesPointers& pointers) {
  const TensorView& x = call.logits;
  Status s = check_penalty_tensor("logits", x, x, 2, -1, x.dtype, true);
  if (s) s = check_penalty_tensor("out", call.out, x, 2, x.shape[1], x.dtype, true);
  if (!s) return s;
  p = ApplyPenaltiesProblem();
  p.rows = x.shape[0], p.n = x.shape[1], p.x = x.dtype;
  if (p.rows > 1) p.stride = x.stride[0], p.stride_out = call.out.stride[0];
  p.in_place = x.data != nullptr && x.data == call.out.data && p.stride == p.stride_out;
  pointers = {x.data, call.out.data};
  const TensorView* const seen[2][2] = {{&call.prompt_tokens, &call.prompt_counts},
                                        {&call.output_tokens, &call.output_counts}};
  for (size_t i = 0; i < p.seen.size(); ++i) {
    const TensorView &tokens = *seen[i][0], &counts = *seen[i][1];
    SeenProblem& to = p.seen[i];
    if (tokens.defined()) {
      s = check_penalty_tensor(kSeenNames[i][0], tokens, x, 2, -1, DType::kI32, false);
      if (!s) return s;
      to.tokens = tokens.shape[1];
      to.stride_row = p.rows > 1 ? tokens.stride[0] : 0, to.stride = to.tokens > 1 ? tokens.stride[1] : 0;
      pointers[kPenaltyTokens + i] = tokens.data;
    }
    if (counts.defined()) {
      s = check_penalty_tensor(kSeenNames[i][1], counts, x, 2, p.n, DType::kI32, true);
      if (!s) return s;
      to.counts = 1, to.stride_counts = p.rows > 1 ? counts.stride[0] : 0;
      pointers[kPenaltyCounts + i] = counts.data;
    }
  }
  for (const auto& [name, t, slot, present] : {std::tuple<const char*, const TensorView&, size_t, uint8_t&>{
                                                   "repetition", call.repetition, kPenaltyRepetition, p.repetition},
                                               {"presence", call.presence, kPenaltyPresence, p.presence},
                                               {"frequency", call.frequency, kPenaltyFrequency, p.frequency}}) {
    if (!t.defined()) continue;
    if (s = check_penalty_tensor(name, t, x, 1, -1, DType::kF32, true); !s) return s;
    present = 1, pointers[slot] = t.data;
  }
  if (s = validate_apply_penalties_problem(p); !s) return s;
  return check_addresses ? check_penalty_addresses(p, pointers) : Status();
}

Status validate_apply_penalties_problem(const ApplyPenaltiesProblem& p) {
  if (p.x != DType::kF32 && p.x != DType::kF16 && p.x != DType::kBf16) {
    return refuse_penalties("argument 'logits' is {}, allowed: f32, f16, bf16", dtype_name(p.x));
  }
  if (p.rows < 0 || p.rows > kMaxReach) return refuse_penalties("size B is {}", p.rows);
  if (p.n < 0 || p.n > INT32_MAX) return refuse_penalties("size V is {}, allowed: 0 to 2^31 - 1", p.n);
  for (size_t i = 0; i < p.seen.size(); ++i) {
    const SeenProblem& s = p.seen[i];
    if (s.tokens < 0 || s.tokens > INT32_MAX) {
      return refuse_penalties("argument '{}' has {} columns, allowed: 0 to 2^31 - 1", kSeenNames[i][0], s.tokens);
    }
    if (!reach_fits({{p.rows, s.stride_row}, {s.tokens, s.stride}}) ||
        !reach_fits({{p.rows, s.stride_counts}, {p.n, 1}})) {
      return refuse_penalties("argument '{}' reaches beyond 2^56 elements", kSeenNames[i][s.counts]);
    }
  }
  if (!reach_fits({{p.rows, p.stride}, {p.n, 1}}) || !reach_fits({{p.rows, p.stride_out}, {p.n, 1}})) {
    return refuse_penalties("argument 'logits' or 'out' reaches beyond 2^56 elements");
  }
  if (p.n > 0 && may_overlap_itself({{p.rows, p.stride_out}, {p.n, 1}})) {
    return refuse_penalties("argument 'out' overlaps itself: stride {} of rows", p.stride_out);
  }
  return {};
}

void set_contiguous(ApplyPenaltiesProblem& p) {
  p.stride = p.stride_out = p.rows > 1 ? p.n : 0;
  for (SeenProblem& s : p.seen) {
    s.stride_row = p.rows > 1 ? s.tokens : 0, s.stride = s.tokens > 1 ? 1 : 0;
    s.stride_counts = s.counts && p.rows > 1 ? p.n : 0;
  }
}

std::string print_apply_penalties_problem(const ApplyPenaltiesProblem& p) {
  std::string text = fmt::format("b={}:v={}:x={}", p.rows, p.n, dtype_name(p.x));
  const auto add = [&text](const char* name, int64_t value, int64_t unless) {
    if (value != unless) text += fmt::format(":{}={}", name, value);
  };
  ApplyPenaltiesProblem plain = p;
  set_contiguous(plain);
  const SeenProblem &prompt = p.seen[0], &output = p.seen[1];
  add("prompt", prompt.tokens, 0), add("output", output.tokens, 0);
  add("prompt_counts", prompt.counts, 0), add("output_counts", output.counts, 0);
  add("repetition", p.repetition, 0), add("presence", p.presence, 0), add("frequency", p.frequency, 0);
  add("in_place", p.in_place, 0);
  add("sx", p.stride, plain.stride), add("so", p.stride_out, plain.stride_out);
  add("spr", prompt.stride_row, plain.seen[0].stride_row), add("sp", prompt.stride, plain.seen[0].stride);
  add("sor", output.stride_row, plain.seen[1].stride_row), add("st", output.stride, plain.seen[1].stride);
  add("spc", prompt.stride_counts, plain.seen[0].stride_counts);
  add("soc", output.stride_counts, plain.seen[1].stride_counts);
  return text;
}

Result<ApplyPenaltiesProblem> parse_apply_penalties_problem(std::string_view text) {
  ApplyPenaltiesProblem p, given;
  constexpr int64_t kUnset = INT64_MIN;
  p.rows = p.n = kUnset;
  given.stride = given.stride_out = kUnset;
  for (SeenProblem& s : given.seen) s.stride_row = s.stride = s.stride_counts = kUnset;
  const Status taken = for_each_text_field(text, [&](TextField& field) {
    const auto flag = [&](const char* name, uint8_t& to) {
      bool set = to != 0;
      field.read(name, set), to = set;
    };
    field.read("b", p.rows), field.read("v", p.n), field.read("x", p.x);
    field.read("prompt", p.seen[0].tokens), field.read("output", p.seen[1].tokens);
    flag("prompt_counts", p.seen[0].counts), flag("output_counts", p.seen[1].counts);
    flag("repetition", p.repetition), flag("presence", p.presence), flag("frequency", p.frequency);
    flag("in_place", p.in_place);
    field.read("sx", given.stride), field.read("so", given.stride_out);
    field.read("spr", given.seen[0].stride_row), field.read("sp", given.seen[0].stride);
    field.read("sor", given.seen[1].stride_row), field.read("st", given.seen[1].stride);
    field.read("spc", given.seen[0].stride_counts), field.read("soc", given.seen[1].stride_counts);
  });
  if (!taken) return refuse_penalties("problem '{}': {}", text, taken.message());
  if (p.rows == kUnset || p.n == kUnset || p.x == DType::kNone) {
    return refuse_penalties("problem '{}': expected b=..:v=..:x=..", text);
  }
  set_contiguous(p);
  const auto take = [](int64_t& to, int64_t stride) {
    if (stride != kUnset) to = stride;
  };
  take(p.stride, given.stride), take(p.stride_out, given.stride_out);
  if (p.in_place) p.stride_out = p.stride;
  for (size_t i = 0; i < p.seen.size(); ++i) {
    SeenProblem& to = p.seen[i];
    const SeenProblem& from = given.seen[i];
    take(to.stride_row, from.stride_row), take(to.stride, from.stride), take(to.stride_counts, from.stride_counts);
  }
  if (Status s = validate_apply_penalties_problem(p); !s) return s;
  return p;
}

double apply_penalties_bytes(const ApplyPenaltiesProblem& p) {
  const double rows = static_cast<double>(p.rows), width = dtype_bits(p.x) / 8.0;
  const int64_t tokens = p.seen[0].tokens + p.seen[1].tokens;
  const bool counts = p.seen[0].counts || p.seen[1].counts;
  const int64_t touched = p.in_place && !counts ? std::min(tokens, p.n) : p.n;
  return rows *
         (static_cast<double>(tokens) * 4 + static_cast<double>((p.seen[0].counts + p.seen[1].counts) * p.n) * 4 +
          2 * static_cast<double>(touched) * width + 4 * (p.repetition + p.presence + p.frequency));
}

}  // namespace tilewright
