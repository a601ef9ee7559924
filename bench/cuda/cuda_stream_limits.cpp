// SPDX-License-Identifier: MIT
// What bounds a product with few rows of A on Hopper: a kernel that only copies a matrix of weights from memory into shared
// memory, without products and without D, against the bytes over the read bandwidth. Launched one after another
//   plain      on ordinary edges;
//   written    on programmatic edges, waiting for the kernel in front before it writes: no kernel reads what the one
//              before wrote;
//   dependent  on programmatic edges, waiting before the first copy is used, as a product must that multiplies what the
//              kernel in front wrote.
// `cuda_stream_limits [read GB/s]`; 4690 unless told.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cuda_median.hpp"
#include "dispatch/context_impl.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

struct StreamArgs {
  const void* weights;
  long long bytes;
  unsigned* out;
  int waits_first;
};

// One thread asks for 16 KiB at a time, twelve in flight; another gives them back.
constexpr const char* kSource = R"(
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/tma.cuh"
#include "tile/sm90/ring.cuh"
using namespace tilewright;
struct StreamArgs {
  const char* weights;
  long long bytes;
  unsigned* out;
  int waits_first;
};
constexpr int kStages = 12, kBytes = 16384;
extern "C" __global__ void __launch_bounds__(64, 1) tw_stream(const __grid_constant__ StreamArgs a) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto* const full = reinterpret_cast<sm90::Barrier*>(memory + kStages * kBytes);
  auto* const empty = full + kStages;
  const int pieces = static_cast<int>(a.bytes / kBytes), blocks = gridDim.x, share = (pieces + blocks - 1) / blocks;
  const int first = blockIdx.x * share, last = min(first + share, pieces);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      sm90::init(full[i], 1);
      sm90::init(empty[i], 1);
    }
    sm90::fence_barrier_init();
  }
  __syncthreads();
  sm90::allow_next_kernel();
  sm90::Ring<kStages> ring;
  if (threadIdx.x == 0) {
    const unsigned long long policy = sm90::evict_first();
    for (int i = first; i < last; ++i) {
      sm90::wait(empty[ring.stage], ring.phase ^ 1);
      sm90::arrive_expect_bytes(full[ring.stage], kBytes);
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
              sm90::shared_address(memory + ring.stage * kBytes)),
          "l"(a.weights + static_cast<long long>(i) * kBytes), "r"(kBytes), "r"(sm90::shared_address(&full[ring.stage])),
          "l"(policy)
          : "memory");
      ring.advance();
    }
  } else if (threadIdx.x == 32) {
    if (a.waits_first) sm90::wait_for_previous_kernel();
    for (int i = first; i < last; ++i) {
      sm90::wait(full[ring.stage], ring.phase);
      sm90::arrive(empty[ring.stage]);
      ring.advance();
    }
    if (!a.waits_first) sm90::wait_for_previous_kernel();
    a.out[blockIdx.x] = memory[0];
  }
}
)";
constexpr uint32_t kSharedBytes = 12 * 16384 + 24 * 8;

struct Weight {
  int64_t n, k;
};
// Those of the GPU suite.
constexpr Weight kWeights[] = {{4096, 4096},  {28672, 4096}, {4096, 14336}, {57344, 8192}, {8192, 28672},
                               {24576, 1536}, {7168, 2048},  {2112, 7168},  {7168, 16384}};
constexpr Weight kQuantisedWeights[] = {{24576, 1536}, {2112, 7168}, {32768, 512}, {4096, 7168}, {7168, 2048}};
constexpr int64_t kRotatedBytes = 512 << 20;  // beyond the second level of cache, several times

struct Bench {
  Device& device;
  const LoadedKernel& kernel;
  unsigned* out;
  double gbps;
};

Result<double> microseconds(const Bench& bench, char* weights, int64_t bytes, bool edges, bool waits_first) {
  const int copies = static_cast<int>(std::max<int64_t>(2, kRotatedBytes / bytes));
  LaunchShape shape;
  shape.grid = {static_cast<uint32_t>(bench.device.spec().units), 1, 1};
  shape.threads = 64;
  shape.shared_bytes = kSharedBytes;
  shape.programmatic_edge = true;
  const TurnedCall call = [&](int turn, const LaunchContext& context) {
    const StreamArgs args{weights + turn % copies * bytes, bytes, bench.out, waits_first ? 1 : 0};
    LaunchContext own = context;
    own.programmatic_edge = edges;
    return bench.device.launch(bench.kernel, std::as_bytes(std::span(&args, 1)), shape, own);
  };
  return median_burst(bench.device, call, 4 * copies);
}

Status print_table(const Bench& bench, const char* title, std::span<const Weight> weights, int element_bytes) {
  fmt::print("\n{}\n{:>6} {:>6} {:>9}  {:>16}  {:>16}  {:>16}\n", title, "N", "K", "floor us", "plain", "written",
             "dependent");
  std::array<double, 3> logs{};
  for (const Weight& weight : weights) {
    const int64_t bytes = weight.n * weight.k * element_bytes;
    const int64_t all = bytes * std::max<int64_t>(2, kRotatedBytes / bytes);
    Result<void*> data = bench.device.allocate(all);
    if (!data) return data.status();
    if (Status s = bench.device.fill(*data, 0x3C, all); !s) return s;
    const double floor = static_cast<double>(bytes) / bench.gbps * 1e-3;
    fmt::print("{:>6} {:>6} {:>9.2f}", weight.n, weight.k, floor);
    for (size_t i = 0; i < logs.size(); ++i) {
      const Result<double> us = microseconds(bench, static_cast<char*>(*data), bytes, i > 0, i == 2);
      if (!us) return us.status();
      logs[i] += std::log(floor / *us);
      fmt::print("  {:>8.2f} us {:>4.3f}", *us, floor / *us);
    }
    fmt::print("\n");
    bench.device.deallocate(*data, all);
  }
  fmt::print("geometric mean         ");
  for (const double sum : logs) fmt::print("  {:>16.3f}", std::exp(sum / static_cast<double>(weights.size())));
  fmt::print("\n");
  return {};
}

Status measure(double gbps) {
  Result<std::unique_ptr<Context>> context = Context::create();
  if (!context) return context.status();
  Result<OpenDevice*> opened = (*context)->impl().open_device("cuda_stream_limits", {DeviceKind::kCuda, 0});
  if (!opened) return opened.status();
  Device& device = *(*opened)->device;
  if (device.spec().arch->target != "sm_90a") {
    return Status(StatusCode::kUnsupported, fmt::format("{} is no Hopper", device.spec().name));
  }
  Result<Artifact> artifact = compile_probe(kSource, "tw_stream", "sm_90a");
  if (!artifact) return artifact.status();
  auto kernel = device.load(*artifact);
  if (!kernel) return kernel.status();
  Result<void*> out = device.allocate(4096);
  if (!out) return out.status();

  fmt::print("{}, share of bytes over {:.0f} GB/s\n", device.spec().name, gbps);
  const Bench bench{device, **kernel, static_cast<unsigned*>(*out), gbps};
  if (Status status = print_table(bench, "weights of 16 bits", kWeights, 2); !status) return status;
  return print_table(bench, "weights of 8 bits", kQuantisedWeights, 1);
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) {
  const double gbps = argc > 1 ? std::strtod(argv[1], nullptr) : 4690;
  if (gbps <= 0) {
    fmt::print(stderr, "usage: cuda_stream_limits [read GB/s]\n");
    return 2;
  }
  const tilewright::Status status = tilewright::measure(gbps);
  if (!status.ok()) fmt::print(stderr, "cuda_stream_limits: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
