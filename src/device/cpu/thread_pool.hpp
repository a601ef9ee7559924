// SPDX-License-Identifier: MIT
// A persistent pool that runs one function for every index of a range. The caller is thread 0 and never waits for a
// thread that sleeps: units that nobody has begun are its own. Where units are more than threads, each thread has neighbours of them, and
// then takes what others have not begun.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace tilewright {

// run() is safe from many threads at once, from inside a unit, and in the child of a fork:
//   - a pool that is busy (another caller, or a nested call) runs the units one after another on the calling thread;
//   - a child of fork() starts with a pool of its own, made at its first run(). What the parent's pool held stays mapped.
// Threads start at the first run() that needs them and do not allocate afterwards. They spin for kSpinMicroseconds after
// a job, then sleep, so that they leave the cores to other runtimes. They stay on the CPUs that their maker may use, or,
// where those are fewer than the threads, on those of the process; within one NUMA node each (arch/cpu_nodes.hpp); and, where
// there is a CPU for each, not on the one that its caller is on when it wakes them.
class ThreadPool {
 public:
  static constexpr int kSpinMicroseconds = 30;
  static constexpr uint32_t kMaxThreads = 1024;

  using Function = void (*)(void* context, uint32_t index);

  // `threads` counts the caller; clamped to [1, kMaxThreads]. Nothing starts yet. `nodes` is where Linux tells of nodes.
  explicit ThreadPool(uint32_t threads, std::string nodes = "/sys/devices/system/node");
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t threads() const { return threads_; }

  // Calls function(context, i) once for every i in [0, count), on `most` threads at most, and returns when all calls have returned.
  // Everything that the units wrote is visible to the caller. The function must not throw.
  void run(uint32_t count, Function function, void* context, uint32_t most = kMaxThreads);

  template <class Body>
  void parallel_for(uint32_t count, Body&& body, uint32_t most = kMaxThreads) {
    using Plain = std::remove_reference_t<Body>;
    run(
        count, [](void* context, uint32_t index) { (*static_cast<Plain*>(context))(index); },
        const_cast<std::remove_const_t<Plain>*>(&body), most);
  }

 private:
  class Crew;
  Crew* current_crew();

  const uint32_t threads_;
  const std::string nodes_;
  std::atomic<Crew*> crew_;
};

}  // namespace tilewright
