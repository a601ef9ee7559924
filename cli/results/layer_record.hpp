// SPDX-License-Identifier: MIT
// What `tilewright tune` found out about each problem, beside the tuned row: share of the measured limit and the paired
// comparison with a peer. Kept per target, so that a resumed run and `tilewright report` need not measure again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "tile/common/fields.hpp"

namespace tilewright::cli {

struct LayerRecord {
  std::string op, problem;  // key, with part and units
  std::string part;
  int32_t units = 0;
  std::string layer;  // what the problem was called last
  std::string recipe, untuned_recipe;
  double us = 0, spread = 0, untuned_us = 0, gflops = 0, rel_error = 0;
  int32_t samples = 0;
  double limit_fraction = 0;  // 0 = limits not measured
  std::string peer;           // "PyTorch 2.9.0"; "" = not compared
  double peer_us = 0, ratio = 0, ratio_low = 0, ratio_high = 0;
  std::string library, compiler, date;

  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("op", self.op);
    visit("problem", self.problem);
    visit("part", self.part);
    visit("units", self.units);
    visit("layer", self.layer);
    visit("recipe", self.recipe);
    visit("untuned_recipe", self.untuned_recipe);
    visit("us", self.us);
    visit("spread", self.spread);
    visit("untuned_us", self.untuned_us);
    visit("gflops", self.gflops);
    visit("rel_error", self.rel_error);
    visit("samples", self.samples);
    visit("limit_fraction", self.limit_fraction);
    visit("peer", self.peer);
    visit("peer_us", self.peer_us);
    visit("ratio", self.ratio);
    visit("ratio_low", self.ratio_low);
    visit("ratio_high", self.ratio_high);
    visit("library", self.library);
    visit("compiler", self.compiler);
    visit("date", self.date);
  }
};

class RecordStore {
 public:
  // <user data>/tuning/<target>.results.json; a missing or damaged file is an empty store.
  explicit RecordStore(std::string_view target);

  const std::string& path() const { return path_; }
  // Null when there is none.
  const LayerRecord* find(const std::string& op, const std::string& problem, const std::string& part, int units) const;
  void put(LayerRecord record);
  // In the order in which they were put.
  const std::vector<LayerRecord>& records() const { return records_; }

  // The limits measured last on a part with so many units; empty peaks when there are none.
  DeviceLimits limits(const std::string& part, int units) const;
  void put_limits(const std::string& part, int units, const DeviceLimits& limits);

  // Replaces the file. Without a home directory nothing is kept and the error says so.
  Status save() const;

 private:
  std::string path_;
  std::vector<LayerRecord> records_;
  std::map<std::string, DeviceLimits> limits_;  // "part/units"
};

}  // namespace tilewright::cli
