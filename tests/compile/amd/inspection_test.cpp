// SPDX-License-Identifier: MIT
// Kernels for AMD GPUs, compiled and looked at: the instructions of a main loop are those that the source asks for, the
// assembler of each target writes matrix instructions as the table expects, and clang sees the same occupancy.
#include "jit/amdgcn/inspection/inspection.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "compile/amd/matrix_words.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using emu::MatrixTarget;
using testing::HasSubstr;
using Class = InstructionClass;

bool is_cdna(std::string_view target) { return target.starts_with("gfx9"); }

class AmdInspectionTest : public test::CodeCacheFixture {
 protected:
  void SetUp() override {
    const Result<std::string> objdump = amdgcn_compiler().tool("llvm-objdump");
    if (!objdump) GTEST_SKIP() << objdump.status().message();
  }
  // The object and what clang said of it.
  struct Compiled {
    std::vector<std::byte> object;
    std::string words;
  };
  Compiled compile(const std::string& target, const std::string& source, const std::vector<std::string>& flags = {}) {
    CompileRequest request = test::make_request(source);
    request.target = target;
    request.flags = flags;
    const std::string folder = scratch / fmt::format("build{}", ++builds_);
    EXPECT_TRUE(make_folders(folder).ok());
    const Result<std::string> made = amdgcn_compiler().compile(request, folder, nullptr);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made) return {};
    const std::string object = *read_file(folder + "/" + *made);
    const auto* const bytes = reinterpret_cast<const std::byte*>(object.data());
    Result<std::string> words = read_file(folder + "/" + kCompileLogFile);
    return {{bytes, bytes + object.size()}, words ? *words : ""};
  }
  static AmdInspection inspect(const Compiled& compiled, const AmdInspectOptions& options = {}) {
    Result<AmdInspection> found = inspect_amd_kernel(amdgcn_compiler(), compiled.object, "tw_entry", options);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found ? *found : AmdInspection();
  }

 private:
  int builds_ = 0;
};

// Each step copies 32 bytes a work-item to LDS, reads two operands and multiplies them into four sums.
const std::string kLoop = std::string(test::kMatrixWords) + R"(#include "tile/common/numeric.hpp"
typedef float Quad __attribute__((ext_vector_type(4)));
struct Args { const Quad* from; Sum* to; int steps; };
extern "C" __global__ void __launch_bounds__(256, 2) tw_entry(const __grid_constant__ Args args) {
  __shared__ Quad block[512];
  __shared__ Operand operands[1];
  const unsigned thread = __builtin_amdgcn_workitem_id_x();
  Sum sum[4] = {};
  const Operand* const read = reinterpret_cast<const Operand*>(block);
#pragma clang loop unroll(disable)
  for (int step = 0; step < args.steps; ++step) {
    const Quad low = args.from[2 * (step * 256 + thread)], high = args.from[2 * (step * 256 + thread) + 1];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    block[thread] = low;
    block[256 + thread] = high;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    const Operand a = read[thread & 31], b = read[(thread & 31) + 64];
    for (int i = 0; i < 4; ++i) sum[i] = TW_MULTIPLY(a, b, sum[i]);
  }
  for (int i = 0; i < 4; ++i) args.to[4 * thread + i] = sum[i];
}
)";

