// SPDX-License-Identifier: MIT
// gemm_amd: GEMM on the matrix instructions of AMD GPUs, CDNA (MFMA) and RDNA (WMMA). Global loads run a tile of K ahead
// of what is written to LDS, and that a tile ahead of what is multiplied; a workgroup makes one tile of D.
//
// K may be cut: into parts of split_k columns, or evenly among `workers` workgroups whatever the tiles (stream-K). Partial sums
// then go to the workspace, and a second launch adds them in the order of K: the result does not depend on timing.
#pragma once

#include "gemm/amd/gemm_amd_load.hpp"
#include "gemm/amd/gemm_amd_output.hpp"
#include "gemm/amd/gemm_amd_scales.hpp"

namespace tilewright {

template <GemmAmdConfig kConfig>
struct GemmAmd {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  static_assert(gemm_amd_refusal(kConfig) == nullptr);
  static constexpr int kParts = kConfig.gate == GateMode::kSeparated ? 2 : 1;
  static constexpr int kTileOut = kConfig.gate == GateMode::kNone ? kConfig.tile_n : kConfig.tile_n / 2;
  using Wave = AmdWave<kConfig>;
  using Output = AmdOutput<kConfig>;
  using ATile = typename Wave::ATile;
  using BTile = typename Wave::BTile;
  using ALoader = typename AmdLoader<ATile, kConfig.tile_m, 1, kShape.a_size, kShape.threads, kConfig.a_major,
                                     kConfig.a_copy>::Type;
  using BLoader = typename AmdWeightLoader<kConfig, BTile, kParts>::Type;
  using Scales = AmdScales<kConfig>;
  // What is copied as one: two elements of 4 bits.
  static constexpr int kAPair = dtype_bits(kConfig.dtype) < 8 ? 1 : 0, kBPair = dtype_bits(kConfig.b_dtype) < 8 ? 1 : 0;

  const GemmAmdArgs& args;
  const GemmAmdTiles& tiles;
  const Lds lds;
  const int thread;

  __device__ __forceinline__ explicit GemmAmd(const GemmAmdArgs& a)
      : args(a), tiles(a.tiles), lds(lds_memory()), thread(static_cast<int>(threadIdx.x)) {}

  // Where a tile of D lies.
  struct Place {
    int64 batch, m0, n0;  // n0: column of D
  };
  __device__ __forceinline__ Place place(unsigned tile) const {
    const unsigned count = tiles.m * tiles.n, within = tile % count;
    // Down a band of rows of tiles, then to its next column.
    const unsigned band = args.band < tiles.m ? args.band : tiles.m;
    const unsigned first = within / (band * tiles.n) * band, rest = within % (band * tiles.n);
    const unsigned below = tiles.m - first, height = below < band ? below : band;
    return {tile / count, int64{first + rest % height} * kConfig.tile_m, int64{rest / height} * kTileOut};
  }
  // Workgroups go to the dies in turn; those of one die get tiles that follow each other.
  __device__ __forceinline__ static unsigned on_dies(unsigned unit, unsigned count, unsigned dies) {
    const unsigned die = unit % dies, each = count / dies, more = count % dies;
    return die * each + (die < more ? die : more) + unit / dies;
  }

