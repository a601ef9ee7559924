// SPDX-License-Identifier: MIT
// Planted bugs in emulated AMD kernels, each found by its name.
#include <gmock/gmock.h>

#include <numeric>

#include "emulated/amd/amd_kernels.hpp"

namespace tilewright::emu {
namespace {

AmdKernels& kernels() {
  static AmdKernels all(R"(
typedef unsigned u32;
typedef float Float4 __attribute__((vector_size(16)));
#define LDS(Type) TILEWRIGHT_DYNAMIC_LDS(lds_bytes_); Type* lds = reinterpret_cast<Type*>(lds_bytes_)

// Every wave reads what the next one wrote.
void exchange(u32* out, int barrier) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x();
  lds[i] = i;
  __builtin_amdgcn_wave_barrier();
  if (barrier) __builtin_amdgcn_s_barrier();
  out[i] = lds[(i + __builtin_amdgcn_wavefrontsize()) % n];
}
TILEWRIGHT_EMULATED_ENTRY(run_exchange, exchange)

// The next round overwrites what slower waves still read.
void rounds(u32* out, int barrier) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x();
  for (u32 round = 0; round < 2; ++round) {
    lds[i] = i + round;
    __builtin_amdgcn_s_barrier();
    out[i] = lds[n - 1 - i];
    if (barrier) __builtin_amdgcn_s_barrier();
  }
}
TILEWRIGHT_EMULATED_ENTRY(run_rounds, rounds)

// One byte is everybody's.
void same_byte(unsigned char* out, int lanes) {
  LDS(unsigned char);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  if (i < static_cast<u32>(lanes)) lds[5] = static_cast<unsigned char>(i);
  __builtin_amdgcn_s_barrier();
  out[i] = lds[5];
}
TILEWRIGHT_EMULATED_ENTRY(run_same_byte, same_byte)

void neighbour(u32* out, int meeting) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  lds[i] = i;
  if (meeting) __builtin_amdgcn_wave_barrier();
  out[i] = lds[i ^ 1];
}
TILEWRIGHT_EMULATED_ENTRY(run_neighbour, neighbour)

void tail(const float* in, float* out, int n) {
  const int i = static_cast<int>(__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() +
                                 __builtin_amdgcn_workitem_id_x());
  if (i <= n) out[i] = in[i] + 1;
}
TILEWRIGHT_EMULATED_ENTRY(run_tail, tail)

void misaligned(const float* in, Float4* out, int shift) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  out[i] = *reinterpret_cast<const Float4*>(in + i * 4 + shift);
}
TILEWRIGHT_EMULATED_ENTRY(run_misaligned, misaligned)
void misaligned_lds(u32* out, int shift) {
  LDS(unsigned char);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  *reinterpret_cast<u32*>(lds + i * 4 + shift) = i;
  out[i] = *reinterpret_cast<u32*>(lds + i * 4 + shift);
}
TILEWRIGHT_EMULATED_ENTRY(run_misaligned_lds, misaligned_lds)

void uninitialised(u32* out, int written) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  if (i < static_cast<u32>(written)) lds[i] = i;
  __builtin_amdgcn_s_barrier();
  out[i] = lds[i];
}
TILEWRIGHT_EMULATED_ENTRY(run_uninitialised, uninitialised)

void divergent(u32* out, u32 limit) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  if (i < limit) __builtin_amdgcn_s_barrier();
  out[i] = i;
}
TILEWRIGHT_EMULATED_ENTRY(run_divergent, divergent)

void two_barriers(u32* out, u32 limit) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  if (i < limit) {
    out[i] = 1;
    __builtin_amdgcn_s_barrier();
    out[i] += 4;
  } else {
    out[i] = 2;
    __builtin_amdgcn_s_barrier();
    out[i] += 7;
  }
}
TILEWRIGHT_EMULATED_ENTRY(run_two_barriers, two_barriers)

void beyond_lds(u32* out, int index) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  lds[static_cast<int>(i) + index] = i;
  __builtin_amdgcn_wave_barrier();
  out[i] = lds[static_cast<int>(i) + index];
}
TILEWRIGHT_EMULATED_ENTRY(run_beyond_lds, beyond_lds)

