// SPDX-License-Identifier: MIT
// The CPU device: what it refuses to load, how it launches, what its memory promises.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "jit/code_cache.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::make_request;
using test::ScopedVariable;
using test::ScratchFolder;
using testing::HasSubstr;

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;

struct SeenArgs {
  int* seen;
  int value;
};
void record(const void* args, uint32_t unit, uint32_t units) {
  const SeenArgs& a = *static_cast<const SeenArgs*>(args);
  __atomic_fetch_add(&a.seen[unit], a.value * static_cast<int>(units), __ATOMIC_RELAXED);
}

Artifact builtin(const void* address) {
  Artifact artifact;
  artifact.kind = ArtifactKind::kBuiltin;
  artifact.target = "x86-64";
  artifact.entry = "record";
  artifact.address = address;
  return artifact;
}

class CpuDeviceTest : public testing::Test {
 protected:
  std::shared_ptr<const LoadedKernel> load_record() {
    auto kernel = device->load(builtin(reinterpret_cast<const void*>(&record)));
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel.ok() ? *kernel : nullptr;
  }
  // Every unit, or share where these are more, must have run once with these arguments.
  Status launch(const LoadedKernel& kernel, uint32_t units, const LaunchContext& context = {}, uint32_t shares = 0) {
    const uint32_t indices = std::max(units, shares);
    std::vector<int> seen(indices);
    const SeenArgs args{seen.data(), 7};
    Status status = device->launch(kernel, std::as_bytes(std::span(&args, 1)), {units, shares}, context);
    if (status.ok()) {
      EXPECT_THAT(seen, testing::Each(static_cast<int>(7 * indices)));
    }
    return status;
  }
  std::unique_ptr<Device> device = make_cpu_device(3);
};

TEST_F(CpuDeviceTest, SpecDescribesThisCpu) {
  const DeviceSpec& spec = device->spec();
  EXPECT_EQ(spec.id.kind, DeviceKind::kCpu);
  EXPECT_EQ(spec.units, 3);
  ASSERT_NE(spec.arch, nullptr);
  EXPECT_EQ(spec.arch->target, cpu_info().target);
  ASSERT_FALSE(spec.targets.empty());
  EXPECT_EQ(spec.targets.front(), spec.arch);
  for (const ArchSpec* target : spec.targets) EXPECT_TRUE(runs_on(target->target, spec.arch->target));
  EXPECT_EQ(spec.targets.back()->base, "");
  EXPECT_EQ(spec.part, cpu_info().part);
}

TEST_F(CpuDeviceTest, UnitsComeFromTheCallerThenTheEnvironmentThenTheCores) {
  const int cores = cpu_info().cores;
  {
    const ScopedVariable threads("TILEWRIGHT_NUM_THREADS", "5");
    EXPECT_EQ(make_cpu_device(0)->spec().units, 5);
    EXPECT_EQ(make_cpu_device(2)->spec().units, 2);
  }
  for (const char* nonsense : {"", "0", "-1", "many", "4x", "99999999999"}) {
    const ScopedVariable threads("TILEWRIGHT_NUM_THREADS", nonsense);
    EXPECT_EQ(make_cpu_device(0)->spec().units, cores) << nonsense;
  }
  const ScopedVariable threads("TILEWRIGHT_NUM_THREADS", std::nullopt);
  EXPECT_EQ(make_cpu_device(0)->spec().units, cores);
}

// ---- Loading -----------------------------------------------------------------------------------------------------------

TEST_F(CpuDeviceTest, CodeForAnotherArchitectureIsNeverLoaded) {
  int refused = 0;
  for (const ArchSpec& arch : arch_specs()) {
    if (runs_on(arch.target, device->spec().arch->target)) continue;
    ++refused;
    for (const ArtifactKind kind : {ArtifactKind::kBuiltin, ArtifactKind::kHostObject}) {
      Artifact artifact = builtin(reinterpret_cast<const void*>(&record));
      artifact.kind = kind;
      artifact.target = arch.target;
      artifact.path = "/no/such/file";  // must not even be looked at
      const Status status = device->load(artifact).status();
      EXPECT_EQ(status.code(), StatusCode::kUnsupported) << arch.target;
      EXPECT_THAT(status.message(), HasSubstr(std::string(arch.target)));
      EXPECT_THAT(status.message(), HasSubstr(std::string(device->spec().arch->target)));
    }
  }
  EXPECT_GT(refused, 0);
  Artifact unknown = builtin(reinterpret_cast<const void*>(&record));
  unknown.target = "x86-64-v9";
  EXPECT_FALSE(device->load(unknown).ok());
  unknown.target = "";
  EXPECT_FALSE(device->load(unknown).ok());
}

