// SPDX-License-Identifier: MIT
#include "ops/gemm/families/gpu/gpu_problem.hpp"

#include <fmt/format.h>

#include "core/fields.hpp"
#include "dispatch/registry/family.hpp"

namespace tilewright {
namespace {

// One operand: sizes and strides along M or N, K and the batch, in elements; `shortfall` as in GemmProblem; `offset`:
// elements to where a second tile begins (the up half of a gate).
struct Operand {
  int64_t size_mn, size_k, batch;
  int64_t stride_mn, stride_k, stride_batch, offset;
  int bits, shortfall;  // of an element
};

OperandAccess access(const Operand& o) {
  // A size of 1 has no stride.
  const bool along_k = o.stride_k == 1 || o.size_k == 1, along_mn = o.stride_mn == 1 || o.size_mn == 1;
  if (!along_k && !along_mn) return {Major::kK, 0};
  const Major major = along_k ? Major::kK : Major::kMn;
  const int64_t across = major == Major::kK ? (o.size_mn == 1 ? 0 : o.stride_mn) : (o.size_k == 1 ? 0 : o.stride_k);
  const int64_t steps = across | (o.batch == 1 ? 0 : o.stride_batch) | o.offset;
  for (const int copy : {16, 4}) {
    if (16 >> o.shortfall >= copy && steps * o.bits % (8 * copy) == 0) return {major, copy};
  }
  return {major, 0};
}

}  // namespace

std::string_view vendor_name(ArchVendor vendor) {
  constexpr std::string_view kNames[] = {"x86", "NVIDIA", "AMD"};
  return kNames[static_cast<size_t>(vendor)];
}

Status check_gpu(const DeviceSpec& device, ArchVendor vendor) {
  if (device.arch->vendor == vendor) return {};
  return unsupported(fmt::format("{} is no {} GPU", device.arch->target, vendor_name(vendor)));
}

double memory_bytes_per_second(const DeviceSpec& device) {
  constexpr double kUnknownGbps = 1500;
  const PartSpec* part = find_part(*device.arch, device.part);
  return (part != nullptr && part->memory_gbps > 0 ? part->memory_gbps : kUnknownGbps) * 1e9;
}

double clock_hz(const DeviceSpec& device) {
  constexpr double kUnknownGhz = 1.5;
  return (device.clock_ghz > 0 ? device.clock_ghz : kUnknownGhz) * 1e9;
}

Status check_tiled_problem(const GemmProblem& p) {
  if (p.m == 0 || p.out_n() == 0 || p.batch == 0) return unsupported("D is empty: there is nothing to compute");
  if (p.k == 0) return unsupported("K = 0 has nothing to multiply; the generic kernel applies the epilogue");
  if (p.a_dtype == DType::kI8 && p.k > kMaxExactI8K) {
    return unsupported(fmt::format("K = {} for i8, allowed: at most {} (i32 sums)", p.k, kMaxExactI8K));
  }
  return {};
}

Status check_packed_bits(const GemmProblem& p, const DeviceSpec& device) {
  if (p.b_packed == kPackedFragments) {
    if (device.arch->vendor == ArchVendor::kNvidia) return {};
    return unsupported(fmt::format("B is packed as NVIDIA GPUs read it, not {}", device.arch->target));
  }
  if (!p.b_packed || dtype_bits(p.b_dtype) >= 8) return {};
  return unsupported(
      fmt::format("B is packed {}: CPUs read it, {} takes it plain", dtype_name(p.b_dtype), device.arch->target));
}

Status check_not_packed(const GemmProblem& p) {
  if (!p.b_packed) return {};
  return unsupported("B is packed; the generic kernel, and on AMD GPUs every kernel, reads it");
}

Status check_rows_along_k(const GemmProblem& p) {
  for (const auto& [name, access] : {std::pair{"a", access_a(p)}, {"b", access_b(p)}}) {
    if (p.b_packed && *name == 'b') continue;
    if (access.major != Major::kK || access.copy != 16) {
      return unsupported(fmt::format("{}: the kernel wants rows along K, at multiples of 16 bytes", name));
    }
  }
  return {};
}

Status check_rows_of_words(const GemmProblem& p) {
  constexpr int64_t kMaxRowBytes = int64_t{1} << 30;
  const int64_t row_bytes = p.k * (dtype_bits(p.a_dtype) / 8);
  if (row_bytes > kMaxRowBytes) return unsupported(fmt::format("K = {}: rows longer than {} bytes", p.k, kMaxRowBytes));
  if (Status s = check_rows_along_k(p); !s) return s;
  if (row_bytes % 16 != 0) return unsupported(fmt::format("K = {}: the kernel wants whole pieces of 16 bytes", p.k));
  return {};
}

GemmEpilogueConfig choose_epilogue(const GemmProblem& p) {
  const bool linear = !p.c.present() && p.step_count == 0 && p.bias.stride_m == 0;
  if (!linear) return {EpilogueKind::kFull, Activation::kNone, p.gate, DType::kNone};
  // Scales of groups are not the epilogue's.
  const auto scaled = [](const ScaleProblem& s) { return s.present() && !s.blocked(); };
  const bool plain = !p.has_alpha && !scaled(p.scale_a) && !scaled(p.scale_b) && !p.bias.present() &&
                     p.activation == Activation::kNone && p.gate == GateMode::kNone;
  return {plain ? EpilogueKind::kPlain : EpilogueKind::kLinear, p.activation, p.gate, p.d_dtype};
}

Status check_gpu_epilogue(const GemmEpilogueConfig& have, const GemmProblem& p) {
  const GemmEpilogueConfig need = choose_epilogue(p);
  const bool full = have.kind == EpilogueKind::kFull && (have.d_dtype == DType::kNone || have.d_dtype == p.d_dtype);
  if (have.gate == need.gate && (full || have == need)) return {};
  return unsupported(
      fmt::format("the kernel's epilogue is {}, the problem needs {}", print_fields(have), print_fields(need)));
}

std::vector<GemmProblem> usual_gpu_problems(const ArchSpec& arch) {
  std::vector<GemmProblem> problems;
  const bool fnuz = arch.fp8 == "e4m3fnuz";
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kI8, fnuz ? DType::kF8E4M3Fnuz : DType::kF8E4M3,
                            fnuz ? DType::kF8E5M2Fnuz : DType::kF8E5M2, DType::kF32}) {
    GemmProblem p;
    p.m = p.n = p.k = 4096;
    p.a_dtype = p.b_dtype = dtype;
    p.d_dtype = usual_d_dtype(dtype);
    p.has_alpha = dtype_bits(dtype) == 8;
    p.stride_a_m = p.stride_b_n = p.stride_d_m = 4096, p.stride_a_k = p.stride_b_k = p.stride_d_n = 1;
    problems.push_back(p);
  }
  if (arch.vendor != ArchVendor::kNvidia) return problems;
  problems.push_back(problems.back());
  problems.back().allow_tf32 = 1;
  return problems;
}

