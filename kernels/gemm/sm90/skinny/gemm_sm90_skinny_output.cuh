// SPDX-License-Identifier: MIT
// D of gemm_sm90_skinny: a warp holds 16 columns of D by all tokens, transposed. Sums of parts of a tile are added, become
// D's values, pass through a box of the warp's own in shared memory and leave eight columns a thread. No warp waits for
// another.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "gemm/sm90/skinny/gemm_sm90_skinny_exchange.cuh"
#include "tile/sm90/barrier.cuh"
#include "tile/sm90/fresh_thread.cuh"
#include "tile/sm90/wgmma.cuh"

namespace tilewright {

template <GemmSm90SkinnyConfig kConfig>
class GemmSm90SkinnyOutput {
 public:
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  static constexpr bool kInterleaved = kConfig.gate == GateMode::kInterleaved;
  static constexpr bool kPacks = gemm_sm90_skinny_packs(kConfig);
  static constexpr int kDColumns = kInterleaved ? 8 : 16;  // of a warp
  static constexpr int kGroups = kConfig.tokens / 8;
  static constexpr int kParts = kConfig.rows / 64 / kConfig.warpgroups;
  static constexpr int kOwn = gemm_sm90_skinny_own_groups(kConfig);
  static constexpr int kStride = gemm_sm90_skinny_own_stride(kConfig);
  using Epilogue = GemmEpilogue<gemm_sm90_skinny_epilogue(kConfig)>;
  using Columns = typename Epilogue::Columns;

  __device__ GemmSm90SkinnyOutput(const GemmSm90SkinnyArgs& args, unsigned char* box, const float* factors, int block)
      : args_(args), exchange_(args, block), box_(box), factors_(factors) {}

  // What varies by column is the same for all tokens of a thread: of its rows of a part and those 8 below, side by side.
  // Interleaved: of the pairs that it stores. Asked for before the products, so that it has come.
  struct PartColumns {
    Columns pair[kInterleaved ? 8 : 1];
  };
  // Part `part` of the warpgroup's rows; `d0`: the block's first column of D.
  __device__ __forceinline__ PartColumns columns(int part, int batch, int d0) const {
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, batch);
    PartColumns columns;
    if constexpr (kInterleaved) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        columns.pair[i] = epilogue.columns(2 * static_cast<int64>(first_column(part, d0) + i));
    } else {
      int64 n = first_column(kSeparated ? 0 : part, d0) + fresh_lane() / 4;
      if (kSeparated && part == 1) n += epilogue.out_n();
      const Columns upper = epilogue.columns(n), lower = epilogue.columns(n + 8);
      columns.pair[0] = {n, {upper.scale.first, lower.scale.first}, {upper.bias.first, lower.bias.first}};
    }
    return columns;
  }

  template <class Sum>
  __device__ __forceinline__ void write(Sum (&sum)[kParts][kConfig.tokens / 2], const PartColumns (&columns)[kParts],
                                        const SkinnyShare& s, int batch, int d0) {
    if constexpr (kConfig.splits > 1) {
      constexpr int kSplits = kConfig.splits;
      const int first = s.index / kStride * kOwn;
      const auto is_others = [&](int g) { return s.index % kStride != 0 || g < first || g >= first + kOwn; };
#pragma unroll
      for (int p = 0; p < kParts; ++p) exchange_.send(sum[p], p, s, is_others);
      return complete(sum, columns, s, batch, d0, [&](auto& own, int p, int own_first) {
        exchange_.template add<kSplits, kOwn>(own, p, s, own_first);
      });
    }
    if constexpr (kConfig.splits == 0) {
      // Who has the first part completes the tile.
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        if (s.index > 0) exchange_.send(sum[p], p, s, [](int) { return true; });
        if (s.index == 0) exchange_.add_all(sum[p], p, s);
      }
    }
    if (s.index == 0) write_groups<kGroups>(sum, columns, 0, batch, d0);
  }
  // The same where the parts of a tile meet in a cluster.
  template <class Sum>
  __device__ __forceinline__ void write_met(const Sum (&sum)[kParts][kConfig.tokens / 2],
                                            const PartColumns (&columns)[kParts],
                                            const GemmSm90SkinnyMeeting<kConfig>& meeting, const SkinnyShare& s,
                                            int batch, int d0) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) meeting.send(sum[p], p, s.index);
    complete(sum, columns, s, batch, d0, [&](auto& own, int p, int first) { meeting.add(own, p, first); });
  }

 private:
  // Made anew each time: what is made of it would else be kept over all tiles, in registers that sums want.
  __device__ __forceinline__ static int fresh_lane() { return static_cast<int>(sm90::fresh_thread()) % 32; }
  // Of D, of this warp.
  __device__ __forceinline__ static int first_column(int part, int d0) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return d0 + (part * kConfig.warpgroups * 4 + warp) * kDColumns;
  }

  // Each of the parts completes as many groups of tokens, or one of every few parts a group, when it has given the others away.
  // add_others(sums, part of the rows, first group).
  template <class Sum, class AddOthers>
  __device__ __forceinline__ void complete(const Sum (&sum)[kParts][kConfig.tokens / 2],
                                           const PartColumns (&columns)[kParts], const SkinnyShare& s, int batch,
                                           int d0, const AddOthers& add_others) {
    const int first = s.index / kStride * kOwn;
    if (s.index % kStride != 0 || first * 8 >= args_.gemm.m) return;
    Sum own[kParts][4 * kOwn];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
#pragma unroll
      for (int i = 0; i < 4 * kGroups; ++i) {
        Sum& to = own[p][i % (4 * kOwn)];
        if (i < 4 * kOwn || i / (4 * kOwn) * kOwn == first) to = sum[p][i];
      }
      sm90::pin(own[p]);  // else the others' sums would come to registers while these are still all there
      add_others(own[p], p, first);
    }
    write_groups<kOwn>(own, columns, first, batch, d0);
  }

  // D's tokens from group `first_group` on.
  template <int kCount, class Sum>
  __device__ __forceinline__ void write_groups(const Sum (&sum)[kParts][4 * kCount],
                                               const PartColumns (&columns)[kParts], int first_group, int batch,
                                               int d0) {
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, batch);
    constexpr int kAtOnce = kCount < (kPacks ? 4 : 2) ? kCount : (kPacks ? 4 : 2);  // groups a box
    const int lane = fresh_lane();
