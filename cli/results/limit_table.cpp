// SPDX-License-Identifier: MIT
#include "results/limit_table.hpp"

#include "output/numbers.hpp"

namespace tilewright::cli {

Table limit_table() {
  return Table("limits", {{"device", "device"},
                          {"limit", "limit"},
                          {"unit", "unit"},
                          {"one", "one core or SM", Align::kRight},
                          {"all", "all", Align::kRight},
                          {"sustained", "sustained", Align::kRight}});
}

void add_limits(const DeviceSpec& spec, const DeviceLimits& limits, Table& table) {
  auto add = [&](const std::string& limit, const char* unit, double one, double all, double sustained = 0) {
    auto cell = [](double value) { return value > 0 ? number_cell(value, print_significant(value, 4)) : absent(); };
    table.add(
        {text_cell(to_string(spec.id)), text_cell(limit), text_cell(unit), cell(one), cell(all), cell(sustained)});
  };
  for (const DeviceLimits::Peak& peak : limits.peaks) {
    add("peak " + peak.mma, "GFLOP/s", peak.gflops_unit, peak.gflops_all, peak.gflops_sustained);
  }
  add("memory read", "GB/s", limits.read_gbps_unit, limits.read_gbps_all);
  add("memory copy", "GB/s", 0, limits.copy_gbps_all);
  add("empty launch", "us", 0, limits.launch_us);
  if (limits.graph_node_us > 0) add("empty launch in a graph", "us", 0, limits.graph_node_us);
}

}  // namespace tilewright::cli
