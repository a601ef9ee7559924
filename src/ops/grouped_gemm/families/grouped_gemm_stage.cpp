// SPDX-License-Identifier: MIT
#include <cstring>

#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"

namespace tilewright {

GemmProblem equal_work(const GroupedGemmProblem& p) {
  GemmProblem work = p.gemm;
  if (p.mode == GroupMode::kRaggedK) {
    work.k = p.gemm.k / std::max<int64_t>(p.gemm.batch, 1);
  } else {
    work.m = p.likely_rows(), work.batch = 1;
  }
  return work;
}

GroupArgs group_args(const GroupedGemmProblem& p) {
  GroupArgs g{};
  g.stride_sizes = p.stride_sizes, g.stride_offsets = p.stride_offsets;
  g.stride_gather = p.stride_gather, g.stride_scatter = p.stride_scatter;
  g.a_rows = p.a_rows, g.d_rows = p.d_rows;
  g.alignment = p.alignment;
  g.mode = p.mode, g.extents = p.extents;
  return g;
}

void add_group_patches(Stage& stage, const GroupedGemmProblem& p, size_t offset) {
  const auto pointer = [&](bool present, uint16_t slot, size_t member) {
    if (present) add_patch(stage, ArgPatch::Kind::kPointer, slot, offset + member);
  };
  pointer(p.has_sizes(), kSlotSizes, offsetof(GroupArgs, sizes));
  pointer(p.has_offsets(), kSlotOffsets, offsetof(GroupArgs, offsets));
  pointer(p.has_gather != 0, kSlotGather, offsetof(GroupArgs, gather));
  pointer(p.has_scatter != 0, kSlotScatter, offsetof(GroupArgs, scatter));
  pointer(p.has_status != 0, kSlotStatus, offsetof(GroupArgs, status));
}

Stage grouped_gemm_stage(const GroupedGemmProblem& p, int64_t grid, uint32_t units,
                         std::shared_ptr<const LoadedKernel> kernel) {
  Stage stage = gemm_scaled_stage(p.gemm, {grid, 0, 0}, units, std::move(kernel));
  static_assert(offsetof(GroupedGemmArgs, scaled) == 0, "gemm's patches stay where they are");
  GroupedGemmArgs args{};
  std::memcpy(&args.scaled, stage.args.data(), sizeof(args.scaled));
  args.groups = group_args(p);
  // The epilogue goes by D's row, A's scale by A's.
  if (p.indexed() && p.gemm.scale_a.present() && !p.gemm.scale_a.blocked()) {
    EpilogueOperand& scale = args.scaled.gemm.epilogue.scale_a;
    args.groups.row_scale = scale;
    scale = {};
    for (ArgPatch& patch : stage.patches) {
      if (patch.kind != ArgPatch::Kind::kPointer || patch.slot != kSlotScaleA) continue;
      patch.arg_offset =
          offsetof(GroupedGemmArgs, groups) + offsetof(GroupArgs, row_scale) + offsetof(EpilogueOperand, data);
    }
  }
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  add_group_patches(stage, p, offsetof(GroupedGemmArgs, groups));
  return stage;
}

}  // namespace tilewright
