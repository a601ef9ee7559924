// SPDX-License-Identifier: MIT
// Data made on a GPU is the data that the host makes; what kernels change, leave out or write too much is found there.
#include <gmock/gmock.h>

#include <cstring>

#include "dispatch/instance/device_data.hpp"
#include "dispatch/instance/random_data.hpp"
#include "jit/compiler.hpp"
#include "op/gpu/gpu_test.hpp"

namespace tilewright {
namespace {

class GpuInstanceDataTest : public test::GpuTest {
 protected:
  void SetUp() override {
    test::GpuTest::SetUp();
    if (device == nullptr) return;
    Result<std::unique_ptr<DeviceData>> made = DeviceData::make(*device, compile_probe);
    ASSERT_TRUE(made.ok()) << made.status().message();
    data = std::move(*made);
    memory = static_cast<uint8_t*>(*device->allocate(kBytes));
  }
  void TearDown() override {
    data.reset();
    if (device != nullptr) device->deallocate(memory, kBytes);
    test::GpuTest::TearDown();
  }
  static constexpr int64_t kBytes = int64_t{1} << 20;

  std::unique_ptr<DeviceData> data;
  uint8_t* memory = nullptr;
};

TEST_F(GpuInstanceDataTest, TheSameSeedGivesTheSameElementsAsOnTheHost) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF8E4M3, DType::kI8}) {
    for (const int64_t count : {int64_t{1}, int64_t{6}, int64_t{70001}}) {
      for (const InputData input : {InputData::kNormal, InputData::kIntegers}) {
        const int64_t bytes = count * dtype_bits(dtype) / 8;
        std::vector<uint8_t> want(static_cast<size_t>(bytes) + 1, 0xA5), got(want.size());
        fill_random(dtype, want.data(), count, input, 17, 0.5);
        ASSERT_TRUE(device->fill(memory, 0xA5, bytes + 1).ok());
        ASSERT_TRUE(data->fill_random(dtype, memory, count, input, 17, 0.5).ok());
        ASSERT_TRUE(device->copy_to_host(got.data(), memory, bytes + 1).ok());
        EXPECT_EQ(got, want) << dtype_name(dtype) << " x " << count;
      }
    }
  }
}

TEST_F(GpuInstanceDataTest, AChecksumTellsEveryByteThatChanges) {
  for (const int64_t bytes : {int64_t{5}, int64_t{64}, int64_t{100003}}) {
    ASSERT_TRUE(device->fill(memory, 0x11, bytes).ok());
    const Result<uint64_t> before = data->checksum(memory, bytes);
    ASSERT_TRUE(before.ok());
    EXPECT_EQ(*data->checksum(memory, bytes), *before);
    for (const int64_t at : {int64_t{0}, bytes / 2, bytes - 1}) {
      ASSERT_TRUE(device->fill(memory + at, 0x12, 1).ok());
      EXPECT_NE(*data->checksum(memory, bytes), *before) << at;
      ASSERT_TRUE(device->fill(memory + at, 0x11, 1).ok());
    }
  }
}

TEST_F(GpuInstanceDataTest, PoisonThatIsLeftAndWritesBehindRowsAreFound) {
  // 2 x 5 rows of 7 columns, 10 elements apart.
  const DeviceData::Tensor tensor{memory, DType::kBf16, 2, 5, 7, 60, 10, 1};
  const auto element = [&](int64_t batch, int64_t row, int64_t column) {
    return memory + 2 * (batch * 60 + row * 10 + column);
  };
  ASSERT_TRUE(device->fill(memory, 0xFF, 240).ok());
  for (int64_t batch = 0; batch < 2; ++batch) {
    for (int64_t row = 0; row < 5; ++row) ASSERT_TRUE(device->fill(element(batch, row, 0), 1, 14).ok());
  }
  Result<DeviceData::Traces> traces = data->find_traces(tensor);
  ASSERT_TRUE(traces.ok()) << traces.status().message();
  EXPECT_EQ(traces->unwritten, -1);
  EXPECT_EQ(traces->written_gap, -1);
  ASSERT_TRUE(device->fill(element(1, 3, 6), 0xFF, 2).ok());
  EXPECT_EQ(data->find_traces(tensor)->unwritten, 5 * 7 + 3 * 7 + 6);
  ASSERT_TRUE(device->fill(element(1, 2, 9), 0, 1).ok());
  EXPECT_EQ(data->find_traces(tensor)->written_gap, 5 + 2);
}

}  // namespace
}  // namespace tilewright
