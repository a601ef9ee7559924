// SPDX-License-Identifier: MIT
// The CPU as a device: always-built functions and host shared objects, run on the device's threads or the caller's.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "device/cpu/clock.hpp"
#include "device/cpu/limits/cpu_limits.hpp"
#include "device/cpu/pages.hpp"
#include "device/cpu/shared_object.hpp"
#include "device/cpu/thread_pool.hpp"
#include "device/device.hpp"
#include "device/host_burst.hpp"
#include "device/host_memory.hpp"

namespace tilewright {
namespace {

class CpuKernel final : public LoadedKernel {
 public:
  CpuKernel(const void* address, std::shared_ptr<SharedObject> object)
      : entry_(reinterpret_cast<CpuEntry>(const_cast<void*>(address))), object_(std::move(object)) {}
  CpuEntry entry() const { return entry_; }

 private:
  CpuEntry entry_;
  std::shared_ptr<SharedObject> object_;  // null for a function linked into the library
};

int units_from_environment() {
  const int cores = std::max(1, cpu_info().cores);
  const std::optional<std::string> text = environment("TILEWRIGHT_NUM_THREADS");
  if (!text || text->empty()) return cores;
  int units = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, units);
  if (error == std::errc() && rest == end && units >= 1 && units <= static_cast<int>(ThreadPool::kMaxThreads)) {
    return units;
  }
  log(LogLevel::kWarn, "device", "TILEWRIGHT_NUM_THREADS='{}' is ignored; allowed: 1 .. {}; {} cores are used", *text,
      ThreadPool::kMaxThreads, cores);
  return cores;
}

DeviceSpec make_spec(int units) {
  const CpuInfo& cpu = cpu_info();
  DeviceSpec spec;
  spec.id = {DeviceKind::kCpu, 0};
  spec.arch = find_arch(cpu.target);
  for (const ArchSpec* arch = spec.arch; arch != nullptr; arch = find_arch(arch->base)) spec.targets.push_back(arch);
  spec.name = cpu.brand;
  spec.part = cpu.part;
  spec.units = std::min(units > 0 ? units : units_from_environment(), static_cast<int>(ThreadPool::kMaxThreads));
  spec.l1_bytes = cpu.l1d_bytes;
  spec.l2_bytes = cpu.l2_bytes;
  spec.l3_bytes = cpu.l3_bytes;
  spec.clock_ghz = nominal_clock_ghz();
  return spec;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int units) : spec_(make_spec(units)), pool_(static_cast<uint32_t>(spec_.units)) {}

  const DeviceSpec& spec() const override { return spec_; }

  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) override {
    if (spec_.arch == nullptr || !runs_on(artifact.target, spec_.arch->target)) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("cpu: '{}' is code for target '{}', this CPU runs {}; not loaded", artifact.entry,
                                artifact.target, target_names()));
    }
    switch (artifact.kind) {
      case ArtifactKind::kBuiltin:
        if (artifact.address == nullptr) {
          return Status(StatusCode::kInvalidArgument,
                        fmt::format("cpu: built-in instance '{}' has no address", artifact.entry));
        }
        return std::shared_ptr<const LoadedKernel>(std::make_shared<CpuKernel>(artifact.address, nullptr));
      case ArtifactKind::kHostObject: return load_object(artifact);
      default:
        return Status(StatusCode::kUnsupported,
                      fmt::format("cpu: '{}' is not host code; a CPU loads built-in instances and host shared objects",
                                  artifact.entry));
    }
  }

  Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                const LaunchContext& context) override {
    // The class is final: its type says as much as a dynamic_cast.
    if (typeid(kernel) != typeid(CpuKernel)) {
      return Status(StatusCode::kInvalidArgument, "cpu: launch: the kernel was loaded by another kind of device");
    }
    if (shape.units == 0) {
      return Status(StatusCode::kInvalidArgument, "cpu: launch: units = 0, allowed: at least 1");
    }
    const CpuEntry entry = static_cast<const CpuKernel&>(kernel).entry();
    // One reference fits into std::function without an allocation.
    const struct {
      CpuEntry entry;
      const void* args;
      uint32_t units, shares;
    } call{entry, args.data(), shape.units, std::max(shape.units, shape.shares)};
    if (context.parallel_for == nullptr) {
      pool_.parallel_for(
          call.shares, [&call](uint32_t share) { call.entry(call.args, share, call.shares); }, shape.units);
      return {};
    }
    // The caller's threads are as many as it says: each has its part of the shares.
    const auto body = [&call](uint32_t unit) {
      const auto edge = [&call](uint64_t of) { return static_cast<uint32_t>(of * call.shares / call.units); };
      for (uint32_t share = edge(unit); share < edge(unit + 1ULL); ++share) call.entry(call.args, share, call.shares);
    };
    try {
      (*context.parallel_for)(shape.units, body);
    } catch (const std::exception& error) {
      return Status(StatusCode::kInternal, fmt::format("cpu: the caller's parallel_for threw: {}", error.what()));
    } catch (...) {
      return Status(StatusCode::kInternal, "cpu: the caller's parallel_for threw");
    }
    return {};
  }

  Result<void*> allocate(int64_t bytes) override { return map_pages(bytes); }
  void deallocate(void* data, int64_t bytes) override { unmap_pages(data, bytes); }
  Result<Workspace> workspace(int64_t bytes, void*) override {
    Result<void*> data = workspaces_.get(bytes);
    if (!data) return data.status();
    return Workspace{*data, {}};
  }

  bool host_memory() const override { return true; }
  Status copy_from_host(void* to, const void* from, int64_t bytes) override { return copy(to, from, bytes); }
  Status copy_to_host(void* to, const void* from, int64_t bytes) override { return copy(to, from, bytes); }
  Status fill(void* to, uint8_t value, int64_t bytes) override {
    std::memset(to, value, static_cast<size_t>(bytes));
    return {};
  }
  Status synchronize() override { return {}; }
  int64_t available_memory() override { return available_host_memory(); }
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall& call, int first_turn, int count) override {
    return std::unique_ptr<Burst>(std::make_unique<HostBurst>(call, first_turn, count));
  }

  Result<DeviceLimits> measure_limits(double budget_seconds, const ProbeCompiler&) override {
    return measure_cpu_limits(spec_, pool_, budget_seconds);
  }

 private:
  static Status copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return {};
  }

  Result<std::shared_ptr<const LoadedKernel>> load_object(const Artifact& artifact) {
    Result<std::shared_ptr<SharedObject>> object = artifact.image.empty()
                                                       ? SharedObject::open(artifact.path)
                                                       : SharedObject::open_image(artifact.image, artifact.entry);
    if (!object) return object.status();
    const void* address = (*object)->symbol(artifact.entry);
    if (address == nullptr) {
      return Status(StatusCode::kNotFound,
                    fmt::format("cpu: '{}' exports no entry '{}' (extern \"C\" and default visibility are needed)",
                                artifact.image.empty() ? artifact.path : "an image in memory", artifact.entry));
    }
    return std::shared_ptr<const LoadedKernel>(std::make_shared<CpuKernel>(address, std::move(*object)));
  }

  std::string target_names() const {
    std::string names;
    for (const ArchSpec* arch : spec_.targets) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", arch->target);
    return names.empty() ? "no known target (x86-64-v3 is the lowest)" : names;
  }

  const DeviceSpec spec_;
  ThreadPool pool_;
  ThreadWorkspaces workspaces_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int units) { return std::make_unique<CpuDevice>(units); }

}  // namespace tilewright
