// SPDX-License-Identifier: MIT
#include "device/cuda/limits/cuda_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "device/cuda/limits/peak_probes.hpp"
#include "tile/common/probe_args.hpp"

namespace tilewright::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLargestBuffer = int64_t{8} << 30;
constexpr int kLaunches = 1000;      // timed together
constexpr double kPeaksShare = 0.6;  // of the time

constexpr const char* kReadEntry = "tw_probe_read";
constexpr const char* kReadSource =
    "#include \"tile/portable/probes/memory_probe.cuh\"\n"
    "extern \"C\" __global__ void tw_probe_read(const __grid_constant__ tilewright::ReadProbeArgs args) {\n"
    "  tilewright::portable::read_all<8>(args);\n"
    "}\n";
constexpr const char* kCopyEntry = "tw_probe_copy";
constexpr const char* kCopySource =
    "#include \"tile/portable/probes/memory_probe.cuh\"\n"
    "extern \"C\" __global__ void tw_probe_copy(const __grid_constant__ tilewright::CopyProbeArgs args) {\n"
    "  tilewright::portable::copy_all<8>(args);\n"
    "}\n";
constexpr const char* kEmptyEntry = "tw_probe_empty";
constexpr const char* kEmptySource = "extern \"C\" __global__ void tw_probe_empty() {}\n";

