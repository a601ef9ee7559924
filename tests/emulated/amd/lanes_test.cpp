// SPDX-License-Identifier: MIT
// Instructions between the lanes of a wave, against what the manuals say, with all lanes on and with some switched off.
#include <fmt/format.h>

#include <functional>

#include "emulated/amd/amd_kernels.hpp"

namespace tilewright::emu {
namespace {

constexpr int kUntouched = -77;

// One kernel for each instruction: lane i brings in[i]; lanes outside of the mask are switched off.
std::string kernel_text(const std::string& name, const std::string& call) {
  return fmt::format(R"(
void {0}(const int* in, const int* second, int* out, unsigned long long mask) {{
  const unsigned i = __builtin_amdgcn_workitem_id_x();
  if (mask >> i & 1) out[i] = static_cast<int>({1});
}}
TILEWRIGHT_EMULATED_ENTRY(run_{0}, {0})
)",
                     name, call);
}

struct Instruction {
  std::string call;
  // What lane `i` gets: `value(j)` is what lane j brings when it is on, and `off` otherwise.
  std::function<int(int i, const std::function<int(int j, int off)>& value)> expected;
};

int second_of(int i) { return i * 28 + 4; }  // also an address, of a lane that differs from lane to lane

// DPP with old = 1000 + i: expected source, or -1.
Instruction dpp(int control, std::function<int(int)> source, int row_mask = 15, int bank_mask = 15,
                bool bound = false) {
  return {fmt::format("__builtin_amdgcn_update_dpp(1000 + (int)i, in[i], {}, {}, {}, {})", control, row_mask, bank_mask,
                      bound),
          [=](int i, const auto& value) {
            const int old = 1000 + i;
            if ((row_mask >> (i / 16) & 1) == 0 || (bank_mask >> (i / 4 % 4) & 1) == 0) return old;
            const int from = source(i);
            return from < 0 ? (bound ? 0 : old) : value(from, bound ? 0 : old);
          }};
}

std::vector<Instruction> common(int lanes) {
  std::vector<Instruction> all;
  all.push_back({"__builtin_amdgcn_readfirstlane(in[i])", [](int, const auto& value) {
                   int first = 0;
                   while (value(first, -1) == -1) ++first;
                   return value(first, -1);
                 }});
  all.push_back({"__builtin_amdgcn_ds_bpermute(second[i], in[i])",
                 [=](int i, const auto& value) { return value(second_of(i) / 4 % lanes, 0); }});
  all.push_back({"__builtin_amdgcn_ds_permute(second[i], in[i])", [=](int i, const auto& value) {
                   int result = 0;
                   for (int j = 0; j < lanes; ++j)
                     if (second_of(j) / 4 % lanes == i && value(j, -1) != -1) result = value(j, -1);
                   return result;
                 }});
  all.push_back({"__builtin_popcountll(__builtin_amdgcn_ballot_w64(in[i] % 3 == 0))", [=](int, const auto& value) {
                   int count = 0;
                   for (int j = 0; j < lanes; ++j) count += value(j, 1) % 3 == 0;
                   return count;
                 }});
  all.push_back(
      {"__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 5u))", [](int i, const auto&) { return i + 5; }});
  all.push_back({"__builtin_amdgcn_mbcnt_hi(0x80000001u, __builtin_amdgcn_mbcnt_lo(0xf0u, 0u))",
                 [](int i, const auto&) { return std::clamp(i - 4, 0, 4) + (i > 32 ? 1 : 0); }});
  // ds_swizzle: quad permutation 3,3,0,1; swap of neighbours; broadcast of lane 5 in each eight; reversal; rotation.
  all.push_back(
      {"__builtin_amdgcn_ds_swizzle(in[i], 0x8000 | 3 | 3 << 2 | 0 << 4 | 1 << 6)", [](int i, const auto& value) {
         constexpr int kFrom[] = {3, 3, 0, 1};
         return value(i / 4 * 4 + kFrom[i % 4], 0);
       }});
  all.push_back(
      {"__builtin_amdgcn_ds_swizzle(in[i], 1 << 10 | 31)", [](int i, const auto& value) { return value(i ^ 1, 0); }});
  all.push_back({"__builtin_amdgcn_ds_swizzle(in[i], 5 << 5 | 24)",
                 [](int i, const auto& value) { return value(i / 8 * 8 + 5, 0); }});
  all.push_back({"__builtin_amdgcn_ds_swizzle(in[i], 31 << 10 | 31)",
                 [](int i, const auto& value) { return value(i / 32 * 32 + 31 - i % 32, 0); }});
  all.push_back({"__builtin_amdgcn_ds_swizzle(in[i], 0xc000 | 3 << 5)",
                 [](int i, const auto& value) { return value(i / 32 * 32 + (i + 3) % 32, 0); }});
  all.push_back({"__builtin_amdgcn_ds_swizzle(in[i], 0xc000 | 1 << 10 | 3 << 5 | 24)",
                 [](int i, const auto& value) { return value((i & ~7) + (i + 5) % 8, 0); }});
  // DPP.
  for (const bool bound : {false, true}) {
    all.push_back(dpp(0x1b, [](int i) { return i ^ 3; }, 15, 15, bound));
    for (const int n : {1, 4, 15}) {
      all.push_back(dpp(0x100 + n, [=](int i) { return i % 16 + n < 16 ? i + n : -1; }, 15, 15, bound));
      all.push_back(dpp(0x110 + n, [=](int i) { return i % 16 >= n ? i - n : -1; }, 15, 15, bound));
      all.push_back(dpp(0x120 + n, [=](int i) { return i / 16 * 16 + (i + 16 - n) % 16; }, 15, 15, bound));
    }
    all.push_back(dpp(0x140, [](int i) { return i / 16 * 16 + 15 - i % 16; }, 15, 15, bound));
    all.push_back(dpp(0x141, [](int i) { return i / 8 * 8 + 7 - i % 8; }, 15, 15, bound));
    all.push_back(dpp(0x153, [](int i) { return i / 16 * 16 + 3; }, 15, 15, bound));
  }
  all.push_back(dpp(0x111, [](int i) { return i % 16 >= 1 ? i - 1 : -1; }, 0xa, 0x6));
  all.push_back({"__builtin_amdgcn_mov_dpp(in[i], 0x1b, 15, 15, true)",
                 [](int i, const auto& value) { return value(i ^ 3, 0); }});
  return all;
}

std::vector<Instruction> gfx9(int lanes) {
  std::vector<Instruction> all;
  all.push_back(dpp(0x130, [=](int i) { return i + 1 < lanes ? i + 1 : -1; }));
  all.push_back(dpp(0x134, [=](int i) { return (i + 1) % lanes; }));
  all.push_back(dpp(0x138, [](int i) { return i - 1; }));
  all.push_back(dpp(0x13c, [=](int i) { return (i + lanes - 1) % lanes; }));
  all.push_back(dpp(0x142, [](int i) { return i / 16 * 16 - 1; }, 0xa));
  all.push_back(dpp(0x143, [](int i) { return i >= 32 ? 31 : -1; }, 0xc));
  return all;
}

std::vector<Instruction> gfx950() {
  std::vector<Instruction> all;
  for (const int group : {16, 32}) {
    const std::string call = fmt::format("__builtin_amdgcn_permlane{}_swap(in[i], in[i] + 500, false, false)", group);
    all.push_back({call + "[0]", [=](int i, const auto& value) {
                     return (i & group) == 0 ? value(i, 0) : value(i ^ group, value(i, 0) - 500) + 500;
                   }});
    all.push_back({call + "[1]", [=](int i, const auto& value) {
                     return (i & group) != 0 ? value(i, 0) + 500 : value(i ^ group, value(i, 0) + 500);
                   }});
  }
  return all;
}

std::vector<Instruction> rdna(int) {
  std::vector<Instruction> all;
  for (const bool bound : {false, true}) {
    const std::string rest = fmt::format("(1000u + i, in[i], 0x01234567u, 0xfedcba98u, false, {})", bound);
    const auto selected = [](int i) { return i % 16 < 8 ? 7 - i % 16 : i % 16; };
    all.push_back({"__builtin_amdgcn_permlane16" + rest,
                   [=](int i, const auto& value) { return value(i / 16 * 16 + selected(i), bound ? 0 : 1000 + i); }});
    all.push_back({"__builtin_amdgcn_permlanex16" + rest, [=](int i, const auto& value) {
                     return value((i / 16 * 16 ^ 16) + selected(i), bound ? 0 : 1000 + i);
                   }});
    all.push_back(dpp(0x165, [](int i) { return i ^ 5; }, 15, 15, bound));
  }
  all.push_back(
      {"__builtin_amdgcn_mov_dpp8(in[i], 0xfac688u ^ 0xffffffu)",  // 7, 6 .. 0 complemented: 0 1 2 .. 7 reversed
       [](int i, const auto& value) { return value(i / 8 * 8 + (7 - (0xfac688 >> 3 * (i % 8) & 7)), 0); }});
  all.push_back({"__builtin_popcount(__builtin_amdgcn_ballot_w32(in[i] % 5 == 0))", [](int, const auto& value) {
                   int count = 0;
                   for (int j = 0; j < 32; ++j) count += value(j, 1) % 5 == 0;
                   return count;
                 }});
  return all;
}

class AmdEmulationLanes : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }
};
INSTANTIATE_TEST_SUITE_P(Targets, AmdEmulationLanes, testing::ValuesIn(kAmdTargets));

