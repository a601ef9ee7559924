// SPDX-License-Identifier: MIT
// The families of gemm on NVIDIA GPUs, asked without a GPU: what they refuse, what they choose, how they launch.
#include <gmock/gmock.h>

#include <set>

#include "core/fields.hpp"
#include "gemm/gpu/gemm_generic_shape.hpp"
#include "gemm/portable/gemm_portable_shape.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::HasSubstr;

DeviceSpec gpu(const char* target = "sm_80", int units = 108) {
  DeviceSpec device = test::cuda_device(target, units);
  device.clock_ghz = 1.41;
  return device;
}

GemmPortableConfig best(const std::string& text, const DeviceSpec& device = gpu()) {
  const GemmProblem p = problem(text);
  const std::vector<Candidate> found = gemm_portable_family().candidates(erase(p), device);
  EXPECT_FALSE(found.empty()) << text;
  GemmPortableConfig config{};
  if (!found.empty()) {
    EXPECT_TRUE(parse_fields(found.front().step.key.config(), config).ok());
  }
  return config;
}

TEST(GemmCudaFamilies, OnACpuTheyRefuseWithTheReason) {
  DeviceSpec cpu;
  cpu.arch = find_arch("x86-64-v3");
  const GemmProblem p = problem("m=64:n=64:k=64:a=bf16");
  for (const KernelFamily* family : {&gemm_portable_family(), &gemm_generic_gpu_family()}) {
    const Status status = family->supports(erase(p), cpu);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), testing::AllOf(HasSubstr(std::string(family->name())), HasSubstr("x86-64-v3 is no")));
  }
}

TEST(GemmCudaFamilies, EveryCandidateIsLegalAndItsTextParsesBack) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const char* text : {"m=1:n=1:k=1:a=bf16", "m=16:n=4096:k=4096:a=bf16", "m=4096:n=4096:k=4096:a=f16:layout=crr",
                             "m=33:n=70:k=35:a=i8", "m=33:n=70:k=35:a=e4m3", "m=128:n=512:k=256:a=f32:layout=rrr",
                             "m=300:n=600:k=512:a=bf16:gate=separated:act=silu:batch=3",
                             "m=64:n=64:k=64:a=bf16:align=2.4.8:steps=add.bf16"}) {
      const GemmProblem p = problem(text);
      const DeviceSpec device = gpu(target);
      const std::vector<Candidate> found = gemm_portable_family().candidates(erase(p), device);
      ASSERT_FALSE(found.empty()) << text;
      for (const Candidate& candidate : found) {
        const Status status = gemm_portable_family().check(erase(p), device, candidate.step);
        EXPECT_TRUE(status.ok()) << text << ": " << status.message();
        EXPECT_GT(candidate.cost, 0) << candidate.step.key.text;
        EXPECT_TRUE(gemm_portable_family().source(candidate.step.key).ok());
        EXPECT_EQ(print_gemm_problem(problem(print_gemm_problem(p))), print_gemm_problem(p));
      }
    }
  }
}

TEST(GemmCudaFamilies, CopiesAreAsWideAsStridesAndPointersAllow) {
  const auto copies = [](const char* text) {
    const GemmPortableConfig c = best(text);
    return fmt::format("{}{} {}{}", fields_detail::print_value(c.a_major), c.a_copy,
                       fields_detail::print_value(c.b_major), c.b_copy);
  };
  EXPECT_EQ(copies("m=64:n=64:k=64:a=bf16"), "k16 k16");
  EXPECT_EQ(copies("m=64:n=64:k=64:a=bf16:layout=crr"), "mn16 mn16");
  EXPECT_EQ(copies("m=64:n=64:k=66:a=bf16"), "k4 k4");
  EXPECT_EQ(copies("m=64:n=64:k=65:a=bf16"), "k0 k0");
  EXPECT_EQ(copies("m=1:n=64:k=65:a=bf16"), "k16 k0");  // one row has no stride
  EXPECT_EQ(copies("m=64:n=64:k=64:a=bf16:align=8.2.16"), "k4 k0");
  EXPECT_EQ(copies("m=64:n=64:k=64:a=bf16:sa=0.128.2"), "k0 k16");
  EXPECT_EQ(copies("m=64:n=64:k=64:a=bf16:batch=2:sb=4098.1.64"), "k16 k4");
  EXPECT_EQ(copies("m=64:n=72:k=64:a=bf16:layout=rrr:gate=separated"), "k16 mn4");  // the up half begins at 36
  EXPECT_EQ(copies("m=64:n=64:k=64:a=i8:layout=rrr"), "k16 mn0");                   // bytes are not transposed
  EXPECT_EQ(copies("m=64:n=64:k=64:a=f32"), "k0 k0");                               // FMA wants rows of M and N
  EXPECT_EQ(copies("m=64:n=64:k=64:a=f32:layout=crr"), "mn16 mn16");
}

