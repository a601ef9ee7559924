// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cpu/gemm_cpu_cost.hpp"

#include <algorithm>
#include <cmath>

#include "gemm/cpu/gemm_cpu_blocking.hpp"

namespace tilewright {
namespace {

// Nominal figures of a server core where the device states none. They place the corner between compute-bound and
// bandwidth-bound; ranking needs no more.
constexpr double kClockGhz = 3.0;
constexpr double kReadGbpsUnit = 12.0;
constexpr double kReadGbpsAll = 200.0;
constexpr double kCopyGbpsUnit = 6.0;  // packing: read, transpose, write
// Of the bandwidth that gemv_cpu reads with. AMX loads share the buffers of the first level with what is fetched from memory.
constexpr double kVectorStreams = 0.95;
constexpr double kAmxStreams = 0.96, kAmxManyStreams = 0.85;  // up to two panels of B at a time; more
constexpr double kL2GbpsUnit = 90.0;
constexpr double kL3GbpsUnit = 15.0;
constexpr double kLaunchSeconds = 3e-6;  // wake the units and join them
constexpr double kScalarGflops = 1.0;    // the generic kernel
// gemm_dequant_cpu: cycles of a vector of elements that is widened, and of one of a group's sums (docs/kernels/gemm_dequant_cpu.md).
constexpr double kWidenCycles = 7.0, kPairCycles = 5.0;  // by way of f32; straight to bf16, or a copy of i8
constexpr double kGroupCycles = 2.0, kGroupAmxCycles = 1.0;

double ceil_div(double a, double b) { return std::ceil(a / b); }

// Share of the peak that a register tile reaches: loads per multiply against two load ports and two FMA ports, and the
// latency of the accumulator chain. A vector kernel's tile holds `rows` rows.
double tile_efficiency(const GemmCpuConfig& c, double rows) {
  if (c.mma == CpuMma::kAmxBf16 || c.mma == CpuMma::kAmxI8) {
    // A tile load takes 8 cycles of the load ports, a tile product 16.
    const double products = c.tile_m / 16.0 * (c.tile_n / 16.0), loads = c.tile_m / 16.0 + c.tile_n / 16.0;
    return std::min(1.0, 16 * products / std::max(16 * products, 8 * loads + 4)) * (products >= 4 ? 0.9 : 0.7);
  }
  const double lanes = c.mma == CpuMma::kFmaAvx2 || c.mma == CpuMma::kDotI8Avx2 ? 8 : 16;
  const double vectors = c.tile_n / lanes, products = rows * vectors, loads = rows + vectors;
  const double chain = std::min(1.0, products / 8.0);  // latency 4, two ports
  const double streams = vectors == 3 ? 0.95 : 1.0;    // three panels side by side: measured (docs/kernels/gemm_cpu.md)
  return 0.93 * streams * chain * std::min(1.0, products / std::max(products, loads));
}

double read_gbps(int units) { return std::min(kReadGbpsUnit * units, kReadGbpsAll); }

double peak_gflops(const DeviceSpec& device, CpuMma mma) {
  const MmaSpec* spec = find_mma(*device.arch, kCpuMmaNames[static_cast<int>(mma)]);
  const double clock = device.clock_ghz > 0 ? device.clock_ghz : kClockGhz;
  return spec == nullptr ? kScalarGflops : spec->ops_per_cycle * clock;
}

}  // namespace

std::vector<CpuMmaChoice> cpu_mma_choices(const DeviceSpec& device, DType dtype) {
  std::vector<CpuMmaChoice> choices;
  for (int i = enum_count(CpuMma{}) - 1; i >= 0; --i) {
    const auto mma = static_cast<CpuMma>(i);
    if (cpu_mma_dtype_refusal(dtype, mma) != nullptr) continue;
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
    if (cpu_mma_dtype_refusal(dtype, mma) != nullptr || find_mma(*arch, kCpuMmaNames[i]) == nullptr) continue;
    if (base != nullptr && find_mma(*base, kCpuMmaNames[i]) != nullptr) continue;
    own.push_back(mma);
  }
  return own;
}

namespace {

// Of a product of elements of c.dtype in these blocks.
// b_element: bytes of an element of B as it lies in memory. copies: operands are packed as they lie; else what packs them is the
// caller's.
double blocked_cost(const GemmProblem& p, const DeviceSpec& device, const GemmCpuConfig& c,
                    const GemmCpuBlocking& blocks, double b_element, bool copies) {
  const double n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double units = static_cast<double>(blocks.units_batch * blocks.units_m * blocks.units_n);
  const double batch = std::ceil(static_cast<double>(p.batch) / static_cast<double>(blocks.units_batch));
  const double element = dtype_bits(c.dtype) / 8.0, ratio = n / static_cast<double>(std::max<int64_t>(1, blocks.out_n));
  const double unit_m = ceil_div(static_cast<double>(blocks.m_grains), static_cast<double>(blocks.units_m)) *
                        static_cast<double>(blocks.row_grain);
  const double unit_n = ceil_div(static_cast<double>(blocks.n_tiles), static_cast<double>(blocks.units_n)) *
                        static_cast<double>(blocks.out_tile) * ratio;

  // Compute: the busiest unit's tiles, padded to their width. Rows are not: AMX multiplies 16 at a time, the vector kernels
  // share them out among their tiles.
  const bool amx = is_amx(c.mma);
  const double rows = std::min(unit_m, amx ? 16 * ceil_div(static_cast<double>(p.m), 16) : static_cast<double>(p.m));
  const double tile_rows = std::ceil(rows / ceil_div(rows, c.tile_m));
  const double compute =
      2 * batch * rows * unit_n * k / (peak_gflops(device, c.mma) * 1e9 * tile_efficiency(c, tile_rows));

  // Cache traffic of the loops over tiles: a strip of B (tile_n wide) serves every row of the block; A's block is read
  // again for every strip. Each comes from the first level that holds it.
  const double block_k = static_cast<double>(blocks.block_k), block_m = static_cast<double>(blocks.block_m);
  const double l1 = device.l1_bytes > 0 ? static_cast<double>(device.l1_bytes) : 32e3;
  const double l2 = device.l2_bytes > 0 ? static_cast<double>(device.l2_bytes) : 1e6;
  const double strip_bytes = c.tile_n * block_k * element, a_bytes = std::min(block_m, rows) * block_k * element;
  const double accumulators = block_m * static_cast<double>(blocks.acc_stride) * 4;
  auto rate = [&](double bytes, double beside) {
    return bytes <= 0.75 * l1 ? 200e9 : bytes + beside <= 0.8 * l2 ? kL2GbpsUnit * 1e9 : kL3GbpsUnit * 1e9;
  };
  const double a_time = batch * rows * k * element * (unit_n / c.tile_n) / rate(a_bytes, accumulators / 2);
  const double b_time = batch * unit_n * k * element * (unit_m / c.tile_m) / rate(strip_bytes, 0);
  // The block's accumulators are read and written once for each block of k, and once more by the epilogue.
  const double spill_rate = accumulators <= 0.5 * l2 ? kL2GbpsUnit * 1e9 : kL3GbpsUnit * 1e9;
  const double spill = batch * rows * unit_n * 4 * (2 * static_cast<double>(blocks.blocks_k) - 1) / spill_rate;

  // Memory: B once a block of rows that finds it gone, A and D once; packing on top.
  const double b_bytes = unit_n * k * element * batch;
  const bool a_once = blocks.packed_a != PackedA::kBlock, b_once = blocks.packed_b != PackedB::kTile;
  const bool in_place = blocks.packed_b == PackedB::kInPlace;
  const double b_passes = b_bytes <= 0.5 * l2 || (!in_place && b_once) ? 1 : static_cast<double>(blocks.blocks_m);
  const double streams = !amx ? kVectorStreams : c.tile_n > 32 ? kAmxManyStreams : kAmxStreams;
  const double unit_gbps = read_gbps(static_cast<int>(units)) / units * streams;
  const double memory = (b_bytes / element * b_element * b_passes + rows * k * element * batch +
                         rows * unit_n * dtype_bits(p.d_dtype) / 8.0 * batch) /
                        (unit_gbps * 1e9);
  const double pack = !copies ? 0
                              : (rows * k * element * batch * (a_once ? 1 : static_cast<double>(blocks.blocks_n)) +
                                 (in_place ? 0 : b_bytes * (b_once ? 1 : static_cast<double>(blocks.blocks_m)))) /
                                    (kCopyGbpsUnit * 1e9);
  const double loops = batch * static_cast<double>(blocks.blocks_m * blocks.blocks_n * blocks.blocks_k) * 1e-6;
  const double busy = std::max(compute, 0.8 * (a_time + b_time)) + 0.2 * std::min(compute, a_time + b_time);
  return kLaunchSeconds + std::max(busy, memory) + 0.15 * std::min(busy, memory) + pack + spill + loops;
}

}  // namespace

double gemm_cpu_cost(const GemmProblem& p, const DeviceSpec& device, const GemmCpuConfig& c, const GemmKnobs& knobs) {
  // The very blocks that the kernel will use.
  const GemmCpuBlocking blocks = gemm_cpu_blocking(c, gemm_cpu_sizes(gemm_args(p, knobs)), device.units);
  return blocked_cost(p, device, c, blocks, dtype_bits(p.b_dtype) / 8.0, true);
}

// Beside the product: what widening takes, and adding the sums of groups.
double gemm_dequant_cpu_cost(const GemmProblem& p, const DeviceSpec& device, const GemmDequantCpuConfig& c) {
  const GemmScaledArgs args = gemm_scaled_args(p, {});
  const GemmCpuConfig product = c.product();
  const GemmCpuBlocking blocks = gemm_cpu_blocking(product, gemm_dequant_cpu_sizes(c, args), device.units);
  const double clock = (device.clock_ghz > 0 ? device.clock_ghz : kClockGhz) * 1e9;
  const double units = static_cast<double>(blocks.units_batch * blocks.units_m * blocks.units_n);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double lanes = is_avx2(c.mma) ? 8 : 16;
  const double again = blocks.packed_b == PackedB::kTile ? static_cast<double>(blocks.blocks_m) : 1;
  const double widened =
      (n * static_cast<double>(blocks.units_m) * again + m * static_cast<double>(blocks.units_n)) * k;
  const double vectors = c.by_group ? m * n * k / static_cast<double>(dequant_group(c.dtype, args)) / lanes : 0;
  const double widen = c.dtype == DType::kF32 || (p.scale_b.blocked() && !c.by_group) ? kWidenCycles : kPairCycles;
  const double beside = is_amx(c.mma) ? kGroupAmxCycles : kGroupCycles;
  return blocked_cost(p, device, product, blocks, dtype_bits(p.b_dtype) / 8.0, false) +
         static_cast<double>(p.batch) * (widened / lanes * widen + vectors * beside) / (units * clock);
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

// Cycles of a core that 64 bytes of weights take: to widen, and to multiply with a row. As counted of the loops
// (docs/kernels/gemv_dequant_cpu.md).
struct DequantCycles {
  double widen, row;
};
DequantCycles dequant_cycles(const GemvDequantCpuConfig& c) {
  const bool nibbles = dtype_bits(c.dtype) == 4, f8 = is_ocp_f8(c.dtype);
  const double half = nibbles ? 1 : 0.5;  // of 128 products
  switch (c.mma) {
    case CpuMma::kDotI8: return {nibbles ? c.dtype == DType::kF4E2M1 ? 2.5 : 1.5 : 0.5, 6.5 * half};
    case CpuMma::kDotBf16: return {4, 8.5};  // an Intel core multiplies every second cycle
    case CpuMma::kFmaAvx512: return {nibbles ? 7.5 : f8 ? 18.0 : 4.5, 4.5 * half};
    default: return {nibbles ? 18.0 : f8 ? 36.0 : 9.0, 9 * half};
  }
}

double gemv_dequant_cpu_cost(const GemmProblem& p, const DeviceSpec& device, const GemvDequantCpuConfig& c) {
  const double m = static_cast<double>(p.m);
  const double b_bytes =
      static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.batch) * dtype_bits(p.b_dtype) / 8.0;
  const double groups = ceil_div(m, c.rows);
  const double memory = b_bytes / (read_gbps(device.units) * 1e9);
  const double clock = (device.clock_ghz > 0 ? device.clock_ghz : kClockGhz) * 1e9;
  const DequantCycles cycles = dequant_cycles(c);
  const double lines = b_bytes / 64 * groups / (clock * device.units);
  const double compute = lines * (cycles.widen + c.rows * cycles.row);
  // Each column reads all of A: from the second level where it fills the first one, in the way of what memory sends.
  const double a_block = c.rows * (c.mma == CpuMma::kDotI8 ? 512.0 : static_cast<double>(dequant_block_bytes(c)));
  const double l1 = device.l1_bytes > 0 ? static_cast<double>(device.l1_bytes) : 32e3;
  const bool far = a_block * static_cast<double>(dequant_blocks(p.k)) > 0.75 * l1;
  const double a_lines = a_block / 64 * (dtype_bits(p.b_dtype) == 4 ? 1 : 0.5) / c.columns;
  // One stream is what prefetching follows best.
  const double reading = memory * (1 + 0.05 * (c.columns - 1));
  return kLaunchSeconds + std::max(reading, compute) + 0.15 * std::min(reading, compute) +
         (far ? lines * a_lines * 0.45 : 0);
}

double gemv_dequant_packed_cpu_cost(const GemmProblem& p, const DeviceSpec& device,
                                    const GemvDequantPackedCpuConfig& c) {
  const double bits = dtype_bits(c.dtype);
  const double b_bytes = static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.batch) * bits / 8;
  const double clock = (device.clock_ghz > 0 ? device.clock_ghz : kClockGhz) * 1e9;
  // Cycles of a core for 64 bytes: to widen, and to multiply with a row; scales of short groups are more of them.
  const double group = !p.scale_b.blocked() || p.scale_b.k == kDequantBlock ? 0.4 : 1.4;
  DequantCycles cycles{bits == 4 ? 16.0 : 8.0, bits == 4 ? 4.0 : 2.0};
  if (c.mma == CpuMma::kFmaAvx2) cycles = {bits == 4 ? 24.0 : 12.0, bits == 4 ? 8.0 : 4.0};
  if (c.mma == CpuMma::kDotI8) {
    const double tables = c.dtype == DType::kF4E2M1 ? 1 : 0;
    cycles = {bits == 4 ? 1.5 + tables : 0.5, (bits == 4 ? 3.0 : 1.5) + group};
  }
  const double groups = ceil_div(static_cast<double>(p.m), c.rows);
  const double lines = b_bytes / 64 * groups / (clock * device.units);
  const double compute = lines * (cycles.widen + c.rows * cycles.row);
  // More than 16 rows read the weights again. Two panels share what is read of A.
  const double turns = ceil_div(static_cast<double>(p.m), static_cast<double>(kDequantPackedRows));
  const double reading = turns * b_bytes / (read_gbps(device.units) * 1e9);
  if (c.panels == 2) cycles.row *= 0.9;
  return kLaunchSeconds + std::max(reading, compute) + 0.15 * std::min(reading, compute);
}

double gemm_generic_cost(const GemmProblem& p, const DeviceSpec& device) {
  return kLaunchSeconds + gemm_operations(p) / (kScalarGflops * 1e9 * device.units);
}

}  // namespace tilewright
