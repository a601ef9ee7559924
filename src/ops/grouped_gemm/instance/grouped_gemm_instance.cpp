// SPDX-License-Identifier: MIT
// A grouped problem made real: guarded buffers, seeded data and groups, poisoned outputs, and the verdict.
#include "ops/grouped_gemm/instance/grouped_gemm_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/instance/device_data.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
#include "ops/grouped_gemm/instance/grouped_gemm_reference.hpp"

namespace tilewright {
namespace {

// One tensor that kernels read.
struct InputTensor {
  InputTensor(uint16_t of_slot, const char* its_name, DType its_dtype)
      : slot(of_slot), name(its_name), dtype(its_dtype) {}
  uint16_t slot;
  const char* name;
  DType dtype;
  GuardedBuffer buffer;
  uint64_t sum = 0;
};

class GroupedGemmInstance final : public ProblemInstance {
 public:
  GroupedGemmInstance(const GroupedGemmProblem& problem, ArchVendor vendor, const InstanceOptions& options)
      : p_(problem), vendor_(vendor), options_(options) {}

  Status allocate(Device& device);

  void fill(uint64_t seed, InputData data) override;
  void poison() override {
    note(d_.fill(0xFF));  // NaN in every float
    note(status_.fill(0));
  }
  CallBindings bindings(int rotation) override {
    collect(static_cast<size_t>(rotation) % (b_.size() + 1), &GuardedBuffer::data);
    return {bound_.pointers, bound_.scalars, nullptr};
  }
  int rotations() const override { return static_cast<int>(b_.size()) + 1; }
  VerifyReport verify() override;

