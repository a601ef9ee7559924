// SPDX-License-Identifier: MIT
// Who a work-item is. Source: LLVM, "User Guide for AMDGPU Backend", initial kernel execution state.
#pragma once

#include "tile/emu/runtime.hpp"

#define TILEWRIGHT_EMU_ID(name, field)                                     \
  TILEWRIGHT_EMU_PLAIN static inline unsigned __builtin_amdgcn_##name() {  \
    const tilewright::emu::LaneState* lane = tilewright::emu::this_lane(); \
    return lane->field;                                                    \
  }
TILEWRIGHT_EMU_ID(workitem_id_x, work_item_id[0])
TILEWRIGHT_EMU_ID(workitem_id_y, work_item_id[1])
TILEWRIGHT_EMU_ID(workitem_id_z, work_item_id[2])
TILEWRIGHT_EMU_ID(workgroup_id_x, workgroup_id[0])
TILEWRIGHT_EMU_ID(workgroup_id_y, workgroup_id[1])
TILEWRIGHT_EMU_ID(workgroup_id_z, workgroup_id[2])
TILEWRIGHT_EMU_ID(workgroup_size_x, block[0])
TILEWRIGHT_EMU_ID(workgroup_size_y, block[1])
TILEWRIGHT_EMU_ID(workgroup_size_z, block[2])
TILEWRIGHT_EMU_ID(grid_size_x, grid[0] * lane->block[0])  // work-items
TILEWRIGHT_EMU_ID(grid_size_y, grid[1] * lane->block[1])
TILEWRIGHT_EMU_ID(grid_size_z, grid[2] * lane->block[2])
#undef TILEWRIGHT_EMU_ID

TILEWRIGHT_EMU_PLAIN static inline unsigned __builtin_amdgcn_wavefrontsize() { return tilewright::emu::kWaveSize; }

// v_mbcnt_lo/hi_u32_b32: bits of the mask that belong to lanes below this one.
TILEWRIGHT_EMU_PLAIN static inline unsigned __builtin_amdgcn_mbcnt_lo(unsigned mask, unsigned add) {
  const unsigned lane = tilewright::emu::this_lane()->lane;
  const unsigned below = lane >= 32 ? ~0u : (1u << lane) - 1;
  return add + static_cast<unsigned>(__builtin_popcount(mask & below));
}
TILEWRIGHT_EMU_PLAIN static inline unsigned __builtin_amdgcn_mbcnt_hi(unsigned mask, unsigned add) {
  const unsigned lane = tilewright::emu::this_lane()->lane;
  const unsigned below = lane < 32 ? 0 : (1u << (lane - 32)) - 1;
  return add + static_cast<unsigned>(__builtin_popcount(mask & below));
}
