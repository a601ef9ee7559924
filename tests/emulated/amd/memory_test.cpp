// SPDX-License-Identifier: MIT
// Buffer loads and stores, copies that land at their waits, and arithmetic, in emulated AMD kernels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "emulated/amd/amd_kernels.hpp"

namespace tilewright::emu {
namespace {

AmdKernels& kernels() {
  static AmdKernels all(R"(
typedef unsigned u32;
#define LDS(Type) TILEWRIGHT_DYNAMIC_LDS(lds_bytes_); Type* lds = reinterpret_cast<Type*>(lds_bytes_)

#define BUFFER(bits, Type)                                                                                      \
  void buffer##bits(Type* in, Type* out, u32 in_bytes, u32 out_bytes, u32 scalar) {                             \
    const u32 i = __builtin_amdgcn_workitem_id_x();                                                             \
    const auto from = __builtin_amdgcn_make_buffer_rsrc(in, 0, in_bytes, 0);                                    \
    const auto to = __builtin_amdgcn_make_buffer_rsrc(out, 0, out_bytes, 0);                                    \
    __builtin_amdgcn_raw_buffer_store_b##bits(                                                                  \
        __builtin_amdgcn_raw_buffer_load_b##bits(from, i * sizeof(Type), scalar, 0), to, i * sizeof(Type), 0, 0); \
  }                                                                                                             \
  TILEWRIGHT_EMULATED_ENTRY(run_buffer##bits, buffer##bits)
BUFFER(8, unsigned char)
BUFFER(16, unsigned short)
BUFFER(32, u32)
BUFFER(64, tilewright::emu::Words2)
BUFFER(128, tilewright::emu::Words4)

// A load whose data the source waits for itself.
void later(const u32* in, u32* out, int wait) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  u32 value[4];
  tilewright::emu::load_later(value, in + i * 4, 16);
  const u32 before = value[1];
#if defined(__GFX12__)
  tilewright::emu::s_wait_dscnt(0);  // of other counters: the loads are still under way
  tilewright::emu::s_wait_loadcnt_dscnt(1 << 8);
  if (wait == 1) tilewright::emu::s_wait_loadcnt(0);
  if (wait == 2) tilewright::emu::s_wait_loadcnt_dscnt(63);
#else
  if (wait) __builtin_amdgcn_s_waitcnt(0);
#endif
  out[2 * i] = before;
  out[2 * i + 1] = value[1];
}
TILEWRIGHT_EMULATED_ENTRY(run_later, later)

#if defined(__GFX9__)
constexpr int vmcnt(int n) { return (n & 15) | (n >> 4) << 14 | 7 << 4 | 15 << 8; }
// Two buffers of LDS, filled one step ahead of their use.
void pipeline(const u32* in, u32* out, int steps, int wait, int barrier) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x(), wave = i / 64 * 64;
  __builtin_amdgcn_global_load_lds(in + i, lds + wave, 4, 0, 0);
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      __builtin_amdgcn_global_load_lds(in + (step + 1) * n + i, lds + (step + 1) % 2 * n + wave, 4, 0, 0);
      if (wait) __builtin_amdgcn_s_waitcnt(vmcnt(1));
    } else if (wait) {
      __builtin_amdgcn_s_waitcnt(vmcnt(0));
    }
    __builtin_amdgcn_s_barrier();
    out[step * n + i] = lds[step % 2 * n + n - 1 - i];
    if (barrier) __builtin_amdgcn_s_barrier();
  }
}
TILEWRIGHT_EMULATED_ENTRY(run_pipeline, pipeline)

void buffer_to_lds(u32* in, u32* out, u32 bytes) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  const auto from = __builtin_amdgcn_make_buffer_rsrc(in, 0, bytes, 0);
  __builtin_amdgcn_raw_ptr_buffer_load_lds(from, lds, 4, i * 4, 8, 4, 0);
  __builtin_amdgcn_s_waitcnt(0);
  __builtin_amdgcn_wave_barrier();
  out[i] = lds[i + 1];
}
TILEWRIGHT_EMULATED_ENTRY(run_buffer_to_lds, buffer_to_lds)

