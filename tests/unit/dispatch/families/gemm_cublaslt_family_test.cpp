// SPDX-License-Identifier: MIT
// gemm_cublaslt without a GPU: how problems are put to cuBLASLt, and whole calls on a fake one that multiplies on the host.
#include <fmt/format.h>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/vendor/cublaslt_problem.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"
#include "ops/op_list.hpp"
#include "tuning/measure.hpp"
#include "tuning/tuner.hpp"
#include "unit/device/cuda/vendor/fake_cublaslt_test.hpp"
#include "unit/dispatch/families/asked_device.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using cuda::LtProblem;
using test::problem;
using testing::HasSubstr;

// "T 328x200/328 N 328x264/328 -> 200x264/200": op and matrices as the library sees them.
std::string described(const std::string& text) {
  const Result<CublasLtProblem> made = cublaslt_problem(problem(text), 0);
  if (!made) return made.status().message();
  const LtProblem& lt = made->lt;
  const auto matrix = [](const cuda::LtMatrix& m) { return fmt::format("{}x{}/{}", m.rows, m.columns, m.leading); };
  return fmt::format("{}{} {} {} {} -> {}", made->swapped ? "" : "by columns: ", lt.transpose_a ? 'T' : 'N',
                     matrix(lt.a), lt.transpose_b ? 'T' : 'N', matrix(lt.b), matrix(lt.d));
}
LtProblem lt(const std::string& text) {
  const Result<CublasLtProblem> made = cublaslt_problem(problem(text), 0);
  EXPECT_TRUE(made.ok()) << text << ": " << made.status().message();
  return made ? made->lt : LtProblem();
}

TEST(CublasLtProblem, ARowMajorDIsTheTransposedProductWithItsOperandsSwapped) {
  EXPECT_EQ(described("m=264:n=200:k=328:a=bf16:layout=rcr"), "T 328x200/328 N 328x264/328 -> 200x264/200");
  EXPECT_EQ(described("m=264:n=200:k=328:a=bf16:layout=rrr"), "N 200x328/200 N 328x264/328 -> 200x264/200");
  EXPECT_EQ(described("m=264:n=200:k=328:a=bf16:layout=crr"), "N 200x328/200 T 264x328/264 -> 200x264/200");
  EXPECT_EQ(described("m=264:n=200:k=328:a=bf16:layout=ccr"), "T 328x200/328 T 264x328/264 -> 200x264/200");
  EXPECT_EQ(described("m=264:n=200:k=328:a=bf16:layout=rcc"), "by columns: T 328x264/328 N 328x200/328 -> 264x200/264");
  EXPECT_EQ(described("m=264:n=200:k=328:a=bf16:layout=crc"), "by columns: N 264x328/264 T 200x328/200 -> 264x200/264");
}

TEST(CublasLtProblem, LeadingDimensionsAndSizesOfOneAreTold) {
  EXPECT_EQ(described("m=4:n=5:k=6:a=bf16:sa=0.10.1:sb=0.1.11:sd=0.12.1"), "T 6x5/11 N 6x4/10 -> 5x4/12");
  // One row has no stride, whatever stands there.
  EXPECT_EQ(described("m=1:n=5:k=6:a=bf16:sa=0.3.1:sd=0.2.1"), "T 6x5/6 N 6x1/6 -> 5x1/5");
  EXPECT_EQ(described("m=4:n=1:k=6:a=bf16"), "T 6x1/6 N 6x4/6 -> 1x4/1");
  EXPECT_EQ(described("m=4:n=5:k=1:a=bf16"), "N 5x1/5 T 4x1/4 -> 5x4/5");
  // A row of K with gaps is a matrix of one row.
  EXPECT_EQ(described("m=1:n=5:k=6:a=bf16:sa=0.99.2"), "T 6x5/6 T 1x6/2 -> 5x1/5");
  EXPECT_EQ(described("m=1:n=1:k=1:a=bf16"), "T 1x1/1 N 1x1/1 -> 1x1/1");
}

