// SPDX-License-Identifier: MIT
#include "ops/sample/instance/sample_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"

namespace tilewright {
namespace {

// Options of rows, in turn: usual ones, and those at the ends of what they may be.
constexpr float kUsualTemperature[] = {1, 0.7f, 1.3f}, kOddTemperature[] = {1, 0, 0.01f, 100, 0.6f, -1};
constexpr float kUsualTopP[] = {0.9f, 0.95f, 0.8f}, kOddTopP[] = {0.5f, 0, 1, 0.999f, 1e-6f, 2, 0.9f};
constexpr float kUsualMinP[] = {0.05f, 0.1f}, kOddMinP[] = {0, 1, 0.3f, 1e-9f, 0.01f};
constexpr int kUsualTopK[] = {50, 20, 40}, kOddTopK[] = {-1, 1, 2, 0, 7, 1000000, 300};

class SampleInstance final : public ProblemInstance {
 public:
  SampleInstance(const SampleProblem& problem, const InstanceOptions& options)
      : p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const int64_t shift = p_.unaligned != 0 ? std::max(dtype_bits(p_.x) / 8, 1) : 0;
    const auto add_logits = [&](GuardedBuffer& to) {
      return to.allocate(device, p_.x, {{p_.rows, p_.stride}, {p_.vocabulary, 1}}, shift);
    };
    Status s = add_logits(logits_);
    for (GuardedBuffer& copy : copies_) s = s ? add_logits(copy) : s;
    for (const SampleRowTensor& t : sample_row_tensors()) {
      const int64_t words = p_.*t.words;
      if (s && words > 0) s = rows_[t.slot].allocate(device, t.dtype, {{p_.rows, words}, {words, 1}});
    }
    return s;
  }

