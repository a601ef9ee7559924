// SPDX-License-Identifier: MIT
// RowProblem: one call of a row operator without addresses. Every operator that reads rows, reduces each and writes rows has this
// problem; what it takes of it, its RowOp says.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor/strided.hpp"
#include "dispatch/operator.hpp"
#include "gemm/gemm_args.hpp"
#include "ops/row/problem/rope_sections.hpp"
#include "tile/common/row_args.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright {

struct RowTensorProblem {
  std::array<int64_t, kRowDims> stride{};  // 0 where there is one row only
  DType dtype = DType::kNone;
  uint8_t reserved[7] = {};

  bool present() const { return dtype != DType::kNone; }
};

// rope's; docs/rope.md.
struct RowRotationProblem {
  int64_t dims = 0;   // that turn, the first of a row
  int64_t heads = 0;  // of x along the third dimension; those behind it are the residual's
  int64_t table_rows = 0, stride_table = 0;
  std::array<int64_t, 2> stride_position{};
  int64_t stride_axis = 0;       // of positions
  int64_t sequences = 0;         // that the tokens are, where they are packed
  SectionPairs section_pairs{};  // of each axis of the positions; of one axis none
  DType table = DType::kNone;
  uint8_t positions = 0, interleaved = 0, inverse = 0;
  RopeSections sections = RopeSections::kRuns;
  uint8_t packed = 0, offsets = 0;
  uint8_t reserved[1] = {};

  int axes() const { return rope_axes(section_pairs); }
};

// cross_entropy's: a number a row each; docs/cross_entropy.md.
struct RowLossProblem {
  RowTensorProblem target, loss, lse;
  int64_t ignore_index = -100;
  uint8_t factor = 0;  // of the gradient, on the device
  uint8_t reserved[7] = {};
};

// What a norm's gradient has beside x, its output's gradient and x's; docs/norm_backward.md.
struct RowBackwardProblem {
  RowTensorProblem added;
  DType weight = DType::kNone, bias = DType::kNone;  // of their gradients
  uint8_t reserved[6] = {};
};

struct RowProblem {
  std::array<int64_t, kRowDims> size{1, 1, 1};
  int64_t n = 0;
  RowTensorProblem x, residual, residual_out, out;
  RowTensorProblem scale;    // strides of rows
  int64_t stride_group = 0;  // of scales along a row
  int32_t group = 0;         // elements of a row that share a scale; of blocks kScaleBlock
  DType weight = DType::kNone, bias = DType::kNone, smooth = DType::kNone;
  Quantisation quant = Quantisation::kNone;
  ScaleRounding rounding = ScaleRounding::kDown;
  uint8_t unit_offset = 0, round_before_weight = 0;
  Activation activation = Activation::kNone;
  GateMode gate = GateMode::kNone;
  uint8_t squared = 0;
  uint8_t unaligned = 0;      // some pointer is no multiple of 16 bytes; 0 on CPUs, where no kernel asks
  uint8_t log = 0;            // softmax's logarithm
  int32_t weight_groups = 1;  // gated_rms_norm: weights of so many rows, which the third dimension goes round among
  uint8_t gate_first = 0;     // its gate comes before the norm
  Arithmetic arithmetic = Arithmetic::kNone;
  uint8_t single = 0;  // elementwise's residual has one element a row
  TensorScale tensor_scale = TensorScale::kNone;
  uint8_t backward = 0;           // out is x's gradient, the residual that of what x made
  uint8_t state_words = 0;        // quantize rounds by chance: a seed and an offset, of so many words each
  uint8_t programmatic_edge = 0;  // GPU: the calls are launched so (Exec)
  uint8_t reserved[1] = {};       // no padding: problems are compared as bytes
  int32_t hadamard = 0;           // quantize rotates blocks of so many neighbours
  RowRotationProblem rotation;
  RowLossProblem loss;
  RowBackwardProblem gradients;

  bool reads_codes() const { return is_quantised(x.dtype); }
  int64_t rows() const { return size[0] * size[1] * size[2]; }
  int64_t x_length() const { return gate == GateMode::kNone ? n : 2 * n; }  // of a row of x
  int64_t out_length() const { return backward ? x_length() : n; }
  int64_t column_sums() const { return (gradients.weight != DType::kNone) + (gradients.bias != DType::kNone); }
  bool has_loss() const { return loss.loss.present(); }
  int64_t residual_length() const { return single ? 1 : n; }
  int64_t weight_length() const { return n * weight_groups; }
  bool rotates() const { return rotation.table != DType::kNone; }
  // Of a tensor of rows: where they rotate, two share the third dimension.
  std::array<int64_t, kRowDims> tensor_size(const RowTensorProblem& t) const {
    if (&t == &scale && quant == Quantisation::kBlock) return {size[0], size[1], scale_blocks(size[2])};
    if (!rotates()) return size;
    const bool second = &t == &residual || &t == &residual_out;
    return {size[0], size[1], second ? size[2] - rotation.heads : rotation.heads};
  }
  int64_t groups() const { return has_groups(quant) ? (n + group - 1) / group : 1; }
  bool has_row_scales() const { return quant == Quantisation::kRow || has_groups(quant); }
  // What threads take one of: rows, or blocks.
  int64_t items() const {
    const bool blocks = quant == Quantisation::kBlock && !reads_codes();
    return blocks ? size[0] * size[1] * scale_blocks(size[2]) * groups() : rows();
  }
  // Of all of the tensor, before rows are written.
  bool finds_of_tensor() const { return quant == Quantisation::kDynamic || tensor_scale == TensorScale::kFound; }
  bool writes_scale() const { return (has_row_scales() || quant == Quantisation::kDynamic) && !reads_codes(); }
};

