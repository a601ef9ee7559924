// SPDX-License-Identifier: MIT
// A gemm problem made real: guarded buffers, seeded data, poisoned outputs, and the verdict against the reference.
#include "ops/gemm/gemm_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "core/tolerance.hpp"
#include "ops/gemm/gemm_reference.hpp"

namespace tilewright {
namespace {

constexpr int64_t kGuard = 4096;          // bytes before and after every buffer
constexpr uint8_t kGuardByte = 0xA5;
constexpr int kTableBits = 16;            // entries of the table that random data is drawn from

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// 2^16 values of the wanted distribution in the wanted dtype; drawing is then one hash for four elements.
std::vector<uint8_t> value_table(DType dtype, InputData data, uint64_t seed, double scale) {
  const int64_t bytes = dtype_bits(dtype) / 8;
  std::vector<uint8_t> table(static_cast<size_t>(bytes) << kTableBits);
  for (int64_t i = 0; i < int64_t{1} << kTableBits; ++i) {
    const uint64_t bits = mix(seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(i));
    const double u = (static_cast<double>(bits >> 40) + 0.5) * 0x1p-24;
    const double v = static_cast<double>(bits & 0xFFFFFF) * 0x1p-24;
    double value = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v) * scale;  // Box-Muller
    if (data == InputData::kIntegers) value = static_cast<double>(static_cast<int64_t>(bits % 7) - 3);
    if (dtype == DType::kI8 && data == InputData::kNormal) value = static_cast<double>(static_cast<int64_t>(bits % 256) - 128);
    store_element(dtype, table.data(), i, value);
  }
  return table;
}

void fill_random(DType dtype, void* out, int64_t count, InputData data, uint64_t seed, double scale = 1) {
  const std::vector<uint8_t> table = value_table(dtype, data, seed, scale);
  const size_t bytes = static_cast<size_t>(dtype_bits(dtype) / 8);
  auto* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < count; i += 4) {
    uint64_t bits = mix(seed + 0x632BE59BD9B4E019ull * static_cast<uint64_t>(i + 1));
    for (int64_t j = i; j < std::min(count, i + 4); ++j, bits >>= kTableBits) {
      std::memcpy(to + static_cast<size_t>(j) * bytes, table.data() + (bits & 0xFFFF) * bytes, bytes);
    }
  }
}

// A guarded buffer of the device: the strided tensor's elements lie between `low` and `high` around data().
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (base_ != nullptr) device_->deallocate(base_, total_);
  }

  Status allocate(Device& device, int64_t bytes, int64_t offset) {
    device_ = &device;
    bytes_ = bytes;
    offset_ = offset;
    total_ = bytes + 2 * kGuard;
    Result<void*> memory = device.allocate(total_);
    if (!memory) return memory.status();
    base_ = static_cast<uint8_t*>(*memory);
    std::memset(base_, kGuardByte, kGuard);
    std::memset(base_ + kGuard + bytes_, kGuardByte, kGuard);
    return {};
  }
  bool allocated() const { return base_ != nullptr; }
  uint8_t* begin() const { return base_ + kGuard; }
  int64_t bytes() const { return bytes_; }
  void* data() const { return begin() + offset_; }  // element [0, 0, 0]
  // Bytes of the guards that changed, as a position relative to begin(); 0 with found = false when intact.
  bool guard_broken(int64_t& where) const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (base_[i] != kGuardByte) return where = i - kGuard, true;
      if (base_[kGuard + bytes_ + i] != kGuardByte) return where = bytes_ + i, true;
    }
    return false;
  }

 private:
  Device* device_ = nullptr;
  uint8_t* base_ = nullptr;
  int64_t bytes_ = 0, offset_ = 0, total_ = 0;
};

struct Extent {
  int64_t size, stride;
};

Status allocate_strided(Buffer& buffer, Device& device, DType dtype, std::array<Extent, 3> extents) {
  int64_t low = 0, high = 0;
  for (const Extent& e : extents) (e.stride < 0 ? low : high) += std::max<int64_t>(e.size - 1, 0) * e.stride;
  const int64_t bytes = dtype_bits(dtype) / 8;
  return buffer.allocate(device, (high - low + 1) * bytes, -low * bytes);
}

// A checksum that notices a changed input; cheap enough for hundreds of megabytes.
uint64_t checksum(const Buffer& buffer) {
  uint64_t sum = 0, word = 0;
  int64_t i = 0;
  for (; i + 8 <= buffer.bytes(); i += 8) {
    std::memcpy(&word, buffer.begin() + i, 8);
    sum = (sum ^ word) * 0x100000001B3ull;
  }
  for (; i < buffer.bytes(); ++i) sum = (sum ^ buffer.begin()[i]) * 0x100000001B3ull;
  return sum;
}

