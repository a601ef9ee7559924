// SPDX-License-Identifier: MIT
// From a call, or a line of text, to a problem.
#include "ops/sample/problem/sample_problem.hpp"

#include <fmt/format.h>

#include "core/tensor/strided.hpp"
#include "core/text_fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_sample(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "sample: " + fmt::format(format, std::forward<Args>(args)...));
}

Status check_logits(const TensorView& t) {
  if (!t.defined()) return refuse_sample("argument 'logits' is missing");
  if (t.layout != Layout::kStrided) return refuse_sample("argument 'logits' is packed, allowed: strided");
  if (t.rank != 2) return refuse_sample("argument 'logits' has rank {}, allowed: 2", t.rank);
  if (t.shape[0] < 0 || t.shape[1] < 0) return refuse_sample("argument 'logits' has a negative size");
  if (t.shape[1] > 1 && t.stride[1] != 1) {
    return refuse_sample("argument 'logits' has stride {} along its last dimension, allowed: 1", t.stride[1]);
  }
  return {};
}

// How many words it has a row.
Status check_row_tensor(const SampleRowTensor& of, const TensorView& t, const TensorView& logits, uint8_t& words) {
  if (t.layout != Layout::kStrided) return refuse_sample("argument '{}' is packed, allowed: strided", of.name);
  if (t.dtype != of.dtype) {
    return refuse_sample("argument '{}' is {}, allowed: {}", of.name, dtype_name(t.dtype), dtype_name(of.dtype));
  }
  const int64_t rows = logits.shape[0];
  const bool wide = of.wide && t.rank == 2 && t.shape[1] == 2;
  if ((t.rank != 1 && !wide) || t.shape[0] != rows) {
    return refuse_sample("argument '{}' has {} of rank {}, allowed: [{}]{}", of.name, t.rank > 0 ? t.shape[0] : 1,
                         t.rank, rows, of.wide ? fmt::format(", [{}, 2] of words", rows) : "");
  }
  words = wide ? 2 : 1;
  if ((rows > 1 && t.stride[0] != words) || (wide && t.stride[1] != 1)) {
    return refuse_sample("argument '{}' has stride {}, allowed: {}", of.name, t.stride[0], words);
  }
  if (t.device == logits.device) return {};
  return refuse_sample("argument '{}' is on {}, 'logits' is on {}", of.name, to_string(t.device),
                       to_string(logits.device));
}

Status check_sample_addresses(const SampleProblem& p, const SamplePointers& pointers) {
  struct Touched {
    const char* name;
    const void* data;
    ByteRange bytes;
    bool written;
  };
  std::vector<Touched> tensors = {
      {"logits", pointers[kSampleLogits], touched_bytes(p.x, {{p.rows, p.stride}, {p.vocabulary, 1}}), false}};
  for (const SampleRowTensor& t : sample_row_tensors()) {
    const int64_t words = p.*t.words;
    if (words > 0) {
      tensors.push_back({t.name, pointers[t.slot], touched_bytes(t.dtype, {{p.rows, words}, {words, 1}}), t.written});
    }
  }
  for (const Touched& t : tensors) {
    if (t.data == nullptr && !t.bytes.empty()) return refuse_sample("argument '{}' has a null data pointer", t.name);
    for (const Touched& w : tensors) {
      if (w.written && &w != &t && ranges_overlap(w.data, w.bytes, t.data, t.bytes)) {
        return refuse_sample("argument '{}' overlaps '{}'", w.name, t.name);
      }
    }
  }
  return {};
}

}  // namespace

const std::array<SampleRowTensor, 8>& sample_row_tensors() {
  using C = SampleCall;
  using P = SampleProblem;
  static const std::array<SampleRowTensor, 8> kTensors = {{
      {"temperature", kSampleTemperature, &C::temperature, &P::temperature, DType::kF32, false, false},
      {"top_k", kSampleTopK, &C::top_k, &P::top_k, DType::kI32, false, false},
      {"top_p", kSampleTopP, &C::top_p, &P::top_p, DType::kF32, false, false},
      {"min_p", kSampleMinP, &C::min_p, &P::min_p, DType::kF32, false, false},
      {"seeds", kSampleSeeds, &C::seeds, &P::seed_words, DType::kI32, true, false},
      {"offsets", kSampleOffsets, &C::offsets, &P::offset_words, DType::kI32, true, false},
      {"ids", kSampleIds, &C::ids, &P::id_words, DType::kI32, true, true},
      {"log_probabilities", kSampleLogProbabilities, &C::log_probabilities, &P::log_probabilities, DType::kF32, false,
       true},
  }};
  return kTensors;
}