// Where a call's addresses and numbers stand in CallBindings.
enum RowPointerSlot : uint16_t {
  kRowX,
  kRowResidual,
  kRowResidualOut,
  kRowOut,
  kRowWeight,
  kRowBias,
  kRowSmooth,
  kRowScale,
  kRowCosine,
  kRowSine,
  kRowPositions,
  kRowTarget,
  kRowLoss,
  kRowLse,
  kRowFactor,
  kRowTensorScale,
  kRowAdded,
  kRowWeightGradient,
  kRowBiasGradient,
  kRowSequences,
  kRowOffsets,
  kRowRandomState,
  kRowPointerSlots
};
enum RowScalarSlot : uint16_t {
  kRowEps,
  kRowLimit,
  kRowAlpha,
  kRowUpOffset,
  kRowSmoothing,
  kRowZ,
  kRowGradScale,
  kRowScalarSlots
};
struct RowBindings {
  std::array<const void*, kRowPointerSlots> pointers{};
  std::array<float, kRowScalarSlots> scalars{};
};

// Neighbours that may share a scale.
constexpr bool is_row_group(int64_t elements) {
  return elements == 16 || elements == 32 || elements == 64 || elements == 128;
}

// What any row operator may be called with. Absent tensors are undefined.
struct RowCall {
  TensorView x, residual{}, residual_out{}, out;  // [..., N]
  TensorView weight{}, bias{}, smooth{};          // [N]
  TensorView scale{}, tensor_scale{};             // docs/quantisation.md
  float eps = 0;
  bool unit_offset = false, round_before_weight = false;
  Quantisation quant = Quantisation::kNone;
  int64_t group = 0;
  ScaleRounding rounding = ScaleRounding::kDown;
  bool find_tensor_scale = false;
  int64_t hadamard = 0;       // quantize's, as the next
  TensorView random_state{};  // i32 [2], or [2, 2]: the words of i64
  Activation activation = Activation::kNone;
  GateMode gate = GateMode::kNone;  // x is [..., 2 N]
  bool squared = false;
  float limit = 0, alpha = 1, up_offset = 0;  // limit: 0 = none; alpha: softmax's factor of x, too
  bool log = false;                           // softmax's
  int64_t weight_groups = 1;                  // gated_rms_norm's: the weight is [weight_groups N]
  bool gate_first = false;
  Arithmetic arithmetic = Arithmetic::kNone;  // elementwise's; its residual may be [..., 1]
  TensorView cosine{}, sine{}, positions{};   // rope's; x and residual are q and k
  bool interleaved = false, inverse = false;
  std::array<int64_t, kRopeAxes> section_pairs{};
  RopeSections sections = RopeSections::kRuns;
  TensorView cumulative_lengths{}, offsets{};
  TensorView target{}, loss{}, lse{}, factor{};  // cross_entropy's; out is the gradient
  int64_t ignore_index = -100;
  float smoothing = 0, z = 0, grad_scale = 1;
  TensorView added{}, weight_gradient{}, bias_gradient{};  // of a norm's gradient: [..., N], [N], [N]
};

// A row operator. `name` also names its kernels: kernels/<name>/<name>_cpu.hpp and <name>_gpu.cuh with functions of these names.
struct RowReference;
struct RowOp {
  std::string_view name;
  bool residual, columns, smooth;  // may be given: residual; weight and bias; smooth
  bool eps;                        // has a number that is added
  bool quantises;                  // the output is always quantised, bit for bit
  bool gates = false;              // has an activation, x may have gates beside its values
  bool rotates = false;            // x and residual are heads, that tables of angles turn
  bool softmax = false;            // has a factor of x and a logarithm
  bool dequantises = false;        // x is codes, the scales are read
  bool loses = false;              // has targets and losses, out may be absent
  const char* second = nullptr;    // the residual is another operand of this name, which is not added
  bool gates_norm = false;         // gated_rms_norm's options; the second operand must be given
  bool arithmetic = false;         // elementwise's options; the output may be codes without a scale
  bool usual_bias = false;         // is mostly called with a bias, too
  bool backward = false;  // the second operand is a gradient, as is the output, x's; of norms with columns' gradients
  // y of one row in float64, before it is quantised, with what f32 may err.
  void (*reference)(const RowProblem& problem, RowReference& row);

  const char* residual_name() const { return second == nullptr ? "residual" : second; }
  const char* out_name() const { return backward ? "dx" : "out"; }
  bool norm_backward() const { return backward && columns; }
  bool floats_only() const { return rotates || softmax || loses || backward; }  // the output is not quantised
};

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_row_problem(const RowOp& op, const RowCall& call, bool check_addresses, RowProblem& problem,
                        RowBindings& bindings);
// The part that needs no call: problems from text pass through it too.
Status validate_row_problem(const RowOp& op, const RowProblem& problem);

// Null pointers, and aliasing but in place.
Status check_row_addresses(const RowOp& op, const RowProblem& problem, const RowBindings& bindings);

// The same of a kernel's types alone.
Status check_row_types(const RowOp& op, DType x, DType residual, DType out, Quantisation quant);

// "m=4096:n=4096:x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group"; docs/rms_norm.md.
std::string print_row_problem(const RowProblem& problem);
Result<RowProblem> parse_row_problem(const RowOp& op, std::string_view text);
ProblemSignature row_signature(const RowProblem& problem);
// Strides of tensors one row after another.
void set_contiguous(RowProblem& problem);

// Bytes that must move: every tensor once.
double row_bytes_moved(const RowProblem& problem);

}  // namespace tilewright
