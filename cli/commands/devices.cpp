// SPDX-License-Identifier: MIT
// tilewright devices: what there is to run on, and its measured limits.
#include <fmt/format.h>

#include "arch/cpu_nodes.hpp"
#include "command.hpp"
#include "output/numbers.hpp"

namespace tilewright::cli {
namespace {

struct DevicesOptions {
  bool measure = false;
  double seconds = 3;
  int threads = 0;
  OutputOptions output;
};

Cell bytes_cell(int64_t bytes) { return bytes > 0 ? count_cell(bytes, print_bytes(bytes)) : absent(); }

Table device_table(const DeviceSpec& spec) {
  Table table("devices", {{"device", "device"},
                          {"target", "target"},
                          {"part", "part"},
                          {"name", "name"},
                          {"units", "cores", Align::kRight},
                          {"clock_ghz", "GHz", Align::kRight},
                          {"l1_bytes", "L1", Align::kRight},
                          {"l2_bytes", "L2", Align::kRight},
                          {"l3_bytes", "L3", Align::kRight}});
  table.add({text_cell(to_string(spec.id)), text_cell(spec.arch ? std::string(spec.arch->target) : "none"),
             text_cell(spec.part), text_cell(spec.name), count_cell(spec.units),
             spec.clock_ghz > 0 ? number_cell(spec.clock_ghz, fmt::format("{:.2f}", spec.clock_ghz)) : absent(),
             bytes_cell(spec.l1_bytes), bytes_cell(spec.l2_bytes), bytes_cell(spec.l3_bytes)});
  return table;
}

Table node_table() {
  Table table("nodes", {{"node", "NUMA node", Align::kRight},
                        {"cores", "cores", Align::kRight},
                        {"cpus", "CPUs"},
                        {"memory_bytes", "memory", Align::kRight}});
  for (const CpuNode& node : cpu_nodes(allowed_cpus(0))) {
    table.add({count_cell(node.id), count_cell(static_cast<int64_t>(node.cpus.size())),
               text_cell(cpu_list_text(node.cpus)), bytes_cell(node.memory_bytes)});
  }
  return table;
}

Table limit_table(const DeviceSpec& spec, const DeviceLimits& limits) {
  Table table("limits", {{"device", "device"},
                         {"limit", "limit"},
                         {"unit", "unit"},
                         {"one", "one core", Align::kRight},
                         {"all", fmt::format("{} core{}", spec.units, spec.units == 1 ? "" : "s"), Align::kRight}});
  auto add = [&](const std::string& limit, const char* unit, double one, double all) {
    auto cell = [](double value) { return value > 0 ? number_cell(value, print_significant(value, 4)) : absent(); };
    table.add({text_cell(to_string(spec.id)), text_cell(limit), text_cell(unit), cell(one), cell(all)});
  };
  for (const DeviceLimits::Peak& peak : limits.peaks) {
    add("peak " + peak.mma, "GFLOP/s", peak.gflops_unit, peak.gflops_all);
  }
  add("memory read", "GB/s", limits.read_gbps_unit, limits.read_gbps_all);
  add("memory copy", "GB/s", 0, limits.copy_gbps_all);
  add("empty launch", "us", 0, limits.launch_us);
  return table;
}

Result<ExitCode> run_devices(const DevicesOptions& options) {
  const std::unique_ptr<Device> device = make_cpu_device(options.threads);
  Document document("devices");
  document.add(device_table(device->spec()));
  document.add(node_table());
  if (options.measure) {
    Result<DeviceLimits> limits = device->measure_limits(options.seconds);
    if (!limits) return limits.status();
    document.add(limit_table(device->spec(), *limits));
  }
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_devices_command(CLI::App& program, Invocation& invocation) {
  add_command<DevicesOptions>(
      program, invocation,
      {"devices", "List devices; measure their limits",
       "  tilewright devices\n"
       "  tilewright devices --measure              peaks, bandwidths, launch cost\n"
       "  tilewright devices --measure --threads 1 --json"},
      [](Arguments& arguments, DevicesOptions& options) {
        arguments.flag("--measure", options.measure, "measure arithmetic peaks, memory bandwidth and launch cost");
        arguments.number_above(0, "--seconds", options.seconds, "time spent on measuring (3)");
        add_threads_argument(arguments, options.threads);
        add_output_arguments(arguments, options.output);
      },
      run_devices);
}

}  // namespace tilewright::cli
