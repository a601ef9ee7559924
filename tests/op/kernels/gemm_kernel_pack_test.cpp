// SPDX-License-Identifier: MIT
// Packed weights: every element where the layout says, zero padding, column sums, nothing outside, from any strides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "op/instances/kernel_runner.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

struct Source {
  const char* name;
  int64_t stride_k, stride_n;  // for K x N; 0 = the contiguous one
};

// Element (k, n) of batch b is a small value that tells its place.
double value_at(DType dtype, int64_t b, int64_t k, int64_t n) {
  const auto code = static_cast<double>((k * 37 + n * 11 + b * 5) % 251 - 125);
  return dtype == DType::kI8 ? code : code / 8;
}

class Packing {
 public:
  Packing(DType dtype, int64_t n, int64_t k, int64_t batch, int64_t stride_k, int64_t stride_n)
      : dtype_(dtype), n_(n), k_(k), batch_(batch), stride_k_(stride_k), stride_n_(stride_n) {
    reach_ = (k > 0 ? (k - 1) * std::abs(stride_k) : 0) + (n > 0 ? (n - 1) * std::abs(stride_n) : 0) + 1;
    origin_ = (stride_k < 0 ? (k - 1) * -stride_k : 0) + (stride_n < 0 ? (n - 1) * -stride_n : 0);
    source_.assign(static_cast<size_t>(reach_ * batch * dtype_bits(dtype) / 8), 0x7F);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          store_element(dtype, source_.data(), b * reach_ + origin_ + i * stride_k + j * stride_n,
                        value_at(dtype, b, i, j));
        }
      }
    }
    batch_bytes_ = packed_batch_bytes(dtype, n, k) + 64;
    memory_.assign(static_cast<size_t>(batch_bytes_ * batch + 192), kGuard);
    packed_ = memory_.data() + 64 + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }

  void pack(const KernelTarget& target, unsigned units) {
    const GemmPackArgs args = {n_,           k_,        batch_,    source_.data() + origin_ * dtype_bits(dtype_) / 8,
                               reach_,       stride_k_, stride_n_, packed_,
                               batch_bytes_, dtype_};
    for (unsigned unit = units; unit > 0; --unit) target.pack(&args, unit - 1, units);
  }

  std::string check() const {
    const int kp = packed_kp(dtype_);
    const int64_t lines = packed_lines(dtype_, k_), panels = packed_panels(n_);
    for (int64_t b = 0; b < batch_; ++b) {
      const unsigned char* base = packed_ + b * batch_bytes_;
      for (int64_t p = 0; p < panels; ++p) {
        for (int64_t c = 0; c < kPanelColumns; ++c) {
          int64_t sum = 0;
          for (int64_t k = 0; k < lines * kp; ++k) {
            const int64_t n = p * kPanelColumns + c;
            const double want = k < k_ && n < n_ ? value_at(dtype_, b, k, n) : 0;
            const double got = load_element(dtype_, base + p * packed_panel_bytes(dtype_, k_),
                                            (k / kp * kPanelColumns + c) * kp + k % kp);
            sum += static_cast<int64_t>(want);
            if (got != want) return fmt::format("batch {} k {} n {}: got {}, expected {}", b, k, n, got, want);
          }
          if (dtype_ != DType::kI8) continue;
          int32_t stored;
          std::memcpy(&stored, base + panels * packed_panel_bytes(dtype_, k_) + (p * kPanelColumns + c) * 4, 4);
          if (stored != sum)
            return fmt::format("column sum {}: got {}, expected {}", p * kPanelColumns + c, stored, sum);
        }
      }
      // Between batch entries, and around everything.
      for (int64_t i = packed_batch_bytes(dtype_, n_, k_); i < batch_bytes_; ++i) {
        if (base[i] != kGuard) return fmt::format("wrote past batch entry {}", b);
      }
    }
    for (const unsigned char* p = memory_.data(); p < packed_; ++p) {
      if (*p != kGuard) return "wrote before the packed weights";
    }
    return "";
  }

 private:
  static constexpr unsigned char kGuard = 0x5A;
  DType dtype_;
  int64_t n_, k_, batch_, stride_k_, stride_n_, reach_ = 0, origin_ = 0, batch_bytes_ = 0;
  std::vector<unsigned char> source_, memory_;
  unsigned char* packed_ = nullptr;
};

TEST(GemmKernelPack, EveryElementStandsWhereTheLayoutSays) {
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kI8}) {
      for (int64_t n : {1, 15, 16, 17, 48, 70}) {
        for (int64_t k : {1, 2, 3, 5, 16, 31, 64, 67, 130}) {
          for (const Source& s : {Source{"rcr", 1, k},
                                  {"rrr", n, 1},
                                  {"gaps along n", 1, k + 3},
                                  {"gaps along k", n + 5, 1},
                                  {"both", 2, 2 * k + 1},
                                  {"reversed", -1, k},
                                  {"reversed n", n, -1}}) {
            Packing packing(dtype, n, k, 1, s.stride_k, s.stride_n);
            packing.pack(*target, 1);
            ASSERT_EQ(packing.check(), "")
                << target->label << " " << dtype_name(dtype) << " n " << n << " k " << k << " " << s.name;
          }
        }
      }
    }
  }
}

TEST(GemmKernelPack, UnitsShareThePanelsOfAllBatchEntries) {
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (DType dtype : {DType::kF32, DType::kI8}) {
      for (unsigned units : {2u, 3u, 50u}) {
        Packing packing(dtype, 70, 67, 3, 1, 67);
        packing.pack(*target, units);
        ASSERT_EQ(packing.check(), "") << target->label << " " << dtype_name(dtype) << " units " << units;
      }
    }
  }
}

TEST(GemmKernelPack, EmptyWeightsAreLegal) {
  for (const KernelTarget* target : all_kernel_targets()) {
    if (!runs_here(*target)) continue;
    for (DType dtype : {DType::kF32, DType::kI8}) {
      Packing no_k(dtype, 20, 0, 1, 1, 1), no_n(dtype, 0, 20, 1, 1, 1);
      no_k.pack(*target, 1);
      no_n.pack(*target, 2);
      EXPECT_EQ(no_k.check(), "") << target->label;
      EXPECT_EQ(no_n.check(), "") << target->label;
    }
  }
}

}  // namespace
}  // namespace tilewright
