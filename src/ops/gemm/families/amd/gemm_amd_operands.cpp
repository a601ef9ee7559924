// SPDX-License-Identifier: MIT
#include "ops/gemm/families/amd/gemm_amd_operands.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "dispatch/registry/family.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "ops/gemm/families/amd/gemm_amd_cost.hpp"

namespace tilewright {
namespace {

// Chunks lie along K, or are made of four neighbours of M or N; they are whole or not there, begin at multiples of 4 bytes,
// and offsets within a tile count in 31 bits.
int chunk_bytes(const OperandAccess& access, DType dtype, int64_t size_k, int64_t size_mn, int64_t stride, int rows) {
  const int bits = dtype_bits(dtype);
  const bool along_k = access.major == Major::kK;
  if (access.copy == 0 || (along_k ? size_k * bits % 128 != 0 : size_mn % 4 != 0)) return 0;
  return std::abs(stride) * bits <= (int64_t{1} << 33) / rows && stride >= 0 ? 16 : 0;
}

// Two to a byte: pairs along K are read as one.
Status check_pairs(const char* name, DType dtype, int64_t k, int64_t stride_k, int64_t stride_mn,
                   int64_t stride_batch) {
  if (dtype != DType::kF4E2M1) return {};
  if (stride_k != 1) return unsupported(fmt::format("{} is e2m1 and does not lie along K", name));
  if (k % 2 == 0 && stride_mn % 2 == 0 && stride_batch % 2 == 0) return {};
  return unsupported(fmt::format("{} is e2m1 and has rows of half bytes", name));
}

Status check_scales(const char* name, const ScaleProblem& s) {
  if (!s.blocked() || (s.outer == 1 && s.k == kAmdScaleDepth && s.dtype == DType::kE8M0)) return {};
  return unsupported(
      fmt::format("{} has scales of {}, the matrix instructions take e8m0.1x32", name, scale_mode_text(s)));
}

bool is_group(const ScaleProblem& s, int outer) {
  return s.blocked() && s.outer == outer && s.k == kAmdScaleWord && s.dtype == DType::kF32;
}

// f32 for 128 of K of a row of A and of 128 x 128 of B: sums of 128 of K are scaled as they are added.
bool is_promoted(const GemmProblem& p) { return is_group(p.scale_a, 1) && is_group(p.scale_b, 128); }

Status check_promoted(const GemmProblem& p, const ArchSpec& arch) {
  if (arch.wave_size != 64 || !is_f8(p.a_dtype) || p.a_dtype != p.b_dtype) {
    return unsupported("f32 scales of 128 of K are those of one type of 8-bit floats on CDNA");
  }
  if (p.gate == GateMode::kSeparated && p.out_n() % 128 != 0) {
    return unsupported("gate and up do not both begin at a group of 128 columns");
  }
  const auto near = [](int64_t stride, int64_t groups) { return stride >= 0 && groups * stride <= 1 << 28; };
  const int64_t columns = p.gate == GateMode::kSeparated ? p.out_n() / 128 + 3 : 3;
  const bool fits = near(p.scale_a.stride_outer, 256) && near(p.scale_b.stride_outer, columns);
  return fits ? Status() : unsupported("scales of a tile lie too far apart");
}

}  // namespace

bool has_block_scales(const ArchSpec& arch) { return arch.target == "gfx950"; }

Status check_amd_product(const GemmProblem& p, const ArchSpec& arch) {
  const bool promoted = is_promoted(p);
  const bool scaled_step = has_block_scales(arch) && is_block_scaled(p.a_dtype) && is_block_scaled(p.b_dtype);
  if (promoted) {
    if (Status s = check_promoted(p, arch); !s) return s;
  } else if (!scaled_step) {
    if (Status s = check_plain_product(p); !s) return s;
  }
  for (const DType dtype : {p.a_dtype, p.b_dtype}) {
    if (amd_mma(arch, dtype, 16) != nullptr) continue;
    return unsupported(fmt::format("{} has no matrix instruction for {}", arch.target, dtype_name(dtype)));
  }
  Status s =
      check_pairs("a", p.a_dtype, p.k, p.stride_a_k, p.m == 1 ? 0 : p.stride_a_m, p.batch == 1 ? 0 : p.stride_a_batch);
  if (s) {
    s = check_pairs("b", p.b_dtype, p.k, p.stride_b_k, p.n == 1 ? 0 : p.stride_b_n,
                    p.batch == 1 ? 0 : p.stride_b_batch);
  }
  if (promoted) return s;
  if (s) s = check_scales("a", p.scale_a);
  return s ? check_scales("b", p.scale_b) : s;
}

AmdChunks amd_chunks(const GemmProblem& p, int tile_m, int tile_n, int tile_k) {
  AmdChunks c{access_a(p), access_b(p)};
  const bool a_k = c.a.major == Major::kK, b_k = c.b.major == Major::kK;
  // The far half of a separated gate begins at a group of four of its own.
  const int64_t half = p.gate == GateMode::kSeparated ? p.out_n() : p.n;
  if (!b_k && half != p.n && half * dtype_bits(p.b_dtype) > int64_t{1} << 32) c.b.copy = 0;
  c.a.copy = chunk_bytes(c.a, p.a_dtype, p.k, p.m, a_k ? p.stride_a_m : p.stride_a_k, a_k ? tile_m : tile_k);
  if (p.b_packed != 0) return {c.a, {Major::kMn, 16}};
  c.b.copy = chunk_bytes(c.b, p.b_dtype, p.k, half, b_k ? p.stride_b_n : p.stride_b_k, b_k ? tile_n : tile_k);
  return c;
}

DType amd_scale_dtype(const GemmProblem& p) {
  return p.scale_a.blocked() ? p.scale_a.dtype : p.scale_b.blocked() ? p.scale_b.dtype : DType::kNone;
}

int amd_scale_copy(const GemmProblem& p) {
  if (!p.has_block_scales()) return 0;
  if (is_promoted(p)) return 4;
  const auto words = [&p](const ScaleProblem& s, int64_t outer, int64_t far) {
    const int64_t groups = scale_counts(s, outer, p.k).k;
    const int64_t across = outer == 1 ? 0 : s.stride_outer, batches = p.batch == 1 ? 0 : s.stride_batch;
    // Whole words, at multiples of their size, with offsets within a tile of 256 rows that count in 31 bits.
    const bool aligned = (across | batches) % 4 == 0 && s.shortfall <= 2;
    const bool near = across >= 0 && (across <= 1 << 22) && far * across <= 1 << 29;
    return s.blocked() && s.stride_k == 1 && groups % 4 == 0 && aligned && near;
  };
  const int64_t far = p.gate == GateMode::kSeparated ? p.out_n() : 0;
  return words(p.scale_a, p.m, 0) && words(p.scale_b, p.n, far) ? 4 : 1;
}

}  // namespace tilewright
