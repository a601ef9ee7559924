// SPDX-License-Identifier: MIT
// Kernels whose blocks wait for each other, on streams of different priority at the same time: each call has all of its blocks or none,
// so all end, with what they give alone.
#include <random>
#include <thread>

#include "op/gpu/gpu_context_test.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

constexpr int64_t kRows = 16;
constexpr int kCalls = 200;

struct WaitingProblem {
  const char* family;
  DType weight;
  int64_t n, k;
};
// A's share of every block, and sums of tiles that blocks share.
constexpr WaitingProblem kProblems[] = {{"gemm_sm90_dequant", DType::kI4, 4096, 8192},
                                        {"gemm_sm90_skinny", DType::kBf16, 2112, 7168}};

class GpuWaitingBlocksTest : public test::GpuContextTest {
 protected:
  void SetUp() override {
    test::GpuContextTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (on->spec().arch->target != "sm_90a") GTEST_SKIP() << "no kernel for this device has blocks that wait";
  }

  // Bytes of which each two are a small bf16, and each nibble a weight.
  void* bytes(std::mt19937& random, int64_t count) {
    std::vector<uint16_t> bits(static_cast<size_t>(count / 2));
    for (uint16_t& b : bits) b = static_cast<uint16_t>(0x3C00 | (random() & 0x80FF));
    void* data = zeros(*on, count);
    EXPECT_TRUE(on->copy_from_host(data, bits.data(), count).ok());
    return data;
  }
  TensorView view(void* data, DType dtype, int64_t rows, int64_t columns) const {
    return TensorView::contiguous(data, dtype, {rows, columns}, on->spec().id);
  }
  GemmCall make_call(const WaitingProblem& p) {
    std::mt19937 random(static_cast<unsigned>(p.n));
    GemmCall call;
    call.a = view(bytes(random, kRows * p.k * 2), DType::kBf16, kRows, p.k);
    call.b = view(bytes(random, p.n * p.k * dtype_bits(p.weight) / 8), p.weight, p.n, p.k).transposed();
    if (p.weight == DType::kI4) {
      call.scale_b = view(bytes(random, p.n * p.k / 128 * 2), DType::kBf16, p.n, p.k / 128).transposed();
      call.scale_group_b.k = 128;
    }
    call.d = view(zeros(*on, kRows * p.n * 2), DType::kBf16, kRows, p.n);
    return call;
  }
};

TEST_F(GpuWaitingBlocksTest, CallsOnStreamsOfDifferentPriorityAllEnd) {
  std::vector<GemmCall> calls;
  std::vector<std::vector<uint16_t>> alone;
  for (const WaitingProblem& p : kProblems) {
    calls.push_back(make_call(p));
    const test::GpuStream stream(0);
    Exec exec;
    exec.stream = stream.get();
    const Status status = gemm(*context, calls.back(), exec);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(stream.wait());
    alone.push_back(read<uint16_t>(*on, calls.back().d.data, static_cast<size_t>(kRows * p.n)));
    const Result<std::string> told = gemm_explain(*context, calls.back());
    ASSERT_TRUE(told.ok()) << told.status().message();
    EXPECT_THAT(*told, testing::HasSubstr(p.family)) << "a problem whose kernel has no blocks that wait shows nothing";
  }
  std::vector<std::thread> threads;
  std::vector<void*> results;
  for (const int priority : {0, -1, -5, 0}) {
    std::vector<GemmCall> own = calls;
    for (GemmCall& call : own) {
      call.d.data = zeros(*on, kRows * call.d.shape[1] * 2);
      results.push_back(call.d.data);
    }
    threads.emplace_back([this, own, priority] {
      const test::GpuStream stream(0, priority);
      Exec exec;
      exec.stream = stream.get();
      for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(gemm(*context, own[static_cast<size_t>(i) % own.size()], exec).ok());
      EXPECT_TRUE(stream.wait());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<uint16_t>& wanted = alone[i % alone.size()];
    EXPECT_EQ(read<uint16_t>(*on, results[i], wanted.size()), wanted) << i;
  }
}

}  // namespace
}  // namespace tilewright
