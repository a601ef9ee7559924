// SPDX-License-Identifier: MIT
// How fast Hopper multiplies weights that registers hold, and what widening them costs beside that: 64 rows of weights by few tokens by 16 of
// K, alone, and with masks and multiply-adds that make each fragment, as gemm_sm90_dequant does, for one to four warpgroups
// an SM. Nothing is read from memory.
#include <fmt/format.h>

#include <array>

#include "dispatch/context_impl.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

struct ProductArgs {
  float* out;
  long long* cycles;
  int turns;
  unsigned mask;
};
// Of a product and a thread: instructions that make its four registers.
struct Widening {
  int masks, adds;
};
constexpr Widening kWidenings[] = {{0, 0}, {4, 0}, {4, 4}, {8, 4}, {8, 8}, {16, 0}, {0, 16}};
constexpr int kTokens[] = {8, 16, 32, 64, 128};
constexpr int kMostWarpgroups = 4, kTurns = 500, kProductsOfTurn = 8;

// {0}: constants of a config.
constexpr const char* kSource = R"(
#include "tile/sm90/memory.cuh"
#include "tile/sm90/registers/wgmma_registers.cuh"
using namespace tilewright;
struct ProductArgs {{
  float* out;
  long long* cycles;
  int turns;
  unsigned mask;
}};
{0}
constexpr int kTogether = 2;  // products that are issued one after another

