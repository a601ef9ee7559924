// SPDX-License-Identifier: MIT
// comgr as a compiler: which library is taken, what it is given, and how its errors arrive. The library here writes down
// what it is asked for (tests/support/comgr).
#include "jit/amdgcn/comgr/comgr_compiler.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "jit/amdgcn/amd_compilers.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::ScopedVariable;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ComgrCompilerTest : public test::CodeCacheFixture {
 protected:
  const std::string kLibrary = TILEWRIGHT_BINARY_DIR "/tests/libfake_comgr.so";
  CompileRequest kernel(const std::string& source = "#include \"tile/common/dtype.hpp\"\nint x;\n",
                        const char* target = "gfx942") {
    CompileRequest made = test::make_request(source);
    made.target = target;
    return made;
  }
  // Why a library that is so is not taken.
  std::string refusal(const char* how) {
    const ScopedVariable other("TILEWRIGHT_FAKE_COMGR", how);
    const ComgrCompiler comgr({kLibrary});
    EXPECT_EQ(comgr.available().code(), StatusCode::kNotFound) << how;
    EXPECT_EQ(comgr.identity(), "");
    return comgr.available().message();
  }
  // Of a compile by a library that is so after it was taken.
  Status failure(const char* how, const std::string& source = "int x;\n") {
    ComgrCompiler comgr({kLibrary});
    EXPECT_TRUE(comgr.available().ok()) << comgr.available().message();
    const ScopedVariable other("TILEWRIGHT_FAKE_COMGR", how);
    return open().get(kernel(source), comgr).status();
  }
};

TEST_F(ComgrCompilerTest, SourceFlagsAndHeadersReachItAndTheObjectTheCache) {
  ComgrCompiler comgr({"/no/libamd_comgr.so", kLibrary});
  ASSERT_TRUE(comgr.available().ok()) << comgr.available().message();
  EXPECT_EQ(comgr.identity(), "comgr 3.1, clang version 20.0.0git (rocm)");
  CompileRequest asked = kernel();
  asked.flags = {"-DEXTRA=1"};
  const Result<Artifact> made = open().get(asked, comgr);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->kind, ArtifactKind::kAmdObject);
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(made->image.data()), made->image.size()),
              AllOf(StartsWith("amdgcn-amd-amdhsa--gfx942\n-nogpulib"), HasSubstr("--offload-arch=gfx942 -DEXTRA=1\n"),
                    HasSubstr("#include \"tile/amd/prelude.hpp\"\n#line 1 \"instance.hip\"\n"), HasSubstr("int x;"),
                    HasSubstr("include tile/amd/prelude.hpp\n"), HasSubstr("include tile/common/dtype.hpp\n"),
                    HasSubstr("relocatable -O3\nlinked\n")));
  EXPECT_TRUE(open(JitMode::kOff).get(asked, comgr).ok());
}

TEST_F(ComgrCompilerTest, APackOfClangsServesItToo) {
  AmdgcnCompiler clang({"/no/clang"});
  ComgrCompiler comgr({kLibrary});
  EXPECT_EQ(*CodeCache::content_digest(kernel(), clang), *CodeCache::content_digest(kernel(), comgr));
  EXPECT_NE(*CodeCache::digest(kernel(), clang), *CodeCache::digest(kernel(), comgr));
}

TEST_F(ComgrCompilerTest, ALibraryThatDoesNotServeIsNamedWithAReason) {
  EXPECT_THAT(ComgrCompiler({"/no/libamd_comgr.so"}).available().message(),
              AllOf(HasSubstr("/no/libamd_comgr.so: cannot open"), HasSubstr("TILEWRIGHT_COMGR")));
  EXPECT_THAT(ComgrCompiler({"libm.so.6"}).available().message(), HasSubstr("libm.so.6 has no amd_comgr_get_version"));
  EXPECT_THAT(refusal("version2"), HasSubstr("comgr 2.1; allowed: 3 or later"));
  EXPECT_THAT(refusal("clang19"), HasSubstr("comgr 3.1 with clang 19.0.0git (rocm); allowed: clang 20 or later"));
  EXPECT_THAT(refusal("silent"), HasSubstr("does not say what it is"));
  EXPECT_THAT(refusal("no_targets"), HasSubstr("knows no target of ours"));
  EXPECT_THAT(refusal("no_data"), HasSubstr("comgr: error 3 (no name)"));
}

