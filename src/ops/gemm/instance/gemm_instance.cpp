// SPDX-License-Identifier: MIT
// A gemm problem made real: guarded buffers, seeded data, poisoned outputs, and the verdict against the reference.
#include "ops/gemm/instance/gemm_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/instance/device_data.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/lane_map.hpp"
#include "dispatch/instance/random_data.hpp"
#include "ops/gemm/instance/gemm_reference.hpp"

namespace tilewright {
namespace {

constexpr size_t kKeptReferences = size_t{1} << 17;

class GemmInstance final : public ProblemInstance {
 public:
  GemmInstance(const GemmProblem& problem, ArchVendor vendor, const InstanceOptions& options)
      : p_(problem), vendor_(vendor), options_(options) {}

  Status allocate(Device& device) {
    if (Status s = a_.allocate(device, p_.a_dtype,
                               {{p_.batch, p_.stride_a_batch}, {p_.m, p_.stride_a_m}, {p_.k, p_.stride_a_k}});
        !s)
      return s;
    b_ = std::vector<GuardedBuffer>(static_cast<size_t>(std::max(1, options_.rotations)));
    for (GuardedBuffer& b : b_) {
      Status s;
      if (p_.b_packed) {
        const int64_t batches = p_.stride_b_batch == 0 ? 1 : p_.batch;
        s = b.allocate(device, (batches - 1) * p_.stride_b_batch + packed_entry_bytes(p_));
      } else {
        s = b.allocate(device, p_.b_dtype,
                       {{p_.batch, p_.stride_b_batch}, {p_.k, p_.stride_b_k}, {p_.n, p_.stride_b_n}});
      }
      if (!s) return s;
    }
    if (Status s = d_.allocate(device, p_.d_dtype,
                               {{p_.batch, p_.stride_d_batch}, {p_.m, p_.stride_d_m}, {p_.out_n(), p_.stride_d_n}});
        !s)
      return s;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (operand_dtype(i) == DType::kNone) continue;
      if (Status s = is_scale(i) ? allocate_scale(device, i) : allocate_operand(device, i); !s) return s;
    }
    return {};
  }

