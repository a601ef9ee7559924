// SPDX-License-Identifier: MIT
#include "device/cpu/limits/memory_probes.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "device/host_memory.hpp"

namespace tilewright {
namespace {

thread_local volatile uint64_t memory_sink;

constexpr int64_t kTurnBytes = 256;  // of one stream, before the next one's turn
constexpr int64_t kAheadBytes = 1024;

void read_words(const char* data, int64_t bytes, const ReadPattern& pattern) {
  const int64_t part = bytes / pattern.streams / kTurnBytes * kTurnBytes;
  uint64_t all = 0;
  const auto turn = [&all](const char* from, int64_t size) {
    for (int64_t i = 0; i < size / 8; ++i) all ^= reinterpret_cast<const uint64_t*>(from)[i];
  };
  for (int64_t at = 0; at < part; at += kTurnBytes) {
    for (int stream = 0; stream < pattern.streams; ++stream) turn(data + stream * part + at, kTurnBytes);
  }
  turn(data + pattern.streams * part, bytes - pattern.streams * part);
  memory_sink = all;
}

void copy_words(char* to, const char* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

constexpr MemoryProbe kWords = {read_words, copy_words};

#if defined(__x86_64__)
// One turn, folded into four sums. Marked so that it is inlined into the loop over streams.
template <bool kPrefetch>
__attribute__((target("avx2"), always_inline)) inline void read_turn(const char* turn, __m256i (&sums)[4]) {
  const auto* lines = reinterpret_cast<const __m256i*>(turn);
  if constexpr (kPrefetch) {
    for (int64_t at = 0; at < kTurnBytes; at += 64) _mm_prefetch(turn + kAheadBytes + at, _MM_HINT_T0);
  }
  for (int64_t i = 0; i < kTurnBytes / 32; i += 4) {
    for (int l = 0; l < 4; ++l) sums[l] = _mm256_xor_si256(sums[l], _mm256_load_si256(lines + i + l));
  }
}

template <bool kPrefetch>
__attribute__((target("avx2"))) void read_streams(const char* data, int64_t bytes, int streams) {
  __m256i sums[4] = {};
  const int64_t part = bytes / streams / kTurnBytes * kTurnBytes;
  for (int64_t at = 0; at < part; at += kTurnBytes) {
    for (int stream = 0; stream < streams; ++stream) read_turn<kPrefetch>(data + stream * part + at, sums);
  }
  for (int64_t at = streams * part; at < bytes; at += kTurnBytes) read_turn<kPrefetch>(data + at, sums);
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  memory_sink = static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

void read_avx2(const char* data, int64_t bytes, const ReadPattern& pattern) {
  pattern.prefetch ? read_streams<true>(data, bytes, pattern.streams)
                   : read_streams<false>(data, bytes, pattern.streams);
}

// Stores that pass the caches: ordinary ones would read each line before they write it.
__attribute__((target("avx2"))) void copy_avx2(char* to, const char* from, int64_t bytes) {
  const auto* in = reinterpret_cast<const __m256i*>(from);
  auto* out = reinterpret_cast<__m256i*>(to);
  for (int64_t i = 0; i < bytes / 32; i += 4) {
    const __m256i a = _mm256_load_si256(in + i), b = _mm256_load_si256(in + i + 1);
    const __m256i c = _mm256_load_si256(in + i + 2), d = _mm256_load_si256(in + i + 3);
    _mm256_stream_si256(out + i, a);
    _mm256_stream_si256(out + i + 1, b);
    _mm256_stream_si256(out + i + 2, c);
    _mm256_stream_si256(out + i + 3, d);
  }
  _mm_sfence();
}

constexpr MemoryProbe kAvx2 = {read_avx2, copy_avx2};
#endif

constexpr int64_t kMiB = int64_t{1} << 20;

}  // namespace

const MemoryProbe& memory_probe(const DeviceSpec& spec) {
#if defined(__x86_64__)
  if (spec.arch != nullptr && runs_on("x86-64-v3", spec.arch->target)) return kAvx2;
#endif
  (void)spec;
  return kWords;
}

int64_t memory_probe_bytes(const DeviceSpec& spec, double budget_seconds) {
  int64_t bytes = cold_footprint(spec, 1.0 / 8).bytes;
  if (budget_seconds < 1) bytes = std::min(bytes, static_cast<int64_t>(std::max(0.0, budget_seconds) * 1024) * kMiB);
  return std::max(bytes, 64 * kMiB) / (2 * kMiB) * (2 * kMiB);
}

}  // namespace tilewright
