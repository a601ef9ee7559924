// SPDX-License-Identifier: MIT
#include "ops/row/instance/row_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>
#include <span>
#include <tuple>

#include "core/tensor/tolerance.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

// Such that it shows where one is left out; `usual`: a gate's are those that most calls have, for which kernels may have loops of
// their own. `alpha` is silu's, or softmax's, whose sign is seen too.
std::array<float, kRowScalarSlots> row_instance_scalars(const RowOp& op, const RowProblem& p, bool usual) {
  if (usual && op.gates) return {1e-3f, std::numeric_limits<float>::infinity(), 1, 0, 0.1f, 1e-3f, 0.7f};
  const float of_softmax = p.rows() % 2 == 1 ? -0.7f : 0.7f;
  const float alpha = op.softmax ? of_softmax : p.activation == Activation::kSilu ? 1.702f : 1.0f;
  return {1e-3f, 1.25f, alpha, 1.0f, 0.1f, 1e-3f, 0.7f};
}

// As a tensor of this type keeps it.
double rounded_value(DType dtype, double value) {
  unsigned char bytes[4] = {};
  store_element(dtype, bytes, 0, value);
  return load_element(dtype, bytes, 0);
}

struct RowBuffer {
  RowBuffer(uint16_t of_slot, const char* its_name, DType its_dtype)
      : slot(of_slot), name(its_name), dtype(its_dtype) {}
  uint16_t slot;
  const char* name;
  DType dtype;
  GuardedBuffer buffer;
  uint64_t sum = 0;
};

