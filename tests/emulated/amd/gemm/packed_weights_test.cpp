// SPDX-License-Identifier: MIT
// Packed weights through the public functions on emulated AMD GPUs: packed on the device to the bytes that the CPU makes,
// multiplied there by few rows and by many, and unpacked again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/emu/emu_device.hpp"
#include "dispatch/context_impl.hpp"
#include "gemm/gemm_args.hpp"
#include "support/sanitizer.hpp"
#include "tilewright/gemm.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class AmdPackedWeights : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow fibers";
    ContextOptions options;
    options.cache_dir = scratch_ / "cache";
    options.user_tables = false;
    context = *Context::create(options);
  }
  void open(int index) {
    id = {DeviceKind::kEmulated, index};
    const Result<OpenDevice*> opened = context->impl().open_device("gemm", id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    device = (*opened)->device.get();
  }
  void* memory(int64_t bytes) {
    const Result<void*> data = device->allocate(bytes);
    EXPECT_TRUE(data.ok()) << data.status().message();
    return data ? *data : nullptr;
  }
  void* copied(const void* from, int64_t bytes) {
    void* const data = memory(bytes);
    EXPECT_TRUE(device->copy_from_host(data, from, bytes).ok());
    return data;
  }
  // What the device packs, back on the host, against what the CPU packs.
  void pack(DType dtype, int64_t n, int64_t k, int64_t batch, bool along_k) {
    const int64_t size = dtype_bits(dtype) / 8, bytes = *gemm_packed_bytes(dtype, n, k, batch);
    std::vector<uint8_t> b(static_cast<size_t>(batch * n * k * size));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 37 % 251);
    const auto view = [&](void* data, DeviceId on) {
      TensorView v = TensorView::contiguous(data, dtype, {batch, k, n}, on);
      if (along_k) v.stride[1] = 1, v.stride[2] = k;
      return v;
    };
    packed.assign(static_cast<size_t>(bytes), 0);
    along_k_ = along_k;
    std::vector<uint8_t> memory_of_host(static_cast<size_t>(bytes) + 64);
    uint8_t* const expected =
        memory_of_host.data() + (64 - reinterpret_cast<uintptr_t>(memory_of_host.data()) % 64) % 64;
    Status status = gemm_pack_weights(*context, view(b.data(), {}), expected, bytes);
    ASSERT_TRUE(status.ok()) << status.message();
    on_device = memory(bytes);
    status = gemm_pack_weights(*context, view(copied(b.data(), static_cast<int64_t>(b.size())), id), on_device, bytes);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(device->copy_to_host(packed.data(), on_device, bytes).ok());
    EXPECT_EQ(std::memcmp(packed.data(), expected, static_cast<size_t>(bytes)), 0)
        << dtype_name(dtype) << " " << n << " x " << k;
    unpack(dtype, n, k, batch, b);
  }
  // In the device's memory, to rows with something between them, which stays.
  void unpack(DType dtype, int64_t n, int64_t k, int64_t batch, const std::vector<uint8_t>& b) {
    const int64_t size = dtype_bits(dtype) / 8, row = n + 3;
    std::vector<uint8_t> plain(static_cast<size_t>(batch * k * row * size), 0xA5);
    TensorView apart = TensorView::strided(copied(plain.data(), static_cast<int64_t>(plain.size())), dtype,
                                           {batch, k, n}, {k * row, row, 1}, id);
    const Result<TensorView> view = gemm_packed_view(*context, id, on_device, static_cast<int64_t>(packed.size()));
    ASSERT_TRUE(view.ok()) << view.status().message();
    TensorView to = apart;
    if (view->rank == 2) to = TensorView::strided(apart.data, dtype, {k, n}, {row, 1}, id);
    const Status status = gemm_unpack_weights(*context, *view, to);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(device->copy_to_host(plain.data(), apart.data, static_cast<int64_t>(plain.size())).ok());
    for (int64_t i = 0; i < batch * k; ++i) {
      for (int64_t j = 0; j < row; ++j) {
        for (int64_t byte = 0; byte < size; ++byte) {
          const int64_t in_b = along_k_ ? (i / k * n + j) * k + i % k : i * n + j;
          const int wanted = j < n ? b[static_cast<size_t>(in_b * size + byte)] : 0xA5;
          ASSERT_EQ(plain[static_cast<size_t>((i * row + j) * size + byte)], wanted) << i << ", " << j;
        }
      }
    }
  }

  std::unique_ptr<Context> context;
  DeviceId id;
  Device* device = nullptr;
  std::vector<uint8_t> packed;
  void* on_device = nullptr;

 private:
  bool along_k_ = false;  // how pack() laid B
  test::ScratchFolder scratch_;
};
class SlowAmdPackedWeights : public AmdPackedWeights {};

