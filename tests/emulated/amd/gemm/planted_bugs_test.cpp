// SPDX-License-Identifier: MIT
// Bugs planted in the source of a whole GEMM, each found by its name.
#include <gmock/gmock.h>

#include "emulated/amd/gemm/amd_gemm.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

class AmdPlantedBugs : public test::AmdGemm {
 protected:
  // Runs the family's best candidate that `wanted` takes, compiled from headers in which `right` is replaced by `wrong`.
  template <class Wanted>
  std::string plant(const char* header, std::string_view right, std::string_view wrong, const std::string& text,
                    const Wanted& wanted) {
    const GemmProblem problem = parse(text);
    for (const Candidate& candidate : gemm_amd_family().candidates(erase(problem), device->spec())) {
      if (!wanted(candidate.step)) continue;
      Result<std::string> made = make_unique_folder(testing::TempDir(), "tilewright-planted-");
      if (!made) return made.status().message();
      const ScopedFolder folder(std::move(*made));
      write_headers(folder.path(), gemm_amd_family().source(candidate.step.key)->source, header, right, wrong);
      setenv("TILEWRIGHT_KERNEL_DIR", folder.path().c_str(), 1);
      EXPECT_NE(kernel_of(gemm_amd_family(), candidate.step.key), nullptr);
      unsetenv("TILEWRIGHT_KERNEL_DIR");
      return run_and_verify(gemm_amd_family(), problem, candidate.step).message();
    }
    return "no candidate is wanted";
  }
  std::string plant(const char* header, std::string_view right, std::string_view wrong, const std::string& text) {
    return plant(header, right, wrong, text, [](const RecipeStep& step) { return step.knobs == Knobs{}; });
  }

 private:
  static void write_headers(const std::string& folder, const std::string& source, const char* header,
                            std::string_view right, std::string_view wrong) {
    const auto headers = reachable_headers("#include \"tile/emu/amdgcn.hpp\"\n" + source);
    ASSERT_TRUE(headers.ok()) << headers.status().message();
    bool planted = false;
    for (auto [path, text] : *headers) {
      if (path == header) {
        const size_t at = text.find(right);
        ASSERT_NE(at, std::string::npos) << path << " no longer has: " << right;
        text.replace(at, right.size(), wrong);
        planted = true;
      }
      const std::string file = folder + "/" + path;
      ASSERT_TRUE(make_folders(file.substr(0, file.rfind('/'))).ok());
      ASSERT_TRUE(write_file(file, text).ok());
    }
    ASSERT_TRUE(planted) << header;
  }
};
class SlowAmdPlantedBugs : public AmdPlantedBugs {};
class SlowAmdPlantedBugsOfCopies : public AmdPlantedBugs {};
// gfx950 and gfx1100 in seconds, the others with the slow tests.
INSTANTIATE_TEST_SUITE_P(Emulated, AmdPlantedBugs, testing::Values(2, 3), test::target_of);
INSTANTIATE_TEST_SUITE_P(SlowEmulated, AmdPlantedBugs, testing::Values(0, 1, 4), test::target_of);
INSTANTIATE_TEST_SUITE_P(Emulated, SlowAmdPlantedBugs, testing::Range(0, 5), test::target_of);
// gfx950 alone copies straight to LDS, so that the source waits by itself.
INSTANTIATE_TEST_SUITE_P(Emulated, SlowAmdPlantedBugsOfCopies, testing::Values(2), test::target_of);

using testing::HasSubstr;
constexpr const char* kKernel = "gemm/amd/gemm_amd.hpp";

TEST_P(AmdPlantedBugs, AnUninitialisedAccumulator) {
  EXPECT_THAT(
      plant("gemm/amd/gemm_amd_multiply.hpp", "sums[i][j] = typename Step::Sums{};", ";", "m=70:n=72:k=40:a=bf16"),
      HasSubstr("uninitialised_register"));
}

TEST_P(AmdPlantedBugs, AWrongLaneMap) {
  const bool cdna = target.starts_with("gfx9"), rdna3 = target == "gfx1100";
  EXPECT_THAT(plant(cdna ? "tile/cdna/matrix_step.hpp" : "tile/rdna/matrix_step.hpp",
                    cdna    ? "lane / kTile * 4 + i % 4"
                    : rdna3 ? "2 * i + lane / 16"
                            : "lane / 16 * 8 + i",
                    cdna    ? "(kGroups - 1 - lane / kTile) * 4 + i % 4"
                    : rdna3 ? "2 * i + 1 - lane / 16"
                            : "(1 - lane / 16) * 8 + i",
                    "m=70:n=72:k=40:a=bf16"),
              HasSubstr("wrong lane map"));
}

TEST_P(SlowAmdPlantedBugs, AMissingBarrier) {
  EXPECT_THAT(plant(kKernel, "fetch(step + 2);\n      }\n      __syncthreads();", "fetch(step + 2);\n      }\n",
                    "m=70:n=72:k=600:a=bf16",
                    [](const RecipeStep& step) { return step.key.text.find("direct=0") != std::string::npos; }),
              HasSubstr("lds_race"));
}

TEST_P(SlowAmdPlantedBugsOfCopies, AMissingWait) {
  EXPECT_THAT(plant(kKernel, "wait_for_copies<(kAhead - 1) * (ACopy::kCount + BCopy::kCount + Scales::kCount)>();", "",
                    "m=270:n=264:k=512:a=bf16",
                    [](const RecipeStep& step) { return step.key.text.find("direct=1") != std::string::npos; }),
              HasSubstr("missing_wait"));
}

TEST_P(SlowAmdPlantedBugs, ATailThatIsOneTooLong) {
  EXPECT_THAT(
      plant(kKernel, "cut(g.m - p.m0, kConfig.tile_m)", "cut(g.m - p.m0 + 1, kConfig.tile_m)", "m=67:n=72:k=40:a=bf16"),
      HasSubstr("global_out_of_bounds"));
}

TEST_P(SlowAmdPlantedBugs, MoreStagesThanLdsHas) {
  EXPECT_THAT(
      plant(kKernel, "stage ^ static_cast<unsigned>(kShape.stage_bytes)",
            "stage + static_cast<unsigned>(kShape.stage_bytes)", "m=70:n=72:k=1200:a=bf16",
            [](const RecipeStep& step) { return step.key.text.find("direct=0:stages=2") != std::string::npos; }),
      HasSubstr("lds_out_of_bounds"));
}

TEST_P(SlowAmdPlantedBugs, APartOfKThatNobodyWrote) {
  EXPECT_THAT(plant(kKernel, "Output::save(wave, partial(slot), thread);",
                    "if (slot != 1) Output::save(wave, partial(slot), thread);", "m=20:n=72:k=2056:a=bf16",
                    [](const RecipeStep& step) { return step.knobs.values[1] > 0; }),
              HasSubstr("uninitialised_global"));
}

}  // namespace
}  // namespace tilewright
