// SPDX-License-Identifier: MIT
#include "ops/kv_cache/instance/cache_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <random>

#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
#include "tile/common/quantise.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

constexpr float kCacheEps = 1e-3f;  // such that it shows where it is left out

struct CacheBuffer {
  CacheBuffer(size_t of_slot, const char* its_name, DType its_dtype)
      : slot(of_slot), name(its_name), dtype(its_dtype) {}
  size_t slot;
  const char* name;
  DType dtype;
  GuardedBuffer buffer;
  uint64_t sum = 0;
};

class CacheInstance final : public ProblemInstance {
 public:
  CacheInstance(const CacheOp& op, const CacheProblem& problem, const InstanceOptions& options)
      : op_(op), p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    Status s;
    const auto add = [&](bool output, size_t slot, const char* name, DType dtype, std::array<Extent, 6> e,
                         bool shifts) {
      if (!s) return;
      std::deque<CacheBuffer>& to = output ? outputs_ : inputs_;
      to.emplace_back(slot, name, dtype);
      s = to.back().buffer.allocate(device, dtype, {e[0], e[1], e[2], e[3], e[4], e[5]}, shifts ? shift_of(dtype) : 0);
    };
    constexpr Extent kOne{1, 0};
    for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
      const auto i = static_cast<size_t>(tensor);
      const CacheHeadsProblem& h = p_.heads[i];
      if (!h.present()) continue;
      const std::array<Extent, 6> in{
          {{p_.tokens, h.stride_token}, {h.heads, h.stride_head}, {h.n, 1}, kOne, kOne, kOne}};
      add(false, kCacheIn + i, op_.in[i], p_.x, in, true);
      if (rotates(tensor)) {
        for (GuardedBuffer& copy : copies_) {
          if (s) s = copy.allocate(device, p_.x, {in[0], in[1], in[2]}, shift_of(p_.x));
        }
      }
      add(true, kCacheOut + i, op_.out[i], p_.out_of(tensor), p_.out_extents(tensor), true);
      if (p_.scales_of(tensor) == CacheScales::kNone) continue;
      const auto e = p_.scale_extents(tensor);
      add(p_.scales_of(tensor) == CacheScales::kToken, kCacheScale + i, op_.scale[i], DType::kF32,
          {{e[0], e[1], e[2], kOne, kOne, kOne}}, false);
    }
    const auto add_input = [&](bool present, size_t slot, const char* name, DType dtype, Extent a, Extent b,
                               bool shifts, Extent c = {1, 0}) {
      if (present) add(false, slot, name, dtype, {{a, b, c, kOne, kOne, kOne}}, shifts);
    };
    const Extent weights{p_.heads[kCacheKeys].n, 1}, rows{p_.table_rows, p_.stride_table}, pairs{p_.dims / 2, 1};
    add_input(p_.q_weight != 0, kCacheQWeight, "q_weight", p_.weight, weights, kOne, true);
    add_input(p_.k_weight != 0, kCacheKWeight, "k_weight", p_.weight, weights, kOne, true);
    add_input(true, kCacheSlots, "slot_mapping", DType::kI32, {p_.tokens, p_.stride_slot}, {p_.wide_slots ? 2 : 1, 1},
              false);
    add_input(p_.turns(), kCacheCosine, "cos", p_.table, rows, pairs, true);
    add_input(p_.turns(), kCacheSine, "sin", p_.table, rows, pairs, true);
    add_input(p_.positions != 0, kCachePositions, "positions", DType::kI32, {p_.tokens, p_.stride_position},
              {p_.wide_positions ? 2 : 1, 1}, false, {p_.axes(), p_.stride_axis});
    return s;
  }

  void fill(uint64_t seed, InputData data) override {
    uint64_t of_tensor = seed * 32;
    for (CacheBuffer& t : inputs_) {
      fill_random(t.dtype, t.buffer.begin(), t.buffer.bytes() * 8 / dtype_bits(t.dtype), data, ++of_tensor);
      if (t.slot >= kCacheScale && t.slot < kCacheQWeight) fill_scales(t);
      if (t.slot == kCacheSlots) fill_slots(t, seed);
      if (t.slot == kCachePositions) fill_positions(t, seed);
      note(t.buffer.send());
      if (t.slot < kCacheOut && rotates(static_cast<int>(t.slot - kCacheIn))) {
        for (GuardedBuffer& copy : copies_) note(t.buffer.send_to(copy));
      }
      t.sum = t.buffer.checksum();
    }
  }
  void poison() override {
    for (CacheBuffer& t : outputs_) note(t.buffer.fill(0xFF));
  }

  CallBindings bindings(int rotation) override {
    for (const std::deque<CacheBuffer>* list : {&inputs_, &outputs_}) {
      for (const CacheBuffer& t : *list) bound_.pointers[t.slot] = t.buffer.data();
    }
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    if (turn > 0 && copies_[turn - 1].allocated()) {
      bound_.pointers[size_t{kCacheIn} + (rotates(kCacheQueries) ? 0 : 1)] = copies_[turn - 1].data();
    }
    bound_.scalars = {kCacheEps};
    return {bound_.pointers, bound_.scalars, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    CacheHostTensors tensors;
    tensors.eps = kCacheEps;
    for (std::deque<CacheBuffer>* list : {&inputs_, &outputs_}) {
      for (CacheBuffer& t : *list) {
        note(t.buffer.fetch());
        tensors.data[t.slot] = t.buffer.host_data();
      }
    }
    report.failure = problem_.ok() ? memory_failure(tensors) : problem_.message();
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    Comparison comparison(p_.cache, report);
    std::vector<ReferenceElement> want;
    const int64_t heads = p_.all_heads(), length = std::max<int64_t>(1, p_.heads[kCacheKeys].n);
    const int64_t rows = std::max<int64_t>(1, options_.compare_limit / length / 4);
    for (const int64_t row : sample_indices(p_.tokens * heads, rows, 7)) {
      const int64_t token = row / heads;
      int64_t head = row % heads;
      int tensor = 0;
      while (head >= p_.heads[static_cast<size_t>(tensor)].heads) head -= p_.heads[static_cast<size_t>(tensor++)].heads;
      if (cache_slot(p_, tensors, tensor, token) < 0) continue;
      cache_reference(p_, tensors, tensor, token, head, want);
      compare_cache_head(p_, tensors, tensor, token, head, want, comparison);
    }
    comparison.finish();
    return report;
  }

 private:
  // The largest input has copies.
  bool rotates(int tensor) const { return tensor == (p_.heads[kCacheQueries].present() ? kCacheQueries : kCacheKeys); }
  int64_t shift_of(DType dtype) const { return p_.unaligned ? std::max(dtype_bits(dtype) / 8, 1) : 0; }

  void put_number(CacheBuffer& t, int64_t stride, bool wide, int64_t i, int64_t value) const {
    auto* const at = static_cast<int32_t*>(t.buffer.host_data()) + i * stride;
    at[0] = static_cast<int32_t>(value);
    if (wide) at[1] = static_cast<int32_t>(value >> 32);
  }
  // Each slot once, some negative, some beyond the cache: of wide ones by more than their low words tell.
  void fill_slots(CacheBuffer& t, uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<int64_t> slots(static_cast<size_t>(std::max(p_.slots(), p_.tokens)));
    std::iota(slots.begin(), slots.end(), 0);
    std::ranges::shuffle(slots, random);
    for (int64_t i = 0; i < p_.tokens; ++i) {
      int64_t slot = slots[static_cast<size_t>(i)];
      if (i % 11 == 5) slot = -1;
      if (i % 13 == 7) slot = p_.wide_slots ? slot + (int64_t{1} << 32) : p_.slots() + i;
      put_number(t, p_.stride_slot, p_.wide_slots != 0, i, slot);
    }
  }
  // Some of them beyond the tables.
  void fill_positions(CacheBuffer& t, uint64_t seed) const {
    std::mt19937_64 random(seed + 1);
    std::uniform_int_distribution<int64_t> any(0, std::max<int64_t>(p_.table_rows - 1, 0));
    for (int64_t i = 0; i < p_.tokens * p_.axes(); ++i) {
      const int64_t value = i % 17 == 3 ? p_.table_rows : any(random), token = i / p_.axes();
      put_number(t, 1, p_.wide_positions != 0, i % p_.axes() * p_.stride_axis + token * p_.stride_position, value);
    }
  }
  // Some values saturate, most do not; each head its own.
  void fill_scales(CacheBuffer& t) const {
    const int tensor = static_cast<int>(t.slot - kCacheScale);
    const int64_t heads = p_.heads[static_cast<size_t>(tensor)].heads;
    auto* const scale = static_cast<float*>(t.buffer.host_data());
    for (int64_t h = 0; h < heads; ++h) {
      scale[cache_scale_element(p_, tensor, 0, h)] =
          (2.5f + static_cast<float>(h % 3)) / quantised_limit(p_.out_of(tensor));
    }
  }

  // A write outside of what the call writes, or a changed input.
  std::string memory_failure(const CacheHostTensors& tensors) {
    for (const CacheBuffer& t : inputs_) {
      if (std::string failure = t.buffer.guard_failure(t.name); !failure.empty()) return failure;
      if (t.buffer.checksum() != t.sum) return fmt::format("changed {}", t.name);
    }
    for (const CacheBuffer& t : outputs_) {
      if (std::string failure = t.buffer.guard_failure(t.name); !failure.empty()) return failure;
      if (std::string failure = written_between(t, tensors); !failure.empty()) return failure;
    }
    return {};
  }
  std::string written_between(const CacheBuffer& t, const CacheHostTensors& tensors) const {
    const bool scales = t.slot >= kCacheScale;
    const int tensor = static_cast<int>(t.slot - (scales ? kCacheScale : kCacheOut));
    const CacheHeadsProblem& h = p_.heads[static_cast<size_t>(tensor)];
    const int64_t bytes = dtype_bits(t.dtype) / 8;
    std::vector<bool> owned(static_cast<size_t>(t.buffer.bytes()), false);
    const int64_t base = static_cast<uint8_t*>(t.buffer.host_data()) - t.buffer.begin();
    const auto own = [&](int64_t element) {
      for (int64_t i = 0; i < bytes; ++i) owned[static_cast<size_t>(base + element * bytes + i)] = true;
    };
    for (int64_t token = 0; token < p_.tokens; ++token) {
      const int64_t slot = cache_slot(p_, tensors, tensor, token);
      for (int64_t head = 0; slot >= 0 && head < h.heads; ++head) {
        if (scales) own(cache_scale_element(p_, tensor, slot, head));
        for (int64_t d = 0; !scales && d < h.n; ++d) own(cache_element(p_, tensor, slot, head, d));
      }
    }
    for (size_t i = 0; i < owned.size(); ++i) {
      if (!owned[i] && t.buffer.begin()[i] != 0xFF) {
        return fmt::format("wrote byte {} of {}, which no token has", static_cast<int64_t>(i) - base, t.name);
      }
    }
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  const CacheOp& op_;
  CacheProblem p_;
  InstanceOptions options_;
  std::deque<CacheBuffer> inputs_, outputs_;
  std::vector<GuardedBuffer> copies_;
  CacheBindings bound_;
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_cache_instance(const CacheOp& op, const CacheProblem& problem,
                                                             Device& device, const InstanceOptions& options) {
  auto instance = std::make_unique<CacheInstance>(op, problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
