// SPDX-License-Identifier: MIT
// How fast the inner loop of the AMX kernels runs by where its operands come from (docs/kernels/gemm_cpu.md, "Why AMX
// stops where it does"). A step is four products of a 2 x 2 tile of tiles and the four tiles of 16 lines that they need.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

// Where a stream of lines comes from: the first, second or third level of cache.
enum class Level { kFirst = 1, kSecond = 2, kThird = 3 };

struct AmxLimit {
  Level a, b;
  int column;  // steps of k after which B goes on with other columns, when 8 rows of tiles have passed; 0: a plain walk
  int kept;    // of these, what stays in the first level
  int block;   // steps after which the sums are stored and the next ones loaded; 0: never
  Level sums;  // where these lie
  int fetched;  // lines that a step fetches from the third level to the second, as the columns of B are
  int d_lines;  // lines of D that eight steps write past the caches
};

// Lines that do nothing but come, by the instruction that brings them.
struct LineLimit {
  const char* name;
  void (*run)(char* memory, long long lines);
};

inline constexpr long long kAmxLimitBytes = 32 << 20;  // of `memory`, random operands

struct AmxLimits {
  bool (*has)();
  // `steps` of such steps.
  void (*run)(CpuMma mma, const AmxLimit& limit, char* memory, long long steps);
  const LineLimit* lines;
  int line_count;
};
const AmxLimits& amx_limits();

}  // namespace tilewright