  void fill(uint64_t seed, InputData data) override {
    references_.clear();
    fill_a(seed * 16 + 1, data);
    if (on_device(b_[0])) {
      for (GuardedBuffer& b : b_) note(fill_there(b, p_.b_dtype, seed * 16 + 2, data));
    } else {
      fill_b(seed * 16 + 2, data);
      for (size_t i = 1; i < b_.size(); ++i) note(b_[0].send_to(b_[i]));
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].allocated()) continue;
      const DType dtype = operand_dtype(i);
      fill_random(dtype, operands_[i].begin(), operands_[i].bytes() * 8 / dtype_bits(dtype), data, seed * 16 + 3 + i);
    }
    // Scalars that are used at all differ from their neutral values.
    scalars_.fill(0);
    scalars_[kScalarAlpha] = p_.has_alpha ? 0.75f : 1.0f;
    scalars_[kScalarBeta] = p_.c.present() ? -1.25f : 0.0f;
    for (int i = kScalarLow; i < kGemmScalarSlots; i += 2)
      scalars_[static_cast<size_t>(i)] = -0.5f, scalars_[static_cast<size_t>(i + 1)] = 0.75f;
    sums_.clear();
    for (GuardedBuffer* buffer : inputs()) {
      if (!on_device(*buffer)) note(buffer->send());
      sums_.push_back(checksum(*buffer));
    }
  }

  void poison() override { note(d_.fill(0xFF)); }  // NaN in every float

  CallBindings bindings(int rotation) override {
    collect_pointers(static_cast<size_t>(rotation) % b_.size(), &GuardedBuffer::data);
    return {pointers_, scalars_, nullptr};
  }
  int rotations() const override { return static_cast<int>(b_.size()); }

  VerifyReport verify() override;

 private:
  // Of operands_[i].
  const OperandProblem& operand(size_t i) const { return i == 2 ? p_.c : i == 3 ? p_.bias : p_.steps[i - 4].operand; }
  static constexpr size_t kZero = kSlotZeroB - kSlotScaleA;
  static bool is_scale(size_t i) { return i < 2 || i == kZero; }
  const ScaleProblem& scale(size_t i) const { return i == 0 ? p_.scale_a : i == 1 ? p_.scale_b : p_.zero_b; }
  DType operand_dtype(size_t i) const { return is_scale(i) ? scale(i).dtype : operand(i).dtype; }
  Status allocate_operand(Device& device, size_t i) {
    const OperandProblem& o = operand(i);
    return operands_[i].allocate(device, o.dtype, {{p_.batch, o.stride_batch}, {p_.m, o.stride_m}, {p_.n, o.stride_n}});
  }
  Status allocate_scale(Device& device, size_t i) {
    const ScaleProblem& s = scale(i);
    const ScaleCounts counts = scale_counts(s, i == 0 ? p_.m : p_.n, p_.k);
    return operands_[i].allocate(device, s.dtype,
                                 {{p_.batch, s.stride_batch}, {counts.outer, s.stride_outer}, {counts.k, s.stride_k}});
  }

  void fill_a(uint64_t seed, InputData data) {
    if (on_device(a_)) return note(fill_there(a_, p_.a_dtype, seed, data));
    fill_random(p_.a_dtype, a_.begin(), a_.bytes() * 8 / dtype_bits(p_.a_dtype), data, seed);
  }
  void fill_b(uint64_t seed, InputData data);
  // A and B are made on the device where that is possible; what the reference needs of them is fetched.
  bool on_device(const GuardedBuffer& buffer) const {
    if (options_.device_data == nullptr) return false;
    if (&buffer == &a_) return DeviceData::fills(p_.a_dtype);
    return &buffer == &b_[0] && DeviceData::fills(p_.b_dtype) && !p_.b_packed;
  }
  Status fill_there(const GuardedBuffer& buffer, DType dtype, uint64_t seed, InputData data) {
    const int64_t count = buffer.bytes() * 8 / dtype_bits(dtype);
    return options_.device_data->fill_random(dtype, buffer.first(), count, data, seed, 1);
  }
  uint64_t checksum(const GuardedBuffer& buffer) {
    if (!on_device(buffer)) return buffer.checksum();
    const Result<uint64_t> sum = options_.device_data->checksum(buffer.first(), buffer.bytes());
    note(sum.status());
    return sum ? *sum : 0;
  }
  // Lines of a matrix that are compared, or all of it where that is hardly more.
  struct Lines {
    std::span<const int64_t> numbers, batches;
    int64_t count, length;  // in all; elements of one
    int64_t stride_batch, stride, stride_element;
  };
  void fetch(GuardedBuffer& buffer, DType dtype, const Lines& lines);
  void fetch_compared(std::span<const int64_t> batches, std::span<const int64_t> rows,
                      std::span<const int64_t> columns);
  void compare(VerifyReport& report);
  bool check_untouched(VerifyReport& report);
  bool check_written(VerifyReport& report);
  std::vector<GuardedBuffer*> inputs() {
    std::vector<GuardedBuffer*> all = {&a_, &b_[0]};
    for (GuardedBuffer& o : operands_) {
      if (o.allocated()) all.push_back(&o);
    }
    return all;
  }
  void collect_pointers(size_t rotation, void* (GuardedBuffer::*address)() const) {
    pointers_[kSlotA] = (a_.*address)();
    pointers_[kSlotB] = (b_[rotation].*address)();
    pointers_[kSlotD] = (d_.*address)();
    for (size_t i = 0; i < operands_.size(); ++i) {
      pointers_[kSlotScaleA + i] = operands_[i].allocated() ? (operands_[i].*address)() : nullptr;
    }
  }
  // Keeps the first error of carrying data: verify() tells of it.
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  GemmProblem p_;
  ArchVendor vendor_;  // whose kernels are verified
  InstanceOptions options_;
  GuardedBuffer a_, d_;
  std::vector<GuardedBuffer> b_;
  std::array<GuardedBuffer, 5 + kMaxSteps> operands_;  // scale_a, scale_b, c, bias, steps, zero_b
  std::array<const void*, kGemmPointerSlots> pointers_{};
  std::array<float, kGemmScalarSlots> scalars_{};
  std::vector<uint64_t> sums_;
  std::vector<std::vector<ReferenceElement>> references_;  // of each compared batch; empty: not known for this data
  Status problem_;
};

void GemmInstance::fetch(GuardedBuffer& buffer, DType dtype, const Lines& lines) {
  const auto wanted = static_cast<int64_t>(lines.numbers.size() * lines.batches.size());
  if (lines.stride_element != 1 || wanted * 2 > lines.count) return note(buffer.fetch());
  const int64_t size = dtype_bits(dtype) / 8;
  for (const int64_t batch : lines.batches) {
    for (const int64_t line : lines.numbers) {
      note(buffer.fetch((batch * lines.stride_batch + line * lines.stride) * size, lines.length * size));
    }
  }
}

