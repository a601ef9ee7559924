// SPDX-License-Identifier: MIT
// Every fuzz target for a moment, with inputs made from its seeds by a fixed sequence of changes: what libFuzzer does for
// minutes (preset `fuzz`), each build does a little of. TILEWRIGHT_TEST_INPUTS sets the number of inputs a target.
#include "fuzz/fuzz_target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace tilewright::fuzz {
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

// One change: bytes flipped, removed, repeated, replaced by an awkward word, or taken from another input.
void change(Random& random, const std::vector<std::string>& seeds, std::string& text) {
  static const std::string kWords[] = {"0",
                                       "-1",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "4294967296",
                                       "1e999",
                                       "nan",
                                       "inf",
                                       "1e-320",
                                       "",
                                       ",",
                                       ":",
                                       "=",
                                       "/",
                                       "@",
                                       "+",
                                       ".",
                                       "\t",
                                       "\n",
                                       "\\",
                                       "\"",
                                       std::string(1, '\0'),
                                       "\xff\xfe",
                                       std::string(300, 'x')};
  const size_t at = below(random, text.size() + 1), length = below(random, std::min<size_t>(text.size() - at, 16) + 1);
  switch (below(random, 6)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(random, 8)));
      break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    case 3: text.replace(at, length, kWords[below(random, std::size(kWords))]); break;
    case 4: {
      // A number: what stands there is replaced as a whole.
      const size_t digit = text.find_first_of("0123456789", at);
      if (digit == std::string::npos) break;
      const size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
      text.replace(digit, end - digit, kWords[below(random, 9)]);
      break;
    }
    default: {
      const std::string& other = seeds[below(random, seeds.size())];
      const size_t from = below(random, other.size() + 1);
      text.replace(at, length, other.substr(from, below(random, 64)));
      break;
    }
  }
  if (text.size() > 4096) text.resize(4096);
}

class Fuzz : public testing::TestWithParam<size_t> {};

TEST_P(Fuzz, NoInputBreaksAPromise) {
  const Target& target = targets()[GetParam()];
  const char* wanted = std::getenv("TILEWRIGHT_TEST_INPUTS");
  const int count = wanted != nullptr ? std::atoi(wanted) : 3000;
  const std::vector<std::string> seeds = target.seeds();
  for (const std::string& seed : seeds) EXPECT_NO_THROW(target.run(seed)) << seed;
  Random random(20);
  for (int i = 0; i < count; ++i) {
    std::string input = seeds[below(random, seeds.size())];
    for (size_t changes = 1 + below(random, 6); changes > 0; --changes) change(random, seeds, input);
    try {
      target.run(input);
    } catch (const std::exception& error) {
      FAIL() << target.name << ": " << error.what() << "\ninput " << i << ": " << testing::PrintToString(input);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::Range(size_t{0}, targets().size()),
                         [](const auto& info) { return std::string(targets()[info.param].name); });

}  // namespace
}  // namespace tilewright::fuzz
