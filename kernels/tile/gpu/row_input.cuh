// SPDX-License-Identifier: MIT
// What rows are made of on GPUs: x, a residual that is added, and vectors along a row, asked for before they are needed where rows are
// whole pieces. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row.cuh"

namespace tilewright {

// A piece as it lies.
template <DType kType>
struct PieceWords {
  static constexpr int kLoads = kType == DType::kF32 ? 2 : 1;
  Vector4<unsigned> words[kLoads];

  __device__ __forceinline__ void load(const void* from) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) words[i] = load_vector4(static_cast<const unsigned*>(from) + 4 * i);
  }
  __device__ __forceinline__ void store(void* to) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) store_vector4(static_cast<unsigned*>(to) + 4 * i, words[i]);
  }
  // As if nobody knew them: what follows from them is found again.
  __device__ __forceinline__ void renew() {
#pragma unroll
    for (Vector4<unsigned>& w : words) w = {renewed(w.x), renewed(w.y), renewed(w.z), renewed(w.w)};
  }
  __device__ __forceinline__ void clear_unless(bool there) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      Vector4<unsigned>& w = words[i];
      w = {there ? w.x : 0, there ? w.y : 0, there ? w.z : 0, there ? w.w : 0};
    }
  }
  // The elements that `mine` has a bit for.
  __device__ __forceinline__ void take(const PieceWords& from, unsigned mine) {
    const auto mixed = [mine](unsigned old, unsigned other, int word) {
      const unsigned all = kType == DType::kF32
                               ? 0u - (mine >> word & 1)
                               : (mine >> 2 * word & 1) * 0xFFFFu | (mine >> (2 * word + 1) & 1) * 0xFFFF0000u;
      return (old & ~all) | (other & all);
    };
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const Vector4<unsigned>&w = words[i], &o = from.words[i];
      words[i] = {mixed(w.x, o.x, 4 * i), mixed(w.y, o.y, 4 * i + 1), mixed(w.z, o.z, 4 * i + 2),
                  mixed(w.w, o.w, 4 * i + 3)};
    }
  }
  // NaN of any type.
  __device__ __forceinline__ void make_nan_unless(bool known) {
    const unsigned nan = known ? 0 : 0x7FFF7FFFu;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      Vector4<unsigned>& w = words[i];
      w = {w.x | nan, w.y | nan, w.z | nan, w.w | nan};
    }
  }
  __device__ __forceinline__ void widen(Piece& to) const {
    if constexpr (kType != DType::kF32) return widen_words_16(kType == DType::kBf16, words[0], to);
    if constexpr (kType == DType::kF32) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        to.v[4 * i] = __builtin_bit_cast(float, words[i].x), to.v[4 * i + 1] = __builtin_bit_cast(float, words[i].y);
        to.v[4 * i + 2] = __builtin_bit_cast(float, words[i].z),
                     to.v[4 * i + 3] = __builtin_bit_cast(float, words[i].w);
      }
    }
  }
};

// A tensor's pieces of a row as they lie, asked for all at once before anything waits; of whole rows that stay in registers.
template <RowGpuConfig kConfig, DType kType>
struct AskedPieces {
  static constexpr bool kAsks = kConfig.whole && kConfig.pieces > 0 && kType != DType::kNone;
  static constexpr int kLoads = PieceWords<kType>::kLoads;
  PieceWords<kType> pieces[kAsks ? kConfig.pieces : 1];

  // body(j, address) of all pieces. One that is not there is the first one's, so that nothing branches. Pieces lie `apart` of them from
  // each other.
  template <class Body>
  __device__ __forceinline__ static void each(const RowArgs& args, const void* start, int apart, Body&& body) {
    if constexpr (kAsks) {
#pragma unroll
      for (int j = 0; j < kConfig.pieces; ++j) {
        const int n = GpuRow<kConfig>::piece_begin(j, row_thread<kConfig>());
        body(j, static_cast<const unsigned*>(start) + (kConfig.full || n < args.n ? n : 0) * apart * kLoads / 2);
      }
    }
  }
  __device__ __forceinline__ void ask(const RowArgs& args, const void* start, int apart = 1) {
    each(args, start, apart, [&](int j, const unsigned* from) { pieces[j].load(from); });
  }
  __device__ __forceinline__ static void fetch(const RowArgs& args, const void* start, int apart = 1) {
    each(args, start, apart, [](int, const unsigned* from) { fetch_ahead(from); });
  }
  // What is used with these pieces is asked for with them, of plain calls: NVIDIA's compiler asks for what is needed last as late as it
  // can, even past a reduction, unless something needs it early. The words' mask is zero, which it does not know.
  template <class Other>
  __device__ __forceinline__ void wait_for(const Other& other, const RowArgs& args) {
#if !defined(__AMDGCN__)
    if constexpr (kAsks && Other::kAsks && kConfig.plain) {
      const unsigned zero = args.unit_offset;
      unsigned nothing = 0;
#pragma unroll
      for (const auto& piece : other.pieces) {
#pragma unroll
        for (const auto& w : piece.words) nothing |= w.x & zero;
      }
      pieces[0].words[0].x |= nothing;
    }
#endif
  }
  // Zeros where there is none; of full rows, of which the last one stands for those behind it, there always is.
  __device__ __forceinline__ void take(int j, int count, Piece& to) const {
    PieceWords<kType> found = pieces[j];
    if constexpr (!kConfig.full) found.clear_unless(count > 0);
    found.widen(to);
  }
};

