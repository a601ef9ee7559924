// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ops/row/families/row_families.hpp"
#include "ops/row/problem/row_loss.hpp"

namespace tilewright {
namespace {

template <class Edit>
void edit_row_args(Stage& stage, Edit&& edit) {
  RowArgs args;
  std::memcpy(&args, stage.args.data(), sizeof(args));
  edit(args);
  std::memcpy(stage.args.data(), &args, sizeof(args));
}
RowTensor row_tensor(const RowTensorProblem& t) { return {nullptr, {t.stride[0], t.stride[1], t.stride[2]}, t.dtype}; }

}  // namespace

std::vector<RowProblem> usual_row_problems(const RowOp& op) {
  std::vector<RowProblem> problems;
  const auto add = [&](DType x, bool residual, DType out, Quantisation quant, DType scale = DType::kF32,
                       bool turned = false) {
    if ((residual && !op.residual) || (!residual && (op.gates_norm || op.backward))) return;
    RowProblem p;
    p.size[2] = p.n = 4096;
    p.x.dtype = x, p.out.dtype = out, p.quant = quant;
    if ((op.floats_only() || op.arithmetic) && quant != Quantisation::kNone) return;
    if (op.loses) add_loss(p);
    if (op.arithmetic && residual) p.arithmetic = Arithmetic::kAdd;
    if (op.rotates) p.n = 128, p.rotation.table = DType::kF32, p.rotation.heads = p.rotation.dims = 128;
    p.backward = op.backward;
    if (op.norm_backward()) p.weight = p.gradients.weight = x;
    if (op.eps && !op.backward) p.weight = x;
    if (op.usual_bias) p.bias = x;
    if (op.gates) p.activation = Activation::kSilu, p.gate = GateMode::kSeparated;
    if (residual) p.residual.dtype = x;
    if (residual && op.second == nullptr) p.residual_out.dtype = x;
    if (quant != Quantisation::kNone) p.scale.dtype = scale;
    if (has_groups(quant)) p.group = usual_row_group(scale);
    if (turned) p.hadamard = 16, p.state_words = 2;
    set_contiguous(p);
    problems.push_back(p);
  };
  if (op.dequantises) {
    add(DType::kF8E4M3, false, DType::kBf16, Quantisation::kTensor);
    add(DType::kF8E4M3, false, DType::kBf16, Quantisation::kRow);
    add(DType::kI8, false, DType::kBf16, Quantisation::kRow);
    add(DType::kF8E4M3, false, DType::kBf16, Quantisation::kGroup);
    add(DType::kF8E4M3, false, DType::kBf16, Quantisation::kBlock);
    add(DType::kF4E2M1, false, DType::kBf16, Quantisation::kGroup, DType::kF8E4M3);
    return problems;
  }
  for (const bool residual : {false, true}) {
    for (const DType x : {DType::kF32, DType::kF16, DType::kBf16}) {
      if (!op.quantises) add(x, residual, x, Quantisation::kNone);
    }
    if (op.softmax) add(DType::kBf16, residual, DType::kF32, Quantisation::kNone);
    if (op.arithmetic && !residual) {
      add(DType::kF32, false, DType::kBf16, Quantisation::kNone);
      add(DType::kBf16, false, DType::kF32, Quantisation::kNone);
      add(DType::kBf16, false, DType::kF8E4M3, Quantisation::kNone);
    }
    add(DType::kBf16, residual, DType::kF8E4M3, Quantisation::kGroup);
    add(DType::kBf16, residual, DType::kI8, Quantisation::kRow);
    if (op.quantises) {
      add(DType::kBf16, residual, DType::kF8E4M3, Quantisation::kRow);
      add(DType::kBf16, residual, DType::kF8E4M3, Quantisation::kTensor);
      add(DType::kBf16, residual, DType::kF8E4M3, Quantisation::kDynamic);
      add(DType::kBf16, residual, DType::kF8E4M3, Quantisation::kBlock);
      add(DType::kBf16, residual, DType::kF8E4M3, Quantisation::kGroup, DType::kE8M0);
      add(DType::kBf16, residual, DType::kF4E2M1, Quantisation::kGroup, DType::kF8E4M3);
      add(DType::kBf16, residual, DType::kF4E2M1, Quantisation::kGroup, DType::kF8E4M3, /*turned=*/true);
    }
  }
  return problems;
}

Stage row_stage(const RowProblem& p, bool stream, long long grid, std::shared_ptr<const LoadedKernel> kernel) {
  RowArgs args{};
  std::copy(p.size.begin(), p.size.end(), args.size);
  args.flat = p.size[0] == 1 && p.size[1] == 1;
  args.rows = p.rows(), args.n = p.n;
  if (args.rows > 0 && args.rows >> 31 == 0) {
    args.inner = denominator(static_cast<unsigned>(p.size[2]));
    args.middle = denominator(static_cast<unsigned>(p.size[1]));
  }
  args.x = row_tensor(p.x), args.residual = row_tensor(p.residual);
  args.residual_out = row_tensor(p.residual_out), args.out = row_tensor(p.out);
  args.weight.dtype = p.weight, args.bias.dtype = p.bias, args.smooth.dtype = p.smooth;
  std::copy(p.scale.stride.begin(), p.scale.stride.end(), args.scale.stride);
  args.scale.stride_group = p.stride_group;
  args.scale.quant = p.quant, args.scale.group = p.group;
  args.quantising.hadamard = p.hadamard, args.quantising.state_words = p.state_words;
  args.scale.dtype = p.scale.dtype, args.scale.rounding = p.rounding;
  args.unit_offset = p.unit_offset != 0, args.round_before_weight = p.round_before_weight != 0;
  args.activation = p.activation, args.gate = p.gate, args.squared = p.squared != 0;
  args.log = p.log != 0;
  args.weight_groups = p.weight_groups, args.gate_first = p.gate_first != 0;
  args.arithmetic = p.arithmetic, args.single = p.single != 0;
  const RowRotationProblem& r = p.rotation;
  args.rotation.dims = r.dims, args.rotation.heads = r.heads, args.rotation.table = r.table;
  args.rotation.table_rows = r.table_rows, args.rotation.stride_table = r.stride_table;
  std::copy(r.stride_position.begin(), r.stride_position.end(), args.rotation.stride_position);
  args.rotation.interleaved = r.interleaved != 0, args.rotation.inverse = r.inverse != 0;
  args.rotation.stride_axis = r.stride_axis, args.rotation.sequence_count = r.sequences;
  set_sections(r.section_pairs, r.sections, args.rotation);
  const auto strides = [](const RowTensorProblem& from, long long(&to)[kRowDims]) {
    std::copy(from.stride.begin(), from.stride.end(), to);
  };
  strides(p.loss.target, args.loss.stride_target), strides(p.loss.loss, args.loss.stride_loss);
  strides(p.loss.lse, args.loss.stride_lse);
  args.loss.ignore_index = p.loss.ignore_index;
  args.backward = {row_tensor(p.gradients.added), {nullptr, p.gradients.weight}, {nullptr, p.gradients.bias}};
  args.stream = stream, args.grid = grid;
  args.step = RowStep::kRows;
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](bool present, uint16_t slot, size_t offset) {
    if (present) stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  };
  pointer(true, kRowX, offsetof(RowArgs, x) + offsetof(RowTensor, data));
  pointer(p.residual.present(), kRowResidual, offsetof(RowArgs, residual) + offsetof(RowTensor, data));
  pointer(p.residual_out.present(), kRowResidualOut, offsetof(RowArgs, residual_out) + offsetof(RowTensor, data));
  pointer(p.out.present(), kRowOut, offsetof(RowArgs, out) + offsetof(RowTensor, data));
  pointer(p.weight != DType::kNone, kRowWeight, offsetof(RowArgs, weight) + offsetof(RowVector, data));
  pointer(p.bias != DType::kNone, kRowBias, offsetof(RowArgs, bias) + offsetof(RowVector, data));
  pointer(p.smooth != DType::kNone, kRowSmooth, offsetof(RowArgs, smooth) + offsetof(RowVector, data));
  pointer(p.scale.present(), kRowScale, offsetof(RowArgs, scale) + offsetof(QuantisedScales, data));
  pointer(p.tensor_scale != TensorScale::kNone, kRowTensorScale,
          offsetof(RowArgs, scale) + offsetof(QuantisedScales, of_tensor));
  pointer(p.state_words != 0, kRowRandomState, offsetof(RowArgs, quantising) + offsetof(RowQuantising, random_state));
  const size_t rotation = offsetof(RowArgs, rotation);
  pointer(p.rotates(), kRowCosine, rotation + offsetof(RowRotation, cosine));
  pointer(p.rotates(), kRowSine, rotation + offsetof(RowRotation, sine));
  pointer(r.positions != 0, kRowPositions, rotation + offsetof(RowRotation, positions));
  pointer(r.packed != 0, kRowSequences, rotation + offsetof(RowRotation, sequences));
  pointer(r.offsets != 0, kRowOffsets, rotation + offsetof(RowRotation, offsets));
  const size_t loss = offsetof(RowArgs, loss);
  pointer(p.has_loss(), kRowTarget, loss + offsetof(RowLoss, target));
  pointer(p.has_loss(), kRowLoss, loss + offsetof(RowLoss, loss));
  pointer(p.loss.lse.present(), kRowLse, loss + offsetof(RowLoss, lse));
  pointer(p.loss.factor != 0, kRowFactor, loss + offsetof(RowLoss, factor));
  const size_t backward = offsetof(RowArgs, backward);
  pointer(p.gradients.added.present(), kRowAdded, backward + offsetof(RowBackward, added) + offsetof(RowTensor, data));
  pointer(p.gradients.weight != DType::kNone, kRowWeightGradient,
          backward + offsetof(RowBackward, weight) + offsetof(RowSums, data));
  pointer(p.gradients.bias != DType::kNone, kRowBiasGradient,
          backward + offsetof(RowBackward, bias) + offsetof(RowSums, data));
  if (p.has_loss()) {
    for (const auto& [slot, offset] : {std::pair{kRowSmoothing, offsetof(RowLoss, smoothing)},
                                       {kRowZ, offsetof(RowLoss, z)},
                                       {kRowGradScale, offsetof(RowLoss, grad_scale)}}) {
      stage.patches.push_back({ArgPatch::Kind::kScalar, slot, static_cast<uint32_t>(loss + offset)});
    }
  }
  const std::pair<RowScalarSlot, size_t> scalars[] = {{kRowEps, offsetof(RowArgs, eps)},
                                                      {kRowLimit, offsetof(RowArgs, limit)},
                                                      {kRowAlpha, offsetof(RowArgs, alpha)},
                                                      {kRowUpOffset, offsetof(RowArgs, up_offset)}};
  for (const auto& [slot, offset] : scalars) {
    stage.patches.push_back({ArgPatch::Kind::kScalar, slot, static_cast<uint32_t>(offset)});
  }
  return stage;
}

