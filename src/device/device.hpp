// SPDX-License-Identifier: MIT
// A thing that runs kernels: loads artifacts, launches them, owns memory. CPUs, CUDA, HIP and the emulation have the same
// interface.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch_spec.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright {

// A library of a device's vendor, as people are told of it.
struct VendorLibrary {
  std::string name;     // "cublaslt"
  std::string version;  // "13.1.2"
  std::string path;     // what it was opened by
  Status status;        // why it cannot be used
};

// The libraries of a device's vendor, each opened when it is first asked for. What they can do, the families know that call
// them: device/cuda/vendor, for CUDA.
class VendorLibraries {
 public:
  virtual ~VendorLibraries() = default;
  virtual std::vector<VendorLibrary> list() const = 0;  // opens them
};

// What dispatch, cost models and tuned tables may know of a device. Constant for its life: choices stay pure.
struct DeviceSpec {
  DeviceId id;
  const ArchSpec* arch = nullptr;        // best target
  std::vector<const ArchSpec*> targets;  // arch first, then its bases: everything whose code runs here
  std::string name;                      // marketing name
  std::string part;                      // tuned tables' part
  int units = 1;                         // cores or SMs or CUs in use
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  double clock_ghz = 0;                     // nominal, 0 = unknown
  int64_t memory_bytes = 0;                 // a GPU's own
  std::string driver = {};                  // a GPU's: "cuda-13.0"
  const VendorLibraries* vendor = nullptr;  // null = none; lives as long as the device
  bool emulated = false;                    // its code is made by the host's compiler (docs/devices/emulation.md)
};

// Whether a CPU's caches will not hold what a call moves, so that its writes had better go past them. A virtual machine of few cores
// sees all of a large last cache, which others fill: no core is taken to have more of one than 12 MiB.
inline bool passes_caches(double bytes, const DeviceSpec& device) {
  constexpr int64_t kMostOfUnit = int64_t{12} << 20, kLeast = int64_t{8} << 20;
  return bytes > 2.0 * static_cast<double>(std::max(std::min(device.l3_bytes, device.units * kMostOfUnit), kLeast));
}
// Measured limits; what a time is reported against.
struct DeviceLimits {
  struct Peak {
    std::string mma;              // peak_name(): "fma_f32", "amx_bf16", "wgmma_bf16"
    double gflops_unit = 0;       // one unit busy
    double gflops_all = 0;        // all units busy; of a GPU: in a short burst of a rested chip
    double gflops_sustained = 0;  // of a GPU: all units busy for so long that power limits the clock; 0 = not measured
  };
  double read_gbps_unit = 0, read_gbps_all = 0;
  double copy_gbps_all = 0;
  double launch_us = 0;      // an empty launch over all units
  double graph_node_us = 0;  // of a GPU: the same inside a graph
  std::vector<Peak> peaks;
};

enum class ArtifactKind : uint8_t { kBuiltin, kHostObject, kCubin, kAmdObject, kEmulated };

// Code that can be loaded.
struct Artifact {
  ArtifactKind kind = ArtifactKind::kHostObject;
  std::string target;             // never loaded on a device that does not run it
  std::string entry;              // entry name inside
  std::string key = {};           // of the kernel, for messages; "" = the entry's name tells enough
  std::string path;               // a file, unless there is
  std::vector<std::byte> image;   // bytes, which are loaded instead, or
  const void* address = nullptr;  // a function linked into the library (always-built instances)
};

// A loaded entry point; keeps its artifact loaded.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
};

// Called for every unit index in [0, count), from any thread, and returns when all are done.
using ParallelFor = std::function<void(uint32_t count, const std::function<void(uint32_t)>& body)>;

struct LaunchShape {
  uint32_t units = 1;   // CPU: threads that call the entry, each with its index
  uint32_t shares = 0;  // CPU: the indices, where they are more than the threads, which take one after another
  // GPU.
  std::array<uint32_t, 3> grid{1, 1, 1};     // blocks; a multiple of the cluster
  std::array<uint32_t, 3> cluster{1, 1, 1};  // blocks that share their memories
  uint32_t threads = 1;                      // of a block
  uint32_t shared_bytes = 0;                 // dynamic
  // The kernel waits for those in front of it in the stream by itself, before it touches what they may write: with the
  // caller's leave (LaunchContext) it may start before they end.
  bool programmatic_edge = false;
  // The same of a stage and the one of its call in front of it, which both know of: needs nobody's leave.
  bool stage_edge = false;
  // Blocks wait for each other, so all must run at a time. A launch of which they cannot fails.
  bool cooperative = false;
};

// CPU: who does work on so many items that is predicted to take so long. A thread that is slower than others takes fewer shares; to take
// one costs nothing beside it.
inline void share_work(LaunchShape& shape, double seconds, int64_t items, const DeviceSpec& device) {
  constexpr double kLeastSeconds = 1e-4;  // of a share
  constexpr int64_t kMostOfUnit = 16;
  const int64_t units = std::clamp<int64_t>(items, 1, device.units);
  const double worth = std::min(seconds * static_cast<double>(units) / kLeastSeconds, static_cast<double>(items));
  shape.units = static_cast<uint32_t>(units);
  shape.shares = static_cast<uint32_t>(std::clamp(static_cast<int64_t>(worth), units, units * kMostOfUnit));
}

