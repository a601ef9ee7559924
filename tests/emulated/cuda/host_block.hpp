// SPDX-License-Identifier: MIT
// Blocks of a CUDA grid on the host: the threads of a block, and the blocks that run together, take turns on one host thread and
// switch where they wait for each other. Those of a cluster run together, or all of a grid, where blocks wait for blocks.
// Asynchronous copies land only when they are waited for, and what was not waited for cannot be read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tilewright::emulated {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
inline Index thread_index, block_index, grid_size;

inline constexpr int kWarp = 32;
inline constexpr size_t kSharedCapacity = 256 * 1024;
// The running block's shared memory, at a multiple of 1024, filled with 0xFF when a block begins. Kernels that declare it
// themselves know it as tilewright::dynamic_shared. Each block of a cluster has its own in the same place while it runs.
extern std::byte* const shared_memory;

// Runs body() once a thread of every block of the grid, one cluster of blocks after another or all together. Returns what went
// wrong, "" = nothing.
const char* run_grid(unsigned blocks, unsigned threads, size_t shared_bytes, const std::function<void()>& body,
                     unsigned cluster = 1, bool together = false);

// Of the running thread.
int lane();
// Remembers the first failure of a grid: a wrong alignment, an address outside of shared memory.
void fail(const char* what);
void wait_for_block();
// The cluster: its blocks, and the running one among them.
unsigned blocks_in_cluster();
unsigned block_in_cluster();
// Of all blocks that run together: the running one, the one that is number `rank` of its cluster, and a number that each thread
// has for itself.
inline constexpr unsigned kMostThreads = 16384;
unsigned running_block();
unsigned block_of_cluster(unsigned rank);
unsigned running_thread();
void arrive_cluster();
void wait_cluster();
// The shared memory of a block of the cluster, wherever it stands now; of none that has ended, which is a failure.
std::byte* shared_memory_of(unsigned rank);
// Of a named barrier: `threads` of the block come; who arrives only does not wait.
void meet_named(int id, unsigned threads, bool waits);
// Lets other threads run until ready(); each change that somebody may wait for is told.
void wait_until(const std::function<bool()>& ready);
void tell_progress();
// Of a thread that looks at global memory again and again.
void let_others_run();

// Words that the lanes of a warp exchange: each writes its row, and when all 32 have called meet_warp, one of them runs
// `together` on all rows before any goes on.
using WarpRows = std::array<std::array<unsigned, 12>, kWarp>;
WarpRows& warp_rows();
void meet_warp(const std::function<void(WarpRows&)>& together);

// `size` bytes at `offset` of shared memory, or null after a failure.
std::byte* shared_at(size_t offset, size_t size);
// cp.async and its groups.
void begin_copy(size_t to, const void* from, int bytes, int valid);
void commit_group();
void wait_for_groups(int pending);

}  // namespace tilewright::emulated
