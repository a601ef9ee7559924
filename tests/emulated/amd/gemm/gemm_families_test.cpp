// SPDX-License-Identifier: MIT
// gemm on every emulated AMD GPU, through its families as dispatch would call them: right results at ragged sizes for each
// type, layout and epilogue, without a race, an access out of bounds, a read of what nobody wrote or a bank conflict that a
// main loop would feel.
#include <set>

#include "emulated/amd/gemm/amd_gemm.hpp"

namespace tilewright {
namespace {

class AmdGemm : public test::AmdGemm {};
// With more kernels to compile than a quick run has time for.
class SlowAmdGemm : public AmdGemm {};

using test::kCdna, test::kRdna, test::target_of;
// gfx90a and gfx1100 have to wait for the slow lane.
INSTANTIATE_TEST_SUITE_P(EmulatedCdna, AmdGemm, testing::Values(1, 2), target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedRdna, AmdGemm, testing::Values(4), target_of);
INSTANTIATE_TEST_SUITE_P(SlowEmulated, AmdGemm, testing::Values(0, 3), target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedCdna, SlowAmdGemm, kCdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedRdna, SlowAmdGemm, kRdna, target_of);

TEST_P(AmdGemm, EveryTypeIsMultipliedRight) {
  for (const char* dtype : dtypes()) check_best(gemm_amd_family(), fmt::format("m=84:n=100:k=144:a={}", dtype));
}

// Whole chunks along K or N, so that they are copied as such; the tails lie inside of tiles.
// Printed, never compared.
TEST_P(SlowAmdGemm, TheTimeOfALaunchIsTold) {
  check_best(gemm_amd_family(), "m=256:n=256:k=256:a=bf16", [](const RecipeStep& step) {
    return step.key.text.find("tile_m=128:tile_n=128") != std::string::npos && step.knobs == Knobs{};
  });
  fmt::print("{}: 256 x 256 x 256 of bf16 in {:.3f} s\n", target, seconds);
}

TEST_P(SlowAmdGemm, EveryTypeAndLayoutIsMultipliedRight) {
  for (const char* dtype : dtypes()) {
    for (const char* layout : {"rrr", "crr", "ccr"}) {
      check_best(gemm_amd_family(), fmt::format("m=84:n=100:k=144:a={}:layout={}", dtype, layout));
    }
  }
}

TEST_P(AmdGemm, PackedWeightsAreRead) {
  check_best(gemm_amd_family(), "m=67:n=104:k=147:a=bf16:packed=1:batch=2:gate=separated:act=silu");
}

TEST_P(SlowAmdGemm, PackedWeightsOfEveryTypeAreRight) {
  for (const char* dtype : {"bf16", "f16", "i8", "f32"}) {
    if (dtype == std::string_view("f32") && !target.starts_with("gfx9")) continue;
    check_best(gemm_amd_family(), fmt::format("m=84:n=133:k=339:a={}:packed=1:batch=2", dtype));
    check_best(gemm_amd_family(), fmt::format("m=70:n=200:k=80:a={}:packed=1:gate=separated:act=silu", dtype));
  }
  const std::string text = "m=70:n=90:k=200:a=i8:packed=1";
  const GemmProblem problem = parse(text);
  std::set<std::string> seen;
  for (const Candidate& candidate : gemm_amd_family().candidates(erase(problem), device->spec())) {
    if (seen.size() == 6) break;
    if (seen.insert(candidate.step.key.text).second) run(gemm_amd_family(), problem, text, candidate.step);
  }
  EXPECT_GE(seen.size(), 5u);
}

TEST_P(AmdGemm, TailsOfEveryDimensionAreRight) {
  for (const char* text :
       {"m=67:n=35:k=75:a=bf16", "m=1:n=1:k=1:a=f16", "m=33:n=129:k=259:a=i8:scale_a=f32:scale_b=f32",
        "m=66:n=35:k=77:a=bf16:layout=rrr", "m=35:n=66:k=77:a=i8:layout=ccr"}) {
    check_best(gemm_amd_family(), text);
  }
}

TEST_P(SlowAmdGemm, EveryTileOfTheFamilyIsRight) {
  const std::string text = "m=270:n=264:k=200:a=bf16";
  const GemmProblem problem = parse(text);
  std::set<std::string> seen;
  for (const Candidate& candidate : gemm_amd_family().candidates(erase(problem), device->spec())) {
    if (!seen.insert(candidate.step.key.text).second) continue;
    run(gemm_amd_family(), problem, text, candidate.step);
  }
  EXPECT_GE(seen.size(), 5u);
}

// What a longer K adds is the main loop's.
TEST_P(SlowAmdGemm, TheMainLoopsOfLargeTilesAreFreeOfBankConflicts) {
  for (const char* layout : {"rcr", "ccr"}) {
    for (const char* dtype : {"bf16", "i8"}) {
      emu::LdsTraffic traffic[2];
      for (const int k : {0, 1}) {
        const std::string text = fmt::format("m=256:n=256:k={}:a={}:layout={}", 256 + 256 * k, dtype, layout);
        check_best(gemm_amd_family(), text, [](const RecipeStep& step) {
          return step.key.text.find("tile_m=128:tile_n=128") != std::string::npos && step.knobs == Knobs{};
        });
        traffic[k] = device->counters().lds;
      }
      const auto passes = static_cast<double>(traffic[1].passes - traffic[0].passes);
      const auto conflicts = static_cast<double>(traffic[1].conflicts - traffic[0].conflicts);
      EXPECT_GT(passes, 0);
      EXPECT_LE(conflicts, 0.02 * passes) << dtype << " " << layout;
    }
  }
}

TEST_P(AmdGemm, AGateAndABiasAreApplied) {
  check_best(gemm_amd_family(), "m=40:n=72:k=64:a=bf16:gate=separated:act=silu");
  check_best(gemm_amd_family(), "m=40:n=72:k=64:a=i8:scale_a=f32:scale_b=f32:bias=f32:act=gelu:d=f32");
}

TEST_P(SlowAmdGemm, EpiloguesAreAppliedAsOnEveryDevice) {
  for (const char* text :
       {"m=40:n=72:k=64:a=bf16:bias=bf16:act=gelu:alpha=1", "m=40:n=72:k=64:a=f16:c=f16:steps=mul.f32+act.silu",
        "m=40:n=72:k=64:a=bf16:gate=interleaved:act=gelu_tanh:bias=f32", "m=20:n=40:k=64:a=bf16:batch=3:act=relu"}) {
    check_best(gemm_amd_family(), text);
  }
}

TEST_P(AmdGemm, CopiesStraightToLdsBringBothHalvesOfAGateAndTheEndOfK) {
  if (target != "gfx950") GTEST_SKIP() << "this target loads no 16 bytes straight to LDS";
  const auto direct = [](const RecipeStep& step) { return step.key.text.find("direct=1") != std::string::npos; };
  check_best(gemm_amd_family(), "m=70:n=264:k=72:a=bf16:gate=separated:act=silu", direct);
  check_best(gemm_amd_family(), "m=70:n=264:k=208:a=e4m3:gate=separated:act=silu", direct);
}

TEST_P(AmdGemm, PartsOfKAreAddedInTheirOrder) {
  const auto knob = [](size_t which) { return [which](const RecipeStep& s) { return s.knobs.values[which] > 0; }; };
  check_best(gemm_amd_family(), "m=20:n=72:k=2056:a=bf16:bias=f32", knob(1));
  check_best(gemm_amd_family(), "m=20:n=72:k=2056:a=bf16:batch=2:gate=separated:act=silu", knob(1));
  // Stream-K: workers that end inside of tiles, and tiles that several of them share.
  const std::string text = "m=300:n=270:k=520:a=bf16";
  const GemmProblem problem = parse(text);
  RecipeStep step = gemm_amd_family().candidates(erase(problem), device->spec()).front().step;
  for (const int64_t workers : {1, 2, 7, 13}) {
    step.knobs.values = {0, 0, workers};
    run(gemm_amd_family(), problem, text, step);
  }
}

// e8m0 for 32 of K of either operand.
std::string mx(const std::string& text) { return text + ":scale_a=e8m0.1x32:scale_b=e8m0.1x32"; }

TEST_P(AmdGemm, BlockScalesAndTypesOfTwoOperandsAreMultipliedRight) {
  if (target != "gfx950") GTEST_SKIP() << "this target's matrix instructions take no block scales";
  check_best(gemm_amd_family(), mx("m=67:n=35:k=160:a=e4m3:b=e2m1"));
  check_best(gemm_amd_family(), mx("m=70:n=264:k=256:a=e2m1:gate=separated:act=silu:batch=2"),
             [](const RecipeStep& step) { return step.key.text.find("direct=1") != std::string::npos; });
  // Scales of one operand alone, elements one by one, a last group of 10.
  check_best(gemm_amd_family(), "m=35:n=66:k=170:a=e5m2:b=e4m3:layout=ccr:scale_a=f32:scale_b=e8m0.1x32");
}

// f32 for 128 of K of a row of A, and of 128 x 128 of B.
std::string promoted(const std::string& text) { return text + ":scale_a=f32.1x128:scale_b=f32.128x128"; }

TEST_P(AmdGemm, SumsOf128OfKAreScaledAsTheyAreAdded) {
  if (target != "gfx942" && target != "gfx950") GTEST_SKIP() << "not on this target";
  const char* dtype = target == "gfx942" ? "e4m3fnuz" : "e4m3";
  check_best(gemm_amd_family(), promoted(fmt::format("m=67:n=300:k=272:a={}", dtype)));
}

TEST_P(SlowAmdGemm, SumsOf128OfKAreScaledInEveryLayoutAndTile) {
  if (target != "gfx942" && target != "gfx950") GTEST_SKIP() << "not on this target";
  const char* dtype = target == "gfx942" ? "e4m3fnuz" : "e4m3";
  for (const char* text : {"m=68:n=140:k=400:layout=rrr:batch=2", "m=68:n=140:k=259:layout=crr",
                           "m=68:n=512:k=384:layout=ccr:gate=separated:act=silu", "m=68:n=300:k=256:gate=interleaved",
                           "m=1:n=130:k=129:bias=f32:act=gelu"}) {
    check_best(gemm_amd_family(), promoted(fmt::format("{}:a={}", text, dtype)));
  }
  check_best(gemm_amd_family(), fmt::format("m=68:n=140:k=400:a={}:scale_a=f32.1x128.0.1.68:scale_b=f32.128x128.0.1.2",
                                            target == "gfx942" ? "e5m2fnuz" : "e5m2"));
  const std::string text = promoted(fmt::format("m=270:n=264:k=640:a={}", dtype));
  const GemmProblem problem = parse(text);
  std::set<std::string> seen;
  for (const Candidate& candidate : gemm_amd_family().candidates(erase(problem), device->spec())) {
    if (!seen.insert(candidate.step.key.text).second) continue;
    run(gemm_amd_family(), problem, text, candidate.step);
  }
  EXPECT_GE(seen.size(), 3u);
  check_best(gemm_amd_family(), promoted(fmt::format("m=20:n=72:k=4224:a={}:batch=2", dtype)),
             [](const RecipeStep& s) { return s.knobs.values[1] > 0; });
}

TEST_P(SlowAmdGemm, BlockScaledTypesAndLayoutsAreMultipliedRight) {
  if (target != "gfx950") GTEST_SKIP() << "this target's matrix instructions take no block scales";
  for (const char* a : {"e4m3", "e5m2", "e2m1"}) {
    for (const char* b : {"e4m3", "e5m2", "e2m1"}) {
      const std::string types = fmt::format(":a={}:b={}", a, b);
      check_best(gemm_amd_family(), mx("m=84:n=100:k=384" + types));
      if (dtype_bits(parse("m=1:n=1:k=2" + types).b_dtype) == 4) continue;
      check_best(gemm_amd_family(), mx("m=84:n=100:k=352" + types + ":layout=rrr"));
    }
  }
  for (const char* text : {"a=e4m3:b=e5m2:layout=crr", "a=e5m2:b=e2m1:layout=ccr", "a=e4m3:layout=crr:batch=2",
                           "a=e4m3:gate=interleaved:act=gelu:bias=f32", "a=e2m1:c=f32:steps=mul.f32+act.silu"}) {
    check_best(gemm_amd_family(), mx(fmt::format("m=68:n=76:k=400:{}", text)));
  }
  // Tails, strides of scales of their own, none at all, and addresses at odd bytes.
  for (const char* text :
       {"m=1:n=1:k=2:a=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32", "m=67:n=35:k=78:a=e2m1:b=e4m3:scale_a=e8m0.1x32",
        "m=33:n=129:k=256:a=e4m3:scale_a=e8m0.1x32.0.1.33:scale_b=e8m0.1x32.0.1.129",
        "m=40:n=72:k=256:a=e5m2:b=e4m3:alpha=1", "m=40:n=72:k=256:a=e2m1:scale_a=f32:scale_b=f32",
        "m=40:n=72:k=256:a=e4m3:scale_a=e8m0.1x32:scale_b=e8m0.1x32:align=16.16.16.16.16.1.2"}) {
    check_best(gemm_amd_family(), text);
  }
}

TEST_P(SlowAmdGemm, EveryBlockScaledTileAndPartOfKIsRight) {
  if (target != "gfx950") GTEST_SKIP() << "this target's matrix instructions take no block scales";
  for (const char* types : {"a=e4m3", "a=e2m1"}) {
    const std::string text = mx(fmt::format("m=270:n=264:k=384:{}", types));
    const GemmProblem problem = parse(text);
    std::set<std::string> seen;
    for (const Candidate& candidate : gemm_amd_family().candidates(erase(problem), device->spec())) {
      if (!seen.insert(candidate.step.key.text).second) continue;
      run(gemm_amd_family(), problem, text, candidate.step);
    }
    EXPECT_GE(seen.size(), 8u);
  }
  const auto knob = [](size_t which) { return [which](const RecipeStep& s) { return s.knobs.values[which] > 0; }; };
  check_best(gemm_amd_family(), mx("m=20:n=72:k=8256:a=e2m1:batch=2:bias=f32"), knob(1));
  const std::string text = mx("m=300:n=270:k=1056:a=e4m3:b=e2m1");
  const GemmProblem problem = parse(text);
  RecipeStep step = gemm_amd_family().candidates(erase(problem), device->spec()).front().step;
  for (const int64_t workers : {1, 7}) {
    step.knobs.values = {0, 0, workers};
    run(gemm_amd_family(), problem, text, step);
  }
}

TEST_P(SlowAmdGemm, TheMainLoopsOfBlockScaledTilesAreFreeOfBankConflicts) {
  if (target != "gfx950") GTEST_SKIP() << "this target's matrix instructions take no block scales";
  for (const char* types : {"a=e4m3", "a=e2m1", "a=e4m3:b=e2m1"}) {
    emu::LdsTraffic traffic[2];
    for (const int k : {0, 1}) {
      check_best(gemm_amd_family(), mx(fmt::format("m=256:n=256:k={}:{}", 512 + 512 * k, types)),
                 [](const RecipeStep& step) {
                   const bool large = step.key.text.find("tile_m=256:tile_n=256") != std::string::npos;
                   return large && step.key.text.find("direct=1") != std::string::npos && step.knobs == Knobs{};
                 });
      traffic[k] = device->counters().lds;
    }
    const auto passes = static_cast<double>(traffic[1].passes - traffic[0].passes);
    const auto conflicts = static_cast<double>(traffic[1].conflicts - traffic[0].conflicts);
    EXPECT_GT(passes, 0);
    EXPECT_LE(conflicts, 0.02 * passes) << types;
  }
}

TEST_P(AmdGemm, TheGenericKernelTakesWhatOthersRefuse) {
  for (const char* text : {"m=5:n=7:k=0:a=bf16:bias=f32", "m=33:n=34:k=35:a=f32:layout=crr",
                           "m=20:n=30:k=40:a=e4m3fnuz", "m=20:n=30:k=40:a=e5m2:layout=ccr", "m=3:n=5:k=131201:a=i8"}) {
    check_best(gemm_generic_gpu_family(), text);
  }
}

TEST_P(AmdGemm, TheGenericKernelHasScalesOfEveryGroup) {
  for (const char* text :
       {"m=33:n=140:k=259:a=e4m3:scale_a=f32.1x128.0.1.33:scale_b=f32.128x128",
        "m=9:n=20:k=70:a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32:batch=2:bias=f32",
        "m=9:n=20:k=70:a=e2m1:alpha=1:scale_a=e4m3.1x16:scale_b=e4m3.1x16:gate=interleaved:act=silu",
        "m=9:n=20:k=70:a=bf16:b=e2m1:layout=crr:scale_b=f16.1x32", "m=9:n=20:k=70:a=i8:scale_a=bf16.1x64:scale_b=f32",
        "m=9:n=20:k=70:a=e5m2:b=e4m3:sb=0.1.71"}) {
    check_best(gemm_generic_gpu_family(), text);
  }
}

}  // namespace
}  // namespace tilewright
