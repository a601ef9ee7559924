// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_tiles.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "ops/gemm/families/cuda/narrow_weights_family.hpp"
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr DequantTile kDequantTiles[] = {
    {128, 8, 2, 6, 2, 3}, {64, 8, 1, 10, 2, 4},  {192, 8, 3, 8, 1},  {256, 8, 4, 6, 1},  {128, 16, 2, 6, 2},
    {64, 16, 1, 8, 2, 3}, {192, 16, 3, 8, 1, 3}, {256, 16, 4, 6, 1}, {128, 32, 2, 8, 1}, {64, 32, 1, 8, 2},
    {192, 32, 3, 6, 1},   {256, 32, 4, 6, 1},    {128, 64, 2, 8, 1}, {64, 64, 1, 8, 1},  {192, 64, 3, 8, 1},
    {64, 128, 1, 8, 1},   {128, 128, 2, 8, 1}};
// Of a separated gate a warpgroup has 128 rows.
constexpr DequantTile kSeparatedDequantTiles[] = {{256, 8, 2, 6, 1},  {128, 8, 1, 6, 2},  {256, 16, 2, 6, 1},
                                                  {128, 16, 1, 6, 2}, {256, 32, 2, 6, 1}, {128, 32, 1, 8, 1},
                                                  {128, 64, 1, 8, 1}};
constexpr DequantTile kLeastDequantTile{64, 8, 1, 4, 1}, kLeastSeparatedDequantTile{128, 8, 1, 4, 1};
constexpr int64_t kDequantCounterBytes = 16;
constexpr int kDequantBlockShared = 1024;  // of every block, the system's own

bool has_separated_tiles(const GemmProblem& p) { return choose_epilogue(p).gate == GateMode::kSeparated; }

// Whether weights that are packed have sizes that tiles of them take.
Status check_dequant_packed(const GemmProblem& p) {
  if (!p.b_packed) return {};
  if (fragments_in_order(p.b_dtype) && p.k % kDequantSliceK != 0) {
    return unsupported(
        fmt::format("K = {} of packed {}, allowed: multiples of {}", p.k, dtype_name(p.b_dtype), kDequantSliceK));
  }
  if (has_separated_tiles(p) && p.n / 2 % kFragmentGroup != 0) {
    return unsupported(fmt::format("N = {} of packed gate and up, allowed: multiples of {}", p.n, 2 * kFragmentGroup));
  }
  return {};
}

}  // namespace

std::span<const DequantTile> dequant_tiles_of(const GemmProblem& p) {
  if (has_separated_tiles(p)) return kSeparatedDequantTiles;
  return kDequantTiles;
}
const DequantTile& least_dequant_tile(const GemmProblem& p) {
  return has_separated_tiles(p) ? kLeastSeparatedDequantTile : kLeastDequantTile;
}

int dequant_scale_row(const GemmProblem& p) {
  const bool along = p.scale_b.blocked() && p.scale_b.outer == 1 && p.scale_b.stride_k == 1 &&
                     p.scale_b.stride_outer <= kDequantMostScaleRow;
  if (!along || p.n <= 1 || p.scale_b.stride_outer < (p.k + p.scale_b.k - 1) / p.scale_b.k) return 0;
  return static_cast<int>(p.scale_b.stride_outer + kDequantCopiedBytes - 1) / kDequantCopiedBytes * kDequantCopiedBytes;
}

GemmSm90DequantConfig dequant_config(const GemmProblem& p, const DequantTile& tile, int splits, int scale_row) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  return {.dtype = p.a_dtype,
          .weight = p.b_dtype,
          .scale = p.scale_b.blocked() ? p.scale_b.dtype : DType::kNone,
          .group = p.scale_b.k,
          .zero = p.zero_b.dtype,
          .epilogue = e.kind,
          .activation = e.activation,
          .gate = e.gate,
          .d_dtype = e.d_dtype,
          .rows = tile.rows,
          .tokens = tile.tokens,
          .warpgroups = tile.warpgroups,
          .stages = tile.stages,
          .blocks = tile.blocks,
          .splits = splits,
          .cluster = 1,
          .packed = p.b_packed != 0,
          .scale_row = scale_row};
}

bool dequant_fits_shared(const GemmSm90DequantConfig& c) {
  static const int kSharedBytes = find_arch("sm_90a")->shared_bytes;
  return c.blocks * (gemm_sm90_dequant_shared_bytes(c) + kDequantBlockShared) <= kSharedBytes + kDequantBlockShared;
}
const char* dequant_target_refusal(const GemmSm90DequantConfig& c, const ArchSpec& arch) {
  if (sm90_wgmma(arch, c.dtype, c.tokens) == nullptr) return "the target has no such wgmma";
  if (!dequant_fits_shared(c)) return "more shared memory than a multiprocessor has";
  return nullptr;
}
Status check_dequant_problem(const GemmProblem& p, const DeviceSpec& device) {
  if (p.batch_invariant) return unsupported("batch_invariant: more rows are summed in another order");
  if (choose_epilogue(p).kind == EpilogueKind::kFull) {
    return unsupported("the epilogue has C, steps, or an operand that varies by both row and column");
  }
  const GemmSm90DequantConfig least = dequant_config(p, least_dequant_tile(p), 1, 0);
  if (const char* reason = gemm_sm90_dequant_refusal(least)) return unsupported(reason);
  return check_dequant_operands(p, device);
}
Status check_dequant_operands(const GemmProblem& p, const DeviceSpec& device) {
  if (sm90_wgmma(*device.arch, p.a_dtype, 8) == nullptr) {
    return unsupported(fmt::format("{} has no wgmma for {}", device.arch->target, dtype_name(p.a_dtype)));
  }
  if (Status s = check_dequant_packed(p); !s) return s;
  if (Status s = check_rows_along_k(p); !s) return s;
  if (p.k % 8 != 0) return unsupported(fmt::format("K = {}, allowed: multiples of 8", p.k));
  return check_copied_sizes(p);
}
Status check_dequant_weights(const GemmProblem& p, const GemmSm90DequantConfig& c) {
  if (Status s = check_narrow_weights(p, c); !s) return s;
  if (c.packed != (p.b_packed != 0)) return unsupported("one of kernel and B is packed");
  if (c.scale_row != 0 && (dequant_scale_row(p) == 0 || dequant_scale_row(p) > c.scale_row)) {
    return unsupported(
        fmt::format("B's scales are no rows of at most {} bytes, which the kernel brings whole", c.scale_row));
  }
  return {};
}