 private:
  Status add(Device& device, uint16_t slot, const char* name, DType dtype, std::initializer_list<Extent> extents) {
    inputs_.emplace_back(slot, name, dtype);
    return inputs_.back().buffer.allocate(device, dtype, extents);
  }
  Status add_b(Device& device, GuardedBuffer& buffer) const {
    const GemmProblem& g = p_.gemm;
    if (g.b_packed) {
      return buffer.allocate(device,
                             (g.stride_b_batch == 0 ? 0 : g.batch - 1) * g.stride_b_batch + packed_entry_bytes(g));
    }
    return buffer.allocate(device, g.b_dtype, {{g.batch, g.stride_b_batch}, {g.k, g.stride_b_k}, {g.n, g.stride_b_n}});
  }
  GuardedBuffer& input(uint16_t slot) {
    return std::find_if(inputs_.begin(), inputs_.end(), [slot](const InputTensor& t) { return t.slot == slot; })
        ->buffer;
  }
  // A and B are made on the device where that is possible; what the reference needs of them is fetched.
  bool on_device(const InputTensor& t) const {
    return options_.device_data != nullptr && (t.slot == kSlotA || t.slot == kSlotB) && DeviceData::fills(t.dtype);
  }
  uint64_t checksum(const InputTensor& t) {
    if (!on_device(t)) return t.buffer.checksum();
    const Result<uint64_t> sum = options_.device_data->checksum(t.buffer.first(), t.buffer.bytes());
    note(sum.status());
    return sum ? *sum : 0;
  }
  void fill_numbers(uint16_t slot, const std::vector<int32_t>& numbers) {
    if (!numbers.empty()) std::memcpy(input(slot).begin(), numbers.data(), numbers.size() * sizeof(int32_t));
  }
  void collect(size_t rotation, void* (GuardedBuffer::*address)() const) {
    for (const InputTensor& t : inputs_) bound_.pointers[t.slot] = (t.buffer.*address)();
    if (rotation > 0) bound_.pointers[kSlotB] = (b_[rotation - 1].*address)();
    bound_.pointers[kSlotD] = (d_.*address)();
    if (p_.has_status) bound_.pointers[kSlotStatus] = (status_.*address)();
  }
  // What is compared of a group.
  struct Sample {
    int64_t group;
    std::vector<int64_t> rows, columns;
  };
  std::vector<Sample> choose_samples() const;
  void fetch_compared(const Sample& sample);
  bool check_untouched(VerifyReport& report);
  bool check_written(VerifyReport& report);
  void compare(VerifyReport& report);
  // Keeps the first error of carrying data: verify() tells of it.
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  GroupedGemmProblem p_;
  ArchVendor vendor_;  // whose kernels are verified
  InstanceOptions options_;
  std::deque<InputTensor> inputs_;
  std::vector<GuardedBuffer> b_;  // further copies of B
  GuardedBuffer d_, status_;
  GroupedGemmBindings bound_;
  GroupData groups_;
  GroupPlaces places_;
  std::vector<std::vector<ReferenceElement>> references_;  // of each sample; empty: not known for this data
  Status problem_;
};

Status GroupedGemmInstance::allocate(Device& device) {
  const GemmProblem& g = p_.gemm;
  Status s = add(device, kSlotA, "a", g.a_dtype,
                 {{g.batch, g.stride_a_batch}, {p_.a_rows, g.stride_a_m}, {g.k, g.stride_a_k}});
  if (s) {
    inputs_.emplace_back(kSlotB, "b", g.b_dtype);
    s = add_b(device, inputs_.back().buffer);
  }
  b_ = std::vector<GuardedBuffer>(static_cast<size_t>(std::max(1, options_.rotations)) - 1);
  for (GuardedBuffer& b : b_) s = s ? add_b(device, b) : s;
  if (s) {
    s = d_.allocate(device, g.d_dtype,
                    {{g.batch, g.stride_d_batch}, {p_.d_rows, g.stride_d_m}, {g.out_n(), g.stride_d_n}});
  }
  if (s) s = status_.allocate(device, DType::kI32, {{1, 1}});
  const auto add_scale = [&](const ScaleProblem& scale, uint16_t slot, const char* name, int64_t outer) {
    if (!s || !scale.present()) return;
    const ScaleCounts counts = scale_counts(scale, outer, g.k);
    s = add(device, slot, name, scale.dtype,
            {{g.batch, scale.stride_batch}, {counts.outer, scale.stride_outer}, {counts.k, scale.stride_k}});
  };
  add_scale(g.scale_a, kSlotScaleA, "scale_a", p_.a_rows);
  add_scale(g.scale_b, kSlotScaleB, "scale_b", g.n);
  add_scale(g.zero_b, kSlotZeroB, "zero_b", g.n);
  const auto add_operand = [&](const OperandProblem& o, uint16_t slot, const char* name) {
    if (!s || !o.present()) return;
    s = add(device, slot, name, o.dtype, {{g.batch, o.stride_batch}, {p_.d_rows, o.stride_m}, {g.n, o.stride_n}});
  };
  add_operand(g.c, kSlotC, "c");
  add_operand(g.bias, kSlotBias, "bias");
  for (int i = 0; i < g.step_count; ++i) {
    add_operand(g.steps[i].operand, static_cast<uint16_t>(kSlotStep0 + i), "a step's tensor");
  }
  const auto add_numbers = [&](bool present, uint16_t slot, const char* name, int64_t count) {
    if (s && present) s = add(device, slot, name, DType::kI32, {{count, 1}});
  };
  add_numbers(p_.has_sizes(), kSlotSizes, "sizes", g.batch);
  add_numbers(p_.has_offsets(), kSlotOffsets, "offsets", g.batch + 1);
  add_numbers(p_.has_gather != 0, kSlotGather, "gather", g.m);
  add_numbers(p_.has_scatter != 0, kSlotScatter, "scatter", g.m);
  return s;
}

void GroupedGemmInstance::fill(uint64_t seed, InputData data) {
  references_.clear();
  uint64_t of_tensor = seed * 32;
  for (InputTensor& t : inputs_) {
    ++of_tensor;
    const int64_t count = t.dtype == DType::kI32 ? 0 : t.buffer.bytes() * 8 / dtype_bits(t.dtype);
    if (on_device(t)) {
      note(options_.device_data->fill_random(t.dtype, t.buffer.first(), count, data, of_tensor, 1));
    } else if (count > 0) {
      fill_random(t.dtype, t.buffer.begin(), count, data, of_tensor);
    }
    for (GuardedBuffer& copy : b_) {
      if (t.slot != kSlotB) break;
      note(on_device(t) ? options_.device_data->fill_random(t.dtype, copy.first(), count, data, of_tensor, 1)
                        : t.buffer.send_to(copy));
    }
  }
  groups_ = draw_groups(p_, seed);
  places_ = place_groups(p_, groups_);
  fill_numbers(kSlotSizes, groups_.sizes);
  fill_numbers(kSlotOffsets, groups_.offsets);
  fill_numbers(kSlotGather, groups_.gather);
  fill_numbers(kSlotScatter, groups_.scatter);
  // Scalars that are used at all differ from their neutral values.
  bound_.scalars.fill(0);
  bound_.scalars[kScalarAlpha] = p_.gemm.has_alpha ? 0.75f : 1.0f;
  bound_.scalars[kScalarBeta] = p_.gemm.c.present() ? -1.25f : 0.0f;
  for (size_t i = kScalarLow; i < kGemmScalarSlots; i += 2) {
    bound_.scalars[i] = -0.5f, bound_.scalars[i + 1] = 0.75f;
  }
  for (InputTensor& t : inputs_) {
    if (!on_device(t)) note(t.buffer.send());
    t.sum = checksum(t);
  }
}

bool GroupedGemmInstance::check_untouched(VerifyReport& report) {
  report.failure = d_.guard_failure("d");
  if (report.failure.empty()) report.failure = status_.guard_failure("status");
  for (const InputTensor& t : inputs_) {
    if (report.failure.empty()) report.failure = t.buffer.guard_failure(t.name);
    if (report.failure.empty() && checksum(t) != t.sum) report.failure = fmt::format("changed {}", t.name);
  }
  return report.failure.empty();
}

// Every element of D that a group has was written, no other byte was, and the status word says what was clamped.
bool GroupedGemmInstance::check_written(VerifyReport& report) {
  const auto size = static_cast<size_t>(dtype_bits(p_.gemm.d_dtype) / 8);
  const int64_t bytes = d_.bytes();
  std::vector<bool> expected(static_cast<size_t>(bytes) / size, false);
  const auto first =
      static_cast<int64_t>(static_cast<uint8_t*>(d_.host_data()) - d_.begin()) / static_cast<int64_t>(size);
  for (int64_t g = 0; g < p_.gemm.batch; ++g) {
    const GroupRange all = output_rows(p_, places_.ranges[static_cast<size_t>(g)]);
    for (int64_t row = all.begin; row < all.begin + all.count; ++row) {
      const int64_t at = grouped_gemm_output_index(p_, groups_, g, row, 0);
      for (int64_t n = 0; at >= 0 && n < p_.gemm.out_n(); ++n) {
        expected[static_cast<size_t>(first + at + n * p_.gemm.stride_d_n)] = true;
      }
    }
  }
  const uint8_t poison[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool written = std::memcmp(d_.begin() + i * size, poison, size) != 0;
    if (written == expected[i]) continue;
    const int64_t at = static_cast<int64_t>(i) - first;
    report.failure = written ? fmt::format("wrote element {} of d, which is in no group", at)
                             : fmt::format("element {} of d was not written (poison is left)", at);
    return false;
  }
  if (!p_.has_status) return true;
  const int32_t status = *reinterpret_cast<const int32_t*>(status_.begin());
  if (status == (places_.clamped ? kGroupsClamped : 0)) return true;
  report.failure = fmt::format("status is {}, numbers were {}clamped", status, places_.clamped ? "" : "not ");
  return false;
}

// All of it, or, of problems whose reference takes too long, some groups that have rows, some rows and columns of each.
std::vector<GroupedGemmInstance::Sample> GroupedGemmInstance::choose_samples() const {
  constexpr int64_t kGroups = 8, kRows = 64;
  const double sources = p_.gemm.gate == GateMode::kNone ? 1 : 2;
  std::vector<int64_t> filled;
  double work = 0;
  for (int64_t g = 0; g < p_.gemm.batch; ++g) {
    const GroupRange& range = places_.ranges[static_cast<size_t>(g)];
    const int64_t rows = output_rows(p_, range).count;
    if (rows == 0) continue;
    filled.push_back(g);
    const auto depth = static_cast<double>(p_.mode == GroupMode::kRaggedK ? range.count : p_.gemm.k);
    work += static_cast<double>(rows) * static_cast<double>(p_.gemm.out_n()) * std::max(1.0, depth) * sources;
  }
  const auto limit = static_cast<double>(options_.compare_limit);
  const bool whole = work <= limit;
  std::vector<Sample> samples;
  const std::vector<int64_t> groups =
      sample_indices(static_cast<int64_t>(filled.size()), whole ? static_cast<int64_t>(filled.size()) : kGroups, 3);
  for (const int64_t i : groups) {
    Sample sample{filled[static_cast<size_t>(i)], {}, {}};
    const GroupRange& range = places_.ranges[static_cast<size_t>(sample.group)];
    const GroupRange all = output_rows(p_, range);
    const auto depth = static_cast<double>(p_.mode == GroupMode::kRaggedK ? range.count : p_.gemm.k);
    const auto each = static_cast<int64_t>(limit / static_cast<double>(groups.size()) / std::max(1.0, depth) / sources);
    const int64_t some = std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(static_cast<double>(each))), 1, kRows);
    sample.rows = sample_indices(all.count, whole ? all.count : some, 7);
    for (int64_t& row : sample.rows) row += all.begin;
    sample.columns = sample_indices(p_.gemm.out_n(), whole ? p_.gemm.out_n() : std::max<int64_t>(each / some, 1), 11);
    samples.push_back(std::move(sample));
  }
  return samples;
}

