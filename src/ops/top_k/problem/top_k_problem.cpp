// SPDX-License-Identifier: MIT
// From a call, or a line of text, to a problem.
#include "ops/top_k/problem/top_k_problem.hpp"

#include <fmt/format.h>

#include "core/tensor/strided.hpp"
#include "core/text_fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_top_k(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "top_k: " + fmt::format(format, std::forward<Args>(args)...));
}

Status check_top_k_tensor(const char* name, const TensorView& t, const TensorView& x, int rank, DType dtype) {
  if (!t.defined()) return refuse_top_k("argument '{}' is missing", name);
  if (t.layout != Layout::kStrided) return refuse_top_k("argument '{}' is packed, allowed: strided", name);
  if (t.rank != rank) return refuse_top_k("argument '{}' has rank {}, allowed: {}", name, t.rank, rank);
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
    if (t.shape[i] < 0) return refuse_top_k("argument '{}' has the negative size {}", name, t.shape[i]);
  }
  const auto last = static_cast<size_t>(rank - 1);
  if (t.shape[last] > 1 && t.stride[last] != 1) {
    return refuse_top_k("argument '{}' has stride {} along its last dimension, allowed: 1", name, t.stride[last]);
  }
  if (t.dtype != dtype) {
    return refuse_top_k("argument '{}' is {}, allowed: {}", name, dtype_name(t.dtype), dtype_name(dtype));
  }
  if (t.shape[0] != x.shape[0]) {
    return refuse_top_k("argument '{}' has {} rows, 'x' has {}", name, t.shape[0], x.shape[0]);
  }
  if (t.device == x.device) return {};
  return refuse_top_k("argument '{}' is on {}, 'x' is on {}", name, to_string(t.device), to_string(x.device));
}

Status check_top_k_addresses(const TopKProblem& p, const TopKPointers& pointers) {
  const auto rows = [&p](DType dtype, int64_t inner, int64_t stride) {
    return touched_bytes(dtype, {{p.rows, stride}, {inner, 1}});
  };
  const struct {
    const char* name;
    const void* data;
    ByteRange bytes;
    bool written;
  } tensors[] = {{"x", pointers[kTopKX], rows(p.x, p.n, p.stride), false},
                 {"lengths", pointers[kTopKLengths], rows(DType::kI32, p.lengths, 1), false},
                 {"values", pointers[kTopKValues], rows(p.x, p.values * p.k, p.stride_values), true},
                 {"indices", pointers[kTopKIndices], rows(DType::kI32, p.k, p.stride_indices), true}};
  for (const auto& t : tensors) {
    if (t.data == nullptr && !t.bytes.empty()) return refuse_top_k("argument '{}' has a null data pointer", t.name);
    for (const auto& w : tensors) {
      if (w.written && &w != &t && ranges_overlap(w.data, w.bytes, t.data, t.bytes)) {
        return refuse_top_k("argument '{}' overlaps '{}'", w.name, t.name);
      }
    }
  }
  return {};
}

}  // namespace

Status make_top_k_problem(const TopKCall& call, bool check_addresses, TopKProblem& p, TopKPointers& pointers) {
  const TensorView& x = call.x;
  Status s = check_top_k_tensor("x", x, x, 2, x.dtype);
  if (s) s = check_top_k_tensor("indices", call.indices, x, 2, DType::kI32);
  if (s && call.values.defined()) s = check_top_k_tensor("values", call.values, x, 2, x.dtype);
  if (s && call.lengths.defined()) s = check_top_k_tensor("lengths", call.lengths, x, 1, DType::kI32);
  if (!s) return s;
  p = TopKProblem();
  p.rows = x.shape[0], p.n = x.shape[1], p.k = call.indices.shape[1], p.x = x.dtype;
  p.values = call.values.defined(), p.lengths = call.lengths.defined();
  if (p.values != 0 && call.values.shape[1] != p.k) {
    return refuse_top_k("argument 'values' has {} columns, 'indices' has {}", call.values.shape[1], p.k);
  }
  if (p.rows > 1) {
    p.stride = x.stride[0], p.stride_indices = call.indices.stride[0];
    if (p.values != 0) p.stride_values = call.values.stride[0];
  }
  pointers = {x.data, call.lengths.data, call.values.data, call.indices.data};
  if (x.device.kind != DeviceKind::kCpu) p.unaligned = (reinterpret_cast<uintptr_t>(x.data) & 15) != 0;
  if (s = validate_top_k_problem(p); !s) return s;
  return check_addresses ? check_top_k_addresses(p, pointers) : Status();
}