TEST_F(AmdInspectionTest, TheLoopOfEachTargetHasWhatTheSourceAsksFor) {
  const std::map<std::string, std::pair<const char*, int>> instructions = {
      {"gfx90a", {"v_mfma_f32_32x32x8bf16_1k", 64}},
      {"gfx942", {"v_mfma_f32_32x32x8_bf16", 32}},
      {"gfx950", {"v_mfma_f32_32x32x16_bf16", 32}},
      {"gfx1100", {"v_wmma_f32_16x16x16_bf16", 32}},
      {"gfx1201", {"v_wmma_f32_16x16x16_bf16", 16}}};
  for (const std::string target : test::kAmdTargets) {
    AmdInspectOptions options;
    options.source = kLoop;
    options.lint = true;
    const AmdInspection found = inspect(compile(target, kLoop), options);
    ASSERT_TRUE(found.code_problem.ok()) << target << ": " << found.code_problem.message();
    ASSERT_TRUE(found.loop_at.has_value()) << target;
    const int lanes = is_cdna(target) ? 64 : 32;
    // Of a lane: 4 bf16 on gfx90a and gfx942, 16 on gfx1100, 8 else.
    const int operand = target == "gfx90a" || target == "gfx942" ? 8 : target == "gfx1100" ? 32 : 16;
    ASSERT_EQ(found.mix.matrix.size(), 1u) << target;
    EXPECT_EQ(found.mix.matrix[0].mnemonic, instructions.at(target).first);
    EXPECT_EQ(found.mix.matrix[0].cycles, instructions.at(target).second) << target;
    EXPECT_EQ(found.mix.matrix[0].count, 4) << target;
    EXPECT_EQ(found.mix.bytes(Class::kLdsRead), 2 * operand * lanes) << target;
    EXPECT_EQ(found.mix.bytes(Class::kLdsWrite), 32 * lanes) << target;
    EXPECT_EQ(found.mix.bytes(Class::kGlobalLoad), 32 * lanes) << target;
    EXPECT_EQ(found.mix.count(Class::kGlobalLoad), 2) << target;
    EXPECT_EQ(found.mix.count(Class::kGlobalStore), 0) << target;
    EXPECT_EQ(found.mix.count(Class::kDirectToLds), 0) << target;
    EXPECT_EQ(found.mix.count(Class::kScratch), 0) << target;
    EXPECT_EQ(found.mix.count(Class::kBarrier), 2) << target;
    EXPECT_EQ(found.mix.count(Class::kAccumulatorMove), 0) << target;
    EXPECT_EQ(found.mix.count(Class::kBranch), 1) << target;
    EXPECT_GT(found.mix.count(Class::kWait), 0) << target;
    EXPECT_EQ(found.kernel.vgpr_spills, 0) << target;
    EXPECT_EQ(found.declared_waves, 2) << target;
    EXPECT_GE(found.occupancy.waves(found.occupancy.workgroups), 2) << target;
    ASSERT_TRUE(found.bound_problem.ok()) << target << ": " << found.bound_problem.message();
    // Every wave of the unit, spread over its four SIMDs.
    const int waves = found.occupancy.workgroups * 256 / lanes;
    EXPECT_EQ(found.bound.find("matrix")->cycles, waves / 4.0 * 4 * instructions.at(target).second) << target;
    EXPECT_GT(found.bound.matrix_busy, 0) << target;
    EXPECT_LE(found.bound.matrix_busy, 1) << target;
    EXPECT_TRUE(!found.lint_problem.ok() || found.lint_throughput > 0) << target;
  }
}

// A kernel that calls every matrix builtin of the target once.
std::string every_matrix_instruction(MatrixTarget target) {
  std::string body, declarations;
  int number = 0;
  for (const emu::MatrixInstruction& row : emu::matrix_rows::kRows) {
    if (!row.on(target)) continue;
    const std::string name = row.name;
    const std::string a = fmt::format("A{}", number), b = fmt::format("B{}", number), d = fmt::format("D{}", number);
    const auto type = [&](const std::string& of, const std::string& element, int count) {
      declarations += count == 1
                          ? fmt::format("typedef {} {};\n", element, of)
                          : fmt::format("typedef {} {} __attribute__((ext_vector_type({})));\n", element, of, count);
    };
    using E = emu::MatrixElement;
    // As clang declares its builtins: bytes in words or pairs of them, bf16 as short where the instruction is older.
    const auto operand = [&](const std::string& of, E e, int registers) {
      const bool wmma = row.layout != emu::MatrixLayout::kMfma;
      if (e == E::kF64) return type(of, "double", registers / 2);
      if (e == E::kF32 || e == E::kXf32) return type(of, "float", registers);
      if (e == E::kF16) return type(of, "_Float16", 2 * registers);
      if (e == E::kBf16) {
        const bool old = wmma ? row.layout == emu::MatrixLayout::kWmma11 : name.find("_bf16") == std::string::npos;
        return type(of, old ? "short" : "__bf16", 2 * registers);
      }
      if (e == E::kF8f6f4) return type(of, "int", 8);
      return !wmma && registers == 2 ? type(of, "long", 1) : type(of, "int", registers);
    };
    operand(a, row.a, row.a_registers());
    operand(b, row.b, row.b_registers());
    const int d_registers = row.d_registers();
    if (row.d == E::kF64) type(d, "double", d_registers / 2);
    if (row.d == E::kF32) type(d, "float", d_registers);
    if (row.d == E::kI32) type(d, "int", d_registers);
    if (row.d == E::kF16) type(d, "_Float16", 2 * d_registers);
    if (row.d == E::kBf16) type(d, row.layout == emu::MatrixLayout::kWmma11 ? "short" : "__bf16", 2 * d_registers);
    const bool integer = row.a == E::kIu8 || row.a == E::kIu4;
    std::string arguments = "a, b, c";
    if (row.layout == emu::MatrixLayout::kMfma) arguments += ", 0, 0, 0";
    if (row.a == E::kF8f6f4) arguments = "a, b, c, 0, 4, 0, 0, 0, 0";
    if (integer) arguments = "true, a, true, b, c, false";
    if (row.layout == emu::MatrixLayout::kWmma11 && emu::bits_of(row.d) == 16) arguments += ", false";
    body += fmt::format(
        "  {{ {} a; {} b; {} c; load(p, a); load(p, b); load(p, c); "
        "store(p, __builtin_amdgcn_{}({})); }}\n",
        a, b, d, name, arguments);
    ++number;
  }
  return declarations + R"(struct Args { char* data; };
template <class T> __device__ void load(char*& p, T& value) { value = *reinterpret_cast<volatile T*>(p); p += 4096; }
template <class T> __device__ void store(char*& p, T value) { *reinterpret_cast<volatile T*>(p) = value; p += 4096; }
extern "C" __global__ void __launch_bounds__(64) tw_entry(const __grid_constant__ Args args) {
  char* p = args.data + __builtin_amdgcn_workitem_id_x() * 256;
)" + body +
         "}\n";
}

