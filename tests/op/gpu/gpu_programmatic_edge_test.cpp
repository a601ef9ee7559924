// SPDX-License-Identifier: MIT
// Calls that begin before those in front of them have ended: each reads what the one before wrote, and its weights early.
#include <random>

#include "op/gpu/gpu_context_test.hpp"
#include "tilewright/act_and_mul.hpp"
#include "tilewright/elementwise.hpp"
#include "tilewright/gemm.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/moe_routing.hpp"
#include "tilewright/quantize.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright {
namespace {

constexpr int64_t kSize = 1024;  // N and K
constexpr int kWeights = 8, kLayers = 64;

class GpuProgrammaticEdgeTest : public test::GpuContextTest {
 protected:
  void SetUp() override {
    test::GpuContextTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    std::mt19937 random(1);
    for (void*& weight : weights) weight = normal(random, kSize * kSize);
  }

  // bf16, of a size that keeps the layers' values near 1.
  void* normal(std::mt19937& random, int64_t count) {
    std::normal_distribution<float> value(0, 1.0f / 32);
    std::vector<uint16_t> bits(static_cast<size_t>(count));
    for (uint16_t& b : bits) {
      const float x = value(random);
      uint32_t word;
      std::memcpy(&word, &x, 4);
      b = static_cast<uint16_t>(word >> 16);
    }
    void* data = zeros(*on, count * 2);
    EXPECT_TRUE(on->copy_from_host(data, bits.data(), count * 2).ok());
    return data;
  }

  // The rows after all layers; each layer's D is the next one's A.
  std::vector<uint16_t> layers(int64_t m, bool edges) {
    std::mt19937 random(2);
    std::array<void*, 2> rows{normal(random, m * kSize), zeros(*on, m * kSize * 2)};
    const test::GpuStream stream(0);
    for (int i = 0; i < kLayers; ++i) {
      GemmCall call;
      const auto view = [&](void* data, int64_t size) {
        return TensorView::contiguous(data, DType::kBf16, {size, kSize}, on->spec().id);
      };
      call.a = view(rows[i % 2], m), call.d = view(rows[(i + 1) % 2], m);
      call.b = view(weights[i % kWeights], kSize).transposed();
      Exec exec;
      exec.stream = stream.get();
      exec.programmatic_edge = edges;
      const Status status = gemm(*context, call, exec);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(stream.wait());
    return read<uint16_t>(*on, rows[kLayers % 2], static_cast<size_t>(m * kSize));
  }

  // Rows that one operator after another takes, in the same buffers each time: what all times left, as bytes.
  std::vector<uint8_t> rows(int64_t m, bool edges) {
    constexpr int kTimes = 24, kGiven = 4;
    std::mt19937 random(3);
    const DeviceId device = on->spec().id;
    const auto bf16 = [&](void* data, int64_t n) { return TensorView::contiguous(data, DType::kBf16, {m, n}, device); };
    const auto cleared = [&](int64_t n) { return bf16(zeros(*on, m * n * 2), n); };
    const auto each_time = [&](DType dtype, int64_t n) {
      void* const data = zeros(*on, kTimes * m * n * 4);
      return [=](int time) {
        const int64_t bytes = m * n * dtype_bits(dtype) / 8;
        return TensorView::contiguous(static_cast<char*>(data) + time * bytes, dtype, {m, n}, device);
      };
    };
    std::array<void*, kGiven> given{};
    for (void*& rows : given) rows = normal(random, m * 2 * kSize);
    const TensorView x = cleared(2 * kSize), sum = cleared(2 * kSize), normed = cleared(2 * kSize);
    const TensorView gated = cleared(kSize);
    const TensorView weight = TensorView::contiguous(weights[0], DType::kBf16, {2 * kSize}, device);
    TensorView logits = gated;
    logits.shape[1] = 256;
    const auto codes = each_time(DType::kF8E4M3, kSize), scales = each_time(DType::kF32, kSize / 128),
               layer = each_time(DType::kBf16, kSize), ids = each_time(DType::kI32, 8),
               shares = each_time(DType::kF32, 8);
    const test::GpuStream stream(0);
    Exec exec;
    exec.stream = stream.get();
    exec.programmatic_edge = edges;
    for (int time = 0; time < kTimes; ++time) {
      ElementwiseCall copy;
      copy.x = bf16(given[time % kGiven], 2 * kSize), copy.out = x;
      RmsNormCall norm;
      norm.x = x, norm.out = normed, norm.weight = weight, norm.residual = norm.residual_out = sum;
      ActAndMulCall gate;
      gate.x = normed, gate.out = gated;
      LayerNormCall plain_norm;
      plain_norm.x = gated, plain_norm.out = layer(time);
      QuantizeCall narrow;
      narrow.x = gated, narrow.out = codes(time), narrow.scale = scales(time), narrow.quant = Quantisation::kGroup;
      MoeRoutingCall route;
      route.logits = logits, route.weights = shares(time), route.ids = ids(time);
      for (const Status& s : {elementwise(*context, copy, exec), rms_norm(*context, norm, exec),
                              act_and_mul(*context, gate, exec), layer_norm(*context, plain_norm, exec),
                              quantize(*context, narrow, exec), moe_routing(*context, route, exec)}) {
        EXPECT_TRUE(s.ok()) << s.message();
      }
    }
    EXPECT_TRUE(stream.wait());
    std::vector<uint8_t> all;
    for (const auto& [left, bytes] : {std::pair{codes(0), kSize},
                                      {scales(0), kSize / 32},
                                      {layer(0), 2 * kSize},
                                      {ids(0), int64_t{32}},
                                      {shares(0), int64_t{32}}}) {
      const auto part = read<uint8_t>(*on, left.data, static_cast<size_t>(kTimes * m * bytes));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  std::array<void*, kWeights> weights{};
};

// Few rows, which are fetched and rehearsed before kernels in front have ended, and many.
TEST_F(GpuProgrammaticEdgeTest, RowsAreReadWhenTheyAreThere) {
  for (const int64_t m : {1, 16, 200, 1500}) {
    SCOPED_TRACE(m);
    const std::vector<uint8_t> plain = rows(m, false);
    for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(rows(m, true) == plain, true);
  }
}

TEST_F(GpuProgrammaticEdgeTest, EveryLayerSeesAllOfTheOneBefore) {
  for (const int64_t m : {1, 7, 16, 100, 400}) {
    SCOPED_TRACE(m);
    const std::vector<uint16_t> plain = layers(m, false);
    for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(layers(m, true), plain);
  }
}

}  // namespace
}  // namespace tilewright