TEST_F(AmdPackedWeights, OneCopyOnTheDeviceServesFewRowsAndMany) {
  open(1);  // gfx942
  constexpr int64_t kN = 37, kK = 75, kBatch = 2;
  pack(DType::kI8, kN, kK, kBatch, false);
  const Result<TensorView> view = gemm_packed_view(*context, id, on_device, static_cast<int64_t>(packed.size()));
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->device, id);

  // Back, on the host.
  std::vector<uint8_t> aligned(packed.size() + 64);
  uint8_t* const bytes = aligned.data() + (64 - reinterpret_cast<uintptr_t>(aligned.data()) % 64) % 64;
  std::copy(packed.begin(), packed.end(), bytes);
  std::vector<int8_t> b(kBatch * kK * kN);
  const Status unpacked =
      gemm_unpack_weights(*context, *gemm_packed_view(bytes, static_cast<int64_t>(packed.size())),
                          TensorView::contiguous(b.data(), DType::kI8, {kBatch, kK, kN}, DeviceId{}));
  ASSERT_TRUE(unpacked.ok()) << unpacked.message();

  for (const int64_t m : {5, 40}) {
    std::vector<int8_t> a(static_cast<size_t>(kBatch * m * kK));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i * 29 % 15) - 7;
    std::vector<float> d(static_cast<size_t>(kBatch * m * kN));
    GemmCall call;
    call.a = TensorView::contiguous(copied(a.data(), static_cast<int64_t>(a.size())), DType::kI8, {kBatch, m, kK}, id);
    call.b = *view;
    call.d = TensorView::contiguous(memory(static_cast<int64_t>(d.size() * 4)), DType::kF32, {kBatch, m, kN}, id);
    const Result<QueryResult> chosen = gemm_query(*context, call);
    ASSERT_TRUE(chosen.ok()) << chosen.status().message();
    EXPECT_EQ(chosen->recipe.find(m == 5 ? "gemm/gemv_amd/" : "gemm/gemm_amd/"), 0u) << chosen->recipe;
    const Status status = gemm(*context, call);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(device->copy_to_host(d.data(), call.d.data, static_cast<int64_t>(d.size() * 4)).ok());
    for (int64_t i = 0; i < kBatch * m; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < kK; ++k) {
          sum += int64_t{a[static_cast<size_t>(i * kK + k)]} * b[static_cast<size_t>((i / m * kK + k) * kN + j)];
        }
        ASSERT_EQ(d[static_cast<size_t>(i * kN + j)], static_cast<float>(sum)) << m << ": " << i << ", " << j;
      }
    }
  }
}

TEST_F(SlowAmdPackedWeights, EveryDevicePacksWhatTheCpuPacks) {
  for (int index = 0; index < static_cast<int>(std::size(kEmulatedTargets)); ++index) {
    SCOPED_TRACE(kEmulatedTargets[index]);
    open(index);
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kI8}) {
      pack(dtype, 37, 75, 2, false);
      pack(dtype, 64, 130, 1, true);
      pack(dtype, 1, 1, 3, true);
    }
  }
}

}  // namespace
}  // namespace tilewright