std::vector<Stage> row_stages(const RowProblem& p, Stage rows, const LaunchShape& find, const LaunchShape& scale,
                              int64_t parts) {
  std::vector<Stage> stages;
  const bool none = p.rows() == 0;
  if (p.finds_of_tensor()) {
    for (const RowStep step : {RowStep::kFind, RowStep::kScale}) {
      if (none && step == RowStep::kFind) continue;
      Stage& before = stages.emplace_back(rows);
      before.shape = step == RowStep::kFind ? find : scale;
      before.shape.stage_edge = step == RowStep::kScale && !none;
      edit_row_args(before, [&](RowArgs& args) {
        args.step = step, args.part_count = none ? 0 : parts, args.grid = before.shape.grid[0];
      });
      before.patches.push_back({ArgPatch::Kind::kWorkspace, 0, static_cast<uint32_t>(offsetof(RowArgs, parts))});
    }
    rows.shape.stage_edge = true;
  }
  if (!none) stages.push_back(std::move(rows));
  return stages;
}

std::vector<Stage> chunk_stages(const Stage& rows, int64_t chunks) {
  std::vector<Stage> stages(2, rows);
  for (const RowStep step : {RowStep::kFind, RowStep::kRows}) {
    Stage& stage = stages[step == RowStep::kFind ? 0 : 1];
    stage.shape.stage_edge = step == RowStep::kRows;
    edit_row_args(stage, [&](RowArgs& args) { args.step = step, args.part_count = chunks; });
    stage.patches.push_back({ArgPatch::Kind::kWorkspace, 0, static_cast<uint32_t>(offsetof(RowArgs, parts))});
  }
  return stages;
}

