// SPDX-License-Identifier: MIT
// The one field list of each argument struct of gemm's GPU kernels. Not in kernels/: what a kernel includes is part of the
// digest that tuned rows carry.
#pragma once

#include "dispatch/arg_struct.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "gemm/amd/gemv_amd_args.hpp"
#include "gemm/gemm_args.hpp"
#include "gemm/gemm_scale_args.hpp"
#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_many_args.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"

namespace tilewright {

template <class Visit>
constexpr void arg_fields(const EpilogueOperand& s, Visit&& visit) {
  visit("data", s.data);
  visit("stride_batch", s.stride_batch);
  visit("stride_m", s.stride_m);
  visit("stride_n", s.stride_n);
  visit("dtype", s.dtype);
}
TILEWRIGHT_CHECK_ARG_FIELDS(EpilogueOperand);

template <class Visit>
constexpr void arg_fields(const EpilogueStep& s, Visit&& visit) {
  visit("kind", s.kind);
  visit("activation", s.activation);
  visit("low", s.low);
  visit("high", s.high);
  visit("operand", s.operand);
}
TILEWRIGHT_CHECK_ARG_FIELDS(EpilogueStep);

template <class Visit>
constexpr void arg_fields(const GemmEpilogueArgs& s, Visit&& visit) {
  visit("alpha", s.alpha);
  visit("beta", s.beta);
  visit("scale_a", s.scale_a);
  visit("scale_b", s.scale_b);
  visit("c", s.c);
  visit("bias", s.bias);
  visit("activation", s.activation);
  visit("gate", s.gate);
  visit("low", s.low);
  visit("high", s.high);
  visit("step_count", s.step_count);
  visit("steps", s.steps);
  visit("d", s.d);
  visit("stride_d_batch", s.stride_d_batch);
  visit("stride_d_m", s.stride_d_m);
  visit("stride_d_n", s.stride_d_n);
  visit("d_dtype", s.d_dtype);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmEpilogueArgs);

template <class Visit>
constexpr void arg_fields(const GemmArgs& s, Visit&& visit) {
  visit("m", s.m);
  visit("n", s.n);
  visit("k", s.k);
  visit("batch", s.batch);
  visit("a", s.a);
  visit("stride_a_batch", s.stride_a_batch);
  visit("stride_a_m", s.stride_a_m);
  visit("stride_a_k", s.stride_a_k);
  visit("b", s.b);
  visit("stride_b_batch", s.stride_b_batch);
  visit("stride_b_k", s.stride_b_k);
  visit("stride_b_n", s.stride_b_n);
  visit("a_dtype", s.a_dtype);
  visit("b_dtype", s.b_dtype);
  visit("b_packed", s.b_packed);
  visit("workspace", s.workspace);
  visit("block_m", s.block_m);
  visit("block_n", s.block_n);
  visit("block_k", s.block_k);
  visit("epilogue", s.epilogue);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmArgs);

template <class Visit>
constexpr void arg_fields(const GemmBlockScale& s, Visit&& visit) {
  visit("data", s.data);
  visit("stride_batch", s.stride_batch);
  visit("stride_outer", s.stride_outer);
  visit("stride_k", s.stride_k);
  visit("outer", s.outer);
  visit("k", s.k);
  visit("dtype", s.dtype);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmBlockScale);

template <class Visit>
constexpr void arg_fields(const GemmScaleArgs& s, Visit&& visit) {
  visit("a", s.a);
  visit("b", s.b);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmScaleArgs);

template <class Visit>
constexpr void arg_fields(const GemmScaledArgs& s, Visit&& visit) {
  visit("gemm", s.gemm);
  visit("scale", s.scale);
  visit("zero_b", s.zero_b);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmScaledArgs);

template <class Visit>
constexpr void arg_fields(const GemvDequantGpuCut& s, Visit&& visit) {
  visit("of_batch", s.of_batch);
  visit("slices", s.slices);
  visit("steps", s.steps);
  visit("share", s.share);
  visit("extra", s.extra);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemvDequantGpuCut);

template <class Visit>
constexpr void arg_fields(const GemvDequantGpuArgs& s, Visit&& visit) {
  visit("product", s.product);
  visit("cut", s.cut);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemvDequantGpuArgs);

template <class Visit>
constexpr void arg_fields(const GemmSm90Share& s, Visit&& visit) {
  visit("tiles_m", s.tiles_m);
  visit("tiles_n", s.tiles_n);
  visit("whole", s.whole);
  visit("rest", s.rest);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmSm90Share);

template <class Visit>
constexpr void arg_fields(const Denominator& s, Visit&& visit) {
  visit("by", s.by);
  visit("reciprocal", s.reciprocal);
}
TILEWRIGHT_CHECK_ARG_FIELDS(Denominator);

template <class Visit>
constexpr void arg_fields(const GemmSm90Walk& s, Visit&& visit) {
  visit("tiles", s.tiles);
  visit("group", s.group);
  visit("rows", s.rows);
  visit("last_rows", s.last_rows);
  visit("parts", s.parts);
  visit("steps", s.steps);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmSm90Walk);

template <class Visit>
constexpr void arg_fields(const GemmSm90Args& s, Visit&& visit) {
  visit("a", s.a);
  visit("b", s.b);
  visit("d", s.d);
  visit("d_last", s.d_last);
  visit("share", s.share);
  visit("walk", s.walk);
  visit("gemm", s.gemm);
  visit("batch_a", s.batch_a);
  visit("batch_b", s.batch_b);
  visit("partials", s.partials);
  visit("counters", s.counters);
  visit("scale", s.scale);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmSm90Args);

template <class Visit>
constexpr void arg_fields(const GemmSm90SkinnyArgs& s, Visit&& visit) {
  visit("a", s.a);
  visit("b", s.b);
  visit("gemm", s.gemm);
  visit("batch_a", s.batch_a);
  visit("batch_b", s.batch_b);
  visit("share", s.share);
  visit("extra", s.extra);
  visit("stage_tokens", s.stage_tokens);
  visit("scale", s.scale);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmSm90SkinnyArgs);

template <class Visit>
constexpr void arg_fields(const GemmSm90DequantArgs& s, Visit&& visit) {
  visit("product", s.product);
  visit("zero_b", s.zero_b);
  visit("tokens", s.tokens);
  visit("blocks_done", s.blocks_done);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmSm90DequantArgs);

template <class Visit>
constexpr void arg_fields(const GemmSm90DequantManyArgs& s, Visit&& visit) {
  visit("product", s.product);
  visit("first", s.first);
  visit("pieces", s.pieces);
  visit("raster", s.raster);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmSm90DequantManyArgs);

template <class Visit>
constexpr void arg_fields(const GemmAmdTiles& s, Visit&& visit) {
  visit("out_n", s.out_n);
  visit("m", s.m);
  visit("n", s.n);
  visit("count", s.count);
  visit("steps", s.steps);
  visit("splits", s.splits);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmAmdTiles);

template <class Visit>
constexpr void arg_fields(const GemmAmdArgs& s, Visit&& visit) {
  visit("gemm", s.gemm);
  visit("tiles", s.tiles);
  visit("phase", s.phase);
  visit("xcds", s.xcds);
  visit("band", s.band);
  visit("split_k", s.split_k);
  visit("workers", s.workers);
  visit("scale", s.scale);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemmAmdArgs);

template <class Visit>
constexpr void arg_fields(const GemvAmdArgs& s, Visit&& visit) {
  visit("gemm", s.gemm);
  visit("phase", s.phase);
  visit("groups", s.groups);
  visit("splits", s.splits);
  visit("split_k", s.split_k);
}
TILEWRIGHT_CHECK_ARG_FIELDS(GemvAmdArgs);

}  // namespace tilewright
