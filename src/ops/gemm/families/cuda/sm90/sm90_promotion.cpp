// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cuda/sm90/sm90_promotion.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dispatch/registry/family.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"

namespace tilewright {

Status check_sm90_product(const GemmProblem& p) {
  if (!p.has_block_scales()) return check_plain_product(p);
  if (!is_ocp_f8(p.a_dtype) || p.b_dtype != p.a_dtype) {
    return unsupported(fmt::format("scales of groups: A is {} and B {}, allowed: both e4m3, or both e5m2",
                                   dtype_name(p.a_dtype), dtype_name(p.b_dtype)));
  }
  const auto is = [](const ScaleProblem& s, int outer) {
    return s.dtype == DType::kF32 && s.outer == outer && s.k == kPromotedScaleBlock;
  };
  if (!is(p.scale_a, 1) || !is(p.scale_b, kPromotedScaleBlock)) {
    return unsupported(fmt::format("scales of groups: {} of A and {} of B, allowed: f32.1x128 and f32.128x128",
                                   scale_mode_text(p.scale_a), scale_mode_text(p.scale_b)));
  }
  if (p.gate == GateMode::kSeparated && p.out_n() % kPromotedScaleBlock != 0) {
    return unsupported(fmt::format("scales of groups: a separated gate of {} columns, allowed: a multiple of {}",
                                   p.out_n(), kPromotedScaleBlock));
  }
  return {};
}

std::string sm90_order(DType dtype, Promotion promote, std::string_view wgmma) {
  if (dtype == DType::kF32) return fmt::format("{}_tf32", wgmma);
  if (promote == Promotion::kScaled) return fmt::format("{}_scaled{}", wgmma, sm90_tile_k(dtype));
  if (promote == Promotion::kSums) return fmt::format("{}_by{}", wgmma, sm90_tile_k(dtype));
  return fmt::format("{}{}", wgmma, is_ocp_f8(dtype) ? "_fast" : "");
}

std::span<const Promotion> sm90_promotions(const GemmProblem& p) {
  static constexpr Promotion kValues[] = {Promotion::kNone, Promotion::kSums}, kScaled[] = {Promotion::kScaled};
  if (p.has_block_scales()) return kScaled;
  const std::span<const Promotion> values = kValues;
  if (!is_ocp_f8(p.a_dtype)) return values.first(1);
  return p.allow_fast_accum ? values : values.last(1);
}

Status check_sm90_promotion(const GemmProblem& p, Promotion promote) {
  const std::span<const Promotion> allowed = sm90_promotions(p);
  if (std::ranges::find(allowed, promote) != allowed.end()) return {};
  if (p.has_block_scales()) return unsupported("the kernel multiplies by no block scales");
  if (promote == Promotion::kScaled)
    return unsupported("the kernel multiplies by block scales, of which there are none");
  return unsupported("sums keep fewer bits than f32 has, which allow_fast_accum does not allow");
}

}  // namespace tilewright
