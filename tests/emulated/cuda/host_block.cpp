// SPDX-License-Identifier: MIT
#include "emulated/cuda/host_block.hpp"

#include <ucontext.h>

#include <algorithm>
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
constexpr int kMostLooks = 100;  // of all blocks, in which nothing else moves
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
  uint64_t cluster_phase = 0;            // that it has arrived at
  std::vector<Copy> open;                // since the last group
  std::deque<std::vector<Copy>> groups;  // oldest first
};

// Threads that wait until all of them are there.
struct Barrier {
  unsigned arrived = 0;
  uint64_t passed = 0;
};

struct Block {
  std::vector<Thread> threads;
  Barrier barrier;
  std::vector<Barrier> warps;
  std::array<Barrier, 16> named;
  std::vector<WarpRows> rows;
  std::vector<std::byte> memory;  // shared, while another block runs
  bool ended = false;
};

// The blocks that run together: whole clusters.
struct Together {
  ucontext_t scheduler;
  std::vector<Block> blocks;
  unsigned running = 0, of_cluster = 1;
  std::vector<Barrier> clusters;
  size_t shared_bytes = 0;
  const char* failure = "";
  const std::function<void()>* body = nullptr;
  bool moved = false;   // a thread ended or a barrier opened in this round
  bool looked = false;  // at global memory, which may have changed without having been told
};
Together together;

Block& block() { return together.blocks[together.running]; }
Thread& self() { return block().threads[thread_index.x]; }

void yield() {
  const Index index = thread_index;
  swapcontext(&self().context, &together.scheduler);
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
    together.moved = true;
    return;
  }
  while (barrier.passed == passed) yield();
}

void run_thread() {
  (*together.body)();
  self().done = true;
  together.moved = true;
  for (const auto& group : self().groups) {
    if (!group.empty()) fail("a thread ended before its copies");
  }
  swapcontext(&self().context, &together.scheduler);
}

void begin_block(Block& begun, unsigned threads) {
  begun.threads.resize(threads);
  begun.warps.assign((threads + kWarp - 1) / kWarp, {});
  begun.rows.assign(begun.warps.size(), {});
  begun.barrier = {};
  begun.named = {};
  begun.memory.assign(together.shared_bytes, kUndefined);
  begun.ended = false;
  for (Thread& thread : begun.threads) {
    if (thread.stack == nullptr) thread.stack.reset(new char[kStackBytes]);
    thread.done = false;
    thread.open.clear(), thread.groups.clear();
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, run_thread, 0);
  }
}

// Shared memory becomes that of block `rank` of those that run.
void turn_to(unsigned rank, unsigned first) {
  if (rank != together.running) {
    std::memcpy(block().memory.data(), shared_memory, together.shared_bytes);
    together.running = rank;
    std::memcpy(shared_memory, block().memory.data(), together.shared_bytes);
  }
  block_index = {first + rank, 0, 0};
}

// The threads of a block by turns, each until it waits or ends.
void run_round() {
  for (unsigned i = 0; i < block().threads.size(); ++i) {
    if (block().threads[i].done) continue;
    thread_index = {i, 0, 0};
    swapcontext(&together.scheduler, &block().threads[i].context);
  }
  block().ended = std::ranges::all_of(block().threads, &Thread::done);
}

void run_together(unsigned first, unsigned blocks, unsigned threads) {
  together.blocks.resize(blocks);
  together.clusters.assign(blocks / together.of_cluster, {});
  together.running = 0;
  for (Block& begun : together.blocks) begin_block(begun, threads);
  std::memset(shared_memory, static_cast<int>(kUndefined), kSharedCapacity);
  // Each block as far as it comes: so it is as far ahead of the others as their barriers let it be.
  int looks = 0;
  for (bool moved = true; moved || (together.looked && ++looks < kMostLooks);) {
    if (moved) looks = 0;
    moved = together.looked = false;
    for (unsigned rank = 0; rank < blocks; ++rank) {
      if (together.blocks[rank].ended) continue;
      turn_to(rank, first);
      for (together.moved = true; together.moved && !block().ended;) {
        together.moved = false;
        run_round();
        moved = moved || together.moved;
      }
    }
    if (std::ranges::all_of(together.blocks, &Block::ended)) return;
  }
  fail("threads wait for one another without end");
}

}  // namespace

const char* run_grid(unsigned blocks, unsigned threads, size_t shared_bytes, const std::function<void()>& body,
                     unsigned cluster, bool all_together) {
  together.failure = "";
  together.body = &body;
  together.shared_bytes = shared_bytes;
  grid_size = {blocks, 1, 1};
  if (shared_bytes > kSharedCapacity) return "more shared memory than any GPU has";
  if (blocks % cluster != 0) return "a grid that is no multiple of its cluster";
  const unsigned at_once = all_together ? blocks : cluster;
  if (threads > 1024 || at_once * 1024 > kMostThreads) return "more threads than run together";
  together.of_cluster = cluster;
  for (unsigned i = 0; i < blocks && *together.failure == '\0'; i += at_once) run_together(i, at_once, threads);
  return together.failure;
}

unsigned blocks_in_cluster() { return together.of_cluster; }
unsigned block_in_cluster() { return together.running % together.of_cluster; }
unsigned running_block() { return together.running; }
unsigned block_of_cluster(unsigned rank) { return together.running - block_in_cluster() + rank; }
unsigned running_thread() { return together.running * 1024 + thread_index.x; }

void arrive_cluster() {
  Barrier& barrier = together.clusters[together.running / together.of_cluster];
  self().cluster_phase = barrier.passed;
  if (++barrier.arrived < together.of_cluster * block().threads.size()) return;
  barrier.arrived = 0;
  ++barrier.passed;
  together.moved = true;
}
void wait_cluster() {
  while (together.clusters[together.running / together.of_cluster].passed == self().cluster_phase) yield();
}

std::byte* shared_memory_of(unsigned rank) {
  if (rank >= together.of_cluster) {
    fail("a block outside of the cluster");
    return shared_memory;
  }
  Block& of = together.blocks[block_of_cluster(rank)];
  if (of.ended) fail("a block's memory is used after its end");
  return &of == &block() ? shared_memory : of.memory.data();
}

int lane() { return static_cast<int>(thread_index.x % kWarp); }

void fail(const char* what) {
  if (*together.failure == '\0') together.failure = what;
}

void wait_for_block() {
  meet(block().barrier, static_cast<unsigned>(block().threads.size()), [] {});
}

void meet_named(int id, unsigned threads, bool waits) {
  Barrier& barrier = block().named[static_cast<size_t>(id)];
  if (waits) return meet(barrier, threads, [] {});
  if (++barrier.arrived < threads) return;
  barrier.arrived = 0;
  ++barrier.passed;
  together.moved = true;
}

void wait_until(const std::function<bool()>& ready) {
  while (!ready()) yield();
}

void let_others_run() {
  together.looked = true;
  yield();
}
void tell_progress() { together.moved = true; }

WarpRows& warp_rows() { return block().rows[thread_index.x / kWarp]; }

void meet_warp(const std::function<void(WarpRows&)>& together) {
  meet(block().warps[thread_index.x / kWarp], kWarp, [&] { together(warp_rows()); });
}

std::byte* shared_at(size_t offset, size_t size) {
  if (offset + size > together.shared_bytes) {
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
