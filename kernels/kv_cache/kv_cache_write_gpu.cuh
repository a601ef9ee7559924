// SPDX-License-Identifier: MIT
// kv_cache_write_gpu: heads of tokens, normalised and turned where asked for, into a paged cache. Typed by its config, or at run time.
#pragma once

#include "kv_cache/kv_cache_store.cuh"
#include "tile/gpu/row_pairs.cuh"

namespace tilewright {

// Where a thread's two pieces of a head are: where pairs turn, elements of eight pairs.
struct HeadPieces {
  int low, high, pair;  // pair: the first of them; -1 where nothing turns
  bool pairs, there;    // pairs: of neighbours
};
__device__ __forceinline__ HeadPieces head_pieces(const CacheArgs& args, const CacheHeads& mine, int thread) {
  const int half = (mine.turned ? static_cast<int>(args.rotation.dims) : mine.n) / 2, n = thread * kRowPiece;
  const bool first = n < half, pairs = mine.turned && first && args.rotation.interleaved;
  const bool there = 2 * n < mine.n;
  const int low = first && !pairs ? n : 2 * n, high = low + (first && !pairs ? half : kRowPiece);
  if (!there) return {0, kRowPiece, -1, false, false};
  return {low, high, mine.turned && first ? n : -1, pairs, true};
}

// A thread takes its pieces of `heads` heads of a token, which it asks for all at once.
template <CacheGpuConfig kConfig>
__device__ __forceinline__ void kv_cache_write_heads(const CacheArgs& given) {
  constexpr int kThreads = kConfig.threads, kHeads = kConfig.heads, kBytes = dtype_bits(kConfig.x) / 8;
  constexpr int kSets = row_block_threads(kThreads) / kThreads;  // of a block at a time
  constexpr bool kTurns = kConfig.table != DType::kNone, kWeights = kConfig.norm && kConfig.weight != DType::kNone;
  constexpr DType kTable = kTurns ? kConfig.table : DType::kF32, kWeight = kWeights ? kConfig.weight : DType::kF32;
  const auto thread = static_cast<int>(threadIdx.x);
  if constexpr (kConfig.edge) allow_next_kernel();
#pragma unroll 1
  for (long long begin = static_cast<long long>(blockIdx.x) * kSets; begin < given.sets; begin += given.grid * kSets) {
    const CacheArgs& args = anew(given);
    const long long index = begin + thread / kThreads;
    const bool there = index < args.sets;
    const CacheSet set = cache_set(args, there ? index : args.sets - 1, kHeads);
    const CacheHeads& mine = args.heads[set.tensor];
    const HeadPieces at = head_pieces(args, mine, thread % kThreads);

    const char* from =
        static_cast<const char*>(mine.in) + (set.token * mine.stride_token + set.head * mine.stride_head) * kBytes;
    if constexpr (kConfig.edge) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        fetch_ahead(from + h * mine.stride_head * kBytes + at.low * kBytes);
        fetch_ahead(from + h * mine.stride_head * kBytes + at.high * kBytes);
      }
      wait_for_previous_kernel();
    }
    // The heads, the angles of the token, the weights. What others wait for is asked for first, and its place is found last.
    const bool has_slot = set.tensor != kCacheQueries;
    const long long slot = has_slot ? cache_slot(args, set.token) : 0;
    const long long position = kTurns ? cache_position(args, set.token) : 0;
    PieceWords<kConfig.x> low_words[kHeads], high_words[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h, from += mine.stride_head * kBytes) {
      low_words[h].load(from + at.low * kBytes);
      high_words[h].load(from + at.high * kBytes);
    }
    PieceWords<kTable> cosine_words, sine_words;
    RowAngles angles{};
    const bool turns = kTurns && at.pair >= 0;
    if constexpr (kTurns) {
      angles = angles_at(args.rotation, position);
      const int column = (turns ? at.pair : 0) * dtype_bits(kTable) / 8;
      cosine_words.load(angles.cosine + column);
      sine_words.load(angles.sine + column);
      if (!kConfig.plain && args.rotation.axes > 1) {
        const auto angles_of = [&](int axis) { return cache_angles(args, set.token, axis); };
        mix_angles<kTable>(args.rotation, turns ? at.pair : 0, angles_of, angles, cosine_words, sine_words);
      }
    }
    PieceWords<kWeight> low_weights{}, high_weights{};
    const bool weighted = kWeights && mine.weight != nullptr;
    if (weighted) {
      low_weights.load(static_cast<const char*>(mine.weight) + at.low * dtype_bits(kWeight) / 8);
      high_weights.load(static_cast<const char*>(mine.weight) + at.high * dtype_bits(kWeight) / 8);
    }
    Piece cosine, sine;
    if constexpr (kTurns) {
      cosine_words.widen(cosine);
      sine_words.widen(sine);
      for_elements([&](int i) {
        cosine.v[i] = __fmul_rn(cosine.v[i], angles.known), sine.v[i] = __fmul_rn(sine.v[i], angles.sign);
      });
    }

