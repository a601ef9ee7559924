// SPDX-License-Identifier: MIT
// Which tile has which number: the groups' numbers, read from device memory by a warp, become a numbering of all tiles.
// Host and kernel share it: what 32 lanes do together is a parameter (tests give a loop). Freestanding.
//
//   Lanes::Of<T>              a value of each lane, x[lane]
//   Lanes::each(visit)        visit(lane)
//   Lanes::add_before(x)      x[lane] becomes the sum of x of all lanes in front; returns the sum of all
//   Lanes::last_where(holds)  the last lane where holds(lane)
//   Lanes::value(x, lane)     x[lane], for all
//   Lanes::any(x)             whether x[lane] holds anywhere
#pragma once

#include "grouped_gemm/sm90/grouped_sm90_args.hpp"

namespace tilewright {

// Tiles in the order of their numbers: group by group; in a group `raster` tiles of rows together, rows inside and columns
// outside, so that what runs at a time shares weights and rows in the second level of cache.
// A lane reads the numbers of `kGroups` groups at once.
template <class Lanes, int kStep, int kTokens, int kGroups>
class GroupedTiles {
 public:
  // `capacity`: rows there are, masked: of one group. `columns`: tiles of the weights of a group.
  constexpr GroupedTiles(const GroupArgs& args, int64 capacity, int64 groups, int columns, int raster)
      : args_(args),
        capacity_(capacity),
        groups_(static_cast<int>(groups)),
        columns_(columns),
        raster_(raster),
        next_(0),
        cursor_(0),
        end_(0),
        clamped_(false) {}

  // Tile `index`; false when there are fewer. Indices never go back, and stay below 2^31 (the host sees to it).
  constexpr bool take(int index, GroupedTile& tile) {
    while (index >= end_) {
      if (next_ >= groups_) return false;
      read_groups();
    }
    const int lane = Lanes::last_where([&](int l) { return first_[l] <= index; });
    // Each lane looks among its own groups; who has the tile tells.
    typename Lanes::template Of<int> group, begin, count, inside;
    Lanes::each([&](int l) {
      int first = first_[l];
      group[l] = begin[l] = count[l] = inside[l] = 0;
      for (int i = 0; i < kGroups; ++i) {
        const int tiles = tiles_of(count_[i][l]);
        if (index >= first && index < first + tiles) {
          group[l] = window_ + l * kGroups + i;
          begin[l] = begin_[i][l], count[l] = count_[i][l];
          inside[l] = index - first;
        }
        first += tiles;
      }
    });
    place(Lanes::value(group, lane), Lanes::value(begin, lane), Lanes::value(count, lane), Lanes::value(inside, lane),
          tile);
    return true;
  }
  // In place of take(): visit(group, its first row, how many, the number of its first tile) of each group that has rows, by the lane that
  // read it. Returns how many tiles there are.
  template <class Visit>
  constexpr int each_group(const Visit& visit) {
    while (next_ < groups_) {
      read_groups();
      Lanes::each([&](int l) {
        int first = first_[l];
        for (int i = 0; i < kGroups; ++i) {
          if (count_[i][l] > 0) visit(window_ + l * kGroups + i, begin_[i][l], count_[i][l], first);
          first += tiles_of(count_[i][l]);
        }
      });
    }
    return end_;
  }
  // Whether any group that was looked at had numbers past what there is.
  constexpr bool clamped() const { return clamped_; }

 private:
  constexpr int tiles_of(int count) const { return grouped_rows(count, kStep, kTokens).tiles * columns_; }

  // The next groups: where they lie, and which tile each lane's begin with.
  constexpr void read_groups() {
    window_ = next_;
    next_ += 32 * kGroups;
    typename Lanes::template Of<GroupNumbers> numbers[kGroups];
    typename Lanes::template Of<int64> room;
    typename Lanes::template Of<int> tiles;
    Lanes::each([&](int l) {
      room[l] = 0;
      for (int i = 0; i < kGroups; ++i) {
        const int g = window_ + l * kGroups + i;
        numbers[i][l] = g < groups_ ? group_numbers(args_, g) : GroupNumbers{0, 0};
      }
      if (args_.extents != GroupExtents::kSizes || args_.mode == GroupMode::kMasked) return;
      for (int i = 0; i < kGroups; ++i) {
        const int64 size = numbers[i][l].second;
        const int64 rounded = size <= 0 ? 0 : (size + args_.alignment - 1) / args_.alignment * args_.alignment;
        room[l] += rounded < capacity_ ? rounded : capacity_;
      }
    });
    const int64 all = Lanes::add_before(room);
    typename Lanes::template Of<bool> wrong;
    Lanes::each([&](int l) {
      const int64 begin = cursor_ + room[l];
      GroupWalk walk{capacity_, begin < capacity_ ? begin : capacity_};
      tiles[l] = 0;
      for (int i = 0; i < kGroups; ++i) {
        GroupRange range{0, 0};
        if (window_ + l * kGroups + i < groups_) range = walk.next(args_, numbers[i][l]);
        begin_[i][l] = static_cast<int>(range.begin), count_[i][l] = static_cast<int>(range.count);
        tiles[l] += tiles_of(count_[i][l]);
      }
      wrong[l] = walk.clamped;
    });
    clamped_ = clamped_ || Lanes::any(wrong);
    cursor_ = cursor_ + all < capacity_ ? cursor_ + all : capacity_;
    const int sum = Lanes::add_before(tiles);
    Lanes::each([&](int l) { first_[l] = end_ + tiles[l]; });
    end_ += sum;
  }

  constexpr void place(int group, int begin, int count, int inside, GroupedTile& tile) const {
    const GroupedRows rows = grouped_rows(count, kStep, kTokens);
    const int first = inside / (raster_ * columns_) * raster_;
    const int together = raster_ < rows.tiles - first ? raster_ : rows.tiles - first;
    const int within = inside - first * columns_;
    tile.column = within / together;
    const GroupedPiece piece = grouped_piece(rows, first + within - tile.column * together, kStep);
    tile.group = group;
    tile.row = begin + piece.first;
    tile.steps = piece.steps;
    const int left = count - piece.first;
    tile.rows = left < piece.steps * kStep ? left : piece.steps * kStep;
  }

  const GroupArgs& args_;
  const int64 capacity_;
  const int groups_, columns_, raster_;
  int window_ = 0, next_;  // the first group of those at hand, and behind them
  int64 cursor_;           // kSizes: where group next_ begins
  int end_;                // tiles of all groups in front of next_
  bool clamped_;
  typename Lanes::template Of<int> first_;  // tile of a lane's groups
  typename Lanes::template Of<int> begin_[kGroups], count_[kGroups];
};

}  // namespace tilewright