class GemmInstance final : public ProblemInstance {
 public:
  GemmInstance(const GemmProblem& problem, const InstanceOptions& options) : p_(problem), options_(options) {}

  Status allocate(Device& device) {
    if (Status s = allocate_strided(a_, device, p_.a_dtype,
                                    {Extent{p_.batch, p_.stride_a_batch}, {p_.m, p_.stride_a_m}, {p_.k, p_.stride_a_k}});
        !s)
      return s;
    b_ = std::vector<Buffer>(static_cast<size_t>(std::max(1, options_.rotations)));
    for (Buffer& b : b_) {
      Status s;
      if (p_.b_packed) {
        const int64_t batches = p_.stride_b_batch == 0 ? 1 : p_.batch;
        s = b.allocate(device, (batches - 1) * p_.stride_b_batch + packed_batch_bytes(p_.b_dtype, p_.n, p_.k), 0);
      } else {
        s = allocate_strided(b, device, p_.b_dtype,
                             {Extent{p_.batch, p_.stride_b_batch}, {p_.k, p_.stride_b_k}, {p_.n, p_.stride_b_n}});
      }
      if (!s) return s;
    }
    if (Status s = allocate_strided(
            d_, device, p_.d_dtype,
            {Extent{p_.batch, p_.stride_d_batch}, {p_.m, p_.stride_d_m}, {p_.out_n(), p_.stride_d_n}});
        !s)
      return s;
    const OperandProblem* operands[] = {&p_.scale_a, &p_.scale_b, &p_.c, &p_.bias};
    for (int i = 0; i < 4 + p_.step_count; ++i) {
      const OperandProblem& o = i < 4 ? *operands[i] : p_.steps[i - 4].operand;
      if (!o.present()) continue;
      if (Status s = allocate_strided(operands_[static_cast<size_t>(i)], device, o.dtype,
                                      {Extent{p_.batch, o.stride_batch}, {p_.m, o.stride_m}, {p_.n, o.stride_n}});
          !s)
        return s;
    }
    return {};
  }

  void fill(uint64_t seed, InputData data) override {
    fill_random(p_.a_dtype, a_.begin(), a_.bytes() * 8 / dtype_bits(p_.a_dtype), data, seed * 16 + 1);
    fill_b(seed * 16 + 2, data);
    for (size_t i = 1; i < b_.size(); ++i) std::memcpy(b_[i].begin(), b_[0].begin(), static_cast<size_t>(b_[0].bytes()));
    const OperandProblem* operands[] = {&p_.scale_a, &p_.scale_b, &p_.c, &p_.bias};
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].allocated()) continue;
      const DType dtype = i < 4 ? operands[i]->dtype : p_.steps[i - 4].operand.dtype;
      fill_random(dtype, operands_[i].begin(), operands_[i].bytes() * 8 / dtype_bits(dtype), data, seed * 16 + 3 + i);
    }
    // Scalars that are used at all differ from their neutral values.
    scalars_.fill(0);
    scalars_[kScalarAlpha] = p_.has_alpha ? 0.75f : 1.0f;
    scalars_[kScalarBeta] = p_.c.present() ? -1.25f : 0.0f;
    for (int i = kScalarLow; i < kGemmScalarSlots; i += 2) scalars_[static_cast<size_t>(i)] = -0.5f, scalars_[static_cast<size_t>(i + 1)] = 0.75f;
    sums_.clear();
    for (const Buffer* buffer : inputs()) sums_.push_back(checksum(*buffer));
  }

  void poison() override { std::memset(d_.begin(), 0xFF, static_cast<size_t>(d_.bytes())); }  // NaN in every float

  CallBindings bindings(int rotation) override {
    pointers_[kSlotA] = a_.data();
    pointers_[kSlotB] = b_[static_cast<size_t>(rotation) % b_.size()].data();
    pointers_[kSlotD] = d_.data();
    for (size_t i = 0; i < operands_.size(); ++i) {
      pointers_[kSlotScaleA + i] = operands_[i].allocated() ? operands_[i].data() : nullptr;
    }
    return {pointers_, scalars_, nullptr};
  }
  int rotations() const override { return static_cast<int>(b_.size()); }

  VerifyReport verify() override;

 private:
  void fill_b(uint64_t seed, InputData data);
  void compare(VerifyReport& report);
  bool check_untouched(VerifyReport& report);
  bool check_written(VerifyReport& report);
  std::vector<const Buffer*> inputs() const {
    std::vector<const Buffer*> all = {&a_, &b_[0]};
    for (const Buffer& o : operands_) {
      if (o.allocated()) all.push_back(&o);
    }
    return all;
  }

  GemmProblem p_;
  InstanceOptions options_;
  Buffer a_, d_;
  std::vector<Buffer> b_;
  std::array<Buffer, 4 + kMaxSteps> operands_;  // scale_a, scale_b, c, bias, steps
  std::array<const void*, kGemmPointerSlots> pointers_{};
  std::array<float, kGemmScalarSlots> scalars_{};
  std::vector<uint64_t> sums_;
};

