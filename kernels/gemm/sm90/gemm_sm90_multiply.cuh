// SPDX-License-Identifier: MIT
// gemm_sm90: the sums of a tile. A warpgroup walks the stages; a stage goes back to the blocks that fill it.
#pragma once

#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "tile/sm90/remote_barrier.cuh"
#include "tile/sm90/ring.cuh"
#include "tile/sm90/uniform.cuh"

namespace tilewright {

// The stages as a warpgroup that multiplies sees them: which is next, and its descriptors.
template <GemmSm90Config kConfig>
class GemmSm90Stages {
 public:
  using Layout = GemmSm90Layout<kConfig>;

  __device__ __forceinline__ GemmSm90Stages(const Layout& shared, int warpgroup, int block_m, int block_n)
      : shared_(shared),
        a_(sm90::uniform(
            static_cast<unsigned>(Layout::A::descriptor_at(shared.a(0), warpgroup * Layout::kRows64 * 64)))),
        b_(sm90::uniform(static_cast<unsigned>(Layout::B::descriptor_at(shared.b(0), 0)))),
        empty_(shared.empty(0), released_block(block_m, block_n)) {}

  __device__ __forceinline__ int stage() const { return ring_.stage; }
  __device__ __forceinline__ void advance() { ring_.advance(); }
  // Between tiles, of which one may be in parts, the compiler loses sight of what is the same in all lanes.
  __device__ __forceinline__ void settle() {
    a_ = sm90::uniform(a_), b_ = sm90::uniform(b_);
    const unsigned word = sm90::uniform(ring_.stage * 2u + ring_.phase);
    ring_.stage = static_cast<int>(word >> 1), ring_.phase = word & 1;
  }
  __device__ __forceinline__ void wait() const { sm90::wait(shared_.full(ring_.stage), ring_.phase); }

  // Of this stage: the warpgroup's r-th 64 rows of A; B's columns from `n` on.
  __device__ __forceinline__ unsigned long long a(int r) const {
    return descriptor(a_, offset_of<typename Layout::A>(kConfig.a_major, r * 64));
  }
  __device__ __forceinline__ unsigned long long b(int n) const {
    return descriptor(b_, offset_of<typename Layout::B>(kConfig.b_major, n));
  }

  // A warp is done with a stage: says so to the blocks whose copies land here, this one's row and column of the cluster, this one
  // once.
  __device__ __forceinline__ void release(int stage) const {
    if constexpr (kConfig.promote == Promotion::kScaled) __syncwarp();  // every lane has read its scales
    if (threadIdx.x % 32 < kReleased) empty_.arrive(stage);
  }
  // The same after bits of what the warp loaded from it have come.
  __device__ __forceinline__ void release_after(int stage, unsigned loaded) const {
    __syncwarp();
    if (threadIdx.x % 32 < kReleased) empty_.arrive_after(stage, loaded);
  }

 private:
  static constexpr int kReleased = kConfig.cluster_m + kConfig.cluster_n - 1;

  // The block that this lane of a warp tells.
  __device__ __forceinline__ static unsigned released_block(int block_m, int block_n) {
    const int lane = threadIdx.x % 32, i = lane - kConfig.cluster_n;
    if (lane >= kReleased) return 0;
    return lane < kConfig.cluster_n ? block_m * kConfig.cluster_n + lane
                                    : (i + (i >= block_m)) * kConfig.cluster_n + block_n;
  }
  // Of rows of a tile from `first` on, from the tile's begin: as descriptor_at() has them.
  template <class Operand>
  __device__ static constexpr int offset_of(Major major, int first) {
    return major == Major::kK ? first * Operand::kRowBytes : first / Operand::kBoxMn * Operand::kBoxBytes;
  }
  // Only the low word of a descriptor moves with the address.
  __device__ __forceinline__ unsigned long long descriptor(unsigned low, int offset) const {
    const unsigned long long high = Layout::A::descriptor_at(shared_.base, 0) >> 32 << 32;
    return high | (low + ring_.stage * (Layout::kStageBytes / 16) + offset / 16);
  }

  const Layout shared_;
  sm90::Ring<kConfig.stages> ring_;
  unsigned a_, b_;  // of the first stage
  const sm90::RemoteBarriers empty_;
};

// In the last tile of a block one warpgroup has the last steps to itself, then the other one: while this one multiplies, D of the
// first leaves.
enum class GemmSm90Turn { kNone, kFirst, kSecond };
inline constexpr int kSm90TurnBarrier = 3;  // a named one

// A warpgroup: the tile's sum over K, left in `sum`. A stage is given back when the products after its own are issued, so
// that the tensor cores always have the next ones. beside(0), beside(1) ... kBeside - 1 run beside the first of them.
template <GemmSm90Config kConfig, int kBeside, class Accumulator, int kRows64, int kCount, class Beside>
__device__ __forceinline__ void gemm_sm90_multiply(GemmSm90Stages<kConfig>& stages, int steps, GemmSm90Turn turn,
                                                   Accumulator (&sum)[kRows64][kCount], Beside&& beside) {
  using Layout = GemmSm90Layout<kConfig>;
  using Wgmma = typename Layout::Wgmma;
  constexpr int kTransposeA = kConfig.a_major == Major::kMn, kTransposeB = kConfig.b_major == Major::kMn;
  int before = 0;
  const auto multiply = [&](bool first) {
    stages.wait();
    const unsigned long long b = stages.b(0);
#pragma unroll
    for (int r = 0; r < kRows64; ++r) sm90::pin(sum[r]);
    sm90::begin_products();
#pragma unroll
    for (int r = 0; r < kRows64; ++r) {
      const unsigned long long a = stages.a(r);
#pragma unroll
      for (int k = 0; k < Layout::kTileK / Wgmma::kK; ++k) {
        Wgmma::template multiply<kTransposeA, kTransposeB>(sum[r], a + k * sm90::kDescriptorStep<kConfig.a_major>,
                                                           b + k * sm90::kDescriptorStep<kConfig.b_major>,
                                                           !first || k > 0);
      }
    }
    sm90::commit_products();
#pragma unroll
    for (int r = 0; r < kRows64; ++r) sm90::pin(sum[r]);
    sm90::wait_products<1>();
    if (!first) stages.release(before);
    before = stages.stage();
    stages.advance();
  };
#pragma unroll
  for (int i = 0; i < kBeside; ++i) {
    if (i == 0 || i < steps) multiply(i == 0);
    beside(i);
  }
  constexpr int kThreads = kConfig.warpgroups * 128;
  int step = kBeside;
  if (turn == GemmSm90Turn::kSecond) {
    // More would never come: a stage goes back when both have read it.
#pragma unroll 1
    for (; step < steps - (kConfig.stages - 1); ++step) multiply(false);
    sm90::named_barrier(kSm90TurnBarrier, kThreads);
  }
#pragma unroll 1
  for (; step < steps; ++step) multiply(false);
  if (turn == GemmSm90Turn::kFirst) sm90::named_arrive(kSm90TurnBarrier, kThreads);
  sm90::wait_products<0>();
#pragma unroll
  for (int r = 0; r < kRows64; ++r) sm90::pin(sum[r]);
  stages.release(before);
}

}  // namespace tilewright
