// SPDX-License-Identifier: MIT
// The copy engine of sm_90 (TMA): boxes of a tensor from global to shared memory. One thread asks; they complete at an
// mbarrier. Elements outside of the tensor load as zero.
// Coordinates are in elements, the contiguous dimension first. PTX ISA 8.0, "cp.async.bulk.tensor".
#pragma once

#include "tile/common/tensor_map.hpp"
#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

// For lines that one block reads, once: they leave L2 first. What many blocks read is asked for without a policy: gemm_sm90
// was faster without any.
__device__ __forceinline__ unsigned long long evict_first() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// As without a policy.
__device__ __forceinline__ unsigned long long evict_unchanged() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// For rows of `row_bytes` that are read once, in pieces of 128 bytes along them. A line that two pieces share is to stay until the second one.
__device__ __forceinline__ unsigned long long read_once(long long row_bytes) {
  return row_bytes % 128 == 0 ? evict_first() : evict_unchanged();
}

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void load_box(const TensorMap& map, void* to, Barrier& barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
// Of four dimensions.
__device__ __forceinline__ void load_box(const TensorMap& map, void* to, Barrier& barrier, int c0, int c1, int c2,
                                         int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void load_box_once(const TensorMap& map, void* to, Barrier& barrier,
                                              unsigned long long policy, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "l"(policy), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ __forceinline__ void load_box_once(const TensorMap& map, void* to, Barrier& barrier,
                                              unsigned long long policy, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "l"(policy), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
// Into every block of the cluster that `blocks` names by a bit, at the same place, completing at each one's own barrier.
__device__ __forceinline__ void load_box_multicast(const TensorMap& map, void* to, Barrier& barrier,
                                                   unsigned short blocks, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "h"(blocks), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

}  // namespace tilewright::sm90
