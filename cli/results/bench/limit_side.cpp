// SPDX-License-Identifier: MIT
#include "results/bench/limit_side.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "device/cpu/limits/memory_probes.hpp"
#include "device/cpu/limits/peak_probes.hpp"
#include "device/host_memory.hpp"

namespace tilewright::cli {
namespace {

using Clock = std::chrono::steady_clock;

// An arithmetic burst lasts as long as a call at the limit, within these bounds: what disturbs the machine meets both alike.
constexpr double kMinBurstSeconds = 4e-3, kMaxBurstSeconds = 50e-3;
constexpr int64_t kParts = 8;  // of the buffer, one a burst
constexpr int64_t kPage = 4096;

struct ArithmeticArgs {
  void (*run)(int64_t rounds);
  int64_t rounds;
};
void arithmetic_entry(const void* args, uint32_t, uint32_t) {
  const auto& a = *static_cast<const ArithmeticArgs*>(args);
  a.run(a.rounds);
}

struct ReadArgs {
  void (*read)(const char* data, int64_t bytes, const ReadPattern& pattern);
  const char* data;
  int64_t bytes;
  ReadPattern pattern;
};
void read_entry(const void* args, uint32_t unit, uint32_t units) {
  const auto& a = *static_cast<const ReadArgs*>(args);
  const int64_t pages = a.bytes / kPage, begin = pages * unit / units, end = pages * (unit + 1) / units;
  a.read(a.data + begin * kPage, (end - begin) * kPage, a.pattern);
}

template <class Args>
Result<double> seconds_of(Device& device, const LoadedKernel& kernel, const Args& args, int units) {
  const Clock::time_point before = Clock::now();
  const std::span<const Args, 1> span(&args, 1);
  if (Status s = device.launch(kernel, std::as_bytes(span), {static_cast<uint32_t>(units)}, {}); !s) return s;
  return std::max(1e-9, std::chrono::duration<double>(Clock::now() - before).count());
}

}  // namespace

struct LimitSide::Memory {
  Device& device;
  char* data;
  int64_t bytes;
  int64_t at = 0;  // the part that is read next
  ~Memory() { device.deallocate(data, bytes); }
};

LimitSide::LimitSide(Device& device) : device_(device) {}
LimitSide::~LimitSide() = default;

Result<BurstSide> LimitSide::side(const Roof& roof, double operations, double bytes, int units) {
  const ArchSpec* arch = device_.spec().arch;
  const auto load = [&](CpuEntry entry) {
    return device_.load({.kind = ArtifactKind::kBuiltin,
                         .target = arch != nullptr ? std::string(arch->target) : "",
                         .entry = "limit_probe",
                         .path = {},
                         .image = {},
                         .address = reinterpret_cast<const void*>(entry)});
  };
  for (auto [kernel, entry] : {std::pair{&arithmetic_, &arithmetic_entry}, {&reading_, &read_entry}}) {
    if (*kernel != nullptr) continue;
    Result<std::shared_ptr<const LoadedKernel>> loaded = load(entry);
    if (!loaded) return loaded.status();
    *kernel = std::move(*loaded);
  }
  if (!roof.compute_bound(operations, bytes)) return memory_side(bytes, units);

  const auto probes = peak_probes();
  const auto probe =
      std::find_if(probes.begin(), probes.end(), [&](const PeakProbe& one) { return one.mma == roof.mma; });
  if (probe == probes.end()) return Status(StatusCode::kUnsupported, "no probe for instruction '" + roof.mma + "'");
  const double burst = std::clamp(roof.limit_us(operations, bytes) * 1e-6, kMinBurstSeconds, kMaxBurstSeconds);
  const double rounds =
      roof.peak_gflops * 1e9 * burst / static_cast<double>(units) / static_cast<double>(probe->ops_per_round);
  const ArithmeticArgs args{probe->run, std::max<int64_t>(64, static_cast<int64_t>(rounds))};
  const double done = static_cast<double>(probe->ops_per_round) * static_cast<double>(args.rounds) * units;
  return BurstSide([this, args, done, operations, units](int) -> Result<double> {
    // The first call wakes the threads. One burst, however many repetitions: it is as long as a limit needs.
    if (auto woken = seconds_of(device_, *arithmetic_, ArithmeticArgs{args.run, args.rounds / 16}, units); !woken)
      return woken;
    const Result<double> seconds = seconds_of(device_, *arithmetic_, args, units);
    if (!seconds) return seconds.status();
    return operations / done * *seconds * 1e6;
  });
}

Result<BurstSide> LimitSide::memory_side(double bytes, int units) {
  if (memory_ == nullptr) {
    const int64_t size = cold_footprint(device_.spec(), 1.0 / 8).bytes / (kParts * kPage) * (kParts * kPage);
    Result<void*> data = device_.allocate(std::max(size, kParts * kPage));
    if (!data) return data.status();
    memory_.reset(new Memory{device_, static_cast<char*>(*data), std::max(size, kParts * kPage)});
    std::memset(memory_->data, 1, static_cast<size_t>(memory_->bytes));
  }
  const int64_t part = memory_->bytes / kParts;
  const auto read = [this, part, units](const ReadPattern& pattern) -> Result<double> {
    // The first sixteenth wakes the threads, the rest is timed.
    const int64_t first = part / 16 / kPage * kPage;
    ReadArgs args{memory_probe(device_.spec()).read, memory_->data + memory_->at * part, first, pattern};
    memory_->at = (memory_->at + 1) % kParts;
    if (auto woken = seconds_of(device_, *reading_, args, units); !woken) return woken;
    args.data += first, args.bytes = part - first;
    const Result<double> seconds = seconds_of(device_, *reading_, args, units);
    if (!seconds) return seconds.status();
    return *seconds / static_cast<double>(args.bytes);
  };
  // The pattern that is fastest with so many units, from the best of three.
  ReadPattern fastest = kReadPatterns[0];
  double best = 0;
  for (int turn = 0; turn < 3; ++turn) {
    for (const ReadPattern& candidate : kReadPatterns) {
      const Result<double> seconds_per_byte = read(candidate);
      if (!seconds_per_byte) return seconds_per_byte.status();
      if (best == 0 || *seconds_per_byte < best) best = *seconds_per_byte, fastest = candidate;
    }
  }
  return BurstSide([read, bytes, fastest](int) -> Result<double> {
    const Result<double> seconds_per_byte = read(fastest);
    if (!seconds_per_byte) return seconds_per_byte.status();
    return *seconds_per_byte * bytes * 1e6;
  });
}

}  // namespace tilewright::cli
