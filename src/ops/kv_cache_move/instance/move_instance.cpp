// SPDX-License-Identifier: MIT
#include "ops/kv_cache_move/instance/move_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <random>

#include "core/tensor/tolerance.hpp"
#include "dispatch/instance/comparison.hpp"
#include "dispatch/instance/guarded_buffer.hpp"
#include "dispatch/instance/random_data.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

class CacheMoveInstance final : public ProblemInstance {
 public:
  CacheMoveInstance(const CacheMoveOp& op, const CacheMoveProblem& problem, const InstanceOptions& options)
      : op_(op), p_(problem), options_(options), copies_(static_cast<size_t>(std::max(1, options.rotations)) - 1) {}

  Status allocate(Device& device) {
    const auto shift = [this](DType dtype) { return p_.unaligned ? std::max(dtype_bits(dtype) / 8, 1) : 0; };
    const auto f = p_.from_extents(), t = p_.to_extents(op_.pairs);
    const auto s = p_.scale_extents();
    Status status = from_.allocate(device, p_.in, {f[0], f[1], f[2], f[3], f[4], f[5]}, shift(p_.in));
    for (GuardedBuffer& copy : copies_) {
      if (status) status = copy.allocate(device, p_.in, {f[0], f[1], f[2], f[3], f[4], f[5]}, shift(p_.in));
    }
    if (status) status = to_.allocate(device, p_.out, {t[0], t[1], t[2], t[3], t[4], t[5]}, shift(p_.out));
    if (status) {
      status = index_.allocate(device, DType::kI32,
                               {{op_.pairs ? p_.items : p_.requests, p_.stride_index},
                                {op_.pairs ? 2 : p_.columns, p_.stride_column},
                                {p_.wide ? 2 : 1, 1}});
    }
    if (status && !op_.pairs) status = lengths_.allocate(device, DType::kI32, {{p_.requests + 1, 1}});
    if (status && scaled()) status = scale_.allocate(device, DType::kF32, {s[0], s[1], s[2]});
    return status;
  }

  void fill(uint64_t seed, InputData data) override {
    std::mt19937_64 random(seed);
    fill_random(p_.in, from_.begin(), from_.bytes() * 8 / dtype_bits(p_.in), data, seed * 8 + 1);
    if (op_.pairs) {
      fill_pairs(random);
    } else {
      fill_table(random);
    }
    if (scaled()) fill_random(DType::kF32, scale_.begin(), scale_.bytes() / 4, data, seed * 8 + 2);
    sums_.clear();
    for (GuardedBuffer* b : inputs()) {
      note(b->send());
      sums_.push_back(b->checksum());
    }
    for (GuardedBuffer& copy : copies_) note(from_.send_to(copy));
  }
  void poison() override { note(to_.fill(0xFF)); }

  CallBindings bindings(int rotation) override {
    const size_t turn = static_cast<size_t>(rotation) % (copies_.size() + 1);
    bound_ = {turn == 0 ? from_.data() : copies_[turn - 1].data(), to_.data(), index_.data(),
              lengths_.allocated() ? lengths_.data() : nullptr, scale_.allocated() ? scale_.data() : nullptr};
    return {bound_, {}, nullptr};
  }
  int rotations() const override { return static_cast<int>(copies_.size()) + 1; }

  VerifyReport verify() override {
    VerifyReport report;
    size_t input = 0;
    for (GuardedBuffer* b : inputs()) {
      note(b->fetch());
      if (b->checksum() != sums_[input++]) report.failure = "changed an input";
      if (report.failure.empty()) report.failure = b->guard_failure("an input");
    }
    note(to_.fetch());
    if (report.failure.empty()) report.failure = to_.guard_failure(op_.to);
    if (!problem_.ok()) report.failure = problem_.message();
    Comparison comparison(p_.out, report);
    if (report.failure.empty()) report.failure = compare_all(comparison);
    if (!report.failure.empty()) {
      report.worst_ratio = std::numeric_limits<double>::infinity();
      return report;
    }
    comparison.finish();
    return report;
  }

