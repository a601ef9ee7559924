// SPDX-License-Identifier: MIT
// Fibers, waves and barriers of a workgroup. What its memory accesses are checked against is in workgroup_memory.cpp.
#include "device/emu/workgroup.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

#define TILEWRIGHT_EMU_DEFINE_SWITCH
#include "tile/emu/fiber_switch.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define TILEWRIGHT_EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEWRIGHT_EMU_ASAN 1
#endif
#endif
#ifdef TILEWRIGHT_EMU_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace tilewright::emu {
namespace {

uint64_t next_random(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <class Word>
uint64_t atomically(void* address, AtomicOperation operation, uint64_t value64, uint64_t expected64) {
  const std::atomic_ref<Word> word(*static_cast<Word*>(address));
  const auto value = static_cast<Word>(value64);
  auto expected = static_cast<Word>(expected64);
  switch (operation) {
    case kAtomicLoad: return word.load();
    case kAtomicStore: word.store(value); return 0;
    case kAtomicExchange: return word.exchange(value);
    case kAtomicAdd: return word.fetch_add(value);
    case kAtomicSub: return word.fetch_sub(value);
    case kAtomicAnd: return word.fetch_and(value);
    case kAtomicOr: return word.fetch_or(value);
    case kAtomicXor: return word.fetch_xor(value);
    case kAtomicCompareExchange: word.compare_exchange_strong(expected, value); return expected;
  }
  return 0;
}

uint64_t lane_bit(const LaneState* state) { return uint64_t{1} << state->lane; }
uint32_t lowest(uint64_t lanes) { return static_cast<uint32_t>(std::countr_zero(lanes)); }

}  // namespace

Workgroup::Workgroup(const EmulatedObject& object, KernelEntry entry, const EmulatedLaunch& launch,
                     const GlobalMemory& memory)
    : object_(object),
      entry_(entry),
      launch_(launch),
      memory_(memory),
      wave_size_(static_cast<uint32_t>(object.arch->wave_size)),
      work_items_(launch.block[0] * launch.block[1] * launch.block[2]),
      gfx9_(object.arch->target.starts_with("gfx9")),
      banks_(lds_banks(object.arch->target)),
      lds_(static_cast<size_t>(object.arch->shared_bytes), wave_size_),
      lanes_(work_items_),
      waves_((work_items_ + wave_size_ - 1) / wave_size_) {
  const size_t bytes = kStackBytes * (work_items_ + 1);
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<unsigned char*>(mapping);
  stacks_ = mapping_ + (kStackBytes - reinterpret_cast<uintptr_t>(mapping_) % kStackBytes) % kStackBytes;
}

Workgroup::~Workgroup() { munmap(mapping_, kStackBytes * (work_items_ + 1)); }

void Workgroup::start(std::array<uint32_t, 3> id) {
  id_ = id;
  mark_ = GlobalMemory::mark_of((uint64_t{id[2]} * launch_.grid[1] + id[1]) * launch_.grid[0] + id[0]);
  faults.clear();
  given_up_ = damaged_ = for_wave_ = false;
  last_buffer_ = nullptr;
  lds_.start(launch_.lds_bytes);
#ifdef TILEWRIGHT_EMU_ASAN
  __asan_unpoison_memory_region(stacks_, kStackBytes * work_items_);
#endif
  for (uint32_t w = 0; w < waves_.size(); ++w) {
    Wave& wave = waves_[w];
    wave.index = w;
    wave.first = w * wave_size_;
    const uint32_t width = std::min(wave_size_, work_items_ - wave.first);
    wave.alive = wave.ready = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    wave.waiting = wave.at_barrier = wave.stopped = 0;
    wave.mixed = false;
    wave.in_flight.clear();
    wave.stretch = lds_.next_stretch();
    wave.view.lanes = wave_size_;
    wave.view.width = width;
  }
  for (uint32_t i = 0; i < work_items_; ++i) {
    unsigned char* stack = stacks_ + i * kStackBytes;
    LaneState* state = lane_state_of(stack);
    Lane& lane = lanes_[i];
    lane = {this, &waves_[i / wave_size_], state, nullptr, nullptr, i};
    *state = {};
    state->engine = &table();
    state->work_item = &lane;
    state->work_item_id[0] = i % launch_.block[0];
    state->work_item_id[1] = i / launch_.block[0] % launch_.block[1];
    state->work_item_id[2] = i / launch_.block[0] / launch_.block[1];
    for (int d = 0; d < 3; ++d) {
      state->workgroup_id[d] = id[static_cast<size_t>(d)];
      state->block[d] = launch_.block[static_cast<size_t>(d)];
      state->grid[d] = launch_.grid[static_cast<size_t>(d)];
    }
    state->lane = i % wave_size_;
    state->wave = i / wave_size_;
    state->lds = lds_.data();
    state->lds_bytes = launch_.lds_bytes;
    lane.wave->view.state[state->lane] = state;
    // Six registers and where to go; the stack is aligned as after a call.
    auto* low = reinterpret_cast<unsigned char*>(state) - reinterpret_cast<uintptr_t>(state) % 64;
    void** top = reinterpret_cast<void**>(low) - 2;
    top[0] = reinterpret_cast<void*>(&Workgroup::lane_main);
    top[1] = nullptr;
    std::fill(top - 6, top, nullptr);
    lane.saved = top - 6;
  }
}

void Workgroup::lane_main() {
  LaneState* state = lane_state_of(__builtin_frame_address(0));
  Workgroup& workgroup = of(state);
  workgroup.entry_(workgroup.launch_.arguments.data(), 0, 0);
  workgroup.end(*lane_of(state), false);
}

bool Workgroup::run(std::array<uint32_t, 3> id, uint64_t order_seed) {
  start(id);
  progress_time_ = std::chrono::steady_clock::now();
  std::vector<uint32_t> order(waves_.size());
  std::iota(order.begin(), order.end(), 0u);
  for (uint64_t pass = 0;; ++pass) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(&order_seed) % i]);
    bool ran = false;
    for (const uint32_t w : order) {
      Wave& wave = waves_[w];
      if (wave.ready == 0) continue;
      ran = true;
      tilewright_emu_switch(&scheduler_, lanes_[wave.first + lowest(wave.ready)].saved);
      if (given_up_) return false;
    }
    if (!ran && !release_barrier()) break;
    if (pass % 256 == 255 && out_of_time()) return false;
  }
  for (Wave& wave : waves_) wave.lds_instructions.flush(gfx9_, banks_, &counters.lds);
  return true;
}