TEST_F(CpuDeviceTest, CodeForHigherCpuTargetsIsRefusedWhenTheTargetIsLowered) {
  // The target is detected once a process.
  const pid_t child = test::start_child([] {
    setenv("TILEWRIGHT_CPU_TARGET", "x86-64-v3", 1);
    execl("/proc/self/exe", "cpu_device_test", "--gtest_also_run_disabled_tests",
          "--gtest_filter=CpuDeviceTest.DISABLED_LoweredTargetRefusesHigherCode", nullptr);
    return 98;
  });
  EXPECT_EQ(test::exit_code_of(child), 0);
}
// Runs in a process of its own, see above.
TEST_F(CpuDeviceTest, DISABLED_LoweredTargetRefusesHigherCode) {
  Artifact artifact = builtin(reinterpret_cast<const void*>(&record));
  artifact.target = "x86-64-v4-amx";
  EXPECT_FALSE(device->load(artifact).ok());
  artifact.target = "x86-64";
  EXPECT_TRUE(device->load(artifact).ok());
}

TEST_F(CpuDeviceTest, OtherKindsOfCodeAndMissingAddressesAreRefused) {
  for (const ArtifactKind kind : {ArtifactKind::kCubin, ArtifactKind::kAmdObject, ArtifactKind::kEmulated}) {
    Artifact artifact = builtin(reinterpret_cast<const void*>(&record));
    artifact.kind = kind;
    EXPECT_EQ(device->load(artifact).status().code(), StatusCode::kUnsupported);
  }
  EXPECT_EQ(device->load(builtin(nullptr)).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CpuDeviceTest, FilesThatAreMissingOrNoObjectsAreExplained) {
  const ScratchFolder scratch;
  Artifact artifact;
  artifact.target = "x86-64";
  artifact.entry = "tw_entry";
  artifact.path = scratch / "missing.so";
  EXPECT_THAT(device->load(artifact).status().message(), HasSubstr("missing.so"));
  artifact.path = scratch / "garbage.so";
  ASSERT_TRUE(write_file(artifact.path, "no object").ok());
  const Status status = device->load(artifact).status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("garbage.so"));
  artifact.path = "libc.so.6";  // a name without a folder is a file here, not a library of the system
  EXPECT_FALSE(device->load(artifact).ok());
}

TEST_F(CpuDeviceTest, ACompiledInstanceRunsAndIsUnloadedWithItsKernel) {
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  const ScratchFolder scratch;
  Counters counters;
  CodeCacheOptions options;
  options.root = scratch / "root";
  CodeCache cache(options, counters);
  const Result<Artifact> artifact = cache.get(
      make_request("struct Args { int* seen; int value; };\n"
                   "extern \"C\" __attribute__((visibility(\"default\")))\n"
                   "void tw_entry(const void* args, unsigned unit, unsigned units) {\n"
                   "  const Args& a = *static_cast<const Args*>(args);\n"
                   "  __atomic_fetch_add(&a.seen[unit], a.value * static_cast<int>(units), __ATOMIC_RELAXED);\n"
                   "}\n"),
      host_compiler());
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  // From its bytes, as the code cache hands it out, and from its file.
  const auto mapped = [] { return read_file("/proc/self/maps")->find("memfd:tw_entry") != std::string::npos; };
  {
    auto kernel = device->load(*artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_TRUE(launch(**kernel, 8).ok());
    EXPECT_TRUE(mapped());
  }
  EXPECT_FALSE(mapped());
  Artifact file = *artifact;
  file.image.clear();
  const auto loaded = [&] { return dlopen(file.path.c_str(), RTLD_NOW | RTLD_NOLOAD); };
  {
    auto kernel = device->load(file);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_TRUE(launch(**kernel, 8).ok());
    void* handle = loaded();
    EXPECT_NE(handle, nullptr);
    if (handle != nullptr) dlclose(handle);
    Artifact wrong = file;
    wrong.entry = "tw_other";
    const Status status = device->load(wrong).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(status.message(), HasSubstr("tw_other"));
  }
  EXPECT_EQ(loaded(), nullptr);
}

// ---- Launching ---------------------------------------------------------------------------------------------------------

TEST_F(CpuDeviceTest, EveryUnitRunsOnceWithTheArguments) {
  const auto kernel = load_record();
  for (uint32_t units = 1; units <= 64; ++units) EXPECT_TRUE(launch(*kernel, units).ok());
}

TEST_F(CpuDeviceTest, TheCallersThreadsReplaceThePool) {
  const auto kernel = load_record();
  uint32_t asked = 0;
  const ParallelFor serial = [&](uint32_t count, const std::function<void(uint32_t)>& body) {
    asked = count;
    for (uint32_t i = count; i-- > 0;) body(i);
  };
  LaunchContext context;
  context.parallel_for = &serial;
  EXPECT_TRUE(launch(*kernel, 5, context).ok());
  EXPECT_EQ(asked, 5u);
  EXPECT_TRUE(launch(*kernel, 5, context, 23).ok());
  EXPECT_EQ(asked, 5u) << "shares are the threads' own";
}

TEST_F(CpuDeviceTest, EveryShareRunsOnce) {
  const auto kernel = load_record();
  for (uint32_t shares = 1; shares <= 64; ++shares) EXPECT_TRUE(launch(*kernel, 3, {}, shares).ok());
}

TEST_F(CpuDeviceTest, WorkIsSharedFinerWhereItIsLong) {
  DeviceSpec spec;
  spec.units = 4;
  const auto shared = [&](double seconds, int64_t items) {
    LaunchShape shape;
    share_work(shape, seconds, items, spec);
    return std::pair(shape.units, shape.shares);
  };
  EXPECT_EQ(shared(1e-6, 1000), std::pair(4u, 4u));
  EXPECT_EQ(shared(1e-6, 0), std::pair(1u, 1u));
  EXPECT_EQ(shared(1e-3, 1000), std::pair(4u, 40u));
  EXPECT_EQ(shared(1e-3, 10), std::pair(4u, 10u)) << "no more shares than items";
  EXPECT_EQ(shared(1.0, 1000), std::pair(4u, 64u));
  EXPECT_EQ(shared(1.0, 3), std::pair(3u, 3u));
}

TEST_F(CpuDeviceTest, AParallelForThatThrowsBecomesAStatus) {
  const auto kernel = load_record();
  const ParallelFor throwing = [](uint32_t, const std::function<void(uint32_t)>&) {
    throw std::runtime_error("pool is gone");
  };
  LaunchContext context;
  context.parallel_for = &throwing;
  const Status status = launch(*kernel, 2, context);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("pool is gone"));
}

