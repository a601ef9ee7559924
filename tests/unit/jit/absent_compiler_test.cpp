// SPDX-License-Identifier: MIT
// What an earlier compiler left in the cache serves where it is gone, and where none may be run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::FakeCompiler;
using test::make_request;
using testing::ElementsAre;
using testing::HasSubstr;

class AbsentCompiler : public test::CodeCacheFixture {
 protected:
  FakeCompiler absent(const std::string& identity = "") {
    FakeCompiler made(scratch / "calls", identity);
    made.status = Status(StatusCode::kNotFound, "no compiler");
    return made;
  }
  std::string list() { return scratch / "root/abi1/compilers"; }
};

TEST_F(AbsentCompiler, ItsEntriesServeInEveryMode) {
  ASSERT_TRUE(open().get(request, compiler).ok());
  FakeCompiler none = absent();
  for (const JitMode mode : {JitMode::kOff, JitMode::kOn, JitMode::kBackground, JitMode::kForce}) {
    CodeCache cache = open(mode);
    EXPECT_TRUE(cache.has(request, none));
    EXPECT_EQ(bytes(cache.get(request, none)), compiler.binary(request));
  }
  CodeCache cache = open(JitMode::kOn);
  EXPECT_EQ(bytes(cache.get(request, none)), compiler.binary(request)) << "without has() before";
  EXPECT_EQ(compiler.calls(), 1);
}

TEST_F(AbsentCompiler, OtherContentIsStillAMiss) {
  ASSERT_TRUE(open().get(request, compiler).ok());
  FakeCompiler none = absent();
  const CompileRequest other = make_request("int another;\n");
  EXPECT_FALSE(open().has(other, none));
  EXPECT_THAT(open().get(other, none).status().message(), HasSubstr("needs a compiler"));
  EXPECT_EQ(open(JitMode::kOff).get(other, none).status().code(), StatusCode::kCompileDisabled);
}

TEST_F(AbsentCompiler, AnotherCompilerTakesThemOnlyWhenItMustNotRun) {
  ASSERT_TRUE(open().get(request, compiler).ok());
  FakeCompiler newer(scratch / "calls", "fake 2");
  newer.binary_bytes = 9;
  EXPECT_EQ(bytes(open(JitMode::kOff).get(request, newer)), compiler.binary(request));
  EXPECT_EQ(compiler.calls(), 1);
  EXPECT_EQ(bytes(open(JitMode::kOn).get(request, newer)), newer.binary(request));
  EXPECT_EQ(compiler.calls(), 2);
  EXPECT_EQ(bytes(open(JitMode::kOff).get(request, newer)), newer.binary(request)) << "its own comes first";
}

TEST_F(AbsentCompiler, OfSeveralTheLatestIsLookedForFirst) {
  FakeCompiler newer(scratch / "calls", "fake 2");
  newer.binary_bytes = 9;
  ASSERT_TRUE(open().get(request, compiler).ok());
  ASSERT_TRUE(open().get(request, newer).ok());
  EXPECT_THAT(open().earlier_compilers(), ElementsAre("fake 2", "fake 1"));
  FakeCompiler none = absent();
  EXPECT_EQ(bytes(open().get(request, none)), newer.binary(request));
}

TEST_F(AbsentCompiler, EachCompilerStandsOnceInTheList) {
  FakeCompiler newer(scratch / "calls", "fake 2");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(open().get(make_request("int x" + std::to_string(i) + ";\n"), compiler).ok());
    ASSERT_TRUE(open().get(make_request("int y" + std::to_string(i) + ";\n"), newer).ok());
  }
  EXPECT_EQ(*read_file(list()), "\nfake 1\n\nfake 2\n");
}

TEST_F(AbsentCompiler, AReadRootThatSomebodyElseFilledServes) {
  ASSERT_TRUE(open().get(request, compiler).ok());
  CodeCacheOptions layered;
  layered.root = scratch / "own";
  layered.read_roots = {scratch / "root"};
  layered.mode = JitMode::kOff;
  FakeCompiler none = absent();
  CodeCache cache(layered, counters);
  EXPECT_EQ(bytes(cache.get(request, none)), compiler.binary(request));
}

TEST_F(AbsentCompiler, ADamagedEntryIsAMiss) {
  ASSERT_TRUE(open().get(request, compiler).ok());
  for (const auto& file : std::filesystem::recursive_directory_iterator(scratch / "root")) {
    if (file.path().filename() == "instance.so") std::filesystem::resize_file(file.path(), 3);
  }
  FakeCompiler none = absent();
  EXPECT_FALSE(open().get(request, none).ok());
}

TEST_F(AbsentCompiler, ADamagedListCostsOnlyWhatItNamed) {
  ASSERT_TRUE(open().get(request, compiler).ok());
  FakeCompiler none = absent();
  for (const std::string& text :
       {std::string(), std::string("fak"), std::string("\0\n\xff\n", 4), std::string(1 << 20, 'x')}) {
    std::ofstream(list(), std::ios::binary | std::ios::trunc) << text;
    EXPECT_FALSE(open().get(request, none).ok());
    // The next kernel that the compiler publishes names it again.
    const CompileRequest other = make_request("int z" + std::to_string(text.size()) + ";\n");
    ASSERT_TRUE(open().get(other, compiler).ok());
    EXPECT_EQ(bytes(open().get(request, none)), compiler.binary(request)) << text.size();
  }
}

}  // namespace
}  // namespace tilewright
