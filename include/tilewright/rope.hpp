// SPDX-License-Identifier: MIT
// rope: rotary embedding. Pairs of a head's first elements turn by the angle of their token: (a, b) becomes
// (a cos - b sin, b cos + a sin).
//
// Shapes: q, q_out [..., heads, D]; k, k_out [..., heads of k, D]; cos, sin [P, R / 2], R even and at most D: elements behind R are
// copied; positions [...], i32, rows of the tables; without them a token's number along the last dimension of tokens. With sections
// positions are [axes, ...], and each pair takes those of its section's axis (MRoPE, images, video). With cumulative_lengths
// [sequences + 1], i32, q is [tokens, heads, D], and a token's position is its place in its sequence, plus offsets [sequences]. Elements of
// a head and of a table's row are neighbours, everything else has any strides; at most two dimensions of tokens stay apart.
// Dtypes: q, k and their outputs f32, f16, bf16, all the same; cos and sin the same one of these. Arithmetic: f32.
// Sizes: D is exact, numbers of tokens and heads bucketed. Size 0 is legal. Tokens whose position is beyond the tables become NaN.
// Aliasing: q_out may be q, k_out may be k, the same elements; q and k may be heads of one packed tensor; else what is written
// may overlap nothing. docs/rope.md has the contract.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "tile/common/row_rotation.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct RopeCall {
  TensorView q, q_out;
  TensorView k{}, k_out{};  // optional
  TensorView cos, sin;
  TensorView positions{};                     // optional
  bool interleaved = false;                   // pairs are neighbours (GPT-J), not R / 2 apart (NeoX)
  bool inverse = false;                       // by the negative angle: the gradient
  std::array<int64_t, kRopeAxes> sections{};  // pairs of each axis of the positions, R / 2 in all; none: one axis
  RopeSections section_order = RopeSections::kRuns;
  TensorView cumulative_lengths{}, offsets{};  // optional: q is packed sequences
  std::string recipe;                          // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status rope(Context& context, const RopeCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status rope_prepare(Context& context, const RopeCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> rope_query(Context& context, const RopeCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> rope_explain(Context& context, const RopeCall& call, const Exec& exec = {});

// How models stretch the angles beyond the length that they were trained on.
enum class RopeScaling : unsigned char { kNone, kLinear, kLlama3, kYarn, kLongRope };
struct RopeFrequencies {
  int dims = 128;  // R
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double original_length = 0;                    // llama3, yarn, longrope
  double low_frequency = 1, high_frequency = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;          // yarn
  std::vector<double> factors{};                 // longrope: one for each pair, short or long as the length asks
  double attention = 0;                          // factor of cos and sin; 0: what the scaling has
  std::vector<int> sections{};  // pairs of sections whose angles begin anew: those of images and video, but not MRoPE's
};
// Angles of position 1, [dims / 2], and the factor of cosines and sines.
struct RopeAngles {
  std::vector<double> per_position;
  double attention = 1;
};
TILEWRIGHT_API Result<RopeAngles> rope_angles(const RopeFrequencies& frequencies);
// Rows `first` to `first + rows` of both tables, [rows, dims / 2], each entry rounded once from double.
TILEWRIGHT_API Status rope_tables(const RopeAngles& angles, int64_t first, int64_t rows, std::span<float> cos,
                                  std::span<float> sin);

// The same of any positions, a row each.
TILEWRIGHT_API Status rope_tables(const RopeAngles& angles, std::span<const int64_t> positions, std::span<float> cos,
                                  std::span<float> sin);

// Dual chunk attention: the position by which a key, or one of the five forms of a query, turns. `chunk` is longer than `local`.
enum class RopeChunkForm : unsigned char {
  kKey,
  kQuery,               // to keys of its chunk
  kSuccessive,          // of the chunk before
  kInter,               // of chunks before that
  kSuccessiveCritical,  // the last two for the keys that matter most, whose distances are not cut off
  kInterCritical,
};
constexpr int64_t rope_chunk_position(RopeChunkForm form, int64_t position, int64_t chunk, int64_t local) {
  const int64_t length = chunk - local, place = position % length;
  switch (form) {
    case RopeChunkForm::kSuccessive: return place + length < chunk ? place + length : chunk;
    case RopeChunkForm::kInter: return 2 * length - 1 < chunk ? 2 * length - 1 : chunk;
    case RopeChunkForm::kSuccessiveCritical: return place + length;
    case RopeChunkForm::kInterCritical: return place + chunk;
    default: return place;
  }
}

}  // namespace tilewright