TEST(CublasLtProblem, WhatItCannotExpressIsRefusedWithTheReason) {
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:sa=0.100.3"), HasSubstr("A of 4 x 6 has strides 100 and 3"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:sa=0.0.1"), HasSubstr("A of 4 x 6 has strides 0 and 1"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:sd=0.30.2"), HasSubstr("D of 4 x 5 has strides 30 and 2"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=i8"), HasSubstr("no product of i8 and i8 into"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:d=f16"), HasSubstr("no product of bf16 and bf16 into f16"));
  EXPECT_THAT(described("m=4:n=6:k=6:a=bf16:gate=separated"), HasSubstr("gate"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:steps=act.relu"), HasSubstr("steps"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:scale_a=f32"), HasSubstr("scales of bf16"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:act=gelu"), HasSubstr("activation gelu, allowed: relu, gelu_tanh"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:bias=f32"), HasSubstr("bias is f32, allowed with D of bf16: bf16"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:bias=bf16.0.1.0"), HasSubstr("one element for each column of D"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:layout=rcc:bias=bf16"), HasSubstr("one element for each row of D"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:c=f32"), HasSubstr("C is f32 and D is bf16"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:c=bf16.0.0.1"), HasSubstr("C is broadcast"));
  EXPECT_THAT(described("m=4:n=5:k=6:a=bf16:c=bf16.0.1.4"), HasSubstr("C of 5 x 4 has strides 4 and 1"));
}

TEST(CublasLtProblem, EpiloguesAlignmentsAndReductionsAreTold) {
  EXPECT_EQ(lt("m=4:n=5:k=6:a=bf16:act=gelu_tanh").activation, cuda::kLtEpilogueGelu);
  const LtProblem biased = lt("m=4:n=5:k=6:batch=2:a=bf16:d=f32:bias=f32:act=relu");
  EXPECT_TRUE(biased.has_bias);
  EXPECT_EQ(biased.bias_type, cuda::LtType::kF32);
  EXPECT_EQ(biased.activation, cuda::kLtEpilogueRelu);
  EXPECT_TRUE(lt("m=4:n=5:k=6:a=bf16:layout=rcc:bias=bf16.0.1.0").has_bias);
  const LtProblem aligned = lt("m=4:n=5:k=6:a=bf16:align=2.8.4.2.4:c=bf16:bias=bf16");
  EXPECT_EQ(aligned.a.alignment, 8u);  // our B
  EXPECT_EQ(aligned.b.alignment, 2u);
  EXPECT_EQ(aligned.d.alignment, 4u);
  EXPECT_EQ(aligned.c.alignment, 2u);
  EXPECT_EQ(aligned.bias_alignment, 4u);
  // Sums meet in f32; in any order only where the caller takes that.
  EXPECT_EQ(lt("m=4:n=5:k=6:a=bf16").reductions, cuda::kLtReduceCompute);
  EXPECT_EQ(lt("m=4:n=5:k=6:a=bf16:d=f32").reductions,
            cuda::kLtReduceCompute | cuda::kLtReduceOutput | cuda::kLtReduceInPlace);
  EXPECT_EQ(lt("m=4:n=5:k=6:a=f32:deterministic=1").reductions, cuda::kLtReduceCompute | cuda::kLtReduceOutput);
  EXPECT_EQ(lt("m=4:n=5:k=6:a=f32").compute, cuda::LtCompute::kF32);
  EXPECT_EQ(lt("m=4:n=5:k=6:a=f32:allow_tf32=1").compute, cuda::LtCompute::kTf32);
  EXPECT_FALSE(lt("m=4:n=16:k=16:a=e4m3").fast_accumulation);
  EXPECT_TRUE(lt("m=4:n=16:k=16:a=e4m3:allow_fast_accum=1").fast_accumulation);
  GemmProblem integers = problem("m=4:n=8:k=16:a=i8");
  integers.d_dtype = DType::kI32;
  EXPECT_EQ(cublaslt_problem(integers, 0)->lt.compute, cuda::LtCompute::kI32);
  integers.has_alpha = 1;
  EXPECT_THAT(cublaslt_problem(integers, 0).status().message(), HasSubstr("stored as they are"));
}

