// SPDX-License-Identifier: MIT
// What bounds an operator on few rows on Hopper: kernels that copy rows of bf16 and compute nothing. Launched one after another on
// ordinary edges, over copies of the rows that no cache holds.
// Of long rows, a row by the eight blocks of a cluster, each of 512 threads that take four pieces of 16 bytes:
//   nothing   one block after another, no clusters;
//   clusters  the same, in clusters of eight;
//   exchange  every thread waits, between reading and writing, for 16 bytes from each block of its cluster, which these send when all
//             of their threads have read: what a row's largest value or sum takes, without finding it.
// Of rows of 4096, a row by one block of 512 threads that take a piece:
//   empty     nothing is copied;
//   nothing   a copy;
//   meeting   every thread waits, between reading and writing, until all of its block have read.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cuda_median.hpp"
#include "dispatch/context_impl.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

struct RowCopyArgs {
  const void* x;
  void* out;
  int exchanges;
};

constexpr const char* kSource = R"(
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/remote_store.cuh"
using namespace tilewright;
struct RowCopyArgs {
  const uint4* x;
  uint4* out;
  int exchanges;
};
constexpr int kThreads = 512, kPieces = 4, kBlocks = 8;
extern "C" __global__ void __launch_bounds__(kThreads) tw_rows(const __grid_constant__ RowCopyArgs a) {
  __shared__ alignas(16) uint4 found[kBlocks];
  __shared__ sm90::Barrier landed;
  if (a.exchanges) {
    if (threadIdx.x == 0) {
      sm90::init(landed, 1);
      sm90::fence_barrier_init();
    }
    sm90::arrive_cluster();
  }
  const long long first = static_cast<long long>(blockIdx.x) * kPieces * kThreads + threadIdx.x;
  uint4 piece[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) piece[i] = a.x[first + i * kThreads];
  if (a.exchanges) {
    unsigned all = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) all |= piece[i].x;
    const unsigned any = __syncthreads_or(all);
    sm90::wait_cluster();
    if (threadIdx.x == 0) {
      sm90::arrive_expect_bytes(landed, sizeof(found));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        sm90::store_remote(&found[sm90::block_in_cluster()], landed, block, uint4{any ? 1u : 0u, 0, 0, 0});
      }
    }
    sm90::wait(landed, 0);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) piece[0].y += found[block].x;
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) a.out[first + i * kThreads] = piece[i];
}
)";
constexpr const char* kShortSource = R"(
struct ShortCopyArgs {
  const uint4* x;
  uint4* out;
  int copies, meets;
};
extern "C" __global__ void __launch_bounds__(512) tw_short_rows(const __grid_constant__ ShortCopyArgs a) {
  if (!a.copies) return;
  const unsigned at = blockIdx.x * 512 + threadIdx.x;
  uint4 piece = a.x[at];
  if (a.meets) piece.y += __syncthreads_or(piece.x) ? 1 : 0;
  a.out[at] = piece;
}
)";
constexpr uint32_t kThreads = 512, kCluster = 8;
struct ShortCopyArgs {
  const void* x;
  void* out;
  int copies, meets;
};
constexpr int64_t kShortRowBytes = int64_t{kThreads} * 16;
constexpr int64_t kRowBytes = int64_t{kCluster} * kThreads * 4 * 16;
constexpr int64_t kRotatedBytes = 512 << 20;  // beyond the second level of cache, several times
constexpr std::array kRows = {1, 4, 8, 16};

// How rows are copied: its name, clusters, the arguments behind x and out.
struct Mode {
  const char* name;
  bool clusters;
  int first, second;
};
constexpr std::array<Mode, 3> kModes = {{{"nothing", false, 0, 0}, {"clusters", true, 0, 0}, {"exchange", true, 1, 0}}};
constexpr std::array<Mode, 3> kShortModes = {
    {{"empty", false, 0, 0}, {"nothing", false, 1, 0}, {"meeting", false, 1, 1}}};

// launch(x, out, mode, rows, context) copies rows of `row_bytes` each.
template <class Launch>
Status print_table(Device& device, int64_t row_bytes, const std::array<Mode, 3>& modes, Launch&& launch) {
  Result<void*> memory = device.allocate(kRotatedBytes);
  if (!memory) return memory.status();
  if (Status s = device.fill(*memory, 0, kRotatedBytes); !s) return s;
  fmt::print("{}, rows of {} bf16, us\n{:>6}", device.spec().name, row_bytes / 2, "rows");
  for (const Mode& mode : modes) fmt::print("  {:>8}", mode.name);
  fmt::print("\n");
  for (const int rows : kRows) {
    fmt::print("{:>6}", rows);
    const int64_t bytes = rows * row_bytes;
    const int copies = static_cast<int>(kRotatedBytes / (2 * bytes));
    for (const Mode& mode : modes) {
      const TurnedCall call = [&](int turn, const LaunchContext& context) {
        char* const x = static_cast<char*>(*memory) + turn % copies * 2 * bytes;
        return launch(x, x + bytes, mode, rows, context);
      };
      const Result<double> us = median_burst(device, call, std::clamp(4 * copies, 200, 1000));
      if (!us) return us.status();
      fmt::print("  {:>8.2f}", *us);
    }
    fmt::print("\n");
  }
  device.deallocate(*memory, kRotatedBytes);
  return {};
}

Result<std::shared_ptr<const LoadedKernel>> compiled(Device& device, const char* source, const char* entry) {
  Result<Artifact> artifact = compile_probe(source, entry, "sm_90a");
  if (!artifact) return artifact.status();
  return device.load(*artifact);
}
Status print_long_rows(Device& device) {
  const auto kernel = compiled(device, kSource, "tw_rows");
  if (!kernel) return kernel.status();
  return print_table(device, kRowBytes, kModes,
                     [&](void* x, void* out, const Mode& mode, int rows, const LaunchContext& context) {
                       LaunchShape shape;
                       shape.grid = {static_cast<uint32_t>(rows) * kCluster, 1, 1};
                       if (mode.clusters) shape.cluster = {kCluster, 1, 1};
                       shape.threads = kThreads;
                       const RowCopyArgs args{x, out, mode.first};
                       return device.launch(**kernel, std::as_bytes(std::span(&args, 1)), shape, context);
                     });
}
Status print_short_rows(Device& device) {
  const auto kernel = compiled(device, kShortSource, "tw_short_rows");
  if (!kernel) return kernel.status();
  return print_table(device, kShortRowBytes, kShortModes,
                     [&](void* x, void* out, const Mode& mode, int rows, const LaunchContext& context) {
                       LaunchShape shape;
                       shape.grid = {static_cast<uint32_t>(rows), 1, 1};
                       shape.threads = kThreads;
                       const ShortCopyArgs args{x, out, mode.first, mode.second};
                       return device.launch(**kernel, std::as_bytes(std::span(&args, 1)), shape, context);
                     });
}

Status measure() {
  Result<std::unique_ptr<Context>> context = Context::create();
  if (!context) return context.status();
  Result<OpenDevice*> opened = (*context)->impl().open_device("cuda_row_limits", {DeviceKind::kCuda, 0});
  if (!opened) return opened.status();
  Device& device = *(*opened)->device;
  if (device.spec().arch->target != "sm_90a") {
    return Status(StatusCode::kUnsupported, fmt::format("{} is no Hopper", device.spec().name));
  }
  if (Status s = print_long_rows(device); !s) return s;
  return print_short_rows(device);
}

}  // namespace
}  // namespace tilewright

int main() {
  const tilewright::Status status = tilewright::measure();
  if (!status.ok()) fmt::print(stderr, "cuda_row_limits: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