void GemmInstance::fill_b(uint64_t seed, InputData data) {
  const int64_t count = b_[0].bytes() * 8 / dtype_bits(p_.b_dtype);
  fill_random(p_.b_dtype, b_[0].begin(), count, data, seed);
  if (!p_.b_packed) return;
  // Packed: random panels, then zero padding and, for i8, the column sums.
  const int kp = packed_kp(p_.b_dtype);
  const int64_t lines = packed_lines(p_.b_dtype, p_.k), panels = packed_panels(p_.n);
  const size_t size = static_cast<size_t>(dtype_bits(p_.b_dtype) / 8);
  const int64_t batches = p_.stride_b_batch == 0 ? 1 : p_.batch;
  for (int64_t b = 0; b < batches; ++b) {
    uint8_t* base = b_[0].begin() + b * p_.stride_b_batch;
    auto element = [&](int64_t panel, int64_t k, int64_t column) {
      return base + panel * packed_panel_bytes(p_.b_dtype, p_.k) +
             static_cast<size_t>(((k / kp) * kPanelColumns + column) * kp + k % kp) * size;
    };
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t k = 0; k < lines * kp; ++k) {
        const int64_t valid = k < p_.k ? std::min<int64_t>(kPanelColumns, p_.n - panel * kPanelColumns) : 0;
        for (int64_t c = valid; c < kPanelColumns; ++c) std::memset(element(panel, k, c), 0, size);
        if (k + kp <= p_.k && valid == kPanelColumns) k += kp - 1 - k % kp;  // whole line is data
      }
    }
    if (p_.b_dtype != DType::kI8) continue;
    auto* sums = reinterpret_cast<int32_t*>(base + panels * packed_panel_bytes(p_.b_dtype, p_.k));
    for (int64_t n = 0; n < panels * kPanelColumns; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < lines * kp; ++k) sum += static_cast<int8_t>(*element(n / kPanelColumns, k, n % kPanelColumns));
      sums[n] = sum;
    }
  }
}

