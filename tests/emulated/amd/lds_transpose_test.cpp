// SPDX-License-Identifier: MIT
// gfx950's transposed reads of LDS: sixteen lanes read a matrix by rows, and lane j gets its column j.
#include <fmt/format.h>

#include <random>

#include "emulated/amd/amd_kernels.hpp"

namespace tilewright::emu {
namespace {

constexpr const char* kTarget = "gfx950";
constexpr int kLanes = 64;

// Elements of `bits`, of which a lane reads and gets `words` words of 32 bits; rows begin at multiples of `alignment`.
struct Read {
  std::string name;
  int bits, words, alignment;

  int rows() const { return words * 32 / bits; }
  int lanes_of_row() const { return 16 / rows(); }
};
const Read kReads[] = {
    {"tr16_b64_v4i16", 16, 2, 8}, {"tr8_b64_v2i32", 8, 2, 8}, {"tr4_b64_v2i32", 4, 2, 8}, {"tr6_b96_v3i32", 6, 3, 16}};
void PrintTo(const Read& read, std::ostream* out) { *out << read.name; }

// LDS is filled with `in` but for its last `missing` words; lanes up to `active` read.
AmdKernels& kernels() {
  static AmdKernels all([] {
    std::string source = "typedef unsigned u32;\n";
    for (const Read& read : kReads) {
      source += fmt::format(R"(
void {0}(const u32* in, const u32* addresses, u32* out, u32 words, u32 missing, u32 active) {{
  TILEWRIGHT_DYNAMIC_LDS(lds);
  const u32 i = __builtin_amdgcn_workitem_id_x();
  for (u32 w = i; w < words - missing; w += {1}) reinterpret_cast<u32*>(lds)[w] = in[w];
  __builtin_amdgcn_s_barrier();
  if (i >= active) return;
  const auto got = __builtin_amdgcn_ds_read_{0}(lds + addresses[i]);
  __builtin_memcpy(out + {2} * i, &got, {2} * sizeof(u32));
}}
TILEWRIGHT_EMULATED_ENTRY(run_{0}, {0})
)",
                            read.name, kLanes, read.words);
    }
    return source;
  }());
  return all;
}

class AmdEmulationTransposedReads : public testing::TestWithParam<Read> {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }

  // Rows lie `pitch` bytes apart, the matrices of the four groups of lanes behind each other.
  EmulatedReport run(int pitch, uint32_t shift = 0, uint32_t missing = 0, uint32_t active = kLanes) {
    const Read& read = GetParam();
    pitch_ = pitch;
    std::mt19937 random(7);
    in_.resize(static_cast<size_t>(4 * read.rows() * pitch / 4 + 4));
    for (uint32_t& word : in_) word = random();
    std::vector<uint32_t> addresses;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane % 16 / read.lanes_of_row(), part = lane % 16 % read.lanes_of_row();
      addresses.push_back(static_cast<uint32_t>((lane / 16 * read.rows() + row) * pitch + part * 8) + shift);
    }
    out_.assign(static_cast<size_t>(kLanes * read.words), 0);
    AmdLaunch launch(kernels().of(kTarget), "run_" + read.name);
    const auto words = static_cast<uint32_t>(in_.size());
    launch.buffer("in", &in_).buffer("addresses", &addresses).buffer("out", &out_);
    launch.value(words).value(missing).value(active).shape({1, 1, 1}, {kLanes, 1, 1}, words * 4);
    return launch.run();
  }
  // Bits [at, at + GetParam().bits) of words that lie behind each other.
  uint32_t bits_at(const std::vector<uint32_t>& words, int at) const {
    uint32_t value = 0;
    for (int i = 0; i < GetParam().bits; ++i) {
      value |= (words[static_cast<size_t>((at + i) / 32)] >> (at + i) % 32 & 1) << i;
    }
    return value;
  }

  std::vector<uint32_t> in_, out_;
  int pitch_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Widths, AmdEmulationTransposedReads, testing::ValuesIn(kReads),
                         [](const auto& info) { return info.param.name; });

TEST_P(AmdEmulationTransposedReads, ALaneGetsAColumn) {
  const Read& read = GetParam();
  for (const int pitch : {32, 48, 80}) {
    const EmulatedReport report = run(pitch);
    ASSERT_TRUE(report.status().ok()) << report.status().to_string();
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int row = 0; row < read.rows(); ++row) {
        const uint32_t expected = bits_at(in_, (lane / 16 * read.rows() + row) * pitch * 8 + lane % 16 * read.bits);
        ASSERT_EQ(bits_at(out_, lane * read.words * 32 + row * read.bits), expected)
            << "pitch " << pitch << ", lane " << lane << ", row " << row;
      }
    }
  }
}

TEST_P(AmdEmulationTransposedReads, RowsThatBeginAtOddPlacesAreRefused) {
  EXPECT_NE(run(32, static_cast<uint32_t>(GetParam().alignment) / 2).find(FaultKind::kMisaligned), nullptr);
}

TEST_P(AmdEmulationTransposedReads, LanesThatAreOffAreRefused) {
  const EmulatedReport report = run(32, 0, 0, kLanes - 1);
  ASSERT_NE(report.find(FaultKind::kInstruction), nullptr);
  EXPECT_NE(report.status().message().find("transposed read of LDS with lanes switched off"), std::string::npos);
}

TEST_P(AmdEmulationTransposedReads, WhatNobodyWroteIsFound) {
  EXPECT_NE(run(32, 0, 12).find(FaultKind::kUninitialisedLds), nullptr);
}

TEST_P(AmdEmulationTransposedReads, WhatLiesOutsideOfLdsIsFound) {
  EXPECT_NE(run(32, 4096).find(FaultKind::kLdsOutOfBounds), nullptr);
}

// Another target's clang would not know the name.
TEST(AmdEmulationTransposedReadsElsewhere, AreCompileErrors) {
  TILEWRIGHT_SKIP_WITHOUT_FIBERS();
  const std::string source =
      "void f(const int* in, int* out) { out[0] = __builtin_amdgcn_ds_read_tr8_b64_v2i32(in)[0]; }";
  for (const std::string& target : kAmdTargets) {
    EXPECT_EQ(compile_amd(source, target).ok(), target == kTarget) << target;
  }
}

}  // namespace
}  // namespace tilewright::emu
