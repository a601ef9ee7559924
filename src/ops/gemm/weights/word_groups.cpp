// SPDX-License-Identifier: MIT
#include "ops/gemm/weights/word_groups.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace tilewright {
namespace {

constexpr DType kZeroTypes[] = {DType::kI8, DType::kI4, DType::kU4, DType::kF32, DType::kF16, DType::kBf16};

int64_t zero_at(const TensorView& zero, int64_t group, int64_t n) {
  return group * zero.stride[0] + n * zero.stride[1];
}

int32_t& element(const TensorView& vector, int64_t k) {
  return static_cast<int32_t*>(vector.data)[k * vector.stride[0]];
}

Status check_vector(const WeightChecks& check, const char* name, const TensorView& vector, int64_t k) {
  if (!vector.defined()) return {};
  if (vector.dtype != DType::kI32) {
    return check.refuse("argument '{}' is {}, allowed: i32", name, dtype_name(vector.dtype));
  }
  const int64_t shape[] = {k};
  if (Status s = check.shape(name, vector, shape); !s) return s;
  return check.data(name, vector);
}

}  // namespace

Result<WordGroups> describe_groups(const WeightChecks& check, const StoredWeights& stored, const PlainWeights& plain,
                                   int bits, unsigned flip) {
  WordGroups g{};
  g.k = plain.b.shape[0], g.n = plain.b.shape[1];
  g.half = flip;
  g.symmetric = bits == 4 ? 8 : 128;
  g.stored_less = check.format == WeightFormat::kGptq ? 1 : 0;
  g.zero_b = plain.zero_b, g.group_index = stored.group_index, g.order = plain.order;
  const bool awq = check.format == WeightFormat::kAwq;
  if (awq && stored.group_index.defined()) return check.refuse("argument 'group_index' is given, allowed for gptq");
  if (Status s = check_vector(check, "group_index", stored.group_index, g.k); !s) return s;
  if (Status s = check_vector(check, "order", plain.order, g.k); !s) return s;

  const TensorView& zeros = stored.zeros;
  for (const TensorView* t : {&zeros, &plain.zero_b}) {
    if (!t->defined()) continue;
    const char* name = t == &zeros ? "zeros" : "zero_b";
    if (t->rank != 2) return check.refuse("argument '{}' has rank {}, allowed: 2", name, t->rank);
    if (g.groups == 0) g.groups = t->shape[0];
    const int64_t values = 32 / bits;
    if (t == &zeros && g.n % values != 0) {
      return check.refuse("argument 'zeros' is given and N = {}, allowed: multiples of {}", g.n, values);
    }
    const int64_t shape[] = {g.groups, t == &zeros ? g.n / values : g.n};
    if (Status s = check.shape(name, *t, shape); !s) return s;
    if (Status s = check.data(name, *t); !s) return s;
  }
  if (zeros.defined()) {
    if (zeros.dtype != DType::kI32)
      return check.refuse("argument 'zeros' is {}, allowed: i32", dtype_name(zeros.dtype));
    g.zero_words = {static_cast<char*>(zeros.data), zeros.stride[0] * 4, zeros.stride[1] * 4, bits, false, awq};
  }
  if (plain.zero_b.defined() &&
      std::find(std::begin(kZeroTypes), std::end(kZeroTypes), plain.zero_b.dtype) == std::end(kZeroTypes)) {
    return check.refuse("argument 'zero_b' is {}, allowed: i8, i4, u4, f32, f16, bf16", dtype_name(plain.zero_b.dtype));
  }
  if (g.groups < 0 || g.groups > g.k) {
    return check.refuse("there are {} groups of zero points and K = {}, allowed: up to K", g.groups, g.k);
  }
  return g;
}

Status import_zeros(const WeightChecks& check, const WordGroups& g) {
  for (int64_t group = 0; group < g.groups; ++group) {
    for (int64_t n = 0; n < g.n; ++n) {
      const double stored =
          g.zero_words.words == nullptr ? g.symmetric : load_code(g.zero_words, group, n) + g.stored_less;
      const double zero = stored - g.half;
      if (g.zero_b.defined()) {
        const int64_t index = zero_at(g.zero_b, group, n);
        store_element(g.zero_b.dtype, g.zero_b.data, index, zero);
        if (load_element(g.zero_b.dtype, g.zero_b.data, index) != zero) {
          return check.refuse(
              "the zero point of group {}, column {} is {}, which {} does not hold: 'zero_b' may be f16", group, n,
              zero, dtype_name(g.zero_b.dtype));
        }
      } else if (zero != g.symmetric - g.half) {
        return check.refuse("the zero point of group {}, column {} is {}, not {}: argument 'zero_b' is needed", group,
                            n, zero, g.symmetric - g.half);
      }
    }
  }
  return {};
}

