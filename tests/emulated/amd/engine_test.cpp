// SPDX-License-Identifier: MIT
// The engine under emulated AMD kernels: ids, LDS, barriers, waves, launches.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "emulated/amd/amd_kernels.hpp"
#include "support/sanitizer.hpp"

namespace tilewright::emu {
namespace {

AmdKernels& kernels() {
  static AmdKernels all(R"(
typedef float Float4 __attribute__((vector_size(16)));
typedef unsigned u32;

void ids(u32* out) {
  const u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
  const u32 gx = __builtin_amdgcn_workgroup_id_x(), gy = __builtin_amdgcn_workgroup_id_y(),
            gz = __builtin_amdgcn_workgroup_id_z();
  const u32 sx = __builtin_amdgcn_workgroup_size_x(), sy = __builtin_amdgcn_workgroup_size_y(),
            sz = __builtin_amdgcn_workgroup_size_z();
  const u32 width = __builtin_amdgcn_grid_size_x(), height = __builtin_amdgcn_grid_size_y();
  const u32 at = ((gz * sz + z) * height + gy * sy + y) * width + gx * sx + x;
  out[at] = at * 7 + 1;
}
TILEWRIGHT_EMULATED_ENTRY(run_ids, ids)

// Every work-item writes a word, and reads that of the work-item on the other side.
void reverse(const u32* in, u32* out, int barrier) {
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  u32* lds = reinterpret_cast<u32*>(bytes);
  const u32 i = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x(),
            base = __builtin_amdgcn_workgroup_id_x() * n;
  lds[i] = in[base + i];
  if (barrier) __builtin_amdgcn_s_barrier();
  out[base + i] = lds[n - 1 - i];
}
TILEWRIGHT_EMULATED_ENTRY(run_reverse, reverse)

struct Arguments { const Float4* in; Float4* out; short count; double factor; };
void structs(char before, Arguments a, float add) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  if (i < static_cast<u32>(a.count)) a.out[i] = a.in[i] * static_cast<float>(a.factor) + add + static_cast<float>(before);
}
TILEWRIGHT_EMULATED_ENTRY(run_structs, structs)

struct Block { u32 words[100]; };
void copies(const Block* in, Block* out, int bytes) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  out[i] = in[i];
  __builtin_memcpy(out + 64 + i, in + i, bytes);
}
TILEWRIGHT_EMULATED_ENTRY(run_copies, copies)

void sum(const u32* in, u32* total, u32* arrived) {
  const u32 i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
  __atomic_fetch_add(total, in[i], __ATOMIC_RELAXED);
  __atomic_fetch_add(arrived, 1u, __ATOMIC_RELEASE);
}
TILEWRIGHT_EMULATED_ENTRY(run_sum, sum)

// Waves of a workgroup hand a word on by a flag in global memory.
void relay(u32* flag, u32* out) {
  const u32 wave = __builtin_amdgcn_workitem_id_x() / __builtin_amdgcn_wavefrontsize();
  if (__builtin_amdgcn_workitem_id_x() % __builtin_amdgcn_wavefrontsize() != 0) return;
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != wave) __builtin_amdgcn_s_sleep(1);
  out[wave] = wave + 100;
  __atomic_store_n(flag, wave + 1, __ATOMIC_RELEASE);
}
TILEWRIGHT_EMULATED_ENTRY(run_relay, relay)

// Lanes go around the loop a different number of times; the sum counts who was there each time.
void rounds(u32* out) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  u32 seen = 0;
  for (u32 round = 0; round <= i % 4; ++round)
    seen += static_cast<u32>(__builtin_popcountll(__builtin_amdgcn_ballot_w64(true)));
  out[i] = seen * 1000 + static_cast<u32>(__builtin_popcountll(__builtin_amdgcn_ballot_w64(true)));
}
TILEWRIGHT_EMULATED_ENTRY(run_rounds, rounds)

static const u32 kTable[8] = {3, 1, 4, 1, 5, 9, 2, 6};
void table(u32* out, const u32* index) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  out[i] = kTable[index[i] & 7];
}
TILEWRIGHT_EMULATED_ENTRY(run_table, table)

void columns(u32* out, int stride) {
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  u32* lds = reinterpret_cast<u32*>(bytes);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  lds[i * stride] = i;
  __builtin_amdgcn_wave_barrier();
  out[i] = lds[i * stride];
}
TILEWRIGHT_EMULATED_ENTRY(run_columns, columns)
void wide_columns(Float4* out, int stride) {
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  Float4* lds = reinterpret_cast<Float4*>(bytes);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  lds[i * stride] = Float4{1, 2, 3, 4};
  __builtin_amdgcn_wave_barrier();
  out[i] = lds[i * stride];
}
TILEWRIGHT_EMULATED_ENTRY(run_wide_columns, wide_columns)
)");
  return all;
}