void wide_to_lds(const u32* in, u32* out) {
  LDS(u32);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  __builtin_amdgcn_global_load_lds(in + i * 4, lds, 16, 0, 0);
  __builtin_amdgcn_s_waitcnt(0);
  __builtin_amdgcn_wave_barrier();
  for (int k = 0; k < 4; ++k) out[i * 4 + k] = lds[i * 4 + k];
}
TILEWRIGHT_EMULATED_ENTRY(run_wide_to_lds, wide_to_lds)
#endif

void add(float* sum, double* wide, tilewright::emu::TwoHalves* pair) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  __builtin_amdgcn_global_atomic_fadd_f32(sum, static_cast<float>(i));
#if defined(__GFX9__)
  __builtin_amdgcn_global_atomic_fadd_f64(wide, static_cast<double>(i) / 4);
#endif
#if defined(__GFX9__) || defined(__GFX12__)
  __builtin_amdgcn_global_atomic_fadd_v2f16(pair, tilewright::emu::TwoHalves{1, -1});
#endif
}
TILEWRIGHT_EMULATED_ENTRY(run_add, add)

// Every lane on the same few words.
void add_lds(float* out) {
  LDS(float);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  if (i < 8) lds[i] = 0;
  __builtin_amdgcn_s_barrier();
  const float x = static_cast<float>(i);
  __builtin_amdgcn_ds_atomic_fadd_f32(lds, x);
  __builtin_amdgcn_ds_faddf(lds, 1, __ATOMIC_RELAXED, 0, false);
  __builtin_amdgcn_ds_fminf(lds + 1, 5 - x, __ATOMIC_RELAXED, 0, false);
  __builtin_amdgcn_ds_fmaxf(lds + 2, i == 7 ? __builtin_nanf("") : x, __ATOMIC_RELAXED, 0, false);
#if defined(__GFX9__)
  __builtin_amdgcn_ds_atomic_fadd_f64(reinterpret_cast<double*>(lds + 4), x / 4);
#endif
#if defined(__gfx942__) || defined(__gfx950__) || defined(__GFX12__)
  __builtin_amdgcn_ds_atomic_fadd_v2f16(reinterpret_cast<tilewright::emu::TwoHalves*>(lds + 6),
                                        tilewright::emu::TwoHalves{1, -1});
  // 1 and 0.00390625: the second one is lost beside 256.
  __builtin_amdgcn_ds_atomic_fadd_v2bf16(reinterpret_cast<tilewright::emu::TwoBrains*>(lds + 7),
                                         tilewright::emu::TwoBrains{0x3f80, static_cast<short>(i == 0 ? 0x4380 : 0x3b80)});
#endif
  __builtin_amdgcn_s_barrier();
  if (i < 8) out[i] = lds[i];
}
TILEWRIGHT_EMULATED_ENTRY(run_add_lds, add_lds)

// Words 0 and 1 of a buffer of `bytes`; what lies past its end stays, and reads as zero.
void add_buffer(float* data, float* out, u32 bytes) {
  const u32 i = __builtin_amdgcn_workitem_id_x();
  const auto buffer = __builtin_amdgcn_make_buffer_rsrc(data, 0, bytes, 0);
  out[i] = __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32(1.0f, buffer, static_cast<int>(i % 2) * 4, 0, 0);
  __builtin_amdgcn_raw_ptr_buffer_atomic_add_i32(3, buffer, 0, 8, 0);
#if defined(__GFX9__)
  __builtin_amdgcn_raw_ptr_buffer_atomic_fmax_f64(static_cast<double>(i), buffer, 16, 0, 0);
  __builtin_amdgcn_raw_ptr_buffer_atomic_fmin_f64(-static_cast<double>(i), buffer, 24, 0, 0);
#else
  __builtin_amdgcn_raw_ptr_buffer_atomic_fmax_f32(static_cast<float>(i), buffer, 16, 0, 0);
  __builtin_amdgcn_raw_ptr_buffer_atomic_fmin_f32(-static_cast<float>(i), buffer, 24, 0, 0);
#endif
#if defined(__GFX9__) || defined(__GFX12__)
  __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_v2f16(tilewright::emu::TwoHalves{1, -1}, buffer, 12, 0, 0);
#endif
}
TILEWRIGHT_EMULATED_ENTRY(run_add_buffer, add_buffer)