TEST_F(ComgrCompilerTest, ErrorsCarryItsOwnWords) {
  const Status wrong = failure("", "wrong");
  EXPECT_EQ(wrong.code(), StatusCode::kCompileFailed);
  EXPECT_THAT(wrong.message(), AllOf(HasSubstr("for gfx942"), HasSubstr("error 1 (ERROR)"), HasSubstr(":1: wrong")));
  EXPECT_THAT(failure("no_link").message(), HasSubstr("error 1 (ERROR)"));
  EXPECT_THAT(failure("no_object").message(), HasSubstr("it makes no code object"));
  EXPECT_THAT(failure("no_data").message(), HasSubstr("error 3 (no name)"));
}

TEST_F(ComgrCompilerTest, ATargetThatItDoesNotKnowIsRefused) {
  ComgrCompiler comgr({kLibrary});
  const Status status = open().get(kernel("int x;\n", "gfx1201"), comgr).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("does not know gfx1201; it knows gfx90a, gfx942"));
}

TEST_F(ComgrCompilerTest, ManyThreadsWaitForEachOtherAndAStopIsHeard) {
  ComgrCompiler comgr({kLibrary});
  std::vector<std::thread> threads;
  std::vector<Status> results(8);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::string folder = scratch / std::to_string(i);
      results[i] = make_folders(folder);
      if (results[i].ok()) results[i] = comgr.compile(kernel(), folder, nullptr).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) EXPECT_TRUE(result.ok()) << result.message();
  const std::atomic<bool> stop = true;
  EXPECT_EQ(comgr.compile(kernel(), scratch.path(), &stop).status().code(), StatusCode::kCompileDisabled);
}

TEST_F(ComgrCompilerTest, TheEnvironmentNamesOneLibraryAndNoOther) {
  const ScopedVariable named("TILEWRIGHT_COMGR", "/opt/libamd_comgr.so");
  EXPECT_THAT(comgr::library_names("/opt/rocm"), ElementsAre("/opt/libamd_comgr.so"));
  const ScopedVariable unnamed("TILEWRIGHT_COMGR", std::nullopt);
  EXPECT_THAT(comgr::library_names("/opt/rocm-7"),
              ElementsAre("libamd_comgr.so.3", "libamd_comgr.so", "/opt/rocm-7/lib/libamd_comgr.so.3"));
}

TEST_F(ComgrCompilerTest, TheFirstCompilerThatServesIsTaken) {
  AmdgcnCompiler rocm({"/no/rocm"}), plain({"/no/clang"});
  ComgrCompiler comgr({kLibrary}), none({"/no/libamd_comgr.so"});
  FirstCompiler first({&rocm, &comgr, &plain});
  ASSERT_TRUE(first.available().ok()) << first.available().message();
  EXPECT_EQ(first.identity(), comgr.identity());
  EXPECT_EQ(first.base_flags(), comgr.base_flags());
  EXPECT_TRUE(open().get(kernel(), first).ok());

  FirstCompiler absent({&rocm, &none, &plain});
  EXPECT_THAT(absent.available().message(),
              AllOf(HasSubstr("'/no/rocm' (not found)"), HasSubstr("/no/libamd_comgr.so"), HasSubstr("'/no/clang'")));
  EXPECT_EQ(absent.identity(), "");
  EXPECT_EQ(absent.compile(kernel(), scratch.path(), nullptr).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tilewright
