// SPDX-License-Identifier: MIT
// What bounds an operator on few long rows on Hopper: a kernel that copies a row of bf16 with the eight blocks of a cluster, each
// of 512 threads that take four pieces of 16 bytes, and computes nothing. Launched one after another on ordinary edges, over copies
// of the rows that no cache holds,
//   nothing   one block after another, no clusters;
//   clusters  the same, in clusters of eight;
//   exchange  every thread waits, between reading and writing, for 16 bytes from each block of its cluster, which these send when all
//             of their threads have read: what a row's largest value or sum takes, without finding it.
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
constexpr uint32_t kThreads = 512, kCluster = 8;
constexpr int64_t kRowBytes = int64_t{kCluster} * kThreads * 4 * 16;
constexpr int64_t kRotatedBytes = 512 << 20;  // beyond the second level of cache, several times
constexpr std::array kRows = {1, 4, 8, 16};

struct Mode {
  const char* name;
  bool clusters, exchanges;
};
constexpr std::array<Mode, 3> kModes = {
    {{"nothing", false, false}, {"clusters", true, false}, {"exchange", true, true}}};

Status print_table(Device& device, const LoadedKernel& kernel) {
  Result<void*> memory = device.allocate(kRotatedBytes);
  if (!memory) return memory.status();
  if (Status s = device.fill(*memory, 0, kRotatedBytes); !s) return s;
  fmt::print("{}, rows of {} bf16, us\n{:>6}", device.spec().name, kRowBytes / 2, "rows");
  for (const Mode& mode : kModes) fmt::print("  {:>8}", mode.name);
  fmt::print("\n");
  for (const int rows : kRows) {
    fmt::print("{:>6}", rows);
    const int64_t bytes = rows * kRowBytes;
    const int copies = static_cast<int>(kRotatedBytes / (2 * bytes));
    for (const Mode& mode : kModes) {
      LaunchShape shape;
      shape.grid = {static_cast<uint32_t>(rows) * kCluster, 1, 1};
      if (mode.clusters) shape.cluster = {kCluster, 1, 1};
      shape.threads = kThreads;
      const TurnedCall call = [&](int turn, const LaunchContext& context) {
        char* const x = static_cast<char*>(*memory) + turn % copies * 2 * bytes;
        const RowCopyArgs args{x, x + bytes, mode.exchanges ? 1 : 0};
        return device.launch(kernel, std::as_bytes(std::span(&args, 1)), shape, context);
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

Status measure() {
  Result<std::unique_ptr<Context>> context = Context::create();
  if (!context) return context.status();
  Result<OpenDevice*> opened = (*context)->impl().open_device("cuda_row_limits", {DeviceKind::kCuda, 0});
  if (!opened) return opened.status();
  Device& device = *(*opened)->device;
  if (device.spec().arch->target != "sm_90a") {
    return Status(StatusCode::kUnsupported, fmt::format("{} is no Hopper", device.spec().name));
  }
  Result<Artifact> artifact = compile_probe(kSource, "tw_rows", "sm_90a");
  if (!artifact) return artifact.status();
  auto kernel = device.load(*artifact);
  if (!kernel) return kernel.status();
  return print_table(device, **kernel);
}

}  // namespace
}  // namespace tilewright

int main() {
  const tilewright::Status status = tilewright::measure();
  if (!status.ok()) fmt::print(stderr, "cuda_row_limits: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
