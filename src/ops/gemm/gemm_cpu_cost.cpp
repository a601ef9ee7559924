// SPDX-License-Identifier: MIT
#include "ops/gemm/gemm_cpu_cost.hpp"

#include <algorithm>
#include <cmath>

namespace tilewright {
namespace {

// Nominal figures of a server core where the device states none. They place the corner between compute-bound and
// bandwidth-bound; ranking needs no more.
constexpr double kClockGhz = 3.0;
constexpr double kReadGbpsUnit = 12.0;
constexpr double kReadGbpsAll = 200.0;
constexpr double kCopyGbpsUnit = 6.0;      // packing: read, transpose, write
constexpr double kLaunchSeconds = 3e-6;    // wake the units and join them
constexpr double kScalarGflops = 1.0;      // the generic kernel

double ceil_div(double a, double b) { return std::ceil(a / b); }

// Share of the peak that a register tile reaches: loads per multiply against two load ports and two FMA ports, and the
// latency of the accumulator chain.
double tile_efficiency(const GemmCpuConfig& c) {
  if (c.mma == CpuMma::kAmxBf16 || c.mma == CpuMma::kAmxI8) {
    // A tile load takes 8 cycles of the load ports, a tile product 16.
    const double products = c.tile_m / 16.0 * (c.tile_n / 16.0), loads = c.tile_m / 16.0 + c.tile_n / 16.0;
    return std::min(1.0, 16 * products / std::max(16 * products, 8 * loads + 4)) * (products >= 4 ? 0.9 : 0.7);
  }
  const double lanes = c.mma == CpuMma::kFmaAvx2 || c.mma == CpuMma::kDotI8Avx2 ? 8 : 16;
  const double vectors = c.tile_n / lanes, products = c.tile_m * vectors, loads = c.tile_m + vectors;
  const double chain = std::min(1.0, products / 8.0);  // latency 4, two ports
  return 0.93 * chain * std::min(1.0, products / std::max(products, loads));
}

double read_gbps(int units) { return std::min(kReadGbpsUnit * units, kReadGbpsAll); }

double peak_gflops(const DeviceSpec& device, CpuMma mma) {
  const MmaSpec* spec = find_mma(*device.arch, kCpuMmaNames[static_cast<int>(mma)]);
  const double clock = device.clock_ghz > 0 ? device.clock_ghz : kClockGhz;
  return spec == nullptr ? kScalarGflops : spec->ops_per_cycle * clock;
}

}  // namespace

bool cpu_mma_takes(CpuMma mma, DType dtype) {
  switch (mma) {
    case CpuMma::kFmaAvx2:
    case CpuMma::kFmaAvx512: return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
    case CpuMma::kDotBf16:
    case CpuMma::kAmxBf16: return dtype == DType::kBf16;
    case CpuMma::kDotI8Avx2:
    case CpuMma::kDotI8:
    case CpuMma::kAmxI8: return dtype == DType::kI8;
  }
  return false;
}

std::vector<CpuMmaChoice> cpu_mma_choices(const DeviceSpec& device, DType dtype) {
  std::vector<CpuMmaChoice> choices;
  for (int i = enum_count(CpuMma{}) - 1; i >= 0; --i) {
    const auto mma = static_cast<CpuMma>(i);
    if (!cpu_mma_takes(mma, dtype)) continue;
    // The lowest target of the chain that has the instruction: one artifact serves every target above it.
    CpuMmaChoice choice{mma, nullptr, nullptr};
    for (const ArchSpec* arch : device.targets) {
      if (const MmaSpec* spec = find_mma(*arch, kCpuMmaNames[i])) choice = {mma, spec, arch};
    }
    if (choice.arch != nullptr) choices.push_back(choice);
  }
  std::stable_sort(choices.begin(), choices.end(), [](const CpuMmaChoice& x, const CpuMmaChoice& y) {
    return x.spec->ops_per_cycle > y.spec->ops_per_cycle;
  });
  return choices;
}

std::vector<CpuMma> cpu_mma_introduced(std::string_view target, DType dtype) {
  std::vector<CpuMma> own;
  const ArchSpec* arch = find_arch(target);
  if (arch == nullptr) return own;
  const ArchSpec* base = find_arch(arch->base);
  for (int i = 0; i < enum_count(CpuMma{}); ++i) {
    const auto mma = static_cast<CpuMma>(i);
    if (!cpu_mma_takes(mma, dtype) || find_mma(*arch, kCpuMmaNames[i]) == nullptr) continue;
    if (base != nullptr && find_mma(*base, kCpuMmaNames[i]) != nullptr) continue;
    own.push_back(mma);
  }
  return own;
}

double gemm_cpu_cost(const GemmProblem& p, const DeviceSpec& device, const GemmCpuConfig& c, const GemmKnobs& knobs) {
  const double units = device.units;
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double batch = static_cast<double>(p.batch);
  const double block_m = std::min(static_cast<double>(knobs.block_m), m), block_n = std::min(static_cast<double>(knobs.block_n), n);

  // Compute: tiles are padded to their size, blocks are dealt out whole.
  const double padded_m = ceil_div(m, c.tile_m) * c.tile_m, padded_n = ceil_div(n, c.tile_n) * c.tile_n;
  const double items = batch * ceil_div(m, block_m) * ceil_div(n, block_n);
  const double balance = items / (units * ceil_div(items, units));
  const double compute = 2 * batch * padded_m * padded_n * k /
                         (peak_gflops(device, c.mma) * 1e9 * units * balance * tile_efficiency(c));

  // Memory: B once, and once more for every further row block that does not find it in cache; A and D once.
  const double element = dtype_bits(p.a_dtype) / 8.0;
  const double b_bytes = n * k * element * (p.stride_b_batch == 0 ? 1 : batch);
  const double l2 = device.l2_bytes > 0 ? static_cast<double>(device.l2_bytes) : 1 << 20;
  const double block_bytes = std::min(k, static_cast<double>(knobs.block_k)) * block_n * element;
  const double passes = block_bytes <= 0.6 * l2 ? 1 : ceil_div(m, block_m);
  const double memory = (b_bytes * passes + m * k * element * batch + m * n * dtype_bits(p.d_dtype) / 8.0 * batch) /
                        (read_gbps(device.units) * 1e9);
  const double pack = (m * k * element * batch + (p.b_packed ? 0 : b_bytes)) / (kCopyGbpsUnit * 1e9 * units);
  // The block buffer is written and read once per K block; small blocks pay for their loop set-up.
  const double spill = batch * m * n * 4 * ceil_div(k, static_cast<double>(knobs.block_k)) / (40e9 * units);
  return kLaunchSeconds + std::max(compute, memory) + 0.15 * std::min(compute, memory) + pack + spill +
         items / units * 1e-7;
}

double gemv_cpu_cost(const GemmProblem& p, const DeviceSpec& device, const GemvCpuConfig& c) {
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double batch = static_cast<double>(p.batch), element = dtype_bits(p.b_dtype) / 8.0;
  const double groups = ceil_div(m, c.rows);
  const double b_bytes = n * k * element * batch;
  const double memory = b_bytes / (read_gbps(device.units) * 1e9);
  // Later row groups find the panels in L2; each line costs a load and `rows` multiplies.
  const double compute = 2 * batch * groups * c.rows * n * k / (0.5 * peak_gflops(device, c.mma) * 1e9 * device.units);
  return kLaunchSeconds + std::max(memory, compute) + 0.15 * std::min(memory, compute) +
         (groups - 1) * b_bytes / (60e9 * device.units);
}

double gemm_generic_cost(const GemmProblem& p, const DeviceSpec& device) {
  return kLaunchSeconds + gemm_operations(p) / (kScalarGflops * 1e9 * device.units);
}

}  // namespace tilewright