TEST_F(CpuDeviceTest, WrongLaunchesAreRefused) {
  EXPECT_EQ(launch(*load_record(), 0).code(), StatusCode::kInvalidArgument);
  const LoadedKernel foreign;
  EXPECT_EQ(launch(foreign, 1).code(), StatusCode::kInvalidArgument);
}

TEST_F(CpuDeviceTest, LaunchesFromManyThreadsAtOnceAreAllRight) {
  const auto kernel = load_record();
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      for (int job = 0; job < 200; ++job) EXPECT_TRUE(launch(*kernel, 9).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Memory ------------------------------------------------------------------------------------------------------------

bool aligned(const void* data, int64_t to) { return reinterpret_cast<uintptr_t>(data) % to == 0; }

TEST_F(CpuDeviceTest, AllocationsAreAlignedZeroedAndGivenBack) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, kPage, kPage + 1, kHugePage - 1, kHugePage, 3 * kHugePage + 5}) {
    Result<void*> data = device->allocate(bytes);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_TRUE(aligned(*data, bytes >= kHugePage ? kHugePage : kPage)) << bytes;
    char* const begin = static_cast<char*>(*data);
    for (int64_t i = 0; i < bytes; i += 511) EXPECT_EQ(begin[i], 0);
    std::memset(begin, 1, static_cast<size_t>(bytes));
    device->deallocate(*data, bytes);
  }
  device->deallocate(nullptr, 100);
}

TEST_F(CpuDeviceTest, ImpossibleSizesAreRefused) {
  EXPECT_EQ(device->allocate(-1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device->workspace(-1, nullptr).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device->allocate(INT64_MAX).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device->allocate(int64_t{1} << 47).status().code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(device->workspace(100, nullptr).ok());
}

void* workspace(Device& device, int64_t bytes) {
  Result<Workspace> got = device.workspace(bytes, nullptr);
  EXPECT_TRUE(got.ok()) << got.status().message();
  return got ? got->data : nullptr;
}

TEST_F(CpuDeviceTest, WorkspaceGrowsAndKeepsWhatEarlierCallsUse) {
  void* const small = workspace(*device, 1000);
  ASSERT_NE(small, nullptr);
  EXPECT_TRUE(aligned(small, kPage));
  EXPECT_EQ(workspace(*device, 10), small);
  EXPECT_EQ(workspace(*device, 1000), small);
  std::memset(small, 42, 1000);
  void* const large = workspace(*device, 10 * kHugePage);
  ASSERT_NE(large, nullptr);
  EXPECT_TRUE(aligned(large, kHugePage));
  std::memset(large, 1, 10 * kHugePage);
  EXPECT_EQ(static_cast<char*>(small)[999], 42);  // still there
  EXPECT_EQ(workspace(*device, 1), large);
  // Growth is geometric: a little more does not make a new block each time.
  std::set<void*> blocks;
  for (int64_t extra = 1; extra <= 100; ++extra) blocks.insert(workspace(*device, 10 * kHugePage + extra * 1000));
  EXPECT_LE(blocks.size(), 2u);
}

TEST_F(CpuDeviceTest, WorkspacesOfThreadsAndDevicesDoNotOverlap) {
  auto other = make_cpu_device(1);
  void* const mine = workspace(*device, kPage);
  EXPECT_NE(mine, workspace(*other, kPage));
  EXPECT_EQ(mine, workspace(*device, kPage));
  void* theirs = nullptr;
  std::thread([&] { theirs = workspace(*device, kPage); }).join();
  EXPECT_NE(mine, theirs);
}

TEST_F(CpuDeviceTest, AWorkspaceIsNotTakenForThatOfADestroyedDevice) {
  auto first = make_cpu_device(1);
  ASSERT_TRUE(first->workspace(kHugePage, nullptr).ok());
  first.reset();
  auto second = make_cpu_device(1);
  void* const data = workspace(*second, kHugePage);
  ASSERT_NE(data, nullptr);
  std::memset(data, 1, kHugePage);  // faults when the old mapping was handed out
}

}  // namespace
}  // namespace tilewright
