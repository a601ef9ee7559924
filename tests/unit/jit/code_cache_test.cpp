// SPDX-License-Identifier: MIT
// The code cache in one process: what the digest covers, who shares a compile, modes, where things lie.
#include "jit/code_cache.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <thread>
#include <vector>

#include "support/sanitizer.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using CodeCacheTest = test::CodeCacheFixture;
using test::FakeCompiler;
using test::make_request;
using test::ScopedVariable;
using testing::HasSubstr;

// ---- The digest ------------------------------------------------------------------------------------------------------

Digest digest(const CompileRequest& request, const Compiler& compiler) {
  Result<Digest> made = CodeCache::digest(request, compiler);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : Digest{};
}

TEST_F(CodeCacheTest, DigestChangesWithSourceEntryFlagsTargetAndCompiler) {
  const Digest base = digest(request, compiler);
  CompileRequest other = request;
  other.source += " ";
  EXPECT_NE(digest(other, compiler), base);
  other = request;
  other.entry = "tw_other";
  EXPECT_NE(digest(other, compiler), base);
  other = request;
  other.flags = {"-DX=1"};
  EXPECT_NE(digest(other, compiler), base);
  other = request;
  other.target = "x86-64-v3";
  EXPECT_NE(digest(other, compiler), base);
  EXPECT_NE(digest(request, FakeCompiler(scratch / "calls", "fake 2")), base);
}

TEST_F(CodeCacheTest, DigestIgnoresNamePlaceAndSpellingOfFlags) {
  request.flags = {"-DX=1", "-DY=2"};
  const Digest base = digest(request, compiler);
  CompileRequest other = request;
  other.name = "another name";
  EXPECT_EQ(digest(other, compiler), base);
  other.flags = {" -DX=1   -DY=2 "};
  EXPECT_EQ(digest(other, compiler), base);
  const ScopedVariable root("TILEWRIGHT_CACHE_DIR", scratch / "elsewhere");
  EXPECT_EQ(digest(request, compiler), base);
}

TEST_F(CodeCacheTest, DigestChangesWithEveryReachableHeaderAndNoOther) {
  const ScopedVariable folder("TILEWRIGHT_KERNEL_DIR", scratch / "kernels");
  ASSERT_TRUE(make_folders(scratch / "kernels/tile").ok());
  ASSERT_TRUE(write_file(scratch / "kernels/a.hpp", "#include \"tile/b.hpp\"\n").ok());
  ASSERT_TRUE(write_file(scratch / "kernels/tile/b.hpp", "// one\n").ok());
  ASSERT_TRUE(write_file(scratch / "kernels/tile/unused.hpp", "// one\n").ok());
  request.source = "#include \"a.hpp\"\n";
  const Digest base = digest(request, compiler);
  ASSERT_TRUE(write_file(scratch / "kernels/tile/unused.hpp", "// two\n").ok());
  EXPECT_EQ(digest(request, compiler), base);
  ASSERT_TRUE(write_file(scratch / "kernels/tile/b.hpp", "// two\n").ok());
  EXPECT_NE(digest(request, compiler), base);
}