// A tensor map that stands in a kernel's arguments: how the copy engine walks an operand. Everything but the address.
// Dimension 0 is the contiguous one.
struct TensorMapSpec {
  enum class Swizzle : uint8_t { kNone, k32, k64, k128 };
  uint32_t arg_offset = 0;  // of its 128 bytes in the arguments
  DType dtype = DType::kNone;
  uint32_t rank = 2;
  std::array<uint64_t, 5> dims{};     // elements
  std::array<uint64_t, 5> strides{};  // bytes; [0] is the element
  std::array<uint32_t, 5> box{};      // elements that one copy brings
  Swizzle swizzle = Swizzle::kNone;
};

struct LaunchContext {
  void* stream = nullptr;                     // cudaStream_t, hipStream_t; unused on the CPU
  const ParallelFor* parallel_for = nullptr;  // CPU: the caller's threads instead of the device's pool
  bool programmatic_edge = false;             // GPU: a launch may begin before those in front end, where the kernel can
};

// A call into a library in the place of a launch. It puts its work on the context's stream, and neither allocates nor waits, so
// that it can be captured. `args` are laid out as the library's own code declares them.
class HostCall {
 public:
  virtual ~HostCall() = default;
  virtual Status run(std::span<const std::byte> args, const LaunchContext& context) const = 0;
};

// Scratch memory of one call. While `in_use` is held, no other call on the same stream gets it.
struct Workspace {
  void* data = nullptr;
  std::unique_lock<std::mutex> in_use{};
};

// Calls that are timed together, as often as wanted.
class Burst {
 public:
  virtual ~Burst() = default;
  virtual Result<double> run() = 0;  // runs them all and waits; the time of one of them, in us
};
// Puts one call on the stream of the context; `turn` counts up, so that calls can take their operands in turn.
using TurnedCall = std::function<Status(int turn, const LaunchContext& context)>;

// The code of a kernel that measures a device (jit/compiler.hpp has one); CPUs need none.
using ProbeCompiler =
    std::function<Result<Artifact>(const std::string& source, const std::string& entry, std::string_view target)>;

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceSpec& spec() const = 0;
  virtual Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact) = 0;
  virtual Status launch(const LoadedKernel& kernel, std::span<const std::byte> args, const LaunchShape& shape,
                        const LaunchContext& context) = 0;
  // Aligned to a page. Never freed while the device lives, unless given back.
  virtual Result<void*> allocate(int64_t bytes) = 0;
  virtual void deallocate(void* data, int64_t bytes) = 0;
  // The default workspace: grows, never frees what an earlier call or a captured graph may still use. One a calling
  // thread on the CPU, one a stream on a GPU.
  virtual Result<Workspace> workspace(int64_t bytes, void* stream) = 0;

  // At least `bytes` that are zero when a kernel of the stream starts; each leaves them so. Where the blocks of one kernel
  // meet and exchange what they have.
  virtual Result<void*> zeros(int64_t bytes, void* stream);

  // Whether the host reads and writes allocate()'s memory directly.
  virtual bool host_memory() const = 0;
  // Host pointers here are of the calling process. All of these wait until what they do is done; a fault of an earlier
  // kernel comes out of them.
  virtual Status copy_from_host(void* to, const void* from, int64_t bytes) = 0;
  virtual Status copy_to_host(void* to, const void* from, int64_t bytes) = 0;
  virtual Status fill(void* to, uint8_t value, int64_t bytes) = 0;
  // Of what allocate() gave, kernels touch nothing but these `bytes` from `first` on. Devices that look at each access hold
  // them to it; the host goes on reading and writing all of it.
  virtual void expose(void* /*data*/, void* /*first*/, int64_t /*bytes*/) {}
  virtual Status synchronize() = 0;
  // What allocate() could still give; 0 = not known.
  virtual int64_t available_memory() = 0;
  // `count` calls with turns from `first_turn` on. On a GPU a graph of them, captured once: they must not allocate.
  virtual Result<std::unique_ptr<Burst>> make_burst(const TurnedCall& call, int first_turn, int count) = 0;

  // What a time depends on besides the code: "clock=1980:limit=700:draw=112:temperature=41" (MHz, W, degrees Celsius), as
  // far as it is known; "" on CPUs. Slow.
  virtual std::string power_state() const { return ""; }

  // Writes the map without an address into its 128 bytes; then, call by call, the address. Devices without tensor maps refuse.
  virtual Status encode_tensor_map(const TensorMapSpec& spec, std::byte* map) const;
  virtual Status set_tensor_map_address(std::byte* map, const void* address) const;
  // Measures for about `budget_seconds`; slow, never called by dispatch. A GPU's probes are compiled by `compile`.
  virtual Result<DeviceLimits> measure_limits(double budget_seconds, const ProbeCompiler& compile) = 0;
};

// The CPU kernel entry: called once for each unit in [0, units).
using CpuEntry = void (*)(const void* args, uint32_t unit, uint32_t units);

// `units` = 0: every core the process may use.
std::unique_ptr<Device> make_cpu_device(int units);

// CUDA devices of this machine, opened through the driver; the error says why there are none.
Result<int> cuda_device_count();
Result<std::unique_ptr<Device>> make_cuda_device(int index);

// HIP devices of this machine, opened through libamdhip64; the error says why there are none.
Result<int> hip_device_count();
Result<std::unique_ptr<Device>> make_hip_device(int index);

// An AMD GPU of one of kEmulatedTargets, on the host's cores.
Result<std::unique_ptr<Device>> make_emulated_device(int index);

// How many there are of a kind; the error says why there are none.
Result<int> device_count(DeviceKind kind);

// Any of them. The error says why there is none.
Result<std::unique_ptr<Device>> make_device(DeviceId id);

}  // namespace tilewright
