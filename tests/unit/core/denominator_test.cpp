// SPDX-License-Identifier: MIT
// Division by a number that the host knows: exact at both sides of each multiple, up to 2^31.
#include "tile/common/denominator.hpp"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

constexpr unsigned kLargest = 0x7FFFFFFF;

TEST(Denominator, QuotientsAreExact) {
  for (const unsigned by : {1u, 2u, 3u, 7u, 8u, 11u, 32u, 641u, 65535u, 65536u, 1000003u, 0x40000000u, kLargest}) {
    const Denominator d = denominator(by);
    for (const unsigned whole : {0u, 1u, 2u, 5u, 131u, kLargest / by / 2, kLargest / by - 1, kLargest / by}) {
      if (whole > kLargest / by) continue;
      const unsigned multiple = whole * by;
      for (const unsigned x : {multiple, multiple + 1, multiple + by - 1, multiple == 0 ? 0 : multiple - 1}) {
        if (x > kLargest) continue;
        EXPECT_EQ(divided(x, d), x / by) << x << " / " << by;
      }
    }
    EXPECT_EQ(divided(kLargest, d), kLargest / by);
  }
}

}  // namespace
}  // namespace tilewright
