// SPDX-License-Identifier: MIT
// Entries of the code cache on disk: damaged ones are misses, all are listed, the oldest are pruned first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "jit/code_cache.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using CodeCacheEntriesTest = test::CodeCacheFixture;
using test::FakeCompiler;
using test::make_request;
using test::ScratchFolder;

// ---- Damaged entries ---------------------------------------------------------------------------------------------------

struct Damage {
  const char* name;
  void (*apply)(const std::string& entry);
};

void truncate_file(const std::string& path, uintmax_t keep) { fs::resize_file(path, keep); }
void flip_byte(const std::string& path) {
  std::string text = *read_file(path);
  text[text.size() / 2] ^= 1;
  ASSERT_TRUE(write_file(path, text).ok());
}

const Damage kDamages[] = {
    {"truncated binary", [](const std::string& entry) { truncate_file(entry + "/instance.so", 5); }},
    {"empty binary", [](const std::string& entry) { truncate_file(entry + "/instance.so", 0); }},
    {"changed binary", [](const std::string& entry) { flip_byte(entry + "/instance.so"); }},
    {"missing binary", [](const std::string& entry) { fs::remove(entry + "/instance.so"); }},
    {"truncated metadata", [](const std::string& entry) { truncate_file(entry + "/metadata", 40); }},
    {"empty metadata", [](const std::string& entry) { truncate_file(entry + "/metadata", 0); }},
    {"changed metadata", [](const std::string& entry) { flip_byte(entry + "/metadata"); }},
    {"missing metadata", [](const std::string& entry) { fs::remove(entry + "/metadata"); }},
    {"garbage metadata",
     [](const std::string& entry) { ASSERT_TRUE(write_file(entry + "/metadata", "garbage\n{}\n").ok()); }},
    {"empty folder",
     [](const std::string& entry) {
       fs::remove_all(entry);
       fs::create_directory(entry);
     }},
    {"a file in its place",
     [](const std::string& entry) {
       fs::remove_all(entry);
       ASSERT_TRUE(write_file(entry, "x").ok());
     }},
};

TEST_F(CodeCacheEntriesTest, DamagedEntryIsAMissAndIsRebuiltOnce) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    const ScratchFolder root;
    CodeCacheOptions own = options();
    own.root = root / "root";
    Result<Artifact> first = CodeCache(own, counters).get(request, compiler);
    ASSERT_TRUE(first.ok());
    damage.apply(fs::path(first->path).parent_path().string());
    const int calls = compiler.calls();
    Counters fresh;
    {
      CodeCache cache(own, fresh);
      ASSERT_EQ(cache.list().size(), 1u);
      EXPECT_FALSE(cache.list()[0].valid);
      EXPECT_NE(cache.list()[0].problem, "");
      EXPECT_FALSE(cache.has(request, compiler));
      EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
    }
    EXPECT_GE(fresh.cache_corrupt.load(), 1u);
    EXPECT_EQ(compiler.calls(), calls + 1);
    CodeCache after(own, fresh);
    EXPECT_TRUE(after.has(request, compiler));
    ASSERT_EQ(after.list().size(), 1u);
    EXPECT_TRUE(after.list()[0].valid);
  }
}

TEST_F(CodeCacheEntriesTest, AnEntryThatWasMovedToAnotherDigestIsNotLoaded) {
  CodeCache cache = open();
  const CompileRequest other = make_request("int other;\n", request.name);
  const std::string from = fs::path(cache.get(request, compiler)->path).parent_path();
  const std::string to = fs::path(cache.get(other, compiler)->path).parent_path();
  fs::remove_all(to);
  fs::copy(from, to);
  EXPECT_EQ(bytes(open().get(other, compiler)), compiler.binary(other));
}

// ---- Listing and pruning -----------------------------------------------------------------------------------------------

TEST_F(CodeCacheEntriesTest, ListTellsWhatIsThere) {
  CodeCache cache = open();
  ASSERT_TRUE(cache.get(request, compiler).ok());
  const std::vector<CacheEntryInfo> entries = cache.list();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries[0].valid) << entries[0].problem;
  EXPECT_EQ(entries[0].name, "gemm/my key");
  EXPECT_EQ(entries[0].digest, CodeCache::digest(request, compiler)->hex());
  EXPECT_EQ(entries[0].target, "x86-64");
  EXPECT_EQ(entries[0].compiler, "fake 1");
  EXPECT_GT(entries[0].bytes, 0);
}

TEST_F(CodeCacheEntriesTest, PruneRemovesTheOldestFirstAndKeepsTheRest) {
  compiler.binary_bytes = 100000;
  CodeCache cache = open();
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(make_request("int x" + std::to_string(i) + ";\n"));
    const Result<Artifact> artifact = cache.get(requests.back(), compiler);
    ASSERT_TRUE(artifact.ok());
    fs::last_write_time(fs::path(artifact->path).parent_path(),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  PruneOptions prune;
  prune.keep_bytes = 250000;
  Result<PruneReport> report = cache.prune(prune);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->bytes, 200000);
  EXPECT_EQ(report->removed.size(), 2u);
  EXPECT_EQ(cache.list().size(), 2u);
  CodeCache after = open(JitMode::kOff);
  EXPECT_FALSE(after.has(requests[0], compiler));
  EXPECT_FALSE(after.has(requests[1], compiler));
  EXPECT_TRUE(after.has(requests[2], compiler));
  EXPECT_TRUE(after.has(requests[3], compiler));
  prune.keep_bytes = -1;
  EXPECT_FALSE(cache.prune(prune).ok());
  prune.keep_bytes = 0;
  ASSERT_TRUE(cache.prune(prune).ok());
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(CodeCacheEntriesTest, PruneByAgeLeavesTheYoungAndThoseOfAClockThatWasSetBack) {
  CodeCache cache = open();
  const std::chrono::hours written[] = {std::chrono::hours(-100), std::chrono::hours(-1), std::chrono::hours(100)};
  for (int i = 0; i < 3; ++i) {
    const Result<Artifact> artifact = cache.get(make_request("int x" + std::to_string(i) + ";\n"), compiler);
    ASSERT_TRUE(artifact.ok());
    fs::last_write_time(fs::path(artifact->path).parent_path(), fs::file_time_type::clock::now() + written[i]);
  }
  PruneOptions prune;
  prune.max_age_seconds = 24 * 3600;
  prune.dry_run = true;
  Result<PruneReport> report = cache.prune(prune);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->removed.size(), 1u);
  EXPECT_EQ(report->removed[0].reason, "too old");
  EXPECT_EQ(cache.list().size(), 3u);  // a dry run
  prune.dry_run = false;
  ASSERT_TRUE(cache.prune(prune).ok());
  EXPECT_EQ(cache.list().size(), 2u);
  EXPECT_FALSE(open().has(make_request("int x0;\n"), compiler));
  EXPECT_TRUE(open().has(make_request("int x2;\n"), compiler));
}

