// SPDX-License-Identifier: MIT
#include "call/openmp_threads.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

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

struct Region {
  uint32_t count;
  const std::function<void(uint32_t)>& body;
};

// Each thread of the region; there may be fewer than asked for.
void run_share(void* data) {
  const Region& region = *static_cast<const Region*>(data);
  const auto threads = static_cast<uint32_t>(runtime().thread_count());
  for (auto i = static_cast<uint32_t>(runtime().thread_number()); i < region.count; i += threads) region.body(i);
}

void run_parallel(uint32_t count, const std::function<void(uint32_t)>& body) {
  if (count == 1) return body(0);
  Region region{count, body};
  runtime().parallel(&run_share, &region, count, 0);
}

}  // namespace

OpenMp torch_openmp() {
  static const ParallelFor kParallelFor = &run_parallel;
  if (runtime().parallel == nullptr || forked.load(std::memory_order_relaxed)) return {};
  return {runtime().max_threads(), &kParallelFor};
}

}  // namespace tilewright::python
