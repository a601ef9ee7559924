// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/registers/wgmma_registers.cuh. A is read when a product is asked for, from the four threads that
// share its rows; B and the sums when it is waited for.
#pragma once

#include "tile/sm90/wgmma.cuh"

namespace tilewright::sm90 {

template <DType kType, int kN>
struct WgmmaOfRegisters {
  static_assert((kType == DType::kBf16 || kType == DType::kF16) && kN % 8 == 0 && kN <= 256);

  static void multiply(float (&d)[kN / 2], const unsigned (&a)[4], unsigned long long b, int accumulate) {
    const auto lane = static_cast<size_t>(emulated::lane());
    std::memcpy(emulated::warp_rows()[lane].data(), a, sizeof(a));
    __syncwarp();
    // Rows r and r + 8, of which thread t of four has columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.
    std::array<std::array<float, 16>, 2> rows;
    for (size_t t = 0; t < 4; ++t) {
      for (size_t word = 0; word < 4; ++word) {
        const unsigned pair = emulated::warp_rows()[lane / 4 * 4 + t][word];
        for (size_t half = 0; half < 2; ++half) {
          rows[word % 2][word / 2 * 8 + 2 * t + half] = operand_value<kType>(pair >> (16 * half));
        }
      }
    }
    __syncwarp();
    float* const sums = d;
    products_under_way[emulated::running_thread()].open.push_back([=] {
      float column[16];
      for (unsigned j = 0; j < kN / 8; ++j) {
        for (unsigned i = 0; i < 2; ++i) {
          read_operand_row<kType>(b, 8 * j + threadIdx.x % 4 * 2 + i, column);
          for (unsigned row = 0; row < 2; ++row) {
            float product = 0;
            for (unsigned k = 0; k < 16; ++k) product += rows[row][k] * column[k];
            float& sum = sums[4 * j + 2 * row + i];
            sum = accumulate != 0 ? sum + product : product;
          }
        }
      }
    });
  }
};

}  // namespace tilewright::sm90