void accumulate(u32* sums) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  sums[i] += i;
}
TILEWRIGHT_EMULATED_ENTRY(run_accumulate, accumulate)

// The same words for every workgroup, or each its own.
void shared_words(u32* out, u32 stride) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  out[__builtin_amdgcn_workgroup_id_x() * stride + i] = i;
}
TILEWRIGHT_EMULATED_ENTRY(run_shared_words, shared_words)

int deep(volatile int* at, int n) {
  volatile int words[256];
  for (int i = 0; i < 256; ++i) words[i] = n + i + *at;
  return n == 0 ? words[3] : deep(words, n - 1) + words[n % 256];
}
// Sums of a matrix instruction that begin at zero, or wherever the registers happen to be.
#if defined(__GFX9__)
typedef float Sums __attribute__((vector_size(16)));
Sums multiply(float x, Sums sums) { return __builtin_amdgcn_mfma_f32_16x16x4f32(x, x, sums, 0, 0, 0); }
#else
typedef float Sums __attribute__((vector_size(32)));
typedef _Float16 Halves __attribute__((vector_size(32)));
Sums multiply(float x, Sums sums) {
  const Halves y = Halves{} + static_cast<_Float16>(x);
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(y, y, sums);
}
#endif
void add_products(float* out, Sums sums) {
  for (int i = 0; i < 3; ++i) sums = multiply(static_cast<float>(i), sums);
  out[__builtin_amdgcn_workitem_id_x()] = sums[0];
}
// Two functions: of a register that is cleared on one way only, g++ clears both.
void sum(float* out, int) { add_products(out, Sums{}); }
TILEWRIGHT_EMULATED_ENTRY(run_sum, sum)
void uncleared_sum(float* out, int) {
  Sums sums;
  add_products(out, sums);
}
TILEWRIGHT_EMULATED_ENTRY(run_uncleared_sum, uncleared_sum)

void private_memory(int* out, int depth) { *out = deep(out, depth); }
TILEWRIGHT_EMULATED_ENTRY(run_private_memory, private_memory)
)");
  return all;
}

class AmdEmulationFaults : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }
  const EmulatedObject& object() { return kernels().of(GetParam()); }
  // A launch of one workgroup of 128 with one buffer of words and one number.
  template <class T = uint32_t>
  EmulatedReport run(const char* kernel, int number, uint32_t lds = 0, uint64_t seed = 1, bool initialised = true) {
    std::vector<T> out(128);
    AmdLaunch launch(object(), kernel);
    launch.buffer("out", &out, initialised).value(number).shape({1, 1, 1}, {128, 1, 1}, lds);
    launch.launch.seed = seed;
    return launch.run();
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, AmdEmulationFaults, testing::Values("gfx942", "gfx950", "gfx1100"));

TEST_P(AmdEmulationFaults, MissingBarrierIsARaceForEverySeed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_TRUE(run("run_exchange", 1, 512, seed).status().ok())
        << run("run_exchange", 1, 512, seed).status().to_string();
    const EmulatedReport report = run("run_exchange", 0, 512, seed);
    ASSERT_NE(report.find(FaultKind::kLdsRace), nullptr) << seed;
    const Fault& race = *report.find(FaultKind::kLdsRace);
    ASSERT_TRUE(race.other);
    EXPECT_NE(race.other->wave, race.party.wave);
    EXPECT_NE(race.other->writes, race.party.writes);
    EXPECT_EQ(race.bytes, 4u);
    EXPECT_NE(race.text().find("no barrier between"), std::string::npos) << race.text();
  }
}

TEST_P(AmdEmulationFaults, OverwritingWhatOthersReadIsARace) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_TRUE(run("run_rounds", 1, 512, seed).status().ok());
    EXPECT_NE(run("run_rounds", 0, 512, seed).find(FaultKind::kLdsRace), nullptr) << seed;
  }
}

TEST_P(AmdEmulationFaults, TwoWritersOfAByteAreARace) {
  EXPECT_TRUE(run<uint8_t>("run_same_byte", 1, 16).status().ok());
  EXPECT_NE(run<uint8_t>("run_same_byte", 2, 16).find(FaultKind::kLdsRace), nullptr);
}