// What lies on the device only: lines along K, or all of an operand whose lines are not in one piece.
void GroupedGemmInstance::fetch_compared(const Sample& sample) {
  const GemmProblem& g = p_.gemm;
  for (InputTensor& t : inputs_) {
    if (!on_device(t)) continue;
    const bool is_a = t.slot == kSlotA;
    if (p_.mode == GroupMode::kRaggedK || g.b_packed || (is_a ? g.stride_a_k : g.stride_b_k) != 1) {
      note(t.buffer.fetch());
      continue;
    }
    const int64_t size = dtype_bits(t.dtype) / 8;
    const auto fetch_line = [&](int64_t line) {
      const int64_t batch = is_a ? g.stride_a_batch : g.stride_b_batch, step = is_a ? g.stride_a_m : g.stride_b_n;
      note(t.buffer.fetch((sample.group * batch + line * step) * size, g.k * size));
    };
    if (is_a) {
      for (const int64_t row : sample.rows) {
        const int64_t line = p_.mode == GroupMode::kContiguous ? place_row(p_, groups_, row).a : row;
        if (line >= 0) fetch_line(line);
      }
      continue;
    }
    for (const int64_t column : sample.columns) {
      if (g.gate == GateMode::kNone) fetch_line(column);
      if (g.gate == GateMode::kSeparated) fetch_line(column), fetch_line(column + g.n / 2);
      if (g.gate == GateMode::kInterleaved) fetch_line(2 * column), fetch_line(2 * column + 1);
    }
  }
}

