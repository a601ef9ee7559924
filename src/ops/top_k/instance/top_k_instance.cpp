// SPDX-License-Identifier: MIT
#include "ops/top_k/instance/top_k_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"

namespace tilewright {
namespace {

class TopKInstance final : public ProblemInstance {
 public:
  TopKInstance(const TopKProblem& problem, const InstanceOptions& options)
      : p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const int64_t shift = p_.unaligned != 0 ? std::max(dtype_bits(p_.x) / 8, 1) : 0;
    const auto add_x = [&](GuardedBuffer& to) {
      return to.allocate(device, p_.x, {{p_.rows, p_.stride}, {p_.n, 1}}, shift);
    };
    Status s = add_x(x_);
    for (GuardedBuffer& copy : copies_) s = s ? add_x(copy) : s;
    if (s && p_.lengths != 0) s = lengths_.allocate(device, DType::kI32, {{p_.rows, 1}});
    if (s && p_.values != 0) s = values_.allocate(device, p_.x, {{p_.rows, p_.stride_values}, {p_.k, 1}});
    return s ? indices_.allocate(device, DType::kI32, {{p_.rows, p_.stride_indices}, {p_.k, 1}}) : s;
  }

  void fill(uint64_t seed, InputData data) override {
    fill_random(p_.x, x_.begin(), x_.bytes() * 8 / dtype_bits(p_.x), data, seed * 16 + 1);
    note(x_.send());
    for (GuardedBuffer& copy : copies_) note(x_.send_to(copy));
    if (p_.lengths != 0) {
      auto* const to = static_cast<int32_t*>(lengths_.host_data());
      // Of every size, none and too long among them.
      for (int64_t row = 0; row < p_.rows; ++row) {
        const uint64_t random = (seed + static_cast<uint64_t>(row) * 5) * 0x9E3779B97F4A7C15u >> 33;
        const int64_t length = static_cast<int64_t>(random % static_cast<uint64_t>(p_.n + 1));
        to[row] = static_cast<int32_t>(random % 7 == 0 ? p_.n + 3 : random % 11 == 0 ? -1 : length);
      }
      note(lengths_.send());
    }
    sums_ = {x_.checksum(), p_.lengths == 0 ? 0 : lengths_.checksum()};
  }
  void poison() override {
    if (p_.values != 0) note(values_.fill(0x7B));
    note(indices_.fill(0xFE));
  }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    bound_ = {turn > 0 ? copies_[turn - 1].data() : x_.data(), p_.lengths == 0 ? nullptr : lengths_.data(),
              p_.values == 0 ? nullptr : values_.data(), indices_.data()};
    return {bound_, {}, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    for (GuardedBuffer* buffer : {&x_, &lengths_, &values_, &indices_}) {
      if (buffer->allocated()) note(buffer->fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    const int64_t rows = std::max<int64_t>(1, options_.compare_limit / std::max<int64_t>(p_.n, 1) / 8);
    if (report.failure.empty()) {
      for (const int64_t row : sample_indices(p_.rows, rows, 7)) {
        report.failure = compare_row(row);
        report.compared += p_.k;
        if (!report.failure.empty()) break;
      }
    }
    report.passed = report.failure.empty();
    if (!report.passed) report.worst_ratio = std::numeric_limits<double>::infinity();
    return report;
  }

 private:
  // Exactly the reference's: nothing is computed.
  std::string compare_row(int64_t row) const {
    constexpr double kLeast = -std::numeric_limits<double>::infinity();
    int64_t length = p_.n;
    if (p_.lengths != 0) {
      length = std::clamp<int64_t>(static_cast<const int32_t*>(lengths_.host_data())[row], 0, p_.n);
    }
    std::vector<double> x(static_cast<size_t>(length));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = load_element(p_.x, x_.host_data(), row * p_.stride + static_cast<int64_t>(i));
    }
    std::vector<int64_t> order(x.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto value = [&](int64_t i) {
      const double v = x[static_cast<size_t>(i)];
      return std::isnan(v) ? kLeast : v;
    };
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return value(a) > value(b); });
    for (int64_t j = 0; j < p_.k; ++j) {
      const int64_t want = j < length ? order[static_cast<size_t>(j)] : -1;
      const int64_t got = static_cast<const int32_t*>(indices_.host_data())[row * p_.stride_indices + j];
      if (got != want) return fmt::format("index [{}, {}]: got {}, expected {}", row, j, got, want);
      if (p_.values == 0) continue;
      const double of = want < 0 ? kLeast : x[static_cast<size_t>(want)];
      const double v = load_element(p_.x, values_.host_data(), row * p_.stride_values + j);
      if (v != of && !(std::isnan(v) && std::isnan(of))) {
        return fmt::format("value [{}, {}]: got {}, expected {}", row, j, v, of);
      }
    }
    return {};
  }
  std::string memory_failure() const {
    const struct {
      const GuardedBuffer& buffer;
      const char* name;
      int64_t stride;
      int width;
      uint8_t poison;
    } tensors[] = {{x_, "x", 0, 0, 0},
                   {lengths_, "lengths", 0, 0, 0},
                   {values_, "values", p_.stride_values, dtype_bits(p_.x) / 8, 0x7B},
                   {indices_, "indices", p_.stride_indices, 4, 0xFE}};
    for (const auto& t : tensors) {
      if (!t.buffer.allocated()) continue;
      if (std::string failure = t.buffer.guard_failure(t.name); !failure.empty()) return failure;
      if (t.width == 0) continue;
      std::vector<bool> owned(static_cast<size_t>(t.buffer.bytes()), false);
      const int64_t base = static_cast<uint8_t*>(t.buffer.host_data()) - t.buffer.begin();
      for (int64_t row = 0; row < p_.rows; ++row) {
        const int64_t start = base + row * t.stride * t.width;
        std::fill_n(owned.begin() + start, p_.k * t.width, true);
      }
      for (size_t i = 0; i < owned.size(); ++i) {
        if (!owned[i] && t.buffer.begin()[i] != t.poison) return fmt::format("wrote {} between its rows", t.name);
      }
    }
    if (x_.checksum() != sums_[0]) return "changed the input x";
    if (lengths_.allocated() && lengths_.checksum() != sums_[1]) return "changed the input lengths";
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  TopKProblem p_;
  InstanceOptions options_;
  GuardedBuffer x_, lengths_, values_, indices_;
  std::vector<GuardedBuffer> copies_;  // of x
  std::array<uint64_t, 2> sums_{};
  TopKPointers bound_{};
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_top_k_instance(const TopKProblem& problem, Device& device,
                                                             const InstanceOptions& options) {
  auto instance = std::make_unique<TopKInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
