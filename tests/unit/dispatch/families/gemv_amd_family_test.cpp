// SPDX-License-Identifier: MIT
// What gemv_amd offers each AMD target, what it refuses, and where an untuned choice takes it, told without a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "gemm/amd/gemv_amd_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::first_part, test::problem;
using testing::HasSubstr;

GemvAmdConfig best(const char* target, const std::string& text) {
  return test::best_config<GemvAmdConfig>(gemv_amd_family(), target, text);
}
std::string refusal(const std::string& text) {
  return gemv_amd_family().supports(erase(problem(text)), first_part("gfx942")).message();
}

TEST(GemvAmdFamily, EveryTypeAndLayoutHasLegalCandidates) {
  for (const char* target : kEmulatedTargets) {
    const DeviceSpec device = first_part(target);
    const bool cdna = device.arch->wave_size == 64;
    for (const char* dtype : {"bf16", "f16", "i8", "f32"}) {
      if (!cdna && dtype == std::string_view("f32")) continue;
      for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
        for (const int m : {1, 16, 32}) {
          const GemmProblem p = problem(fmt::format("m={}:n=4096:k=4096:a={}:layout={}", m, dtype, layout));
          ASSERT_TRUE(gemv_amd_family().supports(erase(p), device).ok()) << target << dtype << layout;
          const std::vector<Candidate> found = gemv_amd_family().candidates(erase(p), device);
          ASSERT_FALSE(found.empty()) << target << dtype << layout << m;
          for (const Candidate& candidate : found) {
            const Status status = gemv_amd_family().check(erase(p), device, candidate.step);
            EXPECT_TRUE(status.ok()) << candidate.step.key.text << ": " << status.message();
            EXPECT_GT(candidate.cost, 0);
          }
        }
      }
    }
    for (const KernelKey& key : gemv_amd_family().builtin_keys(target)) {
      EXPECT_TRUE(gemv_amd_family().source(key).ok()) << key.text;
    }
  }
}

TEST(GemvAmdFamily, PiecesAreAsWideAsTheColumnsAllow) {
  const auto shape = [](const char* target, const char* text) {
    const GemvAmdConfig c = best(target, text);
    return fmt::format("{} {}", fields_detail::print_value(c.weights), gemv_amd_shape(c).piece_bytes);
  };
  EXPECT_EQ(shape("gfx942", "m=4:n=65536:k=4096:a=bf16"), "rows 16");
  EXPECT_EQ(shape("gfx942", "m=4:n=65536:k=4096:a=bf16:layout=rrr"), "columns 16");
  EXPECT_EQ(shape("gfx942", "m=4:n=65532:k=4096:a=bf16:layout=rrr"), "columns 8");
  EXPECT_EQ(shape("gfx942", "m=4:n=65536:k=4096:a=f32:layout=rrr"), "columns 16");
}

TEST(GemvAmdFamily, RefusalsSayWhy) {
  EXPECT_EQ(refusal("m=32:n=64:k=64:a=bf16"), "");
  EXPECT_THAT(refusal("m=33:n=64:k=64:a=bf16"), HasSubstr("M = 33, allowed: at most 32"));
  EXPECT_THAT(refusal("m=1:n=64:k=64:a=bf16:batch_invariant=1"), HasSubstr("batch_invariant"));
  EXPECT_THAT(refusal("m=1:n=64:k=64:a=e4m3"), HasSubstr("no matrix instruction"));
  EXPECT_THAT(refusal("m=1:n=64:k=68:a=bf16"), HasSubstr("whole pieces of 16 bytes"));
  EXPECT_THAT(refusal("m=1:n=66:k=64:a=bf16:layout=rrr"), HasSubstr("whole pieces of 4 columns"));
  EXPECT_THAT(refusal("m=1:n=64:k=64:a=bf16:sb=0.1.65"), HasSubstr("multiples of 4 bytes"));
  EXPECT_THAT(refusal("m=1:n=64:k=64:a=bf16:sb=0.1.536870912"), HasSubstr("further than 2 GiB apart"));
  EXPECT_EQ(refusal("m=2:n=64:k=64:a=bf16:sa=0.129.3"), "");  // any strides of A
}

TEST(GemvAmdFamily, KnobsThatDoNotFitAreRefusedWithWhatIsAllowed) {
  const DeviceSpec device = first_part("gfx942");
  const GemmProblem p = problem("m=4:n=512:k=4096:a=bf16");
  RecipeStep step = gemv_amd_family().candidates(erase(p), device).front().step;
  step.knobs.values = {8};
  EXPECT_TRUE(gemv_amd_family().check(erase(p), device, step).ok());
  EXPECT_GT(gemv_amd_family().workspace_bytes(erase(p), device, step), 0);
  step.knobs.values = {-1};
  EXPECT_THAT(gemv_amd_family().check(erase(p), device, step).message(), HasSubstr("split_k = -1, allowed: 0 to"));
  step.knobs.values = {1 << 20};
  EXPECT_THAT(gemv_amd_family().check(erase(p), device, step).message(), HasSubstr("split_k = 1048576"));
}

// One packed copy serves every M: few rows here, many by gemm_amd; the generic kernel is for what neither takes.
TEST(GemvAmdFamily, PackedWeightsAreReadForEveryM) {
  for (const char* target : kEmulatedTargets) {
    const DeviceSpec device = first_part(target);
    for (const char* dtype : {"bf16", "f16", "i8"}) {
      for (const char* gate : {"none", "separated:act=silu", "interleaved:act=silu"}) {
        for (const int m : {1, 32, 33, 4096}) {
          const GemmProblem p = problem(fmt::format("m={}:n=4096:k=4100:a={}:packed=1:gate={}", m, dtype, gate));
          const KernelFamily& family = m <= kGemvAmdRows ? gemv_amd_family() : gemm_amd_family();
          EXPECT_TRUE(family.supports(erase(p), device).ok()) << family.supports(erase(p), device).message();
          EXPECT_FALSE(family.candidates(erase(p), device).empty())
              << target << " " << dtype << " " << gate << " " << m;
        }
      }
    }
  }
  EXPECT_THAT(refusal("m=4:n=4100:k=64:a=f16:packed=1:gate=separated:act=silu"),
              HasSubstr("whole pieces of 4 columns"));
}

// On every part: few rows belong to it, many to gemm_amd.
TEST(GemvAmdFamily, AnUntunedChoiceTakesItForFewRows) {
  for (const char* target : kEmulatedTargets) {
    const ArchSpec* arch = find_arch(target);
    for (const PartSpec& part : arch->parts) {
      const DeviceSpec device = spec_of_part(*arch, part);
      for (const int m : {1, 8, 16}) {
        for (const auto& [n, k] : {std::pair{4096, 4096}, {28672, 4096}, {4096, 14336}, {1024, 8192}}) {
          const GemmProblem p = problem(fmt::format("m={}:n={}:k={}:a=bf16", m, n, k));
          const double few = gemv_amd_family().candidates(erase(p), device).front().cost;
          const double usual = gemm_amd_family().candidates(erase(p), device).front().cost;
          EXPECT_LT(few, usual) << part.name << " " << m << "x" << n << "x" << k;
          // Never below what memory takes.
          const double bytes = gemm_bytes_moved(p);
          EXPECT_GT(few, bytes / (part.memory_gbps * 1e9)) << part.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
