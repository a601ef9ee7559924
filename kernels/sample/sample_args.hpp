// SPDX-License-Identifier: MIT
// What host and sample's kernels share: the argument struct, the config, a row's options, where the workspace's parts lie. Freestanding.
#pragma once

#include "tile/common/philox.hpp"
#include "tile/common/token_order.hpp"

namespace tilewright {

// Where top_k and top_p meet: top_p of the mass of all tokens (AITER), or of the mass of the k (flashinfer's top_k_first).
enum class SampleJoint : unsigned char { kOriginalMass, kTopKFirst };
inline constexpr const char* kSampleJointNames[] = {"original_mass", "top_k_first"};
constexpr const char* const* enum_names(SampleJoint) { return kSampleJointNames; }
constexpr int enum_count(SampleJoint) { return 2; }

// Steps of a GPU's kernel: chunks of rows alone, then a row's token.
enum class SampleStep : unsigned char { kFind, kChoose };

struct SampleChunk {
  float most, sum;  // of logits; of exponentials of differences from it
  long long best;   // the place in it of the first of the largest, where the row is greedy; -1 = none
};
// Tokens by their places, from the chunk's largest on; the last bin has the rest.
struct SampleBins {
  unsigned count[kSelectBins], mass[kSelectBins];
};

struct SampleArgs {
  long long rows, vocabulary, stride;  // of rows of logits
  const void* logits;                  // [rows, vocabulary]
  // One a row; null = none.
  const float *temperature, *top_p, *min_p;
  const int *top_k, *seeds, *offsets;
  int* ids;
  float* log_probabilities;
  SampleChunk* found;      // GPU: [rows, chunks] in the workspace, and behind them
  SampleBins* bins;        // the same of rows that are not greedy
  long long chunks, grid;  // GPU: chunks of a row, blocks
  DType x;
  SampleJoint joint;
  SampleStep step;
  unsigned char seed_words, offset_words, id_words;  // 32-bit words of a number, the low one first
  bool greedy;
};

// kNone: typed at run time.
struct SampleConfig {
  static constexpr const char* kTypeName = "SampleConfig";
  DType x;

  bool operator==(const SampleConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
  }
};

inline constexpr float kNoToken = __builtin_bit_cast(float, 0xFF800000u), kMostLogit = 0x1.FFFFFEp127f;
inline constexpr float kLeastTemperature = 1e-5f;  // below it a row is greedy

// ---- A row's options ---------------------------------------------------------------------------------------------------

inline constexpr unsigned kAllTokens = 0xFFFFFFFFu;
struct SampleRule {
  bool greedy;
  float inverse = 1;             // 1 / temperature
  unsigned top_k = kAllTokens;   // kAllTokens = off
  bool has_top_p = false;        // else all of the mass
  unsigned long long share = 0;  // top_p in units of 2^-32
  float floor = kNoToken;        // of (x - max) / temperature, from min_p
  unsigned long long seed = 0, offset = 0;
};

constexpr void set_temperature(SampleRule& rule, float t) {
  rule.greedy = !(t >= kLeastTemperature);
  // Beyond 2^100 all are alike; and minus infinity stays what it is.
  if (!rule.greedy) rule.inverse = t < 0x1p100f ? 1 / t : 0x1p-100f;
}
constexpr unsigned limited_top_k(int k, long long vocabulary) {
  return k > 0 && k < vocabulary ? static_cast<unsigned>(k) : kAllTokens;
}
constexpr SampleRule sample_rule(const SampleArgs& a, long long row) {
  SampleRule rule{a.greedy};
  if (a.greedy) return rule;
  // All numbers are asked for before one is needed.
  const float t = a.temperature == nullptr ? 1 : a.temperature[row], top_p = a.top_p == nullptr ? 1 : a.top_p[row],
              min_p = a.min_p == nullptr ? 0 : a.min_p[row];
  const int top_k = a.top_k == nullptr ? 0 : a.top_k[row];
  rule.seed = number_of_words(a.seeds, a.seed_words, row);
  rule.offset = number_of_words(a.offsets, a.offset_words, row);
  set_temperature(rule, t);
  rule.top_k = limited_top_k(top_k, a.vocabulary);
  if (top_p < 1) {
    rule.has_top_p = true;
    rule.share = static_cast<unsigned long long>((top_p > 0 ? top_p : 0) * 0x1p32f);
  }
  if (min_p > 0) rule.floor = min_p < 1 ? -log_of_sum(1 / min_p) : 0;
  return rule;
}
constexpr bool has_floor(const SampleRule& r) { return r.floor > kNoToken; }
// Whether top_p is of the mass of the k.
constexpr bool weighs_the_k(const SampleArgs& a, const SampleRule& r) {
  return r.has_top_p && a.joint == SampleJoint::kTopKFirst && r.top_k != kAllTokens;
}
constexpr unsigned long long share_of(unsigned long long mass, unsigned long long share) {
  const unsigned long long part = (mass >> 32) * share + ((mass & 0xFFFFFFFFu) * share >> 32);
  return part > 0 ? part : 1;  // one token always belongs to it
}

// ---- A GPU's workspace -------------------------------------------------------------------------------------------------

inline constexpr int kSampleChunk = 2 * kSelectThreads * kRowPiece;
// With a row's tokens at the cut, and what is known of the row.
inline constexpr int kSampleGathered = 5120;
inline constexpr int kSampleSharedBytes = kSelectSharedBytes + kSampleGathered * 8 + kSelectBins * 16 + 256;

constexpr long long sample_workspace_bytes(long long rows, long long chunks, bool draws) {
  return rows * chunks * static_cast<long long>(sizeof(SampleChunk) + (draws ? sizeof(SampleBins) : 0));
}

}  // namespace tilewright