Status validate_top_k_problem(const TopKProblem& p) {
  if (p.x != DType::kF32 && p.x != DType::kF16 && p.x != DType::kBf16) {
    return refuse_top_k("argument 'x' is {}, allowed: f32, f16, bf16", dtype_name(p.x));
  }
  if (p.rows < 0 || p.rows > kMaxReach) return refuse_top_k("size M is {}", p.rows);
  if (p.n < 0 || p.n > INT32_MAX) return refuse_top_k("size N is {}, allowed: 0 to 2^31 - 1", p.n);
  if (p.k < 1 || p.k > kMostTopK) return refuse_top_k("argument 'k' is {}, allowed: 1 to {}", p.k, kMostTopK);
  const struct {
    const char* name;
    int64_t inner, stride;
    bool written;
  } tensors[] = {{"x", p.n, p.stride, false},
                 {"values", p.values * p.k, p.stride_values, true},
                 {"indices", p.k, p.stride_indices, true}};
  for (const auto& t : tensors) {
    if (t.inner == 0) continue;
    if (!reach_fits({{p.rows, t.stride}, {t.inner, 1}})) {
      return refuse_top_k("argument '{}' reaches beyond 2^56 elements", t.name);
    }
    if (t.written && may_overlap_itself({{p.rows, t.stride}, {t.inner, 1}})) {
      return refuse_top_k("argument '{}' overlaps itself: stride {} of rows", t.name, t.stride);
    }
  }
  return {};
}

void set_contiguous(TopKProblem& p) {
  p.stride = p.rows > 1 ? p.n : 0;
  p.stride_indices = p.rows > 1 ? p.k : 0;
  p.stride_values = p.rows > 1 && p.values != 0 ? p.k : 0;
}

std::string print_top_k_problem(const TopKProblem& p) {
  std::string text = fmt::format("m={}:n={}:k={}:x={}", p.rows, p.n, p.k, dtype_name(p.x));
  const auto add = [&text](const char* name, int64_t value, int64_t unless) {
    if (value != unless) text += fmt::format(":{}={}", name, value);
  };
  add("values", p.values, 1), add("lengths", p.lengths, 0), add("unaligned", p.unaligned, 0);
  TopKProblem plain = p;
  set_contiguous(plain);
  add("sx", p.stride, plain.stride);
  add("sv", p.stride_values, plain.stride_values), add("si", p.stride_indices, plain.stride_indices);
  return text;
}

Result<TopKProblem> parse_top_k_problem(std::string_view text) {
  TopKProblem p;
  constexpr int64_t kUnset = INT64_MIN;
  p.rows = p.n = p.k = p.stride = p.stride_values = p.stride_indices = kUnset;
  bool values = true, lengths = false, unaligned = false;
  const Status taken = for_each_text_field(text, [&](TextField& field) {
    field.read("m", p.rows), field.read("n", p.n), field.read("k", p.k), field.read("x", p.x);
    field.read("values", values), field.read("lengths", lengths), field.read("unaligned", unaligned);
    field.read("sx", p.stride), field.read("sv", p.stride_values), field.read("si", p.stride_indices);
  });
  if (!taken) return refuse_top_k("problem '{}': {}", text, taken.message());
  if (p.rows == kUnset || p.n == kUnset || p.k == kUnset || p.x == DType::kNone) {
    return refuse_top_k("problem '{}': expected m=..:n=..:k=..:x=..", text);
  }
  p.values = values, p.lengths = lengths, p.unaligned = unaligned;
  TopKProblem plain = p;
  set_contiguous(plain);
  if (p.stride == kUnset) p.stride = plain.stride;
  if (p.stride_values == kUnset) p.stride_values = plain.stride_values;
  if (p.stride_indices == kUnset) p.stride_indices = plain.stride_indices;
  if (Status s = validate_top_k_problem(p); !s) return s;
  return p;
}

double top_k_bytes(const TopKProblem& p) {
  const double width = dtype_bits(p.x) / 8.0, k = static_cast<double>(p.k);
  return static_cast<double>(p.rows) * (static_cast<double>(p.n) * width + k * (4 + (p.values != 0 ? width : 0)));
}

}  // namespace tilewright