TEST_F(CodeCacheEntriesTest, PruneOfStaleEntriesLeavesThoseOfThisVersionAndCompiler) {
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  FakeCompiler present(scratch / "calls", host_compiler().identity());
  FakeCompiler past(scratch / "calls", "compiler of last year");
  const CompileRequest other = make_request("int other;\n"), damaged = make_request("int damaged;\n");
  CodeCache cache = open();
  ASSERT_TRUE(cache.get(request, present).ok());
  ASSERT_TRUE(cache.get(request, past).ok());
  const Result<Artifact> of_version_1 = cache.get(other, present), bad = cache.get(damaged, present);
  ASSERT_TRUE(of_version_1.ok() && bad.ok());
  ASSERT_TRUE(write_file((fs::path(of_version_1->path).parent_path() / "metadata").string(),
                         "tilewright cache entry 1\nsomething\n")
                  .ok());
  fs::resize_file(bad->path, 2);
  ASSERT_TRUE(make_folders(scratch / "root/abi999/aa/x").ok());
  ASSERT_TRUE(make_folders(scratch / "root/abi_of_the_user").ok());
  PruneOptions prune;
  prune.stale = true;
  Result<PruneReport> report = cache.prune(prune);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->removed.size(), 4u);
  EXPECT_EQ(cache.list().size(), 1u);
  EXPECT_TRUE(open().has(request, present));
  EXPECT_FALSE(fs::exists(scratch / "root/abi999"));
  EXPECT_TRUE(fs::exists(scratch / "root/abi_of_the_user"));
}

TEST_F(CodeCacheEntriesTest, PruneTakesBuildsThatNobodyWorksOnEvenAfterTheClockWasSetBack) {
  CodeCache cache = open();
  ASSERT_TRUE(cache.get(request, compiler).ok());
  const std::chrono::hours written[] = {std::chrono::hours(-48), std::chrono::hours(0), std::chrono::hours(48)};
  for (int i = 0; i < 3; ++i) {
    const std::string build = scratch / ("root/abi1/building/build" + std::to_string(i));
    ASSERT_TRUE(make_folders(build).ok());
    fs::last_write_time(build, fs::file_time_type::clock::now() + written[i]);
  }
  ASSERT_TRUE(cache.prune({}).ok());
  EXPECT_FALSE(fs::exists(scratch / "root/abi1/building/build0"));
  EXPECT_TRUE(fs::exists(scratch / "root/abi1/building/build1"));  // under way
  EXPECT_FALSE(fs::exists(scratch / "root/abi1/building/build2"));
  EXPECT_EQ(cache.list().size(), 1u);
}

TEST_F(CodeCacheEntriesTest, TwoLibraryVersionsShareARootWithoutSeeingEachOthersEntries) {
  // Another version's headers or flags give another digest; its entry format may differ too.
  const CompileRequest theirs = make_request("int x; // of the other version\n", request.name);
  CodeCache cache = open();
  ASSERT_TRUE(cache.get(request, compiler).ok());
  const Result<Artifact> other = cache.get(theirs, compiler);
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(
      write_file((fs::path(other->path).parent_path() / "metadata").string(), "tilewright cache entry 7\n").ok());
  EXPECT_EQ(bytes(open().get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(bytes(open().get(theirs, compiler)), compiler.binary(theirs));
  for (const CacheEntryInfo& entry : cache.list()) EXPECT_TRUE(entry.valid) << entry.problem;
}

TEST_F(CodeCacheEntriesTest, LayersAndTheirEntriesAreListedInTheOrderOfSearch) {
  CodeCacheOptions site = options();
  site.root = scratch / "site";
  ASSERT_TRUE(CodeCache(site, counters).get(request, compiler).ok());
  CodeCacheOptions layered = options();
  layered.library_packs = false;
  layered.packs = {scratch / "none.twpack"};
  layered.read_roots = {scratch / "site"};
  CodeCache cache(layered, counters);
  const std::vector<CacheLayer> layers = cache.layers();
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].kind, CacheLayer::Kind::kPack);
  EXPECT_FALSE(layers[0].problem.ok());
  EXPECT_EQ(layers[1].path, scratch / "site");
  EXPECT_TRUE(layers[2].writable);
  EXPECT_TRUE(cache.list().empty());
  ASSERT_EQ(cache.list_all().size(), 2u);  // the missing pack, and the entry of the read root
  EXPECT_FALSE(cache.list_all()[0].valid);
  EXPECT_TRUE(cache.list_all()[1].valid);
}

}  // namespace
}  // namespace tilewright
