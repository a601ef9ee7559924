// SPDX-License-Identifier: MIT
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {
namespace {

EpilogueOperand operand(const OperandProblem& o) { return {nullptr, o.stride_batch, o.stride_m, o.stride_n, o.dtype}; }

bool in_epilogue(const ScaleProblem& s) { return s.present() && !s.blocked(); }

GemmBlockScale block_scale(const ScaleProblem& s) {
  if (!s.blocked()) return {};
  return {nullptr, s.stride_batch, s.stride_outer, s.stride_k, s.outer, s.k, s.dtype};
}

}  // namespace

GemmArgs gemm_args(const GemmProblem& p, const GemmKnobs& knobs) {
  GemmArgs args{};
  args.m = p.m, args.n = p.n, args.k = p.k, args.batch = p.batch;
  args.stride_a_batch = p.stride_a_batch, args.stride_a_m = p.stride_a_m, args.stride_a_k = p.stride_a_k;
  args.stride_b_batch = p.stride_b_batch, args.stride_b_k = p.stride_b_k, args.stride_b_n = p.stride_b_n;
  args.a_dtype = p.a_dtype, args.b_dtype = p.b_dtype;
  args.b_packed = p.b_packed != 0;
  args.block_m = knobs.block_m, args.block_n = knobs.block_n, args.block_k = knobs.block_k;
  GemmEpilogueArgs& e = args.epilogue;
  e.alpha = 1;
  e.c = operand(p.c), e.bias = operand(p.bias);
  if (in_epilogue(p.scale_a)) e.scale_a = {nullptr, p.scale_a.stride_batch, p.scale_a.stride_outer, 0, p.scale_a.dtype};
  if (in_epilogue(p.scale_b)) e.scale_b = {nullptr, p.scale_b.stride_batch, 0, p.scale_b.stride_outer, p.scale_b.dtype};
  e.activation = p.activation;
  e.gate = p.gate;
  e.step_count = p.step_count;
  for (int i = 0; i < p.step_count; ++i) {
    e.steps[i] = {p.steps[i].kind, p.steps[i].activation, 0, 0, operand(p.steps[i].operand)};
  }
  e.stride_d_batch = p.stride_d_batch, e.stride_d_m = p.stride_d_m, e.stride_d_n = p.stride_d_n;
  e.d_dtype = p.d_dtype;
  return args;
}

Stage gemm_stage(const GemmProblem& p, const GemmKnobs& knobs, uint32_t units,
                 std::shared_ptr<const LoadedKernel> kernel) {
  const GemmArgs args = gemm_args(p, knobs);
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.shape.units = units;
  stage.args.resize(sizeof(GemmArgs));
  std::memcpy(stage.args.data(), &args, sizeof(args));

  auto pointer = [&stage](uint16_t slot, size_t offset) {
    stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  };
  auto scalar = [&stage](int slot, size_t offset) {
    stage.patches.push_back({ArgPatch::Kind::kScalar, static_cast<uint16_t>(slot), static_cast<uint32_t>(offset)});
  };
  constexpr size_t kEpilogue = offsetof(GemmArgs, epilogue);
  constexpr size_t kData = offsetof(EpilogueOperand, data);
  pointer(kSlotA, offsetof(GemmArgs, a));
  pointer(kSlotB, offsetof(GemmArgs, b));
  pointer(kSlotD, kEpilogue + offsetof(GemmEpilogueArgs, d));
  stage.patches.push_back({ArgPatch::Kind::kWorkspace, 0, offsetof(GemmArgs, workspace)});
  if (in_epilogue(p.scale_a)) pointer(kSlotScaleA, kEpilogue + offsetof(GemmEpilogueArgs, scale_a) + kData);
  if (in_epilogue(p.scale_b)) pointer(kSlotScaleB, kEpilogue + offsetof(GemmEpilogueArgs, scale_b) + kData);
  if (p.c.present()) {
    pointer(kSlotC, kEpilogue + offsetof(GemmEpilogueArgs, c) + kData);
    scalar(kScalarBeta, kEpilogue + offsetof(GemmEpilogueArgs, beta));
  }
  if (p.bias.present()) pointer(kSlotBias, kEpilogue + offsetof(GemmEpilogueArgs, bias) + kData);
  if (p.has_alpha) scalar(kScalarAlpha, kEpilogue + offsetof(GemmEpilogueArgs, alpha));
  if (p.activation == Activation::kClamp) {
    scalar(kScalarLow, kEpilogue + offsetof(GemmEpilogueArgs, low));
    scalar(kScalarHigh, kEpilogue + offsetof(GemmEpilogueArgs, high));
  }
  for (int i = 0; i < p.step_count; ++i) {
    const size_t step = kEpilogue + offsetof(GemmEpilogueArgs, steps) + static_cast<size_t>(i) * sizeof(EpilogueStep);
    if (p.steps[i].operand.present()) {
      pointer(static_cast<uint16_t>(kSlotStep0 + i), step + offsetof(EpilogueStep, operand) + kData);
    }
    if (p.steps[i].activation == Activation::kClamp) {
      scalar(kScalarStep0 + 2 * i, step + offsetof(EpilogueStep, low));
      scalar(kScalarStep0 + 2 * i + 1, step + offsetof(EpilogueStep, high));
    }
  }
  return stage;
}

GemmScaleArgs gemm_scale_args(const GemmProblem& p) { return {block_scale(p.scale_a), block_scale(p.scale_b)}; }

GemmScaledArgs gemm_scaled_args(const GemmProblem& p, const GemmKnobs& knobs) {
  return {gemm_args(p, knobs), gemm_scale_args(p), block_scale(p.zero_b)};
}

void add_scale_patches(Stage& stage, const GemmProblem& p, size_t offset) {
  constexpr size_t kData = offsetof(GemmBlockScale, data);
  const auto add = [&](const ScaleProblem& s, uint16_t slot, size_t at) {
    if (s.blocked()) add_patch(stage, ArgPatch::Kind::kPointer, slot, offset + at + kData);
  };
  add(p.scale_a, kSlotScaleA, offsetof(GemmScaleArgs, a));
  add(p.scale_b, kSlotScaleB, offsetof(GemmScaleArgs, b));
}

Stage gemm_scaled_stage(const GemmProblem& p, const GemmKnobs& knobs, uint32_t units,
                        std::shared_ptr<const LoadedKernel> kernel) {
  Stage stage = gemm_stage(p, knobs, units, std::move(kernel));
  enclose_args(stage, gemm_scaled_args(p, knobs));
  add_scale_patches(stage, p, offsetof(GemmScaledArgs, scale));
  if (p.zero_b.present()) {
    add_patch(stage, ArgPatch::Kind::kPointer, kSlotZeroB,
              offsetof(GemmScaledArgs, zero_b) + offsetof(GemmBlockScale, data));
  }
  return stage;
}

}  // namespace tilewright