TEST(CublasLtProblem, ScalesOfEightBitFloatsAreValuesOrVectorsOfBoth) {
  const auto scales = [](const std::string& text) {
    const Result<CublasLtProblem> made = cublaslt_problem(problem("m=4:n=5:k=16:a=e4m3:" + text), 0);
    if (!made) return made.status().message();
    EXPECT_TRUE(made->swapped);
    return fmt::format("{}{}", static_cast<int>(made->lt.scale_b), static_cast<int>(made->lt.scale_a));
  };
  EXPECT_EQ(scales("d=f32"), "00");
  EXPECT_EQ(scales("scale_a=f32.0.0.0"), "10");
  EXPECT_EQ(scales("scale_a=f32.0.0.0:scale_b=f32.0.0.0:bias=bf16"), "11");
  EXPECT_EQ(scales("scale_a=f32.0.1.0:scale_b=f32.0.0.1:d=f32:bias=bf16"), "22");
  EXPECT_THAT(scales("scale_a=f32.0.1.0:scale_b=f32.0.0.0"), HasSubstr("only one of scale_a and scale_b is a vector"));
  EXPECT_THAT(scales("scale_a=f32.0.3.0:scale_b=f32.0.0.1"), HasSubstr("scale_a has strides 0.3,"));
  EXPECT_THAT(scales("scale_a=f32.1x128"), HasSubstr("only one of A and B has scales of groups"));
  EXPECT_THAT(scales("b=e5m2"), HasSubstr("A is e4m3 and B e5m2"));
  EXPECT_THAT(scales("d=f32:bias=f32"), HasSubstr("bias is f32, allowed with D of f32: bf16"));
}

TEST(CublasLtProblem, ScalesOfGroupsLieAsTheLibraryWantsThem) {
  const auto scales = [](const std::string& sizes, const std::string& text) {
    const Result<CublasLtProblem> made = cublaslt_problem(problem(sizes + ":a=e4m3:layout=rcr:" + text), 0);
    if (!made) return made.status().message();
    EXPECT_TRUE(made->swapped);
    EXPECT_FALSE(made->lt.fast_accumulation);
    return fmt::format("{}{}", static_cast<int>(made->lt.scale_b), static_cast<int>(made->lt.scale_a));
  };
  // Rows next to each other; K's groups next to each other, lines of four.
  EXPECT_EQ(scales("m=8:n=256:k=640", "scale_a=f32.1x128.0.1.8:scale_b=f32.128x128.0.8.1"), "34");
  EXPECT_EQ(scales("m=8:n=256:k=512", "scale_a=f32.1x128.0.1.8:scale_b=f32.128x128:allow_fast_accum=1"), "34");
  EXPECT_EQ(scales("m=8:n=12:k=512", "scale_a=f32.1x128.0.1.8:scale_b=f32.1x128.0.1.12"), "33");
  EXPECT_EQ(scales("m=256:n=12:k=512", "scale_a=f32.128x128:scale_b=f32.1x128.0.1.12"), "43");
  EXPECT_THAT(scales("m=8:n=256:k=512", "scale_a=f32.1x128:scale_b=f32.128x128"),
              HasSubstr("scale_a of 8 x 4 has strides 4.1, allowed: rows next to each other"));
  EXPECT_THAT(scales("m=8:n=256:k=640", "scale_a=f32.1x128.0.1.8:scale_b=f32.128x128"),
              HasSubstr("scale_b of 2 x 5 has strides 5.1, allowed: groups along K next to each other"));
  EXPECT_THAT(scales("m=6:n=256:k=512", "scale_a=f32.1x128.0.1.6:scale_b=f32.128x128"), HasSubstr("multiple of four"));
  EXPECT_THAT(scales("m=8:n=256:k=576", "scale_a=f32.1x128.0.1.8:scale_b=f32.128x128"), HasSubstr("K = 576"));
  EXPECT_THAT(scales("m=8:n=256:k=512", "scale_a=f32.1x64.0.1.8:scale_b=f32.128x128"), HasSubstr("f32.1x64, allowed"));
  EXPECT_THAT(scales("m=256:n=256:k=512", "scale_a=f32.128x128:scale_b=f32.128x128"), HasSubstr("one of them"));
}

// ---- Whole calls --------------------------------------------------------------------------------------------------------

class GemmCublasLtCalls : public test::FakeCublasLtTest {
 protected:
  void SetUp() override {
    test::FakeCublasLtTest::SetUp();
    // The process's library and driver are opened once: these tests need a process in which nobody asked before.
    setenv("TILEWRIGHT_CUBLASLT", test::kFakeCublasLt.c_str(), 1);
    setenv("TILEWRIGHT_CUDA_DRIVER", test::kFakeCuda.c_str(), 1);
    if (const auto opened = cuda::lt_library(); !opened) GTEST_SKIP() << opened.status().message();
    if (const auto opened = cuda::driver(); !opened) GTEST_SKIP() << opened.status().message();
    fake->arg_bytes = 0;
    ContextOptions options;
    options.cache_dir = scratch / "cache";
    options.user_tables = false;
    options.jit = "off";
    context = *ContextImpl::create(options, all_operators());
    ASSERT_TRUE(context->select_device({DeviceKind::kCuda, 0}).ok());
  }

