// SPDX-License-Identifier: MIT
// From a call, or a line of text, to a problem.
#include "ops/transpose/problem/transpose_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "core/text_fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_transpose(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "transpose: " + fmt::format(format, std::forward<Args>(args)...));
}

std::string transpose_shape(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

Status check_transpose_tensors(const TensorView& x, const TensorView& out) {
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"x", x}, {"out", out}}) {
    if (!t.defined()) return refuse_transpose("argument '{}' is missing", name);
    if (t.layout != Layout::kStrided) return refuse_transpose("argument '{}' is packed, allowed: strided", name);
    if (t.rank < 2) return refuse_transpose("argument '{}' has rank {}, allowed: 2 to {}", name, t.rank, kMaxRank);
    const auto last = static_cast<size_t>(t.rank - 1);
    if (t.shape[last] > 1 && t.stride[last] != 1) {
      return refuse_transpose("argument '{}' has stride {} along its last dimension, allowed: 1", name, t.stride[last]);
    }
  }
  TensorView want = x;
  std::swap(want.shape[static_cast<size_t>(x.rank - 1)], want.shape[static_cast<size_t>(x.rank - 2)]);
  if (out.rank != x.rank || !std::equal(want.shape.begin(), want.shape.begin() + want.rank, out.shape.begin())) {
    return refuse_transpose("argument 'out' has shape {}, expected {}", transpose_shape(out), transpose_shape(want));
  }
  if (out.dtype != x.dtype) {
    return refuse_transpose("argument 'out' is {}, 'x' is {}", dtype_name(out.dtype), dtype_name(x.dtype));
  }
  if (out.device == x.device) return {};
  return refuse_transpose("argument 'out' is on {}, 'x' is on {}", to_string(out.device), to_string(x.device));
}

// The dimensions before the last two: those that follow each other on both sides become one.
Status collapse_batch(const TensorView& x, const TensorView& out, TransposeProblem& p) {
  std::array<int, kTransposeBatch> from{};
  std::array<int64_t, kMaxRank> size = x.shape;
  size_t kept = 0;
  for (int i = 0; i + 2 < x.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    if (size[at] == 1) continue;
    if (kept > 0) {
      const auto before = static_cast<size_t>(from[kept - 1]);
      if (x.stride[before] == x.stride[at] * size[at] && out.stride[before] == out.stride[at] * size[at]) {
        size[at] *= size[before];
        from[kept - 1] = i;
        continue;
      }
    }
    if (kept == from.size()) {
      return refuse_transpose("argument 'x' has more than {} outer dimensions that strides keep apart",
                              kTransposeBatch);
    }
    from[kept++] = i;
  }
  for (size_t k = 0; k < kept; ++k) {
    const size_t to = kTransposeBatch - kept + k, at = static_cast<size_t>(from[k]);
    p.batch[to] = size[at], p.x[to] = x.stride[at], p.out[to] = out.stride[at];
  }
  return {};
}

Status check_transpose_addresses(const TransposeProblem& p, const TransposePointers& pointers) {
  const auto bytes = [&p](bool of_out) {
    const auto e = p.extents(of_out);
    return touched_bytes(p.dtype, {e[0], e[1], e[2], e[3], e[4]});
  };
  if (pointers[kTransposeX] == nullptr) return refuse_transpose("argument 'x' has a null data pointer");
  if (pointers[kTransposeOut] == nullptr) return refuse_transpose("argument 'out' has a null data pointer");
  if (!ranges_overlap(pointers[kTransposeX], bytes(false), pointers[kTransposeOut], bytes(true))) return {};
  return refuse_transpose("argument 'out' overlaps 'x'");
}

Status parse_transpose_numbers(std::string_view text, char separator, std::span<int64_t> to, size_t& count) {
  for (count = 0; count < to.size();) {
    const size_t end = text.find(separator);
    const Status s = fields_detail::parse_integer(text.substr(0, end), -kMaxReach, kMaxReach, to[count++]);
    if (!s || end == std::string_view::npos) return s;
    text.remove_prefix(end + 1);
  }
  return Status(StatusCode::kInvalidArgument, "too many numbers");
}

}  // namespace

Status make_transpose_problem(const TransposeCall& call, bool check_addresses, TransposeProblem& p,
                              TransposePointers& pointers) {
  const TensorView &x = call.x, &out = call.out;
  if (Status s = check_transpose_tensors(x, out); !s) return s;
  p = TransposeProblem();
  p.dtype = x.dtype;
  const auto rows = static_cast<size_t>(x.rank - 2);
  p.m = x.shape[rows], p.n = x.shape[rows + 1];
  if (Status s = collapse_batch(x, out, p); !s) return s;
  p.x[kTransposeBatch] = p.m > 1 ? x.stride[rows] : 0, p.out[kTransposeBatch] = p.n > 1 ? out.stride[rows] : 0;
  pointers = {x.data, out.data};
  if (x.device.kind != DeviceKind::kCpu) {
    for (const void* pointer : pointers) p.unaligned |= (reinterpret_cast<uintptr_t>(pointer) & 15) != 0;
  }
  if (Status s = validate_transpose_problem(p); !s) return s;
  return check_addresses && !p.empty() ? check_transpose_addresses(p, pointers) : Status();
}

