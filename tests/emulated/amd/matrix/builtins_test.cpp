// SPDX-License-Identifier: MIT
// The builtins in kernels: each row of the table by its name, with the operands in clang's order, against the function that
// the tests of this folder check lane by lane.
#include <gmock/gmock.h>

#include "emulated/amd/amd_kernels.hpp"
#include "emulated/amd/matrix/wave.hpp"
#include "tile/emu/matrix/convert.hpp"
#include "tile/emu/matrix/scaled.hpp"

namespace tilewright::emulated {
namespace {

using emu::AmdKernels;
using emu::AmdLaunch;

const char* builtin_target_name(MatrixTarget target) { return emu::kAmdTargets[static_cast<size_t>(target)].c_str(); }

std::string words_type(int registers) { return registers == 1 ? "unsigned" : fmt::format("Words{}", registers); }

// What follows the name of a row's builtin, with other modifiers than the usual ones where it has some.
std::string call_of(const MatrixInstruction& row, const MatrixModifiers& m) {
  if (row.layout == MatrixLayout::kMfma) return fmt::format("(a[l], b[l], c[l], {}, {}, {})", m.cbsz, m.abid, m.blgp);
  if (row.a == MatrixElement::kIu8 || row.a == MatrixElement::kIu4) {
    return fmt::format("({}, a[l], {}, b[l], c[l], {})", m.a_signed, m.b_signed, m.clamp);
  }
  if (row.layout == MatrixLayout::kWmma11 && bits_of(row.d) == 16)
    return fmt::format("(a[l], b[l], c[l], {})", m.opsel);
  return "(a[l], b[l], c[l])";
}
MatrixModifiers modifiers_of(const Instance& instance) {
  const MatrixInstruction& row = *instance.row;
  if (row.a == MatrixElement::kIu8 || row.a == MatrixElement::kIu4) return {.b_signed = false, .clamp = true};
  if (row.layout == MatrixLayout::kWmma11 && bits_of(row.d) == 16) return {.opsel = true};
  if (row.broadcasts(instance.target)) {
    if (row.blocks > 1) return {.cbsz = 1, .abid = 1, .blgp = 2};
    return {.blgp = 3};
  }
  return {};
}

std::string kernel_of(const Instance& instance) {
  const MatrixInstruction& row = *instance.row;
  return fmt::format(
      "void k_{0}(const {1}* a, const {2}* b, {3}* c) {{\n"
      "  const unsigned l = __builtin_amdgcn_workitem_id_x();\n"
      "  c[l] = __builtin_amdgcn_{0}{4};\n}}\nTILEWRIGHT_EMULATED_ENTRY({0}, k_{0})\n",
      row.name, words_type(row.a_registers()), words_type(row.b_registers()), words_type(row.d_registers()),
      call_of(row, modifiers_of(instance)));
}

constexpr const char* kTypes = R"(
typedef unsigned Words2 __attribute__((vector_size(8), aligned(4)));
typedef unsigned Words4 __attribute__((vector_size(16), aligned(4)));
typedef unsigned Words8 __attribute__((vector_size(32), aligned(4)));
typedef unsigned Words16 __attribute__((vector_size(64), aligned(4)));
typedef unsigned Words32 __attribute__((vector_size(128), aligned(4)));
)";

// Each row on the first target that has it.
template <MatrixLayout kLayout>
void check_builtins() {
  TILEWRIGHT_SKIP_WITHOUT_FIBERS();
  std::map<std::string, std::vector<Instance>> of_target;
  std::set<std::string> seen;
  for (const Instance& instance : instances<kLayout>()) {
    if (seen.insert(instance.row->name).second) of_target[builtin_target_name(instance.target)].push_back(instance);
  }
  std::mt19937_64 random(41);
  for (const auto& [target, all] : of_target) {
    std::string source = kTypes;
    for (const Instance& instance : all) source += kernel_of(instance);
    AmdKernels kernels(source);
    for (const Instance& instance : all) {
      const MatrixInstruction& row = *instance.row;
      const int lanes = row.lanes();
      Registers a(lanes, row.a_registers()), b(lanes, row.b_registers()), c(lanes, row.d_registers()), d = c;
      const auto fill = [&](Registers& r, MatrixElement e) {
        for (int lane = 0; lane < lanes; ++lane) {
          for (int bit = 0; bit < 32 * r.count; bit += bits_of(e)) {
            r.put(lane, bit, bits_of(e), random_code(e, instance.target, random));
          }
        }
      };
      fill(a, row.a);
      fill(b, row.b);
      fill(c, row.d);
      instance.run(a, b, c, d, modifiers_of(instance));
      AmdLaunch(kernels.of(target), row.name)
          .buffer("a", &a.words)
          .buffer("b", &b.words)
          .buffer("c", &c.words)
          .shape({1, 1, 1}, {static_cast<uint32_t>(lanes), 1, 1})
          .run_clean();
      EXPECT_EQ(c.words, d.words) << instance.name();
    }
  }
}

TEST(EmulatedMatrixBuiltins, OfMfmaAreBound) { check_builtins<MatrixLayout::kMfma>(); }
TEST(EmulatedMatrixBuiltins, OfGfx11AreBound) { check_builtins<MatrixLayout::kWmma11>(); }
TEST(EmulatedMatrixBuiltins, OfGfx12AreBound) { check_builtins<MatrixLayout::kWmma12>(); }

TEST(EmulatedMatrixBuiltins, OfScaledFormsAndConversionsAreBound) {
  TILEWRIGHT_SKIP_WITHOUT_FIBERS();
  AmdKernels kernels(std::string(kTypes) + R"(
void scaled(const Words8* a, const Words8* b, Words16* c, const int* scales) {
  const unsigned l = __builtin_amdgcn_workitem_id_x();
  c[l] = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(a[l], b[l], c[l], 4, 2, 1, scales[l], 3, scales[l]);
}
TILEWRIGHT_EMULATED_ENTRY(run_scaled, scaled)
typedef float Two __attribute__((vector_size(8)));
void convert(const float* in, int* words, Two* back) {
  const unsigned l = __builtin_amdgcn_workitem_id_x();
  int word = __builtin_amdgcn_cvt_pk_fp8_f32(in[l], in[l + 1], 0, false);
  word = __builtin_amdgcn_cvt_pk_fp8_f32(in[l + 2], in[l + 3], word, true);
  words[2 * l] = word;
  back[l] = __builtin_amdgcn_cvt_pk_f32_fp8(word, true);
  words[2 * l + 1] = static_cast<int>(__builtin_amdgcn_cvt_scalef32_pk_fp4_f32(~0u, in[l], in[l + 1], 2.0f, 1));
}
TILEWRIGHT_EMULATED_ENTRY(run_convert, convert)
)");
  std::mt19937_64 random(42);
  LaneWords<8> a[64], b[64];
  LaneWords<16> c[64], d[64];
  std::uint32_t scales[64];
  Registers words_a(64, 8), words_b(64, 8), words_c(64, 16), words_scale(64, 1);
  for (Registers* r : {&words_a, &words_b}) {
    for (auto& word : r->words) word = static_cast<std::uint32_t>(random());
  }
  for (auto& word : words_scale.words) word = static_cast<std::uint32_t>(random() & 0x07070707u) + 0x7C7C7C7Cu;
  std::memcpy(a, words_a.words.data(), sizeof a);
  std::memcpy(b, words_b.words.data(), sizeof b);
  std::memcpy(c, words_c.words.data(), sizeof c);
  std::memcpy(scales, words_scale.words.data(), sizeof scales);
  emu::multiply_scaled<emu::matrix_row("mfma_scale_f32_32x32x64_f8f6f4"), emu::F8f6f4::kF4, emu::F8f6f4::kF6>(
      a, b, c, d, scales, 1, scales, 3);
  AmdLaunch(kernels.of("gfx950"), "run_scaled")
      .buffer("a", &words_a.words)
      .buffer("b", &words_b.words)
      .buffer("c", &words_c.words)
      .buffer("scales", &words_scale.words)
      .shape({1, 1, 1}, {64, 1, 1})
      .run_clean();
  EXPECT_EQ(std::memcmp(d, words_c.words.data(), sizeof d), 0);

  std::vector<float> in(67);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) / 4 - 7;
  std::vector<std::uint32_t> words(128);
  std::vector<float> back(128);
  AmdLaunch(kernels.of("gfx950"), "run_convert")
      .buffer("in", &in)
      .buffer("words", &words)
      .buffer("back", &back)
      .shape({1, 1, 1}, {64, 1, 1})
      .run_clean();
  for (size_t l = 0; l < 64; ++l) {
    std::uint32_t word = emu::cvt_pk_f8_f32<MatrixTarget::kGfx950, false>(in[l], in[l + 1], 0, false);
    word = emu::cvt_pk_f8_f32<MatrixTarget::kGfx950, false>(in[l + 2], in[l + 3], word, true);
    EXPECT_EQ(words[2 * l], word);
    EXPECT_EQ(back[2 * l], (emu::cvt_f32_f8<MatrixTarget::kGfx950, false>(word, 2)));
    EXPECT_EQ(back[2 * l + 1], (emu::cvt_f32_f8<MatrixTarget::kGfx950, false>(word, 3)));
    EXPECT_EQ(words[2 * l + 1], emu::cvt_scalef32_pk_fp4_f32(~0u, in[l], in[l + 1], 2.0f, 1));
  }
}

