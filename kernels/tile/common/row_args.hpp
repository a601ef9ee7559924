// SPDX-License-Identifier: MIT
// What host and kernels of row operators share: an operator reads rows of N elements, reduces each, and writes rows.
// Freestanding.
#pragma once

#include "tile/common/denominator.hpp"
#include "tile/common/dtype.hpp"
#include "tile/common/fields.hpp"
#include "tile/common/quantise.hpp"
#include "tile/common/row_config.hpp"
#include "tile/common/row_rotation.hpp"

namespace tilewright {

// What elementwise does with its two operands.
enum class Arithmetic : unsigned char { kNone, kAdd, kMul };
inline constexpr const char* kArithmeticNames[] = {"none", "add", "mul"};
constexpr const char* const* enum_names(Arithmetic) { return kArithmeticNames; }
constexpr int enum_count(Arithmetic) { return 3; }

inline constexpr int kRowDims = 3;  // that tell rows apart

// [d0, d1, d2, N]; the elements of a row are neighbours. Strides in elements; 0 broadcasts.
struct RowTensor {
  void* data;  // null = absent
  long long stride[kRowDims];
  DType dtype;
};

// [N], neighbours.
struct RowVector {
  const void* data;  // null = absent
  DType dtype;
};

// One scale of the tensor, one a row, [d0, d1, d2, N / group], or of blocks [d0, d1, d2 / kScaleBlock, N / kScaleBlock].
struct QuantisedScales {
  void* data;
  float* of_tensor;  // e4m3: one, that those of groups are multiples of; null = 1
  long long stride[kRowDims], stride_group;
  Quantisation quant;
  int group;    // neighbours that share a scale, the last group may be short
  DType dtype;  // f32 or e8m0, of groups of e2m1 also e4m3
  ScaleRounding rounding;
};

// cross_entropy's: out, where it is given, is the gradient.
struct RowLoss {
  const int* target;
  long long stride_target[kRowDims];
  float* loss;
  long long stride_loss[kRowDims];
  float* lse;  // null = absent, as the next
  long long stride_lse[kRowDims];
  const float* factor;  // one, of the gradient
  long long ignore_index;
  float smoothing, z, grad_scale;
};
// A row that counts nothing.
template <class Args>
constexpr bool is_ignored(const Args& args, int target) {
  return target == args.loss.ignore_index;
}
// Its loss, from the logarithm of the sum of its exponentials, its largest value, that of the target and the sum of all. Of a target
// outside the row it is NaN.
struct RowLogits {
  float logarithm, most, target, total;
};
template <class Args>
constexpr float row_loss(const Args& args, int target, const RowLogits& of) {
  if (is_ignored(args, target)) return 0;
  const RowLoss& l = args.loss;
  float loss = of.most - of.target;
  if (l.smoothing != 0)
    loss = (1 - l.smoothing) * loss + l.smoothing * (of.most - of.total / static_cast<float>(args.n));
  const float lse = of.most + of.logarithm;
  return loss + of.logarithm + (l.z != 0 ? l.z * lse * lse : 0.0f);
}
// What gradients are made of: by * exp(x - most) - even, and of the target less hot.
struct RowGradient {
  float by, even, hot;
};
template <class Args>
constexpr RowGradient row_gradient(const Args& args, int target, float lse, float sum) {
  const RowLoss& l = args.loss;
  const float known = target >= 0 && target < args.n ? 1.0f : __builtin_bit_cast(float, 0x7FC00000u);
  const float scale = l.grad_scale * (l.factor == nullptr ? 1.0f : *l.factor);
  return {scale * known * (l.z != 0 ? 1 + 2 * l.z * lse : 1.0f) / sum, scale * l.smoothing / static_cast<float>(args.n),
          scale * (1 - l.smoothing)};
}

// [N], neighbours, written.
struct RowSums {
  void* data;  // null = absent
  DType dtype;
};
// The gradient of a norm: its second operand is the output's gradient, out is x's.
struct RowBackward {
  RowTensor added;       // to x's gradient: what came to x + residual from elsewhere. Of out's type
  RowSums weight, bias;  // gradients, sums over rows
};
// The gradient of a normalised row: inverse * (g - mean - along * normalised), where g is the output's gradient times the weight, and the
// normalised elements are (x - about) * inverse.
struct NormGradient {
  float about, inverse, mean, along;
};

// quantize's: blocks of so many neighbours are rotated, none where it is 0. Quotients are rounded by chance where there is a state: a
// seed and an offset.
struct RowQuantising {
  const int* random_state;
  int state_words;  // of each
  int hadamard;
};

// The steps of a call whose scale is found over all of the tensor, or that sums columns; others have the third one only.
enum class RowStep : unsigned char {
  kFind,      // each unit or block its part of the largest magnitude
  kScale,     // one of them the scale, from these
  kRows,      // the rows themselves
  kColumns,   // sums of columns, from parts of them that rows left
  kTogether,  // all of that, of few rows, by the blocks of one cluster
};

// What most kernels read comes first: a GPU fetches arguments by lines of 64 bytes, one after another as they are needed.
struct RowArgs {
  RowTensor x;  // [.., 2 N] where it is gated
  long long n;
  RowTensor out;
  long long rows;
  long long grid;  // GPU: blocks
  Activation activation;
  GateMode gate;
  RowStep step;
  bool flat;                 // the first two dimensions are 1
  bool unit_offset;          // the weight is 1 + what stands there
  bool round_before_weight;  // to x's type
  bool squared;              // the activation's square
  bool log;                  // softmax's logarithm
  RowVector weight, bias, smooth;
  float eps;
  float limit, alpha, up_offset;  // act_and_mul's; softmax: alpha is a factor of x
  RowTensor residual;
  Arithmetic arithmetic;  // elementwise's
  bool single;            // its residual has one element a row
  bool gate_first;        // gated_rms_norm: the gate comes before the norm
  bool stream;            // CPU: writes go past the caches
  RowTensor residual_out;
  long long size[kRowDims];
  Denominator inner, middle;  // size[2] and size[1], of less than 2^31 rows
  QuantisedScales scale;
  // [part_count]: largest magnitudes; of rows in chunks what is found of each; of sums of columns [N]; of units of CPUs a row's exponentials
  float* parts;
  long long part_count;
  RowBackward backward;
  long long weight_groups;  // gated_rms_norm: rows of the third dimension go round among so many weights
  RowRotation rotation;     // rope's
  RowLoss loss;
  RowQuantising quantising;
};

// Where a part of the sums of columns is; null of those that nobody asks for. Those of the weight come first.
constexpr float* weight_part(const RowArgs& args, long long part) {
  return args.backward.weight.data == nullptr ? nullptr : args.parts + part * args.n;
}
constexpr float* bias_part(const RowArgs& args, long long part) {
  if (args.backward.bias.data == nullptr) return nullptr;
  return args.parts + ((args.backward.weight.data == nullptr ? 0 : args.part_count) + part) * args.n;
}

// The offset of row (i0, i1, i2) of a tensor, in elements.
struct RowIndex {
  long long i[kRowDims];
};
constexpr RowIndex row_index(const RowArgs& args, long long row) {
  if (args.flat) return {{0, 0, row}};  // no division
  if (args.rows >> 31 == 0) {
    const auto r = static_cast<unsigned>(row), upper = divided(r, args.inner), outer = divided(upper, args.middle);
    return {{outer, upper - outer * args.middle.by, r - upper * args.inner.by}};
  }
  const long long upper = row / args.size[2];
  return {{upper / args.size[1], upper % args.size[1], row % args.size[2]}};
}
constexpr long long row_number(const RowArgs& args, const RowIndex& at) {
  return (at.i[0] * args.size[1] + at.i[1]) * args.size[2] + at.i[2];
}
constexpr long long row_offset(const long long (&stride)[kRowDims], const RowIndex& at) {
  const long long inner = at.i[2] * stride[2];
  if ((at.i[0] | at.i[1]) == 0) return inner;
  return at.i[0] * stride[0] + at.i[1] * stride[1] + inner;
}

constexpr float of_tensor(const QuantisedScales& scales) { return scales.of_tensor == nullptr ? 1 : *scales.of_tensor; }

// Where a row has its scales.
constexpr long long scale_offset(const QuantisedScales& scales, Quantisation quant, RowIndex at) {
  if (is_per_tensor(quant)) return 0;
  if (quant == Quantisation::kBlock) at.i[2] /= kScaleBlock;
  return row_offset(scales.stride, at);
}

// Rows and columns that share a scale, fewer at the ends.
struct RowBlock {
  RowIndex first;
  int rows, columns;
  long long n;         // of the first column
  long long scale_at;  // in elements
};
constexpr long long row_blocks(const RowArgs& args) {
  return args.size[0] * args.size[1] * scale_blocks(args.size[2]) * scale_blocks(args.n);
}
// In 32 bits where that is enough.
struct Divided {
  long long quotient, rest;
};
constexpr Divided divided(long long number, long long by) {
  if (((number | by) >> 32) != 0) return {number / by, number % by};
  const auto n = static_cast<unsigned>(number), d = static_cast<unsigned>(by);
  return {n / d, n % d};
}
// The `across`-th of those whose first row is `first`.
constexpr RowBlock row_block_at(const RowArgs& args, const RowIndex& first, long long across) {
  RowBlock b{first, 0, 0, across * kScaleBlock, 0};
  const long long rows = args.size[2] - b.first.i[2], columns = args.n - b.n;
  b.rows = static_cast<int>(rows < kScaleBlock ? rows : kScaleBlock);
  b.columns = static_cast<int>(columns < kScaleBlock ? columns : kScaleBlock);
  b.scale_at = scale_offset(args.scale, Quantisation::kBlock, b.first) + across * args.scale.stride_group;
  return b;
}
// Blocks of the same rows follow each other.
constexpr RowBlock row_block(const RowArgs& args, long long block) {
  const Divided across = divided(block, scale_blocks(args.n));
  const Divided down = args.flat ? Divided{0, across.quotient} : divided(across.quotient, scale_blocks(args.size[2]));
  const Divided outer = args.flat ? Divided{0, 0} : divided(down.quotient, args.size[1]);
  return row_block_at(args, {{outer.quotient, outer.rest, down.rest * kScaleBlock}}, across.rest);
}
// The same of a plain call, whose blocks one grid has.
constexpr RowBlock plain_row_block(const RowArgs& args, unsigned block) {
  const auto across = static_cast<unsigned>(scale_blocks(args.n)), down = block / across;
  return row_block_at(args, {{0, 0, static_cast<long long>(down) * kScaleBlock}}, block - down * across);
}

// A number near the mean of a row of n, from the sums of its elements and of their magnitudes: rounded to what partial sums of
// differences from there will be rounded to. Else those of 16-bit elements would share their low bits, and be rounded one way.
template <class SquareRoot>
constexpr float near_mean(const float (&sum)[2], float n, SquareRoot&& square_root) {
  const float grid = sum[1] / square_root(n);
  return (sum[0] / n + grid) - grid;
}
// Mean and variance of a row of n, from the sums of differences from `about` and of their squares. Of equal elements the mean is that
// element, to the bit.
struct RowMoments {
  float mean, variance;
};
constexpr RowMoments row_moments(float about, const float (&sum)[2], float n) {
  const float off = sum[0] / n;
  const float squares = sum[1] - sum[0] * off;
  return {about + off, squares < 0 ? 0 : squares / n};
}

// The largest value of a row so far, of none: exponentials of differences from it are numbers.
inline constexpr float kLeastValue = -0x1.FFFFFEp127f;
// CPU: elements whose exponentials are summed apart. Those of a row of so many stay in the first cache until the output is made of them.
inline constexpr long long kExponentialPart = 4096;
// The logarithm of a sum of exponentials, which is 1 or more, within 4 u of it. Of none of them, and of NaN, it is NaN.
constexpr float log_of_sum(float sum) {
  if (!(sum >= 1)) return __builtin_bit_cast(float, 0x7FC00000u);
  // sum = 2^power m with m about 1, log(m) = 2 artanh(t): the series' next term is below 2 u t^2.
  const unsigned bits = __builtin_bit_cast(unsigned, sum), half = 0x3F3504F3u;  // the root of 1/2
  const unsigned power = (bits - half) >> 23;
  const float m = __builtin_bit_cast(float, bits - (power << 23));
  const float t = (m - 1) / (m + 1), square = t * t;
  const float series = (((square / 9 + 1.0f / 7) * square + 1.0f / 5) * square + 1.0f / 3) * square;
  return static_cast<float>(power) * 0x1.62E430p-1f + 2 * (t + t * series);
}

// One of two tensors, by its values: a choice of addresses would have GPUs read arguments from memory.
constexpr RowTensor one_of(bool second, const RowTensor& a, const RowTensor& b) {
  RowTensor one{second ? b.data : a.data, {}, second ? b.dtype : a.dtype};
  for (int i = 0; i < kRowDims; ++i) one.stride[i] = second ? b.stride[i] : a.stride[i];
  return one;
}
// Where a head is, of those of both tensors.
struct RotatedHead {
  const char* from;
  char* to;
};
template <class Args>
constexpr RotatedHead rotated_head(const Args& args, RowIndex at) {
  const bool second = at.i[2] >= args.rotation.heads;
  if (second) at.i[2] -= args.rotation.heads;
  const RowTensor in = one_of(second, args.x, args.residual), out = one_of(second, args.out, args.residual_out);
  return {static_cast<const char*>(in.data) + row_offset(in.stride, at) * dtype_bits(in.dtype) / 8,
          static_cast<char*>(out.data) + row_offset(out.stride, at) * dtype_bits(out.dtype) / 8};
}
// What turns the heads of a token, by its position along an axis.
template <class Args>
constexpr RowAngles row_angles(const Args& args, const RowIndex& at, int axis = 0) {
  const RowRotation& r = args.rotation;
  if (r.sequences != nullptr) return angles_at(r, sequence_position(r, at.i[1]));
  if (r.positions == nullptr) return angles_at(r, at.i[1]);
  return angles_at(r,
                   r.positions[axis * r.stride_axis + at.i[0] * r.stride_position[0] + at.i[1] * r.stride_position[1]]);
}
// What a kernel of quantize does beside quantising, told by its config, or at run time.
template <class Config>
constexpr bool rotates_blocks(const Config& config, const RowArgs& args) {
  return config.x == DType::kNone ? args.quantising.hadamard != 0 : config.hadamard;
}
template <class Config>
constexpr bool rounds_by_chance(const Config& config, const RowArgs& args) {
  return config.x == DType::kNone ? args.quantising.random_state != nullptr : config.chance;
}

}  // namespace tilewright