Status validate_transpose_problem(const TransposeProblem& p) {
  const int bits = dtype_bits(p.dtype);
  if (bits != 8 && bits != 16 && bits != 32) {
    return refuse_transpose("argument 'x' is {}, allowed: elements of 8, 16 and 32 bits", dtype_name(p.dtype));
  }
  __int128 elements = 1;
  for (const int64_t size : {p.batch[0], p.batch[1], p.batch[2], p.m, p.n}) {
    if (size < 0) return refuse_transpose("argument 'x' has the negative size {}", size);
    elements *= std::max<int64_t>(size, 1);
    if (elements > kMaxReach) return refuse_transpose("sizes are too large");
  }
  for (const bool of_out : {false, true}) {
    const auto e = p.extents(of_out);
    if (!reach_fits({e[0], e[1], e[2], e[3], e[4]})) {
      return refuse_transpose("argument '{}' reaches beyond 2^56 elements", of_out ? "out" : "x");
    }
    if (of_out && !p.empty() && may_overlap_itself({e[0], e[1], e[2], e[3], e[4]})) {
      return refuse_transpose("argument 'out' overlaps itself: strides {}", fmt::join(p.out, ", "));
    }
  }
  return {};
}

void set_contiguous(TransposeProblem& p) {
  for (const bool of_out : {false, true}) {
    TransposeStrides& to = of_out ? p.out : p.x;
    int64_t step = of_out ? p.m : p.n;
    to[kTransposeBatch] = (of_out ? p.n : p.m) > 1 ? step : 0;
    step *= of_out ? p.n : p.m;
    for (size_t i = kTransposeBatch; i-- > 0; step *= std::max<int64_t>(p.batch[i], 1)) {
      to[i] = p.batch[i] > 1 ? step : 0;
    }
  }
}

std::string print_transpose_problem(const TransposeProblem& p) {
  std::string text = fmt::format("b={}:m={}:n={}:x={}", fmt::join(p.batch, "x"), p.m, p.n, dtype_name(p.dtype));
  if (p.unaligned) text += ":unaligned=1";
  TransposeProblem plain = p;
  set_contiguous(plain);
  if (p.x != plain.x) text += fmt::format(":sx={}", fmt::join(p.x, "."));
  if (p.out != plain.out) text += fmt::format(":so={}", fmt::join(p.out, "."));
  return text;
}

Result<TransposeProblem> parse_transpose_problem(std::string_view text) {
  TransposeProblem p;
  constexpr int64_t kUnset = INT64_MIN;
  p.m = p.n = kUnset;
  bool unaligned = false;
  std::string_view strides[2];
  const Status taken = for_each_text_field(text, [&](TextField& field) {
    field.read("m", p.m), field.read("n", p.n), field.read("x", p.dtype), field.read("unaligned", unaligned);
    field.read("sx", strides[0]), field.read("so", strides[1]);
    if (field.name == "b") {
      std::array<int64_t, kTransposeBatch> sizes{};
      size_t count = 0;
      field.status = parse_transpose_numbers(field.value, 'x', sizes, count);
      p.batch = {1, 1, 1};
      std::copy_n(sizes.begin(), count, p.batch.end() - static_cast<ptrdiff_t>(count));
    }
  });
  if (!taken) return refuse_transpose("problem '{}': {}", text, taken.message());
  if (p.m == kUnset || p.n == kUnset || p.dtype == DType::kNone) {
    return refuse_transpose("problem '{}': expected m=..:n=..:x=..", text);
  }
  p.unaligned = unaligned;
  set_contiguous(p);
  for (const bool of_out : {false, true}) {
    if (strides[of_out].empty()) continue;
    size_t count = 0;
    TransposeStrides& to = of_out ? p.out : p.x;
    const Status s = parse_transpose_numbers(strides[of_out], '.', to, count);
    if (!s || count != to.size()) {
      return refuse_transpose("problem '{}': expected {} strides, of the batch and of rows", text, to.size());
    }
    const auto e = p.extents(of_out);
    for (size_t i = 0; i < to.size(); ++i) to[i] = e[i].size > 1 ? to[i] : 0;
  }
  if (Status s = validate_transpose_problem(p); !s) return s;
  return p;
}

double transpose_bytes(const TransposeProblem& p) {
  return static_cast<double>(p.batches()) * static_cast<double>(p.m) * static_cast<double>(p.n) * dtype_bits(p.dtype) /
         4;
}

}  // namespace tilewright