TEST_P(AmdEmulationLanes, EveryInstructionWithEveryMask) {
  const int lanes = require_arch(GetParam()).value()->wave_size;
  std::vector<Instruction> all = common(lanes);
  const auto append = [&](std::vector<Instruction> more) { all.insert(all.end(), more.begin(), more.end()); };
  if (lanes == 64) append(gfx9(lanes));
  if (GetParam() == "gfx950") append(gfx950());
  if (lanes == 32) append(rdna(lanes));
  std::string source;
  for (size_t n = 0; n < all.size(); ++n) source += kernel_text(fmt::format("k{}", n), all[n].call);
  Result<EmulatedObject> object = compile_amd(source, GetParam());
  ASSERT_TRUE(object.ok()) << object.status().to_string();

  const uint64_t whole = lanes == 64 ? ~uint64_t{0} : 0xffffffffu;
  const uint64_t masks[] = {whole, 0x5555555555555555u & whole, 0xfff0u, 0xdeadbeef12345678u & whole, uint64_t{1} << 7};
  for (size_t n = 0; n < all.size(); ++n) {
    for (const uint64_t mask : masks) {
      std::vector<int> in, second, out(static_cast<size_t>(lanes), kUntouched);
      for (int i = 0; i < lanes; ++i) {
        in.push_back(i * 11 + 3);
        second.push_back(second_of(i));
      }
      AmdLaunch launch(*object, fmt::format("run_k{}", n));
      launch.buffer("in", &in).buffer("second", &second).buffer("out", &out).value(mask);
      launch.shape({1, 1, 1}, {static_cast<uint32_t>(lanes), 1, 1}).run_clean();
      const auto value = [&](int j, int off) { return mask >> j & 1 ? in[static_cast<size_t>(j)] : off; };
      for (int i = 0; i < lanes; ++i) {
        const int expected = mask >> i & 1 ? all[n].expected(i, value) : kUntouched;
        ASSERT_EQ(out[static_cast<size_t>(i)], expected) << all[n].call << " lane " << i << " mask " << mask;
      }
    }
  }
}