// The same of two tensors of which the second may be absent. starts(ask) calls ask(first, second, apart) with where a row's pieces begin.
// Until kernels in front have ended, calls with programmatic edges bring them as near as may be.
template <RowGpuConfig kConfig, DType kFirst, DType kSecond>
struct AskedTensors {
  using First = AskedPieces<kConfig, kFirst>;
  using Second = AskedPieces<kConfig, kSecond>;
  static constexpr bool kAsks = First::kAsks, kHasSecond = Second::kAsks;
  First first;
  Second second;

  __device__ __forceinline__ void clear() { first = {}, second = {}; }
  template <class Starts>
  __device__ __forceinline__ void start(const GpuRow<kConfig>& row, Starts&& starts) {
    if constexpr (kAsks && fetches_rows(kConfig)) {
      if (!rehearses(kConfig) || !row.there) {
        starts([&](const char* a, const char* b, int apart = 1) {
          First::fetch(row.args, a + row.no_bytes(), apart);
          Second::fetch(row.args, b, apart);
        });
      }
    }
    if constexpr (rehearses(kConfig)) {
      if (!row.there) return clear();
    }
    if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
    if (!kAsks) return;
    starts([&](const char* a, const char* b, int apart = 1) {
      first.ask(row.args, a, apart);
      second.ask(row.args, b, apart);
    });
  }
  __device__ __forceinline__ void take_first(int j, int count, Piece& to) const { first.take(j, count, to); }
  __device__ __forceinline__ void take_second(int j, int count, Piece& to) const { second.take(j, count, to); }
};

// As the CPU's RowInput: x, or x + residual rounded to the residual's type. first() may write the sum, again() gives the same.
template <RowGpuConfig kConfig>
struct RowInput {
  static constexpr bool kTyped = kConfig.x != DType::kNone;
  const RowArgs* args;  // of the row at hand: what all rows share has no registers on AMD GPUs
  const char *x, *residual;
  char* sum;
  using Tensors = AskedTensors<kConfig, kConfig.x, kConfig.residual>;
  Tensors tensors;

  __device__ __forceinline__ explicit RowInput(const RowArgs& given) : args(&given) {}

  __device__ __forceinline__ bool adds() const {
    return kTyped ? kConfig.residual != DType::kNone : anew(*args).residual.data != nullptr;
  }
  __device__ __forceinline__ void start(const GpuRow<kConfig>& row) {
    args = &row.args;
    x = row_start<kConfig.x>(args->x, row.at);
    residual = row_start<kConfig.residual>(args->residual, row.at);
    sum = args->residual_out.data == nullptr ? nullptr : row_start<kConfig.residual>(args->residual_out, row.at);
    tensors.start(row, [&](auto&& ask) { ask(x, residual); });
  }
  // x's elements, and the residual's.
  __device__ __forceinline__ void own(long long n, int count, Piece& to, int j) const {
    if constexpr (Tensors::kAsks) {
      tensors.take_first(j, count, to);
    } else {
      load_piece<kConfig.x, kConfig.whole>(x, args->x.dtype, n, count, to);
    }
  }
  __device__ __forceinline__ void other(long long n, int count, Piece& to, int j) const {
    if constexpr (Tensors::kAsks && Tensors::kHasSecond) {
      tensors.take_second(j, count, to);
    } else {
      load_piece<kConfig.residual, kConfig.whole>(residual, args->residual.dtype, n, count, to);
    }
  }
  __device__ __forceinline__ void added(long long n, int count, Piece& to, int j) const {
    own(n, count, to, j);
    if (!adds()) return;
    Piece more;
    other(n, count, more, j);
    for_elements([&](int i) { to.v[i] = __fadd_rn(to.v[i], more.v[i]); });
    round_piece<kConfig.residual>(args->residual.dtype, to);
  }
  // The j-th piece, of those that were asked for.
  __device__ __forceinline__ void first(long long n, int count, Piece& to, int j) const {
    added(n, count, to, j);
    if (adds() && sum != nullptr)
      store_together<kConfig.residual, kConfig.whole, GpuRow<kConfig>::kAllThere>(sum, args->residual.dtype, n, count,
                                                                                  to);
  }
  __device__ __forceinline__ void again(long long n, int count, Piece& to) const {
    // x or the residual may be where the sum stands now.
    if (adds() && sum != nullptr)
      return load_piece<kConfig.residual, kConfig.whole>(sum, args->residual.dtype, n, count, to);
    added(n, count, to, 0);
  }
};

