// SPDX-License-Identifier: MIT
// import_weights and export_weights: which format it is, and AWQ's and GPTQ's tensors checked and described.
#include "tilewright/stored_weights.hpp"

#include <algorithm>
#include <iterator>

#include "core/tensor/strided.hpp"
#include "ops/gemm/weights/aiter_orders.hpp"
#include "ops/gemm/weights/weight_checks.hpp"
#include "ops/gemm/weights/word_codes.hpp"
#include "ops/gemm/weights/word_groups.hpp"

namespace tilewright {
namespace {

constexpr const char* kFormatNames[] = {"awq", "gptq", "gptq_v2", "aiter", "aiter_scales"};
static_assert(std::size(kFormatNames) == static_cast<size_t>(WeightFormat::kAiterScales) + 1);

// The codes' range by the type that holds them.
struct CodeType {
  DType dtype;
  int bits;
  unsigned flip;
};
constexpr CodeType kCodeTypes[] = {{DType::kU4, 4, 0}, {DType::kI4, 4, 8}, {DType::kI8, 8, 128}};

Status check_plain(const WeightChecks& check, const TensorView& b) {
  if (b.rank != 2) return check.refuse("argument 'b' has rank {}, allowed: 2", b.rank);
  if (Status s = check.data("b", b); !s) return s;
  const int64_t k = b.shape[0], n = b.shape[1], stride_k = b.stride[0], stride_n = b.stride[1];
  if (k < 0 || n < 0 || !reach_fits({{k, stride_k}, {n, stride_n}})) {
    return check.refuse("argument 'b' has sizes [{}, {}] and strides [{}, {}], out of range", k, n, stride_k, stride_n);
  }
  if (dtype_bits(b.dtype) == 8) return {};
  // No byte of nibbles belongs to two columns (rows).
  const bool along_k = stride_k == 1 && (n <= 1 || stride_n % 2 == 0);
  const bool along_n = stride_n == 1 && (k <= 1 || stride_k % 2 == 0);
  if (!along_k && !along_n) {
    return check.refuse("argument 'b' has strides [{}, {}], allowed for 4-bit types: 1 along K or N, the other even",
                        stride_k, stride_n);
  }
  return {};
}

Result<WordCodes> describe_words(const WeightChecks& check, const TensorView& weight, const TensorView& b, int bits) {
  const bool awq = check.format == WeightFormat::kAwq;
  if (awq && bits != 4) return check.refuse("argument 'b' is {}, allowed: u4, i4", dtype_name(b.dtype));
  if (weight.dtype != DType::kI32) {
    return check.refuse("argument 'weight' is {}, allowed: i32", dtype_name(weight.dtype));
  }
  const int64_t k = b.shape[0], n = b.shape[1], values = 32 / bits;
  if ((awq ? n : k) % values != 0) {
    return check.refuse("argument 'b' has {} = {}, allowed: multiples of {}", awq ? "N" : "K", awq ? n : k, values);
  }
  const int64_t shape[] = {awq ? k : k / values, awq ? n / values : n};
  if (Status s = check.shape("weight", weight, shape); !s) return s;
  if (Status s = check.data("weight", weight); !s) return s;
  return WordCodes{static_cast<char*>(weight.data), weight.stride[0] * 4, weight.stride[1] * 4, bits, !awq, awq};
}

// What both directions share: the copy of the codes, without an order, and what zero points and groups need to know.
struct Described {
  CodeCopy copy;
  WordGroups groups;
};
Result<Described> describe(const WeightChecks& check, const StoredWeights& stored, const PlainWeights& plain) {
  const TensorView& b = plain.b;
  const auto* type =
      std::find_if(std::begin(kCodeTypes), std::end(kCodeTypes), [&](const CodeType& t) { return t.dtype == b.dtype; });
  if (type == std::end(kCodeTypes)) {
    return check.refuse("argument 'b' is {}, allowed: u4, i4, i8", dtype_name(b.dtype));
  }
  if (Status s = check_plain(check, b); !s) return s;
  const Result<WordCodes> words = describe_words(check, stored.weight, b, type->bits);
  if (!words) return words.status();
  Described found{};
  found.copy = {
      b.shape[1], b.shape[0], *words, {static_cast<char*>(b.data), b.stride[0], b.stride[1], type->flip}, nullptr};
  Result<WordGroups> groups = describe_groups(check, stored, plain, type->bits, type->flip);
  if (!groups) return groups.status();
  found.groups = *groups;
  return found;
}

Status check_aiter(const WeightChecks& check, const StoredWeights& stored, const PlainWeights& plain) {
  for (const auto& [name, tensor] : {std::pair{"zeros", &stored.zeros}, std::pair{"group_index", &stored.group_index},
                                     std::pair{"zero_b", &plain.zero_b}, std::pair{"order", &plain.order}}) {
    if (tensor->defined()) return check.refuse("argument '{}' is given, allowed for awq and gptq", name);
  }
  return {};
}

}  // namespace

const char* weight_format_name(WeightFormat format) { return kFormatNames[static_cast<size_t>(format)]; }

Result<WeightFormat> parse_weight_format(std::string_view name) {
  const auto* at = std::find(std::begin(kFormatNames), std::end(kFormatNames), name);
  if (at != std::end(kFormatNames)) return static_cast<WeightFormat>(at - std::begin(kFormatNames));
  return Status(StatusCode::kInvalidArgument,
                fmt::format("weight format '{}' is none of: {}", name, fmt::join(kFormatNames, ", ")));
}

Status import_weights(Context& context, const StoredWeights& stored, const PlainWeights& plain) {
  const WeightChecks check{"import_weights", stored.format};
  if (stored.format >= WeightFormat::kAiter) {
    if (Status s = check_aiter(check, stored, plain); !s) return s;
    return stored.format == WeightFormat::kAiter ? copy_aiter_weight(context, stored, plain, true)
                                                 : copy_aiter_scales(stored, plain, true);
  }
  Result<Described> found = describe(check, stored, plain);
  if (!found) return found.status();
  // Zero points and groups can refuse; the weight comes after.
  Result<std::vector<int32_t>> order = import_groups(check, found->groups);
  if (!order) return order.status();
  if (!order->empty()) found->copy.order = order->data();
  if (Status s = import_zeros(check, found->groups); !s) return s;
  return found->copy.n * found->copy.k == 0 ? Status() : import_codes(context, found->copy);
}

Status export_weights(Context& context, const PlainWeights& plain, const StoredWeights& stored) {
  const WeightChecks check{"export_weights", stored.format};
  if (stored.format >= WeightFormat::kAiter) {
    if (Status s = check_aiter(check, stored, plain); !s) return s;
    return stored.format == WeightFormat::kAiter ? copy_aiter_weight(context, stored, plain, false)
                                                 : copy_aiter_scales(stored, plain, false);
  }
  if (plain.order.defined()) return check.refuse("argument 'order' is given, allowed when weights are imported");
  const Result<Described> found = describe(check, stored, plain);
  if (!found) return found.status();
  if (Status s = export_zeros(check, found->groups); !s) return s;
  if (Status s = export_groups(check, found->groups); !s) return s;
  return found->copy.n * found->copy.k == 0 ? Status() : export_codes(context, found->copy);
}

}  // namespace tilewright
