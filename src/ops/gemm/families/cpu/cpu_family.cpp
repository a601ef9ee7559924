// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cpu/cpu_family.hpp"

#include "gemm/cpu/gemm_cpu_blocking.hpp"

namespace tilewright {

std::vector<CpuTile> cpu_tiles(CpuMma mma) {
  switch (mma) {
    case CpuMma::kFmaAvx2: return {{6, 16}, {3, 32}, {4, 16}, {1, 32}};
    case CpuMma::kDotI8Avx2: return {{4, 16}, {2, 16}, {1, 32}};
    case CpuMma::kFmaAvx512:
    case CpuMma::kDotBf16:
    case CpuMma::kDotI8: return {{14, 32}, {12, 32}, {8, 48}, {6, 64}, {4, 64}, {2, 64}, {1, 64}};
    case CpuMma::kAmxBf16:
    case CpuMma::kAmxI8: return {{32, 32}, {16, 64}, {16, 48}, {16, 32}, {16, 16}};
  }
  return {};
}

Status check_cpu_sizes(const GemmProblem& p, const DeviceSpec& device) {
  if (device.id.kind != DeviceKind::kCpu)
    return unsupported(fmt::format("runs on cpu, not on {}", to_string(device.id)));
  if (p.b_packed == kPackedFragments) return unsupported("B is packed as NVIDIA GPUs read it");
  if (p.m == 0 || p.out_n() == 0 || p.batch == 0) return unsupported("D is empty: there is nothing to compute");
  if (p.k == 0) return unsupported("K = 0 has nothing to multiply; the generic kernel applies the epilogue");
  if (p.a_dtype == DType::kI8 && p.k > kMaxExactI8K) {
    return unsupported(fmt::format("K = {} for i8, allowed: at most {} (i32 sums)", p.k, kMaxExactI8K));
  }
  return {};
}

Status check_cpu_problem(const GemmProblem& p, const DeviceSpec& device) {
  const Status s = check_cpu_sizes(p, device);
  return s ? check_plain_product(p) : s;
}

Status check_dequant_group(const ScaleProblem& s) {
  if (!s.blocked() || s.k == 32 || s.k == 64 || s.k == 128) return {};
  return unsupported(fmt::format("B has scales of {}, allowed: groups of 32, 64 or 128 of K", scale_mode_text(s)));
}

Status check_cpu_key(const KernelKey& key, DType dtype, CpuMma mma) {
  const std::string instruction = fields_detail::print_value(mma);
  if (key.signature() != fmt::format("dtype={}", dtype_name(dtype))) {
    return unsupported("signature and config name different dtypes");
  }
  const ArchSpec* arch = find_arch(key.target);
  if (arch == nullptr || find_mma(*arch, instruction) == nullptr) {
    return unsupported(fmt::format("target {} has no {}", key.target, instruction));
  }
  return {};
}

}  // namespace tilewright