Status export_zeros(const WeightChecks& check, const WordGroups& g) {
  const double most = 2 * g.symmetric - 1;
  for (int64_t group = 0; group < g.groups; ++group) {
    for (int64_t n = 0; n < g.n; ++n) {
      const double zero = !g.zero_b.defined()
                              ? g.symmetric
                              : load_element(g.zero_b.dtype, g.zero_b.data, zero_at(g.zero_b, group, n)) + g.half;
      if (g.zero_words.words == nullptr) {
        if (zero == g.symmetric) continue;
        return check.refuse("the zero point of group {}, column {} is {}, not {}: argument 'zeros' is needed", group, n,
                            zero - g.half, g.symmetric - g.half);
      }
      const double code = zero - g.stored_less;
      if (!(code >= 0 && code <= most && code == std::floor(code))) {
        return check.refuse("the zero point of group {}, column {} is {}, allowed: whole numbers from {} to {}", group,
                            n, zero - g.half, g.stored_less - g.half, most + g.stored_less - g.half);
      }
      WordCodes words = g.zero_words;
      char* word = words.word(group, n);
      const int shift = words.shift(n);
      uint32_t bits;
      std::memcpy(&bits, word, sizeof(bits));
      bits = (bits & ~(static_cast<uint32_t>(most) << shift)) | static_cast<uint32_t>(code) << shift;
      std::memcpy(word, &bits, sizeof(bits));
    }
  }
  return {};
}

Result<std::vector<int32_t>> import_groups(const WeightChecks& check, const WordGroups& g) {
  std::vector<int32_t> order;
  const TensorView& index = g.group_index;
  if (g.order.defined() || index.defined()) {
    if (g.k > std::numeric_limits<int32_t>::max()) return check.refuse("K = {} is out of range", g.k);
    order.resize(static_cast<size_t>(g.k));
    std::iota(order.begin(), order.end(), 0);
  }
  if (index.defined() && g.k > 0) {
    std::vector<int64_t> rows;  // of each group
    for (int64_t k = 0; k < g.k; ++k) {
      const int32_t group = element(index, k);
      if (group < 0 || group >= (g.groups > 0 ? g.groups : g.k)) {
        return check.refuse("argument 'group_index' has {} at row {}, allowed: 0 to {}", group, k,
                            (g.groups > 0 ? g.groups : g.k) - 1);
      }
      rows.resize(std::max(rows.size(), static_cast<size_t>(group) + 1));
      ++rows[static_cast<size_t>(group)];
    }
    // Groups as long as the first, but the last, which may be short.
    for (size_t group = 0; group < rows.size(); ++group) {
      const bool last = group + 1 == rows.size();
      if (last ? rows[group] > rows[0] : rows[group] != rows[0]) {
        return check.refuse("argument 'group_index' gives group {} {} rows and group 0 {}: one length for all", group,
                            rows[group], rows[0]);
      }
    }
    std::sort(order.begin(), order.end(),
              [&](int32_t x, int32_t y) { return std::pair(element(index, x), x) < std::pair(element(index, y), y); });
    if (!g.order.defined() && !std::is_sorted(order.begin(), order.end())) {
      return check.refuse("argument 'group_index' mixes groups along K: argument 'order' is needed");
    }
  }
  for (size_t k = 0; g.order.defined() && k < order.size(); ++k) element(g.order, static_cast<int64_t>(k)) = order[k];
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

Status export_groups(const WeightChecks& check, const WordGroups& g) {
  if (!g.group_index.defined() || g.k == 0) return {};
  if (g.groups == 0)
    return check.refuse("argument 'group_index' is given without zero points, which say how many groups");
  if (g.k % g.groups != 0) {
    return check.refuse(
        "argument 'group_index' is given, K = {} and there are {} groups, allowed: groups of one length", g.k,
        g.groups);
  }
  for (int64_t k = 0; k < g.k; ++k) element(g.group_index, k) = static_cast<int32_t>(k / (g.k / g.groups));
  return {};
}

}  // namespace tilewright
