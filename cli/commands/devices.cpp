// SPDX-License-Identifier: MIT
// tilewright devices: what there is to run on, and its measured limits.
#include <fmt/format.h>

#include "arch/cpu_nodes.hpp"
#include "command.hpp"
#include "jit/compiler.hpp"
#include "output/numbers.hpp"
#include "results/limit_table.hpp"

namespace tilewright::cli {
namespace {

struct DevicesOptions {
  bool measure = false;
  double seconds = 3;
  int threads = 0;
  std::string device;
  OutputOptions output;
};

Cell bytes_cell(int64_t bytes) { return bytes > 0 ? count_cell(bytes, print_bytes(bytes)) : absent(); }

Table device_table() {
  Table table("devices", {{"device", "device"},
                          {"target", "target"},
                          {"part", "part"},
                          {"name", "name"},
                          {"units", "cores, SMs or CUs", Align::kRight},
                          {"clock_ghz", "GHz", Align::kRight},
                          {"l1_bytes", "L1", Align::kRight},
                          {"l2_bytes", "L2", Align::kRight},
                          {"l3_bytes", "L3", Align::kRight},
                          {"memory_bytes", "memory", Align::kRight}});
  return table;
}

void add_device(const DeviceSpec& spec, Table& table) {
  table.add({text_cell(to_string(spec.id)), text_cell(spec.arch ? std::string(spec.arch->target) : "none"),
             text_cell(spec.part), text_cell(spec.name), count_cell(spec.units),
             spec.clock_ghz > 0 ? number_cell(spec.clock_ghz, fmt::format("{:.2f}", spec.clock_ghz)) : absent(),
             bytes_cell(spec.l1_bytes), bytes_cell(spec.l2_bytes), bytes_cell(spec.l3_bytes),
             bytes_cell(spec.memory_bytes)});
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

// What the vendors' libraries of the devices are; none where no device has one.
Table library_table(const std::vector<std::unique_ptr<Device>>& devices) {
  Table table("libraries", {{"device", "device"},
                            {"library", "library"},
                            {"version", "version"},
                            {"path", "opened by"},
                            {"problem", "why not"}});
  for (const auto& device : devices) {
    if (device->spec().vendor == nullptr) continue;
    for (const VendorLibrary& library : device->spec().vendor->list()) {
      table.add({text_cell(to_string(device->spec().id)), text_cell(library.name),
                 library.status.ok() ? text_cell(library.version) : absent(),
                 library.status.ok() ? text_cell(library.path) : absent(),
                 library.status.ok() ? absent() : text_cell(library.status.message())});
    }
  }
  return table;
}

// The CPU, or the device that was asked for, or all that can be opened. What is in the way of others is said on stderr.
Result<std::vector<std::unique_ptr<Device>>> find_devices(const DevicesOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  DeviceId wanted;
  if (!options.device.empty()) {
    Result<DeviceId> parsed = parse_device_argument(options.device);
    if (!parsed) return parsed.status();
    wanted = *parsed;
  }
  if (wanted.kind == DeviceKind::kCpu) devices.push_back(make_cpu_device(options.threads));
  if (wanted.kind != DeviceKind::kCpu) {
    Result<std::unique_ptr<Device>> device = make_device(wanted);
    if (!device) return device.status();
    devices.push_back(std::move(*device));
  }
  if (!options.device.empty()) return devices;
  for (const DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kHip}) {
    const Result<int> count = device_count(kind);
    // A library that is there and sees no GPU is worth a word; that there is none is not.
    if (!count && kind == DeviceKind::kHip && count.status().code() != StatusCode::kNotFound) {
      note(count.status().message());
    }
    for (int i = 0; i < (count ? *count : 0); ++i) {
      Result<std::unique_ptr<Device>> device = make_device({kind, i});
      if (device) {
        devices.push_back(std::move(*device));
      } else {
        note(device.status().message());
      }
    }
  }
  return devices;
}

Result<ExitCode> run_devices(const DevicesOptions& options) {
  Result<std::vector<std::unique_ptr<Device>>> devices = find_devices(options);
  if (!devices) return devices.status();
  Document document("devices");
  Table table = device_table();
  for (const auto& device : *devices) add_device(device->spec(), table);
  document.add(std::move(table));
  document.add(node_table());
  if (Table libraries = library_table(*devices); libraries.size() > 0) document.add(std::move(libraries));
  if (options.measure) {
    Table limits = limit_table();
    for (const auto& device : *devices) {
      Result<DeviceLimits> measured = device->measure_limits(options.seconds, compile_probe);
      if (!measured && !options.device.empty()) return measured.status();
      if (!measured) {
        note(measured.status().message());
        continue;
      }
      add_limits(device->spec(), *measured, limits);
    }
    document.add(std::move(limits));
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
        arguments.text("--device", options.device, "DEVICE",
                       "only this one: cpu, cuda, hip, one of several as cuda:<number>, emu:<target>");
        add_output_arguments(arguments, options.output);
      },
      run_devices);
}

}  // namespace tilewright::cli
