// SPDX-License-Identifier: MIT
// Which row of three dimensions a row's number means: found by multiplication where there are few, by division where there are many.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tile/common/row_args.hpp"

namespace tilewright {
namespace {

RowArgs args_of(const std::array<long long, kRowDims>& size) {
  RowArgs args{};
  std::copy(size.begin(), size.end(), args.size);
  args.rows = size[0] * size[1] * size[2];
  if (args.rows >> 31 != 0) return args;  // and none of them is asked for
  args.middle = denominator(static_cast<unsigned>(size[1])), args.inner = denominator(static_cast<unsigned>(size[2]));
  return args;
}

TEST(RowIndex, EachRowsNumberIsFoundFromItsIndex) {
  for (const auto& size : {std::array<long long, kRowDims>{1, 1, 7},
                           {2, 16384, 40},
                           {3, 1, 1},
                           {641, 77, 5},
                           {1, 0x7FFFFFFF, 1},
                           {3, 5, 0x40000000},
                           {1, 1 << 17, 1 << 16}}) {
    const RowArgs args = args_of(size);
    for (const long long row : {0LL, 1LL, size[2] - 1, size[2], size[1] * size[2] - 1, size[1] * size[2], args.rows / 3,
                                args.rows - 2, args.rows - 1}) {
      if (row < 0 || row >= args.rows) continue;
      const RowIndex at = row_index(args, row);
      EXPECT_EQ(row_number(args, at), row) << size[0] << " x " << size[1] << " x " << size[2];
      for (int i = 0; i < kRowDims; ++i) EXPECT_LT(at.i[i], size[static_cast<size_t>(i)]) << row;
    }
  }
}

}  // namespace
}  // namespace tilewright