  void fill(uint64_t seed, InputData data) override {
    fill_random(p_.x, logits_.begin(), logits_.bytes() * 8 / dtype_bits(p_.x), data, seed * 16 + 1, 3);
    if (data != InputData::kNormal) plant_odd_rows();
    note(logits_.send());
    for (GuardedBuffer& copy : copies_) note(logits_.send_to(copy));
    const bool usual = data == InputData::kNormal;
    const auto turn = [&](SamplePointerSlot slot, const auto& of_usual, const auto& of_odd) {
      if (!rows_[slot].allocated()) return;
      auto* const to = static_cast<std::remove_cvref_t<decltype(of_usual[0])>*>(rows_[slot].host_data());
      const uint64_t shift = seed * 7 + slot * (usual ? 0u : 5u);
      for (int64_t row = 0; row < p_.rows; ++row) {
        const uint64_t at = static_cast<uint64_t>(row) + shift;
        to[row] = usual ? of_usual[at % std::size(of_usual)] : of_odd[at % std::size(of_odd)];
      }
      note(rows_[slot].send());
    };
    turn(kSampleTemperature, kUsualTemperature, kOddTemperature);
    turn(kSampleTopK, kUsualTopK, kOddTopK);
    turn(kSampleTopP, kUsualTopP, kOddTopP);
    turn(kSampleMinP, kUsualMinP, kOddMinP);
    for (const SamplePointerSlot slot : {kSampleSeeds, kSampleOffsets}) {
      if (!rows_[slot].allocated()) continue;
      auto* const to = static_cast<uint32_t*>(rows_[slot].host_data());
      for (int64_t i = 0; i < rows_[slot].bytes() / 4; ++i) {
        to[i] = static_cast<uint32_t>((seed + static_cast<uint64_t>(i) * 3 + slot) * 0x9E3779B97F4A7C15u >> 32);
      }
      note(rows_[slot].send());
    }
    sums_ = input_sums();
  }
  void poison() override {
    note(rows_[kSampleIds].fill(0xFE));
    if (rows_[kSampleLogProbabilities].allocated()) note(rows_[kSampleLogProbabilities].fill(0x7E));
  }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    bound_ = {};
    for (size_t slot = 0; slot < bound_.size(); ++slot) {
      if (rows_[slot].allocated()) bound_[slot] = rows_[slot].data();
    }
    bound_[kSampleLogits] = turn > 0 ? copies_[turn - 1].data() : logits_.data();
    return {bound_, {}, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    note(logits_.fetch());
    for (GuardedBuffer& buffer : rows_) {
      if (buffer.allocated()) note(buffer.fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    Comparison comparison(DType::kF32, report);
    const int64_t rows = std::max<int64_t>(1, options_.compare_limit / p_.vocabulary / 16);
    if (report.failure.empty()) {
      for (const int64_t row : sample_indices(p_.rows, rows, 7)) {
        const SampleReferenceRow reference = reference_row(row);
        const int64_t id = chosen(row);
        report.failure = check_sample(p_, reference, id);
        if (!report.failure.empty()) {
          report.failure = fmt::format("row {}: {}", row, report.failure);
          break;
        }
        const GuardedBuffer& logarithms = rows_[kSampleLogProbabilities];
        const ReferenceElement want = sample_log_probability(reference, id);
        comparison.add(logarithms.allocated() ? load_element(DType::kF32, logarithms.host_data(), row) : want.value,
                       want, {row});
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
  template <class Number>
  const Number* of_rows(SamplePointerSlot slot) const {
    return rows_[slot].allocated() ? static_cast<const Number*>(rows_[slot].host_data()) : nullptr;
  }
  // Some rows have no token, some have NaN and infinities among theirs.
  void plant_odd_rows() {
    const uint32_t nan = p_.x == DType::kF32 ? 0x7FC00000u : p_.x == DType::kF16 ? 0x7E00u : 0x7FC0u;
    const uint32_t infinity = p_.x == DType::kF32 ? 0x7F800000u : p_.x == DType::kF16 ? 0x7C00u : 0x7F80u;
    const uint32_t less = infinity | (p_.x == DType::kF32 ? 0x80000000u : 0x8000u);
    for (int64_t row = 2; row < p_.rows; row += 3) {
      for (int64_t i = 0; i < p_.vocabulary; ++i) {
        const bool nothing = row % 4 == 1;
        if (!nothing && i % 5 > 1) continue;
        const uint32_t bits = i % 5 == 1 && i > 500 && !nothing ? infinity : i % 2 == 0 ? nan : less;
        const int64_t at = row * p_.stride + i;
        if (p_.x == DType::kF32) {
          static_cast<uint32_t*>(logits_.host_data())[at] = bits;
        } else {
          static_cast<uint16_t*>(logits_.host_data())[at] = static_cast<uint16_t>(bits);
        }
      }
    }
  }
  int64_t chosen(int64_t row) const {
    const auto* const ids = of_rows<int32_t>(kSampleIds);
    return static_cast<int64_t>(number_of_words(ids, p_.id_words, row));
  }
  SampleReferenceRow reference_row(int64_t row) const {
    SampleReferenceRow to;
    SampleArgs args{};
    args.vocabulary = p_.vocabulary, args.greedy = p_.greedy != 0;
    args.temperature = of_rows<float>(kSampleTemperature), args.top_k = of_rows<int>(kSampleTopK);
    args.top_p = of_rows<float>(kSampleTopP), args.min_p = of_rows<float>(kSampleMinP);
    args.seeds = of_rows<int>(kSampleSeeds), args.offsets = of_rows<int>(kSampleOffsets);
    args.seed_words = p_.seed_words, args.offset_words = p_.offset_words;
    to.rule = sample_rule(args, row);
    if (args.temperature != nullptr && !to.rule.greedy) to.inverse = 1.0 / static_cast<double>(args.temperature[row]);
    if (args.top_p != nullptr) to.top_p = std::clamp(static_cast<double>(args.top_p[row]), 0.0, 1.0);
    if (args.min_p != nullptr) to.min_p = args.min_p[row];
    to.logits.resize(static_cast<size_t>(p_.vocabulary));
    for (int64_t i = 0; i < p_.vocabulary; ++i) {
      const double x = load_element(p_.x, logits_.host_data(), row * p_.stride + i);
      to.logits[static_cast<size_t>(i)] =
          std::isnan(x) ? static_cast<double>(kNoToken) : std::min(x, static_cast<double>(kMostLogit));
    }
    return to;
  }
  std::vector<uint64_t> input_sums() const {
    std::vector<uint64_t> sums = {logits_.checksum()};
    for (const SampleRowTensor& t : sample_row_tensors()) {
      if (!t.written && rows_[t.slot].allocated()) sums.push_back(rows_[t.slot].checksum());
    }
    return sums;
  }
  std::string memory_failure() const {
    if (std::string failure = logits_.guard_failure("logits"); !failure.empty()) return failure;
    for (const SampleRowTensor& t : sample_row_tensors()) {
      if (!rows_[t.slot].allocated()) continue;
      if (std::string failure = rows_[t.slot].guard_failure(t.name); !failure.empty()) return failure;
    }
    return input_sums() == sums_ ? "" : "changed an input";
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  SampleProblem p_;
  InstanceOptions options_;
  GuardedBuffer logits_;
  std::array<GuardedBuffer, kSamplePointerSlots> rows_;  // by slot
  std::vector<GuardedBuffer> copies_;                    // of logits
  std::vector<uint64_t> sums_;
  SamplePointers bound_{};
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_sample_instance(const SampleProblem& problem, Device& device,
                                                              const InstanceOptions& options) {
  auto instance = std::make_unique<SampleInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