void maths(const float* in, float* out) {
  const float a = in[0], b = in[1];
  int n = 0;
  out[n++] = __builtin_amdgcn_exp2f(a);
  out[n++] = __builtin_amdgcn_logf(a);
  out[n++] = __builtin_amdgcn_rcpf(a);
  out[n++] = __builtin_amdgcn_rsqf(a);
  out[n++] = __builtin_amdgcn_sqrtf(a);
  out[n++] = __builtin_amdgcn_sinf(0.25f);
  out[n++] = __builtin_amdgcn_cosf(0.5f);
  out[n++] = __builtin_amdgcn_fractf(-a);
  out[n++] = __builtin_amdgcn_ldexpf(a, 3);
  out[n++] = __builtin_amdgcn_fmed3f(a, b, 3.0f);
  const auto halves = __builtin_amdgcn_cvt_pkrtz(b, -b);
  out[n++] = static_cast<float>(halves[0]);
  out[n++] = static_cast<float>(halves[1]);
}
TILEWRIGHT_EMULATED_ENTRY(run_maths, maths)

void bits(const u32* in, u32* out) {
  out[0] = __builtin_amdgcn_perm(in[0], in[1], 0x0c0d0702u);
  out[1] = __builtin_amdgcn_perm(in[0], in[1], 0x0b0a0908u);
  out[2] = __builtin_amdgcn_alignbyte(in[0], in[1], 3);
  out[3] = __builtin_amdgcn_alignbit(in[0], in[1], 4);
  out[4] = __builtin_amdgcn_ubfe(in[0], 8, 12);
  out[5] = static_cast<u32>(__builtin_amdgcn_sbfe(static_cast<int>(in[0]), 24, 8));
}
TILEWRIGHT_EMULATED_ENTRY(run_bits, bits)
)");
  return all;
}

class AmdEmulationMemory : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }
  const EmulatedObject& object() { return kernels().of(GetParam()); }
  bool gfx9() { return object().arch->wave_size == 64; }
};
INSTANTIATE_TEST_SUITE_P(Targets, AmdEmulationMemory, testing::ValuesIn(kAmdTargets));

TEST_P(AmdEmulationMemory, BuffersEndWhereTheirRecordsDo) {
  for (const uint32_t bits : {8u, 16u, 32u, 64u, 128u}) {
    const uint32_t size = bits / 8, valid = 40 * size;
    // Both end in the middle of a wide access: of its dwords on gfx9, of the whole of it elsewhere.
    const uint32_t cut = size > 4 ? 4 : 0, scalar = 2 * size;
    std::vector<uint8_t> in(valid), out(64 * size, 7);
    std::iota(in.begin(), in.end(), uint8_t{1});
    AmdLaunch launch(object(), "run_buffer" + std::to_string(bits));
    launch.buffer("in", &in).buffer("out", &out).value(valid - cut).value(50 * size - cut).value(scalar);
    launch.shape({1, 1, 1}, {64, 1, 1}).run_clean();
    const uint32_t in_end = gfx9() || cut == 0 ? valid - cut : valid - size;
    const uint32_t out_end = gfx9() || cut == 0 ? 50 * size - cut : 49 * size;
    for (uint32_t i = 0; i < out.size(); ++i) {
      const uint32_t expected = i >= out_end ? 7 : i + scalar < in_end ? in[i + scalar] : 0;
      ASSERT_EQ(out[i], expected) << bits << " bits, byte " << i;
    }
  }
}

TEST_P(AmdEmulationMemory, ABufferLargerThanItsMemoryIsOutOfBounds) {
  std::vector<uint32_t> in(20), out(64);
  AmdLaunch launch(object(), "run_buffer32");
  launch.buffer("in", &in).buffer("out", &out).value(21 * 4).value(64 * 4).value(0);
  const EmulatedReport report = launch.shape({1, 1, 1}, {64, 1, 1}).run();
  ASSERT_NE(report.find(FaultKind::kGlobalOutOfBounds), nullptr);
  EXPECT_EQ(report.find(FaultKind::kGlobalOutOfBounds)->buffer, "in");
}