void GemmInstance::fetch_compared(std::span<const int64_t> batches, std::span<const int64_t> rows,
                                  std::span<const int64_t> columns) {
  if (options_.device_data == nullptr) return;
  fetch(d_, p_.d_dtype, {rows, batches, p_.m * p_.batch, p_.out_n(), p_.stride_d_batch, p_.stride_d_m, p_.stride_d_n});
  if (!references_.empty()) return;
  if (on_device(a_))
    fetch(a_, p_.a_dtype, {rows, batches, p_.m * p_.batch, p_.k, p_.stride_a_batch, p_.stride_a_m, p_.stride_a_k});
  if (!on_device(b_[0])) return;
  std::vector<int64_t> sources;
  for (const int64_t column : columns) {
    if (p_.gate == GateMode::kNone) {
      sources.push_back(column);
    } else if (p_.gate == GateMode::kSeparated) {
      sources.insert(sources.end(), {column, column + p_.n / 2});
    } else {
      sources.insert(sources.end(), {2 * column, 2 * column + 1});
    }
  }
  fetch(b_[0], p_.b_dtype, {sources, batches, p_.n * p_.batch, p_.k, p_.stride_b_batch, p_.stride_b_n, p_.stride_b_k});
}

void GemmInstance::fill_b(uint64_t seed, InputData data) {
  const int64_t count = b_[0].bytes() * 8 / dtype_bits(p_.b_dtype);
  fill_random(p_.b_dtype, b_[0].begin(), count, data, seed);
  if (!p_.b_packed || p_.b_packed == kPackedFragments) return;
  // Packed: random panels, then zero padding and, for i8, the column sums.
  const PackedLayout layout = packed_layout(p_.b_dtype, p_.n, p_.k);
  const int64_t lines = layout.lines, kp = layout.kp, panels = packed_panels(p_.n);
  const int bits = dtype_bits(p_.b_dtype);
  const int64_t batches = p_.stride_b_batch == 0 ? 1 : p_.batch;
  for (int64_t b = 0; b < batches; ++b) {
    uint8_t* base = b_[0].begin() + b * p_.stride_b_batch;
    auto element = [&](int64_t panel, int64_t k, int64_t column) {
      return base + panel * layout.panel_bytes + layout.element(k, column) * bits / 8;
    };
    auto clear = [&](int64_t panel, int64_t k, int64_t column) {
      uint8_t* const at = element(panel, k, column);
      if (bits == 4) {
        *at = static_cast<uint8_t>(*at & (k % 2 != 0 ? 0x0F : 0xF0));
      } else {
        std::memset(at, 0, static_cast<size_t>(bits / 8));
      }
    };
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t k = 0; k < lines * kp; ++k) {
        const int64_t valid = k < p_.k ? std::min<int64_t>(kPanelColumns, p_.n - panel * kPanelColumns) : 0;
        for (int64_t c = valid; c < kPanelColumns; ++c) clear(panel, k, c);
        if (k + kp <= p_.k && valid == kPanelColumns) k += kp - 1 - k % kp;  // whole line is data
      }
    }
    if (p_.b_dtype != DType::kI8) continue;
    auto* sums = reinterpret_cast<int32_t*>(base + panels * layout.panel_bytes);
    for (int64_t n = 0; n < panels * kPanelColumns; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < lines * kp; ++k)
        sum += static_cast<int8_t>(*element(n / kPanelColumns, k, n % kPanelColumns));
      sums[n] = sum;
    }
  }
}

bool GemmInstance::check_untouched(VerifyReport& report) {
  struct Named {
    const char* name;
    const GuardedBuffer* buffer;
  };
  std::vector<Named> all = {{"a", &a_}, {"b", &b_[0]}, {"d", &d_}};
  for (const GuardedBuffer& o : operands_) {
    if (o.allocated()) all.push_back({"an epilogue operand", &o});
  }
  for (const Named& n : all) {
    report.failure = n.buffer->guard_failure(n.name);
    if (report.failure.empty()) continue;
    return false;
  }
  size_t i = 0;
  for (GuardedBuffer* buffer : inputs()) {
    if (i < sums_.size() && checksum(*buffer) != sums_[i]) {
      report.failure = "changed an input";
      return false;
    }
    ++i;
  }
  return true;
}

