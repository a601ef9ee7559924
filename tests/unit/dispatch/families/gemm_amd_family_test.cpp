// SPDX-License-Identifier: MIT
// What gemm_amd offers each AMD target, and what it refuses, told without a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "ops/gemm/families/amd/gemm_amd_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::first_part, test::problem;
using testing::HasSubstr;

GemmAmdConfig best(const char* target, const std::string& text) {
  return test::best_config<GemmAmdConfig>(gemm_amd_family(), target, text);
}

TEST(GemmAmdFamily, EveryCandidateIsLegalAndHasASource) {
  for (const char* target : kEmulatedTargets) {
    const DeviceSpec device = first_part(target);
    for (const char* text :
         {"m=1:n=1:k=1:a=bf16", "m=16:n=4096:k=4096:a=bf16", "m=8192:n=8192:k=8192:a=f16:layout=crr",
          "m=33:n=70:k=35:a=i8", "m=300:n=600:k=512:a=bf16:gate=separated:act=silu:batch=3",
          "m=64:n=64:k=64:a=bf16:align=2.4.8:steps=add.bf16", "m=4096:n=2112:k=7168:a=bf16:layout=rrr",
          "m=300:n=600:k=512:a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
          "m=16:n=4096:k=4096:a=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32"}) {
      const GemmProblem p = problem(text);
      if (p.has_block_scales() && std::string_view(target) != "gfx950") continue;
      const std::vector<Candidate> found = gemm_amd_family().candidates(erase(p), device);
      ASSERT_FALSE(found.empty()) << target << " " << text;
      for (const Candidate& candidate : found) {
        const Status status = gemm_amd_family().check(erase(p), device, candidate.step);
        EXPECT_TRUE(status.ok()) << text << ": " << status.message();
        EXPECT_GT(candidate.cost, 0) << candidate.step.key.text;
        EXPECT_TRUE(gemm_amd_family().source(candidate.step.key).ok());
        EXPECT_GT(gemm_amd_family().launch_shared_bytes(candidate.step.key), 0);
      }
    }
    for (const KernelKey& key : gemm_amd_family().builtin_keys(target)) {
      EXPECT_TRUE(gemm_amd_family().source(key).ok()) << key.text;
    }
  }
}

TEST(GemmAmdFamily, ChunksAreWholeOrOperandsAreReadByElements) {
  const auto copies = [](const char* text) {
    const GemmAmdConfig c = best("gfx942", text);
    return fmt::format("{}{} {}{}", fields_detail::print_value(c.a_major), c.a_copy,
                       fields_detail::print_value(c.b_major), c.b_copy);
  };
  EXPECT_EQ(copies("m=256:n=256:k=256:a=bf16"), "k16 k16");
  EXPECT_EQ(copies("m=256:n=256:k=252:a=bf16"), "k0 k0");               // half a chunk is left over
  EXPECT_EQ(copies("m=256:n=256:k=256:a=bf16:sa=0.258.1"), "k16 k16");  // rows begin at multiples of four bytes
  EXPECT_EQ(copies("m=256:n=256:k=256:a=bf16:sa=0.257.1"), "k0 k16");
  EXPECT_EQ(copies("m=4096:n=4096:k=256:a=bf16:layout=crr"), "mn16 mn16");
  EXPECT_EQ(copies("m=4096:n=4094:k=256:a=bf16:layout=rrr"), "k16 mn0");  // not whole groups of four
  EXPECT_EQ(copies("m=256:n=256:k=256:a=bf16:sa=0.512.2"), "k0 k16");
  EXPECT_EQ(copies("m=256:n=256:k=256:a=bf16:sa=0.4294967296.1"), "k0 k16");  // offsets in a tile count in 31 bits
}