 private:
  bool scaled() const { return p_.scales != CacheScales::kNone; }
  std::vector<GuardedBuffer*> inputs() {
    std::vector<GuardedBuffer*> list{&from_, &index_};
    if (!op_.pairs) list.push_back(&lengths_);
    if (scaled()) list.push_back(&scale_);
    return list;
  }

  int32_t* number_at(int64_t row, int64_t column) const {
    return static_cast<int32_t*>(index_.host_data()) + row * p_.stride_index + column * p_.stride_column;
  }
  int64_t number(int64_t row, int64_t column) const {
    const int32_t* const at = number_at(row, column);
    if (!p_.wide) return at[0];
    return static_cast<int64_t>(at[1]) * (int64_t{1} << 32) + static_cast<uint32_t>(at[0]);
  }
  void put(int64_t row, int64_t column, int64_t value) const {
    int32_t* const at = number_at(row, column);
    at[0] = static_cast<int32_t>(value);
    if (p_.wide) at[1] = static_cast<int32_t>(value >> 32);
  }
  // Each block to its own; some are none, some beyond the cache: wide ones by more than their low words tell.
  void fill_pairs(std::mt19937_64& random) const {
    std::vector<int64_t> to(static_cast<size_t>(std::max(p_.to_blocks, p_.items)));
    std::iota(to.begin(), to.end(), 0);
    std::ranges::shuffle(to, random);
    std::uniform_int_distribution<int64_t> any(0, std::max<int64_t>(p_.from_blocks - 1, 0));
    for (int64_t i = 0; i < p_.items; ++i) {
      const int64_t beyond = p_.wide ? int64_t{1} << 32 : p_.from_blocks;
      put(i, 0, i % 11 == 5 ? -1 : i % 13 == 7 ? any(random) + beyond : any(random));
      put(i, 1, i % 17 == 9 ? -1 : to[static_cast<size_t>(i)]);
    }
  }
  // Requests of any lengths, some of none; the last tokens may be nobody's.
  void fill_table(std::mt19937_64& random) const {
    std::vector<int32_t> edges(static_cast<size_t>(p_.requests) + 1, 0);
    std::uniform_int_distribution<int64_t> place(0, p_.items);
    for (size_t i = 1; i < edges.size(); ++i) edges[i] = static_cast<int32_t>(place(random));
    if (p_.requests > 0) edges.back() = static_cast<int32_t>(p_.items - (p_.items > 8 ? 1 : 0));
    std::ranges::sort(edges);
    std::memcpy(lengths_.host_data(), edges.data(), edges.size() * sizeof(int32_t));
    std::uniform_int_distribution<int64_t> any(0, std::max<int64_t>(p_.from_blocks - 1, 0));
    int64_t count = 0;
    for (int64_t b = 0; b < p_.requests; ++b) {
      for (int64_t c = 0; c < p_.columns; ++c, ++count) {
        put(b, c, count % 11 == 5 ? -1 : count % 13 == 7 ? p_.from_blocks : any(random));
      }
    }
  }

  // Where row `row` comes from and goes to, as block and position each; false: nowhere.
  struct Places {
    int64_t from_block, from_position, to_block, to_position;
  };
  bool places(int64_t item, int64_t position, Places& at) const {
    if (op_.pairs) {
      at = {number(item, 0), position, number(item, 1), position};
    } else {
      const auto* const edges = static_cast<const int32_t*>(lengths_.host_data());
      int64_t request = 0;
      while (request < p_.requests && !(edges[request] <= item && item < edges[request + 1])) ++request;
      if (request == p_.requests) return false;
      const int64_t place = item - edges[request], column = place / p_.block_size;
      if (column >= p_.columns) return false;
      at = {number(request, column), place % p_.block_size, item, 0};
    }
    return at.from_block >= 0 && at.from_block < p_.from_blocks && at.to_block >= 0 && at.to_block < p_.to_blocks;
  }
  static int64_t element_at(const PagedProblem& t, int64_t block, int64_t position, int64_t head, int64_t d) {
    return block * t.block + head * t.head + position / t.positions * t.position_run +
           position % t.positions * t.position + d / t.elements * t.element_run + d % t.elements * t.element;
  }