Status make_sample_problem(const SampleCall& call, bool check_addresses, SampleProblem& p, SamplePointers& pointers) {
  const TensorView& x = call.logits;
  if (Status s = check_logits(x); !s) return s;
  p = SampleProblem();
  p.rows = x.shape[0], p.vocabulary = x.shape[1], p.x = x.dtype;
  p.joint = call.joint, p.greedy = call.greedy;
  p.stride = p.rows > 1 ? x.stride[0] : 0;
  pointers[kSampleLogits] = x.data;
  for (const SampleRowTensor& t : sample_row_tensors()) {
    const TensorView& view = call.*t.view;
    p.*t.words = 0, pointers[t.slot] = view.data;
    if (!view.defined()) continue;
    if (Status s = check_row_tensor(t, view, x, p.*t.words); !s) return s;
  }
  if (x.device.kind != DeviceKind::kCpu) p.unaligned = (reinterpret_cast<uintptr_t>(x.data) & 15) != 0;
  if (Status s = validate_sample_problem(p); !s) return s;
  return check_addresses ? check_sample_addresses(p, pointers) : Status();
}

Status validate_sample_problem(const SampleProblem& p) {
  if (p.x != DType::kF32 && p.x != DType::kF16 && p.x != DType::kBf16) {
    return refuse_sample("argument 'logits' is {}, allowed: f32, f16, bf16", dtype_name(p.x));
  }
  if (p.rows < 0 || p.rows > kMaxReach) return refuse_sample("size B is {}", p.rows);
  if (p.vocabulary < 1 || p.vocabulary > INT32_MAX) {
    return refuse_sample("argument 'logits' has {} tokens, allowed: 1 to 2^31 - 1", p.vocabulary);
  }
  if (!reach_fits({{p.rows, p.stride}, {p.vocabulary, 1}})) {
    return refuse_sample("argument 'logits' reaches beyond 2^56 elements");
  }
  if (p.id_words == 0) return refuse_sample("argument 'ids' is missing");
  if (p.greedy == 0 && p.seed_words == 0) {
    return refuse_sample("argument 'seeds' is missing, which rows that are not greedy need");
  }
  if (p.greedy == 0) return {};
  for (const SampleRowTensor& t : sample_row_tensors()) {
    if (!t.written && p.*t.words != 0) return refuse_sample("argument '{}' is given to a greedy call", t.name);
  }
  return {};
}

void set_contiguous(SampleProblem& p) { p.stride = p.rows > 1 ? p.vocabulary : 0; }

std::string print_sample_problem(const SampleProblem& p) {
  std::string text = fmt::format("b={}:v={}:x={}", p.rows, p.vocabulary, dtype_name(p.x));
  SampleProblem usual;
  if (p.greedy != 0) text += ":greedy=1", usual.seed_words = 0;
  const auto add = [&text](const char* name, const auto& value, const auto& unless) {
    if (value != unless) text += fmt::format(":{}={}", name, fields_detail::print_value(value));
  };
  for (const SampleRowTensor& t : sample_row_tensors()) {
    add(t.name, static_cast<int>(p.*t.words), static_cast<int>(usual.*t.words));
  }
  add("joint", p.joint, usual.joint);
  add("unaligned", static_cast<int>(p.unaligned), 0);
  SampleProblem plain = p;
  set_contiguous(plain);
  add("sx", p.stride, plain.stride);
  return text;
}

Result<SampleProblem> parse_sample_problem(std::string_view text) {
  SampleProblem p;
  constexpr int64_t kUnset = INT64_MIN;
  p.rows = p.vocabulary = p.stride = kUnset;
  bool greedy = false, unaligned = false, seeded = false;
  const Status taken = for_each_text_field(text, [&](TextField& field) {
    field.read("b", p.rows), field.read("v", p.vocabulary), field.read("x", p.x), field.read("sx", p.stride);
    field.read("joint", p.joint), field.read("greedy", greedy), field.read("unaligned", unaligned);
    for (const SampleRowTensor& t : sample_row_tensors()) {
      if (field.name != t.name) continue;
      int64_t words = 0;
      field.read(t.name, words);
      if (field.status && (words < 0 || words > (t.wide ? 2 : 1))) {
        field.status = Status(StatusCode::kInvalidArgument, t.wide ? "allowed: 0 to 2 words" : "allowed: 0, 1");
      }
      p.*t.words = static_cast<uint8_t>(words);
      seeded = seeded || t.slot == kSampleSeeds;
    }
  });
  if (!taken) return refuse_sample("problem '{}': {}", text, taken.message());
  if (p.rows == kUnset || p.vocabulary == kUnset || p.x == DType::kNone) {
    return refuse_sample("problem '{}': expected b=..:v=..:x=..", text);
  }
  p.greedy = greedy, p.unaligned = unaligned;
  if (greedy && !seeded) p.seed_words = 0;
  SampleProblem plain = p;
  set_contiguous(plain);
  if (p.stride == kUnset) p.stride = plain.stride;
  if (Status s = validate_sample_problem(p); !s) return s;
  return p;
}

double sample_bytes(const SampleProblem& p) {
  double a_row = static_cast<double>(p.vocabulary) * dtype_bits(p.x) / 8;
  for (const SampleRowTensor& t : sample_row_tensors()) a_row += 4.0 * (p.*t.words);
  return static_cast<double>(p.rows) * a_row;
}

}  // namespace tilewright
