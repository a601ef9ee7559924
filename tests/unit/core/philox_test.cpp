// SPDX-License-Identifier: MIT
#include "tile/common/philox.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tilewright {
namespace {

// Known answers of Random123's distribution: philox4x32 10.
TEST(Philox, GivesItsKnownAnswers) {
  const auto words = [](uint64_t seed, uint64_t offset, uint64_t turn) {
    const PhiloxWords w = philox(seed, offset, turn);
    return std::vector<unsigned>(w.word, w.word + 4);
  };
  EXPECT_EQ(words(0, 0, 0), (std::vector<unsigned>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(words(~0ull, ~0ull, ~0ull), (std::vector<unsigned>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(words(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u),
            (std::vector<unsigned>{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

}  // namespace
}  // namespace tilewright
