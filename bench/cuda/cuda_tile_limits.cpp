// SPDX-License-Identifier: MIT
// How fast tiles of A and B come into the shared memory of all SMs of Hopper, as gemm_sm90 asks for them but without products
// and without D: 512 rows, 128 blocks of one tile each. By tile, by cluster, and with a cache policy on the copies and without.
// Bytes are those that the copies ask for; a multicast asks once for all blocks of a cluster.
#include <fmt/format.h>

#include <algorithm>

#include "cuda_median.hpp"
#include "dispatch/context_impl.hpp"
#include "jit/compiler.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright {
namespace {

struct TileArgs {
  TensorMap a, b;  // [M, K], [N, K] bf16
  int steps;
  unsigned* out;
};
struct Tiles {
  int m, n, stages, cluster_m, cluster_n;
};
constexpr Tiles kTiles[] = {{128, 256, 4, 2, 1}, {128, 256, 4, 1, 2}, {128, 256, 4, 1, 1}, {128, 176, 5, 2, 1},
                            {128, 128, 6, 2, 1}, {128, 128, 6, 1, 2}, {128, 128, 6, 1, 1}, {128, 64, 8, 2, 1}};
constexpr int64_t kRows = 512, kBlocks = 128, kDepth = 4096;
constexpr int64_t kRotatedBytes = 512 << 20;  // beyond the second level of cache, several times

// {0}: constants of a config.
constexpr const char* kSource = R"(
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/ring.cuh"
#include "tile/sm90/tma.cuh"
using namespace tilewright;
struct TileArgs {{
  TensorMap a, b;
  int steps;
  unsigned* out;
}};
{0}
constexpr int kBytesA = kTileM * 128, kBytesB = kTileN * 128, kStageBytes = kBytesA + kBytesB;
constexpr int kCluster = kClusterM * kClusterN;

__device__ void bring(const TensorMap& map, unsigned char* to, sm90::Barrier& full, unsigned short blocks, int k, int row,
                      unsigned long long policy) {{
  if constexpr (!kPolicy) {{
    if (blocks == 0) return sm90::load_box(map, to, full, k, row, 0);
    return sm90::load_box_multicast(map, to, full, blocks, k, row, 0);
  }}
  if (blocks == 0) return sm90::load_box_once(map, to, full, policy, k, row, 0);
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {{%5, %6, %7}}], [%2], %3, %4;" ::"r"(sm90::shared_address(to)),
      "l"(&map), "r"(sm90::shared_address(&full)), "h"(blocks), "l"(policy), "r"(k), "r"(row), "r"(0)
      : "memory");
}}

extern "C" __global__ void __launch_bounds__(64, 1) tw_tiles(const __grid_constant__ TileArgs a) {{
  extern __shared__ __align__(1024) unsigned char memory[];
  auto* const full = reinterpret_cast<sm90::Barrier*>(memory + kStages * kStageBytes);
  auto* const empty = full + kStages;
  const int rank = kCluster == 1 ? 0 : static_cast<int>(sm90::block_in_cluster());
  const int block_m = rank / kClusterN, block_n = rank % kClusterN;
  if (threadIdx.x == 0) {{
    for (int i = 0; i < kStages; ++i) {{
      sm90::init(full[i], 1);
      sm90::init(empty[i], kClusterM + kClusterN - 1);
    }}
    sm90::fence_barrier_init();
  }}
  if constexpr (kCluster > 1) {{
    sm90::meet_cluster();
  }} else {{
    __syncthreads();
  }}
  constexpr int kTilesM = 512 / kTileM / kClusterM, kSliceA = kTileM / kClusterN, kSliceB = kTileN / kClusterM;
  const int cluster = blockIdx.x / kCluster, m = cluster % kTilesM, n = cluster / kTilesM;
  sm90::Ring<kStages> ring;
  if (threadIdx.x == 0) {{
    const unsigned long long policy = sm90::evict_first();
    const int row_a = (m * kClusterM + block_m) * kTileM + block_n * kSliceA;
    const int row_b = (n * kClusterN + block_n) * kTileN + block_m * kSliceB;
    for (int step = 0; step < a.steps; ++step, ring.advance()) {{
      sm90::wait(empty[ring.stage], ring.phase ^ 1);
      sm90::arrive_expect_bytes(full[ring.stage], kStageBytes);
      unsigned char* const stage = memory + ring.stage * kStageBytes;
      bring(a.a, stage + block_n * kSliceA * 128, full[ring.stage], kClusterN > 1 ? 3 : 0, step * 64, row_a, policy);
      bring(a.b, stage + kBytesA + block_m * kSliceB * 128, full[ring.stage], kClusterM > 1 ? 3 : 0, step * 64, row_b,
            policy);
    }}
  }} else if (threadIdx.x == 32) {{
    for (int step = 0; step < a.steps; ++step, ring.advance()) {{
      sm90::wait(full[ring.stage], ring.phase);
      if constexpr (kCluster == 1) {{
        sm90::arrive(empty[ring.stage]);
      }} else {{
        for (int block = 0; block < kCluster; ++block) sm90::arrive_remote(empty[ring.stage], block);
      }}
    }}
    a.out[blockIdx.x] = memory[0];
  }}
  if constexpr (kCluster > 1) sm90::meet_cluster();
}}
)";