TEST_P(AmdEmulationMemory, RegistersHoldNothingBeforeTheWait) {
  std::vector<uint32_t> in(64 * 4), out(64 * 2);
  std::iota(in.begin(), in.end(), 0u);
  for (const int wait : {0, 1, 2}) {
    AmdLaunch launch(object(), "run_later");
    launch.buffer("in", &in).buffer("out", &out).value(wait).shape({1, 1, 1}, {64, 1, 1}).run_clean();
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(out[2 * i], ~0u);
      ASSERT_EQ(out[2 * i + 1], wait != 0 ? i * 4 + 1 : ~0u);
    }
  }
}

TEST_P(AmdEmulationMemory, CopiesToLdsLandAtTheirWaits) {
  if (!gfx9()) GTEST_SKIP() << "this target loads nothing straight to LDS";
  constexpr uint32_t kItems = 128, kSteps = 5;
  std::vector<uint32_t> in(kItems * kSteps), out(in.size());
  std::iota(in.begin(), in.end(), 3u);
  const auto launch = [&](int wait, int barrier, uint64_t seed) {
    AmdLaunch one(object(), "run_pipeline");
    one.launch.seed = seed;
    one.buffer("in", &in).buffer("out", &out).value(static_cast<int>(kSteps)).value(wait).value(barrier);
    return one.shape({1, 1, 1}, {kItems, 1, 1}, kItems * 8).run();
  };
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const EmulatedReport report = launch(1, 1, seed);
    EXPECT_TRUE(report.status().ok()) << report.status().to_string();
    for (uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], in[i / kItems * kItems + kItems - 1 - i % kItems]);
    EXPECT_NE(launch(0, 1, seed).find(FaultKind::kMissingWait), nullptr) << seed;
    EXPECT_NE(launch(1, 0, seed).find(FaultKind::kLdsRace), nullptr) << seed;
  }
  EXPECT_NE(launch(0, 1, 1).status().message().find("missing_wait"), std::string::npos);
}

TEST_P(AmdEmulationMemory, BufferCopiesToLdsAreRangeChecked) {
  if (!gfx9()) GTEST_SKIP() << "this target loads nothing straight to LDS";
  std::vector<uint32_t> in(64), out(64);
  std::iota(in.begin(), in.end(), 100u);
  AmdLaunch launch(object(), "run_buffer_to_lds");
  launch.buffer("in", &in).buffer("out", &out).value(uint32_t{50 * 4}).shape({1, 1, 1}, {64, 1, 1}, 65 * 4).run_clean();
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i + 3 < 50 ? 100 + i + 3 : 0) << i;
}

TEST_P(AmdEmulationMemory, WideCopiesToLdsAreOfGfx950) {
  if (!gfx9()) GTEST_SKIP() << "this target loads nothing straight to LDS";
  std::vector<uint32_t> in(256), out(256);
  std::iota(in.begin(), in.end(), 0u);
  AmdLaunch launch(object(), "run_wide_to_lds");
  const EmulatedReport report = launch.buffer("in", &in).buffer("out", &out).shape({1, 1, 1}, {64, 1, 1}, 1024).run();
  EXPECT_EQ(report.find(FaultKind::kInstruction) == nullptr, GetParam() == "gfx950");
  EXPECT_EQ(in, out);
}

TEST_P(AmdEmulationMemory, FloatsAreAddedAtomically) {
  constexpr uint32_t kGroups = 6;
  std::vector<float> sum(1);
  std::vector<double> wide(1);
  std::vector<uint32_t> pair(1);
  AmdLaunch launch(object(), "run_add");
  launch.launch.threads = 3;
  launch.buffer("sum", &sum).buffer("wide", &wide).buffer("pair", &pair).shape({kGroups, 1, 1}, {64, 1, 1}).run_clean();
  EXPECT_EQ(sum[0], kGroups * 2016.0f);
  EXPECT_EQ(wide[0], gfx9() ? kGroups * 504.0 : 0.0);
  EXPECT_EQ(pair[0], gfx9() || GetParam() == "gfx1201" ? 0xde005e00u : 0u);  // -384 and 384

  std::vector<float> nothing;
  AmdLaunch far(object(), "run_add");
  far.buffer("sum", &nothing).buffer("wide", &wide).buffer("pair", &pair).shape({1, 1, 1}, {64, 1, 1});
  EXPECT_NE(far.run().find(FaultKind::kGlobalOutOfBounds), nullptr);
}

