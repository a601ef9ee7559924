// SPDX-License-Identifier: MIT
// The pool's crew: one job at a time, handed over by a signal word a thread, claimed by compare-and-swap.
#include "device/cpu/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <thread>
#include <vector>

#include "arch/cpu_nodes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tilewright {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until done() or until the limit; true when done.
template <class Done>
bool spin_until(Done done, int microseconds) {
  if (done()) return true;
  if (microseconds == 0) return false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  do {
    for (int i = 0; i < 16; ++i) {
      pause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// How many of `count` units belong to `owner`, neighbours, and which is the first of them.
constexpr uint32_t units_of(uint32_t owner, uint32_t count, uint32_t sharers) {
  return count / sharers + (owner < count % sharers ? 1 : 0);
}
constexpr uint32_t first_of(uint32_t owner, uint32_t count, uint32_t sharers) {
  return owner * (count / sharers) + std::min(owner, count % sharers);
}

// Counts forks in this line of processes: a crew that was made before the last one has no threads any more.
std::atomic<uint32_t> fork_count{0};

uint32_t fork_generation() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  return fork_count.load(std::memory_order_relaxed);
}

// CPUs for `threads` threads that the calling one makes. A caller that was bound to a few of the process's CPUs, as
// OpenMP runtimes bind theirs, does not pull a whole pool onto them.
std::vector<int> pool_cpus(uint32_t threads) {
  std::vector<int> own = allowed_cpus(0);
  if (own.size() >= threads) return own;
  const std::vector<int> process = allowed_cpus(getpid());  // its first thread's
  std::vector<int> all;
  std::set_union(own.begin(), own.end(), process.begin(), process.end(), std::back_inserter(all));
  return all;
}

// The CPUs that a thread may run on, and how it is kept away from the one that its caller computes on: a thread that is woken
// there begins when the caller is done, however idle the others are, and schedulers do wake it there, most of all those of
// virtual machines. Without success the thread runs where its maker does: slower, not wrong.
class ThreadCpus {
 public:
  // `others`: there are CPUs for the caller and all threads.
  void bind(pthread_t thread, const std::vector<int>& cpus, bool others) {
    if (cpus.empty()) return;
    thread_ = thread;
    bytes_ = CPU_ALLOC_SIZE(cpus.back() + 1);
    set_.reset(CPU_ALLOC(cpus.back() + 1));
    if (set_ == nullptr) return;
    CPU_ZERO_S(bytes_, set_.get());
    for (const int cpu : cpus) CPU_SET_S(cpu, bytes_, set_.get());
    keeps_away_ = others && cpus.size() > 1;
    apply();
  }
  void keep_away(int cpu) {
    if (cpu == away_from_ || !keeps_away_) return;
    if (was_there_) CPU_SET_S(away_from_, bytes_, set_.get());
    was_there_ = CPU_ISSET_S(cpu, bytes_, set_.get());
    if (was_there_) CPU_CLR_S(cpu, bytes_, set_.get());
    away_from_ = cpu;
    apply();
  }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  void apply() { pthread_setaffinity_np(thread_, bytes_, set_.get()); }

  pthread_t thread_ = {};
  std::unique_ptr<cpu_set_t, Free> set_;
  size_t bytes_ = 0;
  bool keeps_away_ = false, was_there_ = false;
  int away_from_ = -1;
};

}  // namespace

class ThreadPool::Crew {
 public:
  Crew(uint32_t threads, uint32_t generation, const std::string& nodes)
      : generation_(generation), size_(threads), nodes_(nodes), members_(new Member[threads]) {
    // More threads than cores: a spinning thread would keep the others from their work.
    const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
    spin_microseconds_ = threads <= cores ? kSpinMicroseconds : 0;
  }

  ~Crew() {
    stop_.store(true);
    for (uint32_t i = 1; i <= started_; ++i) {
      members_[i].signal.fetch_add(1);
      members_[i].signal.notify_one();
    }
    for (uint32_t i = 1; i <= started_; ++i) members_[i].thread.join();
  }

  uint32_t generation() const { return generation_; }

  // False when another caller, or one further up this call chain, has the crew.
  bool try_acquire() {
    return !busy_.load(std::memory_order_relaxed) && !busy_.exchange(true, std::memory_order_acquire);
  }
  void release() { busy_.store(false, std::memory_order_release); }

  void run(uint32_t count, Function function, void* context, uint32_t most);

 private:
  // Each member owns neighbours among the units of a job. `claim` holds the job's number and how many of them nobody has begun. A job that is over has none left, so a member that wakes late can claim nothing.
  struct alignas(128) Member {
    std::atomic<uint32_t> signal{0};  // number of the last job that needs this member
    std::atomic<bool> asleep{false};
    std::atomic<uint64_t> claim{0};
    std::thread thread;
    ThreadCpus cpus;  // changed by who wakes this member
  };

  void start();
  void live(uint32_t self);
  bool work(uint32_t owner, uint32_t job);
  bool work_round(uint32_t self, uint32_t job);
  void wake_below(uint32_t self, uint32_t sharers);

  const uint32_t generation_;
  const uint32_t size_;
  const std::string& nodes_;  // the pool's
  uint32_t started_ = 0;      // members 1 .. started_ have a thread
  bool start_tried_ = false;
  int spin_microseconds_;
  std::unique_ptr<Member[]> members_;
  alignas(128) std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};

  // The job. Written while no unit can be claimed; a member may read it too late, but then its claim fails.
  alignas(128) std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> sharers_{1};
  std::atomic<Function> function_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> caller_cpu_{-1};
  uint32_t job_ = 0;
  alignas(128) std::atomic<uint32_t> remaining_{0};
};