class AmdEmulationEngine : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }
  const EmulatedObject& object() { return kernels().of(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Targets, AmdEmulationEngine, testing::ValuesIn(kAmdTargets));

TEST_P(AmdEmulationEngine, GridsAndBlocksHaveThreeDimensions) {
  std::vector<uint32_t> out(6 * 10 * 8);
  AmdLaunch(object(), "run_ids").buffer("out", &out, false).shape({2, 5, 4}, {3, 2, 2}).run_clean();
  for (uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i * 7 + 1) << i;
}

TEST_P(AmdEmulationEngine, WorkgroupsExchangeThroughLdsForEverySeedAndThreadCount) {
  constexpr uint32_t kItems = 200, kGroups = 7;  // the last wave is not full
  std::vector<uint32_t> in(kItems * kGroups), out(in.size());
  std::iota(in.begin(), in.end(), 5u);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::fill(out.begin(), out.end(), 0u);
    AmdLaunch launch(object(), "run_reverse");
    launch.buffer("in", &in).buffer("out", &out, false).value(1).shape({kGroups, 1, 1}, {kItems, 1, 1}, kItems * 4);
    launch.launch.seed = seed;
    launch.launch.threads = seed % 2 == 0 ? 1 : 3;
    const EmulatedReport report = launch.run_clean();
    for (uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], in[i / kItems * kItems + kItems - 1 - i % kItems]) << i;
    EXPECT_EQ(report.counters.barriers, kGroups);
    EXPECT_EQ(report.counters.global_read_bytes, in.size() * 4);
    EXPECT_EQ(report.counters.global_written_bytes, in.size() * 4);
    EXPECT_EQ(report.counters.lds_read_bytes, in.size() * 4);
    EXPECT_EQ(report.counters.lds_written_bytes, in.size() * 4);
  }
}

TEST_P(AmdEmulationEngine, WithoutMemoryForStacksALaunchIsAnError) {
  if (test::kAddressSanitizer || test::kThreadSanitizer) GTEST_SKIP() << "a sanitizer needs address space of its own";
  const KernelEntry entry = *object().entry("run_ids");
  const GlobalMemory memory;
  EmulatedLaunch launch;
  launch.kernel = "run_ids";
  launch.block = {1024, 1, 1};
  launch.threads = 1;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit nothing_more{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &nothing_more);
    _exit(run_emulated(object(), entry, launch, memory).status().code() == StatusCode::kOutOfMemory ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(AmdEmulationEngine, ArgumentsStandAtTheirAlignment) {
  struct Arguments {
    const void* in;
    void* out;
    short count;
    double factor;
  };
  std::vector<std::array<float, 4>> in(40), out(40);
  for (size_t i = 0; i < in.size(); ++i) in[i] = {float(i), 1, 2, 3};
  AmdLaunch launch(object(), "run_structs");
  launch.value<char>(2).value(Arguments{in.data(), out.data(), 40, 3.0}).value(0.5f);
  launch.launch.block = {64, 1, 1};
  launch.allow("in", &in).allow("out", &out);
  launch.run_clean();
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out[i][0], float(i) * 3 + 2.5f);
    EXPECT_EQ(out[i][3], 11.5f);
  }
}

TEST_P(AmdEmulationEngine, CopiesAreSeenWhole) {
  std::vector<std::array<uint32_t, 100>> in(64), out(128);
  for (uint32_t i = 0; i < 64; ++i) std::iota(in[i].begin(), in[i].end(), i * 1000);
  AmdLaunch launch(object(), "run_copies");
  launch.buffer("in", &in).buffer("out", &out).value(400).shape({1, 1, 1}, {64, 1, 1}).run_clean();
  EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin()));
  EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin() + 64));

  AmdLaunch far(object(), "run_copies");
  const EmulatedReport report = far.buffer("in", &in).buffer("out", &out).value(404).shape({1, 1, 1}, {64, 1, 1}).run();
  const Fault* fault = report.find(FaultKind::kGlobalOutOfBounds);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->buffer, "in");
  EXPECT_EQ(fault->party.lane, 63 % static_cast<uint32_t>(object().arch->wave_size));
}

TEST_P(AmdEmulationEngine, AtomicsOfManyWorkgroupsAddUp) {
  std::vector<uint32_t> in(64 * 50), total(1), arrived(1);
  std::iota(in.begin(), in.end(), 1u);
  AmdLaunch launch(object(), "run_sum");
  launch.buffer("in", &in).buffer("total", &total).buffer("arrived", &arrived).shape({50, 1, 1}, {64, 1, 1});
  launch.launch.threads = 4;
  launch.run_clean();
  EXPECT_EQ(total[0], std::accumulate(in.begin(), in.end(), 0u));
  EXPECT_EQ(arrived[0], in.size());
}

TEST_P(AmdEmulationEngine, WavesThatSpinLetOthersRun) {
  const uint32_t waves = 256 / static_cast<uint32_t>(object().arch->wave_size);
  std::vector<uint32_t> flag(1), out(waves);
  AmdLaunch launch(object(), "run_relay");
  launch.buffer("flag", &flag).buffer("out", &out, false).shape({1, 1, 1}, {256, 1, 1}).run_clean();
  for (uint32_t w = 0; w < waves; ++w) EXPECT_EQ(out[w], w + 100);
}

