// SPDX-License-Identifier: MIT
#include "ops/transpose/instance/transpose_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"

namespace tilewright {
namespace {

constexpr uint8_t kTransposePoison = 0x7B;

class TransposeInstance final : public ProblemInstance {
 public:
  TransposeInstance(const TransposeProblem& problem, const InstanceOptions& options)
      : p_(problem), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const int64_t shift = p_.unaligned != 0 ? bytes() : 0;
    const auto add = [&](GuardedBuffer& to, bool of_out) {
      const auto e = p_.extents(of_out);
      return to.allocate(device, p_.dtype, {e[0], e[1], e[2], e[3], e[4]}, shift);
    };
    Status s = add(x_, false);
    for (GuardedBuffer& copy : copies_) s = s ? add(copy, false) : s;
    return s ? add(out_, true) : s;
  }

  void fill(uint64_t seed, InputData) override {
    // Any bits: nothing is computed.
    fill_random(DType::kI8, x_.begin(), x_.bytes(), InputData::kNormal, seed);
    note(x_.send());
    for (GuardedBuffer& copy : copies_) note(x_.send_to(copy));
    sum_ = x_.checksum();
  }
  void poison() override { note(out_.fill(kTransposePoison)); }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    bound_ = {turn > 0 ? copies_[turn - 1].data() : x_.data(), out_.data()};
    return {bound_, {}, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    note(x_.fetch());
    note(out_.fetch());
    report.failure = problem_.ok() ? failure() : problem_.message();
    report.compared = p_.batches() * p_.m * p_.n;
    report.passed = report.failure.empty();
    if (!report.passed) report.worst_ratio = std::numeric_limits<double>::infinity();
    return report;
  }

 private:
  int64_t bytes() const { return dtype_bits(p_.dtype) / 8; }
  // Every element's bits, and nothing between them.
  std::string failure() const {
    for (const auto& [buffer, name] : {std::pair<const GuardedBuffer*, const char*>{&x_, "x"}, {&out_, "out"}}) {
      if (std::string found = buffer->guard_failure(name); !found.empty()) return found;
    }
    if (x_.checksum() != sum_) return "changed the input x";
    std::vector<bool> owned(static_cast<size_t>(out_.bytes()), false);
    const int64_t base = static_cast<const uint8_t*>(out_.host_data()) - out_.begin();
    for (int64_t matrix = 0; matrix < p_.batches(); ++matrix) {
      const int64_t inner = matrix / p_.batch[2];
      const std::array<int64_t, kTransposeBatch> at{inner / p_.batch[1], inner % p_.batch[1], matrix % p_.batch[2]};
      const auto element = [&](const TransposeStrides& s, int64_t row, int64_t column) {
        return (at[0] * s[0] + at[1] * s[1] + at[2] * s[2] + row * s[3] + column) * bytes();
      };
      for (int64_t i = 0; i < p_.m; ++i) {
        for (int64_t j = 0; j < p_.n; ++j) {
          const int64_t to = element(p_.out, j, i);
          const auto* const want = static_cast<const uint8_t*>(x_.host_data()) + element(p_.x, i, j);
          if (std::memcmp(static_cast<const uint8_t*>(out_.host_data()) + to, want, static_cast<size_t>(bytes())) !=
              0) {
            return fmt::format("out [{}, {}, {}] is not x [{}, {}, {}]", matrix, j, i, matrix, i, j);
          }
          std::fill_n(owned.begin() + base + to, bytes(), true);
        }
      }
    }
    for (size_t i = 0; i < owned.size(); ++i) {
      if (!owned[i] && out_.begin()[i] != kTransposePoison) return "wrote out between its elements";
    }
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  TransposeProblem p_;
  GuardedBuffer x_, out_;
  std::vector<GuardedBuffer> copies_;  // of x
  uint64_t sum_ = 0;
  TransposePointers bound_{};
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_transpose_instance(const TransposeProblem& problem, Device& device,
                                                                 const InstanceOptions& options) {
  auto instance = std::make_unique<TransposeInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
