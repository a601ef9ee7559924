// SPDX-License-Identifier: MIT
#include "core/digest.hpp"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

namespace tilewright {
namespace {

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Digests, MatchTheVectorsOfFips180) {
  EXPECT_EQ(digest_of("").hex(), "e3b0c44298fc1c149afbf4c8996fb924");
  EXPECT_EQ(digest_of("abc").hex(), "ba7816bf8f01cfea414140de5dae2223");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039");
  EXPECT_EQ(digest_of(std::string(1000000, 'a')).hex(), "cdc76e5c9914fb9281a1c7e284d73e67");
}

// Lengths on both sides of where the padding needs another block.
TEST(Digests, PaddingIsRightAroundBlockEnds) {
  const struct {
    size_t length;
    const char* hex;
  } kCases[] = {
      {54, "45f316e10b2c99abf374b22bda893cf3"},  {55, "d5e285683cd4efc02d021a5c62014694"},
      {56, "04c26261370ee7541549d16dee320c72"},  {57, "ae14a2563ccf969d99aca69ce6bb7498"},
      {63, "75220b47218278e656f2013bb8f0c455"},  {64, "7ce100971f64e7001e8fe5a51973ecdf"},
      {65, "9537c5fdf120482f7d58d25e9ed583f5"},  {119, "000b48d4edf0fa7bee3c6236ecd2785b"},
      {120, "13f05a0b594787f5ecd315edc96141bd"}, {127, "70156a14adbabf98cff3a71c7084b417"},
      {128, "24da1b81d0b16df6428eee73c69fcb2a"},
  };
  for (const auto& c : kCases) EXPECT_EQ(digest_of(std::string(c.length, 'x')).hex(), c.hex) << c.length;
}

TEST(Digests, DoNotDependOnHowTheBytesArrive) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (const size_t step : {1u, 3u, 63u, 64u, 65u, 128u}) {
    Digester digester;
    for (size_t at = 0; at < text.size(); at += step)
      digester.update_bytes(bytes_of(text).subspan(at, std::min(step, text.size() - at)));
    EXPECT_EQ(digester.finish(), digest_of(text)) << step;
  }
}

TEST(Digests, WhereOneTextEndsCounts) {
  std::set<Digest> seen;
  seen.insert(Digester().update("ab").update("c").finish());
  seen.insert(Digester().update("a").update("bc").finish());
  seen.insert(Digester().update("abc").finish());
  seen.insert(Digester().update("abc").update("").finish());
  seen.insert(digest_of("abc"));
  EXPECT_EQ(seen.size(), 5u);
}

TEST(Digests, ParseIsTheInverseOfHexAndRefusesTheRest) {
  const Digest digest = digest_of("abc");
  const auto parsed = Digest::parse(digest.hex());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, digest);
  for (const char* text : {"", "ba78", "BA7816BF8F01CFEA414140DE5DAE2223", "ba7816bf8f01cfea414140de5dae222g",
                           "ba7816bf8f01cfea414140de5dae22233"}) {
    EXPECT_FALSE(Digest::parse(text).ok()) << text;
  }
}

TEST(Digests, ServeAsHashKeys) {
  std::unordered_set<Digest, DigestHash> set{digest_of("a"), digest_of("b"), digest_of("a")};
  EXPECT_EQ(set.size(), 2u);
}

}  // namespace
}  // namespace tilewright
