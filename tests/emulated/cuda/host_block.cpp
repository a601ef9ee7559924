// SPDX-License-Identifier: MIT
#include "emulated/cuda/host_block.hpp"

#include <ucontext.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace tilewright {

alignas(1024) unsigned char dynamic_shared[emulated::kSharedCapacity];

}  // namespace tilewright

namespace tilewright::emulated {

std::byte* const shared_memory = reinterpret_cast<std::byte*>(dynamic_shared);

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr std::byte kUndefined{0xFF};

struct Copy {
  size_t to;
  const void* from;
  int bytes, valid;
};

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
  std::vector<Copy> open;                // since the last group
  std::deque<std::vector<Copy>> groups;  // oldest first
};

// Threads that wait until all of them are there.
struct Barrier {
  unsigned arrived = 0;
  uint64_t passed = 0;
};

struct Block {
  ucontext_t scheduler;
  std::vector<Thread> threads;
  Barrier barrier;
  std::vector<Barrier> warps;
  std::array<Barrier, 16> named;
  std::vector<WarpRows> rows;
  size_t shared_bytes = 0;
  const char* failure = "";
  const std::function<void()>* body = nullptr;
  bool moved = false;  // a thread ended or a barrier opened in this round
};
Block block;

Thread& self() { return block.threads[thread_index.x]; }

void yield() {
  const Index index = thread_index;
  swapcontext(&block.threads[index.x].context, &block.scheduler);
  thread_index = index;
}

// Waits until `count` threads have come; the last one calls open() before any goes on.
template <class Open>
void meet(Barrier& barrier, unsigned count, Open open) {
  const uint64_t passed = barrier.passed;
  if (++barrier.arrived == count) {
    open();
    barrier.arrived = 0;
    ++barrier.passed;
    block.moved = true;
    return;
  }
  while (barrier.passed == passed) yield();
}

void run_thread() {
  (*block.body)();
  self().done = true;
  block.moved = true;
  for (const auto& group : self().groups) {
    if (!group.empty()) fail("a thread ended before its copies");
  }
  swapcontext(&self().context, &block.scheduler);
}

void run_block(unsigned threads) {
  block.threads.resize(threads);
  block.warps.assign((threads + kWarp - 1) / kWarp, {});
  block.rows.assign(block.warps.size(), {});
  block.barrier = {};
  block.named = {};
  std::memset(shared_memory, static_cast<int>(kUndefined), kSharedCapacity);
  for (Thread& thread : block.threads) {
    if (thread.stack == nullptr) thread.stack.reset(new char[kStackBytes]);
    thread.done = false;
    thread.open.clear(), thread.groups.clear();
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, run_thread, 0);
  }
  for (block.moved = true; block.moved;) {
    block.moved = false;
    bool all_done = true;
    for (unsigned i = 0; i < threads; ++i) {
      if (block.threads[i].done) continue;
      all_done = false;
      thread_index = {i, 0, 0};
      swapcontext(&block.scheduler, &block.threads[i].context);
    }
    if (all_done) return;
  }
  fail("threads wait for one another without end");
}

}  // namespace

const char* run_grid(unsigned blocks, unsigned threads, size_t shared_bytes, const std::function<void()>& body) {
  block.failure = "";
  block.body = &body;
  block.shared_bytes = shared_bytes;
  grid_size = {blocks, 1, 1};
  if (shared_bytes > kSharedCapacity) return "more shared memory than any GPU has";
  for (unsigned i = 0; i < blocks && *block.failure == '\0'; ++i) {
    block_index = {i, 0, 0};
    run_block(threads);
  }
  return block.failure;
}

int lane() { return static_cast<int>(thread_index.x % kWarp); }

void fail(const char* what) {
  if (*block.failure == '\0') block.failure = what;
}

void wait_for_block() {
  meet(block.barrier, static_cast<unsigned>(block.threads.size()), [] {});
}

void meet_named(int id, unsigned threads, bool waits) {
  Barrier& barrier = block.named[static_cast<size_t>(id)];
  if (waits) return meet(barrier, threads, [] {});
  if (++barrier.arrived < threads) return;
  barrier.arrived = 0;
  ++barrier.passed;
  block.moved = true;
}

void wait_until(const std::function<bool()>& ready) {
  while (!ready()) yield();
}

void tell_progress() { block.moved = true; }

WarpRows& warp_rows() { return block.rows[thread_index.x / kWarp]; }

void meet_warp(const std::function<void(WarpRows&)>& together) {
  meet(block.warps[thread_index.x / kWarp], kWarp, [&] { together(warp_rows()); });
}

std::byte* shared_at(size_t offset, size_t size) {
  if (offset + size > block.shared_bytes) {
    fail("an address outside of the block's shared memory");
    return nullptr;
  }
  if (offset % size != 0) fail("a misaligned address in shared memory");
  return shared_memory + offset;
}

void begin_copy(size_t to, const void* from, int bytes, int valid) {
  if (valid < 0 || valid > bytes) return fail("cp.async of more bytes than it has, or fewer than none");
  if (valid > 0 && reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(bytes) != 0) {
    return fail("cp.async from a misaligned address");
  }
  std::byte* target = shared_at(to, static_cast<size_t>(bytes));
  if (target == nullptr) return;
  std::memset(target, static_cast<int>(kUndefined), static_cast<size_t>(bytes));  // until it lands
  self().open.push_back({to, from, bytes, valid});
}

void commit_group() {
  self().groups.push_back(std::move(self().open));
  self().open.clear();
}

void wait_for_groups(int pending) {
  auto& groups = self().groups;
  for (; groups.size() > static_cast<size_t>(pending); groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      std::memset(shared_memory + copy.to, 0, static_cast<size_t>(copy.bytes));
      if (copy.valid > 0) std::memcpy(shared_memory + copy.to, copy.from, static_cast<size_t>(copy.valid));
    }
  }
}

}  // namespace tilewright::emulated
