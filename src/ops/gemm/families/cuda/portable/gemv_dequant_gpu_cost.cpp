// SPDX-License-Identifier: MIT
// The slower of two streams, of the busiest multiprocessor: weights from memory, and the instructions that widen and multiply
// them. Instructions are counted in what NVRTC makes.
#include "ops/gemm/families/cuda/portable/gemv_dequant_gpu_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.93;          // of the nominal bandwidth
constexpr double kFixedSeconds = 3.4e-6;       // launch, first bytes, end
constexpr double kLatencySeconds = 1.3e-6;     // of memory under load
constexpr double kTokenBytesPerSecond = 18e9;  // of a multiprocessor, when all of them read the same
constexpr double kSliceSeconds = 2e-6;         // before its first product
constexpr double kSharpness = 6;               // of the maximum

// Of a thread, for a value of the weights.
double instructions(const GemvDequantGpuConfig& c) {
  const double widen = c.weight == DType::kF4E2M1 ? 2.3 : dtype_bits(c.weight) == 4 ? 1.2 : 2.2;
  const double columns = c.tokens > 8 ? 2 : 1;
  const double less = c.zero == DType::kNone ? 0.3 : 1.2;
  return widen + less + columns * (0.125 + 0.0625 * 16 / c.rows + (narrow_weights_promote(c) ? 0.06 : 0));
}

}  // namespace

double gemv_dequant_gpu_cost(const GemmProblem& p, const DeviceSpec& device, const GemvDequantGpuConfig& c) {
  const double units = std::max(1, device.units);
  const auto tiles = static_cast<double>(gemv_dequant_gpu_tiles(c, p.n) * p.batch);
  const double busiest = std::ceil(tiles / units), slices = static_cast<double>(gemv_dequant_gpu_slices(c, p.k));
  const double k = slices * static_cast<double>(gemv_dequant_gpu_slice_steps(c, p.k)) * gemv_dequant_gpu_step_k(c);

  // Of the whole bandwidth a multiprocessor gets its part, if it asks for enough at a time.
  const double in_flight = c.blocks * c.warps * c.depth * c.rows * 4.0 * gemv_dequant_gpu_piece(c);
  const double rate = std::min(kMemoryShare * memory_bytes_per_second(device) / units, in_flight / kLatencySeconds);
  const double memory = gemm_bytes_moved(p) / tiles * busiest / rate;
  const double issue = busiest * c.rows * k * instructions(c) / 32 / (4 * 0.75) / clock_hz(device);
  const double stream = std::pow(std::pow(memory, kSharpness) + std::pow(issue, kSharpness), 1 / kSharpness);
  // A comes once, or, where it does not fit, for some tiles again and again.
  const double times = slices > 1 ? std::ceil(busiest / c.blocks / kGemvDequantHeld) : 1;
  const double tokens = times * (c.blocks * c.tokens * k * 2 / kTokenBytesPerSecond + (slices - 1) * kSliceSeconds);
  return kFixedSeconds + stream + tokens;
}

}  // namespace tilewright