OperandAccess access_a(const GemmProblem& p) {
  return access(
      {p.m, p.k, p.batch, p.stride_a_m, p.stride_a_k, p.stride_a_batch, 0, dtype_bits(p.a_dtype), p.shortfall_a});
}

OperandAccess access_b(const GemmProblem& p) {
  const int64_t up = p.gate == GateMode::kSeparated ? p.out_n() * p.stride_b_n : 0;
  return access(
      {p.n, p.k, p.batch, p.stride_b_n, p.stride_b_k, p.stride_b_batch, up, dtype_bits(p.b_dtype), p.shortfall_b});
}
bool has_d_words(const GemmProblem& p) {
  const int64_t steps = (p.m == 1 ? 0 : p.stride_d_m) | (p.batch == 1 ? 0 : p.stride_d_batch) | p.out_n();
  return dtype_bits(p.d_dtype) == 16 && p.stride_d_n == 1 && steps % 8 == 0 && p.shortfall_d == 0;
}

std::string gpu_instance_source(ArchVendor vendor, std::string_view header, std::string_view entry,
                                std::string_view kernel, std::string_view args, int threads, int blocks) {
  const std::string body =
      fmt::format("(const __grid_constant__ tilewright::{} a) {{ tilewright::{}(a); }}\n", args, kernel);
  if (vendor == ArchVendor::kAmd) {
    return fmt::format("#include \"{0}\"\nTILEWRIGHT_KERNEL({1}, {2}, {3}){4}TILEWRIGHT_KERNEL_ENTRY({1})\n", header,
                       entry, threads, blocks, body);
  }
  return fmt::format("#include \"{}\"\nextern \"C\" __global__ void __launch_bounds__({}, {}) {}{}", header, threads,
                     blocks, entry, body);
}

}  // namespace tilewright