TEST_P(AmdEmulationMemory, AtomicsOfLdsLoseNothing) {
  std::vector<float> out(8, -1.0f);
  const EmulatedReport report =
      AmdLaunch(object(), "run_add_lds").buffer("out", &out).shape({1, 1, 1}, {64, 1, 1}, 32).run_clean();
  const bool pairs = GetParam() != "gfx90a" && GetParam() != "gfx1100";
  EXPECT_EQ(out[0], 2016.0f + 64);
  EXPECT_EQ(out[1], -58.0f);
  EXPECT_EQ(out[2], 63.0f);  // NaN is no number
  EXPECT_EQ(out[3], 0.0f);
  double wide = 0;
  std::memcpy(&wide, &out[4], 8);
  EXPECT_EQ(wide, gfx9() ? 504.0 : 0.0);
  uint32_t halves = 0, brains = 0;
  std::memcpy(&halves, &out[6], 4);
  std::memcpy(&brains, &out[7], 4);
  EXPECT_EQ(halves, pairs ? 0xd4005400u : 0u);  // -64 and 64
  EXPECT_EQ(brains, pairs ? 0x43804280u : 0u);  // 256 and 64
  const EmulatedReport short_report =
      AmdLaunch(object(), "run_add_lds").buffer("out", &out).shape({1, 1, 1}, {64, 1, 1}, 4).run();
  EXPECT_NE(short_report.find(FaultKind::kLdsOutOfBounds), nullptr);
}

TEST_P(AmdEmulationMemory, AtomicsOfBuffersEndWhereTheirRecordsDo) {
  for (const uint32_t bytes : {32u, 4u}) {
    std::vector<uint32_t> data(8);
    std::vector<float> out(64);
    AmdLaunch launch(object(), "run_add_buffer");
    launch.buffer("data", &data).buffer("out", &out).value(bytes).shape({1, 1, 1}, {64, 1, 1}).run_clean();
    std::sort(out.begin(), out.end());
    if (bytes == 4) {
      EXPECT_EQ(data, (std::vector<uint32_t>{0x42000000u, 0, 0, 0, 0, 0, 0, 0}));
      EXPECT_EQ(out[32], 0.0f);  // of lanes that are refused, and of the first that is not
      EXPECT_EQ(out[33], 1.0f);
      continue;
    }
    const bool pairs = gfx9() || GetParam() == "gfx1201";
    const std::vector<uint32_t> first = {0x42000000u, 0x42000000u, 192, pairs ? 0xd4005400u : 0u};
    EXPECT_EQ(std::vector<uint32_t>(data.begin(), data.begin() + 4), first);
    double most = 0, least = 0;
    std::memcpy(&most, &data[4], 8);
    std::memcpy(&least, &data[6], 8);
    if (gfx9()) {
      EXPECT_EQ(most, 63.0);
      EXPECT_EQ(least, -63.0);
    } else {
      EXPECT_EQ(data[4], 0x427c0000u);  // 63
      EXPECT_EQ(data[6], 0xc27c0000u);
    }
    EXPECT_EQ(out[63], 31.0f);
  }
}

TEST_P(AmdEmulationMemory, ArithmeticIsThatOfTheManual) {
  std::vector<float> in = {2.7f, 1.0009f}, out(12);
  AmdLaunch(object(), "run_maths").buffer("in", &in).buffer("out", &out, false).run_clean();
  const double expected[] = {
      std::exp2(2.7), std::log2(2.7), 1 / 2.7, 1 / std::sqrt(2.7), std::sqrt(2.7), 1, -1, 0.3, 21.6, 2.7, 1.0, -1.0};
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5) << i;

  std::vector<uint32_t> words = {0x89abcdefu, 0x01234567u}, result(6);
  AmdLaunch(object(), "run_bits").buffer("in", &words).buffer("out", &result, false).run_clean();
  EXPECT_EQ(result, (std::vector<uint32_t>{0x00ff8923u, 0xffff0000u, 0xabcdef01u, 0xf0123456u, 0xbcdu, 0xffffff89u}));
}

}  // namespace
}  // namespace tilewright::emu