TEST_P(AmdEmulationFaults, LanesOfAWaveNeedAMeeting) {
  EXPECT_TRUE(run("run_neighbour", 1, 512).status().ok());
  const EmulatedReport report = run("run_neighbour", 0, 512);
  const Fault* race = report.find(FaultKind::kLdsRace);
  ASSERT_NE(race, nullptr) << report.status().to_string();
}

TEST_P(AmdEmulationFaults, OutOfBoundsTailIsFoundAndNotWritten) {
  std::vector<float> in(101, 1.0f), out(101, 0.0f);
  std::vector<float> shorter(out.begin(), out.end() - 1);
  AmdLaunch launch(object(), "run_tail");
  launch.buffer("in", &in).buffer("out", &shorter).value(100).shape({2, 1, 1}, {64, 1, 1});
  const EmulatedReport report = launch.run();
  const Fault* fault = report.find(FaultKind::kGlobalOutOfBounds);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->buffer, "out");
  EXPECT_EQ(fault->workgroup[0], 1u);
  EXPECT_EQ(fault->party.work_item[0], 36u);
  EXPECT_TRUE(fault->party.writes);
  EXPECT_EQ(report.faults_found, 1u);
  EXPECT_NE(fault->text().find("past the end"), std::string::npos) << fault->text();
  EXPECT_EQ(shorter[99], 2.0f);
}

TEST_P(AmdEmulationFaults, MisalignedAccessesAreFound) {
  std::vector<float> in(300);
  for (const int shift : {0, 1, 2}) {
    std::vector<float> out(256);
    AmdLaunch launch(object(), "run_misaligned");
    const EmulatedReport report =
        launch.buffer("in", &in).buffer("out", &out).value(shift).shape({1, 1, 1}, {64, 1, 1}).run();
    const Fault* fault = report.find(FaultKind::kMisaligned);
    EXPECT_EQ(fault != nullptr, shift != 0) << report.status().to_string();
    if (fault == nullptr) continue;
    EXPECT_NE(fault->detail.find("multiple of 16"), std::string::npos);
    EXPECT_EQ(fault->buffer, "in");
  }
  EXPECT_TRUE(run("run_misaligned_lds", 0, 520).status().ok());
  const EmulatedReport report = run("run_misaligned_lds", 2, 520);
  ASSERT_NE(report.find(FaultKind::kMisaligned), nullptr);
  EXPECT_EQ(report.find(FaultKind::kMisaligned)->buffer, "LDS");
}

TEST_P(AmdEmulationFaults, UninitialisedLdsIsFound) {
  EXPECT_TRUE(run("run_uninitialised", 128, 512).status().ok());
  const EmulatedReport report = run("run_uninitialised", 127, 512);
  const Fault* fault = report.find(FaultKind::kUninitialisedLds);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->party.work_item[0], 127u);
  EXPECT_EQ(fault->address, 127u * 4);
  EXPECT_EQ(report.faults_found, 1u);
}

TEST_P(AmdEmulationFaults, AnAccumulatorThatNobodyClearedIsFound) {
  EXPECT_TRUE(run<float>("run_sum", 0).status().ok()) << run<float>("run_sum", 0).status().message();
  const EmulatedReport report = run<float>("run_uncleared_sum", 0);
  const Fault* fault = report.find(FaultKind::kUninitialisedRegister);
  ASSERT_NE(fault, nullptr) << report.status().to_string();
  EXPECT_NE(fault->site, 0u);
  EXPECT_THAT(report.status().message(), testing::HasSubstr("C of a matrix instruction"));
}

TEST_P(AmdEmulationFaults, UninitialisedGlobalMemoryIsFound) {
  std::vector<uint32_t> sums(64);
  auto launch = [&](bool initialised) {
    AmdLaunch launch(object(), "run_accumulate");
    return launch.buffer("sums", &sums, initialised).shape({1, 1, 1}, {64, 1, 1}).run();
  };
  EXPECT_TRUE(launch(true).status().ok());
  const EmulatedReport report = launch(false);
  ASSERT_NE(report.find(FaultKind::kUninitialisedGlobal), nullptr);
  EXPECT_EQ(report.find(FaultKind::kUninitialisedGlobal)->buffer, "sums");
  EXPECT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(report.faults_found, 64u);
}