TEST_P(AmdEmulationLanes, ReadlaneTakesOneLaneAndRefusesOneThatIsOff) {
  const auto lanes = static_cast<uint32_t>(require_arch(GetParam()).value()->wave_size);
  Result<EmulatedObject> object =
      compile_amd(kernel_text("read", "__builtin_amdgcn_readlane(in[i], second[0])"), GetParam());
  ASSERT_TRUE(object.ok()) << object.status().to_string();
  std::vector<int> in(lanes), second = {9}, out(lanes);
  for (uint32_t i = 0; i < lanes; ++i) in[i] = static_cast<int>(i) + 40;
  const auto launch = [&](uint64_t mask) {
    AmdLaunch one(*object, "run_read");
    return one.buffer("in", &in)
        .buffer("second", &second)
        .buffer("out", &out)
        .value(mask)
        .shape({1, 1, 1}, {lanes, 1, 1})
        .run();
  };
  EXPECT_TRUE(launch(~uint64_t{0}).status().ok());
  EXPECT_EQ(out, std::vector<int>(lanes, 49));
  const EmulatedReport report = launch(0xff);
  ASSERT_NE(report.find(FaultKind::kInstruction), nullptr);
  EXPECT_NE(report.status().message().find("v_readlane of a lane that is switched off"), std::string::npos);
}

