// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor/tolerance.hpp"
#include "ops/kv_cache/instance/cache_instance.hpp"
#include "tile/common/quantise.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

int64_t read_number(const void* words, int64_t stride, bool wide, int64_t i) {
  const int32_t* const at = static_cast<const int32_t*>(words) + i * stride;
  if (!wide) return at[0];
  return static_cast<int64_t>(at[1]) * (int64_t{1} << 32) + static_cast<uint32_t>(at[0]);
}

// As rms_norm's, without its other columns.
void normalise_reference(const CacheProblem& p, const CacheHostTensors& tensors, int tensor,
                         std::vector<ReferenceElement>& y) {
  double squares = 0, fourths = 0;
  for (const ReferenceElement& e : y) {
    const double square = e.value * e.value;
    squares += square, fourths += square * square;
  }
  const auto n = static_cast<double>(y.size());
  const double mean = squares / n + tensors.eps;
  const double error =
      (accumulation_bound(DType::kF32, static_cast<int64_t>(y.size()), std::sqrt(fourths), squares) / n +
       epilogue_bound(mean)) /
      mean / 2;
  const bool weighted = tensor == kCacheQueries ? p.q_weight != 0 : p.k_weight != 0;
  for (size_t i = 0; i < y.size(); ++i) {
    double value = y[i].value / std::sqrt(mean);
    if (weighted) {
      const size_t slot = tensor == kCacheQueries ? kCacheQWeight : kCacheKWeight;
      value *= load_element(p.weight, tensors.data[slot], static_cast<int64_t>(i)) + (p.unit_offset ? 1 : 0);
    }
    y[i] = {value, std::fabs(value) * error + epilogue_bound(std::fabs(value))};
  }
}

void turn_reference(const CacheProblem& p, const CacheHostTensors& tensors, int64_t token,
                    std::vector<ReferenceElement>& y) {
  const int64_t half = p.dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first_word = axis_of_pair(p.section_pairs, p.sections, i) * p.stride_axis + token * p.stride_position;
    const int64_t position =
        p.positions ? read_number(tensors.data[kCachePositions], 1, p.wide_positions != 0, first_word) : token;
    const bool known = position >= 0 && position < p.table_rows;
    const auto entry = [&](size_t slot) {
      return known ? load_element(p.table, tensors.data[slot], position * p.stride_table + i)
                   : std::numeric_limits<double>::quiet_NaN();
    };
    const double c = entry(kCacheCosine), s = entry(kCacheSine);
    ReferenceElement& first = y[static_cast<size_t>(p.interleaved ? 2 * i : i)];
    ReferenceElement& second = y[static_cast<size_t>(p.interleaved ? 2 * i + 1 : half + i)];
    const ReferenceElement a = first, b = second;
    const auto turned = [&](double x, double by, double z, double times, double sign) -> ReferenceElement {
      return {x * by + sign * z * times, epilogue_bound(std::fabs(x * by) + std::fabs(z * times))};
    };
    first = turned(a.value, c, b.value, s, -1), second = turned(b.value, c, a.value, s, 1);
    const double more = a.allowed * (1 + 8 * kUlpF32), other = b.allowed * (1 + 8 * kUlpF32);
    first.allowed += more * std::fabs(c) + other * std::fabs(s);
    second.allowed += other * std::fabs(c) + more * std::fabs(s);
  }
}

}  // namespace

int64_t cache_slot(const CacheProblem& p, const CacheHostTensors& tensors, int tensor, int64_t token) {
  if (tensor == kCacheQueries) return token;
  const int64_t slot = read_number(tensors.data[kCacheSlots], p.stride_slot, p.wide_slots != 0, token);
  return slot >= 0 && slot < p.slots() ? slot : -1;
}

int64_t cache_element(const CacheProblem& p, int tensor, int64_t slot, int64_t head, int64_t d) {
  const PagedProblem& o = p.heads[static_cast<size_t>(tensor)].out;
  const int64_t block = slot / p.block_size_of(tensor), position = slot % p.block_size_of(tensor);
  return block * o.block + head * o.head + position / o.positions * o.position_run +
         position % o.positions * o.position + d / o.elements * o.element_run + d % o.elements * o.element;
}