class RowInstance final : public ProblemInstance {
 public:
  RowInstance(const RowOp& op, const RowProblem& problem, const InstanceOptions& options)
      : op_(op), p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const auto add = [&](std::deque<RowBuffer>& to, uint16_t slot, const char* name, const RowTensorProblem& t,
                         int64_t inner, int64_t stride) -> Status {
      if (!t.present()) return {};
      to.emplace_back(slot, name, t.dtype);
      return allocate_rows(device, to.back().buffer, t, inner, stride);
    };
    const auto add_column = [&](uint16_t slot, const char* name, DType dtype) -> Status {
      if (dtype == DType::kNone) return {};
      inputs_.emplace_back(slot, name, dtype);
      const int64_t length = slot == kRowWeight ? p_.weight_length() : p_.n;
      return inputs_.back().buffer.allocate(device, dtype, {{length, 1}}, shift_of(dtype));
    };
    Status s = add(inputs_, kRowX, "x", p_.x, p_.x_length(), 1);
    for (GuardedBuffer& copy : copies_) s = s ? allocate_rows(device, copy, p_.x, p_.x_length(), 1) : s;
    if (s) s = add(inputs_, kRowResidual, op_.residual_name(), p_.residual, p_.residual_length(), 1);
    if (p_.rotates()) {
      const RowRotationProblem& r = p_.rotation;
      const auto add_shape = [&](uint16_t slot, const char* name, DType dtype, std::initializer_list<Extent> extents) {
        inputs_.emplace_back(slot, name, dtype);
        return inputs_.back().buffer.allocate(device, dtype, extents);
      };
      for (const auto& [slot, name] : {std::pair{kRowCosine, "cos"}, {kRowSine, "sin"}}) {
        if (s) s = add_shape(slot, name, r.table, {{r.table_rows, r.stride_table}, {r.dims / 2, 1}});
      }
      if (s && r.positions) {
        s = add_shape(
            kRowPositions, "positions", DType::kI32,
            {{p_.size[0], r.stride_position[0]}, {p_.size[1], r.stride_position[1]}, {r.axes(), r.stride_axis}});
      }
      if (s && r.packed) s = add_shape(kRowSequences, "cumulative_lengths", DType::kI32, {{r.sequences + 1, 1}});
      if (s && r.offsets) s = add_shape(kRowOffsets, "offsets", DType::kI32, {{r.sequences, 1}});
    }
    if (s) s = add(inputs_, kRowTarget, "target", p_.loss.target, 1, 1);
    if (s) s = add(outputs_, kRowLoss, "loss", p_.loss.loss, 1, 1);
    if (s) s = add(outputs_, kRowLse, "lse", p_.loss.lse, 1, 1);
    if (s && p_.loss.factor) {
      inputs_.emplace_back(kRowFactor, "factor", DType::kF32);
      s = inputs_.back().buffer.allocate(device, DType::kF32, {{1, 1}});
    }
    if (s) s = add_column(kRowWeight, "weight", p_.weight);
    if (s) s = add_column(kRowBias, "bias", p_.bias);
    if (s) s = add_column(kRowSmooth, "smooth", p_.smooth);
    if (s && p_.state_words != 0) {
      inputs_.emplace_back(kRowRandomState, "random_state", DType::kI32);
      s = inputs_.back().buffer.allocate(device, DType::kI32, {{2 * p_.state_words, 1}});
    }
    if (s) s = add(inputs_, kRowAdded, "dresidual", p_.gradients.added, p_.n, 1);
    for (const auto& [slot, name, dtype] :
         {std::tuple<RowPointerSlot, const char*, DType>{kRowWeightGradient, "dweight", p_.gradients.weight},
          {kRowBiasGradient, "dbias", p_.gradients.bias}}) {
      if (!s || dtype == DType::kNone) continue;
      outputs_.emplace_back(slot, name, dtype);
      s = outputs_.back().buffer.allocate(device, dtype, {{p_.n, 1}}, shift_of(dtype));
    }
    if (s) s = add(outputs_, kRowOut, op_.out_name(), p_.out, p_.out_length(), 1);
    if (s) s = add(outputs_, kRowResidualOut, "residual_out", p_.residual_out, p_.n, 1);
    std::deque<RowBuffer>& scales = p_.writes_scale() ? outputs_ : inputs_;
    if (s && p_.tensor_scale != TensorScale::kNone) {
      std::deque<RowBuffer>& to = p_.tensor_scale == TensorScale::kFound ? outputs_ : inputs_;
      to.emplace_back(kRowTensorScale, "tensor_scale", DType::kF32);
      s = to.back().buffer.allocate(device, DType::kF32, {{1, 1}});
    }
    if (s && is_per_tensor(p_.quant)) {  // there even without rows
      scales.emplace_back(kRowScale, "scale", p_.scale.dtype);
      return scales.back().buffer.allocate(device, p_.scale.dtype, {{1, 1}});
    }
    if (s) s = add(scales, kRowScale, "scale", p_.scale, p_.groups(), p_.stride_group);
    return s;
  }

  void fill(uint64_t seed, InputData data) override {
    uint64_t of_tensor = seed * 16;
    for (RowBuffer& t : inputs_) {
      fill_random(t.dtype, t.buffer.begin(), t.buffer.bytes() * 8 / dtype_bits(t.dtype), data, ++of_tensor);
      // Some values saturate, most do not.
      if (t.slot == kRowScale && !p_.reads_codes())
        *static_cast<float*>(t.buffer.host_data()) = 2.5f / quantised_limit(p_.out.dtype);
      if (t.slot == kRowTensorScale && !p_.reads_codes())
        *static_cast<float*>(t.buffer.host_data()) = tensor_scale_for(2.5f, p_.out.dtype);
      if (t.slot == kRowPositions) fill_positions(t, seed);
      if (t.slot == kRowSequences || t.slot == kRowOffsets) fill_sequences(t, seed);
      if (t.slot == kRowTarget) fill_targets(t, seed);
      if (t.slot == kRowFactor) *static_cast<float*>(t.buffer.host_data()) = 0.8f;
      note(t.buffer.send());
      if (t.slot == kRowX) {
        for (GuardedBuffer& copy : copies_) note(t.buffer.send_to(copy));
      }
      t.sum = t.buffer.checksum();
    }
  }
  void poison() override {
    for (RowBuffer& t : outputs_) note(t.buffer.fill(0xFF));  // NaN in every float
  }

  CallBindings bindings(int rotation) override {
    for (const std::deque<RowBuffer>* list : {&inputs_, &outputs_}) {
      for (const RowBuffer& t : *list) bound_.pointers[t.slot] = t.buffer.data();
    }
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    if (turn > 0) bound_.pointers[kRowX] = copies_[turn - 1].data();
    bound_.scalars = row_instance_scalars(op_, p_, options_.usual);
    return {bound_.pointers, bound_.scalars, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    for (std::deque<RowBuffer>* list : {&inputs_, &outputs_}) {
      for (RowBuffer& t : *list) note(t.buffer.fetch());
    }
    report.failure = problem_.ok() ? memory_failure() : problem_.message();
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    RowHostTensors tensors;
    tensors.scalars = row_instance_scalars(op_, p_, options_.usual);
    for (const std::deque<RowBuffer>* list : {&inputs_, &outputs_}) {
      for (const RowBuffer& t : *list) tensors.data[t.slot] = t.buffer.host_data();
    }
    Comparison comparison(p_.out.present() ? p_.out.dtype : DType::kF32, report);
    RowReferenceResult want;
    if (p_.writes_scale()) compare_shared_scales(op_, p_, tensors, comparison);
    const int64_t rows = std::max<int64_t>(1, options_.compare_limit / std::max<int64_t>(1, p_.n) / 4);
    for (const int64_t row : sample_indices(p_.rows(), rows, 7)) {
      row_reference(op_, p_, tensors, row, want);
      for (int64_t i = 0; p_.residual_out.present() && !p_.rotates() && i < p_.n; ++i) {
        const int64_t at = row_element(p_, p_.residual_out.stride, row) + i;
        comparison.add(load_element(p_.residual_out.dtype, tensors.data[kRowResidualOut], at),
                       {want.sum[static_cast<size_t>(i)], 0}, {row, i});
      }
      if (p_.quant != Quantisation::kNone && !p_.reads_codes()) {
        compare_quantised_row(op_, p_, tensors, row, want.y, comparison);
        continue;
      }
      for (const auto& [slot, t, wanted] :
           {std::tuple<RowPointerSlot, const RowTensorProblem&, ReferenceElement>{kRowLoss, p_.loss.loss, want.loss},
            {kRowLse, p_.loss.lse, want.lse}}) {
        if (!t.present()) continue;
        comparison.add(load_element(DType::kF32, tensors.data[slot], row_element(p_, t.stride, row)), wanted,
                       {row, -1});
      }
      if (!p_.out.present()) continue;
      const auto [in, out, first_in, first] = row_place(p_, row);
      for (int64_t i = 0; i < p_.out_length(); ++i) {
        const ReferenceElement& y = want.y[static_cast<size_t>(i)];
        const double got = load_element(p_.out.dtype, tensors.data[out], first + i);
        if (p_.reads_codes()) {  // to the bit
          comparison.add(got, {rounded_value(p_.out.dtype, y.value), 0}, {row, i});
          continue;
        }
        const double allowed = y.allowed + rounding_bound(p_.out.dtype, std::fabs(y.value) + y.allowed);
        comparison.add(got, {y.value, allowed}, {row, i});
      }
    }
    if (p_.column_sums() > 0) compare_column_sums(op_, p_, tensors, comparison);
    comparison.finish();
    return report;
  }

 private:
  // Some of them beyond the tables.
  void fill_positions(const RowBuffer& t, uint64_t seed) const {
    std::mt19937_64 random(seed);
    const RowRotationProblem& r = p_.rotation;
    std::uniform_int_distribution<int64_t> any(-1, r.table_rows);
    auto* const positions = static_cast<int32_t*>(t.buffer.host_data());
    for (int64_t row = 0; row < p_.size[0] * p_.size[1] * r.axes(); ++row) {
      const int64_t token = row / r.axes();
      positions[row % r.axes() * r.stride_axis + token / p_.size[1] * r.stride_position[0] +
                token % p_.size[1] * r.stride_position[1]] = static_cast<int32_t>(any(random));
    }
  }
  // Where sequences begin, in order, some of them empty, some tokens before and behind all; or small numbers.
  void fill_sequences(const RowBuffer& t, uint64_t seed) const {
    std::mt19937_64 random(seed);
    const bool begins = t.slot == kRowSequences;
    std::uniform_int_distribution<int64_t> any(0, begins ? p_.size[1] : 4);
    const std::span numbers(static_cast<int32_t*>(t.buffer.host_data()),
                            static_cast<size_t>(p_.rotation.sequences + (begins ? 1 : 0)));
    for (int32_t& number : numbers) number = static_cast<int32_t>(any(random));
    if (begins) std::ranges::sort(numbers);
  }
  // Some of them ignored.
  void fill_targets(const RowBuffer& t, uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int64_t> any(0, std::max<int64_t>(p_.n, 1) - 1), one_of(0, 7);
    for (int64_t row = 0; row < p_.rows(); ++row) {
      const int64_t target = one_of(random) == 0 ? p_.loss.ignore_index : any(random);
      static_cast<int32_t*>(t.buffer.host_data())[row_element(p_, p_.loss.target.stride, row)] =
          static_cast<int32_t>(target);
    }
  }
  Status allocate_rows(Device& device, GuardedBuffer& buffer, const RowTensorProblem& t, int64_t inner,
                       int64_t stride) const {
    const auto size = p_.tensor_size(t);
    return buffer.allocate(device, t.dtype,
                           {{size[0], t.stride[0]}, {size[1], t.stride[1]}, {size[2], t.stride[2]}, {inner, stride}},
                           shift_of(t.dtype));
  }
  // What is not aligned misses it by an element, or a byte.
  int64_t shift_of(DType dtype) const { return p_.unaligned ? std::max(dtype_bits(dtype) / 8, 1) : 0; }

  // A write outside outputs or between their elements, or a changed input.
  std::string memory_failure() {
    for (const RowBuffer& t : inputs_) {
      if (std::string failure = t.buffer.guard_failure(t.name); !failure.empty()) return failure;
      if (t.buffer.checksum() != t.sum) return fmt::format("changed {}", t.name);
    }
    for (const RowBuffer& t : outputs_) {
      if (std::string failure = t.buffer.guard_failure(t.name); !failure.empty()) return failure;
      if (std::string failure = written_between(t); !failure.empty()) return failure;
    }
    return {};
  }
  std::string written_between(const RowBuffer& t) const {
    const bool number = t.slot == kRowLoss || t.slot == kRowLse;
    const RowTensorProblem& shape = t.slot == kRowOut     ? p_.out
                                    : t.slot == kRowScale ? p_.scale
                                    : t.slot == kRowLoss  ? p_.loss.loss
                                    : t.slot == kRowLse   ? p_.loss.lse
                                                          : p_.residual_out;
    const bool of_columns = t.slot == kRowWeightGradient || t.slot == kRowBiasGradient;
    const bool one = t.slot == kRowTensorScale || (t.slot == kRowScale && is_per_tensor(p_.quant));
    const bool of_tensor = one || of_columns;
    const int64_t inner = number || one         ? 1
                          : t.slot == kRowScale ? p_.groups()
                          : t.slot == kRowOut   ? p_.out_length()
                                                : p_.n;
    const int64_t stride = t.slot == kRowScale ? p_.stride_group : 1;
    const int bits = dtype_bits(t.dtype);
    std::vector<bool> owned(static_cast<size_t>(t.buffer.bytes()), false);
    const int64_t base = static_cast<uint8_t*>(t.buffer.host_data()) - t.buffer.begin();
    const auto size = p_.tensor_size(shape);
    for (int64_t row = 0; row < (of_tensor ? 1 : size[0] * size[1] * size[2]); ++row) {
      const int64_t upper = of_tensor ? 0 : row / size[2];
      const int64_t first = of_tensor ? 0
                                      : row % size[2] * shape.stride[2] + upper % size[1] * shape.stride[1] +
                                            upper / size[1] * shape.stride[0];
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t bit = (first + i * stride) * bits;
        for (int64_t byte = bit >> 3; byte <= (bit + bits - 1) >> 3; ++byte)
          owned[static_cast<size_t>(base + byte)] = true;
      }
    }
    for (size_t i = 0; i < owned.size(); ++i) {
      if (!owned[i] && t.buffer.begin()[i] != 0xFF) {
        return fmt::format("wrote byte {} of {}, between its elements", static_cast<int64_t>(i) - base, t.name);
      }
    }
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  const RowOp& op_;
  RowProblem p_;
  InstanceOptions options_;
  std::deque<RowBuffer> inputs_, outputs_;
  std::vector<GuardedBuffer> copies_;  // of x
  RowBindings bound_;
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_row_instance(const RowOp& op, const RowProblem& problem, Device& device,
                                                           const InstanceOptions& options) {
  auto instance = std::make_unique<RowInstance>(op, problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