TEST_P(AmdEmulationFaults, WorkgroupsThatWriteTheSameBytesAreARace) {
  std::vector<uint32_t> out(256);
  AmdLaunch launch(object(), "run_shared_words");
  launch.buffer("out", &out).value(64u).shape({2, 1, 1}, {64, 1, 1});
  EXPECT_TRUE(launch.run().status().ok());
  EXPECT_TRUE(launch.run().status().ok());  // another launch may write them again
  AmdLaunch wrong(object(), "run_shared_words");
  wrong.buffer("out", &out).value(63u).shape({2, 1, 1}, {64, 1, 1});
  const EmulatedReport report = wrong.run();
  const Fault* fault = report.find(FaultKind::kGlobalRace);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->buffer, "out");
  EXPECT_EQ(report.faults_found, 1u);
  EXPECT_THAT(report.status().message(), testing::HasSubstr("at byte 252: another workgroup of the launch wrote it"));
}

TEST_P(AmdEmulationFaults, DivergentBarriersAreFound) {
  const int wave = object().arch->wave_size;
  EXPECT_TRUE(run("run_divergent", 128).status().ok());
  EXPECT_TRUE(run("run_divergent", wave).status().ok());  // a whole wave may have ended
  const EmulatedReport report = run("run_divergent", wave + 5);
  const Fault* fault = report.find(FaultKind::kDivergentBarrier);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->party.wave, 1u);
  ASSERT_TRUE(fault->other);
  EXPECT_EQ(fault->other->lane, 5u);
  EXPECT_TRUE(run("run_two_barriers", wave).status().ok());
  EXPECT_NE(run("run_two_barriers", 3).find(FaultKind::kDivergentBarrier), nullptr);
}

TEST_P(AmdEmulationFaults, LdsEndsWhereTheLaunchSays) {
  EXPECT_TRUE(run("run_beyond_lds", 0, 512).status().ok());
  for (const int shift : {1, -1, 20000, -1000}) {
    const EmulatedReport report = run("run_beyond_lds", shift, 512);
    ASSERT_NE(report.find(FaultKind::kLdsOutOfBounds), nullptr) << shift;
    EXPECT_EQ(report.find(FaultKind::kLdsOutOfBounds)->buffer, "LDS");
  }
}

TEST_P(AmdEmulationFaults, MoreLdsThanTheTargetHasIsRefused) {
  const auto most = static_cast<uint32_t>(object().arch->shared_bytes);
  EXPECT_TRUE(run("run_uninitialised", 128, most).status().ok());
  const EmulatedReport report = run("run_uninitialised", 128, most + 1);
  ASSERT_NE(report.find(FaultKind::kLdsOverflow), nullptr);
  EXPECT_NE(report.status().message().find(std::to_string(most)), std::string::npos);
}

TEST_P(AmdEmulationFaults, TooMuchPrivateMemoryIsFound) {
  std::vector<int> out(1);
  for (const int depth : {8, 200}) {
    AmdLaunch launch(object(), "run_private_memory");
    const EmulatedReport report = launch.buffer("out", &out).value(depth).shape({1, 1, 1}, {1, 1, 1}).run();
    EXPECT_EQ(report.find(FaultKind::kStackOverflow) != nullptr, depth == 200) << report.status().to_string();
  }
}

TEST_P(AmdEmulationFaults, TheFirstOnesAreKept) {
  std::vector<float> in(64, 1.0f), out(64);
  in.reserve(1024);  // what lies behind it is nobody's
  AmdLaunch launch(object(), "run_tail");
  launch.buffer("in", &in).buffer("out", &out).value(100000).shape({8, 1, 1}, {64, 1, 1});
  launch.launch.max_faults = 1;
  const EmulatedReport report = launch.run();
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(report.faults[0].workgroup[0], 1u);
  EXPECT_EQ(report.faults[0].repeats, 7u * 64);
}

}  // namespace
}  // namespace tilewright::emu
