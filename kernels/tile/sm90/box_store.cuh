// SPDX-License-Identifier: MIT
// Boxes of a tensor from shared to global memory by the copy engine: who stored them goes on. What lies outside of the tensor is
// not written. PTX ISA 8.0, "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group".
#pragma once

#include "tile/common/tensor_map.hpp"
#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

// What this thread has stored in shared memory, the copy engine sees: before the barrier behind which one thread asks.
__device__ __forceinline__ void show_copy_engine() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// One thread asks for boxes, and ends a group of them.
__device__ __forceinline__ void store_box(const TensorMap& map, unsigned from, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(from),
               "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
__device__ __forceinline__ void end_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Of the same thread: until what its groups come from has been read, and may be written again; until they are in memory.
__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace tilewright::sm90
