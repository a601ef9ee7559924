// SPDX-License-Identifier: MIT
// Many processes on one cold cache while one of them kills the others and another damages entries: who survives has right
// results, nobody waits for ever, and what is left is sound.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <random>
#include <vector>

#include "device/device.hpp"
#include "jit/code_cache.hpp"
#include "support/sanitizer.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::exit_code_of;
using test::FakeCompiler;
using test::make_request;
using test::ScratchFolder;
using test::start_child;

struct Storm {
  int processes, kernels, killed;
  int compile_ms = 20;
};

CompileRequest numbered_request(int number) {
  return make_request("int kernel_" + std::to_string(number) + ";\n", "kernel " + std::to_string(number));
}

std::string text_of(const Artifact& artifact) {
  return {reinterpret_cast<const char*>(artifact.image.data()), artifact.image.size()};
}

// Asks for every kernel in an order of its own, twice. Codes say what went wrong; start_child() ends who hangs with 99.
int work_through(const CodeCacheOptions& options, FakeCompiler& compiler, const Storm& storm, unsigned seed) {
  Counters counters;
  std::mt19937 random(seed);
  std::vector<int> order;
  for (int i = 0; i < storm.kernels; ++i) order.push_back(i);
  for (int round = 0; round < 2; ++round) {
    CodeCache cache(options, counters);
    std::shuffle(order.begin(), order.end(), random);
    for (const int number : order) {
      const CompileRequest request = numbered_request(number);
      const Result<Artifact> artifact = cache.get(request, compiler);
      if (!artifact.ok()) {
        std::fprintf(stderr, "%s\n", artifact.status().message().c_str());
        return 1;
      }
      if (text_of(*artifact) != compiler.binary(request)) return 2;
    }
  }
  return 0;
}

