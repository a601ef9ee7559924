// SPDX-License-Identifier: MIT
// gemv_amd on every emulated AMD GPU: right results for each type, layout, epilogue and cut of K, at ragged sizes, without
// a race, an access out of bounds or a read of what nobody wrote.
#include <set>

#include "core/fields.hpp"
#include "emulated/amd/gemm/amd_gemm.hpp"
#include "gemm/amd/gemv_amd_args.hpp"

namespace tilewright {
namespace {

class AmdGemv : public test::AmdGemm {
 protected:
  void check_gemv(const std::string& text) { check_best(gemv_amd_family(), text); }
  // Every cut of the work that is offered.
  void check_all(const std::string& text) {
    const GemmProblem problem = parse(text);
    std::set<std::string> seen;
    for (const Candidate& candidate : gemv_amd_family().candidates(erase(problem), device->spec())) {
      if (seen.insert(candidate.step.key.text).second) run(gemv_amd_family(), problem, text, candidate.step);
    }
    EXPECT_FALSE(seen.empty()) << text;
  }
};
class SlowAmdGemv : public AmdGemv {};

using test::kCdna, test::kRdna, test::target_of;
INSTANTIATE_TEST_SUITE_P(EmulatedCdna, AmdGemv, kCdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedRdna, AmdGemv, kRdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedCdna, SlowAmdGemv, kCdna, target_of);
INSTANTIATE_TEST_SUITE_P(EmulatedRdna, SlowAmdGemv, kRdna, target_of);

// In one part and in parts of K, which are added in their order.
TEST_P(AmdGemv, RowsAndColumnsOfWeightsAreMultipliedRight) {
  for (const char* text : {"m=5:n=100:k=2056:a=bf16:batch=2",
                           "m=3:n=40:k=531:a=i8:layout=rrr:scale_a=f32:scale_b=f32:gate=separated:act=silu",
                           "m=5:n=37:k=531:a=f16:packed=1:batch=2"}) {
    const GemmProblem problem = parse(text);
    const std::vector<Candidate> found = gemv_amd_family().candidates(erase(problem), device->spec());
    ASSERT_FALSE(found.empty()) << text;
    RecipeStep step = found.front().step;
    for (const int64_t split_k : {0, 1, 5}) {
      step.knobs.values = {split_k};
      run(gemv_amd_family(), problem, text, step);
    }
  }
}

TEST_P(SlowAmdGemv, EveryTypeAndLayoutIsMultipliedRight) {
  for (const char* dtype : dtypes()) {
    for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
      check_gemv(fmt::format("m=13:n=104:k=1040:a={}:layout={}", dtype, layout));
    }
  }
}

TEST_P(SlowAmdGemv, PackedWeightsOfEveryTypeAreRight) {
  for (const char* dtype : {"bf16", "f16", "i8", "f32"}) {
    if (dtype == std::string_view("f32") && !target.starts_with("gfx9")) continue;
    for (const char* rest : {"m=7:n=133:k=1037:batch=2", "m=18:n=80:k=520:gate=separated:act=silu",
                             "m=3:n=72:k=64:gate=interleaved:act=gelu:bias=f32"}) {
      check_gemv(fmt::format("{}:a={}:packed=1", rest, dtype));
    }
  }
}

TEST_P(SlowAmdGemv, EveryNumberOfRowsIsRight) {
  for (const int m : {1, 2, 15, 16, 17, 31, 32}) {
    check_gemv(fmt::format("m={}:n=36:k=520:a=bf16", m));
    check_gemv(fmt::format("m={}:n=36:k=77:a=f16:layout=rrr", m));
  }
}

TEST_P(SlowAmdGemv, TailsAndStridesAreRight) {
  for (const char* text :
       {"m=1:n=1:k=8:a=bf16", "m=2:n=1:k=16:a=i8", "m=7:n=37:k=264:a=f16:sa=0.300.1:sb=0.1.266",
        "m=7:n=44:k=13:a=bf16:layout=rrr", "m=7:n=36:k=9:a=i8:layout=crr", "m=4:n=24:k=40:a=bf16:sa=0.129.3",
        "m=6:n=48:k=2048:a=f16:batch=3:act=relu", "m=6:n=40:k=75:a=i8:batch=2:layout=rrr"}) {
    check_gemv(text);
  }
}

TEST_P(SlowAmdGemv, EveryCutIsRight) {
  check_all("m=20:n=72:k=1304:a=bf16");
  check_all("m=9:n=72:k=1304:a=bf16:layout=rrr");
}

TEST_P(SlowAmdGemv, EpiloguesAreAppliedAsOnEveryDevice) {
  for (const char* text :
       {"m=9:n=72:k=64:a=bf16:bias=bf16:act=gelu:alpha=1", "m=9:n=72:k=64:a=f16:c=f16:steps=mul.f32+act.silu",
        "m=9:n=72:k=64:a=bf16:gate=interleaved:act=gelu_tanh:bias=f32", "m=9:n=80:k=64:a=bf16:gate=separated:act=silu",
        "m=9:n=80:k=64:a=bf16:gate=separated:act=silu:layout=rrr", "m=9:n=33:k=64:a=bf16:d=f32"}) {
    check_gemv(text);
  }
}

}  // namespace
}  // namespace tilewright
