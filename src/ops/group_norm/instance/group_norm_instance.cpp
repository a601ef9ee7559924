// SPDX-License-Identifier: MIT
#include "ops/group_norm/instance/group_norm_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/tensor/tolerance.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
#include "ops/gemm/instance/activation_reference.hpp"
#include "ops/group_norm/instance/group_norm_reference.hpp"

namespace tilewright {
namespace {

constexpr uint8_t kGroupNormPoison = 0xFF;  // NaN
constexpr float kInstanceGroupEps = 1e-5f;

class GroupNormInstance final : public ProblemInstance {
 public:
  GroupNormInstance(const GroupNormProblem& problem, const InstanceOptions& options)
      : p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const int64_t shift = p_.unaligned != 0 ? bytes() : 0;
    const auto add = [&](GuardedBuffer& to, const GroupNormStrides& strides) {
      const auto e = p_.extents(strides);
      return to.allocate(device, p_.dtype, {e[0], e[1], e[2]}, shift);
    };
    Status s = add(x_, p_.x);
    for (GuardedBuffer& copy : copies_) s = s ? add(copy, p_.x) : s;
    if (s && p_.in_place == 0) s = add(out_, p_.out);
    if (s && p_.weight != DType::kNone) s = weight_.allocate(device, p_.weight, {{p_.channels, 1}});
    if (s && p_.bias != DType::kNone) s = bias_.allocate(device, p_.bias, {{p_.channels, 1}});
    return s;
  }

  void fill(uint64_t seed, InputData data) override {
    const auto random = [&](GuardedBuffer& buffer, DType dtype, uint64_t of) {
      if (!buffer.allocated()) return;
      fill_random(dtype, buffer.begin(), buffer.bytes() * 8 / dtype_bits(dtype), data, seed * 16 + of);
      note(buffer.send());
    };
    random(x_, p_.dtype, 1), random(weight_, p_.weight, 2), random(bias_, p_.bias, 3);
    for (GuardedBuffer& copy : copies_) note(x_.send_to(copy));
    given_.assign(x_.begin(), x_.begin() + x_.bytes());
    sums_ = {weight_.allocated() ? weight_.checksum() : 0, bias_.allocated() ? bias_.checksum() : 0};
  }
  void poison() override {
    if (p_.in_place == 0) return note(out_.fill(kGroupNormPoison));
    std::ranges::copy(given_, x_.begin());
    note(x_.send());
  }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    const void* const x = turn > 0 ? copies_[turn - 1].data() : x_.data();
    bound_.pointers = {x, p_.in_place != 0 ? x : out_.data(), weight_.allocated() ? weight_.data() : nullptr,
                       bias_.allocated() ? bias_.data() : nullptr};
    bound_.scalars = {kInstanceGroupEps};
    return {bound_.pointers, bound_.scalars, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    for (GuardedBuffer* buffer : {&x_, &out_, &weight_, &bias_}) {
      if (buffer->allocated()) note(buffer->fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    Comparison comparison(p_.dtype, report);
    if (!p_.empty()) {
      const int64_t elements = p_.elements() / (p_.images * p_.groups);
      const int64_t groups = std::max<int64_t>(1, options_.compare_limit / elements / 4);
      for (const int64_t group : sample_indices(p_.images * p_.groups, groups, 7)) compare_group(group, comparison);
    }
    comparison.finish();
    return report;
  }

 private:
  int64_t bytes() const { return dtype_bits(p_.dtype) / 8; }
  int64_t element(const GroupNormStrides& s, int64_t image, int64_t channel, int64_t position) const {
    const bool last = p_.channels_last != 0;
    return image * s.image + (last ? position : channel) * s.line + (last ? channel : position);
  }
  const GuardedBuffer& written() const { return p_.in_place != 0 ? x_ : out_; }
  const uint8_t* given() const { return given_.data() + (static_cast<const uint8_t*>(x_.host_data()) - x_.begin()); }

  void compare_group(int64_t index, Comparison& comparison) const {
    const int64_t image = index / p_.groups, channels = p_.channels / p_.groups;
    const int64_t first = index % p_.groups * channels;
    std::vector<double> x;
    x.reserve(static_cast<size_t>(channels * p_.positions));
    for (int64_t c = first; c < first + channels; ++c) {
      for (int64_t i = 0; i < p_.positions; ++i)
        x.push_back(load_element(p_.dtype, given(), element(p_.x, image, c, i)));
    }
    const GroupMoments moments = reference_group_moments(p_, x, static_cast<double>(kInstanceGroupEps));
    size_t at = 0;
    for (int64_t c = first; c < first + channels; ++c) {
      const double weight = weight_.allocated() ? load_element(p_.weight, weight_.host_data(), c) : 1;
      const double bias = bias_.allocated() ? load_element(p_.bias, bias_.host_data(), c) : 0;
      for (int64_t i = 0; i < p_.positions; ++i) {
        const ReferenceElement z = scaled_reference(normalised_reference(moments, x[at++]), weight, bias);
        const Bounded y = activate(p_.activation, Bounded{z.value, z.allowed}, 0, 0);
        const double allowed = y.error + rounding_bound(p_.dtype, std::fabs(y.value) + y.error);
        comparison.add(load_element(p_.dtype, written().host_data(), element(p_.out, image, c, i)), {y.value, allowed},
                       {image, c, i});
      }
    }
  }

  // Guards and inputs as they were, and what lies between elements of the output.
  std::string memory_failure() const {
    for (const auto& [buffer, name] : {std::pair<const GuardedBuffer*, const char*>{&x_, "x"},
                                       {&out_, "out"},
                                       {&weight_, "weight"},
                                       {&bias_, "bias"}}) {
      if (!buffer->allocated()) continue;
      if (std::string found = buffer->guard_failure(name); !found.empty()) return found;
    }
    if (p_.in_place == 0 && std::memcmp(x_.begin(), given_.data(), given_.size()) != 0) return "changed the input x";
    if (weight_.allocated() && weight_.checksum() != sums_[0]) return "changed the input weight";
    if (bias_.allocated() && bias_.checksum() != sums_[1]) return "changed the input bias";
    const GuardedBuffer& out = written();
    std::vector<bool> owned(static_cast<size_t>(out.bytes()), false);
    const int64_t base = static_cast<const uint8_t*>(out.host_data()) - out.begin();
    for (int64_t image = 0; image < p_.images; ++image) {
      for (int64_t c = 0; c < p_.channels; ++c) {
        for (int64_t i = 0; i < p_.positions; ++i)
          std::fill_n(owned.begin() + base + element(p_.out, image, c, i) * bytes(), bytes(), true);
      }
    }
    for (size_t i = 0; i < owned.size(); ++i) {
      const uint8_t was = p_.in_place != 0 ? given_[i] : kGroupNormPoison;
      if (!owned[i] && out.begin()[i] != was) return "wrote out between its elements";
    }
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  GroupNormProblem p_;
  InstanceOptions options_;
  GuardedBuffer x_, out_, weight_, bias_;
  std::vector<GuardedBuffer> copies_;  // of x
  std::vector<uint8_t> given_;         // x, as it was
  std::array<uint64_t, 2> sums_{};
  GroupNormBindings bound_;
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_group_norm_instance(const GroupNormProblem& problem, Device& device,
                                                                  const InstanceOptions& options) {
  auto instance = std::make_unique<GroupNormInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