  std::vector<Candidate> candidates(const std::string& text) {
    return gemm_cublaslt_family().candidates(erase(problem(text)), context->spec(0));
  }

  void check(const std::string& text) {
    SCOPED_TRACE(text);
    const GemmProblem p = problem(text);
    const Status supported = gemm_cublaslt_family().supports(erase(p), context->spec(0));
    ASSERT_TRUE(supported.ok()) << supported.message();
    const std::vector<Candidate> found = candidates(text);
    ASSERT_FALSE(found.empty());
    for (const Candidate& candidate : found) {
      const auto plan =
          context->dispatcher().bind(gemm_operator(), erase(p), context->spec(0), Recipe{{candidate.step}},
                                     ChoiceSource::kForced, /*allow_compile=*/false);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const auto instance = make_gemm_instance(p, context->device(), {});
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      (*instance)->fill(1, InputData::kNormal);
      (*instance)->poison();
      const auto before = lt->multiplied.size();
      const Status run = run_plan(context->device(), **plan, (*instance)->bindings(), {});
      ASSERT_TRUE(run.ok()) << run.message();
      EXPECT_EQ(lt->multiplied.size(), before + 1);
      const VerifyReport report = (*instance)->verify();
      EXPECT_TRUE(report.passed) << report.failure;
    }
  }

  test::ScratchFolder scratch;
  std::unique_ptr<ContextImpl> context;
};

TEST_F(GemmCublasLtCalls, EveryLayoutTypeAndEpilogueIsMultipliedRight) {
  for (const char* layout : {"rcr", "rrr", "crr", "ccr", "rcc", "rrc", "crc", "ccc"}) {
    for (const char* dtype : {"bf16", "f16", "f32"}) check(fmt::format("m=12:n=10:k=18:a={}:layout={}", dtype, layout));
  }
  for (const char* text :
       {"m=7:n=9:k=11:a=bf16:d=f32", "m=7:n=9:k=11:a=f16:d=f32:bias=f32:act=relu:alpha=1",
        "m=7:n=9:k=11:a=bf16:bias=bf16:act=gelu_tanh", "m=7:n=9:k=11:a=f32:c=f32:alpha=1", "m=1:n=1:k=1:a=bf16",
        "m=7:n=9:k=11:a=e4m3:scale_a=f32:scale_b=f32:bias=bf16", "m=7:n=9:k=11:a=e4m3:d=f32:scale_a=f32.0.0.0",
        "m=1:n=9:k=11:a=e4m3:d=f16:scale_a=f32:scale_b=f32:layout=rcr",
        "m=8:n=130:k=640:a=e4m3:scale_a=f32.1x128.0.1.8:scale_b=f32.128x128.0.8.1:bias=bf16",
        "m=130:n=12:k=256:a=e4m3:scale_a=f32.128x128.0.4.1:scale_b=f32.1x128.0.1.12",
        "m=7:n=9:k=11:a=bf16:layout=rcc:bias=bf16.0.1.0:c=bf16.0.1.7", "m=1:n=9:k=11:a=bf16:sa=0.1.3",
        "m=7:n=9:k=11:batch=3:a=bf16:bias=bf16:c=bf16", "m=7:n=9:k=11:batch=3:a=bf16:sb=0.1.11:bias=bf16.9.0.1",
        "m=7:n=9:k=11:a=bf16:align=2.4.8:sa=0.13.1:sb=0.1.15:sd=0.17.1"}) {
    check(text);
  }
}

TEST_F(GemmCublasLtCalls, TheFirstCandidateIsTheLibrarysFirst) {
  const std::vector<Candidate> found = candidates("m=64:n=64:k=64:a=bf16");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].step.key.text,
            "gemm/gemm_cublaslt/sm_90a/a=bf16:b=bf16:d=bf16/version=130102:algo=66:tile=20:stages=36:split_k=1:"
            "reduction=0:swizzle=0:custom=1:inner=0:cluster=3");
  for (size_t i = 1; i < found.size(); ++i) EXPECT_GT(found[i].cost, found[i - 1].cost);
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16");
  EXPECT_EQ(gemm_cublaslt_family().workspace_bytes(erase(p), context->spec(0), found[1].step), int64_t{8} << 20);
  EXPECT_DOUBLE_EQ(gemm_cublaslt_family().cost(erase(p), context->spec(0), found[1].step), found[1].cost);
}

