// SPDX-License-Identifier: MIT
#include "ops/apply_penalties/instance/apply_penalties_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/tensor/tolerance.hpp"
#include "dispatch/instance/comparison.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

class ApplyPenaltiesInstance final : public ProblemInstance {
 public:
  ApplyPenaltiesInstance(const ApplyPenaltiesProblem& problem, const InstanceOptions& options)
      : p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const auto rows = [&](GuardedBuffer& to, DType dtype, int64_t stride, int64_t inner, int64_t step) {
      return to.allocate(device, dtype, {{p_.rows, stride}, {inner, step}});
    };
    Status s = rows(logits_, p_.x, p_.stride, p_.n, 1);
    if (s) s = rows(out_, p_.x, p_.stride_out, p_.n, 1);
    for (GuardedBuffer& copy : copies_) s = s ? rows(copy, p_.x, p_.stride, p_.n, 1) : s;
    for (size_t i = 0; i < 2; ++i) {
      const SeenProblem& seen = p_.seen[i];
      if (s && seen.tokens > 0) s = rows(tokens_[i], DType::kI32, seen.stride_row, seen.tokens, seen.stride);
      if (s && seen.counts) s = rows(counts_[i], DType::kI32, seen.stride_counts, p_.n, 1);
    }
    const uint8_t present[] = {p_.repetition, p_.presence, p_.frequency};
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (s && present[i]) s = rows(numbers_[i], DType::kF32, 1, 1, 1);
    }
    return s;
  }

  void fill(uint64_t seed, InputData data) override {
    std::mt19937_64 random(seed);
    fill_random(p_.x, logits_.begin(), logits_.bytes() * 8 / dtype_bits(p_.x), data, seed * 16 + 1);
    for (GuardedBuffer& copy : copies_) note(logits_.send_to(copy));
    // Few tokens, so that some come often; some numbers are none of a token.
    const int64_t few = std::max<int64_t>(1, std::min<int64_t>(p_.n, 50)), step = std::max<int64_t>(p_.n / few, 1);
    std::uniform_int_distribution<int64_t> token(-1, few), often(-1, 3);
    for (size_t i = 0; i < 2; ++i) {
      const SeenProblem& seen = p_.seen[i];
      for (int64_t row = 0; row < p_.rows; ++row) {
        for (int64_t j = 0; j < seen.tokens; ++j) {
          const int64_t one = token(random);
          put(tokens_[i], row * seen.stride_row + j * seen.stride, one == few ? p_.n : one * step);
        }
        for (int64_t j = 0; seen.counts && j < p_.n; ++j) {
          put(counts_[i], row * seen.stride_counts + j, j % 7 == 0 ? often(random) : 0);
        }
      }
    }
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (!numbers_[i].allocated()) continue;
      std::uniform_real_distribution<float> any(i == 0 ? 0.5f : -2.0f, 2.0f);
      for (int64_t row = 0; row < p_.rows; ++row) static_cast<float*>(numbers_[i].host_data())[row] = any(random);
    }
    for (const auto& [buffer, name] : inputs()) {
      if (!buffer->allocated()) continue;
      note(buffer->send());
    }
    sums_.clear();
    for (const auto& [buffer, name] : inputs()) sums_.push_back(buffer->allocated() ? buffer->checksum() : 0);
  }
  // In place what is written starts as what is read.
  void poison() override { note(p_.in_place ? logits_.send_to(out_) : out_.fill(0xFF)); }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    const void* const out = p_.in_place && turn > 0 ? copies_[turn - 1].data() : out_.data();
    const void* const logits = p_.in_place ? out : turn > 0 ? copies_[turn - 1].data() : logits_.data();
    bound_ = {logits, out};
    for (size_t i = 0; i < 2; ++i) {
      bound_[kPenaltyTokens + i] = tokens_[i].allocated() ? tokens_[i].data() : nullptr;
      bound_[kPenaltyCounts + i] = counts_[i].allocated() ? counts_[i].data() : nullptr;
    }
    for (size_t i = 0; i < numbers_.size(); ++i) {
      bound_[kPenaltyRepetition + i] = numbers_[i].allocated() ? numbers_[i].data() : nullptr;
    }
    return {bound_, {}, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    note(out_.fetch());
    for (const auto& [buffer, name] : inputs()) {
      if (buffer->allocated()) note(buffer->fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    Comparison comparison(p_.x, report);
    const int64_t rows = std::max<int64_t>(1, options_.compare_limit / std::max<int64_t>(p_.n, 1) / 4);
    for (const int64_t row : sample_indices(p_.rows, rows, 7)) compare_row(row, comparison);
    comparison.finish();
    return report;
  }

 private:
  struct Named {
    GuardedBuffer* buffer;
    const char* name;
  };
  std::vector<Named> inputs() {
    return {{&logits_, "logits"},           {&tokens_[0], "prompt_tokens"}, {&tokens_[1], "output_tokens"},
            {&counts_[0], "prompt_counts"}, {&counts_[1], "output_counts"}, {&numbers_[0], "repetition"},
            {&numbers_[1], "presence"},     {&numbers_[2], "frequency"}};
  }
  static void put(GuardedBuffer& buffer, int64_t at, int64_t value) {
    static_cast<int32_t*>(buffer.host_data())[at] = static_cast<int32_t>(value);
  }
  static int32_t get(const GuardedBuffer& buffer, int64_t at) {
    return static_cast<const int32_t*>(buffer.host_data())[at];
  }
  double number(size_t i, int64_t row, double otherwise) const {
    return numbers_[i].allocated() ? static_cast<const float*>(numbers_[i].host_data())[row] : otherwise;
  }

  void compare_row(int64_t row, Comparison& comparison) const {
    std::vector<int64_t> count[2] = {std::vector<int64_t>(static_cast<size_t>(p_.n)),
                                     std::vector<int64_t>(static_cast<size_t>(p_.n))};
    for (size_t i = 0; i < 2; ++i) {
      const SeenProblem& seen = p_.seen[i];
      for (int64_t j = 0; j < seen.tokens; ++j) {
        const int64_t token = get(tokens_[i], row * seen.stride_row + j * seen.stride);
        if (token >= 0 && token < p_.n) ++count[i][static_cast<size_t>(token)];
      }
      for (int64_t j = 0; seen.counts && j < p_.n; ++j) {
        count[i][static_cast<size_t>(j)] += std::max(get(counts_[i], row * seen.stride_counts + j), 0);
      }
    }
    const double repetition = number(0, row, 1), presence = number(1, row, 0), frequency = number(2, row, 0);
    for (int64_t v = 0; v < p_.n; ++v) {
      const double x = load_element(p_.x, logits_.host_data(), row * p_.stride + v);
      const double got = load_element(p_.x, out_.host_data(), row * p_.stride_out + v);
      const int64_t of_prompt = count[0][static_cast<size_t>(v)], of_output = count[1][static_cast<size_t>(v)];
      if (of_prompt + of_output == 0) {
        comparison.add(got, {x, 0}, {row, v});
        continue;
      }
      const double repeated = x > 0 ? x / repetition : x * repetition;
      const double often = frequency * static_cast<double>(of_output), once = of_output > 0 ? presence : 0;
      const double want = repeated - often - once;
      const double allowed = epilogue_bound(std::fabs(repeated) + std::fabs(often) + std::fabs(once));
      comparison.add(got, {want, allowed + rounding_bound(p_.x, std::fabs(want) + allowed)}, {row, v});
    }
  }
  std::string memory_failure() {
    if (std::string failure = out_.guard_failure("out"); !failure.empty()) return failure;
    size_t i = 0;
    for (const auto& [buffer, name] : inputs()) {
      const uint64_t sum = sums_[i++];
      if (!buffer->allocated()) continue;
      if (std::string failure = buffer->guard_failure(name); !failure.empty()) return failure;
      if (buffer->checksum() != sum) return fmt::format("changed {}", name);
    }
    // Between rows nothing is written.
    const int64_t width = dtype_bits(p_.x) / 8, base = static_cast<uint8_t*>(out_.host_data()) - out_.begin();
    std::vector<bool> owned(static_cast<size_t>(out_.bytes()), false);
    for (int64_t row = 0; row < p_.rows; ++row) {
      std::fill_n(owned.begin() + base + row * p_.stride_out * width, p_.n * width, true);
    }
    for (size_t at = 0; at < owned.size(); ++at) {
      const uint8_t want = p_.in_place ? logits_.begin()[at] : 0xFF;
      if (!owned[at] && out_.begin()[at] != want) return "wrote out between its rows";
    }
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  ApplyPenaltiesProblem p_;
  InstanceOptions options_;
  GuardedBuffer logits_, out_;
  std::array<GuardedBuffer, 2> tokens_, counts_;
  std::array<GuardedBuffer, 3> numbers_;
  std::vector<GuardedBuffer> copies_;  // of logits
  std::vector<uint64_t> sums_;
  ApplyPenaltiesPointers bound_{};
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_apply_penalties_instance(const ApplyPenaltiesProblem& problem,
                                                                       Device& device, const InstanceOptions& options) {
  auto instance = std::make_unique<ApplyPenaltiesInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