bool GemmInstance::check_untouched(VerifyReport& report) {
  struct Named {
    const char* name;
    const Buffer* buffer;
  };
  std::vector<Named> all = {{"a", &a_}, {"b", &b_[0]}, {"d", &d_}};
  for (const Buffer& o : operands_) {
    if (o.allocated()) all.push_back({"an epilogue operand", &o});
  }
  for (const Named& n : all) {
    int64_t where = 0;
    if (!n.buffer->guard_broken(where)) continue;
    report.failure = fmt::format("wrote {} bytes {} the buffer of {}", where < 0 ? -where : where - n.buffer->bytes() + 1,
                                 where < 0 ? "before" : "past the end of", n.name);
    return false;
  }
  size_t i = 0;
  for (const Buffer* buffer : inputs()) {
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
  const size_t size = static_cast<size_t>(dtype_bits(p_.d_dtype) / 8);
  const uint8_t poison[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  for (int64_t b = 0; b < p_.batch; ++b) {
    for (int64_t m = 0; m < p_.m; ++m) {
      for (int64_t n = 0; n < p_.out_n(); ++n) {
        const int64_t at = b * p_.stride_d_batch + m * p_.stride_d_m + n * p_.stride_d_n;
        if (std::memcmp(static_cast<uint8_t*>(d_.data()) + at * static_cast<int64_t>(size), poison, size) == 0) {
          report.failure = fmt::format("element [{}, {}, {}] was not written (poison is left)", b, m, n);
          return false;
        }
      }
      if (p_.stride_d_n != 1 || p_.stride_d_m <= p_.out_n() || m + 1 == p_.m) continue;
      const auto* gap = static_cast<uint8_t*>(d_.data()) +
                        (b * p_.stride_d_batch + m * p_.stride_d_m + p_.out_n()) * static_cast<int64_t>(size);
      for (int64_t i = 0; i < (p_.stride_d_m - p_.out_n()) * static_cast<int64_t>(size); ++i) {
        if (gap[i] == 0xFF) continue;
        report.failure = fmt::format("wrote between rows {} and {} of d", m, m + 1);
        return false;
      }
    }
  }
  return true;
}

// All indices of [0, size) when they fit, else both ends, every 16-multiple neighbourhood's tail, and a seeded sample.
std::vector<int64_t> sample(int64_t size, int64_t limit, uint64_t seed) {
  std::vector<int64_t> all;
  if (size <= limit) {
    for (int64_t i = 0; i < size; ++i) all.push_back(i);
    return all;
  }
  std::set<int64_t> chosen;
  const int64_t ends = std::min<int64_t>(limit / 3 + 1, 24);
  for (int64_t i = 0; i < ends; ++i) chosen.insert({i, size - 1 - i});
  while (static_cast<int64_t>(chosen.size()) < limit) {
    chosen.insert(static_cast<int64_t>(mix(seed += 0x9E3779B97F4A7C15ull) % static_cast<uint64_t>(size)));
  }
  return {chosen.begin(), chosen.end()};
}

void GemmInstance::compare(VerifyReport& report) {
  // Rows x columns whose reference stays within the budget: all of them, or tails plus a sample.
  const double sources = p_.gate == GateMode::kNone ? 1 : 2;
  const double budget = static_cast<double>(options_.compare_limit) / (std::max<double>(1, static_cast<double>(p_.k)) * sources);
  int64_t rows_limit = p_.m, columns_limit = p_.out_n(), batches_limit = p_.batch;
  if (static_cast<double>(p_.m) * static_cast<double>(p_.out_n()) * static_cast<double>(p_.batch) > budget) {
    batches_limit = std::min<int64_t>(p_.batch, 3);
    const double each = std::max(1.0, budget / static_cast<double>(batches_limit));
    rows_limit = std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(each)), 1, std::min<int64_t>(p_.m, 64));
    columns_limit = std::clamp<int64_t>(static_cast<int64_t>(each) / rows_limit, 1, p_.out_n());
  }
  GemmBindings bindings;
  const CallBindings call = this->bindings(0);
  std::copy(call.pointers.begin(), call.pointers.end(), bindings.pointers.begin());
  std::copy(call.scalars.begin(), call.scalars.end(), bindings.scalars.begin());

  const std::vector<int64_t> columns = sample(p_.out_n(), columns_limit, 11), rows = sample(p_.m, rows_limit, 7);
  double error_squares = 0, reference_squares = 0;
  std::vector<ReferenceElement> block;
  for (int64_t batch : sample(p_.batch, batches_limit, 3)) {
    gemm_reference_block(p_, bindings, batch, rows, columns, block);
    for (size_t i = 0; i < block.size(); ++i) {
      const int64_t row = rows[i / columns.size()], column = columns[i % columns.size()];
      const double got = load_element(
          p_.d_dtype, d_.data(), batch * p_.stride_d_batch + row * p_.stride_d_m + column * p_.stride_d_n);
      const double want = block[i].value, error = std::fabs(got - want);
      ++report.compared;
      const double ratio = error_ratio(got, want, block[i].allowed, largest_finite(p_.d_dtype));
      if (std::isfinite(error)) error_squares += error * error;
      if (ratio > report.worst_ratio) report.worst_ratio = ratio;
      if (ratio > 1 && report.failure.empty()) {
        report.failure = fmt::format("element [{}, {}, {}]: got {}, expected {:.8g}, allowed error {:.3g}", batch, row,
                                     column, got, want, block[i].allowed);
      }
    }
    for (const ReferenceElement& e : block) reference_squares += std::isfinite(e.value) ? e.value * e.value : 0;
  }
  report.rel_error = reference_squares > 0 ? std::sqrt(error_squares / reference_squares) : std::sqrt(error_squares);
}

VerifyReport GemmInstance::verify() {
  VerifyReport report;
  if (!check_untouched(report) || !check_written(report)) {
    report.worst_ratio = std::numeric_limits<double>::infinity();
    return report;
  }
  compare(report);
  report.passed = report.failure.empty();
  return report;
}

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_gemm_instance(const GemmProblem& problem, Device& device,
                                                            const InstanceOptions& options) {
  auto instance = std::make_unique<GemmInstance>(problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
