// SPDX-License-Identifier: MIT
// Which pieces of a slab of groups a thread has, and what is known of them: channels first they are a row of pieces; channels last threads beside
// each other have neighbouring channels of a position, and those below them the next positions. CUDA for sm_90.
#pragma once

#include "group_norm/group_norm_tile_gpu.cuh"
#include "tile/gpu/row_moments.cuh"
#include "tile/sm90/barrier.cuh"

namespace tilewright {

struct alignas(16) GroupFound {
  Moments of;
  float unused;
};
// Of a thread's channels: mean, and squares of differences from it.
struct SidePart {
  float mean, squares;
};
struct ChannelFactors {
  float factor, shift;
};

struct GroupSlotShared {
  unsigned char reduced[kRowSharedBytes];
  GroupFound found[kGroupSlotBlocks * kGroupSlotGroups];
  sm90::Barrier landed[2];  // of an exchange each
};
static_assert(sizeof(GroupSlotShared) <= group_slot_shared_bytes(0));
__device__ __forceinline__ GroupSlotShared& group_slot_shared() {
  return *reinterpret_cast<GroupSlotShared*>(dynamic_shared());
}
// Channels last: two of each thread's.
__device__ __forceinline__ SidePart* group_slot_parts() {
  return reinterpret_cast<SidePart*>(dynamic_shared() + group_slot_shared_bytes(0));
}
template <GroupNormConfig kConfig>
__device__ __forceinline__ ChannelFactors* group_slot_factors() {
  return reinterpret_cast<ChannelFactors*>(dynamic_shared() + group_slot_shared_bytes(kConfig.threads));
}

// What a cluster has: so many groups of an image, and their channels. The last slab of an image may have fewer.
struct GroupNormSlab {
  long long image, channel;  // the first one
  int channels, groups, rank;

  __device__ __forceinline__ GroupNormSlab(const GroupNormArgs& args, int cluster) {
    const unsigned index = blockIdx.x / static_cast<unsigned>(cluster);
    rank = static_cast<int>(blockIdx.x % static_cast<unsigned>(cluster));
    image = divided(index, args.slots.slabs), channel = (index - image * args.slots.slabs.by) * args.width;
    const long long left = args.channels - channel;
    channels = static_cast<int>(left < args.width ? left : args.width);
    groups = static_cast<int>(divided(static_cast<unsigned>(channels), args.slots.group_channels));
  }
};

// A thread's slots: its i-th piece lies behind all threads' pieces before it. Behind its copies are groups of others, `kBehind`.
template <GroupNormConfig kConfig, int kBehind = 0>
struct GroupSlots {
  static constexpr int kLoads = PieceWords<kConfig.dtype>::kLoads, kTurnBytes = kLoads * kConfig.threads * 16;
  unsigned char* const mine;
  const unsigned address;  // the same, made once for all copies
  const int turns;