std::string dequant_order(const GemmSm90DequantConfig& c) {
  return fmt::format("{}_t_w{}{}", gemm_sm90_dequant_by_warp(c) ? "mma" : "wgmma", dtype_bits(c.weight),
                     narrow_weights_promote(c) ? fmt::format("_scaled{}", c.group) : "");
}

int64_t dequant_workspace_bytes(const GemmProblem& p, const GemmSm90DequantConfig& c, int64_t entries) {
  if (gemm_sm90_dequant_in_order(c)) return 0;
  const int64_t tile_k = gemm_sm90_dequant_tile_k(c.weight);
  return entries * ((p.k + tile_k - 1) / tile_k) * gemm_sm90_dequant_token_bytes(c);
}

Stage dequant_stage(const GemmProblem& p, const GemmSm90DequantConfig& c, GemmSm90SkinnyArgs args,
                    int64_t exchange_bytes, std::shared_ptr<const LoadedKernel> kernel) {
  args.scale = gemm_scale_args(p);
  Stage stage = enclosing_stage(p, args, std::move(kernel));
  add_scale_patches(stage, p, offsetof(GemmSm90SkinnyArgs, scale));
  // Sums on their way stand in the stream's zeros; the workspace is A's, rearranged.
  std::erase_if(stage.patches, [](const ArgPatch& patch) { return patch.kind == ArgPatch::Kind::kWorkspace; });
  const bool in_order = gemm_sm90_dequant_in_order(c);
  stage.zero_bytes = exchange_bytes + (in_order ? 0 : kDequantCounterBytes);
  add_patch(stage, ArgPatch::Kind::kZeros, 0, offsetof(GemmSm90SkinnyArgs, gemm) + offsetof(GemmArgs, workspace));
  if (in_order) {
    const int slices = gemm_sm90_dequant_tile_k(c.weight) / kDequantSliceK;
    add_slices_of_a(stage, p, offsetof(GemmSm90SkinnyArgs, a), args.stage_tokens,
                    dequant_slices_at_once(args.stage_tokens, c.tokens, slices));
  } else {
    add_patch(stage, ArgPatch::Kind::kWorkspace, 0, offsetof(GemmSm90DequantArgs, tokens));
    add_patch(stage, ArgPatch::Kind::kZeros, 0, offsetof(GemmSm90DequantArgs, blocks_done));
    stage.patches.back().add = exchange_bytes;
  }
  // The copy engine brings bytes of weights that lie in rows, or fragments.
  const int box_rows = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(c));
  if (c.packed) {
    add_packed_b(stage, p, offsetof(GemmSm90SkinnyArgs, b), box_rows, gemm_sm90_dequant_tile_k(c.weight));
  } else {
    GemmProblem bytes = p;
    const int in_a_byte = 8 / dtype_bits(p.b_dtype);
    bytes.b_dtype = DType::kI8;
    bytes.k /= in_a_byte, bytes.stride_b_n /= in_a_byte, bytes.stride_b_batch /= in_a_byte;
    add_operand_b(stage, bytes, offsetof(GemmSm90SkinnyArgs, b), Major::kK, box_rows);
  }
  // The arguments of the product come first.
  static_assert(offsetof(GemmSm90DequantArgs, product) == 0);
  GemmSm90DequantArgs whole{};
  std::memcpy(&whole.product, stage.args.data(), sizeof(whole.product));
  whole.zero_b = {nullptr,    p.zero_b.stride_batch, p.zero_b.stride_outer, p.zero_b.stride_k, p.zero_b.outer,
                  p.zero_b.k, p.zero_b.dtype};
  stage.args.resize(sizeof(whole));
  std::memcpy(stage.args.data(), &whole, sizeof(whole));
  if (p.zero_b.present()) {
    add_patch(stage, ArgPatch::Kind::kPointer, kSlotZeroB,
              offsetof(GemmSm90DequantArgs, zero_b) + offsetof(GemmBlockScale, data));
  }
  stage.shape.threads = static_cast<uint32_t>(gemm_sm90_dequant_threads(c));
  stage.shape.programmatic_edge = true;
  stage.shape.cluster = {static_cast<uint32_t>(c.cluster), 1, 1};
  // Each waits for all others' A, or for parts of its sums that do not meet in its cluster.
  stage.shape.cooperative = !in_order || (c.splits != 1 && !gemm_sm90_dequant_parts_meet(c));
  return stage;
}

}  // namespace tilewright
