// SPDX-License-Identifier: MIT
// Addresses past 2^31 elements and 2^32 bytes. Memory is reserved without being filled: only touched pages count.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "op/instances/kernel_runner.hpp"

namespace tilewright {
namespace {

class Reserved {
 public:
  explicit Reserved(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Reserved() {
    if (ok()) munmap(data_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

constexpr int64_t kFar = (int64_t{1} << 31) + 64;  // elements

TEST(GemmKernelLarge, StridesBeyondTwoToThe31AreFollowed) {
  const Reserved a(2 * kFar * 4 + 4096), b(2 * kFar * 4 + 4096), c(2 * kFar * 4 + 4096), d(2 * kFar * 4 + 4096);
  if (!a.ok() || !b.ok() || !c.ok() || !d.ok()) GTEST_SKIP() << "cannot reserve 64 GiB of address space";
  for_each_kernel([&](const KernelTarget& target, const KernelUnderTest& kernel) {
    const DType dtype = kernel_dtype(kernel) == DType::kNone ? DType::kF32 : kernel_dtype(kernel);
    if (kernel.kind == KernelKind::kGemv && kernel.gemv.packed) return;
    // D[m][n] = (m + 1)(n + 3) K + C[m][n], every operand with a far stride.
    constexpr int kM = 2, kN = 2, kK = 8;
    const std::string text = std::string("m=2:n=2:k=8:d=f32:c=f32:a=") + dtype_name(dtype);
    KernelRun run(text);
    GemmArgs& args = run.mutable_args();
    args.a = a.data(), args.b = b.data(), args.epilogue.c.data = c.data(), args.epilogue.d = d.data();
    args.stride_a_m = kFar, args.stride_b_n = kFar, args.stride_b_k = 1;
    args.epilogue.c.stride_m = kFar, args.epilogue.stride_d_m = kFar;
    args.epilogue.beta = 1;
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < kK; ++k) {
        store_element(dtype, a.data(), i * kFar + k, i + 1);
        store_element(dtype, b.data(), i * kFar + k, i + 3);
      }
      for (int n = 0; n < kN; ++n) store_element(DType::kF32, c.data(), i * kFar + n, 100 * i + n);
    }
    run.execute(kernel);
    for (int m = 0; m < kM; ++m) {
      for (int n = 0; n < kN; ++n) {
        EXPECT_EQ(load_element(DType::kF32, d.data(), m * kFar + n), (m + 1) * (n + 3) * kK + 100 * m + n)
            << kernel_name(target, kernel) << " [" << m << ", " << n << "]";
      }
    }
  });
}

}  // namespace
}  // namespace tilewright