// Every element of D was written (no poison is left), and nothing between its rows was.
bool GemmInstance::check_written(VerifyReport& report) {
  const auto not_written = [&report](int64_t b, int64_t m, int64_t n) {
    report.failure = fmt::format("element [{}, {}, {}] was not written (poison is left)", b, m, n);
    return false;
  };
  const auto behind_row = [&report](int64_t m) {
    report.failure = fmt::format("wrote between rows {} and {} of d", m, m + 1);
    return false;
  };
  if (options_.device_data != nullptr) {
    const Result<DeviceData::Traces> traces = options_.device_data->find_traces(
        {d_.data(), p_.d_dtype, p_.batch, p_.m, p_.out_n(), p_.stride_d_batch, p_.stride_d_m, p_.stride_d_n});
    note(traces.status());
    if (!traces) return report.failure = traces.status().message(), false;
    const int64_t each = p_.m * p_.out_n();
    if (const int64_t at = traces->unwritten; at >= 0)
      return not_written(at / each, at % each / p_.out_n(), at % p_.out_n());
    return traces->written_gap < 0 || behind_row(traces->written_gap % p_.m);
  }
  const size_t size = static_cast<size_t>(dtype_bits(p_.d_dtype) / 8);
  const uint8_t poison[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  const auto* const data = static_cast<const uint8_t*>(d_.host_data());
  for (int64_t b = 0; b < p_.batch; ++b) {
    for (int64_t m = 0; m < p_.m; ++m) {
      for (int64_t n = 0; n < p_.out_n(); ++n) {
        const int64_t at = b * p_.stride_d_batch + m * p_.stride_d_m + n * p_.stride_d_n;
        if (std::memcmp(data + at * static_cast<int64_t>(size), poison, size) == 0) return not_written(b, m, n);
      }
      if (p_.stride_d_n != 1 || p_.stride_d_m <= p_.out_n() || m + 1 == p_.m) continue;
      const auto* gap = data + (b * p_.stride_d_batch + m * p_.stride_d_m + p_.out_n()) * static_cast<int64_t>(size);
      for (int64_t i = 0; i < (p_.stride_d_m - p_.out_n()) * static_cast<int64_t>(size); ++i) {
        if (gap[i] != 0xFF) return behind_row(m);
      }
    }
  }
  return true;
}

void GemmInstance::compare(VerifyReport& report) {
  // Rows x columns whose reference stays within the budget: all of them, or tails plus a sample.
  const double sources = p_.gate == GateMode::kNone ? 1 : 2;
  const double budget =
      static_cast<double>(options_.compare_limit) / (std::max<double>(1, static_cast<double>(p_.k)) * sources);
  int64_t rows_limit = p_.m, columns_limit = p_.out_n(), batches_limit = p_.batch;
  if (static_cast<double>(p_.m) * static_cast<double>(p_.out_n()) * static_cast<double>(p_.batch) > budget) {
    batches_limit = std::min<int64_t>(p_.batch, 3);
    const double each = std::max(1.0, budget / static_cast<double>(batches_limit));
    rows_limit = std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(each)), 1, std::min<int64_t>(p_.m, 64));
    columns_limit = std::clamp<int64_t>(static_cast<int64_t>(each) / rows_limit, 1, p_.out_n());
  }
  GemmBindings bindings;
  collect_pointers(0, &GuardedBuffer::host_data);
  std::copy(pointers_.begin(), pointers_.end(), bindings.pointers.begin());
  std::copy(scalars_.begin(), scalars_.end(), bindings.scalars.begin());

  const std::vector<int64_t> columns = sample_indices(p_.out_n(), columns_limit, 11),
                             rows = sample_indices(p_.m, rows_limit, 7);
  const std::vector<int64_t> batches = sample_indices(p_.batch, batches_limit, 3);
  fetch_compared(batches, rows, columns);
  if (references_.empty()) {
    references_.resize(batches.size());
    for (size_t i = 0; i < batches.size(); ++i)
      gemm_reference_block(p_, bindings, vendor_, batches[i], rows, columns, references_[i]);
  }
  Comparison comparison(p_.d_dtype, report);
  const auto load = [&](size_t b, int64_t row, int64_t column) {
    return load_element(p_.d_dtype, d_.host_data(),
                        batches[b] * p_.stride_d_batch + row * p_.stride_d_m + column * p_.stride_d_n);
  };
  for (size_t b = 0; b < batches.size(); ++b) {
    for (size_t i = 0; i < references_[b].size(); ++i) {
      const int64_t row = rows[i / columns.size()], column = columns[i % columns.size()];
      comparison.add(load(b, row, column), references_[b][i], {batches[b], row, column});
    }
  }
  comparison.finish();
  if (report.passed || static_cast<int64_t>(rows.size()) != p_.m || static_cast<int64_t>(columns.size()) != p_.out_n())
    return;
  for (size_t b = 0; b < batches.size(); ++b) {
    const std::string found = find_lane_map(references_[b], p_.m, p_.out_n(),
                                            [&](int64_t row, int64_t column) { return load(b, row, column); });
    if (found.empty()) continue;
    report.failure += "; " + found;
    break;
  }
}

VerifyReport GemmInstance::verify() {
  VerifyReport report;
  for (GuardedBuffer* buffer : inputs()) note(on_device(*buffer) ? buffer->fetch_guards() : buffer->fetch());
  note(options_.device_data != nullptr ? d_.fetch_guards() : d_.fetch());
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
  // References are kept for the next kernel on the same data, but not without end.
  size_t kept = 0;
  for (const std::vector<ReferenceElement>& reference : references_) kept += reference.size();
  if (kept > kKeptReferences) references_.clear();
  return report;
}

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_gemm_instance(const GemmProblem& problem, Device& device,
                                                            const InstanceOptions& options) {
  auto instance = std::make_unique<GemmInstance>(problem, device.spec().arch->vendor, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