TEST(GemmAmdFamily, EightBitFloatsAreThoseOfTheTarget) {
  const auto serves = [](const char* target, const char* dtype) {
    return gemm_amd_family().supports(erase(problem(fmt::format("m=64:n=64:k=64:a={}", dtype))), first_part(target));
  };
  EXPECT_TRUE(serves("gfx942", "e4m3fnuz").ok());
  EXPECT_TRUE(serves("gfx950", "e4m3").ok());
  EXPECT_TRUE(serves("gfx1201", "e5m2").ok());
  EXPECT_THAT(serves("gfx942", "e4m3").message(), HasSubstr("gfx942 has no matrix instruction for e4m3"));
  EXPECT_THAT(serves("gfx950", "e4m3fnuz").message(), HasSubstr("no matrix instruction"));
  EXPECT_THAT(serves("gfx90a", "e4m3fnuz").message(), HasSubstr("no matrix instruction"));
  EXPECT_THAT(serves("gfx1100", "e4m3").message(), HasSubstr("no matrix instruction"));
  EXPECT_THAT(serves("gfx1100", "f32").message(), HasSubstr("no matrix instruction"));
}

TEST(GemmAmdFamily, BlockScalesAndMixedTypesAreThoseOfGfx950) {
  const auto why = [](const std::string& text, const char* target = "gfx950") {
    return gemm_amd_family().supports(erase(problem(text)), first_part(target)).message();
  };
  const std::string mx = ":scale_a=e8m0.1x32:scale_b=e8m0.1x32", sizes = "m=64:n=64:k=256";
  for (const char* types : {":a=e4m3", ":a=e2m1", ":a=e5m2:b=e4m3", ":a=e4m3:b=e2m1", ":a=e2m1:b=e5m2"}) {
    EXPECT_EQ(why(sizes + types + mx), "") << types;
    EXPECT_EQ(why(sizes + types), "") << types;
    EXPECT_THAT(why(sizes + types + mx, "gfx942"), HasSubstr("groups of 1 x 32")) << types;
    EXPECT_THAT(why(sizes + types + mx, "gfx1201"), HasSubstr("groups of 1 x 32")) << types;
  }
  EXPECT_THAT(why(sizes + ":a=bf16:b=e2m1:scale_b=e8m0.1x32"), HasSubstr("groups of 1 x 32"));
  EXPECT_THAT(why(sizes + ":a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16"), HasSubstr("take e8m0.1x32"));
  EXPECT_THAT(why(sizes + ":a=e4m3:scale_a=f32.1x128:scale_b=f32.1x128"), HasSubstr("take e8m0.1x32"));
  EXPECT_THAT(why(sizes + ":a=e2m1:layout=rrr" + mx), HasSubstr("b is e2m1 and does not lie along K"));
  EXPECT_THAT(why("m=64:n=64:k=35:a=e2m1" + mx), HasSubstr("half bytes"));
}

TEST(GemmAmdFamily, F32ScalesOf128OfKAreThoseOfOneTypeOnCdna) {
  const auto why = [](const std::string& text, const char* target) {
    return gemm_amd_family().supports(erase(problem(text)), first_part(target)).message();
  };
  const std::string f32 = ":scale_a=f32.1x128:scale_b=f32.128x128";
  EXPECT_EQ(why("m=64:n=512:k=256:a=e4m3fnuz" + f32, "gfx942"), "");
  EXPECT_EQ(why("m=64:n=512:k=256:a=e5m2" + f32 + ":gate=separated", "gfx950"), "");
  EXPECT_THAT(why("m=64:n=320:k=256:a=e5m2" + f32 + ":gate=separated", "gfx950"), HasSubstr("group of 128 columns"));
  EXPECT_THAT(why("m=64:n=512:k=256:a=e4m3" + f32, "gfx1201"), HasSubstr("on CDNA"));
  EXPECT_THAT(why("m=64:n=512:k=256:a=bf16" + f32, "gfx942"), HasSubstr("8-bit floats"));
  EXPECT_THAT(why("m=64:n=512:k=256:a=e4m3:b=e5m2" + f32, "gfx950"), HasSubstr("one type"));
  const GemmAmdConfig c = best("gfx950", "m=8192:n=8192:k=8192:a=e4m3" + f32);
  EXPECT_EQ(c.scale, DType::kF32);
  EXPECT_EQ(c.tile_k, 128);
}

