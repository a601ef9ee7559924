// SPDX-License-Identifier: MIT
// What host and sample's kernels share: the argument struct, the configs, where the workspace's parts lie, and the rules that both
// compute: a row's options, the order of tokens, random numbers. Freestanding.
#pragma once

#include "tile/common/token_order.hpp"

namespace tilewright {

// Where top_k and top_p meet: top_p of the mass of all tokens (AITER), or of the mass of the k (flashinfer's top_k_first).
enum class SampleJoint : unsigned char { kOriginalMass, kTopKFirst };
inline constexpr const char* kSampleJointNames[] = {"original_mass", "top_k_first"};
constexpr const char* const* enum_names(SampleJoint) { return kSampleJointNames; }
constexpr int enum_count(SampleJoint) { return 2; }

// Steps of a GPU's kernel: chunks of rows alone, what follows of all chunks of a row, chunks again, the token.
enum class SampleStep : unsigned char { kFind, kMerge, kDraw, kChoose };

struct SampleArgs {
  long long rows, vocabulary, stride;  // of rows of logits
  const void* logits;                  // [rows, vocabulary]
  // One a row; null = none.
  const float *temperature, *top_p, *min_p;
  const int *top_k, *seeds, *offsets;
  int* ids;
  float* log_probabilities;
  char* workspace;
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

// Masses are whole numbers, so that sums have no order: 2^40 is the most likely token's.
inline constexpr float kMassUnit = 0x1p40f;
constexpr unsigned long long whole_mass(float share) {
  // The same on every device, which has no <cmath>. NOLINTNEXTLINE(bugprone-incorrect-roundings)
  return static_cast<unsigned long long>(share * kMassUnit + 0.5f);
}

// ---- A row's options ---------------------------------------------------------------------------------------------------

struct SampleRule {
  bool greedy;
  float inverse;             // 1 / temperature
  unsigned top_k;            // kAllTokens = off
  bool has_top_p;            // else all of the mass
  unsigned long long share;  // top_p in units of 2^-32
  float floor;               // of (x - max) / temperature, from min_p
  unsigned long long seed, offset;
};
inline constexpr unsigned kAllTokens = 0xFFFFFFFFu;

constexpr unsigned long long number_of_words(const int* words, int count, long long row) {
  if (words == nullptr) return 0;
  const auto low = static_cast<unsigned>(words[row * count]);
  const int high = count == 2 ? words[row * 2 + 1] : words[row] >> 31;
  return static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | low;
}
constexpr SampleRule sample_rule(const SampleArgs& a, long long row) {
  SampleRule rule{a.greedy, 1, kAllTokens, false, 0, kNoToken, 0, 0};
  if (a.greedy) return rule;
  if (a.temperature != nullptr) {
    const float t = a.temperature[row];
    rule.greedy = !(t >= kLeastTemperature);
    if (!rule.greedy) rule.inverse = 1 / t;
  }
  if (a.top_k != nullptr && a.top_k[row] > 0 && a.top_k[row] < a.vocabulary) {
    rule.top_k = static_cast<unsigned>(a.top_k[row]);
  }
  if (a.top_p != nullptr && a.top_p[row] < 1) {
    rule.has_top_p = true;
    const float p = a.top_p[row];
    rule.share = static_cast<unsigned long long>((p > 0 ? p : 0) * 0x1p32f);
  }
  if (a.min_p != nullptr && a.min_p[row] > 0) {
    const float p = a.min_p[row];
    rule.floor = p < 1 ? -log_of_sum(1 / p) : 0;
  }
  rule.seed = number_of_words(a.seeds, a.seed_words, row);
  rule.offset = number_of_words(a.offsets, a.offset_words, row);
  return rule;
}
constexpr bool has_cut(const SampleRule& r) { return !r.greedy && (r.top_k != kAllTokens || r.has_top_p); }
constexpr bool has_floor(const SampleRule& r) { return !r.greedy && r.floor > kNoToken; }

constexpr unsigned long long share_of(unsigned long long mass, unsigned long long share) {
  const unsigned long long part = (mass >> 32) * share + ((mass & 0xFFFFFFFFu) * share >> 32);
  return part > 0 ? part : 1;  // one token always belongs to it
}
// ---- Random numbers ----------------------------------------------------------------------------------------------------

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011): four words for four
// neighbouring tokens. The key is the row's seed, the counter the tokens' number / 4 and the row's offset.
struct PhiloxWords {
  unsigned word[4];
};
constexpr PhiloxWords philox(unsigned long long seed, unsigned long long offset, unsigned tokens) {
  unsigned c0 = tokens, c1 = 0, c2 = static_cast<unsigned>(offset), c3 = static_cast<unsigned>(offset >> 32);
  unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    const unsigned next0 = static_cast<unsigned>(b >> 32) ^ c1 ^ k0, next2 = static_cast<unsigned>(a >> 32) ^ c3 ^ k1;
    c0 = next0, c1 = static_cast<unsigned>(b), c2 = next2, c3 = static_cast<unsigned>(a);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
// A share of 0 to 1, both excluded, near 0 as fine as floats are.
constexpr float share_of_word(unsigned word) {
  const float t = (static_cast<float>(word) + 0.5f) * 0x1p-32f;
  return t < 0x1.FFFFFEp-1f ? t : 0x1.FFFFFEp-1f;
}
// -log(1 - t) by its series, for t up to kSmallShare.
inline constexpr float kSmallShare = 0x1p-6f;
constexpr float small_exponential(float t) { return t + t * t * (0.5f + t * (1.0f / 3 + t * 0.25f)); }

// ---- A GPU's workspace -------------------------------------------------------------------------------------------------

inline constexpr int kSampleChunk = 2 * kSelectThreads * kRowPiece, kSampleListed = 1024;
inline constexpr int kSampleSharedBytes = kSelectSharedBytes + 40960;  // with the lists of a row

struct SampleChunk {
  float most, sum;  // of logits; of exponentials of differences from it
  unsigned listed;  // tokens at the cut; more than kSampleListed: none is in the list
  unsigned reserved;
  long long best;  // the drawn token's id, -1 = none
};
// Tokens by their logits over the temperature, in steps of an eighth of an octave from the chunk's largest on; the last has the rest.
struct SampleBins {
  unsigned count[kSelectBins], mass[kSelectBins];
};
// Bins before `first` are of the choice, those from it to `last` hold the cut.
struct SampleCut {
  float most;
  int first, last;
  unsigned count;  // of bins before `first`, and their mass
  unsigned long long mass, total;
};
struct SampleListed {
  float x;
  unsigned id;
};
struct SampleWorkspace {
  SampleChunk* chunks;
  SampleCut* cuts;
  SampleBins* bins;
  SampleListed* lists;
};
constexpr long long sample_workspace_bytes(long long rows, long long chunks, bool cuts) {
  const long long items = rows * chunks;
  long long bytes = items * static_cast<long long>(sizeof(SampleChunk));
  if (!cuts) return bytes;
  bytes += rows * static_cast<long long>(sizeof(SampleCut)) + items * static_cast<long long>(sizeof(SampleBins));
  return bytes + items * kSampleListed * static_cast<long long>(sizeof(SampleListed));
}

}  // namespace tilewright