// Nobody has come to a meeting, a barrier or the end for too long.
bool Workgroup::out_of_time() {
  const auto now = std::chrono::steady_clock::now();
  if (progress_ != progress_seen_) {
    progress_seen_ = progress_;
    progress_time_ = now;
  }
  if (std::chrono::duration<double>(now - progress_time_).count() < launch_.seconds_without_progress) return false;
  for (const Wave& wave : waves_) {
    if (wave.ready == 0) continue;
    Fault* fault = report(FaultKind::kNoProgress, lanes_[wave.first + lowest(wave.ready)], false, nullptr);
    if (fault != nullptr) fault->detail = "the launch cannot go on: lanes spin, and nobody changes what they wait for";
    break;
  }
  given_up_ = true;
  return true;
}

void Workgroup::leave(Lane& lane) {
  Wave& wave = *lane.wave;
  while (wave.ready == 0 && resolve(wave)) {
  }
  if (wave.ready == 0) {
    tilewright_emu_switch(&lane.saved, scheduler_);
    return;
  }
  Lane& next = lanes_[wave.first + lowest(wave.ready)];
  if (&next != &lane) tilewright_emu_switch(&lane.saved, next.saved);
}

void Workgroup::end(Lane& lane, bool stopped) {
  Wave& wave = *lane.wave;
  const uint64_t bit = lane_bit(lane.state);
  wave.alive &= ~bit;
  wave.ready &= ~bit;
  if (stopped) {
    wave.stopped |= bit;
    damaged_ = true;
  }
  ++progress_;
  leave(lane);
  std::abort();  // nobody switches to a lane that has ended
}

// From inside a lane that loops.
void Workgroup::give_up(Lane& lane) {
  tilewright_emu_switch(&lane.saved, scheduler_);
  std::abort();
}

