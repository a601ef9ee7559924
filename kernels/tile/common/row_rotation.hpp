// SPDX-License-Identifier: MIT
// How pairs of a row's elements turn: tables of angles, where a token's rows of them are, and which of these a pair takes.
// Freestanding.
#pragma once

#include "tile/common/dtype.hpp"

namespace tilewright {

// Which pairs take which axis' positions, where a token has several: time, height, width.
enum class RopeSections : unsigned char {
  kRuns,         // the first pairs take the first axis, and so on
  kInterleaved,  // axes take turns as long as they have pairs left; the first has those behind
  kParts,        // runs, each of them a part of the head: pairs are half of that apart
};
inline constexpr const char* kRopeSectionsNames[] = {"runs", "interleaved", "parts"};
constexpr const char* const* enum_names(RopeSections) { return kRopeSectionsNames; }
constexpr int enum_count(RopeSections) { return 3; }

inline constexpr int kRopeAxes = 4;  // that positions may have

// Pairs begin, begin + step and so on, before end.
struct RowSection {
  int begin, end, step;
};

// Cosines and sines [table_rows, dims / 2] of the pairs of a row's first `dims` elements.
struct RowRotation {
  const void *cosine, *sine;
  const int* positions;          // rows of the tables; null = the row's number along the second dimension
  long long stride_position[2];  // along the first two dimensions
  long long stride_axis;
  const int*
      sequences;  // where each begins among the tokens of the second dimension, and where the last ends; null = absent
  const int* offsets;  // of positions, one a sequence; null = absent
  long long sequence_count;
  long long table_rows, stride_table;
  long long dims;
  long long heads;  // along the third dimension, of x; those behind it are the residual's
  RowSection section[kRopeAxes];
  int axes;
  DType table;
  bool interleaved;  // pairs are neighbours, not half of `dims` apart
  bool inverse;
  bool parts;  // each section is a part of the row by itself; not with pairs of neighbours, where that is no difference
};

// The last of `count` sequences that begins at `token` or before it, the first where none does.
constexpr long long sequence_of(const int* begins, long long count, long long token) {
  long long low = 0, high = count;
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    (begins[middle] <= token ? low : high) = middle;
  }
  return low;
}
// A token's place in its sequence. One of no sequence has 0: with usual tables it does not turn.
constexpr long long sequence_position(const RowRotation& r, long long token) {
  const long long s = sequence_of(r.sequences, r.sequence_count, token);
  if (r.sequence_count < 1 || token < r.sequences[s] || token >= r.sequences[s + 1]) return 0;
  return token - r.sequences[s] + (r.offsets == nullptr ? 0 : r.offsets[s]);
}

// What turns the heads of a token. Angles of positions outside the tables are NaN.
struct RowAngles {
  const char *cosine, *sine;
  float known, sign;  // factors of both
};
constexpr RowAngles angles_at(const RowRotation& r, long long position) {
  const bool known = position >= 0 && position < r.table_rows;
  const long long angle = known ? position * r.stride_table * dtype_bits(r.table) / 8 : 0;
  const float one = known ? 1.0f : __builtin_bit_cast(float, 0x7FC00000u);
  return {static_cast<const char*>(r.cosine) + angle, static_cast<const char*>(r.sine) + angle, one,
          r.inverse ? -one : one};
}

// Of `count` pairs from n on those that a section has, as bits.
constexpr unsigned section_bits(const RowSection& s, int n, int count) {
  unsigned bits = 0;
  const int behind = n > s.begin ? (n - s.begin) % s.step : 0;
  for (int i = n < s.begin ? s.begin - n : (behind == 0 ? 0 : s.step - behind); i < count && n + i < s.end;
       i += s.step) {
    bits |= 1u << i;
  }
  return bits;
}
// Those that take an axis' positions: the first axis has what the others leave.
constexpr unsigned axis_bits(const RowRotation& r, int axis, long long n, int count) {
  if (axis > 0) return section_bits(r.section[axis], static_cast<int>(n), count);
  unsigned others = 0;
  for (int i = 1; i < r.axes; ++i) others |= section_bits(r.section[i], static_cast<int>(n), count);
  return ~others;
}

// Pairs that lie half of so many elements apart: all, or a section each. Number `i` of them.
constexpr int turned_runs(const RowRotation& r) { return r.parts ? r.axes : 1; }
struct RowTurn {
  long long begin, pairs;
};
constexpr RowTurn turned_run(const RowRotation& r, int i) {
  if (!r.parts) return {0, r.dims / 2};
  return {r.section[i].begin, r.section[i].end - r.section[i].begin};
}
// The run that has pair n.
constexpr RowTurn turned_run_of(const RowRotation& r, long long n) {
  int i = 0;
  while (i + 1 < turned_runs(r) && n >= r.section[i].end) ++i;
  return turned_run(r, i);
}

}  // namespace tilewright