std::vector<Stage> column_stages(const RowProblem& p, const Stage& rows, const LaunchShape& columns, int64_t parts) {
  std::vector<Stage> stages;
  const bool none = p.rows() == 0;
  for (const RowStep step : {RowStep::kRows, RowStep::kColumns}) {
    if (none && step == RowStep::kRows) continue;
    Stage& stage = stages.emplace_back(rows);
    if (step == RowStep::kColumns) stage.shape = columns;
    stage.shape.stage_edge = step == RowStep::kColumns && !none;
    edit_row_args(stage, [&](RowArgs& args) {
      args.step = step, args.part_count = none ? 0 : parts, args.grid = stage.shape.grid[0];
    });
    stage.patches.push_back({ArgPatch::Kind::kWorkspace, 0, static_cast<uint32_t>(offsetof(RowArgs, parts))});
  }
  return stages;
}

std::vector<Stage> together_stages(Stage rows, int blocks, int64_t shared_bytes) {
  rows.shape.cluster[0] = rows.shape.grid[0] = static_cast<uint32_t>(blocks);
  rows.shape.shared_bytes = static_cast<uint32_t>(shared_bytes);
  edit_row_args(rows, [&](RowArgs& args) { args.step = RowStep::kTogether, args.grid = blocks; });
  std::vector<Stage> stages;
  stages.push_back(std::move(rows));
  return stages;
}

int64_t row_workspace_bytes(const RowProblem& p, int64_t parts) {
  if (p.column_sums() > 0) return p.column_sums() * parts * p.n * static_cast<int64_t>(sizeof(float));
  return p.finds_of_tensor() ? parts * static_cast<int64_t>(sizeof(float)) : 0;
}

}  // namespace tilewright