    // Sums of squares of all heads, whose exchanges do not wait for each other.
    [[maybe_unused]] float sums[kHeads] = {};
    if constexpr (kConfig.norm) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        Piece a, b;
        low_words[h].widen(a);
        high_words[h].widen(b);
        float squares = 0;
        for_elements([&](int i) { squares = __fmaf_rn(a.v[i], a.v[i], __fmaf_rn(b.v[i], b.v[i], squares)); });
        sums[h] = at.there ? squares : 0;
      }
      if constexpr (kThreads <= kRowLanes) {
        reduce_threads<kThreads>(sums, sum_of);
      } else {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          float one[1] = {sums[h]};
          reduce_threads<kThreads>(one, sum_of);
          sums[h] = one[0];
        }
      }
    }

    // Where the first head goes, and both pieces of each.
    const CachePlace place = cache_place(args, set.tensor, set.token, slot);
    const bool writes = there && place.known && at.there;
    const PagedTensor& out = mine.out;
    long long offset = paged_head(out, place, set.head);
    const long long low_at = paged_element(out, at.low), high_at = paged_element(out, at.high);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      Piece a, b;
      low_words[h].widen(a);
      high_words[h].widen(b);
      if constexpr (kConfig.norm) {
        if (mine.normed) {
          const float inverse =
              inverse_root(__fmaf_rn(sums[h], reciprocal_near_one(static_cast<float>(mine.n)), args.eps));
          for_elements([&](int i) { a.v[i] = __fmul_rn(a.v[i], inverse), b.v[i] = __fmul_rn(b.v[i], inverse); });
        }
        if (weighted) {
          const float offset = args.unit_offset ? 1 : 0;
          const auto weigh = [&](const PieceWords<kWeight>& words, Piece& p) {
            Piece weight;
            words.widen(weight);
            for_elements([&](int i) {
              p.v[i] = __fmul_rn(p.v[i], kConfig.plain ? weight.v[i] : __fadd_rn(weight.v[i], offset));
            });
          };
          weigh(low_weights, a);
          weigh(high_weights, b);
        }
      }
      if constexpr (kTurns) {
        if (turns) {
          if (!kConfig.plain && at.pairs) part_pairs(a, b);
          for_elements([&](int i) {
            const float x = a.v[i];
            a.v[i] = __fmaf_rn(x, cosine.v[i], -__fmul_rn(b.v[i], sine.v[i]));
            b.v[i] = __fmaf_rn(b.v[i], cosine.v[i], __fmul_rn(x, sine.v[i]));
          });
          if (!kConfig.plain && at.pairs) join_pairs(a, b);
        }
      }

      // Scales, then codes.
      float most[1] = {0};
      if constexpr (kConfig.finds) {
        if (at.there) {
          for_elements([&](int i) { most[0] = larger_magnitude(larger_magnitude(most[0], a.v[i]), b.v[i]); });
        }
        reduce_threads<kThreads>(most, larger_of);
      }
      if (!writes) continue;
      const auto store = [&](auto type) {
        if constexpr (is_quantised(type.value)) {
          const Divisor by =
              paged_divisor(mine.scale, type.value, place, set.head + h, most[0], thread % kThreads == 0);
          divide<false>(a, by);
          divide<false>(b, by);
        }
        char* const start = static_cast<char*>(out.data) + offset * (dtype_bits(type.value) / 8);
        store_paged<type.value, kConfig.plain>(out, start, at.low, low_at, a);
        store_paged<type.value, kConfig.plain>(out, start, at.high, high_at, b);
      };
      if (kConfig.q != DType::kNone && kConfig.q != kConfig.cache && set.tensor == kCacheQueries) {
        store(PagedType<kConfig.q>{});
      } else {
        store(PagedType<kConfig.cache>{});
      }
      offset += out.head;
    }
  }
}