// The type of vectors along a row; kNone: each tells its own.
template <RowGpuConfig kConfig>
inline constexpr DType kColumnType = kConfig.x == DType::kNone ? DType::kNone : kConfig.columns;

// Times what smooths columns, where there is something.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void smooth_columns(const RowArgs& given, long long n, int count, Piece& p) {
  if constexpr (kConfig.plain) return;
  const RowVector& smooth = anew(given).smooth;
  if (smooth.data == nullptr) return;
  Piece factor;
  load_piece<kColumnType<kConfig>, kConfig.whole>(static_cast<const char*>(smooth.data), smooth.dtype, n, count,
                                                  factor);
  for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], factor.v[i]); });
}

// Vectors along a row: weight, bias and what smooths columns.
template <RowGpuConfig kConfig>
struct RowColumns {
  static constexpr DType kType = kColumnType<kConfig>;
  const RowArgs& given;
  static constexpr bool kAsks = row_asks_weight(kConfig);
  using Words = AskedPieces<kConfig, kAsks ? kType : DType::kNone>;
  Words weight_words;
  // With the row, too, where a call is known to have one.
  static constexpr bool kAsksBias = kAsks && kConfig.plain && kConfig.bias;
  using BiasWords = AskedPieces<kConfig, kAsksBias ? kType : DType::kNone>;
  BiasWords bias_words;

  // The weight may be asked for before the row; what is rarer is read where it is used.
  __device__ __forceinline__ explicit RowColumns(const RowArgs& args) : given(args) {
    if (has_weight<kConfig>(args)) weight_words.ask(args, args.weight.data);
    if (has_bias<kConfig>(args)) bias_words.ask(args, args.bias.data);
  }

  __device__ __forceinline__ static void column(const RowVector& v, long long n, int count, Piece& to) {
    load_piece<kType, kConfig.whole>(static_cast<const char*>(v.data), v.dtype, n, count, to);
  }
  // Weight and bias come with a row's first piece.
  template <class Input>
  __device__ __forceinline__ void come_with(Input& input) const {
    input.tensors.first.wait_for(weight_words, given);
    input.tensors.first.wait_for(bias_words, given);
  }
  // The weight, or 1, of any columns.
  __device__ __forceinline__ static void read_weight(const RowArgs& args, long long n, int count, Piece& weight) {
    if (!has_weight<kConfig>(args)) return for_elements([&](int i) { weight.v[i] = 1; });
    column(args.weight, n, count, weight);
    if (adds_one<kConfig>(args)) for_elements([&](int i) { weight.v[i] = __fadd_rn(weight.v[i], 1.0f); });
  }
  // The same. The j-th piece of those that were asked for.
  __device__ __forceinline__ void take_weight(long long n, int count, Piece& weight, int j) const {
    const RowArgs& args = anew(given);
    if constexpr (!Words::kAsks) return read_weight(args, n, count, weight);
    if (!has_weight<kConfig>(args)) return for_elements([&](int i) { weight.v[i] = 1; });
    weight_words.take(j, count, weight);
    if (adds_one<kConfig>(args)) for_elements([&](int i) { weight.v[i] = __fadd_rn(weight.v[i], 1.0f); });
  }
  // v * weight + bias, times what smooths: what norms end with. The j-th piece.
  __device__ __forceinline__ void scale(long long n, int count, Piece& p, int j) const {
    const RowArgs& args = anew(given);
    Piece weight, other;
    take_weight(n, count, weight, j);
    if (has_bias<kConfig>(args)) {
      if constexpr (kAsksBias) {
        bias_words.take(j, count, other);
      } else {
        column(args.bias, n, count, other);
      }
      for_elements([&](int i) { p.v[i] = __fmaf_rn(p.v[i], weight.v[i], other.v[i]); });
    } else {
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], weight.v[i]); });
    }
    smooth_columns<kConfig>(args, n, count, p);
  }
};

}  // namespace tilewright