void GroupedGemmInstance::compare(VerifyReport& report) {
  const std::vector<Sample> samples = choose_samples();
  collect(0, &GuardedBuffer::host_data);
  if (references_.empty()) {
    references_.resize(samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      const Sample& s = samples[i];
      fetch_compared(s);
      grouped_gemm_reference_block(p_, groups_, places_.ranges[static_cast<size_t>(s.group)], bound_, vendor_, s.group,
                                   s.rows, s.columns, references_[i]);
    }
  }
  Comparison comparison(p_.gemm.d_dtype, report);
  for (size_t s = 0; s < samples.size(); ++s) {
    const Sample& sample = samples[s];
    for (size_t i = 0; i < references_[s].size(); ++i) {
      const int64_t row = sample.rows[i / sample.columns.size()], column = sample.columns[i % sample.columns.size()];
      const int64_t at = grouped_gemm_output_index(p_, groups_, sample.group, row, column);
      if (at < 0) continue;
      comparison.add(load_element(p_.gemm.d_dtype, d_.host_data(), at), references_[s][i], {sample.group, row, column});
    }
  }
  comparison.finish();
}

VerifyReport GroupedGemmInstance::verify() {
  constexpr size_t kKeptReferences = size_t{1} << 17;
  VerifyReport report;
  for (InputTensor& t : inputs_) note(on_device(t) ? t.buffer.fetch_guards() : t.buffer.fetch());
  note(d_.fetch());
  note(status_.fetch());
  if (!problem_.ok()) {
    report.failure = problem_.message();
    report.worst_ratio = std::numeric_limits<double>::infinity();
    return report;
  }
  if (!check_untouched(report) || !check_written(report)) {
    report.worst_ratio = std::numeric_limits<double>::infinity();
    return report;
  }
  compare(report);
  if (!problem_.ok()) report.passed = false, report.failure = problem_.message();
  size_t kept = 0;
  for (const std::vector<ReferenceElement>& reference : references_) kept += reference.size();
  if (kept > kKeptReferences) references_.clear();
  return report;
}

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_grouped_gemm_instance(const GroupedGemmProblem& problem, Device& device,
                                                                    const InstanceOptions& options) {
  if (problem.gemm.b_packed && problem.gemm.b_packed != kPackedFragments) {
    return Status(StatusCode::kUnsupported, "grouped_gemm: an instance has no B in panels");
  }
  auto instance = std::make_unique<GroupedGemmInstance>(problem, device.spec().arch->vendor, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