TEST(GemmAmdFamily, BlockScalesComeFourAtATimeWhereTheyLieSo) {
  const auto copy = [](const std::string& text) { return best("gfx950", text).scale_copy; };
  const std::string mx = ":scale_a=e8m0.1x32:scale_b=e8m0.1x32";
  EXPECT_EQ(copy("m=256:n=256:k=512:a=e4m3"), 0);
  EXPECT_EQ(copy("m=256:n=256:k=512:a=e4m3" + mx), 4);
  EXPECT_EQ(copy("m=256:n=256:k=480:a=e4m3" + mx + ":gate=separated"), 1);
  EXPECT_EQ(copy("m=256:n=256:k=496:a=e4m3" + mx), 4);
  EXPECT_EQ(copy("m=256:n=256:k=512:a=e4m3:scale_a=e8m0.1x32"), 1);
  EXPECT_EQ(copy("m=256:n=256:k=512:a=e4m3:scale_a=e8m0.1x32.0.1.256:scale_b=e8m0.1x32"), 1);
  EXPECT_EQ(copy("m=256:n=256:k=512:a=e4m3:scale_a=e8m0.1x32.0.18.1:scale_b=e8m0.1x32"), 1);
  EXPECT_EQ(copy("m=256:n=256:k=512:a=e4m3" + mx + ":align=16.16.16.16.16.16.2"), 1);

  // A kernel of words does not take what comes in bytes; the large tiles are those of one instruction or the other.
  const GemmProblem words = problem("m=8192:n=8192:k=8192:a=e2m1" + mx);
  const GemmProblem bytes = problem("m=8192:n=8192:k=8160:a=e2m1" + mx);
  const RecipeStep step = gemm_amd_family().candidates(erase(words), first_part("gfx950")).front().step;
  EXPECT_THAT(gemm_amd_family().check(erase(bytes), first_part("gfx950"), step).message(),
              HasSubstr("of e8m0 by 4 bytes"));
  EXPECT_EQ(best("gfx950", "m=8192:n=8192:k=8192:a=e2m1" + mx).mma, 16);
  EXPECT_EQ(best("gfx950", "m=8192:n=8192:k=8192:a=e4m3:b=e2m1" + mx).mma, 32);
}

TEST(GemmAmdFamily, SizesBeyondALaunchAreLeftToTheGenericKernel) {
  const DeviceSpec device = first_part("gfx942");
  const GemmProblem large = problem("m=131072:n=131072:k=8192:a=bf16"),
                    huge = problem("m=2000000:n=2000000:k=65536:a=bf16");
  EXPECT_TRUE(gemm_amd_family().supports(erase(large), device).ok());
  EXPECT_FALSE(gemm_amd_family().candidates(erase(large), device).empty());
  EXPECT_THAT(gemm_amd_family().supports(erase(huge), device).message(), HasSubstr("more steps of tiles"));
  EXPECT_TRUE(gemm_generic_gpu_family().supports(erase(huge), device).ok());
  const auto generic = gemm_generic_gpu_family().candidates(erase(huge), device).front().step;
  const auto stages = gemm_generic_gpu_family().stages(erase(huge), device, generic, nullptr);
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  EXPECT_LT(uint64_t{stages->front().shape.grid[0]} * stages->front().shape.threads, uint64_t{1} << 32);
}

TEST(GemmAmdFamily, KnobsThatDoNotFitAreRefusedWithWhatIsAllowed) {
  const DeviceSpec device = first_part("gfx950");
  const GemmProblem p = problem("m=512:n=512:k=4096:a=bf16"),
                    same = problem("m=512:n=512:k=4096:a=bf16:batch_invariant=1");
  RecipeStep step = gemm_amd_family().candidates(erase(p), device).front().step;
  const auto refusal = [&](const GemmProblem& of, std::array<int64_t, 3> knobs) {
    step.knobs.values[0] = knobs[0], step.knobs.values[1] = knobs[1], step.knobs.values[2] = knobs[2];
    return gemm_amd_family().check(erase(of), device, step).message();
  };
  EXPECT_EQ(refusal(p, {0, 8, 0}), "");
  EXPECT_EQ(refusal(p, {0, 0, 7}), "");
  EXPECT_THAT(refusal(p, {-1, 0, 0}), HasSubstr("band = -1, allowed: 0 to 65536"));
  EXPECT_THAT(refusal(p, {0, 100000, 0}), HasSubstr("split_k = 100000, allowed: 0 to"));
  EXPECT_THAT(refusal(p, {0, 0, 1 << 20}), HasSubstr("workers = 1048576, allowed: 0 to"));
  EXPECT_THAT(refusal(p, {0, 8, 7}), HasSubstr("both cut K"));
  EXPECT_THAT(refusal(same, {0, 8, 0}), HasSubstr("batch_invariant"));
  EXPECT_THAT(refusal(same, {0, 0, 7}), HasSubstr("batch_invariant"));
}