// Volatile, and each of what others made, so that none is left out.
__device__ __forceinline__ unsigned masked(unsigned a, unsigned b, unsigned c) {{
  unsigned d;
  asm volatile("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}}
__device__ __forceinline__ unsigned multiplied(unsigned a, unsigned b, unsigned c) {{
  unsigned d;
  asm volatile("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}}
template <int kCount, class Make>
__device__ __forceinline__ void make(unsigned (&fragment)[4], unsigned (&words)[4], Make&& one) {{
#pragma unroll
  for (int i = 0; i < kCount; ++i) {{
    words[i % 4] = one(words[i % 4], words[(i + 1) % 4]);
    if (i + 4 >= kCount) fragment[i % 4] = words[i % 4];
  }}
}}

extern "C" __global__ void __launch_bounds__(512) tw_products(const __grid_constant__ ProductArgs a) {{
  using Wgmma = sm90::WgmmaOfRegisters<DType::kBf16, kTokens>;
  extern __shared__ __align__(1024) unsigned char tokens[];
  for (int i = threadIdx.x; i < kTokens * 32; i += blockDim.x) reinterpret_cast<unsigned*>(tokens)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const unsigned long long b = sm90::descriptor<Major::kK>(sm90::shared_address(tokens), 0);
  float sums[kTokens / 2] = {{}};
  unsigned fragments[2][kTogether][4], words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = (threadIdx.x + i) * a.mask;
#pragma unroll
  for (int i = 0; i < 8 * kTogether; ++i) fragments[i / 4 / kTogether][i / 4 % kTogether][i % 4] = a.mask * i;

  const long long begin = clock64();
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn) {{
#pragma unroll
    for (int pair = 0; pair < kProducts / kTogether; ++pair) {{
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {{
        unsigned (&fragment)[4] = fragments[pair % 2][i];
        make<kMasks>(fragment, words, [&](unsigned x, unsigned y) {{ return masked(x, a.mask, y); }});
        make<kAdds>(fragment, words, [&](unsigned x, unsigned y) {{ return multiplied(x, a.mask, y); }});
        sm90::pin(fragment);
      }}
      sm90::pin(sums);
      sm90::begin_products();
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {{
        Wgmma::multiply(sums, fragments[pair % 2][i], b + (pair * kTogether + i) % 4 * sm90::kDescriptorStep<Major::kK>,
                        true);
      }}
      sm90::commit_products();
      sm90::pin(sums);
      sm90::wait_products<1>();
    }}
  }}
  sm90::wait_products<0>();
  const long long end = clock64();
  sm90::pin(sums);
  if (threadIdx.x == 0 && blockIdx.x == 0) *a.cycles = end - begin;
  float all = static_cast<float>(words[0] ^ words[1] ^ words[2] ^ words[3]);
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) all += sums[i];
  a.out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}}
)";

Result<std::shared_ptr<const LoadedKernel>> make(Device& device, int tokens, const Widening& widening) {
  const std::string constants = fmt::format("constexpr int kTokens = {}, kMasks = {}, kAdds = {}, kProducts = {};",
                                            tokens, widening.masks, widening.adds, kProductsOfTurn);
  const Result<Artifact> artifact =
      compile_probe(fmt::format(fmt::runtime(kSource), constants), "tw_products", "sm_90a");
  if (!artifact) return artifact.status();
  return device.load(*artifact);
}

// Of an SM, for a product of one of its warpgroups. Masks of zero make zeros of all numbers: no power limit is met.
Result<double> cycles_of_product(Device& device, const LoadedKernel& kernel, int tokens, int warpgroups,
                                 const ProductArgs& args) {
  LaunchShape shape;
  shape.grid = {static_cast<uint32_t>(device.spec().units), 1, 1};
  shape.threads = static_cast<uint32_t>(warpgroups * 128);
  shape.shared_bytes = static_cast<uint32_t>(tokens * 128);
  // The second launch finds its instructions in the caches.
  for (int turn = 0; turn < 2; ++turn) {
    if (Status s = device.launch(kernel, std::as_bytes(std::span(&args, 1)), shape, {}); !s) return s;
  }
  if (Status s = device.synchronize(); !s) return s;
  long long cycles = 0;
  if (Status s = device.copy_to_host(&cycles, args.cycles, sizeof(cycles)); !s) return s;
  return static_cast<double>(cycles) / kTurns / kProductsOfTurn / warpgroups;
}

Status measure() {
  Result<std::unique_ptr<Context>> context = Context::create();
  if (!context) return context.status();
  Result<OpenDevice*> opened = (*context)->impl().open_device("cuda_register_products", {DeviceKind::kCuda, 0});
  if (!opened) return opened.status();
  Device& device = *(*opened)->device;
  if (device.spec().arch->target != "sm_90a") {
    return Status(StatusCode::kUnsupported, fmt::format("{} is no Hopper", device.spec().name));
  }
  Result<void*> out = device.allocate(device.spec().units * kMostWarpgroups * 128 * 4 + 16);
  if (!out) return out.status();
  auto* const cycles = static_cast<long long*>(*out);
  const ProductArgs args{reinterpret_cast<float*>(cycles + 2), cycles, kTurns, 0};

  fmt::print("cycles of an SM of {} for 64 rows in registers by tokens by 16 of K, bf16\n", device.spec().name);
  fmt::print("{:>6} {:>6} {:>13}  {:>12} {:>12} {:>12} {:>12}\n", "tokens", "masks", "multiply-adds", "1 warpgroup",
             "2 warpgroups", "3 warpgroups", "4 warpgroups");
  for (const int tokens : kTokens) {
    for (const Widening& widening : kWidenings) {
      const auto kernel = make(device, tokens, widening);
      if (!kernel) return kernel.status();
      fmt::print("{:>6} {:>6} {:>13} ", tokens, widening.masks, widening.adds);
      for (int warpgroups = 1; warpgroups <= kMostWarpgroups; ++warpgroups) {
        const Result<double> found = cycles_of_product(device, **kernel, tokens, warpgroups, args);
        if (!found) return found.status();
        fmt::print(" {:>12.1f}", *found);
      }
      fmt::print("\n");
    }
  }
  return {};
}

}  // namespace
}  // namespace tilewright

int main() {
  const tilewright::Status status = tilewright::measure();
  if (!status.ok()) fmt::print(stderr, "cuda_register_products: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