// Where lanes wait at several places, those at the lowest address go on: with blocks in the order of the source (the
// compiler is told to leave them so) they are the ones behind.
bool Workgroup::resolve(Wave& wave) {
  if (wave.waiting == 0) return false;
  uint64_t group = wave.waiting;
  if (wave.mixed) {
    const void* site = lanes_[wave.first + lowest(group)].site;
    for (uint64_t rest = wave.waiting; rest != 0; rest &= rest - 1)
      site = std::min(site, lanes_[wave.first + lowest(rest)].site);
    group = 0;
    for (uint64_t rest = wave.waiting; rest != 0; rest &= rest - 1)
      if (lanes_[wave.first + lowest(rest)].site == site) group |= rest & -rest;
  }
  wave.view.active = group;
  for_wave_ = true;
  if (const WaveFunction function = wave.functions[lowest(group)]) function(&wave.view);
  for_wave_ = false;
  meet_done(wave);
  wave.waiting &= ~group;
  wave.ready |= group;
  wave.mixed = wave.waiting != 0;
  ++counters.meetings;
  return true;
}

void Workgroup::meet_done(Wave& wave) {
  if (!wave.lds_instructions.empty()) wave.lds_instructions.flush(gfx9_, banks_, &counters.lds);
  wave.stretch = lds_.next_stretch();
  ++progress_;
}

bool Workgroup::release_barrier() {
  uint64_t waiting = 0;
  for (Wave& wave : waves_) {
    waiting |= wave.at_barrier;
    if (wave.at_barrier == 0 || damaged_) continue;
    const uint32_t first = lowest(wave.at_barrier);
    const uint64_t all = wave.view.width == 64 ? ~uint64_t{0} : (uint64_t{1} << wave.view.width) - 1;
    const void* site = lanes_[wave.first + first].site;
    uint64_t elsewhere = 0;
    for (uint64_t rest = wave.at_barrier; rest != 0; rest &= rest - 1)
      if (lanes_[wave.first + lowest(rest)].site != site) elsewhere |= rest & -rest;
    const uint64_t ended = all & ~wave.at_barrier;
    if (ended == 0 && elsewhere == 0) continue;
    if (Fault* fault = report(FaultKind::kDivergentBarrier, lanes_[wave.first + first], false, site)) {
      fault->other = party(wave.first + lowest(ended != 0 ? ended : elsewhere), false);
      fault->detail = ended != 0 ? "waits at a barrier that another lane of its wave never reached"
                                 : "waits at a barrier while another lane of its wave waits at another";
    }
  }
  if (waiting == 0) return false;
  lds_.barrier();
  for (Wave& wave : waves_) {
    if (wave.at_barrier == 0) continue;
    meet_done(wave);
    wave.ready = wave.at_barrier;
    wave.at_barrier = 0;
  }
  ++counters.barriers;
  return true;
}

Party Workgroup::party(uint32_t work_item, bool writes) const {
  const LaneState& state = *lanes_[work_item].state;
  return {{state.work_item_id[0], state.work_item_id[1], state.work_item_id[2]}, state.wave, state.lane, writes};
}

// Null when one of that kind at that place is known.
Fault* Workgroup::report(FaultKind kind, const Lane& lane, bool writes, const void* site) {
  const uint64_t offset = site == nullptr ? 0 : reinterpret_cast<uintptr_t>(site) - object_.begin;
  for (Fault& known : faults) {
    if (known.kind == kind && known.site == offset) {
      ++known.repeats;
      return nullptr;
    }
  }
  Fault fault;
  fault.kind = kind;
  fault.kernel = launch_.kernel;
  fault.workgroup = id_;
  fault.party = party(lane.work_item, writes);
  fault.site = offset;
  faults.push_back(std::move(fault));
  return &faults.back();
}