TEST(GemmCudaFamilies, TheEpilogueIsTheLeastThatDoesIt) {
  const auto kind = [](const char* more) { return best(std::string("m=64:n=64:k=64:a=bf16") + more).epilogue; };
  EXPECT_EQ(kind(""), EpilogueKind::kPlain);
  EXPECT_EQ(kind(":bias=f32:scale_a=f32:scale_b=f32:alpha=1:act=gelu"), EpilogueKind::kLinear);
  EXPECT_EQ(kind(":act=relu"), EpilogueKind::kLinear);
  EXPECT_EQ(kind(":gate=interleaved"), EpilogueKind::kLinear);
  EXPECT_EQ(kind(":c=bf16"), EpilogueKind::kFull);
  EXPECT_EQ(kind(":steps=add.bf16"), EpilogueKind::kFull);
  EXPECT_EQ(kind(":bias=f32.0.64.1"), EpilogueKind::kFull);
}

TEST(GemmCudaFamilies, Tf32ServesOnlyCallsThatAllowIt) {
  const DeviceSpec hopper = gpu("sm_90a", 132);
  const GemmProblem strict = problem("m=512:n=512:k=512:a=f32"),
                    allowed = problem("m=512:n=512:k=512:a=f32:allow_tf32=1");
  EXPECT_EQ(best("m=512:n=512:k=512:a=f32").mma, PortableMma::kFma);
  EXPECT_EQ(best("m=512:n=512:k=512:a=f32:allow_tf32=1").mma, PortableMma::kTf32);
  EXPECT_THAT(gemm_sm90_family().supports(erase(strict), hopper).message(), HasSubstr("allow_tf32"));
  EXPECT_TRUE(gemm_sm90_family().supports(erase(allowed), hopper).ok());
  const RecipeStep rounds = gemm_portable_family().candidates(erase(allowed), hopper).front().step;
  const RecipeStep exact = gemm_portable_family().candidates(erase(strict), hopper).front().step;
  EXPECT_THAT(gemm_portable_family().check(erase(strict), hopper, rounds).message(), HasSubstr("allow_tf32"));
  EXPECT_TRUE(gemm_portable_family().check(erase(allowed), hopper, exact).ok());
}