// Truncates, changes and removes files of entries until it is ended.
int damage_entries(const std::string& root, unsigned seed) {
  std::mt19937 random(seed);
  for (;;) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
      // What is not published yet is its builder's own: nobody could tell a binary damaged there from another one.
      if (it->path().filename() == "building") it.disable_recursion_pending();
      const std::string name = it->path().filename().string();
      if (name == "metadata" || name == "instance.so") files.push_back(it->path().string());
    }
    if (!files.empty()) {
      const std::string& victim = files[random() % files.size()];
      switch (random() % 4) {
        case 0: fs::resize_file(victim, random() % 40, error); break;
        case 1: fs::remove(victim, error); break;
        case 2: (void)write_file(victim, "damaged"); break;
        case 3: fs::remove_all(fs::path(victim).parent_path(), error); break;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

void run_storm(const Storm& storm) {
  const ScratchFolder scratch;
  FakeCompiler compiler(scratch / "calls");
  compiler.milliseconds = storm.compile_ms;
  compiler.binary_bytes = 5000;
  CodeCacheOptions options;
  options.root = scratch / "root";
  options.library_packs = false;
  options.lock_wait_seconds = 2;

  std::vector<pid_t> workers;
  for (int i = 0; i < storm.processes; ++i) {
    workers.push_back(start_child([&] { return work_through(options, compiler, storm, static_cast<unsigned>(i)); }));
  }
  const pid_t vandal = start_child([&] { return damage_entries(options.root, 12345); });

  // Ends some of them at any moment of their work.
  std::mt19937 random(7);
  std::vector<bool> ended(workers.size(), false);
  for (int i = 0; i < storm.killed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    const size_t victim = random() % workers.size();
    ended[victim] = true;
    kill(workers[victim], SIGKILL);  // one that is done already is not there any more, or still waits to be collected
  }
  int survivors = 0;
  for (size_t i = 0; i < workers.size(); ++i) {
    const int code = exit_code_of(workers[i]);
    if (ended[i] && code == -SIGKILL) continue;
    ++survivors;
    EXPECT_EQ(code, 0) << "process " << i << (code == 99 ? " waited past the bound" : "");
  }
  EXPECT_GE(survivors, storm.processes - storm.killed);
  kill(vandal, SIGKILL);
  EXPECT_EQ(exit_code_of(vandal), -SIGKILL);

  // Peace: one more process mends what is damaged, and then all is sound.
  Counters counters;
  EXPECT_EQ(work_through(options, compiler, storm, 99), 0);
  CodeCache cache(options, counters);
  const std::vector<CacheEntryInfo> entries = cache.list();
  EXPECT_EQ(entries.size(), static_cast<size_t>(storm.kernels));
  for (const CacheEntryInfo& entry : entries) EXPECT_TRUE(entry.valid) << entry.problem;
  // Nothing is compiled again.
  const int calls = compiler.calls();
  EXPECT_EQ(work_through(options, compiler, storm, 100), 0);
  EXPECT_EQ(compiler.calls(), calls);
}

TEST(CodeCacheStorm, TwelveProcessesFinishRightWhileOthersAreKilledAndEntriesAreDamaged) { run_storm({12, 8, 5}); }

TEST(CodeCacheStormSlow, SixtyFourProcessesFinishRightWhileOthersAreKilledAndEntriesAreDamaged) {
  run_storm({64, 24, 24});
}

// ---- One real compiler ------------------------------------------------------------------------------------------------

constexpr const char* kInstance = R"(
extern "C" void tw_entry(const void* args, unsigned, unsigned) { *static_cast<int*>(const_cast<void*>(args)) = 42; }
)";

// What an artifact computes; -1 = it does not load.
int run_artifact(Device& device, const Artifact& artifact) {
  Result<std::shared_ptr<const LoadedKernel>> kernel = device.load(artifact);
  if (!kernel.ok()) return -1;
  alignas(64) std::byte args[sizeof(int)] = {};
  if (!device.launch(**kernel, args, {1}, {}).ok()) return -1;
  int value;
  std::memcpy(&value, args, sizeof(value));
  return value;
}

TEST(CodeCacheStorm, RealKernelsRunInProcessesWhoseEntriesAreCutShortUnderThem) {
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  const ScratchFolder scratch;
  CodeCacheOptions options;
  options.root = scratch / "root";
  const CompileRequest request = make_request(kInstance);
  std::vector<pid_t> workers;
  for (int i = 0; i < 6; ++i) {
    workers.push_back(start_child([&] {
      Counters counters;
      const std::unique_ptr<Device> device = make_cpu_device(1);
      for (int round = 0; round < 20; ++round) {
        CodeCache cache(options, counters);
        const Result<Artifact> artifact = cache.get(request, host_compiler());
        if (!artifact.ok()) return 1;
        Result<std::shared_ptr<const LoadedKernel>> kernel = device->load(*artifact);
        if (!kernel.ok()) return 2;
        std::error_code error;
        if (round % 4 == 3) fs::resize_file(artifact->path, 0, error);  // what is loaded stays whole
        alignas(64) std::byte args[sizeof(int)] = {};
        if (!device->launch(**kernel, args, {1}, {}).ok()) return 3;
        int value;
        std::memcpy(&value, args, sizeof(value));
        if (value != 42) return 4;
      }
      return 0;
    }));
  }
  for (const pid_t worker : workers) EXPECT_EQ(exit_code_of(worker), 0);
  Counters counters;
  CodeCache cache(options, counters);
  ASSERT_TRUE(cache.get(request, host_compiler()).ok());
  for (const CacheEntryInfo& entry : cache.list()) EXPECT_TRUE(entry.valid) << entry.problem;
}

// ---- What a system does to reads and writes ---------------------------------------------------------------------------

TEST(CodeCacheSystem, SignalsThatInterruptEveryCallChangeNothing) {
  if (test::kThreadSanitizer) GTEST_SKIP() << test::kNoForkReason;
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  const ScratchFolder scratch;
  const int code = exit_code_of(start_child([&] {
    struct sigaction action{};
    action.sa_handler = [](int) {};  // without SA_RESTART: calls come back with EINTR
    sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> done{false};
    const pthread_t worker = pthread_self();
    std::thread bell([&] {
      while (!done) {
        pthread_kill(worker, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
    CodeCacheOptions options;
    options.root = scratch / "root";
    Counters counters;
    CodeCache cache(options, counters);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Result<Artifact> artifact = cache.get(make_request(kInstance), host_compiler());
    const int value = artifact.ok() ? run_artifact(*device, *artifact) : -2;
    const bool sound = cache.list().size() == 1 && cache.list()[0].valid;
    done = true;
    bell.join();
    return value == 42 && sound ? 0 : 1;
  }));
  EXPECT_EQ(code, 0);
}

TEST(CodeCacheSystem, AFileSizeLimitIsAFullDiskAndEndsNobody) {
  const ScratchFolder scratch;
  const int code = exit_code_of(start_child([&] {
    FakeCompiler compiler(scratch / "calls");
    compiler.binary_bytes = 100000;
    CodeCacheOptions options;
    options.root = scratch / "root";
    Counters counters;
    CodeCache cache(options, counters);
    const rlimit small{20000, 20000};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return 77;
    // Nothing so large can be written anywhere: an error with words, not a signal.
    if (cache.get(make_request("int x;\n"), compiler).ok()) return 1;
    if (!cache.list().empty()) return 2;
    compiler.binary_bytes = 100;
    const Result<Artifact> small_one = cache.get(make_request("int y;\n"), compiler);
    return small_one.ok() && cache.list().size() == 1 ? 0 : 3;
  }));
  if (code == 77) GTEST_SKIP() << "this system takes no file size limit";
  EXPECT_EQ(code, 0);
}

TEST(CodeCacheSystem, TimesInTheFutureAreNoReasonToBuildAgain) {
  const ScratchFolder scratch;
  FakeCompiler compiler(scratch / "calls");
  CodeCacheOptions options;
  options.root = scratch / "root";
  Counters counters;
  const CompileRequest request = make_request("int x;\n");
  ASSERT_TRUE(CodeCache(options, counters).get(request, compiler).ok());
  // As if the clock had been set back by years.
  const auto future = fs::file_time_type::clock::now() + std::chrono::hours(24 * 3000);
  for (const auto& file : fs::recursive_directory_iterator(options.root)) fs::last_write_time(file.path(), future);
  CodeCache cache(options, counters);
  EXPECT_TRUE(cache.has(request, compiler));
  EXPECT_TRUE(cache.get(make_request("int y;\n"), compiler).ok());
  EXPECT_EQ(compiler.calls(), 2);
  for (const CacheEntryInfo& entry : cache.list()) EXPECT_GE(entry.age_seconds, 0);
}

// A machine that is gone still holds its locks on a network file system. With the full wait for each, sixty kernels would
// take longer than start_child() allows.
TEST(CodeCacheSystem, AfterOneLockThatNobodyReleasesTheNextOnesCostLittle) {
  const ScratchFolder scratch;
  FakeCompiler compiler(scratch / "calls");
  CodeCacheOptions options;
  options.root = scratch / "root";
  options.lock_wait_seconds = 1.5;
  constexpr int kKernels = 60;
  ASSERT_TRUE(make_folders(scratch / "root/abi1/locks").ok());
  std::vector<ScopedFd> held;
  for (int i = 0; i < kKernels; ++i) {
    const std::string name = CodeCache::digest(numbered_request(i), compiler)->hex().substr(0, 3);
    held.emplace_back(::open((scratch / ("root/abi1/locks/" + name)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    flock(held.back().get(), LOCK_EX | LOCK_NB);
  }
  EXPECT_EQ(exit_code_of(start_child([&] {
              Counters counters;
              CodeCache cache(options, counters);
              for (int i = 0; i < kKernels; ++i) {
                if (!cache.get(numbered_request(i), compiler).ok()) return 1;
              }
              return 0;
            })),
            0);
  EXPECT_EQ(compiler.calls(), kKernels);
}

}  // namespace
}  // namespace tilewright