Result<std::shared_ptr<const LoadedKernel>> make(Device& device, const Tiles& t, bool policy) {
  const std::string constants = fmt::format(
      "constexpr int kTileM = {}, kTileN = {}, kStages = {}, kClusterM = {}, kClusterN = {};\n"
      "constexpr bool kPolicy = {};",
      t.m, t.n, t.stages, t.cluster_m, t.cluster_n, policy);
  const Result<Artifact> artifact = compile_probe(fmt::format(fmt::runtime(kSource), constants), "tw_tiles", "sm_90a");
  if (!artifact) return artifact.status();
  return device.load(*artifact);
}

TensorMapSpec matrix(int64_t rows, int box_rows) {
  TensorMapSpec spec;
  spec.dtype = DType::kBf16;
  spec.rank = 3;
  spec.dims = {static_cast<uint64_t>(kDepth), static_cast<uint64_t>(rows), 1};
  spec.strides = {2, static_cast<uint64_t>(kDepth * 2), 16};
  spec.box = {64, static_cast<uint32_t>(box_rows), 1};
  spec.swizzle = TensorMapSpec::Swizzle::k128;
  return spec;
}

Result<double> microseconds(Device& device, const LoadedKernel& kernel, const Tiles& t, char* data, unsigned* out) {
  const int64_t bytes_a = kRows * kDepth * 2, n = kBlocks / (kRows / t.m) * t.n, bytes = bytes_a + n * kDepth * 2;
  const int copies = static_cast<int>(std::max<int64_t>(2, kRotatedBytes / bytes));
  TileArgs args{};
  auto* const a = reinterpret_cast<std::byte*>(&args.a);
  auto* const b = reinterpret_cast<std::byte*>(&args.b);
  if (Status s = device.encode_tensor_map(matrix(kRows, t.m / t.cluster_n), a); !s) return s;
  if (Status s = device.encode_tensor_map(matrix(n, t.n / t.cluster_m), b); !s) return s;
  args.steps = static_cast<int>(kDepth / 64);
  args.out = out;
  LaunchShape shape;
  shape.cluster = {static_cast<uint32_t>(t.cluster_m * t.cluster_n), 1, 1};
  shape.grid = {static_cast<uint32_t>(kBlocks), 1, 1};
  shape.threads = 64;
  shape.shared_bytes = static_cast<uint32_t>(t.stages * ((t.m + t.n) * 128 + 16));
  const TurnedCall call = [&](int turn, const LaunchContext& context) -> Status {
    char* const at = data + turn % copies * bytes;
    if (Status s = device.set_tensor_map_address(a, at); !s) return s;
    if (Status s = device.set_tensor_map_address(b, at + bytes_a); !s) return s;
    return device.launch(kernel, std::as_bytes(std::span(&args, 1)), shape, context);
  };
  return median_burst(device, call, 4 * copies);
}

Status measure() {
  Result<std::unique_ptr<Context>> context = Context::create();
  if (!context) return context.status();
  Result<OpenDevice*> opened = (*context)->impl().open_device("cuda_tile_limits", {DeviceKind::kCuda, 0});
  if (!opened) return opened.status();
  Device& device = *(*opened)->device;
  if (device.spec().arch->target != "sm_90a" || device.spec().units < kBlocks) {
    return Status(StatusCode::kUnsupported, fmt::format("{} is no Hopper of {} SMs", device.spec().name, kBlocks));
  }
  constexpr int64_t kBytes = kRotatedBytes + (64 << 20);
  Result<void*> data = device.allocate(kBytes);
  if (!data) return data.status();
  if (Status s = device.fill(*data, 0x3C, kBytes); !s) return s;
  Result<void*> out = device.allocate(4096);
  if (!out) return out.status();

  fmt::print("tiles of bf16 on {}: M = {}, K = {}, {} blocks\n", device.spec().name, kRows, kDepth, kBlocks);
  fmt::print("{:>9} {:>8} {:>6}  {:>18}  {:>18}\n", "tile", "cluster", "stages", "no policy", "evict_first");
  for (const Tiles& t : kTiles) {
    const int64_t bytes = kBlocks * (t.m / t.cluster_n + t.n / t.cluster_m) * kDepth * 2;
    fmt::print("{:>9} {:>8} {:>6}", fmt::format("{}x{}", t.m, t.n), fmt::format("{}x{}", t.cluster_m, t.cluster_n),
               t.stages);
    for (const bool policy : {false, true}) {
      const auto kernel = make(device, t, policy);
      if (!kernel) return kernel.status();
      const Result<double> us =
          microseconds(device, **kernel, t, static_cast<char*>(*data), static_cast<unsigned*>(*out));
      if (!us) return us.status();
      fmt::print("  {:>6.2f} us {:>4.1f} TB/s", *us, static_cast<double>(bytes) / *us * 1e-6);
    }
    fmt::print("\n");
  }
  return {};
}

}  // namespace
}  // namespace tilewright

int main() {
  const tilewright::Status status = tilewright::measure();
  if (!status.ok()) fmt::print(stderr, "cuda_tile_limits: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