#pragma unroll
    for (int p = 0; p < (kSeparated ? 1 : kParts); ++p) {
      const int n = first_column(p, d0);
      unsigned words[kCount < 2 ? 4 : kCount * 2] = {};
      if constexpr (kPacks) {
        convert<kCount>(epilogue, sum[p], sum[kParts - 1], columns, p, first_group * 8, lane, words);
      }
#pragma unroll
      for (int g = 0; g < kCount; g += kAtOnce) {
        const int token = (first_group + g) * 8, tokens = min(kAtOnce * 8, static_cast<int>(args_.gemm.m) - token);
        if (tokens <= 0) break;
        __syncwarp();
        if constexpr (kPacks) {
          fill_packed<kAtOnce>(&words[2 * g], lane);
          __syncwarp();
          if (epilogue.has_pieces()) {
            send_pieces<kAtOnce>(epilogue, token, tokens, n, lane);
          } else {
#pragma unroll 1
            for (int i = lane; i < tokens * 2; i += 32) store_packed(epilogue, token, i / 2, n, i % 2 * 8);
          }
        } else {
          fill_floats<kAtOnce>(epilogue, &sum[p][4 * g], &sum[kParts - 1][4 * g], columns, p, token, lane);
          __syncwarp();
          const int box_token = kInterleaved ? lane : lane / 2, column = kInterleaved ? 0 : lane % 2 * 8;
          if (box_token < tokens) store_floats(epilogue, columns[p], token, box_token, n, column);
        }
      }
    }
  }

  // Values of D of `token` from a thread's sums at two rows, 8 apart. `up`: of a separated gate.
  template <class Sum>
  __device__ __forceinline__ GemmPair value(const Epilogue& epilogue, const PartColumns (&columns)[kParts], int part,
                                            int token, Sum upper, Sum lower, Sum upper_up, Sum lower_up) const {
    typename Epilogue::Row row{token, 1.0f};
    if constexpr (kConfig.epilogue == EpilogueKind::kLinear) row.factor = factors_[token];
    if constexpr (kSeparated) {
      return epilogue.gated(row, columns[0].pair[0], columns[1].pair[0], upper, lower, upper_up, lower_up);
    } else if constexpr (kInterleaved) {
      return {gemm_sum(upper), gemm_sum(lower)};
    } else {
      return epilogue.linear(row, columns[part].pair[0], upper, lower);
    }
  }

  // Sums of the tokens from `token` on as words of D, two a group: all of them first, so that no value waits for a box.
  template <int kCount, class Sum, int kWords>
  __device__ __forceinline__ void convert(const Epilogue& epilogue, const Sum (&x)[4 * kCount],
                                          const Sum (&up)[4 * kCount], const PartColumns (&columns)[kParts], int part,
                                          int token, int lane, unsigned (&words)[kWords]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = token + i * 8 + lane % 4 * 2;
      const GemmPair a = value(epilogue, columns, part, at, x[4 * i], x[4 * i + 2], up[4 * i], up[4 * i + 2]);
      const GemmPair b =
          value(epilogue, columns, part, at + 1, x[4 * i + 1], x[4 * i + 3], up[4 * i + 1], up[4 * i + 3]);
      words[i * 2] = Epilogue::pack(a.first, b.first);
      words[i * 2 + 1] = Epilogue::pack(a.second, b.second);
    }
  }
  // [token][16 columns]: matrices of eight columns by eight tokens, transposed as they are stored.
  template <int kCount>
  __device__ __forceinline__ void fill_packed(const unsigned* words, int lane) const {
    const unsigned matrix =
        sm90::shared_address(box_) + (lane % 8 + lane / 16 * 8) * kSkinnyPackedPitch + lane / 8 % 2 * 16;
#pragma unroll
    for (int g = 0; g < kCount; g += 2) {
      sm90::store_matrix_x4_transposed(matrix + g * 8 * kSkinnyPackedPitch, words[2 * g], words[2 * g + 1],
                                       words[2 * g + 2], words[2 * g + 3]);
    }
  }
  // From the box to D, eight columns a thread as they lie there.
  template <int kCount>
  __device__ __forceinline__ void send_pieces(const Epilogue& epilogue, int token, int tokens, int n, int lane) const {
    const unsigned box = sm90::shared_address(box_) + lane / 2 * kSkinnyPackedPitch + lane % 2 * 16;
    const int column = n + lane % 2 * 8;
    char* to = epilogue.address(token + lane / 2, column);
    const int left = column < epilogue.out_n() ? tokens - lane / 2 : 0;
#pragma unroll
    for (int i = 0; i < kCount * 8; i += 16, to += 16 * epilogue.row_bytes()) {
      if (i < left) *reinterpret_cast<uint4*>(to) = sm90::load_words(box + i * kSkinnyPackedPitch);
    }
  }
  // The same where D has other strides or sizes.
  __device__ __forceinline__ void store_packed(const Epilogue& epilogue, int token, int box_token, int n,
                                               int column) const {
    const uint4 words = sm90::load_words(sm90::shared_address(box_) + box_token * kSkinnyPackedPitch + column * 2);
    float values[8];
    Epilogue::unpack(words.x, values[0], values[1]);
    Epilogue::unpack(words.y, values[2], values[3]);
    Epilogue::unpack(words.z, values[4], values[5]);
    Epilogue::unpack(words.w, values[6], values[7]);
    epilogue.store(token + box_token, n + column, values);
  }

  // [token][16 rows of the part] of floats: D's values, or sums that an interleaved gate combines.
  template <int kCount, class Sum>
  __device__ __forceinline__ void fill_floats(const Epilogue& epilogue, const Sum* x, const Sum* up,
                                              const PartColumns (&columns)[kParts], int part, int token,
                                              int lane) const {
    float* const box = reinterpret_cast<float*>(box_);
#pragma unroll
    for (int i = 0; i < 4 * kCount; i += 4) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = i * 2 + lane % 4 * 2 + j;
        const GemmPair y = value(epilogue, columns, part, token + at, x[i + j], x[i + j + 2], up[i + j], up[i + j + 2]);
        box[at * kSkinnyFloatPitch + lane / 4] = y.first;
        box[at * kSkinnyFloatPitch + lane / 4 + 8] = y.second;
      }
    }
  }
  __device__ __forceinline__ void store_floats(const Epilogue& epilogue, const PartColumns& columns, int token,
                                               int box_token, int n, int column) const {
    const float* const box = reinterpret_cast<const float*>(box_) + box_token * kSkinnyFloatPitch + column;
    float values[8];
    if constexpr (kInterleaved) {
      typename Epilogue::Row row{token + box_token, 1.0f};
      if constexpr (kConfig.epilogue == EpilogueKind::kLinear) row.factor = factors_[token + box_token];
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = epilogue.gated(row, columns.pair[i], box[2 * i], box[2 * i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = box[i];
    }
    epilogue.store(token + box_token, n + column, values);
  }

  const GemmSm90SkinnyArgs& args_;
  const GemmSm90SkinnyExchange<kConfig> exchange_;
  unsigned char* const box_;
  const float* const factors_;
};

}  // namespace tilewright
