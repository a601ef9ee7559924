// SPDX-License-Identifier: MIT
// Calls that begin before those in front of them have ended: each reads what the one before wrote, and its weights early.
#include <random>

#include "op/gpu/gpu_context_test.hpp"
#include "tilewright/gemm.hpp"

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

  std::array<void*, kWeights> weights{};
};

TEST_F(GpuProgrammaticEdgeTest, EveryLayerSeesAllOfTheOneBefore) {
  for (const int64_t m : {1, 7, 16, 100, 400}) {
    SCOPED_TRACE(m);
    const std::vector<uint16_t> plain = layers(m, false);
    for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(layers(m, true), plain);
  }
}

}  // namespace
}  // namespace tilewright