// Memory of a device for one scope.
class Buffer {
 public:
  static Result<Buffer> make(Device& device, int64_t bytes) {
    Result<void*> data = device.allocate(bytes);
    if (!data) return data.status();
    return Buffer(device, *data, bytes);
  }
  ~Buffer() {
    if (data_ != nullptr) device_->deallocate(data_, bytes_);
  }
  Buffer(Buffer&& other) noexcept : device_(other.device_), data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  Buffer& operator=(Buffer&&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  Buffer(Device& device, void* data, int64_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  Device* device_;
  void* data_;
  int64_t bytes_;
};

// The least time of one call, over bursts of `count`, within the time given; at least three bursts.
Result<double> least_us(Device& device, const TurnedCall& call, int count, double seconds) {
  Result<std::unique_ptr<Burst>> burst = device.make_burst(call, 0, count);
  if (!burst) return burst.status();
  const Clock::time_point start = Clock::now();
  double least = 0;
  for (int i = 0; i < 3 || std::chrono::duration<double>(Clock::now() - start).count() < seconds; ++i) {
    const Result<double> us = (*burst)->run();
    if (!us) return us.status();
    least = i == 0 ? *us : std::min(least, *us);
  }
  return least;
}

class Limits {
 public:
  Limits(Device& device, const Place& place, double seconds) : device_(device), place_(place), seconds_(seconds) {}

  Status measure(const ProbeCompiler& compile, DeviceLimits& limits) {
    if (Status s = memory(compile, limits); !s) return s;
    if (Status s = launches(compile, limits); !s) return s;
    return measure_peaks(device_, seconds_ * kPeaksShare, compile, limits.peaks);
  }

 private:
  Result<std::shared_ptr<const LoadedKernel>> load(const ProbeCompiler& compile, const char* source,
                                                   const char* entry) {
    Result<Artifact> artifact = compile(source, entry, device_.spec().arch->target);
    if (!artifact) return artifact.status();
    return device_.load(*artifact);
  }

  Status memory(const ProbeCompiler& compile, DeviceLimits& limits) {
    const int64_t bytes = std::min(kLargestBuffer, device_.available_memory() / 4) / 4096 * 4096;
    Result<Buffer> memory = Buffer::make(device_, std::max<int64_t>(bytes, 4096));
    if (!memory) return memory.status();
    if (Status s = device_.fill(memory->data(), 0x11, memory->bytes()); !s) return s;
    if (Status s = copy(compile, *memory, limits); !s) return s;
    return read(compile, *memory, limits);
  }

  // The most bytes a microsecond over grids of several shapes, each for `seconds`.
  template <class Args>
  Result<double> best_rate(const LoadedKernel& kernel, const Args& args, double bytes, double seconds) {
    const auto units = static_cast<uint32_t>(device_.spec().units);
    // Of a block; a unit's blocks, those that wait for room included.
    constexpr uint32_t kThreads[] = {256, 512, 1024}, kBlocks[] = {2, 8, 32, 128};
    double best = 0;
    for (const uint32_t threads : kThreads) {
      for (const uint32_t blocks : kBlocks) {
        const LaunchShape shape{.grid = {units * blocks, 1, 1}, .threads = threads};
        const Result<double> us = launch_us(kernel, args, shape, seconds);
        if (!us) return us.status();
        best = std::max(best, bytes / *us);
      }
    }
    return best;
  }
  template <class Args>
  Result<double> launch_us(const LoadedKernel& kernel, const Args& args, const LaunchShape& shape, double seconds) {
    const auto call = [&](int, const LaunchContext& context) {
      return device_.launch(kernel, std::as_bytes(std::span(&args, 1)), shape, context);
    };
    return least_us(device_, call, 2, seconds);
  }

  // By a kernel and by the driver; the better counts.
  Status copy(const ProbeCompiler& compile, const Buffer& memory, DeviceLimits& limits) {
    const int64_t half = memory.bytes() / 2;
    const double moved = 2 * static_cast<double>(half);  // read and written
    Result<std::shared_ptr<const LoadedKernel>> kernel = load(compile, kCopySource, kCopyEntry);
    if (!kernel) return kernel.status();
    const CopyProbeArgs args{memory.data() + half, memory.data(), half / 16};
    const Result<double> rate = best_rate(**kernel, args, moved, seconds_ / 40);
    if (!rate) return rate.status();
    const auto call = [&](int, const LaunchContext& context) {
      const gpu::Code code =
          place_.driver->copy(memory.data(), memory.data() + half, static_cast<size_t>(half), context.stream);
      return check(*place_.driver, code, "copy");
    };
    const Result<double> us = least_us(device_, call, 2, seconds_ / 40);
    if (us) limits.copy_gbps_all = std::max(*rate, moved / *us) * 1e-3;
    return us.status();
  }

  Status read(const ProbeCompiler& compile, const Buffer& memory, DeviceLimits& limits) {
    Result<std::shared_ptr<const LoadedKernel>> kernel = load(compile, kReadSource, kReadEntry);
    if (!kernel) return kernel.status();
    auto* const sink = reinterpret_cast<unsigned*>(memory.data());
    const ReadProbeArgs args{memory.data(), memory.bytes() / 16, sink};
    const Result<double> rate = best_rate(**kernel, args, static_cast<double>(memory.bytes()), seconds_ / 40);
    if (!rate) return rate.status();
    limits.read_gbps_all = *rate * 1e-3;
    const ReadProbeArgs part{memory.data(), memory.bytes() / 32 / 16, sink};
    const LaunchShape one{.grid = {1, 1, 1}, .threads = 1024};
    const Result<double> us = launch_us(**kernel, part, one, seconds_ / 40);
    if (us) limits.read_gbps_unit = static_cast<double>(part.words * 16) / *us * 1e-3;
    return us.status();
  }

  Status launches(const ProbeCompiler& compile, DeviceLimits& limits) {
    Result<std::shared_ptr<const LoadedKernel>> kernel = load(compile, kEmptySource, kEmptyEntry);
    if (!kernel) return kernel.status();
    const LaunchShape shape{.grid = {static_cast<uint32_t>(device_.spec().units), 1, 1}, .threads = 128};
    const auto call = [&](int, const LaunchContext& context) { return device_.launch(**kernel, {}, shape, context); };
    const Result<double> node = least_us(device_, call, kLaunches, seconds_ / 40);
    if (!node) return node.status();
    limits.graph_node_us = *node;
    // Without a graph: what a program that only launches sees.
    for (int round = 0; round < 5; ++round) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < kLaunches; ++i) {
        if (Status s = call(i, {}); !s) return s;
      }
      if (Status s = device_.synchronize(); !s) return s;
      const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / kLaunches;
      limits.launch_us = round == 0 ? us : std::min(limits.launch_us, us);
    }
    return {};
  }

  Device& device_;
  const Place place_;
  const double seconds_;
};

}  // namespace

Result<DeviceLimits> measure_cuda_limits(Device& device, const Place& place, double budget_seconds,
                                         const ProbeCompiler& compile) {
  DeviceLimits limits;
  if (Status s = Limits(device, place, budget_seconds).measure(compile, limits); !s) return s;
  return limits;
}

}  // namespace tilewright::cuda
