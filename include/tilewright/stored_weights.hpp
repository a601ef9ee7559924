// SPDX-License-Identifier: MIT
// Weights as checkpoints and other libraries store them, to and from the views that gemm and linear take: exact both ways,
// on the CPU.
//
//   format        stored.weight                              stored.zeros              what is special
//   awq           i32 [K, N / 8], 8 columns a word in the    i32 [G, N / 8], the same
//                 order 0 2 4 6 1 3 5 7                      order
//   gptq          i32 [K / v, N], v rows a word              i32 [G, N / v]            zero points are stored less one
//   gptq_v2       the same                                   the same                  zero points are stored as they are
//   aiter         [.., N, K], any type, in AITER's order     none                      shuffle_weight(w, (16, 16))
//   aiter_scales  e8m0 [R, C] of a padded size               none                      shuffle_scale(s), e8m0_shuffle(s)
//
// v = 8 values of 4 bits or 4 of 8 in a word, by the dtype of plain.b; AWQ has 4 bits. G groups of K; their scales need no
// change: they are [G, N], as GemmCall::scale_b is.
// Sources: AWQ (arXiv:2306.00978) and its WQLinear_GEMM; GPTQ (arXiv:2210.17323) and the checkpoints of AutoGPTQ and
// GPTQModel; AITER's aiter/ops/shuffle.py.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilewright/context.hpp"

namespace tilewright {

enum class WeightFormat : uint8_t { kAwq, kGptq, kGptqV2, kAiter, kAiterScales };

// "gptq_v2" and back; the error lists every known name.
TILEWRIGHT_API const char* weight_format_name(WeightFormat format);
TILEWRIGHT_API Result<WeightFormat> parse_weight_format(std::string_view name);

struct StoredWeights {
  WeightFormat format = WeightFormat::kAwq;
  TensorView weight;       // see above; any strides, aiter and aiter_scales row-major
  TensorView zeros;        // awq, gptq: i32; absent where every zero point is half of the range (8, 128)
  TensorView group_index;  // gptq's g_idx, i32 [K]: the group of each row; absent where row k is in group k / (K / G)
};

struct PlainWeights {
  // awq, gptq: u4, i4 or i8 [K, N], neighbours along K or N (a linear layer's weight [N, K] is passed transposed). i4 and i8
  // hold the stored value less 8 or 128, and so do their zero points: (q - zero) scale stays what it was.
  // aiter: [.., K, N] of the stored dtype, neighbours along K. aiter_scales: e8m0 [G, N], as GemmCall::scale_b is.
  TensorView b;
  // [G, N], any type that GemmCall::zero_b has, any strides. Absent: all of them must be 0 (in i4, i8) or 8 (in u4).
  TensorView zero_b;
  // i32 [K]: row k of b is the stored row order[k], so that groups lie together; gemm's A takes its columns in that order.
  // Needed where group_index does not say k / g; where it does, the order is 0, 1, 2 ...
  TensorView order;
};

// Writes `plain` from `stored`. Refuses what does not fit: shapes that disagree, a zero point outside of zero_b's type, groups
// of different sizes; nothing else is written then but part of zero_b and order.
TILEWRIGHT_API Status import_weights(Context& context, const StoredWeights& stored, const PlainWeights& plain);
// The way back: writes stored.weight, and stored.zeros and stored.group_index where they are given, from `plain`, which has
// no order. aiter_scales pads with zeros.
TILEWRIGHT_API Status export_weights(Context& context, const PlainWeights& plain, const StoredWeights& stored);

}  // namespace tilewright