TEST_P(AmdEmulationLanes, UnknownControlsAreRefused) {
  const auto lanes = static_cast<uint32_t>(require_arch(GetParam()).value()->wave_size);
  const int control = lanes == 64 ? 0x161 : 0x142;
  const std::string call = fmt::format("__builtin_amdgcn_update_dpp(0, in[i], {}, 15, 15, false)", control);
  Result<EmulatedObject> object = compile_amd(kernel_text("read", call), GetParam());
  ASSERT_TRUE(object.ok()) << object.status().to_string();
  std::vector<int> in(lanes), out(lanes);
  AmdLaunch launch(*object, "run_read");
  launch.buffer("in", &in).buffer("second", &in).buffer("out", &out).value(~uint64_t{0});
  EXPECT_NE(launch.shape({1, 1, 1}, {lanes, 1, 1}).run().find(FaultKind::kInstruction), nullptr);
}

// How a matrix instruction is written: operands of all lanes, one function for the wave.
TEST_P(AmdEmulationLanes, AFunctionRunsOnceForTheWave) {
  Result<EmulatedObject> object = compile_amd(R"(
namespace tilewright::emu {
struct Sum { int value, result; };
static void add_all(WaveView* view) {
  if (!require_whole_wave(view, "sum with lanes switched off", nullptr)) return;
  int sum = 0;
  for (uint32_t i = 0; i < kWaveSize; ++i) sum += operands_of<Sum>(view, i).value;
  for (uint32_t i = 0; i < kWaveSize; ++i) operands_of<Sum>(view, i).result = sum + static_cast<int>(i);
}
}
TILEWRIGHT_EMU_INSTRUCTION int wave_sum(int value) {
  tilewright::emu::Sum sum{value, 0};
  tilewright::emu::meet(sum, tilewright::emu::add_all, TILEWRIGHT_EMU_SITE);
  return sum.result;
}
void sums(const int* in, int* out, int limit) {
  const int i = static_cast<int>(__builtin_amdgcn_workitem_id_x());
  if (i < limit) out[i] = wave_sum(in[i]);
}
TILEWRIGHT_EMULATED_ENTRY(run_sums, sums)
)",
                                              GetParam());
  ASSERT_TRUE(object.ok()) << object.status().to_string();
  const auto lanes = static_cast<uint32_t>(object->arch->wave_size);
  std::vector<int> in(2 * lanes, 3), out(2 * lanes);
  const auto launch = [&](int limit) {
    AmdLaunch one(*object, "run_sums");
    return one.buffer("in", &in).buffer("out", &out).value(limit).shape({1, 1, 1}, {2 * lanes, 1, 1}).run();
  };
  EXPECT_TRUE(launch(static_cast<int>(2 * lanes)).status().ok());
  for (uint32_t i = 0; i < 2 * lanes; ++i) EXPECT_EQ(out[i], static_cast<int>(3 * lanes + i % lanes));
  const EmulatedReport report = launch(static_cast<int>(lanes) + 4);
  ASSERT_NE(report.find(FaultKind::kInstruction), nullptr);
  EXPECT_EQ(report.find(FaultKind::kInstruction)->party.wave, 1u);
}

}  // namespace
}  // namespace tilewright::emu