  __device__ __forceinline__ static int cut(int64 left, int most) {
    return left < most ? static_cast<int>(left) : most;
  }
  __device__ __forceinline__ AmdSource a_source(const Place& p, int64 k) const {
    const GemmArgs& g = args.gemm;
    const auto bytes = [](int64 elements) { return (elements >> kAPair) * kShape.a_size; };
    const char* data =
        static_cast<const char*>(g.a) + bytes(p.batch * g.stride_a_batch + p.m0 * g.stride_a_m + k * g.stride_a_k);
    return {data, data, bytes(g.stride_a_m), g.stride_a_k * kShape.a_size, cut(g.m - p.m0, kConfig.tile_m)};
  }
  // Of gate and up each, a column of B for one of D.
  __device__ __forceinline__ int64 b_column(const Place& p) const {
    return kConfig.gate == GateMode::kInterleaved ? 2 * p.n0 : p.n0;
  }
  __device__ __forceinline__ int b_columns(const Place& p) const {
    const int out = cut(tiles.out_n - p.n0, kTileOut);
    return kConfig.gate == GateMode::kInterleaved ? 2 * out : out;
  }
  __device__ __forceinline__ AmdSource b_source(const Place& p, int64 k) const {
    const GemmArgs& g = args.gemm;
    if constexpr (kConfig.b_packed) return packed_source(p, k);
    const auto bytes = [](int64 elements) { return (elements >> kBPair) * kShape.b_size; };
    const char* data = static_cast<const char*>(g.b) +
                       bytes(p.batch * g.stride_b_batch + b_column(p) * g.stride_b_n + k * g.stride_b_k);
    return {data, data + bytes(tiles.out_n * g.stride_b_n), bytes(g.stride_b_n), g.stride_b_k * kShape.b_size,
            b_columns(p)};
  }
  // Rows of a source of packed weights are panels, those of K are lines.
  __device__ __forceinline__ AmdSource packed_source(const Place& p, int64 k) const {
    const GemmArgs& g = args.gemm;
    const int64 panel = packed_panel_bytes(kConfig.b_dtype, g.k), line = packed_line_bytes(kConfig.b_dtype);
    const int64 gate = b_column(p), up = gate + tiles.out_n;
    const char* data =
        static_cast<const char*>(g.b) + p.batch * g.stride_b_batch + k / packed_kp(kConfig.b_dtype) * line;
    return {data + gate / kPanelColumns * panel, data + up / kPanelColumns * panel, panel, line, b_columns(p),
            static_cast<int>(up % kPanelColumns)};
  }
  __device__ __forceinline__ typename Scales::Sources scale_sources(const Place& p, int64 k) const {
    if constexpr (kConfig.scale_copy == 0) {
      return {};
    } else {
      const auto source = [&](const GemmBlockScale& s, int64 row, int64 up, int rows) -> AmdScaleSource {
        constexpr int kSize = kConfig.scale == DType::kF32 ? 4 : 1;
        constexpr int kDepth = kConfig.scale == DType::kF32 ? kAmdScaleWord : kAmdScaleDepth;
        if (s.data == nullptr) return {nullptr, 0, 0, 1, 0, 0, 0};
        const int64 group = kSize == 4 ? row / s.outer : row;
        const int64 at = p.batch * s.stride_batch + group * s.stride_outer + k / kDepth * s.stride_k;
        return {static_cast<const char*>(s.data) + at * kSize,
                s.stride_outer * kSize,
                s.stride_k * kSize,
                s.outer,
                static_cast<int>(row - group * s.outer),
                (kSize == 4 ? up / s.outer : up) * s.stride_outer * kSize,
                rows};
      };
      return {source(args.scale.a, p.m0, 0, cut(args.gemm.m - p.m0, kConfig.tile_m)),
              source(args.scale.b, b_column(p), tiles.out_n, b_columns(p))};
    }
  }