TEST_F(GemmCublasLtCalls, AUnitBudgetIsTold) {
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16");
  ASSERT_TRUE(gemm_cublaslt_family().supports(erase(p), context->spec(100)));
  EXPECT_EQ(lt->asked.back().units, 100);
  ASSERT_TRUE(gemm_cublaslt_family().supports(erase(p), context->spec(0)));
  EXPECT_EQ(lt->asked.back().units, 0);
}

TEST_F(GemmCublasLtCalls, AnAlgorithmOfAnotherProblemOrVersionIsRefused) {
  const RecipeStep step = candidates("m=64:n=64:k=64:a=bf16").front().step;
  const auto refusal = [&](const std::string& text, const RecipeStep& s) {
    return gemm_cublaslt_family().check(erase(problem(text)), context->spec(0), s).message();
  };
  EXPECT_EQ(refusal("m=99:n=33:k=64:a=bf16:layout=crr", step), "");
  EXPECT_THAT(
      gemm_cublaslt_family().supports(erase(problem("m=64:n=64:k=64:a=e4m3:layout=rrr")), context->spec(0)).message(),
      HasSubstr("heuristics: CUBLAS_STATUS_NOT_SUPPORTED"));  // the library's word for it
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16:align=16.4.16", step),
              HasSubstr("takes A at multiples of 16 bytes, here of 4"));  // our B is its A
  EXPECT_EQ(refusal("m=64:n=64:k=64:a=bf16:bias=bf16", step), "");
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16:bias=bf16:align=16.16.16.16.2", step),
              HasSubstr("bias at multiples of 2 bytes"));
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=f16", step), HasSubstr("takes a=bf16:b=bf16:d=bf16, the problem is a=f16"));
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16:batch_invariant=1", step), HasSubstr("batch_invariant"));
  const RecipeStep rounding = candidates("m=64:n=64:k=64:a=f32:allow_tf32=1").front().step;
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=f32", rounding), HasSubstr("takes a=f32:b=f32:d=f32:compute=tf32"));
  std::string text = step.key.text;
  text.replace(text.find("130102"), 6, "120804");
  const RecipeStep old{*parse_key(text), {}};
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16", old), HasSubstr("cuBLASLt 12.8.4, this process has 13.1.2"));
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16", {*parse_key(text + ":x=1"), {}}), HasSubstr("unexpected text"));
}

TEST_F(GemmCublasLtCalls, ACallUsesItOnlyWhereOurOwnKernelsCannotBeHadOrTheCallerNamesIt) {
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16");
  const Operator& op = gemm_operator();
  // Compiling is off and nothing is built: the library needs no compiler.
  const auto fallback = context->plan(op, erase(p), 0, "", true);
  ASSERT_TRUE(fallback.ok()) << fallback.status().message();
  EXPECT_EQ((*fallback)->recipe.steps[0].key.family, "gemm_cublaslt");
  EXPECT_TRUE((*fallback)->fallback);
  EXPECT_EQ(context->query(op, erase(p), 0, "")->recipe, print_recipe(op.families(), (*fallback)->recipe));
  const std::string third = candidates("m=64:n=64:k=64:a=bf16")[2].step.key.text;
  const auto forced = context->plan(op, erase(p), 0, third, true);
  ASSERT_TRUE(forced.ok()) << forced.status().message();
  EXPECT_EQ((*forced)->recipe.steps[0].key.text, third);
  EXPECT_EQ((*forced)->source, ChoiceSource::kForced);

  // Our own stand before it in every list, whatever the costs.
  std::vector<std::string> refusals;
  const auto all = context->dispatcher().choices(op, erase(p), context->spec(0), TunedTable(), "", &refusals);
  ASSERT_TRUE(all.ok());
  bool vendor = false;
  int own = 0;
  for (const Choice& choice : *all) {
    const std::string& family = choice.recipe.steps[0].key.family;
    EXPECT_FALSE(vendor && family != "gemm_cublaslt" && choice.source == ChoiceSource::kCost) << family;
    vendor = vendor || family == "gemm_cublaslt";
    own += !vendor;
  }
  EXPECT_TRUE(vendor);
  EXPECT_GT(own, 0);
  // A choice among our own does not ask it.
  const int asked = lt_calls("cublasLtMatmulAlgoGetHeuristic");
  const GemmProblem other = problem("m=65:n=64:k=64:a=bf16");
  ASSERT_TRUE(
      context->dispatcher().choices(op, erase(other), context->spec(0), TunedTable(), "", &refusals, Asked::kOwn));
  EXPECT_EQ(lt_calls("cublasLtMatmulAlgoGetHeuristic"), asked);
}