  __device__ __forceinline__ GroupSlots(const GroupNormArgs& args, unsigned char* begin)
      : mine(begin + threadIdx.x * 16), address(renewed(shared_address(mine))), turns(args.slots.turns) {}
  __device__ __forceinline__ static constexpr int at(int i, int load) {
    return (i * kLoads + load) * (kConfig.threads * 16);
  }
  __device__ __forceinline__ void ask(int i, const char* from) const {
#pragma unroll
    for (int load = 0; load < kLoads; ++load)
      copy_async<16>(address + static_cast<unsigned>(at(i, load)), from + load * 16, 16);
  }
  __device__ __forceinline__ void take(int i, Piece& to) const {
    PieceWords<kConfig.dtype> words;
#pragma unroll
    for (int load = 0; load < kLoads; ++load)
      words.words[load] = load_vector4(reinterpret_cast<const unsigned*>(mine + at(i, load)));
    words.widen(to);
  }
  // body(i) of all turns in a group of copies.
  template <class Body>
  __device__ __forceinline__ void each_turn(int group, Body&& body) const {
    const int of_group = (turns + kGroupSlotCopies - 1) / kGroupSlotCopies, begin = group * of_group;
    const int behind = begin + of_group, end = behind < turns ? behind : turns;
#pragma unroll 1
    for (int i = begin; i < end; ++i) body(i);
  }
  // Of the pieces that are there, by a walk over them that has come to this group.
  template <class Walk, class Body>
  __device__ __forceinline__ void each(int group, Walk& walk, Body&& body) const {
    each_turn(group, [&](int i) {
      if (walk.there()) body(i);
      walk.next();
    });
  }
  template <class Walk, class Body>
  __device__ __forceinline__ void each(Walk walk, Body&& body) const {
#pragma unroll 1
    for (int i = 0; i < turns; ++i) {
      if (walk.there()) body(i, walk);
      walk.next();
    }
  }
  // Asks for all pieces of a tensor.
  template <class Walk>
  __device__ __forceinline__ void ask_all(Walk walk) const {
#pragma unroll 1
    for (int group = 0; group < kGroupSlotCopies; ++group) {
      each(group, walk, [&](int i) { ask(i, walk.place); });
      commit_copies();
    }
  }
  // The same of all groups, as soon as they have come.
  template <class Body>
  __device__ __forceinline__ void each_turn_as_it_comes(Body&& body) const {
    static_assert(kGroupSlotCopies == 4);
#pragma unroll 1
    for (int group = 0; group < kGroupSlotCopies; ++group) {
      if (group == 0) wait_copies<kBehind + 3>();
      if (group == 1) wait_copies<kBehind + 2>();
      if (group == 2) wait_copies<kBehind + 1>();
      if (group == 3) wait_copies<kBehind>();
      each_turn(group, body);
    }
  }
  template <class Walk, class Body>
  __device__ __forceinline__ void each_as_it_comes(Walk walk, Body&& body) const {
    each_turn_as_it_comes([&](int i) {
      if (walk.there()) body(i);
      walk.next();
    });
  }
};

// Channels first, a group: pieces go round among the threads of a block, which has neighbours.
template <GroupNormConfig kConfig>
struct LineShare {
  static constexpr int kBytes = dtype_bits(kConfig.dtype) / 8;
  const GroupNormArgs& args;
  const GroupNormSlab& slab;
  unsigned begin, end;

  __device__ __forceinline__ LineShare(const GroupNormArgs& given, const GroupNormSlab& of) : args(given), slab(of) {
    const auto span = static_cast<unsigned>(args.span);
    const unsigned all = static_cast<unsigned>(slab.channels) * args.line_pieces.by;
    const unsigned first = static_cast<unsigned>(slab.rank) * span, behind = first + span;
    begin = first + threadIdx.x, end = behind < all ? behind : all;
  }
  // A thread's pieces of a tensor, one after another.
  struct Walk {
    unsigned number, end, channel, piece;    // the piece is one of its channel's
    unsigned line_pieces, channels, pieces;  // from one to the next: so many channels and pieces
    char* place;
    long long step, wrap;  // bytes from one to the next, and more where a channel ends between
    __device__ __forceinline__ Walk(const LineShare& share, const GroupNormTensor& t)
        : number(share.begin), end(share.end), line_pieces(share.args.line_pieces.by) {
      constexpr int kPieceBytes = kRowPiece * kBytes;
      channel = divided(number, share.args.line_pieces), piece = number - channel * line_pieces;
      channels = divided(kConfig.threads, share.args.line_pieces), pieces = kConfig.threads - channels * line_pieces;
      const long long line = t.line * kBytes;
      place = static_cast<char*>(t.data) + (share.slab.image * t.image + share.slab.channel * t.line) * kBytes +
              channel * line + piece * kPieceBytes;
      step = channels * line + pieces * kPieceBytes;
      wrap = line - static_cast<long long>(line_pieces) * kPieceBytes;
    }
    __device__ __forceinline__ bool there() const { return number < end; }
    __device__ __forceinline__ void next() {
      number += kConfig.threads, channel += channels, piece += pieces, place += step;
      if (piece >= line_pieces) ++channel, piece -= line_pieces, place += wrap;
    }
  };
  // Of the block's part, in its first thread.
  template <class Slots>
  __device__ __forceinline__ Moments moments(const Slots& slots) const {
    Moments found{0, 0, 0};
    slots.each_as_it_comes(Walk(*this, args.x), [&](int i) {
      Piece p;
      slots.take(i, p);
      found = joined(found, piece_moments<true>(p, kRowPiece), reciprocal_near_one(static_cast<float>(i + 1)));
    });
    join_lanes<kRowLanes>(found);
    constexpr int kParts = kConfig.threads / kRowLanes;
    auto* const parts = reinterpret_cast<Moments*>(group_slot_shared().reduced);
    static_assert(kParts * sizeof(Moments) <= kRowSharedBytes && kParts == power_at_least(kParts));
    const unsigned me = threadIdx.x;
    if (me % kRowLanes == 0) parts[me / kRowLanes] = found;
    __syncthreads();
    if (me >= kRowLanes) return found;
    found = parts[me % kParts];
    join_lanes<kParts>(found);
    return found;
  }
  struct Factors {
    const ChannelFactors* of;
    __device__ __forceinline__ Factors(const LineShare&, const ChannelFactors* factors) : of(factors) {}
    __device__ __forceinline__ void apply(const Walk& at, Piece& p) const {
      const ChannelFactors by = of[at.channel];
      for_elements([&](int e) { p.v[e] = __fmaf_rn(p.v[e], by.factor, by.shift); });
    }
  };
};

// Channels last: `across` threads have a position's pieces, as many as fit have positions below. A piece's channels are of two groups at most,
// its sides.
template <GroupNormConfig kConfig>
struct ColumnShare {
  static constexpr int kBytes = dtype_bits(kConfig.dtype) / 8;
  const GroupNormArgs& args;
  const GroupNormSlab& slab;
  int across, down, count;  // count: positions of the block
  int row, piece, end;      // the thread's; end: where its positions do

