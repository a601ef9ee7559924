// SPDX-License-Identifier: MIT
#include "device/cpu/limits/memory_probes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tilewright {
namespace {

thread_local volatile uint64_t sink;

void read_words(const char* data, int64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t all = 0;
  for (int64_t i = 0; i < bytes / 8; ++i) all ^= words[i];
  sink = all;
}

void copy_words(char* to, const char* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

constexpr MemoryProbe kWords = {read_words, copy_words};

#if defined(__x86_64__)
__attribute__((target("avx2"))) void read_avx2(const char* data, int64_t bytes) {
  const auto* lines = reinterpret_cast<const __m256i*>(data);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (int64_t i = 0; i < bytes / 32; i += 8) {
    a = _mm256_xor_si256(a, _mm256_xor_si256(_mm256_load_si256(lines + i), _mm256_load_si256(lines + i + 4)));
    b = _mm256_xor_si256(b, _mm256_xor_si256(_mm256_load_si256(lines + i + 1), _mm256_load_si256(lines + i + 5)));
    c = _mm256_xor_si256(c, _mm256_xor_si256(_mm256_load_si256(lines + i + 2), _mm256_load_si256(lines + i + 6)));
    d = _mm256_xor_si256(d, _mm256_xor_si256(_mm256_load_si256(lines + i + 3), _mm256_load_si256(lines + i + 7)));
  }
  a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  sink = static_cast<uint64_t>(_mm256_extract_epi64(a, 0));
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

// The limit of the process's control group; a huge number without one.
int64_t memory_limit() {
  int64_t limit = INT64_MAX;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    if (int64_t value = 0; file >> value) limit = std::min(limit, value);  // "max" is no number
  }
  return limit;
}

}  // namespace

const MemoryProbe& memory_probe(const DeviceSpec& spec) {
#if defined(__x86_64__)
  if (spec.arch != nullptr && runs_on("x86-64-v3", spec.arch->target)) return kAvx2;
#endif
  (void)spec;
  return kWords;
}

int64_t memory_probe_bytes(double budget_seconds) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t total = std::min<int64_t>(sysconf(_SC_PHYS_PAGES) * page, memory_limit());
  int64_t bytes = std::min({1024 * kMiB, total / 8, sysconf(_SC_AVPHYS_PAGES) * page / 2});
  if (budget_seconds < 1) bytes = std::min(bytes, static_cast<int64_t>(budget_seconds * 1024) * kMiB);
  return std::max(bytes, 64 * kMiB) / (2 * kMiB) * (2 * kMiB);
}

}  // namespace tilewright
