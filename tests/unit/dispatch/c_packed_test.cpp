// SPDX-License-Identifier: MIT
// Packed weights of other devices than the CPU through the C ABI, as far as it goes without one.
#include <gmock/gmock.h>

#include "gemm/gemm_packed_fragments.hpp"
#include "tilewright/tilewright.h"

namespace tilewright {
namespace {

constexpr TwDLDevice kCuda = {TW_DL_CUDA, 0};

TEST(CPackedWeights, EachDeviceHasItsForm) {
  const TwDLDataType e2m1 = {TW_DL_FLOAT4_E2M1FN, 4, 1};
  int64_t here = 0, there = 0;
  ASSERT_EQ(tilewright_gemm_packed_bytes(e2m1, 20, 300, 2, &here), TILEWRIGHT_OK);
  EXPECT_EQ(here, 64 + 2 * packed_layout(DType::kF4E2M1, 20, 300).batch_bytes);
  ASSERT_EQ(tilewright_gemm_packed_bytes_on(kCuda, e2m1, 20, 300, 2, &there), TILEWRIGHT_OK);
  EXPECT_EQ(there, kPackedFragmentsAt + 2 * packed_fragments_bytes(20, 300));
  EXPECT_EQ(tilewright_gemm_packed_bytes_on(kCuda, {TW_DL_FLOAT, 32, 1}, 20, 300, 2, &there),
            TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_last_error(),
               "gemm_packed_bytes: dtype f32 on cuda:0, allowed: e2m1, i4, u4; others on cpu, AMD GPUs");
}

// A call of A [1, 256] on a GPU and packed B [256, 64].
class CPackedOnAGpu : public testing::Test {
 protected:
  CPackedOnAGpu() {
    a.data = memory, d.data = memory;
    a.device = d.device = kCuda;
    a.ndim = d.ndim = 2;
    a.dtype = d.dtype = {TW_DL_BFLOAT, 16, 1};
    a.shape = a_shape, d.shape = d_shape;
    call.a = &a, call.d = &d;
    call.b_packed = memory;
    call.b_packed_bytes = kPackedFragmentsAt + packed_fragments_bytes(64, 256);
  }
  std::string refused() {
    size_t size = 0;
    EXPECT_EQ(tilewright_gemm_explain(nullptr, &call, nullptr, nullptr, &size), TILEWRIGHT_INVALID_ARGUMENT);
    return tilewright_last_error();
  }

  alignas(64) char memory[64] = {};
  int64_t a_shape[2] = {1, 256}, d_shape[2] = {1, 64};
  TwDLTensor a{}, d{};
  tilewright_gemm_call call = tilewright_gemm_call_defaults();
};

TEST_F(CPackedOnAGpu, ACallIsToldWhatTheBytesAre) {
  EXPECT_THAT(refused(), testing::HasSubstr("argument 'b_packed_info' is NULL on cuda:0"));
}

TEST_F(CPackedOnAGpu, BytesThatCannotBeWhatIsSaidAreRefused) {
  tilewright_packed_info info = tilewright_packed_info_defaults();
  info.dtype = {TW_DL_FLOAT4_E2M1FN, 4, 1};
  info.n = 64, info.k = 256, info.batch = 3;
  call.b_packed_info = &info;
  EXPECT_THAT(refused(), testing::HasSubstr("bytes are no 3 x 256 x 64 of e2m1 packed on cuda:0"));
  // What passes says so of the sizes: the next thing that is wrong is another one.
  info.batch = 1;
  a_shape[1] = 128;
  EXPECT_THAT(refused(), testing::HasSubstr("K"));
}

}  // namespace
}  // namespace tilewright
