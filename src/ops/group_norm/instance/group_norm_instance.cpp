// SPDX-License-Identifier: MIT
#include "ops/group_norm/instance/group_norm_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/tensor/tolerance.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
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
    if (s && p_.backward != 0) s = add(dy_, p_.dy);
    if (s && p_.in_place == 0) s = add(out_, p_.out);
    for (const auto& [buffer, dtype] : {std::pair<GuardedBuffer&, DType>{weight_, p_.weight},
                                        {bias_, p_.bias},
                                        {dweight_, p_.dweight},
                                        {dbias_, p_.dbias}}) {
      if (s && dtype != DType::kNone) s = buffer.allocate(device, dtype, {{p_.channels, 1}});
    }
    return s;
  }

  void fill(uint64_t seed, InputData data) override {
    const auto random = [&](GuardedBuffer& buffer, DType dtype, uint64_t of) {
      if (!buffer.allocated()) return;
      fill_random(dtype, buffer.begin(), buffer.bytes() * 8 / dtype_bits(dtype), data, seed * 16 + of);
      note(buffer.send());
    };
    random(x_, p_.dtype, 1), random(weight_, p_.weight, 2), random(bias_, p_.bias, 3), random(dy_, p_.dtype, 4);
    for (GuardedBuffer& copy : copies_) note(x_.send_to(copy));
    given_x_.assign(x_.begin(), x_.begin() + x_.bytes());
    if (dy_.allocated()) given_dy_.assign(dy_.begin(), dy_.begin() + dy_.bytes());
    sums_ = {weight_.allocated() ? weight_.checksum() : 0, bias_.allocated() ? bias_.checksum() : 0};
  }
  void poison() override {
    for (GuardedBuffer* buffer : {&out_, &dweight_, &dbias_}) {
      if (buffer->allocated()) note(buffer->fill(kGroupNormPoison));
    }
    if (p_.in_place == 0) return;
    std::ranges::copy(given(), written().begin());
    note(written().send());
  }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    const void* const x = turn > 0 ? copies_[turn - 1].data() : x_.data();
    const auto address = [](const GuardedBuffer& buffer) { return buffer.allocated() ? buffer.data() : nullptr; };
    bound_.pointers = {x,
                       p_.in_place == 1 ? x : address(written()),
                       address(weight_),
                       address(bias_),
                       address(dy_),
                       address(dweight_),
                       address(dbias_)};
    bound_.scalars = {kInstanceGroupEps};
    return {bound_.pointers, bound_.scalars, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    for (GuardedBuffer* buffer : {&x_, &out_, &weight_, &bias_, &dy_, &dweight_, &dbias_}) {
      if (buffer->allocated()) note(buffer->fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    Comparison comparison(p_.dtype, report);
    if (!p_.empty()) {
      const int64_t elements = std::max<int64_t>(p_.elements() / p_.groups, 1);
      const int64_t groups = std::max<int64_t>(1, options_.compare_limit / elements / 4);
      for (const int64_t group : sample_indices(p_.groups, groups, 7)) compare_group(group, comparison);
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
  GuardedBuffer& written() { return p_.in_place == 0 ? out_ : p_.in_place == 1 ? x_ : dy_; }
  const GuardedBuffer& written() const { return p_.in_place == 0 ? out_ : p_.in_place == 1 ? x_ : dy_; }
  // What stood there.
  const std::vector<uint8_t>& given() const { return p_.in_place == 2 ? given_dy_ : given_x_; }

  // Of all images, because gradients are summed over them.
  void compare_group(int64_t index, Comparison& comparison) const {
    const int64_t channels = p_.channels / p_.groups, first = index * channels;
    GroupNormGroup group;
    for (int64_t c = first; c < first + channels; ++c) {
      group.weight.push_back(weight_.allocated() ? load_element(p_.weight, weight_.host_data(), c) : 1);
      group.bias.push_back(bias_.allocated() ? load_element(p_.bias, bias_.host_data(), c) : 0);
    }
    const auto gather = [&](std::vector<double>& to, const GuardedBuffer& buffer, const std::vector<uint8_t>& bytes,
                            const GroupNormStrides& strides, int64_t image) {
      const uint8_t* const from = bytes.data() + (static_cast<const uint8_t*>(buffer.host_data()) - buffer.begin());
      to.clear();
      for (int64_t c = first; c < first + channels; ++c) {
        for (int64_t i = 0; i < p_.positions; ++i)
          to.push_back(load_element(p_.dtype, from, element(strides, image, c, i)));
      }
    };
    std::vector<ReferenceSum> dweight(group.weight.size()), dbias(group.weight.size());
    const auto eps = static_cast<double>(kInstanceGroupEps);
    for (int64_t image = 0; image < p_.images && p_.positions > 0; ++image) {
      gather(group.x, x_, given_x_, p_.x, image);
      if (p_.backward != 0) gather(group.dy, dy_, given_dy_, p_.dy, image);
      const std::vector<ReferenceElement> want = p_.backward != 0
                                                     ? group_norm_gradient_reference(p_, group, eps, dweight, dbias)
                                                     : group_norm_reference(p_, group, eps);
      for (size_t at = 0; at < want.size(); ++at) {
        const int64_t c = first + static_cast<int64_t>(at) / p_.positions, i = static_cast<int64_t>(at) % p_.positions;
        compare(p_.dtype, written(), element(p_.out, image, c, i), want[at], {image, c, i}, comparison);
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<size_t>(c);
      if (dweight_.allocated())
        compare(p_.dweight, dweight_, first + c, dweight[at].in_f32(), {-1, first + c}, comparison);
      if (dbias_.allocated()) compare(p_.dbias, dbias_, first + c, dbias[at].in_f32(), {-2, first + c}, comparison);
    }
  }
  static void compare(DType dtype, const GuardedBuffer& buffer, int64_t at, const ReferenceElement& want,
                      std::initializer_list<int64_t> index, Comparison& comparison) {
    const double allowed = want.allowed + rounding_bound(dtype, std::fabs(want.value) + want.allowed);
    comparison.add(load_element(dtype, buffer.host_data(), at), {want.value, allowed}, index);
  }

  // Guards and inputs as they were, and what lies between elements of the output.
  std::string memory_failure() const {
    for (const auto& [buffer, name] : {std::pair<const GuardedBuffer*, const char*>{&x_, "x"},
                                       {&out_, "out"},
                                       {&weight_, "weight"},
                                       {&bias_, "bias"},
                                       {&dy_, "dy"},
                                       {&dweight_, "dweight"},
                                       {&dbias_, "dbias"}}) {
      if (!buffer->allocated()) continue;
      if (std::string found = buffer->guard_failure(name); !found.empty()) return found;
    }
    const auto changed = [](const GuardedBuffer& buffer, const std::vector<uint8_t>& was) {
      return std::memcmp(buffer.begin(), was.data(), was.size()) != 0;
    };
    if (p_.in_place != 1 && changed(x_, given_x_)) return "changed the input x";
    if (p_.in_place != 2 && dy_.allocated() && changed(dy_, given_dy_)) return "changed the input dy";
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
      const uint8_t was = p_.in_place != 0 ? given()[i] : kGroupNormPoison;
      if (!owned[i] && out.begin()[i] != was) return "wrote out between its elements";
    }
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  GroupNormProblem p_;
  InstanceOptions options_;
  GuardedBuffer x_, out_, weight_, bias_, dy_, dweight_, dbias_;
  std::vector<GuardedBuffer> copies_;        // of x
  std::vector<uint8_t> given_x_, given_dy_;  // as they were
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