TEST_F(AmdInspectionTest, EveryRowOfTheTableIsAnInstructionThatTheAssemblerWrites) {
  for (const std::string target : test::kAmdTargets) {
    const MatrixTarget id = *matrix_target(target);
    const AmdInspection found = inspect(compile(target, every_matrix_instruction(id)));
    ASSERT_TRUE(found.code_problem.ok()) << target << ": " << found.code_problem.message();
    std::vector<int> seen;
    for (const MatrixUse& use : found.mix.matrix) {
      EXPECT_GE(use.row, 0) << target << ": " << use.mnemonic << " is in no row";
      seen.push_back(use.row);
    }
    int rows = 0;
    for (int row = 0; row < emu::matrix_rows::kCount; ++row) {
      const emu::MatrixInstruction& known = emu::matrix_rows::kRows[row];
      if (!known.on(id)) continue;
      ++rows;
      const std::string mnemonic = isa_mnemonic(known, id);
      // Two builtins of gfx11 are one instruction.
      const bool tied = std::string_view(known.name).find("_tied") != std::string_view::npos;
      EXPECT_TRUE(tied || std::find(seen.begin(), seen.end(), row) != seen.end()) << target << ": no " << mnemonic;
    }
    EXPECT_EQ(found.mix.count(Class::kMatrix), rows) << target;
  }
}

// Holds so many registers at a time that the compiler cannot share them.
std::string with_registers(int registers, int lds, int threads) {
  return fmt::format(R"(struct Args {{ float* data; int at; }};
extern "C" __global__ void __launch_bounds__({2}) tw_entry(const __grid_constant__ Args args) {{
  __shared__ float block[{1}];
  const unsigned thread = __builtin_amdgcn_workitem_id_x();
  volatile float* const data = args.data + thread;
  float many[{0}];
#pragma unroll
  for (int i = 0; i < {0}; ++i) many[i] = data[i * 256];
  block[args.at] = many[0];
  __builtin_amdgcn_s_barrier();
#pragma unroll
  for (int i = 0; i < {0}; ++i) data[i * 256] = many[i] * block[0];
}}
)",
                     registers, lds / 4, threads);
}

// clang prints "Occupancy [waves/SIMD]: 8".
int told_occupancy(const std::string& words) {
  constexpr std::string_view kWord = "Occupancy [waves/SIMD]: ";
  const size_t at = words.find(kWord);
  return at == std::string::npos ? -1 : std::atoi(words.c_str() + at + kWord.size());
}

TEST_F(AmdInspectionTest, ClangSeesTheSameOccupancy) {
  for (const std::string target : test::kAmdTargets) {
    // One wave for each of four SIMDs: clang counts waves, here they come in whole workgroups.
    const int threads = is_cdna(target) ? 256 : 128;
    for (const auto& [registers, lds] :
         {std::pair{16, 1024}, {60, 1024}, {90, 1024}, {120, 1024}, {200, 1024}, {16, 20000}}) {
      const Compiled compiled =
          compile(target, with_registers(registers, lds, threads), {"-Rpass-analysis=kernel-resource-usage"});
      const int told = told_occupancy(compiled.words);
      if (told < 0) GTEST_SKIP() << "this clang does not tell occupancy";
      const AmdInspection found = inspect(compiled);
      const AmdOccupancy& o = found.occupancy;
      EXPECT_EQ(static_cast<int>(o.waves(o.workgroups)), told)
          << target << ": " << found.kernel.vgprs << " registers, " << found.kernel.lds_bytes << " bytes";
    }
  }
}

TEST_F(AmdInspectionTest, WhatCannotBeLookedAtIsNamed) {
  const Compiled compiled = compile("gfx942", kLoop);
  const Status absent = inspect_amd_kernel(amdgcn_compiler(), compiled.object, "tw_absent").status();
  EXPECT_EQ(absent.code(), StatusCode::kNotFound);
  EXPECT_THAT(absent.message(), HasSubstr("'tw_absent'"));
  EXPECT_EQ(inspect_amd_kernel(amdgcn_compiler(), {}, "tw_entry").status().code(), StatusCode::kCorrupt);
  // Without the compiler's tools there is still what the object itself says.
  const AmdgcnCompiler none({"no-such-clang"});
  Result<AmdInspection> found = inspect_amd_kernel(none, compiled.object, "tw_entry");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_FALSE(found->code_problem.ok());
  EXPECT_GT(found->kernel.vgprs, 0);
  EXPECT_GT(found->occupancy.workgroups, 0);
}

}  // namespace
}  // namespace tilewright