const EngineTable& Workgroup::table() {
  static constexpr EngineTable kTable = {
      kAbiVersion,
      sizeof(EngineTable),
      [](LaneState* state, const void* address, size_t bytes, AccessKind kind, const void* site) {
        Lane& lane = *lane_of(state);
        if (lane.workgroup->for_wave_) return;  // the emulation's own, in the private memory of all lanes
        if (!lane.workgroup->check(lane, reinterpret_cast<uintptr_t>(address), bytes, kind, site))
          lane.workgroup->end(lane, true);
      },
      [](LaneState* state, void* address, uint32_t bytes, AtomicOperation operation, uint64_t value, uint64_t expected,
         const void* site) {
        const auto at = reinterpret_cast<uintptr_t>(address);
        if ((at ^ reinterpret_cast<uintptr_t>(state)) >= kStackBytes) {  // not its own private memory
          table().access(state, address, bytes, kAtomic, site);
        }
        if (operation == kAtomicLoad) table().yield(state);
        switch (bytes) {
          case 1: return atomically<uint8_t>(address, operation, value, expected);
          case 2: return atomically<uint16_t>(address, operation, value, expected);
          case 4: return atomically<uint32_t>(address, operation, value, expected);
          default: return atomically<uint64_t>(address, operation, value, expected);
        }
      },
      [](LaneState* state, const void* address, uint32_t alignment, const char* file, uint32_t line, const void* site) {
        Lane& lane = *lane_of(state);
        lane.workgroup->report_misaligned(lane, reinterpret_cast<uintptr_t>(address), alignment, file, line, site);
        lane.workgroup->end(lane, true);  // where the host's own instruction might fault
      },
      [](LaneState* state, void* operands, WaveFunction run, const void* site) {
        Lane& lane = *lane_of(state);
        Wave& wave = *lane.wave;
        const uint32_t index = state->lane;
        const uint64_t bit = uint64_t{1} << index;
        wave.view.operands[index] = operands;
        wave.functions[index] = run;
        lane.site = site;
        if (wave.waiting == 0) wave.site = site;
        wave.mixed |= wave.site != site;
        wave.waiting |= bit;
        wave.ready &= ~bit;
        lane.workgroup->leave(lane);
      },
      [](LaneState* state, const void* site) {
        Lane& lane = *lane_of(state);
        lane.site = site;
        lane.wave->at_barrier |= lane_bit(state);
        lane.wave->ready &= ~lane_bit(state);
        lane.workgroup->leave(lane);
      },
      [](LaneState* state) {
        Lane& lane = *lane_of(state);
        const uint64_t later = lane.wave->ready & ~((lane_bit(state) << 1) - 1);
        tilewright_emu_switch(&lane.saved, later != 0 ? lane.workgroup->lanes_[lane.wave->first + lowest(later)].saved
                                                      : lane.workgroup->scheduler_);
      },
      [](LaneState* state) { lane_of(state)->wave->in_flight.emplace_back(); },
      [](LaneState* state, void* to, const void* from, size_t bytes, const void* site) {
        Lane& lane = *lane_of(state);
        Workgroup& workgroup = *lane.workgroup;
        const uintptr_t target = reinterpret_cast<uintptr_t>(to);
        Copy copy{static_cast<unsigned char*>(to),
                  static_cast<uint32_t>(std::min<size_t>(bytes, 16)),
                  lane.work_item,
                  workgroup.lds_.near(target),
                  {}};
        if (!workgroup.check(lane, reinterpret_cast<uintptr_t>(from), copy.bytes, kRead, site)) return;
        std::memcpy(copy.data.data(), from, copy.bytes);
        if (copy.to_lds) {
          if (!workgroup.check_lds(lane, target, copy.bytes, kWrite, site)) return;
          const auto offset = static_cast<uint32_t>(workgroup.lds_.offset_of(target));
          workgroup.lds_.begin_copy(offset, copy.bytes, workgroup.actor(lane));
        }
        std::memset(to, 0xff, copy.bytes);  // until it lands
        lane.wave->in_flight.back().push_back(copy);
      },
      [](LaneState* state, uint32_t outstanding) { of(state).land(*lane_of(state)->wave, outstanding); },
      [](LaneState* state, const char* text, const void* site) {
        Lane& lane = *lane_of(state);
        if (lane.workgroup->damaged_) return;  // lanes are missing that the kernel did not switch off
        if (Fault* fault = lane.workgroup->report(FaultKind::kInstruction, lane, false, site)) fault->detail = text;
      },
      [](LaneState* state, const char* operand) {
        Lane& lane = *lane_of(state);
        if (Fault* fault = lane.workgroup->report(FaultKind::kUninitialisedRegister, lane, false, lane.site))
          fault->detail = std::string(operand) + ": nobody wrote the register";
      },
  };
  return kTable;
}

}  // namespace tilewright::emu
