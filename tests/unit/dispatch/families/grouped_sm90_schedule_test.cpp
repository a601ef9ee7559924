// SPDX-License-Identifier: MIT
// The walk over groups of grouped_gemm_sm90, as a warp of the host: whatever the device says, each tile of each group is
// somebody's once, and none lies beyond a group.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "grouped_gemm/sm90/grouped_sm90_schedule.hpp"

namespace tilewright {
namespace {

// A warp as a loop.
struct LoopLanes {
  template <class T>
  struct Of {
    T own[32];
    constexpr T& operator[](int lane) { return own[lane]; }
    constexpr const T& operator[](int lane) const { return own[lane]; }
  };
  template <class Visit>
  static constexpr void each(const Visit& visit) {
    for (int lane = 0; lane < 32; ++lane) visit(lane);
  }
  template <class T>
  static constexpr T add_before(Of<T>& x) {
    T sum{};
    for (T& value : x.own) {
      const T own = value;
      value = sum;
      sum += own;
    }
    return sum;
  }
  template <class Holds>
  static constexpr int last_where(const Holds& holds) {
    int last = -1;
    for (int lane = 0; lane < 32; ++lane) last = holds(lane) ? lane : last;
    return last;
  }
  template <class T>
  static constexpr T value(const Of<T>& x, int lane) {
    return x[lane];
  }
  static constexpr bool any(const Of<bool>& x) {
    return std::ranges::any_of(x.own, [](bool own) { return own; });
  }
};

// What the device holds.
struct Groups {
  GroupMode mode = GroupMode::kContiguous;
  GroupExtents extents = GroupExtents::kSizes;
  int64 capacity = 0, alignment = 1;
  std::vector<int> sizes, offsets = {};

  int64 count() const { return static_cast<int64>(sizes.size()); }
  GroupArgs args() const {
    GroupArgs a{};
    a.mode = mode, a.extents = extents, a.alignment = alignment;
    a.sizes = sizes.data(), a.offsets = offsets.data();
    a.stride_sizes = a.stride_offsets = 1;
    return a;
  }
  // As a walk in order sees them.
  std::vector<GroupRange> ranges(bool& clamped) const {
    const GroupArgs a = args();
    GroupWalk walk{capacity};
    std::vector<GroupRange> found;
    for (int64 g = 0; g < count(); ++g) found.push_back(walk.next(a, group_numbers(a, g)));
    clamped = walk.clamped;
    return found;
  }
};

template <int kStep, int kTokens, int kGroups>
class Blocks {
 public:
  using Walk = GroupedTiles<LoopLanes, kStep, kTokens, kGroups>;
  Blocks(const Groups& groups, int columns, int raster, int blocks) : args_(groups.args()) {
    for (int b = 0; b < blocks; ++b) walks_.emplace_back(args_, groups.capacity, groups.count(), columns, raster);
  }
  // Each block by turns, every so many-th tile.
  void take_turns() {
    for (size_t b = 0; b < walks_.size(); ++b) {
      for (int index = static_cast<int>(b);; index += static_cast<int>(walks_.size())) {
        if (!take(b, index)) break;
      }
    }
  }
  // From a counter, by whoever comes.
  void take_counted(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<size_t, int>> next;
    for (size_t b = 0; b < walks_.size(); ++b) next.emplace_back(b, static_cast<int>(b));
    int taken = 0;
    while (!next.empty()) {
      const size_t who = random() % next.size();
      if (take(next[who].first, next[who].second)) {
        next[who].second = static_cast<int>(walks_.size()) + taken++;
      } else {
        next.erase(next.begin() + static_cast<std::ptrdiff_t>(who));
      }
    }
  }
  // Every row of every group stands in one tile of each column.
  void check(const Groups& groups, int columns) {
    bool clamped = false;
    const std::vector<GroupRange> ranges = groups.ranges(clamped);
    std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> pieces;  // of (group, column): first row, rows
    for (const GroupedTile& t : tiles_) {
      ASSERT_GE(t.group, 0);
      ASSERT_LT(t.group, groups.count());
      ASSERT_GE(t.column, 0);
      ASSERT_LT(t.column, columns);
      ASSERT_GT(t.rows, 0);
      ASSERT_LE(t.steps * kStep, kTokens);
      // Less than a step is padding.
      ASSERT_GT(t.rows, (t.steps - 1) * kStep);
      ASSERT_LE(t.rows, t.steps * kStep);
      pieces[{t.group, t.column}].emplace_back(t.row, t.rows);
    }
    size_t expected = 0;
    for (int64 g = 0; g < groups.count(); ++g) {
      const GroupRange& range = ranges[static_cast<size_t>(g)];
      if (range.count == 0) continue;
      expected += static_cast<size_t>(columns);
      for (int column = 0; column < columns; ++column) {
        auto& found = pieces[{static_cast<int>(g), column}];
        std::ranges::sort(found);
        int64 at = range.begin;
        for (const auto& [row, rows] : found) {
          ASSERT_EQ(row, at) << "group " << g << " column " << column;
          at += rows;
        }
        ASSERT_EQ(at, range.begin + range.count) << "group " << g << " column " << column;
        ASSERT_EQ(static_cast<int64>(found.size()), (range.count + kTokens - 1) / kTokens);
      }
    }
    ASSERT_EQ(pieces.size(), expected) << "tiles of groups without rows";
    for (const Walk& walk : walks_) ASSERT_EQ(walk.clamped(), clamped);
  }
  const std::vector<GroupedTile>& tiles() const { return tiles_; }