TEST_F(GemmCublasLtCalls, ToolsVerifyAndTimeItAsAKernel) {
  const GemmProblem p = problem("m=8:n=8:k=8:a=bf16");
  const Recipe recipe{{candidates("m=8:n=8:k=8:a=bf16")[1].step}};
  const auto report = verify_recipe(*context, gemm_operator(), erase(p), recipe, 0, 1);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->passed) << report->failure;
  const auto plan =
      context->dispatcher().bind(gemm_operator(), erase(p), context->spec(0), recipe, ChoiceSource::kForced, false);
  ASSERT_TRUE(plan.ok());
  const auto instance = make_gemm_instance(p, context->device(), {});
  ASSERT_TRUE(instance.ok());
  const std::shared_ptr<const Plan> plans[] = {*plan, *plan};
  const auto timings = measure_plans(context->device(), plans, **instance, {.seconds = 0.01, .max_samples = 3}, {});
  ASSERT_TRUE(timings.ok()) << timings.status().message();
  EXPECT_GT(timings->back().us, 0);
}

TEST_F(GemmCublasLtCalls, ATunedRowChoosesIt) {
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16");
  const Operator& op = gemm_operator();
  const ProblemSignature signature = op.signature(erase(p));
  TunedRow row;
  row.op = "gemm", row.target = "sm_90a", row.part = context->spec(0).part, row.units = context->spec(0).units;
  row.core = signature.core, row.epilogue = signature.epilogue, row.sizes = signature.sizes;
  row.bucket = signature.bucket, row.us = 1;
  row.recipe = candidates("m=64:n=64:k=64:a=bf16")[1].step.key.text;
  TunedTable table;
  table.add_layer({row});
  context->set_tables(std::move(table));
  const auto plan = context->plan(op, erase(p), 0, "", true);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ((*plan)->recipe.steps[0].key.text, row.recipe);
  EXPECT_EQ((*plan)->source, ChoiceSource::kTuned);
  EXPECT_FALSE((*plan)->fallback);
}

TEST_F(GemmCublasLtCalls, ACallOfAKnownProblemNeitherAllocatesNorDescribesAgain) {
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16:bias=bf16");
  const std::string recipe = candidates("m=64:n=64:k=64:a=bf16:bias=bf16")[0].step.key.text;
  const auto plan = context->plan(gemm_operator(), erase(p), 0, recipe, true);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto instance = make_gemm_instance(p, context->device(), {});
  ASSERT_TRUE(instance.ok());
  (*instance)->fill(1, InputData::kNormal);
  ASSERT_TRUE(run_plan(context->device(), **plan, (*instance)->bindings(), {}).ok());
  const size_t driver_calls = fake->calls.size();
  lt->calls.clear();
  for (uintptr_t stream : {1, 2}) {
    const LaunchContext on{.stream = reinterpret_cast<void*>(stream)};
    ASSERT_TRUE(run_plan(context->device(), **plan, (*instance)->bindings(), on).ok());
    EXPECT_EQ(lt->multiplied.back().stream, on.stream);
    EXPECT_EQ(lt->multiplied.back().bias, (*instance)->bindings().pointers[kSlotBias]);
  }
  EXPECT_EQ(fake->calls.size(), driver_calls);
  EXPECT_EQ(lt->calls, (std::vector<std::string>{"cublasLtMatmulDescSetAttribute", "cublasLtMatmul",
                                                 "cublasLtMatmulDescSetAttribute", "cublasLtMatmul"}));
}

TEST_F(GemmCublasLtCalls, ARefusalOfTheLibraryIsTheFamilysReason) {
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16");
  lt->failures["cublasLtCreate"] = 1;
  EXPECT_THAT(gemm_cublaslt_family().supports(erase(p), context->spec(0)).message(),
              HasSubstr("gemm_cublaslt: cuda:0: cuBLASLt: handle: CUBLAS_STATUS_FAKE (1)"));
  EXPECT_TRUE(gemm_cublaslt_family().supports(erase(p), context->spec(0)));
  EXPECT_THAT(
      gemm_cublaslt_family().supports(erase(problem("m=4:n=4:k=4:a=bf16:packed=1")), context->spec(0)).message(),
      HasSubstr("packed"));
  DeviceSpec closed = context->spec(0);
  closed.vendor = nullptr;
  EXPECT_THAT(gemm_cublaslt_family().supports(erase(p), closed).message(), HasSubstr("no device is open"));
}

}  // namespace
}  // namespace tilewright