TEST_P(AmdEmulationEngine, WhoWaitsForNobodyEndsTheLaunch) {
  std::vector<uint32_t> flag(1, 1000), out(8);
  AmdLaunch launch(object(), "run_relay");
  launch.buffer("flag", &flag).buffer("out", &out).shape({3, 1, 1}, {256, 1, 1});
  launch.launch.seconds_without_progress = 0.05;
  const EmulatedReport report = launch.run();
  ASSERT_NE(report.find(FaultKind::kNoProgress), nullptr);
  EXPECT_NE(report.status().message().find("cannot go on"), std::string::npos);
}

TEST_P(AmdEmulationEngine, LanesThatLeaveALoopMeetAgainBehindIt) {
  const uint32_t lanes = static_cast<uint32_t>(object().arch->wave_size);
  std::vector<uint32_t> out(lanes);
  AmdLaunch(object(), "run_rounds").buffer("out", &out, false).shape({1, 1, 1}, {lanes, 1, 1}).run_clean();
  uint32_t seen = 0;
  for (uint32_t round = 0; round < 4; ++round) {
    seen += lanes * (4 - round) / 4;
    EXPECT_EQ(out[round], seen * 1000 + lanes) << round;
  }
}

TEST_P(AmdEmulationEngine, ConstantsOfTheKernelAreRead) {
  std::vector<uint32_t> out(8), index = {7, 6, 5, 4, 3, 2, 1, 0};
  AmdLaunch(object(), "run_table")
      .buffer("out", &out, false)
      .buffer("index", &index)
      .shape({1, 1, 1}, {8, 1, 1})
      .run_clean();
  EXPECT_EQ(out, (std::vector<uint32_t>{6, 2, 9, 5, 1, 4, 1, 3}));
}

TEST_P(AmdEmulationEngine, BankConflictsAreCounted) {
  const uint32_t lanes = static_cast<uint32_t>(object().arch->wave_size), banks = lds_banks(GetParam());
  std::vector<uint32_t> out(lanes * 4);
  auto traffic = [&](const char* kernel, int stride, uint32_t lds) {
    AmdLaunch launch(object(), kernel);
    return launch.buffer("out", &out, false)
        .value(stride)
        .shape({1, 1, 1}, {lanes, 1, 1}, lds)
        .run_clean()
        .counters.lds;
  };
  const uint32_t passes = std::max(1u, lanes / banks);  // of one instruction without conflicts
  EXPECT_EQ(traffic("run_columns", 1, lanes * 4).instructions, 2u);
  EXPECT_EQ(traffic("run_columns", 1, lanes * 4).passes, 2 * passes);
  EXPECT_EQ(traffic("run_columns", 1, lanes * 4).conflicts, 0u);
  const uint32_t together = std::min(lanes, banks);
  EXPECT_EQ(traffic("run_columns", 2, lanes * 8).conflicts, 2 * passes * (2 * together > banks ? 1 : 0));
  EXPECT_EQ(traffic("run_columns", static_cast<int>(banks), lanes * banks * 4).conflicts, 2 * passes * (together - 1));
  EXPECT_EQ(traffic("run_wide_columns", 1, lanes * 16).conflicts, 0u);
}

TEST(AmdEmulationObjects, UnknownBuiltinsDoNotCompile) {
  const Result<EmulatedObject> object = compile_amd(R"(
void f(int* out) { *out = __builtin_amdgcn_no_such_instruction(1); }
TILEWRIGHT_EMULATED_ENTRY(run_f, f)
)",
                                                    "gfx942");
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.status().code(), StatusCode::kCompileFailed);
  EXPECT_NE(object.status().message().find("__builtin_amdgcn_no_such_instruction"), std::string::npos);
}

TEST(AmdEmulationObjects, InstructionsOfOtherTargetsDoNotCompile) {
  const std::string swap = "void f(unsigned* o) { *o = __builtin_amdgcn_permlane32_swap(1, 2, false, false)[0]; }\n";
  EXPECT_FALSE(compile_amd(swap, "gfx942").ok());
  EXPECT_TRUE(compile_amd(swap, "gfx950").ok());
}

TEST(AmdEmulationObjects, AnotherTargetIsNotLoaded) {
  const Result<EmulatedObject> object = compile_amd("void f() {}\nTILEWRIGHT_EMULATED_ENTRY(run_f, f)\n", "gfx942");
  ASSERT_TRUE(object.ok()) << object.status().to_string();
  const Result<EmulatedObject> other = load_emulated(object->object, "gfx950");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("of gfx942, not gfx950"), std::string::npos);
  EXPECT_FALSE(object->entry("run_g").ok());
}

TEST(AmdEmulationObjects, TooManyWorkItemsAreRefused) {
  const Result<EmulatedObject> object = compile_amd("void f() {}\nTILEWRIGHT_EMULATED_ENTRY(run_f, f)\n", "gfx942");
  ASSERT_TRUE(object.ok());
  EmulatedLaunch launch;
  launch.block = {2048, 1, 1};
  EXPECT_FALSE(run_emulated(*object, *object->entry("run_f"), launch, GlobalMemory()).ok());
}

}  // namespace
}  // namespace tilewright::emu
