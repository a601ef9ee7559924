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
  Result<int64_t> freed = cache.prune(250000);
  ASSERT_TRUE(freed.ok()) << freed.status().message();
  EXPECT_GT(*freed, 200000);
  EXPECT_EQ(cache.list().size(), 2u);
  CodeCache after = open(JitMode::kOff);
  EXPECT_FALSE(after.has(requests[0], compiler));
  EXPECT_FALSE(after.has(requests[1], compiler));
  EXPECT_TRUE(after.has(requests[2], compiler));
  EXPECT_TRUE(after.has(requests[3], compiler));
  EXPECT_FALSE(cache.prune(-1).ok());
  ASSERT_TRUE(cache.prune(0).ok());
  EXPECT_TRUE(cache.list().empty());
}

}  // namespace
}  // namespace tilewright