  __device__ __forceinline__ ColumnShare(const GroupNormArgs& given, const GroupNormSlab& of) : args(given), slab(of) {
    across = static_cast<int>(args.line_pieces.by), down = static_cast<int>(args.slots.below.by);
    row = static_cast<int>(divided(threadIdx.x, args.line_pieces));
    piece = static_cast<int>(threadIdx.x) - row * across;
    const long long left = args.positions - slab.rank * args.span, here = left < args.span ? left : args.span;
    count = here > 0 ? static_cast<int>(here) : 0;
    end = row < down && piece * kRowPiece < slab.channels ? count : 0;
  }
  struct Walk {
    int position, end, down;
    char* place;
    long long step;  // bytes from a piece of the thread to its next
    __device__ __forceinline__ Walk(const ColumnShare& its, const GroupNormTensor& t)
        : position(its.row), end(its.end), down(its.down), step(its.down * t.line * kBytes) {
      const long long first = its.slab.rank * its.args.span + its.row;
      place = static_cast<char*>(t.data) +
              (its.slab.image * t.image + first * t.line + its.slab.channel + its.piece * kRowPiece) * kBytes;
    }
    __device__ __forceinline__ bool there() const { return position < end; }
    __device__ __forceinline__ void next() { position += down, place += step; }
  };
  // How many channels of a piece are of the group that its first one is of.
  __device__ __forceinline__ int first_side(int of) const {
    const Denominator its = args.slots.group_channels;
    const auto channel = static_cast<unsigned>(of * kRowPiece), left = (divided(channel, its) + 1) * its.by - channel;
    return left < kRowPiece ? static_cast<int>(left) : kRowPiece;
  }
  // Of a thread's channels, of which each has as many elements: of the first ones, and of the others.
  __device__ __forceinline__ static void join_channels(const float (&mean)[kRowPiece],
                                                       const float (&squares)[kRowPiece], int first, float elements,
                                                       SidePart (&sides)[2]) {
    // Means about one of them: of equal means the mean is that mean.
    const float about[2] = {mean[0], mean[kRowPiece - 1]};
    float sums[2] = {}, apart[2] = {};
    for_elements([&](int i) {
      const float d = __fadd_rn(mean[i], -(i < first ? about[0] : about[1]));
      sums[0] = __fadd_rn(sums[0], i < first ? d : 0), sums[1] = __fadd_rn(sums[1], i < first ? 0 : d);
    });
    const auto one = static_cast<float>(first), other = at_least(static_cast<float>(kRowPiece - first), 1);
    sides[0].mean = __fmaf_rn(sums[0], reciprocal_near_one(one), about[0]);
    sides[1].mean = __fmaf_rn(sums[1], reciprocal_near_one(other), about[1]);
    for_elements([&](int i) {
      const float d = __fadd_rn(mean[i], -(i < first ? sides[0].mean : sides[1].mean));
      const float all = __fmaf_rn(__fmul_rn(elements, d), d, squares[i]);
      apart[0] = __fadd_rn(apart[0], i < first ? all : 0), apart[1] = __fadd_rn(apart[1], i < first ? 0 : all);
    });
    sides[0].squares = apart[0], sides[1].squares = apart[1];
  }