void ThreadPool::Crew::start() {
  start_tried_ = true;
  const std::vector<int> cpus = pool_cpus(size_);
  const std::vector<CpuNode> nodes = cpu_nodes(cpus, nodes_);
  // Signals of the process are handled by its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (uint32_t i = 1; i < size_; ++i) {
    try {
      members_[i].thread = std::thread([this, i] { live(i); });
    } catch (const std::system_error&) {
      break;  // the system gives no more threads; those that are there do the work
    }
    pthread_setname_np(members_[i].thread.native_handle(), "tilewright");
    members_[i].cpus.bind(members_[i].thread.native_handle(), cpus_of_thread(nodes, i, size_), cpus.size() >= size_);
    started_ = i;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Wakes the two members below `self` in the tree of sharers, if they sleep: a cold start takes a logarithmic number of
// steps instead of one system call a member on the caller's thread.
void ThreadPool::Crew::wake_below(uint32_t self, uint32_t sharers) {
  for (uint32_t child = 2 * self + 1; child <= 2 * self + 2 && child < sharers; ++child) {
    if (!members_[child].asleep.load()) continue;
    members_[child].cpus.keep_away(caller_cpu_.load(std::memory_order_relaxed));
    members_[child].signal.notify_one();
  }
}

// Runs what is left of the owner's units. True when this call finished the job's last unit.
bool ThreadPool::Crew::work(uint32_t owner, uint32_t job) {
  Member& member = members_[owner];
  const uint32_t count = count_.load(std::memory_order_relaxed);
  const uint32_t sharers = sharers_.load(std::memory_order_relaxed);
  const Function function = function_.load(std::memory_order_relaxed);
  void* const context = context_.load(std::memory_order_relaxed);
  uint32_t finished = 0;
  uint64_t claim = member.claim.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(claim >> 32) == job && static_cast<uint32_t>(claim) != 0) {
    // Success proves that the job is still open, hence that the four values above are its own.
    if (!member.claim.compare_exchange_weak(claim, claim - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    const uint32_t begun = units_of(owner, count, sharers) - static_cast<uint32_t>(claim);
    function(context, first_of(owner, count, sharers) + begun);
    ++finished;
    --claim;
  }
  return finished != 0 && remaining_.fetch_sub(finished, std::memory_order_acq_rel) == finished;
}

// A member's own units, then, where there are more units than members, what is left of the others'.
bool ThreadPool::Crew::work_round(uint32_t self, uint32_t job) {
  bool last = work(self, job);
  const uint32_t sharers = sharers_.load(std::memory_order_relaxed);
  if (count_.load(std::memory_order_relaxed) == sharers) return last;
  for (uint32_t i = 1; i < sharers; ++i) last = work((self + i) % sharers, job) || last;
  return last;
}

void ThreadPool::Crew::live(uint32_t self) {
  Member& member = members_[self];
  uint32_t seen = 0;
  for (;;) {
    if (!spin_until([&] { return member.signal.load() != seen; }, seen == 0 ? 0 : spin_microseconds_)) {
      // `asleep` first, then the last look at the signal; the caller does it the other way round. One of both sees the
      // other, so no wake-up is lost (all four operations are sequentially consistent).
      member.asleep.store(true);
      member.signal.wait(seen);
      member.asleep.store(false);
    }
    seen = member.signal.load();
    if (stop_.load()) return;
    wake_below(self, sharers_.load(std::memory_order_relaxed));
    if (work_round(self, seen)) remaining_.notify_one();
  }
}

void ThreadPool::Crew::run(uint32_t count, Function function, void* context, uint32_t most) {
  if (!start_tried_) start();
  const uint32_t sharers = std::min({count, started_ + 1, most});
  if (++job_ == 0) ++job_;  // 0 means "none yet"
  count_.store(count, std::memory_order_relaxed);
  sharers_.store(sharers, std::memory_order_relaxed);
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
  remaining_.store(count, std::memory_order_relaxed);
  for (uint32_t i = 0; i < sharers; ++i) {
    members_[i].claim.store(static_cast<uint64_t>(job_) << 32 | units_of(i, count, sharers), std::memory_order_release);
  }
  // From the last to the first: who is woken by a member above it in the tree has been signalled before that member.
  for (uint32_t i = sharers; --i > 0;) members_[i].signal.store(job_);
  wake_below(0, sharers);

  // Own units, then those of members that have not come yet.
  bool last = false;
  for (uint32_t owner = 0; owner < sharers; ++owner) last = work(owner, job_) || last;
  if (last) return;
  const auto done = [&] { return remaining_.load(std::memory_order_acquire) == 0; };
  if (spin_until(done, spin_microseconds_)) return;
  for (uint32_t left = remaining_.load(std::memory_order_acquire); left != 0;
       left = remaining_.load(std::memory_order_acquire)) {
    remaining_.wait(left, std::memory_order_acquire);
  }
}

ThreadPool::ThreadPool(uint32_t threads, std::string nodes)
    : threads_(std::clamp(threads, 1u, kMaxThreads)),
      nodes_(std::move(nodes)),
      crew_(new Crew(threads_, fork_generation(), nodes_)) {}

ThreadPool::~ThreadPool() {
  Crew* crew = crew_.load();
  // The threads of a crew from before a fork are not in this process: they cannot be joined, so the crew stays.
  if (crew->generation() == fork_generation()) delete crew;
}

ThreadPool::Crew* ThreadPool::current_crew() {
  Crew* crew = crew_.load(std::memory_order_acquire);
  const uint32_t generation = fork_generation();
  if (crew->generation() == generation) [[likely]]
    return crew;
  // First run after a fork. The old crew is left alone: its locks and threads are in an unknown state.
  Crew* fresh = new Crew(threads_, generation, nodes_);
  if (crew_.compare_exchange_strong(crew, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return crew;
}

void ThreadPool::run(uint32_t count, Function function, void* context, uint32_t most) {
  if (threads_ > 1 && count > 1 && most > 1) {
    Crew* crew = current_crew();
    if (crew->try_acquire()) {
      crew->run(count, function, context, most);
      crew->release();
      return;
    }
  }
  for (uint32_t i = 0; i < count; ++i) function(context, i);
}

}  // namespace tilewright