  std::string compare_all(Comparison& comparison) const {
    const int64_t bytes = dtype_bits(p_.out) / 8, base = static_cast<uint8_t*>(to_.host_data()) - to_.begin();
    std::vector<bool> owned(static_cast<size_t>(to_.bytes()), false);
    for (int64_t item = 0; item < p_.items; ++item) {
      for (int64_t position = 0; position < (op_.pairs ? p_.block_size : 1); ++position) {
        Places at{};
        if (!places(item, position, at)) continue;
        for (int64_t head = 0; head < p_.heads; ++head) {
          for (int64_t d = 0; d < p_.n; ++d) {
            const int64_t from = element_at(p_.from, at.from_block, at.from_position, head, d);
            const int64_t to = element_at(p_.to, at.to_block, at.to_position, head, d);
            for (int64_t i = 0; i < bytes; ++i) owned[static_cast<size_t>(base + to * bytes + i)] = true;
            if (std::string failure = compare_one(comparison, at, head, from, to, item, d); !failure.empty()) {
              return failure;
            }
          }
        }
      }
    }
    for (size_t i = 0; i < owned.size(); ++i) {
      if (!owned[i] && to_.begin()[i] != 0xFF) return fmt::format("wrote byte {}, which nothing has", i);
    }
    return {};
  }
  std::string compare_one(Comparison& comparison, const Places& at, int64_t head, int64_t from, int64_t to,
                          int64_t item, int64_t d) const {
    const int64_t bytes = dtype_bits(p_.out) / 8;
    if (!scaled()) {
      const auto* const want = static_cast<const uint8_t*>(from_.host_data()) + from * bytes;
      if (std::memcmp(want, static_cast<const uint8_t*>(to_.host_data()) + to * bytes, static_cast<size_t>(bytes)) ==
          0) {
        comparison.add(0, {0, 0}, {item, head, d});
        return {};
      }
      return fmt::format("element [{}, {}, {}] is another one", item, head, d);
    }
    const int64_t scale =
        p_.scales == CacheScales::kTensor ? 0
        : p_.scales == CacheScales::kHead
            ? head * p_.scale_head
            : at.from_block * p_.scale_block + at.from_position * p_.scale_position + head * p_.scale_head;
    const double by = static_cast<const float*>(scale_.host_data())[scale];
    const double value = load_element(p_.in, from_.host_data(), from) * by;
    const double allowed = kUlpF32 * std::fabs(value);
    comparison.add(load_element(p_.out, to_.host_data(), to),
                   {value, allowed + rounding_bound(p_.out, std::fabs(value) + allowed)}, {item, head, d});
    return {};
  }
  void note(const Status& status) {
    if (problem_.ok()) problem_ = status;
  }

  const CacheMoveOp& op_;
  CacheMoveProblem p_;
  InstanceOptions options_;
  GuardedBuffer from_, to_, index_, lengths_, scale_;
  std::vector<GuardedBuffer> copies_;
  std::vector<uint64_t> sums_;
  CacheMovePointers bound_{};
  Status problem_;
};

}  // namespace

Result<std::unique_ptr<ProblemInstance>> make_move_instance(const CacheMoveOp& op, const CacheMoveProblem& problem,
                                                            Device& device, const InstanceOptions& options) {
  auto instance = std::make_unique<CacheMoveInstance>(op, problem, options);
  if (Status s = instance->allocate(device); !s) return s;
  return std::unique_ptr<ProblemInstance>(std::move(instance));
}

}  // namespace tilewright