TEST(GemmCudaFamilies, PartsThatWaitForEachOtherAreLaunchedTogether) {
  const DeviceSpec hopper = gpu("sm_90a", 132);
  const GemmProblem p = problem("m=512:n=2112:k=7168:a=bf16");
  std::set<bool> seen;
  for (const Candidate& candidate : gemm_sm90_family().candidates(erase(p), hopper)) {
    const Result<std::vector<Stage>> stages = gemm_sm90_family().stages(erase(p), hopper, candidate.step, nullptr);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    const bool splits = gemm_sm90_family().numerics_id(candidate.step).starts_with("split");
    EXPECT_EQ(stages->front().shape.cooperative, splits) << candidate.step.key.text;
    seen.insert(splits);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(GemmCudaFamilies, KernelsThatSumFastServeOnlyCallsThatAllowIt) {
  const DeviceSpec hopper = gpu("sm_90a", 132);
  for (const auto& [family, m] : {std::pair{&gemm_sm90_family(), 512}, {&gemm_sm90_skinny_family(), 64}}) {
    const std::string text = fmt::format("m={}:n=4096:k=4096:a=e4m3", m);
    const GemmProblem strict = problem(text), allowed = problem(text + ":allow_fast_accum=1");
    // Which of both ways to sum the candidates have: 1 = fast, 2 = promoted, 3 = both.
    const auto ways = [&, family = family](const GemmProblem& p) {
      int found = 0;
      for (const Candidate& candidate : family->candidates(erase(p), hopper)) {
        EXPECT_TRUE(family->check(erase(p), hopper, candidate.step).ok()) << candidate.step.key.text;
        const bool fast = candidate.step.key.text.find(":promote=none") != std::string::npos;
        EXPECT_EQ(family->numerics_id(candidate.step).ends_with("_fast"), fast) << candidate.step.key.text;
        EXPECT_EQ(family->numerics_id(candidate.step).ends_with("_by128"), !fast) << candidate.step.key.text;
        found |= fast ? 1 : 2;
      }
      return found;
    };
    EXPECT_EQ(ways(strict), 2) << text;
    EXPECT_EQ(ways(allowed), 3) << text;
    const RecipeStep fast = family->candidates(erase(allowed), hopper).front().step;
    const RecipeStep exact = family->candidates(erase(strict), hopper).front().step;
    EXPECT_THAT(fast.key.text, HasSubstr("promote=none")) << "the cost model takes what is allowed";
    EXPECT_THAT(family->check(erase(strict), hopper, fast).message(), HasSubstr("allow_fast_accum"));
    EXPECT_TRUE(family->check(erase(allowed), hopper, exact).ok());
    // Other types have one way to sum.
    RecipeStep wrong = family->candidates(erase(problem(fmt::format("m={}:n=4096:k=4096:a=bf16", m))), hopper)[0].step;
    std::string key = wrong.key.text;
    key.replace(key.find("promote=none"), 12, "promote=sums");
    wrong.key = *parse_key(key);
    EXPECT_THAT(family->check(erase(problem(fmt::format("m={}:n=4096:k=4096:a=bf16", m))), hopper, wrong).message(),
                HasSubstr("promote: dtype is no 8-bit float"));
  }
  // Families without such kernels serve the problem as they do any.
  for (const char* text : {"m=512:n=512:k=512:a=e4m3:allow_fast_accum=1", "m=67:n=35:k=45:a=e5m2:allow_fast_accum=1"}) {
    EXPECT_TRUE(gemm_portable_family().supports(erase(problem(text)), hopper).ok()) << text;
    EXPECT_TRUE(gemm_generic_gpu_family().supports(erase(problem(text)), hopper).ok()) << text;
  }
}

TEST(GemmCudaFamilies, ScalesOfGroupsAreMultipliedWhereTilesOfKHaveOneEach) {
  const DeviceSpec hopper = gpu("sm_90a", 132);
  const std::string_view scales = ":a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128";
  for (const auto& [m, family] :
       {std::pair{16, &gemm_sm90_skinny_family()}, {128, &gemm_sm90_skinny_family()}, {512, &gemm_sm90_family()}}) {
    const GemmProblem scaled = problem(fmt::format("m={}:n=4096:k=7168{}", m, scales));
    const GemmProblem plain = problem(fmt::format("m={}:n=4096:k=7168:a=e4m3", m));
    const std::vector<Candidate> found = family->candidates(erase(scaled), hopper);
    ASSERT_FALSE(found.empty()) << m;
    for (const Candidate& candidate : found) {
      EXPECT_THAT(candidate.step.key.text, HasSubstr(":promote=scaled"));
      EXPECT_TRUE(family->numerics_id(candidate.step).ends_with("_scaled128")) << candidate.step.key.text;
      EXPECT_TRUE(family->check(erase(scaled), hopper, candidate.step).ok()) << candidate.step.key.text;
    }
    EXPECT_THAT(family->check(erase(plain), hopper, found.front().step).message(), HasSubstr("there are none"));
    const RecipeStep without = family->candidates(erase(plain), hopper).front().step;
    EXPECT_THAT(family->check(erase(scaled), hopper, without).message(), HasSubstr("multiplies by no block scales"));
    const auto refusal = [&](std::string_view rest) {
      return family->supports(erase(problem(fmt::format("m={}:n=4096:k=7168{}", m, rest))), hopper).message();
    };
    EXPECT_THAT(refusal(":a=e4m3:scale_a=f32.1x64:scale_b=f32.128x128"),
                HasSubstr("f32.1x64 of A and f32.128x128 of B"));
    EXPECT_THAT(refusal(":a=e4m3:scale_a=f32.1x128"), HasSubstr("allowed: f32.1x128 and f32.128x128"));
    EXPECT_THAT(refusal(":a=e4m3:scale_a=e8m0.1x32:scale_b=e8m0.1x32"), HasSubstr("allowed: f32.1x128"));
    EXPECT_THAT(refusal(":a=e4m3:b=e5m2:scale_a=f32.1x128:scale_b=f32.128x128"), HasSubstr("A is e4m3 and B e5m2"));
  }
  const GemmProblem odd = problem(fmt::format("m=64:n=4160:k=1024{}:gate=separated:act=silu", scales));
  EXPECT_THAT(gemm_sm90_skinny_family().supports(erase(odd), hopper).message(), HasSubstr("a multiple of 128"));
  const GemmProblem any = problem(fmt::format("m=64:n=4096:k=1024{}", scales));
  EXPECT_FALSE(gemm_portable_family().supports(erase(any), hopper).ok());
  EXPECT_TRUE(gemm_generic_gpu_family().supports(erase(any), hopper).ok());
}

TEST(GemmCudaFamilies, AKernelOfAnotherProblemIsRefused) {
  const GemmProblem aligned = problem("m=64:n=64:k=64:a=bf16"), odd = problem("m=64:n=64:k=65:a=bf16");
  const RecipeStep step = gemm_portable_family().candidates(erase(aligned), gpu()).front().step;
  const RecipeStep by_elements = gemm_portable_family().candidates(erase(odd), gpu()).front().step;
  const auto refusal = [](const GemmProblem& p, const RecipeStep& s) {
    return gemm_portable_family().check(erase(p), gpu(), s).message();
  };
  EXPECT_THAT(refusal(odd, step), HasSubstr("a lies along k in pieces of 0 bytes, the kernel copies 16 bytes along k"));
  EXPECT_EQ(refusal(aligned, by_elements), "");  // elements serve every stride
  EXPECT_THAT(refusal(problem("m=64:n=64:k=64:a=f16"), step), HasSubstr("kernel takes bf16, the problem is f16"));
  EXPECT_THAT(refusal(problem("m=64:n=64:k=64:a=bf16:act=relu"), step), HasSubstr("epilogue"));
  RecipeStep split = step;
  split.knobs.values[1] = 33;
  EXPECT_THAT(refusal(aligned, split), HasSubstr("split_k = 33, allowed: multiples of tile_k"));
  EXPECT_THAT(refusal(problem("m=64:n=64:k=0:a=bf16"), step), HasSubstr("K = 0"));
  EXPECT_THAT(refusal(problem("m=64:n=64:k=64:a=bf16:packed=1"), step), HasSubstr("packed"));
}

TEST(GemmCudaFamilies, ASplitKIsTwoLaunchesWithAWorkspaceForAllPartialSums) {
  const GemmProblem p = problem("m=16:n=256:k=8192:a=bf16");
  const DeviceSpec device = gpu();
  for (const Candidate& candidate : gemm_portable_family().candidates(erase(p), device)) {
    const int64_t split_k = candidate.step.knobs.values[1];
    const Result<std::vector<Stage>> stages = gemm_portable_family().stages(erase(p), device, candidate.step, nullptr);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    GemmPortableConfig c;
    ASSERT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
    const int64_t splits = split_k == 0 ? 1 : (p.k + split_k - 1) / split_k;
    const int64_t tiles = (p.m + c.tile_m - 1) / c.tile_m * ((p.n + c.tile_n - 1) / c.tile_n);
    EXPECT_EQ(stages->size(), splits > 1 ? 2u : 1u);
    EXPECT_EQ(stages->front().shape.grid[0], tiles * splits);
    EXPECT_EQ(gemm_portable_family().workspace_bytes(erase(p), device, candidate.step),
              splits > 1 ? tiles * splits * c.tile_m * c.tile_n * 4 : 0);
    EXPECT_EQ(gemm_portable_family().numerics_id(candidate.step),
              splits > 1 ? fmt::format("split{}:mma", split_k) : "seq:mma");
  }
}

TEST(GemmCudaFamilies, BatchInvariantHasOneOrderOfSummation) {
  const GemmProblem p = problem("m=16:n=256:k=8192:a=bf16:batch_invariant=1");
  for (const Candidate& candidate : gemm_portable_family().candidates(erase(p), gpu())) {
    EXPECT_EQ(gemm_portable_family().numerics_id(candidate.step), "seq:mma") << candidate.step.key.text;
  }
  // Whoever else could multiply it.
  DeviceSpec hopper = gpu();
  hopper.arch = find_arch("sm_90a");
  for (const KernelFamily* family : {&gemm_generic_gpu_family(), &gemm_sm90_family(), &gemm_sm90_skinny_family()}) {
    EXPECT_THAT(family->supports(erase(p), hopper).message(), HasSubstr("batch_invariant")) << family->name();
  }
  const GemmProblem one_row = problem("m=1:n=256:k=8192:a=bf16:batch_invariant=1");
  EXPECT_THAT(gemv_gpu_family().supports(erase(one_row), hopper).message(), HasSubstr("batch_invariant"));
}

TEST(GemmCudaFamilies, HopperTakesWhatTheCopyEngineCanRead) {
  DeviceSpec hopper = gpu();
  hopper.arch = find_arch("sm_90a");
  hopper.units = 132;
  const KernelFamily& family = gemm_sm90_family();
  for (const char* text :
       {"m=4096:n=4096:k=4096:a=bf16", "m=304:n=512:k=80:a=f16:layout=crr", "m=200:n=512:k=1024:a=i8:scale_a=f32",
        "m=100:n=512:k=64:batch=3:a=bf16:gate=separated:act=silu"}) {
    const GemmProblem p = problem(text);
    ASSERT_TRUE(family.supports(erase(p), hopper)) << text;
    const std::vector<Candidate> found = family.candidates(erase(p), hopper);
    ASSERT_FALSE(found.empty()) << text;
    for (const Candidate& candidate : found) {
      EXPECT_TRUE(family.check(erase(p), hopper, candidate.step)) << candidate.step.key.text;
      EXPECT_GT(candidate.cost, 0);
    }
  }
  for (const auto& [text, why] : {std::pair{"m=64:n=64:k=63:a=bf16", "multiples of 16 bytes"},
                                  {"m=64:n=64:k=64:a=bf16:align=4.16.16", "multiples of 16 bytes"},
                                  {"m=64:n=64:k=64:a=i8:layout=rrr", "along K only"},
                                  {"m=64:n=64:k=64:a=f32", "allow_tf32"},
                                  {"m=64:n=64:k=0:a=bf16", "K = 0"}}) {
    const GemmProblem p = problem(text);
    EXPECT_THAT(family.supports(erase(p), hopper).message(), HasSubstr(why)) << text;
  }
  EXPECT_THAT(family.supports(erase(problem("m=64:n=64:k=64:a=bf16")), gpu()).message(), HasSubstr("no wgmma"));
}

TEST(GemmCudaFamilies, HopperCutsTheTilesThatAreLeftOver) {
  DeviceSpec hopper = gpu();
  hopper.arch = find_arch("sm_90a");
  hopper.units = 132;
  const GemmProblem p = problem("m=512:n=4096:k=4096:a=bf16");
  const KernelFamily& family = gemm_sm90_family();
  int cut = 0;
  for (const Candidate& candidate : family.candidates(erase(p), hopper)) {
    const int64_t split = candidate.step.knobs.values[1],
                  bytes = family.workspace_bytes(erase(p), hopper, candidate.step);
    cut += split > 1;
    EXPECT_EQ(split > 1, bytes > 0) << candidate.step.key.text;
    EXPECT_EQ(family.numerics_id(candidate.step), split > 1 ? fmt::format("split{}:wgmma", split) : "seq:wgmma");
    RecipeStep more = candidate.step;
    more.knobs.values[1] = 9;
    EXPECT_THAT(family.check(erase(p), hopper, more).message(), HasSubstr("split = 9"));
  }
  EXPECT_GT(cut, 0);
}

TEST(GemmCudaFamilies, HopperWritesPiecesOfDByTheCopyEngineWhere8BitFloatsAreSummedApart) {
  const DeviceSpec hopper = gpu("sm_90a", 132);
  const KernelFamily& family = gemm_sm90_family();
  int narrow = 0;
  for (const char* text :
       {"m=512:n=2112:k=1024:a=e4m3", "m=512:n=2112:k=1024:a=e4m3:d=f32", "m=512:n=2112:k=1024:a=bf16"}) {
    const GemmProblem p = problem(text);
    for (const Candidate& candidate : family.candidates(erase(p), hopper)) {
      GemmSm90Config c{};
      ASSERT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
      EXPECT_LE(gemm_sm90_shared_bytes(c), hopper.arch->shared_bytes) << candidate.step.key.text;
      const bool pieces = is_ocp_f8(c.dtype) && c.d_dtype == DType::kBf16, last = pieces && c.tile_n % 64 != 0;
      const Result<std::vector<Stage>> stages = family.stages(erase(p), hopper, candidate.step, nullptr);
      ASSERT_TRUE(stages.ok()) << stages.status().message();
      EXPECT_EQ(stages->front().tensor_maps.size(), 2u + pieces + last) << candidate.step.key.text;
      narrow += last;
    }
  }
  EXPECT_GT(narrow, 0);
  const GemmProblem near = problem("m=512:n=512:k=512:a=e4m3"),
                    far = problem("m=512:n=512:k=512:a=e4m3:sd=0.274877906944.1");
  EXPECT_THAT(family.check(erase(far), hopper, family.candidates(erase(near), hopper).front().step).message(),
              HasSubstr("a stride of D"));
}

TEST(GemmCudaFamilies, MoreTilesThanAGridHasBlocksAreLeftToTheGenericKernel) {
  for (const char* text : {"m=1:n=1:k=1:batch=5000000000:sa=0.1.1:sb=0.1.1", "m=8589934592:n=4096:k=1:sa=0.1.1"}) {
    const GemmProblem p = problem(text);
    EXPECT_THAT(gemm_portable_family().supports(erase(p), gpu()).message(),
                HasSubstr("more tiles than a launch has blocks"));
    const RecipeStep step = gemm_generic_gpu_family().candidates(erase(p), gpu()).front().step;
    const Result<std::vector<Stage>> stages = gemm_generic_gpu_family().stages(erase(p), gpu(), step, nullptr);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    EXPECT_EQ(stages->front().shape.grid[0], 1u << 30);
  }
}

TEST(GemmCudaFamilies, TheGenericKernelTakesWhatTheOthersRefuse) {
  for (const char* text : {"m=64:n=64:k=0:a=bf16", "m=64:n=64:k=64:a=bf16:packed=1", "m=8:n=8:k=200000:a=i8"}) {
    const GemmProblem p = problem(text);
    EXPECT_FALSE(gemm_portable_family().supports(erase(p), gpu())) << text;
    ASSERT_TRUE(gemm_generic_gpu_family().supports(erase(p), gpu())) << text;
    const RecipeStep step = gemm_generic_gpu_family().candidates(erase(p), gpu()).front().step;
    const Result<std::vector<Stage>> stages = gemm_generic_gpu_family().stages(erase(p), gpu(), step, nullptr);
    ASSERT_TRUE(stages.ok());
    EXPECT_EQ(stages->front().shape.shared_bytes, static_cast<uint32_t>(kGenericSharedBytes));
    EXPECT_EQ(stages->front().shape.threads, static_cast<uint32_t>(kGenericThreads));
  }
}

TEST(GemmCudaFamilies, AShortfallOfAlignmentIsPartOfTheProblemOnGpusOnly) {
  alignas(16) unsigned short memory[1024];
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    GemmCall call;
    const DeviceId device{kind, 0};
    call.a = TensorView::contiguous(memory + 1, DType::kBf16, {8, 16}, device);
    call.b = TensorView::contiguous(memory + 256, DType::kBf16, {16, 8}, device);
    call.d = TensorView::contiguous(memory + 514, DType::kBf16, {8, 8}, device);
    GemmProblem p;
    GemmBindings bindings;
    ASSERT_TRUE(make_gemm_problem(call, true, p, bindings).ok());
    const std::string text = print_gemm_problem(p);
    EXPECT_EQ(text.find("align=2.16.4") != std::string::npos, kind == DeviceKind::kCuda) << text;
    EXPECT_EQ(problem(text).shortfall_a, p.shortfall_a);
    call.bias = TensorView::contiguous(memory + 805, DType::kBf16, {8}, device);
    ASSERT_TRUE(make_gemm_problem(call, true, p, bindings).ok());
    const std::string biased = print_gemm_problem(p);
    EXPECT_EQ(biased.find("align=2.16.4.16.2") != std::string::npos, kind == DeviceKind::kCuda) << biased;
    EXPECT_EQ(problem(biased).bias.shortfall, p.bias.shortfall);
  }
  for (const char* align : {"3.16.16", "16.16", "32.16.16", "0.1.1", "16.16.16.16", "16.16.16.2.16"}) {
    EXPECT_FALSE(parse_gemm_problem(fmt::format("m=8:n=8:k=8:align={}", align)).ok()) << align;
  }
}

}  // namespace
}  // namespace tilewright