  // Of a thread's channels, by the sides of its piece.
  template <class Slots>
  __device__ __forceinline__ void find_sides(const Slots& slots, SidePart (&sides)[2]) const {
    // Source: Welford, Note on a Method for Calculating Corrected Sums of Squares and Products (Technometrics 4, 1962).
    float mean[kRowPiece] = {}, squares[kRowPiece] = {}, elements = 0;
    slots.each_as_it_comes(Walk(*this, args.x), [&](int i) {
      Piece p;
      slots.take(i, p);
      elements = __fadd_rn(elements, 1);
      const float part = reciprocal_near_one(elements);
      for_elements([&](int e) {
        const float d = __fadd_rn(p.v[e], -mean[e]);
        mean[e] = __fmaf_rn(d, part, mean[e]);
        squares[e] = __fmaf_rn(d, __fadd_rn(p.v[e], -mean[e]), squares[e]);
      });
    });
    join_channels(mean, squares, first_side(piece), elements, sides);
  }
  // What all threads below each other have found of a side, in the first one's place; by a warp.
  __device__ __forceinline__ void join_rows(SidePart* of, float channels) const {
    const int lane = static_cast<int>(threadIdx.x) % kRowLanes;
    const auto full = static_cast<int>(divided(static_cast<unsigned>(count), args.slots.below));
    const auto positions_of = [&](int i) { return static_cast<float>(i < count - full * down ? full + 1 : full); };
    const float about = of[0].mean;
    float sum = 0, squares = 0;
#pragma unroll 1
    for (int i = lane; i < down; i += kRowLanes) sum = __fmaf_rn(positions_of(i), __fadd_rn(of[i].mean, -about), sum);
    const float mean = __fmaf_rn(lanes_sum<kRowLanes>(sum), reciprocal_near_one(static_cast<float>(count)), about);
#pragma unroll 1
    for (int i = lane; i < down; i += kRowLanes) {
      const float d = __fadd_rn(of[i].mean, -mean), elements = __fmul_rn(positions_of(i), channels);
      squares = __fadd_rn(squares, __fmaf_rn(__fmul_rn(elements, d), d, of[i].squares));
    }
    squares = lanes_sum<kRowLanes>(squares);
    if (lane == 0) of[0] = {mean, squares};
  }
  // Of the block's part of group t, in thread t.
  template <class Slots>
  __device__ __forceinline__ Moments moments(const Slots& slots) const {
    SidePart* const parts = group_slot_parts();
    SidePart sides[2];
    find_sides(slots, sides);
    if (row < down) parts[piece * down + row] = sides[0], parts[(across + piece) * down + row] = sides[1];
    __syncthreads();

    const auto me = static_cast<int>(threadIdx.x);
    const auto channels_of = [&](int of, bool is_first) {
      const int first = first_side(of);
      return static_cast<float>(is_first ? first : kRowPiece - first);
    };
#pragma unroll 1
    for (int part = me / kRowLanes; part < 2 * across && count > 0; part += kConfig.threads / kRowLanes) {
      const bool is_first = part < across;
      const float channels = channels_of(is_first ? part : part - across, is_first);
      if (channels > 0) join_rows(parts + part * down, channels);
    }
    __syncthreads();

    Moments found{0, 0, 0};
    if (me < slab.groups && count > 0) {
      const auto channels = static_cast<int>(args.slots.group_channels.by), begin = me * channels;
#pragma unroll 1
      for (int of = begin / kRowPiece; of * kRowPiece < begin + channels; ++of) {
        const bool is_first = of * kRowPiece >= begin;
        const SidePart part = parts[(is_first ? of : across + of) * down];
        const float elements = __fmul_rn(channels_of(of, is_first), static_cast<float>(count));
        found = joined(found, {part.mean, part.squares, elements});
      }
    }
    return found;
  }
  struct Factors {
    ChannelFactors of[kRowPiece];
    __device__ __forceinline__ Factors(const ColumnShare& share, const ChannelFactors* factors) {
      for_elements([&](int e) { of[e] = factors[share.piece * kRowPiece + e]; });
    }
    __device__ __forceinline__ void apply(const Walk&, Piece& p) const {
      for_elements([&](int e) { p.v[e] = __fmaf_rn(p.v[e], of[e].factor, of[e].shift); });
    }
  };
};

}  // namespace tilewright
