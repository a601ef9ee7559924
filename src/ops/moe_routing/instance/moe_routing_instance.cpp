// SPDX-License-Identifier: MIT
#include "ops/moe_routing/instance/moe_routing_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"

namespace tilewright {
namespace {

constexpr float kInstanceRouterScale = 2.5f;  // shows where it is left out

class MoeRoutingInstance final : public ProblemInstance {
 public:
  MoeRoutingInstance(const MoeRoutingProblem& problem, const InstanceOptions& options)
      : p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const int64_t shift = p_.unaligned != 0 ? std::max(dtype_bits(p_.x) / 8, 1) : 0;
    const auto add_logits = [&](GuardedBuffer& to) {
      return to.allocate(device, p_.x, {{p_.tokens, p_.stride_logits}, {p_.experts, 1}}, shift);
    };
    Status s = add_logits(logits_);
    for (GuardedBuffer& copy : copies_) s = s ? add_logits(copy) : s;
    if (s && p_.bias != DType::kNone) s = bias_.allocate(device, p_.bias, {{p_.experts, 1}});
    if (s) s = weights_.allocate(device, DType::kF32, {{p_.tokens, p_.stride_weights}, {p_.k, 1}});
    return s ? ids_.allocate(device, DType::kI32, {{p_.tokens, p_.stride_ids}, {p_.k, 1}}) : s;
  }

  void fill(uint64_t seed, InputData data) override {
    const auto random = [&](GuardedBuffer& buffer, DType dtype, uint64_t of, double scale) {
      fill_random(dtype, buffer.begin(), buffer.bytes() * 8 / dtype_bits(dtype), data, seed * 16 + of, scale);
      note(buffer.send());
    };
    random(logits_, p_.x, 1, 1);
    for (GuardedBuffer& copy : copies_) note(logits_.send_to(copy));
    if (p_.bias != DType::kNone) random(bias_, p_.bias, 2, 0.1);
    sums_ = {logits_.checksum(), p_.bias == DType::kNone ? 0 : bias_.checksum()};
  }
  void poison() override {
    note(weights_.fill(0xFF));  // NaN
    note(ids_.fill(0xFF));      // -1, which a local expert never is
  }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    bound_.pointers = {turn > 0 ? copies_[turn - 1].data() : logits_.data(),
                       p_.bias == DType::kNone ? nullptr : bias_.data(), weights_.data(), ids_.data()};
    bound_.scalars = {kInstanceRouterScale};
    return {bound_.pointers, bound_.scalars, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    for (GuardedBuffer* buffer : {&logits_, &bias_, &weights_, &ids_}) {
      if (buffer->allocated()) note(buffer->fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    Comparison comparison(DType::kF32, report);
    const int64_t tokens = std::max<int64_t>(1, options_.compare_limit / p_.experts / 16);
    if (report.failure.empty()) {
      for (const int64_t t : sample_indices(p_.tokens, tokens, 7)) {
        report.failure = compare_token(t, comparison);
        if (!report.failure.empty()) break;
      }
    }
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    comparison.finish();
    return report;
  }

 private:
  std::string compare_token(int64_t t, Comparison& comparison) const {
    RouterReferenceToken token;
    for (int64_t e = 0; e < p_.experts; ++e) {
      token.logits.push_back(load_element(p_.x, logits_.host_data(), t * p_.stride_logits + e));
      if (p_.bias != DType::kNone) token.bias.push_back(load_element(p_.bias, bias_.host_data(), e));
    }
    std::vector<int64_t> ids;
    for (int64_t j = 0; j < p_.k; ++j) {
      ids.push_back(static_cast<const int32_t*>(ids_.host_data())[t * p_.stride_ids + j]);
    }
    // Of others' experts the call tells nothing: the reference's take their places.
    const bool local = p_.local_experts < p_.experts;
    const std::vector<int64_t> expected = local ? reference_router_choice(p_, token) : ids;
    std::vector<bool> told(ids.size(), true);
    for (size_t j = 0; local && j < ids.size(); ++j) {
      if (ids[j] < -1 || ids[j] >= p_.local_experts)
        return fmt::format("token {}: id {} of {} local experts", t, ids[j], p_.local_experts);
      const int64_t place = expected[j] - p_.first_expert;
      if (ids[j] == -1 && place >= 0 && place < p_.local_experts)
        return fmt::format("token {}: id -1, expected {}", t, place);
      told[j] = ids[j] != -1;
      ids[j] = told[j] ? ids[j] + p_.first_expert : expected[j];
    }
    if (std::string failure = check_router_choice(p_, token, ids); !failure.empty()) {
      return fmt::format("token {}: {}", t, failure);
    }
    const std::vector<ReferenceElement> want = router_weights(p_, token, ids, kInstanceRouterScale);
    for (size_t j = 0; j < ids.size(); ++j) {
      const auto slot = static_cast<int64_t>(j);
      comparison.add(load_element(DType::kF32, weights_.host_data(), t * p_.stride_weights + slot),
                     told[j] ? want[j] : ReferenceElement{0, 0}, {t, slot});
    }
    return {};
  }

  std::string memory_failure() const {
    const struct {
      const GuardedBuffer& buffer;
      const char* name;
      int64_t inner, stride;
      bool written;
    } tensors[] = {{logits_, "logits", p_.experts, p_.stride_logits, false},
                   {bias_, "bias", p_.experts, 0, false},
                   {weights_, "weights", p_.k, p_.stride_weights, true},
                   {ids_, "ids", p_.k, p_.stride_ids, true}};
    for (const auto& t : tensors) {
      if (!t.buffer.allocated()) continue;
      if (std::string failure = t.buffer.guard_failure(t.name); !failure.empty()) return failure;
      if (!t.written) continue;
      std::vector<bool> owned(static_cast<size_t>(t.buffer.bytes() / 4), false);
      const int64_t base = (static_cast<uint8_t*>(t.buffer.host_data()) - t.buffer.begin()) / 4;
      for (int64_t i = 0; i < p_.tokens * t.inner; ++i) {
        owned[static_cast<size_t>(base + i / t.inner * t.stride + i % t.inner)] = true;
      }
      for (size_t i = 0; i < owned.size(); ++i) {
        const bool poison = reinterpret_cast<const uint32_t*>(t.buffer.begin())[i] == 0xFFFFFFFFu;
        if (!owned[i] && !poison) return fmt::format("wrote {} between its elements", t.name);
      }
    }
    if (logits_.checksum() != sums_[0]) return "changed the input logits";
    if (bias_.allocated() && bias_.checksum() != sums_[1]) return "changed the input bias";
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  MoeRoutingProblem p_;
  InstanceOptions options_;
  GuardedBuffer logits_, bias_, weights_, ids_;
  std::vector<GuardedBuffer> copies_;  // of logits
  std::array<uint64_t, 2> sums_{};
  MoeRoutingBindings bound_;
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_moe_routing_instance(const MoeRoutingProblem& problem, Device& device,
                                                                   const InstanceOptions& options) {
  auto instance = std::make_unique<MoeRoutingInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