TEST(EmulatedMatrixBuiltins, LanesThatAreSwitchedOffAreAFault) {
  TILEWRIGHT_SKIP_WITHOUT_FIBERS();
  AmdKernels kernels(std::string(kTypes) + R"(
void some(const Words2* a, Words4* c) {
  const unsigned l = __builtin_amdgcn_workitem_id_x();
  if (l != 5) c[l] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[l], a[l], c[l], 0, 0, 0);
}
TILEWRIGHT_EMULATED_ENTRY(run_some, some)
)");
  std::vector<std::uint32_t> a(128), c(256);
  const auto report =
      AmdLaunch(kernels.of("gfx942"), "run_some").buffer("a", &a).buffer("c", &c).shape({1, 1, 1}, {64, 1, 1}).run();
  EXPECT_THAT(report.status().to_string(), testing::HasSubstr("mfma_f32_16x16x16f16"));
}

TEST(EmulatedMatrixBuiltins, WhatTheTargetOrTheInstructionDoesNotHaveDoesNotCompile) {
  TILEWRIGHT_SKIP_WITHOUT_FIBERS();
  const auto refusal = [](const std::string& target, const std::string& call) {
    const std::string source = std::string(kTypes) + "void f(const Words2* a, Words4* c) { *c = " + call +
                               "; }\nTILEWRIGHT_EMULATED_ENTRY(run_f, f)\n";
    const auto object = emu::compile_amd(source, target);
    return object ? std::string("it compiles") : object.status().to_string();
  };
  EXPECT_EQ(refusal("gfx942", "__builtin_amdgcn_mfma_f32_16x16x16f16(*a, *a, *c, 0, 0, 0)"), "it compiles");
  EXPECT_THAT(refusal("gfx942", "__builtin_amdgcn_mfma_f32_16x16x16f16(*a, *a, *c, 0, 0, 1)"),
              testing::HasSubstr("takes no such modifiers"));
  EXPECT_THAT(refusal("gfx90a", "__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(*a, *a, *c, 0, 0, 0)"),
              testing::HasSubstr("the target has no such instruction"));
  EXPECT_THAT(refusal("gfx942", "__builtin_amdgcn_mfma_f32_16x16x16f16(*c, *a, *c, 0, 0, 0)"),
              testing::HasSubstr("registers"));
  EXPECT_THAT(refusal("gfx942", "__builtin_amdgcn_mfma_f32_16x16x17f16(*a, *a, *c, 0, 0, 0)"),
              testing::HasSubstr("16x16x17f16"));
}

}  // namespace
}  // namespace tilewright::emulated