  // Adds steps [first, first + steps) of K to the wave's sums.
  __device__ __forceinline__ void multiply(Wave& wave, const Place& p, unsigned first, unsigned steps) const {
    const int64 k0 = int64{first} * kConfig.tile_k, depth = args.gemm.k - k0;
    const AmdSource a_from = a_source(p, k0), b_from = b_source(p, k0);
    const auto scales_from = scale_sources(p, k0);
    if constexpr (kConfig.direct == 1) return multiply_direct(wave, a_from, b_from, scales_from, depth, steps);
    ALoader a(a_from, thread);
    BLoader b(b_from, thread);
    Scales scales(scales_from, thread);
    const auto fetch = [&](unsigned step) {
      const int64 k = int64{step} * kConfig.tile_k;
      a.fetch(k >> kAPair, (depth - k) >> kAPair);
      b.fetch(k >> kBPair, (depth - k) >> kBPair);
      scales.fetch(k, depth - k);
    };
    const auto store = [&](unsigned stage) {
      a.store(lds, stage);
      b.store(lds, stage + ATile::kBytes);
      scales.store(lds, stage + kShape.a_bytes + kShape.b_bytes);
    };
    fetch(0);
    store(0);
    if (steps > 1) fetch(1);
    __syncthreads();
    unsigned stage = 0;
#pragma unroll 1
    for (unsigned step = 0; step < steps; ++step) {
      if constexpr (kConfig.stages == 2) {
        // While this tile is multiplied, the next one is written and the one after it asked for.
        const unsigned next = stage ^ static_cast<unsigned>(kShape.stage_bytes);
        wave.multiply(lds, stage, [&] {
          if (step + 1 < steps) store(next);
          if (step + 2 < steps) fetch(step + 2);
        });
        stage = next;
      } else {
        wave.multiply(lds, 0, [] {});
        if (step + 1 < steps) {
          __syncthreads();
          store(0);
        }
        if (step + 2 < steps) fetch(step + 2);
      }
      __syncthreads();
    }
  }

  // The same by copies straight to LDS, `stages` - 1 tiles ahead. Those past the end bring zeros that nobody reads, so that
  // every step waits for as many.
  __device__ __forceinline__ void multiply_direct([[maybe_unused]] Wave& wave, [[maybe_unused]] const AmdSource& a_from,
                                                  [[maybe_unused]] const AmdSource& b_from,
                                                  [[maybe_unused]] const typename Scales::Sources& scales_from,
                                                  [[maybe_unused]] int64 depth, [[maybe_unused]] unsigned steps) const {
#if defined(__gfx950__)
    using ACopy = AmdStraightToLds<ATile, kConfig.tile_m, 1, kShape.a_size, kShape.threads>;
    using BCopy = AmdStraightToLds<BTile, kConfig.tile_n, kParts, kShape.b_size, kShape.threads>;
    constexpr int kAhead = kConfig.stages - 1;
    ACopy a(a_from, thread);
    BCopy b(b_from, thread);
    Scales scales(scales_from, thread);
    const auto fetch = [&](unsigned step, unsigned stage) {
      const int64 k = int64{step} * kConfig.tile_k, left = depth - k;
      if (left < kConfig.tile_k) a.cut(left >> kAPair), b.cut(left >> kBPair), scales.cut(left);
      a.fetch(k >> kAPair, lds, stage);
      b.fetch(k >> kBPair, lds, stage + kShape.a_bytes);
      scales.copy(k, lds, stage + kShape.a_bytes + kShape.b_bytes);
    };
    constexpr auto kStage = static_cast<unsigned>(kShape.stage_bytes), kEnd = kStage * kConfig.stages;
#pragma unroll 1
    for (unsigned i = 0; i < kAhead; ++i) fetch(i, i * kStage);
    unsigned stage = 0, free = kAhead * kStage;
#pragma unroll 1
    for (unsigned step = 0; step < steps; ++step) {
      // This tile is there for all, and the one before it has been read by all.
      wait_for_copies<(kAhead - 1) * (ACopy::kCount + BCopy::kCount + Scales::kCount)>();
      __syncthreads();
      wave.multiply(lds, stage, [&] { fetch(step + kAhead, free); });
      free = stage;
      stage = stage + kStage == kEnd ? 0 : stage + kStage;
    }
    wait_for_copies<0>();
    __syncthreads();
#endif
  }