 private:
  bool take(size_t block, int index) {
    GroupedTile tile{};
    if (!walks_[block].take(index, tile)) return false;
    tiles_.push_back(tile);
    return true;
  }
  const GroupArgs args_;
  std::vector<Walk> walks_;
  std::vector<GroupedTile> tiles_;
};

template <int kStep, int kTokens, int kGroups>
void check_blocks(const Groups& groups, int columns, int raster) {
  for (const int blocks : {1, 7, 132}) {
    Blocks<kStep, kTokens, kGroups> turns(groups, columns, raster, blocks);
    turns.take_turns();
    turns.check(groups, columns);
    Blocks<kStep, kTokens, kGroups> counted(groups, columns, raster, blocks);
    counted.take_counted(static_cast<unsigned>(blocks));
    counted.check(groups, columns);
    if (testing::Test::HasFatalFailure()) return;
  }
}
void check_all(const Groups& groups) {
  check_blocks<16, 16, 4>(groups, 3, 8);
  check_blocks<32, 256, 2>(groups, 5, 1);
  check_blocks<16, 128, 2>(groups, 7, 3);
}

std::vector<int> drawn(int groups, int rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> sizes(static_cast<size_t>(groups));
  for (int r = 0; r < rows; ++r) ++sizes[random() % sizes.size()];
  return sizes;
}

TEST(GroupedSm90Schedule, BlocksOfAClusterBringEachRowOnceInHalvesAsEvenAsBoxesAllow) {
  for (const int cluster : {1, 2, 4}) {
    for (int rows = 16; rows <= 256; rows += 16) {
      int at = 0;
      for (int block = 0; block < cluster; ++block) {
        const GroupedShare share = grouped_share(rows, block, cluster);
        EXPECT_EQ(share.first, at);
        EXPECT_EQ(share.end % 16, 0);
        EXPECT_LE(share.end - share.first, (rows / 16 + cluster - 1) / cluster * 16);
        at = share.end;
      }
      EXPECT_EQ(at, rows);
    }
  }
}

TEST(GroupedSm90Schedule, EachTileIsSomebodysOnceHoweverRowsAreSpread) {
  for (const unsigned seed : {1u, 2u}) {
    SCOPED_TRACE(seed);
    check_all({.capacity = 700, .sizes = drawn(5, 700, seed)});
    check_all({.capacity = 2048, .sizes = drawn(256, 2048, seed)});
    check_all({.capacity = 100, .sizes = drawn(1024, 100, seed)});
    if (HasFatalFailure()) return;
  }
}

TEST(GroupedSm90Schedule, OneGroupHasAllRowsOrNoneHasAny) {
  for (const size_t owner : {0u, 63u, 64u, 255u}) {
    std::vector<int> sizes(256);
    sizes[owner] = 1000;
    check_all({.capacity = 1000, .sizes = sizes});
  }
  check_all({.capacity = 0, .sizes = std::vector<int>(40)});
  check_all({.capacity = 100, .sizes = {100}});
}

TEST(GroupedSm90Schedule, NumbersPastWhatThereIsAreClampedAsTheWalkInOrderDoes) {
  for (const unsigned seed : {1u, 2u}) {
    std::mt19937 random(seed);
    std::vector<int> sizes(200);
    for (int& size : sizes) size = static_cast<int>(random() % 60) - 10;
    sizes[100] = 2147483647, sizes[150] = -2147483647;
    check_all({.capacity = 1500, .alignment = 1, .sizes = sizes});
    check_all({.capacity = 1500, .alignment = 128, .sizes = sizes});
    check_all({.mode = GroupMode::kMasked, .capacity = 33, .sizes = sizes});
    if (HasFatalFailure()) return;
  }
}

TEST(GroupedSm90Schedule, OffsetsAndEndsMayReachAnywhere) {
  for (const GroupExtents extents : {GroupExtents::kOffsets, GroupExtents::kEnds, GroupExtents::kBoth}) {
    for (const unsigned seed : {1u, 2u}) {
      std::mt19937 random(seed);
      Groups groups{.extents = extents, .capacity = 900, .sizes = drawn(100, 900, seed)};
      groups.offsets.assign(101, 0);
      std::partial_sum(groups.sizes.begin(), groups.sizes.end(), groups.offsets.begin() + 1);
      if (extents == GroupExtents::kEnds) groups.offsets.erase(groups.offsets.begin());
      check_all(groups);
      for (int i = 0; i < 5; ++i) groups.offsets[random() % 100] = static_cast<int>(random() % 2000) - 500;
      check_all(groups);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(GroupedSm90Schedule, TilesOfRowsThatRunTogetherShareTheirWeights) {
  // 40 tiles of rows, 6 of columns: eight tiles of rows go over all columns before the next eight.
  const Groups groups{.capacity = 640, .sizes = {640}};
  Blocks<16, 16, 2> one(groups, 6, 8, 1);
  one.take_turns();
  ASSERT_EQ(one.tiles().size(), 240u);
  for (size_t i = 0; i < 240; ++i) {
    EXPECT_EQ(one.tiles()[i].column, static_cast<int>(i % 48 / 8));
    EXPECT_EQ(one.tiles()[i].row, static_cast<int>(i / 48 * 8 + i % 8) * 16);
  }
}

TEST(GroupedSm90Schedule, AGroupIsCutInTilesThatDifferByOneStep) {
  const GroupedRows rows = grouped_rows(260, 16, 256);
  EXPECT_EQ(rows.tiles, 2);
  EXPECT_EQ(grouped_piece(rows, 0, 16).steps, 9);
  EXPECT_EQ(grouped_piece(rows, 1, 16).steps, 8);
  EXPECT_EQ(grouped_piece(rows, 1, 16).first, 144);
}

}  // namespace
}  // namespace tilewright
