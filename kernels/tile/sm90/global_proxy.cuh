// SPDX-License-Identifier: MIT
// Global memory that threads write and the copy engine reads in the same kernel. PTX ISA 8.0, "fence.proxy".
#pragma once

namespace tilewright::sm90 {

// Between what threads wrote and what the copy engine reads afterwards: where it was written, before others are told, and
// where it is asked for, after that was heard.
__device__ __forceinline__ void show_copy_engine_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

}  // namespace tilewright::sm90
