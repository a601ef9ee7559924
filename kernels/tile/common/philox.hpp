// SPDX-License-Identifier: MIT
// Random numbers that depend on a key and a counter alone, so that they are the same on every device. Freestanding.
#pragma once

namespace tilewright {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011).
struct PhiloxWords {
  unsigned word[4];
};
// The key is `seed`; the counter's lower half is `turn`, its upper half `offset`.
constexpr PhiloxWords philox(unsigned long long seed, unsigned long long offset, unsigned long long turn) {
  unsigned c0 = static_cast<unsigned>(turn), c1 = static_cast<unsigned>(turn >> 32);
  unsigned c2 = static_cast<unsigned>(offset), c3 = static_cast<unsigned>(offset >> 32);
  unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    const unsigned next0 = static_cast<unsigned>(b >> 32) ^ c1 ^ k0, next2 = static_cast<unsigned>(a >> 32) ^ c3 ^ k1;
    c0 = next0, c1 = static_cast<unsigned>(b), c2 = next2, c3 = static_cast<unsigned>(a);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Seeds and their like: the index'th number, of one word, which has a sign, or of two, the lower one first. Absent: 0.
constexpr unsigned long long number_of_words(const int* words, int count, long long index) {
  if (words == nullptr) return 0;
  const auto low = static_cast<unsigned>(words[index * count]);
  const int high = count == 2 ? words[index * 2 + 1] : words[index] >> 31;
  return static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | low;
}

}  // namespace tilewright