int64_t cache_scale_element(const CacheProblem& p, int tensor, int64_t slot, int64_t head) {
  const CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
  const CacheScales scales = p.scales_of(tensor);
  if (scales == CacheScales::kTensor) return 0;
  if (scales == CacheScales::kHead) return head * h.scale_head;
  return slot / p.block_size_of(tensor) * h.scale_block + slot % p.block_size_of(tensor) * h.scale_position +
         head * h.scale_head;
}

void cache_reference(const CacheProblem& p, const CacheHostTensors& tensors, int tensor, int64_t token, int64_t head,
                     std::vector<ReferenceElement>& y) {
  const CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
  y.resize(static_cast<size_t>(h.n));
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = {load_element(p.x, tensors.data[kCacheIn + static_cast<size_t>(tensor)],
                         token * h.stride_token + head * h.stride_head + static_cast<int64_t>(i)),
            0};
  }
  if (tensor == kCacheValues) return;
  if (p.norm) normalise_reference(p, tensors, tensor, y);
  if (p.turns()) turn_reference(p, tensors, token, y);
}

void compare_cache_head(const CacheProblem& p, const CacheHostTensors& tensors, int tensor, int64_t token, int64_t head,
                        std::span<const ReferenceElement> y, Comparison& comparison) {
  const auto i = static_cast<size_t>(tensor);
  const DType dtype = p.out_of(tensor);
  const int64_t slot = cache_slot(p, tensors, tensor, token);
  const auto got = [&](int64_t d) {
    return load_element(dtype, tensors.data[kCacheOut + i], cache_element(p, tensor, slot, head, d));
  };
  const auto name = [&](int64_t d) { return std::array<int64_t, 4>{tensor, token, head, d}; };
  double by = 1;
  if (is_quantised(dtype)) {
    by = static_cast<const float*>(tensors.data[kCacheScale + i])[cache_scale_element(p, tensor, slot, head)];
    if (p.scales_of(tensor) == CacheScales::kToken) {
      double most = 0, error = 0;
      for (const ReferenceElement& e : y) {
        most = std::isnan(e.value) || std::isnan(most) ? std::numeric_limits<double>::quiet_NaN()
                                                       : std::max(most, std::fabs(e.value));
        error = std::max(error, e.allowed);
      }
      const double want = scale_for(static_cast<float>(most), dtype);
      const double allowed = error == 0 ? 0 : error / quantised_limit(dtype) + 2 * kUlpF32 * std::fabs(want);
      comparison.add(by, {want, allowed}, {tensor, token, head, -1});
    }
  }
  for (size_t d = 0; d < y.size(); ++d) {
    const ReferenceElement& e = y[d];
    const auto at = name(static_cast<int64_t>(d));
    if (!is_quantised(dtype)) {
      const double allowed =
          e.allowed + (e.allowed == 0 && dtype == p.x ? 0 : rounding_bound(dtype, std::fabs(e.value) + e.allowed));
      comparison.add(got(static_cast<int64_t>(d)), {e.value, allowed}, {at[0], at[1], at[2], at[3]});
      continue;
    }
    if (!std::isfinite(e.value) || !std::isfinite(by)) continue;  // codes of NaN are numeric_test's
    const double limit = quantised_limit(dtype), quotient = e.value / by, error = e.allowed / std::fabs(by);
    const double nearest = std::clamp(quotient, dtype == DType::kI8 ? -128 : -limit, limit);
    comparison.add(got(static_cast<int64_t>(d)),
                   {nearest, (error + kUlpF32 * std::fabs(quotient)) * (1 + 4 * kUlpF32) +
                                 rounding_bound(dtype, std::fabs(quotient) + error)},
                   {at[0], at[1], at[2], at[3]});
  }
}

}  // namespace tilewright