TEST(GemmAmdFamily, StreamKSharesEveryStepOnce) {
  const GemmAmdConfig c = best("gfx942", "m=512:n=512:k=4096:a=bf16");
  const GemmAmdTiles tiles = gemm_amd_tiles(c, 700, 900, 1000, 3, 0);
  for (const unsigned workers : {1u, 2u, 7u, 304u}) {
    EXPECT_EQ(gemm_amd_first_step(tiles, workers, 0), 0u);
    EXPECT_EQ(gemm_amd_first_step(tiles, workers, workers), tiles.count * tiles.steps);
    for (unsigned w = 0; w < workers; ++w) {
      const unsigned steps = gemm_amd_first_step(tiles, workers, w + 1) - gemm_amd_first_step(tiles, workers, w);
      EXPECT_LE(steps, tiles.count * tiles.steps / workers + 1);
      EXPECT_GE(steps, tiles.count * tiles.steps / workers);
    }
  }
}

// On every part: the best candidate comes near the roofline that it cannot beat, and leaves few units idle.
TEST(GemmAmdFamily, AnUntunedChoiceSuitsEveryPart) {
  for (const char* target : kEmulatedTargets) {
    const ArchSpec* arch = find_arch(target);
    for (const PartSpec& part : arch->parts) {
      const DeviceSpec device = spec_of_part(*arch, part);
      for (const int m : {64, 512, 4096}) {
        for (const auto& [n, k] : {std::pair{4096, 4096}, {28672, 4096}, {4096, 14336}, {7168, 2048}}) {
          const std::string text = fmt::format("m={}:n={}:k={}:a=bf16", m, n, k);
          const GemmProblem p = problem(text);
          const Candidate chosen = gemm_amd_family().candidates(erase(p), device).front();
          GemmAmdConfig c{};
          ASSERT_TRUE(parse_fields(chosen.step.key.config(), c).ok());
          const double operations =
              amd_mma(*arch, DType::kBf16, c.mma)->ops_per_cycle * device.units * clock_hz(device);
          const double floor =
              std::max(2.0 * m * n * k / operations, gemm_bytes_moved(p) / memory_bytes_per_second(device));
          EXPECT_GT(chosen.cost, floor) << part.name << " " << text;
          EXPECT_LT(chosen.cost, 1.6 * floor + 20e-6) << part.name << " " << text << " " << chosen.step.key.text;
        }
      }
    }
  }
}

// More of them than this spill: a lane has a register for each until it is written to LDS.
TEST(GemmAmdFamily, NoLaneCopiesTooManyElementsOneByOne) {
  for (const char* target : kEmulatedTargets) {
    for (const char* dtype : {"bf16", "i8"}) {
      const GemmProblem p = problem(fmt::format("m=301:n=263:k=4099:layout=crr:a={}", dtype));
      const std::vector<Candidate> found = gemm_amd_family().candidates(erase(p), first_part(target));
      std::set<std::string> tiles;
      for (const Candidate& candidate : found) {
        GemmAmdConfig c{};
        ASSERT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
        EXPECT_EQ(c.a_copy + c.b_copy, 0);
        EXPECT_LE((c.tile_m + c.tile_n) * c.tile_k, (c.wave == 64 ? 128 : 64) * gemm_amd_shape(c).threads);
        tiles.insert(fmt::format("{}x{}", c.tile_m, c.tile_n));
      }
      EXPECT_GE(tiles.size(), 5u) << target << " " << dtype;
      EXPECT_TRUE(tiles.contains("32x64")) << target << " " << dtype;
    }
  }
}

}  // namespace
}  // namespace tilewright
