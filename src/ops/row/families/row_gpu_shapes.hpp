// SPDX-License-Identifier: MIT
// How a GPU's threads share a row operator's problems: the shapes that fit one, the best first, and what its kernels have room for.
#pragma once

#include <vector>

#include "arch/arch_spec.hpp"
#include "device/device.hpp"
#include "ops/row/problem/row_problem.hpp"
#include "tile/common/row_config.hpp"

namespace tilewright {

// `threads` of each of a cluster's blocks, or of blocks that take a part of a row each.
struct RowGpuShape {
  int threads, pieces, cluster = 1, parts = 1;
};

// A group of 128 elements, or a few short rows a warp; a head's pairs take as few as one.
inline constexpr int kLeastRowThreads = 16;
// A block of rows and columns that share a scale is found and written by a block of threads, in as many turns as a thread has pieces: 1, 2, 4 or 8.
inline constexpr int kScaleBlockThreads = 16;
// Parts of what is found over all of a tensor, at most.
inline constexpr int64_t kMostRowFoundParts = 2048;
// Rows of a gradient that have slots in sm_90a's shared memory: one that is written, one that is reduced and two on their way.
inline constexpr int kRowSlots = 4;

// Rows that such blocks have at most.
int64_t scale_block_rows(int pieces);
bool legal_shape(const RowGpuShape& shape, int least_threads);
int64_t row_capacity(const RowGpuShape& shape);
// The best first; the order does not depend on how many rows there are where bits would, so that none has other bits beside others.
std::vector<RowGpuShape> shapes_of(const RowOp& op, const RowProblem& p, const ArchSpec& arch);
// Of heads that turn.
std::vector<RowGpuShape> whole_head_shapes(const RowProblem& p);

// Blocks that a problem's rows fill, and those of them that find parts of the largest magnitude.
int64_t row_blocks(const RowProblem& p, const RowGpuConfig& c);
int64_t found_parts(const RowProblem& p, const RowGpuConfig& c);
// Chunks of a row that have a block each; 0: rows are not shared so.
int64_t row_chunks(const RowProblem& p, const RowGpuConfig& c, const DeviceSpec& device);
// NVIDIA: blocks that an SM's registers are to have room for.
int resident_blocks(const RowOp& op, const RowGpuConfig& c, ArchVendor vendor);
int whole_head_blocks(const RowGpuConfig& c);

// What a config says of a problem (RowGpuConfig).
DType common_column_type(const RowProblem& p);
bool has_whole_rows(const RowProblem& p);
bool is_plain(const RowProblem& p);
bool takes_whole_heads(const RowProblem& p);
bool is_plain_turn(const RowProblem& p, const RowGpuShape& shape);
bool is_full(const RowOp& op, const RowProblem& p, const RowGpuShape& shape);
bool may_rehearse(const RowOp& op, const RowGpuConfig& c);
// What a call with programmatic edges makes of them.
RowEdge row_edge(const RowOp& op, const RowProblem& p, const RowGpuConfig& c);
// How one cluster takes all rows of a gradient; no blocks: it does not.
RowTogether rows_together(const RowProblem& p, const RowGpuConfig& c, const DeviceSpec& device);
// Blocks of one cluster that find a tensor's scale and write its codes; 0: three launches do.
int scale_together(const RowProblem& p, const RowGpuConfig& c, const DeviceSpec& device);
int row_slots(const RowOp& op, const RowProblem& p, RowGpuConfig config, const ArchSpec& arch);
bool takes_chunks(const RowOp& op);
bool takes_parts(const RowOp& op, const RowProblem& p, const ArchSpec& arch);
bool takes_clusters(const RowOp& op, const RowProblem& p, const ArchSpec& arch);

}  // namespace tilewright
