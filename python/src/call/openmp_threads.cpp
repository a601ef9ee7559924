// SPDX-License-Identifier: MIT
#include "call/openmp_threads.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "core/environment.hpp"

namespace tilewright::python {
namespace {

// The entry points that GNU's runtime has, and LLVM's and Intel's too.
struct Runtime {
  void (*parallel)(void (*function)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*thread_number)() = nullptr;
  int (*thread_count)() = nullptr;
  int (*max_threads)() = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, name));
  return to != nullptr;
}

std::atomic<bool> forked{false};

// The runtime that PyTorch's library is linked with: another one may be loaded beside it.
Runtime find_runtime() {
  const std::optional<std::string> setting = environment("TILEWRIGHT_OPENMP");
  if (setting && *setting == "off") return {};
  void* const library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);  // never closed
  if (library == nullptr) return {};
  Runtime found;
  const bool whole = find(library, "GOMP_parallel", found.parallel) &&
                     find(library, "omp_get_thread_num", found.thread_number) &&
                     find(library, "omp_get_num_threads", found.thread_count) &&
                     find(library, "omp_get_max_threads", found.max_threads);
  if (!whole) return {};
  pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  return found;
}

const Runtime& runtime() {
  static const Runtime kRuntime = find_runtime();
  return kRuntime;
}

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// CPU time of this thread: what a share takes when nobody takes the core away.
int64_t own_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// How long OpenMP is left alone after workers came late. Longer each time, so that few calls in all pay for looking
// again; short again after they came in time.
class Patience {
 public:
  bool lost() const {
    const int64_t until = until_ns_.load(std::memory_order_relaxed);
    return until != 0 && now_ns() < until;
  }
  // `own_ns`: what the caller's share of a region took of the CPU; `whole_ns`: how long the region lasted.
  void judge(int64_t own_ns, int64_t whole_ns) {
    if (whole_ns < 1'000'000 + 3 * own_ns) {
      if (pause_ns_.load(std::memory_order_relaxed) != kFirstPauseNs && now_ns() > calm_after()) reset();
      return;
    }
    const int64_t pause = pause_ns_.load(std::memory_order_relaxed);
    until_ns_.store(now_ns() + pause, std::memory_order_relaxed);
    pause_ns_.store(std::min(2 * pause, kLongestPauseNs), std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kFirstPauseNs = 100'000'000, kLongestPauseNs = 10'000'000'000;
  // In time for as long as the last pause was.
  int64_t calm_after() const {
    return until_ns_.load(std::memory_order_relaxed) + pause_ns_.load(std::memory_order_relaxed);
  }
  void reset() {
    pause_ns_.store(kFirstPauseNs, std::memory_order_relaxed);
    until_ns_.store(0, std::memory_order_relaxed);
  }

  std::atomic<int64_t> until_ns_{0};
  std::atomic<int64_t> pause_ns_{kFirstPauseNs};
};

Patience patience;

struct Region {
  uint32_t count;
  const std::function<void(uint32_t)>& body;
  int64_t caller_done_ns = 0;  // own_cpu_ns() after its share
};

// Each thread of the region; there may be fewer than asked for. The caller is number 0.
void run_share(void* data) {
  Region& region = *static_cast<Region*>(data);
  const auto threads = static_cast<uint32_t>(runtime().thread_count());
  const auto self = static_cast<uint32_t>(runtime().thread_number());
  for (uint32_t i = self; i < region.count; i += threads) region.body(i);
  if (self == 0) region.caller_done_ns = own_cpu_ns();
}

void run_parallel(uint32_t count, const std::function<void(uint32_t)>& body) {
  if (count == 1) return body(0);
  Region region{count, body};
  const int64_t start = now_ns(), own_start = own_cpu_ns();
  runtime().parallel(&run_share, &region, count, 0);
  patience.judge(region.caller_done_ns - own_start, now_ns() - start);
}

}  // namespace

OpenMp torch_openmp() {
  static const ParallelFor kParallelFor = &run_parallel;
  if (runtime().parallel == nullptr || forked.load(std::memory_order_relaxed)) return {};
  return {runtime().max_threads(), patience.lost() ? nullptr : &kParallelFor};
}

}  // namespace tilewright::python