TEST_F(CodeCacheTest, AHeaderThatChangesDuringTheCompileIsNotStoredUnderTheOldDigest) {
  const ScopedVariable folder("TILEWRIGHT_KERNEL_DIR", scratch / "kernels");
  ASSERT_TRUE(make_folders(scratch / "kernels").ok());
  ASSERT_TRUE(write_file(scratch / "kernels/a.hpp", "// one\n").ok());
  request.source = "#include \"a.hpp\"\n";
  compiler.before_write = [&] { ASSERT_TRUE(write_file(scratch / "kernels/a.hpp", "// two\n").ok()); };
  CodeCache cache = open();
  const Result<Artifact> artifact = cache.get(request, compiler);
  EXPECT_EQ(artifact.status().code(), StatusCode::kCompileFailed);
  EXPECT_THAT(artifact.status().message(), HasSubstr("changed during the compile"));
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(CodeCacheTest, UnknownTargetIsRefusedWithTheKnownOnes) {
  request.target = "z80";
  const Result<Artifact> artifact = open().get(request, compiler);
  ASSERT_FALSE(artifact.ok());
  EXPECT_THAT(artifact.status().message(), HasSubstr("x86-64-v3"));
}

// ---- Hits and misses -------------------------------------------------------------------------------------------------

TEST_F(CodeCacheTest, EntryHoldsSourceBinaryLogAndMetadataInAReadableFolder) {
  CodeCache cache = open();
  const Result<Artifact> artifact = cache.get(request, compiler);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ(artifact->kind, ArtifactKind::kHostObject);
  EXPECT_EQ(artifact->target, "x86-64");
  EXPECT_EQ(artifact->entry, "tw_entry");
  const std::string hex = digest(request, compiler).hex();
  const std::string entry = scratch / ("root/abi1/" + hex.substr(0, 2) + "/gemm_my_key-" + hex);
  EXPECT_EQ(artifact->path, entry + "/instance.so");
  for (const char* file : {"instance.cpp", "instance.so", "build.log", "metadata"}) {
    EXPECT_TRUE(is_file(entry + "/" + file)) << file;
  }
  struct stat info;
  ASSERT_EQ(stat((scratch / "root").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(fs::is_empty(scratch / "root/abi1/building"));
}

TEST_F(CodeCacheTest, SecondGetIsServedFromMemoryAndASecondProcessFromDisk) {
  {
    CodeCache cache = open();
    EXPECT_FALSE(cache.has(request, compiler));
    EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
    EXPECT_TRUE(cache.has(request, compiler));
    EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
    EXPECT_EQ(counters.cache_memory_hits.load(), 1u);
    EXPECT_EQ(counters.cache_disk_hits.load(), 0u);
  }
  CodeCache again = open();
  EXPECT_TRUE(again.has(request, compiler));
  EXPECT_EQ(bytes(again.get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(counters.cache_disk_hits.load(), 1u);
  EXPECT_EQ(counters.compiles.load(), 1u);
  EXPECT_EQ(compiler.calls(), 1);
}

TEST_F(CodeCacheTest, AWarmStartTakesNoLock) {
  EXPECT_TRUE(open().get(request, compiler).ok());
  std::vector<ScopedFd> held;
  for (const auto& file : fs::directory_iterator(scratch / "root/abi1/locks")) {
    held.emplace_back(::open(file.path().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(held.back().get(), LOCK_EX | LOCK_NB), 0);
  }
  ASSERT_EQ(held.size(), 1u);
  CodeCacheOptions warm = options();
  warm.lock_wait_seconds = 3600;  // a lock would hang the test
  EXPECT_TRUE(CodeCache(warm, counters).get(request, compiler).ok());
  EXPECT_EQ(compiler.calls(), 1);
}

TEST_F(CodeCacheTest, ALockThatIsNeverReleasedOnlyDelaysTheBuild) {
  EXPECT_TRUE(open().get(request, compiler).ok());
  const auto lock = *fs::directory_iterator(scratch / "root/abi1/locks");
  const ScopedFd held(::open(lock.path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX | LOCK_NB), 0);
  remove_tree(scratch / ("root/abi1/" + digest(request, compiler).hex().substr(0, 2)));
  CodeCacheOptions impatient = options();
  impatient.lock_wait_seconds = 0.05;
  EXPECT_EQ(bytes(CodeCache(impatient, counters).get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(compiler.calls(), 2);
}

TEST_F(CodeCacheTest, EntryIsRebuiltWhenItsFileWasRemovedBehindTheMemory) {
  CodeCache cache = open();
  EXPECT_TRUE(cache.get(request, compiler).ok());
  remove_tree(scratch / "root/abi1");
  EXPECT_FALSE(cache.has(request, compiler));
  EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(compiler.calls(), 2);
}

// ---- Sharing between threads -------------------------------------------------------------------------------------------

TEST_F(CodeCacheTest, ThreadsThatAskForTheSameInstanceShareOneCompile) {
  compiler.milliseconds = 100;
  CodeCache cache = open();
  std::vector<std::thread> threads;
  std::vector<std::string> paths(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Result<Artifact> artifact = cache.get(request, compiler);
      if (artifact.ok()) paths[i] = artifact->path;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiler.calls(), 1);
  for (const std::string& path : paths) EXPECT_TRUE(is_file(path));
}

TEST_F(CodeCacheTest, DifferentInstancesCompileAtTheSameTime) {
  // Each compile ends only when the other one has begun.
  std::atomic<int> begun{0};
  compiler.before_write = [&] {
    ++begun;
    for (int i = 0; i < 20000 && begun < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CodeCache cache = open();
  std::thread other([&] { EXPECT_TRUE(cache.get(make_request("int y;\n"), compiler).ok()); });
  EXPECT_TRUE(cache.get(request, compiler).ok());
  other.join();
  EXPECT_EQ(begun, 2);
}

TEST_F(CodeCacheTest, AnErrorReachesEveryWaiterAndIsNotRemembered) {
  compiler.milliseconds = 100;
  compiler.failure = "kernel.cpp:7: error: words of the compiler";
  CodeCache cache = open();
  std::vector<std::thread> threads;
  std::vector<std::string> messages(6);
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] { messages[i] = cache.get(request, compiler).status().message(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_THAT(message, HasSubstr("words of the compiler"));
  EXPECT_GE(counters.compile_failures.load(), 1u);
  compiler.failure.clear();
  EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
}

// ---- Modes -----------------------------------------------------------------------------------------------------------

TEST_F(CodeCacheTest, OffNeverCompilesAndSaysWhatIsMissing) {
  CodeCache cache = open(JitMode::kOff);
  const Result<Artifact> artifact = cache.get(request, compiler);
  EXPECT_EQ(artifact.status().code(), StatusCode::kCompileDisabled);
  EXPECT_THAT(artifact.status().message(), HasSubstr("gemm/my key"));
  EXPECT_THAT(artifact.status().message(), HasSubstr("prebuild"));
  EXPECT_EQ(compiler.calls(), 0);
  cache.set_mode(JitMode::kOn);
  EXPECT_TRUE(cache.get(request, compiler).ok());
}

TEST_F(CodeCacheTest, OffServesWhatIsBuilt) {
  EXPECT_TRUE(open().get(request, compiler).ok());
  EXPECT_EQ(bytes(open(JitMode::kOff).get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(compiler.calls(), 1);
}

TEST_F(CodeCacheTest, OffWithoutACompilerIsStillCompileDisabled) {
  compiler.status = Status(StatusCode::kNotFound, "no compiler");
  EXPECT_EQ(open(JitMode::kOff).get(request, compiler).status().code(), StatusCode::kCompileDisabled);
  const Status on = open(JitMode::kOn).get(request, compiler).status();
  EXPECT_EQ(on.code(), StatusCode::kNotFound);
  EXPECT_THAT(on.message(), HasSubstr("gemm/my key"));
}

TEST_F(CodeCacheTest, ForceCompilesOnceAProcessAndReplacesTheEntry) {
  EXPECT_TRUE(open().get(request, compiler).ok());
  compiler.binary_bytes = 7;
  CodeCache cache = open(JitMode::kForce);
  EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(compiler.calls(), 2);
  EXPECT_EQ(bytes(open().get(request, compiler)), compiler.binary(request));
}

// Asks until the background compile is there.
Result<Artifact> get_eventually(CodeCache& cache, const CompileRequest& request, Compiler& compiler) {
  Result<Artifact> artifact = cache.get(request, compiler);
  for (int i = 0; i < 20000 && artifact.status().code() == StatusCode::kCompileDisabled; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    artifact = cache.get(request, compiler);
  }
  return artifact;
}

TEST_F(CodeCacheTest, BackgroundAnswersAtOnceAndServesTheKernelLater) {
  std::atomic<bool> go{false};
  compiler.before_write = [&] {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CodeCache cache = open(JitMode::kBackground);
  for (int i = 0; i < 3; ++i) {
    const Status pending = cache.get(request, compiler).status();
    EXPECT_EQ(pending.code(), StatusCode::kCompileDisabled);
    EXPECT_THAT(pending.message(), HasSubstr("background"));
    EXPECT_FALSE(cache.has(request, compiler));
  }
  go = true;
  EXPECT_EQ(bytes(get_eventually(cache, request, compiler)), compiler.binary(request));
  EXPECT_EQ(compiler.calls(), 1);
}

TEST_F(CodeCacheTest, BackgroundErrorIsToldOnceAndThenTriedAgain) {
  compiler.failure = "words of the compiler";
  CodeCache cache = open(JitMode::kBackground);
  const Result<Artifact> failed = get_eventually(cache, request, compiler);
  EXPECT_EQ(failed.status().code(), StatusCode::kCompileFailed);
  EXPECT_THAT(failed.status().message(), HasSubstr("words of the compiler"));
  compiler.failure.clear();
  EXPECT_TRUE(get_eventually(cache, request, compiler).ok());
}

TEST_F(CodeCacheTest, WhatFailsTwiceInTheBackgroundIsNotTriedAgain) {
  compiler.failure = "words of the compiler";
  CodeCache cache = open(JitMode::kBackground);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(get_eventually(cache, request, compiler).status().code(), StatusCode::kCompileFailed);
  }
  EXPECT_EQ(compiler.calls(), 2);
  // Who waits for it may still try.
  cache.set_mode(JitMode::kOn);
  compiler.failure.clear();
  EXPECT_EQ(cache.get(request, compiler).status().code(), StatusCode::kCompileFailed);  // told once more
  EXPECT_TRUE(cache.get(request, compiler).ok());
}

TEST_F(CodeCacheTest, TheGenerationMovesWithEveryBackgroundCompileThatEnds) {
  CodeCache cache = open(JitMode::kBackground);
  EXPECT_EQ(cache.background_generation(), 0u);
  EXPECT_TRUE(get_eventually(cache, request, compiler).ok());
  for (int i = 0; i < 20000 && cache.background_generation() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(cache.background_generation(), 1u);
}

TEST_F(CodeCacheTest, ClosingTheCacheEndsTheCompileUnderWayAndDropsTheRest) {
  compiler.milliseconds = 3600 * 1000;
  {
    CodeCache cache = open(JitMode::kBackground);
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(cache.get(make_request("int x" + std::to_string(i) + ";\n"), compiler).ok());
    }
    while (compiler.calls() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(compiler.calls(), 1);
  EXPECT_EQ(counters.compile_failures.load(), 0u);
  EXPECT_TRUE(open().list().empty());
  EXPECT_TRUE(fs::is_empty(scratch / "root/abi1/building"));
}

TEST_F(CodeCacheTest, AChildForkedDuringABackgroundCompileEndsAtOnceAndCompilesForItself) {
  if (test::kThreadSanitizer) GTEST_SKIP() << test::kNoForkReason;
  std::atomic<bool> go{false};
  compiler.before_write = [&] {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CodeCache cache = open(JitMode::kBackground);
  EXPECT_FALSE(cache.get(request, compiler).ok());
  while (compiler.calls() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const pid_t child = test::start_child([&] {
    compiler.before_write = nullptr;
    const CompileRequest other = make_request("int of_the_child;\n");
    if (!get_eventually(cache, other, compiler).ok()) return 1;
    return 0;
  });
  EXPECT_EQ(test::exit_code_of(child), 0);
  go = true;
  EXPECT_TRUE(get_eventually(cache, request, compiler).ok());
}

// ---- Environment -------------------------------------------------------------------------------------------------------

TEST_F(CodeCacheTest, OptionsComeFromTheEnvironment) {
  const ScopedVariable root("TILEWRIGHT_CACHE_DIR", "/some/where");
  const ScopedVariable read("TILEWRIGHT_CACHE_READ", "/a::/b:");
  const ScopedVariable jit("TILEWRIGHT_JIT", "Background");
  const CodeCacheOptions made = code_cache_options_from_environment();
  EXPECT_EQ(made.root, "/some/where");
  EXPECT_THAT(made.read_roots, testing::ElementsAre("/a", "/b"));
  EXPECT_EQ(made.mode, JitMode::kBackground);
  const ScopedVariable unknown("TILEWRIGHT_JIT", "perhaps");
  EXPECT_EQ(code_cache_options_from_environment().mode, JitMode::kOn);
}

}  // namespace
}  // namespace tilewright
