// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/barrier.cuh. What copies bring to a barrier lands when somebody waits there, and not before.
#pragma once

#include <map>
#include <vector>

#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

struct alignas(8) Barrier {
  unsigned short arrivals, missing;  // of a phase; of this one
  int bytes_and_phase;               // promised and not landed, times two; the phase's parity
};

// Copies under way, by the block and the barrier that they complete at. Their bytes count there. A barrier's address is the
// same in each block of a cluster.
struct CopyUnderWay {
  std::function<void()> land;
  int bytes;
};
inline std::map<std::pair<unsigned, const Barrier*>, std::vector<CopyUnderWay>> copies_under_way;

// That barrier of another block.
inline Barrier& barrier_of(Barrier& barrier, unsigned block) {
  return *reinterpret_cast<Barrier*>(emulated::shared_memory_of(block) + shared_address(&barrier));
}

inline unsigned parity_of(const Barrier& b) { return static_cast<unsigned>(b.bytes_and_phase) & 1u; }
inline void complete(Barrier& b) {
  if (b.missing != 0 || b.bytes_and_phase >> 1 != 0) return;
  b.missing = b.arrivals;
  b.bytes_and_phase ^= 1;
  emulated::tell_progress();
}
inline void land_copies(Barrier& b) {
  const auto found = copies_under_way.find({emulated::running_block(), &b});
  if (found == copies_under_way.end()) return;
  const std::vector<CopyUnderWay> copies = std::move(found->second);
  copies_under_way.erase(found);
  for (const CopyUnderWay& copy : copies) {
    copy.land();
    b.bytes_and_phase -= copy.bytes * 2;
  }
  emulated::tell_progress();
  complete(b);
}

inline void init(Barrier& barrier, unsigned arrivals) {
  copies_under_way.erase({emulated::running_block(), &barrier});
  barrier = {static_cast<unsigned short>(arrivals), static_cast<unsigned short>(arrivals), 0};
}
inline void fence_barrier_init() {}
inline void arrive(Barrier& barrier) {
  if (barrier.missing == 0) emulated::fail("more arrivals at a barrier than it counts");
  --barrier.missing;
  emulated::tell_progress();
  complete(barrier);
}
inline void arrive_remote(Barrier& barrier, unsigned block) { arrive(barrier_of(barrier, block)); }
// Loads are done when they are asked for.
inline void arrive_after(Barrier& barrier, unsigned) { arrive(barrier); }
inline void arrive_after_where(bool there, Barrier& barrier, unsigned) {
  if (there) arrive(barrier);
}
inline void arrive_remote_after(Barrier& barrier, unsigned block, unsigned) { arrive_remote(barrier, block); }
inline void arrive_expect_bytes(Barrier& barrier, unsigned bytes) {
  barrier.bytes_and_phase += static_cast<int>(bytes) * 2;
  arrive(barrier);
}
inline bool is_complete(Barrier& barrier, unsigned parity) {
  land_copies(barrier);
  return parity_of(barrier) != parity;
}
inline void wait(Barrier& barrier, unsigned parity) {
  emulated::wait_until([&] { return is_complete(barrier, parity); });
}
inline void named_barrier(int id, int threads) { emulated::meet_named(id, static_cast<unsigned>(threads), true); }
inline void named_arrive(int id, int threads) { emulated::meet_named(id, static_cast<unsigned>(threads), false); }

}  // namespace tilewright::sm90