  template <int kRows>
  __device__ __forceinline__ void write(const Wave& wave, int first, const Place& p) const {
    const GemmArgs& g = read_again(args).gemm;
    const typename Output::Epilogue epilogue(g.epilogue, g.m, g.n, p.batch);
    Output::template write<kRows>(wave, first, epilogue, lds, p.m0, p.n0, g.n);
  }
  __device__ __forceinline__ typename Output::Quad* partial(int64 slot) const {
    constexpr int64 kQuadsOfTile = int64{kConfig.tile_m} * kConfig.tile_n / 4;
    return static_cast<typename Output::Quad*>(read_again(args).gemm.workspace) + slot * kQuadsOfTile;
  }

  // A workgroup's steps: of one tile, or with stream-K of some, the first and the last of which others may share.
  __device__ __forceinline__ void work(unsigned unit) const {
    const bool streams = args.workers != 0;
    unsigned step, end;
    if (streams) {
      step = gemm_amd_first_step(tiles, args.workers, unit), end = gemm_amd_first_step(tiles, args.workers, unit + 1);
    } else {
      unit = on_dies(unit, tiles.count * tiles.splits, args.xcds);
      const unsigned part = unit % tiles.splits, length = tiles.splits > 1 ? args.split_k : tiles.steps;
      step = unit / tiles.splits * tiles.steps + part * length;
      end = part + 1 < tiles.splits ? step + length : (unit / tiles.splits + 1) * tiles.steps;
    }
    unsigned slot = streams ? 2 * unit : unit;
#pragma unroll 1
    while (step < end) {
      // What the next tile needs of the arguments is read there.
      const GemmAmd here(read_again(args));
      const unsigned all = here.tiles.steps, tile = step / all, first = step % all;
      const unsigned rest = all - first, steps = end - step < rest ? end - step : rest;
      const Place p = here.place(tile);
      Wave wave(thread);
      wave.clear();
      here.multiply(wave, p, first, steps);
      if (steps < all) {
        Output::save(wave, partial(slot), thread);
      } else {
        write<Wave::kM>(wave, 0, p);
      }
      step += steps;
      slot = 2 * unit + 1;
      if (step < end) __syncthreads();
    }
  }

  // One row of each wave's blocks of a tile that was cut.
  __device__ __forceinline__ void reduce(unsigned unit) const {
    constexpr unsigned kSlices = gemm_amd_reduce_slices(kConfig);
    const unsigned tile = unit / kSlices, begin = tile * tiles.steps, end = begin + tiles.steps;
    const int slice = static_cast<int>(unit % kSlices);
    Wave wave(thread);
    wave.clear();
    if (args.workers == 0) {
#pragma unroll 1
      for (unsigned split = 0; split < tiles.splits; ++split) {
        Output::add(wave, partial(tile * tiles.splits + split), slice, thread);
      }
    } else {
      // The workers whose steps meet the tile's, unless one of them has made all of it.
      unsigned worker = worker_of(begin);
      if (gemm_amd_first_step(tiles, args.workers, worker + 1) >= end) return;
#pragma unroll 1
      for (;; ++worker) {
        const unsigned first = gemm_amd_first_step(tiles, args.workers, worker);
        if (first >= end) break;
        Output::add(wave, partial(2 * worker + (first < begin ? 1 : 0)), slice, thread);
      }
    }
    write<1>(wave, slice, place(tile));
  }
  // The one whose steps include this one.
  __device__ __forceinline__ unsigned worker_of(unsigned step) const {
    unsigned low = 0, high = args.workers - 1;
    while (low < high) {
      const unsigned middle = (low + high + 1) / 2;
      const bool before = gemm_amd_first_step(tiles, args.workers, middle) <= step;
      low = before ? middle : low;
      high = before ? high : middle - 1;
    }
    return low;
  }
};

template <GemmAmdConfig kConfig>
__device__ __forceinline__ void gemm_amd(const GemmAmdArgs& args) {
  const GemmAmd<kConfig> kernel(args);
  const unsigned unit = blockIdx.x;
  if (args.phase == GemmAmdPhase::kReduce) return kernel.reduce(unit);
  kernel.work(unit);
}

}  // namespace tilewright
