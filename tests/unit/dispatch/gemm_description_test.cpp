// SPDX-License-Identifier: MIT
// What `export` tells of gemm: argument structs field by field, tensors and scalars of a call, parts of K.
#include "ops/gemm/export/gemm_description.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>

#include "device/absent_device.hpp"
#include "dispatch/registry/family.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"
#include "ops/gemm/export/gemm_parts.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

GemmProblem parsed_problem(const std::string& text) {
  Result<GemmProblem> parsed = parse_gemm_problem(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed ? *parsed : GemmProblem{};
}
DeviceSpec first_part(std::string_view target) {
  const ArchSpec* const arch = find_arch(target);
  return spec_of_part(*arch, arch->parts.front());
}
const ArgField* field(const ArgStruct& s, std::string_view name) {
  const auto it = std::find_if(s.fields.begin(), s.fields.end(), [&](const ArgField& f) { return f.name == name; });
  return it == s.fields.end() ? nullptr : &*it;
}

TEST(GemmDescription, EveryFamilyWithKernelsOfAGpuHasItsStruct) {
  int described = 0;
  for (const KernelFamily* family : gemm_operator().families()) {
    const bool gpu = !family->builtin_keys("sm_90a").empty() || !family->builtin_keys("gfx942").empty();
    const Result<ArgStruct> args = gemm_operator().describe_args(family->name());
    EXPECT_EQ(args.ok(), gpu) << family->name();
    described += gpu;
  }
  EXPECT_GE(described, 6);
}

TEST(GemmDescription, FieldsStandOneBehindTheOtherWhereTheCompilerPutThem) {
  for (const char* family : {"gemm_sm90", "gemm_sm90_skinny", "gemm_amd", "gemv_amd", "gemm_portable"}) {
    const Result<ArgStruct> args = describe_gemm_args(family);
    ASSERT_TRUE(args.ok()) << args.status().message();
    uint32_t end = 0;
    for (const ArgField& f : args->fields) {
      EXPECT_GE(f.offset, end) << family << " " << f.name;
      EXPECT_LT(f.offset - end, f.kind == ArgField::Kind::kTensorMap ? 64u : 8u) << f.name << ": more than padding";
      end = f.offset + f.bytes;
    }
    EXPECT_LE(end, args->bytes);
    EXPECT_LE(args->bytes - end, args->alignment);
  }
}

TEST(GemmDescription, OffsetsAreThoseOfTheStruct) {
  const ArgStruct sm90 = *describe_gemm_args("gemm_sm90");
  EXPECT_EQ(sm90.bytes, sizeof(GemmSm90Args));
  EXPECT_EQ(field(sm90, "gemm.epilogue.d")->offset,
            offsetof(GemmSm90Args, gemm) + offsetof(GemmArgs, epilogue) + offsetof(GemmEpilogueArgs, d));
  EXPECT_EQ(field(sm90, "counters")->offset, offsetof(GemmSm90Args, counters));
  EXPECT_EQ(field(sm90, "b")->kind, ArgField::Kind::kTensorMap);
  const ArgStruct amd = *describe_gemm_args("gemm_amd");
  EXPECT_EQ(field(amd, "tiles.splits")->offset, offsetof(GemmAmdArgs, tiles) + offsetof(GemmAmdTiles, splits));
  EXPECT_EQ(field(amd, "gemm.epilogue.steps[2].operand.data")->offset,
            offsetof(GemmAmdArgs, gemm) + offsetof(GemmArgs, epilogue) + offsetof(GemmEpilogueArgs, steps) +
                2 * sizeof(EpilogueStep) + offsetof(EpilogueStep, operand));
  EXPECT_TRUE(field(amd, "phase")->is_signed);
}

TEST(GemmDescription, FamiliesWithoutKernelsOfAGpuAreRefusedByName) {
  for (const char* family : {"gemm_cpu", "gemm_cublaslt", "nobody"}) {
    const Result<ArgStruct> args = describe_gemm_args(family);
    ASSERT_FALSE(args.ok());
    EXPECT_EQ(args.status().code(), StatusCode::kUnsupported);
    EXPECT_THAT(args.status().message(), HasSubstr(family));
  }
}

TEST(GemmDescription, ACallHasItsTensorsWithStridesAndItsScalars) {
  const CallDescription call = describe_gemm_call(parsed_problem(
      "m=5:n=8:k=16:batch=3:a=i8:d=f32:layout=crr:gate=separated:scale_a=f32:scale_b=f32.0.0.0:c=bf16:bias=f16:"
      "act=clamp:alpha=1:steps=act.clamp+mul.f32"));
  std::vector<std::string> names, scalars;
  for (const CallBuffer& b : call.buffers) names.push_back(b.name);
  for (const CallScalar& s : call.scalars) scalars.push_back(s.name);
  EXPECT_THAT(names, testing::ElementsAre("a", "b", "d", "scale_a", "scale_b", "c", "bias", "step1"));
  EXPECT_THAT(scalars, testing::ElementsAre("alpha", "beta", "low", "high", "step0_low", "step0_high"));
  const CallBuffer& a = call.buffers[0];
  EXPECT_THAT(a.shape, testing::ElementsAre(3, 5, 16));
  EXPECT_THAT(a.strides, testing::ElementsAre(80, 1, 5));
  EXPECT_EQ(a.bytes, 3 * 5 * 16);
  const CallBuffer& d = call.buffers[2];
  EXPECT_TRUE(d.output);
  EXPECT_THAT(d.shape, testing::ElementsAre(3, 5, 4));
  EXPECT_EQ(d.bytes, 3 * 5 * 4 * 4);
  EXPECT_EQ(call.buffers[3].bytes, 5 * 4);   // a float for each row
  EXPECT_EQ(call.buffers[4].bytes, 4);       // one for all
  EXPECT_EQ(call.buffers[6].bytes, 8 * 2);   // [N], before the gate
  EXPECT_EQ(call.buffers[7].bytes, 60 * 4);  // [batch, M, N / 2]
}

TEST(GemmDescription, ZeroPointsStandAmongTheTensors) {
  const CallDescription call =
      describe_gemm_call(parsed_problem("m=2:n=6:k=256:b=u4:scale_b=f16.1x128:zero_b=u4:bias=f32:steps=add.f32"));
  std::vector<std::string> names;
  for (const CallBuffer& b : call.buffers) names.push_back(b.name);
  EXPECT_THAT(names, testing::ElementsAre("a", "b", "d", "scale_b", "zero_b", "bias", "step0"));
  EXPECT_THAT(call.meaning, HasSubstr("B[b,k,n] - zero_b"));
  const CallBuffer& zero = call.buffers[4];
  EXPECT_EQ(zero.dtype, DType::kU4);
  EXPECT_THAT(zero.shape, testing::ElementsAre(1, 2, 6));
  EXPECT_EQ(zero.bytes, 6);  // twelve of four bits
  EXPECT_EQ(call.buffers[1].bytes, 6 * 128);
}

TEST(GemmDescription, AnEmptyTensorHasNoBytes) {
  EXPECT_EQ(describe_gemm_call(parsed_problem("m=5:n=8:k=0:a=f32")).buffers[0].bytes, 0);
}

TEST(GemmDescription, APointersAlignmentIsTheProblems) {
  const CallDescription call = describe_gemm_call(parsed_problem("m=5:n=8:k=16:a=bf16:align=2.4.16"));
  EXPECT_EQ(call.buffers[0].alignment, 2);
  EXPECT_EQ(call.buffers[1].alignment, 4);
  EXPECT_EQ(call.buffers[2].alignment, 16);
}

// A recipe for the parts that are asked for, on the first part of a target.
Result<int64_t> parts(const char* target, const std::string& text, int64_t asked) {
  const GemmProblem p = parsed_problem(text);
  const DeviceSpec device = first_part(target);
  const auto families = gemm_operator().families();
  std::vector<Choice> choices;
  for (const KernelFamily* family : families) {
    if (!family->supports(erase(p), device)) continue;
    for (const Candidate& candidate : family->candidates(erase(p), device))
      choices.push_back({Recipe{{candidate.step}}});
  }
  Result<Recipe> recipe = choose_gemm_parts(p, device, families, choices, asked);
  if (!recipe) return recipe.status();
  const RecipeStep& step = recipe->steps.front();
  const KernelFamily& family = *find_family(families, step.key.family);
  EXPECT_TRUE(family.check(erase(p), device, step).ok());
  return gemm_parts_of_k(p, family, step);
}

TEST(GemmDescription, KIsCutInAsManyPartsAsAreAskedFor) {
  for (const char* target : {"sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100"}) {
    for (const int64_t asked : {1, 2, 4, 8}) {
      const Result<int64_t> got = parts(target, "m=64:n=512:k=8192:a=bf16", asked);
      ASSERT_TRUE(got.ok()) << target << ": " << got.status().message();
      EXPECT_EQ(*got, asked) << target;
    }
  }
  // Where dispatch itself would never cut.
  EXPECT_EQ(*parts("sm_80", "m=4096:n=4096:k=8192:a=bf16", 4), 4);
  EXPECT_EQ(*parts("gfx942", "m=4096:n=4096:k=8192:a=bf16", 4), 4);
}

TEST(GemmDescription, WhereKCannotBeCutTheReasonIsGiven) {
  const Result<int64_t> got = parts("sm_80", "m=64:n=64:k=64:a=bf16:batch_invariant=1", 4);
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.status().message(), HasSubstr("no kernel cuts K = 64 in 4 parts on sm_80"));
  EXPECT_EQ(*parts("sm_80", "m=64:n=64:k=64:a=bf16:batch_invariant=1", 1), 1);
}

}  // namespace
}  // namespace tilewright
