// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ops/group_norm/families/group_norm_families.hpp"

namespace tilewright {

GroupNormChunks group_norm_chunks(const GroupNormProblem& p, int64_t whole, int64_t step) {
  const int64_t span = std::clamp<int64_t>((p.positions + step - 1) / step * step, step, whole);
  return {span, (p.positions + span - 1) / span};
}
int64_t group_norm_workspace(const GroupNormProblem& p, const GroupNormChunks& chunks) {
  return group_norm_floats(p.images, chunks.count, p.channels, p.groups) * static_cast<int64_t>(sizeof(float));
}

Stage group_norm_stage(const GroupNormProblem& p, const GroupNormChunks& chunks,
                       std::shared_ptr<const LoadedKernel> kernel) {
  GroupNormArgs args{};
  args.x = {nullptr, p.x.image, p.x.line}, args.out = {nullptr, p.out.image, p.out.line};
  args.weight.dtype = p.weight, args.bias.dtype = p.bias;
  args.dy = {nullptr, p.dy.image, p.dy.line};
  args.dweight.dtype = p.dweight, args.dbias.dtype = p.dbias;
  args.images = p.images, args.channels = p.channels, args.groups = p.groups, args.positions = p.positions;
  args.span = chunks.span, args.chunks = chunks.count;
  args.line_pieces = denominator(static_cast<unsigned>(std::max<int64_t>(p.positions / kRowPiece, 1)));
  args.dtype = p.dtype, args.channels_last = p.channels_last != 0, args.activation = p.activation;
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto patch = [&stage](ArgPatch::Kind kind, uint16_t slot, size_t offset) {
    stage.patches.push_back({kind, slot, static_cast<uint32_t>(offset)});
  };
  using Kind = ArgPatch::Kind;
  patch(Kind::kPointer, kGroupNormX, offsetof(GroupNormArgs, x) + offsetof(GroupNormTensor, data));
  patch(Kind::kPointer, kGroupNormOut, offsetof(GroupNormArgs, out) + offsetof(GroupNormTensor, data));
  const size_t data = offsetof(RowVector, data);
  if (p.weight != DType::kNone) patch(Kind::kPointer, kGroupNormWeight, offsetof(GroupNormArgs, weight) + data);
  if (p.bias != DType::kNone) patch(Kind::kPointer, kGroupNormBias, offsetof(GroupNormArgs, bias) + data);
  if (p.backward != 0)
    patch(Kind::kPointer, kGroupNormDy, offsetof(GroupNormArgs, dy) + offsetof(GroupNormTensor, data));
  const size_t sums = offsetof(RowSums, data);
  if (p.dweight != DType::kNone)
    patch(Kind::kPointer, kGroupNormWeightGradient, offsetof(GroupNormArgs, dweight) + sums);
  if (p.dbias != DType::kNone) patch(Kind::kPointer, kGroupNormBiasGradient, offsetof(GroupNormArgs, dbias) + sums);
  patch(Kind::kScalar, kGroupNormEps, offsetof(GroupNormArgs, eps));
  patch(Kind::kWorkspace, 0, offsetof(GroupNormArgs, parts));
  return stage;
}
void set_group_norm_step(Stage& stage, GroupNormStep step, int64_t grid, int64_t width) {
  GroupNormArgs args;
  std::memcpy(&args, stage.args.data(), sizeof(args));
  args.step = step, args.grid = grid, args.width = width;
  std::memcpy(stage.args.data(), &args, sizeof(args));
}

std::vector<GroupNormStep> group_norm_steps(const GroupNormProblem& p) {
  using Step = GroupNormStep;
  if (p.backward == 0) return {Step::kMoments, Step::kGroups, Step::kOutput};
  std::vector<Step> steps;
  if (p.elements() > 0) steps = {Step::kMoments, Step::kGroups, Step::kSums, Step::kCoefficients, Step::kGradient};
  if (p.has_column_gradients()) steps.push_back(Step::kColumns);
  return steps;
}
int64_t group_norm_items(const GroupNormProblem& p, GroupNormStep step, int64_t tiles) {
  using Step = GroupNormStep;
  if (step == Step::kGroups || step == Step::kCoefficients || step == Step::kWhole) return p.images * p.groups;
  return step == Step::kColumns ? p.channels : tiles;
}

std::string group_norm_signature(const GroupNormConfig& c) {
  return fmt::format("x={}:channels_last={}", dtype_name(c.dtype), c.channels_last ? 1 : 0);
}
bool is_group_norm_config(const GroupNormConfig& c) {
  return c.dtype == DType::kF32 || c.dtype == DType::kF16 || c.dtype == DType::kBf16;
}

}  // namespace tilewright