// A head of any length and types, its elements round among its threads: what they become is computed in each pass.
__device__ __forceinline__ void kv_cache_write_any(const CacheArgs& given) {
  constexpr int kThreads = kAnyHeadThreads, kSets = kRowBlockThreads / kThreads;
  const auto me = static_cast<int>(threadIdx.x) % kThreads;
#pragma unroll 1
  for (long long begin = static_cast<long long>(blockIdx.x) * kSets; begin < given.sets; begin += given.grid * kSets) {
    const CacheArgs& args = anew(given);
    const long long index = begin + threadIdx.x / kThreads;
    const bool there = index < args.sets;
    const CacheSet set = cache_set(args, there ? index : args.sets - 1, 1);
    const CacheHeads& mine = args.heads[set.tensor];
    const CachePlace place = cache_place(args, set.tensor, set.token);
    const char* const from = static_cast<const char*>(mine.in) +
                             (set.token * mine.stride_token + set.head * mine.stride_head) * dtype_bits(args.x) / 8;

    float inverse = 1;
    if (args.heads[kCacheQueries].normed || args.heads[kCacheKeys].normed) {
      float squares[1] = {0};
#pragma unroll 1
      for (int d = me; d < mine.n; d += kThreads) {
        const float x = load_one(from, args.x, d);
        squares[0] = __fmaf_rn(x, x, squares[0]);
      }
      reduce_threads<kThreads>(squares, [](float x, float y) { return __fadd_rn(x, y); });
      if (mine.normed) inverse = 1 / square_root(__fadd_rn(squares[0] / static_cast<float>(mine.n), args.eps));
    }
    const auto normed = [&](int d) {
      float x = load_one(from, args.x, d);
      if (!mine.normed) return x;
      x = __fmul_rn(x, inverse);
      if (mine.weight == nullptr) return x;
      return __fmul_rn(x, load_one(mine.weight, args.weight, d) + (args.unit_offset ? 1.0f : 0.0f));
    };

    // An element of a pair that turns wants the other one.
    const auto dims = mine.turned ? static_cast<int>(args.rotation.dims) : 0;
    const auto value = [&](int d) {
      if (d >= dims) return normed(d);
      const bool pairs = args.rotation.interleaved, second = pairs ? d % 2 == 1 : d >= dims / 2;
      const int step = pairs ? 1 : dims / 2, column = pairs ? d / 2 : second ? d - step : d;
      int axis = 0;
      while (axis + 1 < args.rotation.axes && (axis_bits(args.rotation, axis, column, 1) & 1) == 0) ++axis;
      const RowAngles angles = cache_angles(args, set.token, axis);
      const float cosine = __fmul_rn(load_one(angles.cosine, args.rotation.table, column), angles.known);
      const float sine = __fmul_rn(load_one(angles.sine, args.rotation.table, column), angles.sign);
      const float mate = __fmul_rn(normed(second ? d - step : d + step), sine);
      return __fmaf_rn(normed(d), cosine, second ? mate : -mate);
    };

    const DType dtype = set.tensor == kCacheQueries ? args.q : args.cache;
    float most[1] = {0};
    if (args.heads[kCacheQueries].scale.mode == CacheScales::kToken ||
        args.heads[kCacheKeys].scale.mode == CacheScales::kToken) {
#pragma unroll 1
      for (int d = me; d < mine.n; d += kThreads) most[0] = larger_magnitude(most[0], value(d));
      reduce_threads<kThreads>(most, larger_of);
    }
    const bool codes = is_quantised(dtype);
    Divisor by{1, 1, true};
    if (codes && there && place.known) {
      by = paged_divisor(mine.scale, dtype, place, set.head, most[0], me == 0);
    }
    char* const to = static_cast<char*>(mine.out.data) + paged_head(mine.out, place, set.head) * dtype_bits(dtype) / 8;
    const auto store = [&](int d, float x) {
      store_one(to, dtype, paged_element(mine.out, d), codes ? x / by.scale : x);
    };
    if (!there || !place.known) continue;
    // Both of a pair before one is written: that may be in place.
#pragma unroll 1
    for (int i = me; i < mine.n - dims / 2; i += kThreads) {
      const bool pair = i < dims / 2, pairs = args.rotation.interleaved;
      const int d = pair && pairs ? 2 * i : pair ? i : i + dims / 2, mate = d + (pairs ? 1 : dims / 2);
      const float x = value(d), y = pair ? value(mate) : 0;
      store(d, x);
      if (pair) store(mate, y);
    }
  }
}

template <CacheGpuConfig kConfig>
__device__ __forceinline__ void kv_cache_write_gpu(const CacheArgs& given) {
  if constexpr (kConfig.x == DType::kNone) {
    kv_cache_write_any(given);
  } else {
    kv_cache_write_heads<kConfig>(given);
  }
}

}  // namespace tilewright
