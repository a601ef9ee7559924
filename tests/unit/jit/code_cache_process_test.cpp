// SPDX-License-Identifier: MIT
// The code cache between processes and on difficult file systems: races on a cold root, killed builders, foreign and
// read-only folders, no home, a full disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <fstream>
#include <vector>

#include "jit/code_cache.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::exit_code_of;
using test::FakeCompiler;
using test::make_request;
using test::ScopedVariable;
using test::ScratchFolder;
using test::start_child;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

class CodeCacheProcessTest : public testing::Test {
 protected:
  CodeCacheOptions options() const {
    CodeCacheOptions made;
    made.root = scratch / "root";
    return made;
  }
  bool serves(CodeCache& cache) {
    Result<Artifact> artifact = cache.get(request, compiler);
    if (!artifact.ok()) {
      std::fprintf(stderr, "%s\n", artifact.status().message().c_str());
      return false;
    }
    Result<std::string> text = read_file(artifact->path);
    return text.ok() && *text == compiler.binary(request);
  }
  int entries() { return static_cast<int>(CodeCache(options(), counters).list().size()); }
  bool all_valid() {
    for (const CacheEntryInfo& entry : CodeCache(options(), counters).list()) {
      if (!entry.valid) return false;
    }
    return true;
  }

  ScratchFolder scratch;
  Counters counters;
  FakeCompiler compiler{scratch / "calls"};
  CompileRequest request = make_request("int x;\n");
};

TEST_F(CodeCacheProcessTest, SixColdProcessesCompileOnceAndAllGetTheKernel) {
  compiler.milliseconds = 300;
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(start_child([&] {
      CodeCache cache(options(), counters);
      return serves(cache) ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_EQ(compiler.calls(), 1);
  EXPECT_EQ(entries(), 1);
  EXPECT_TRUE(all_valid());
  EXPECT_TRUE(fs::is_empty(scratch / "root/abi1/building"));
}

TEST_F(CodeCacheProcessTest, SixProcessesThatDoNotWaitStillLeaveOneGoodEntry) {
  compiler.milliseconds = 100;
  CodeCacheOptions hasty = options();
  hasty.lock_wait_seconds = 0;
  for (int round = 0; round < 3; ++round) {
    remove_tree(scratch / "root");
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
      children.push_back(start_child([&] {
        CodeCache cache(hasty, counters);
        return serves(cache) ? 0 : 1;
      }));
    }
    for (const pid_t child : children) EXPECT_EQ(exit_code_of(child), 0);
    EXPECT_EQ(entries(), 1);
    EXPECT_TRUE(all_valid());
    EXPECT_TRUE(fs::is_empty(scratch / "root/abi1/building"));  // losers deleted their copies
  }
}

TEST_F(CodeCacheProcessTest, ProcessesThatFindADamagedEntryAllGetAGoodOne) {
  {
    CodeCache cache(options(), counters);
    ASSERT_TRUE(serves(cache));
    fs::resize_file(cache.get(request, compiler)->path, 3);
  }
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(start_child([&] {
      CodeCache cache(options(), counters);
      return serves(cache) ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_EQ(compiler.calls(), 2);
  EXPECT_EQ(entries(), 1);
  EXPECT_TRUE(all_valid());
}

TEST_F(CodeCacheProcessTest, AKilledBuilderBlocksNobodyAndLeavesNoEntry) {
  FakeCompiler endless(scratch / "calls");
  endless.milliseconds = 3600 * 1000;
  const pid_t builder = start_child([&] {
    CodeCache cache(options(), counters);
    return cache.get(request, endless).ok() ? 0 : 1;
  });
  while (endless.calls() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(kill(builder, SIGKILL), 0);
  EXPECT_EQ(exit_code_of(builder), -SIGKILL);
  EXPECT_EQ(entries(), 0);
  CodeCacheOptions patient = options();
  patient.lock_wait_seconds = 3600;  // the system released the dead process's lock
  CodeCache cache(patient, counters);
  EXPECT_TRUE(serves(cache));
  EXPECT_EQ(entries(), 1);
}

TEST_F(CodeCacheProcessTest, AStuckBuilderIsNotWaitedForBeyondTheLimit) {
  FakeCompiler endless(scratch / "calls");
  endless.milliseconds = 3600 * 1000;
  const pid_t builder = start_child([&] {
    CodeCache cache(options(), counters);
    return cache.get(request, endless).ok() ? 0 : 1;
  });
  while (endless.calls() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CodeCacheOptions impatient = options();
  impatient.lock_wait_seconds = 0.05;
  CodeCache cache(impatient, counters);
  EXPECT_TRUE(serves(cache));
  kill(builder, SIGKILL);
  exit_code_of(builder);
}

TEST_F(CodeCacheProcessTest, ChildForkedDuringACompileDoesNotWaitForItsParentsThread) {
  std::atomic<bool> begun{false}, go{false};
  compiler.before_write = [&] {
    begun = true;
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CodeCacheOptions impatient = options();
  impatient.lock_wait_seconds = 0.05;
  CodeCache cache(impatient, counters);
  std::thread parent([&] { EXPECT_TRUE(serves(cache)); });
  while (!begun) std::this_thread::yield();
  const pid_t child = start_child([&] {
    compiler.before_write = nullptr;
    return serves(cache) ? 0 : 1;
  });
  EXPECT_EQ(exit_code_of(child), 0);
  go = true;
  parent.join();
}

// ---- Folders that are not ours alone -----------------------------------------------------------------------------------

TEST_F(CodeCacheProcessTest, RootThatOthersCanWriteToIsRefusedAndTheCacheStillWorks) {
  for (const mode_t mode : {0770, 0707, 01777}) {
    const std::string root = scratch / ("open" + std::to_string(mode));
    ASSERT_TRUE(make_folders(root).ok());
    ASSERT_EQ(chmod(root.c_str(), mode), 0);
    CodeCacheOptions open = options();
    open.root = root;
    CodeCache cache(open, counters);
    EXPECT_EQ(cache.root(), "");
    EXPECT_EQ(cache.root_problem().code(), StatusCode::kUnsupported);
    EXPECT_THAT(cache.root_problem().message(), HasSubstr("others may write"));
    EXPECT_TRUE(serves(cache));
    EXPECT_TRUE(fs::is_empty(root));
  }
}

TEST_F(CodeCacheProcessTest, CodeInAReadRootThatOthersCanWriteToIsNotLoaded) {
  {
    CodeCache cache(options(), counters);
    ASSERT_TRUE(serves(cache));
  }
  ASSERT_EQ(chmod((scratch / "root").c_str(), 0777), 0);
  CodeCacheOptions layered;
  layered.read_roots = {scratch / "root"};
  layered.mode = JitMode::kOff;
  EXPECT_FALSE(CodeCache(layered, counters).has(request, compiler));
}

TEST_F(CodeCacheProcessTest, RootOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_TRUE(make_folders(scratch / "root").ok());
  ASSERT_EQ(chown((scratch / "root").c_str(), kNobody, kNobody), 0);
  CodeCache cache(options(), counters);
  EXPECT_EQ(cache.root(), "");
  EXPECT_THAT(cache.root_problem().message(), HasSubstr("belongs to user 65534"));
  EXPECT_TRUE(serves(cache));
}

// Runs `body` as a user whom file modes bind: in a child, without root's rights.
int as_plain_user(const std::string& owned, const std::function<int()>& body) {
  return exit_code_of(start_child([&] {
    if (geteuid() == 0) {
      for (const auto& entry : fs::recursive_directory_iterator(owned)) {
        if (lchown(entry.path().c_str(), kNobody, kNobody) != 0) return 90;
      }
      if (lchown(owned.c_str(), kNobody, kNobody) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) return 91;
    }
    return body();
  }));
}

TEST_F(CodeCacheProcessTest, ReadOnlyRootServesItsEntriesAndTakesNoNewOnes) {
  {
    CodeCache cache(options(), counters);
    ASSERT_TRUE(serves(cache));
  }
  ASSERT_EQ(chmod((scratch / "root").c_str(), 0500), 0);
  ASSERT_EQ(chmod((scratch / "root/abi1").c_str(), 0500), 0);
  chmod((scratch / "calls").c_str(), 0666);
  const int calls = compiler.calls();
  EXPECT_EQ(as_plain_user(scratch / "root",
                          [&] {
                            CodeCache cache(options(), counters);
                            if (!cache.root().empty() ||
                                cache.root_problem().message().find("read only") == std::string::npos)
                              return 1;
                            if (!serves(cache) || compiler.calls() != calls) return 2;
                            request.source = "int other;\n";
                            if (!serves(cache) || compiler.calls() != calls + 1) return 3;
                            return cache.list().size() == 1 ? 0 : 4;
                          }),
            0);
  chmod((scratch / "root").c_str(), 0700);
  chmod((scratch / "root/abi1").c_str(), 0700);
}

TEST_F(CodeCacheProcessTest, ReadRootsAreAskedInOrderAndNeverWritten) {
  {
    CodeCacheOptions site = options();
    site.root = scratch / "site";
    CodeCache cache(site, counters);
    ASSERT_TRUE(serves(cache));
  }
  CodeCacheOptions layered = options();
  layered.read_roots = {scratch / "missing", scratch / "site"};
  {
    CodeCache cache(layered, counters);
    EXPECT_TRUE(serves(cache));
    EXPECT_TRUE(cache.list().empty());
    EXPECT_EQ(compiler.calls(), 1);
  }
  // Damage there is a miss; the new entry goes to the writable root.
  Result<Artifact> there = CodeCache(layered, counters).get(request, compiler);
  ASSERT_TRUE(there.ok());
  fs::resize_file(there->path, 2);
  CodeCache cache(layered, counters);
  EXPECT_TRUE(serves(cache));
  EXPECT_EQ(compiler.calls(), 2);
  EXPECT_EQ(cache.list().size(), 1u);
  EXPECT_EQ(fs::file_size(there->path), 2u);
}

TEST_F(CodeCacheProcessTest, WithoutAHomeKernelsLiveInAPrivateFolderThatIsRemoved) {
  const ScopedVariable cache_dir("TILEWRIGHT_CACHE_DIR", std::nullopt);
  const ScopedVariable xdg("XDG_CACHE_HOME", std::nullopt);
  const ScopedVariable home("HOME", std::nullopt);
  std::string path;
  {
    CodeCache cache(code_cache_options_from_environment(), counters);
    EXPECT_EQ(cache.root(), "");
    EXPECT_THAT(cache.root_problem().message(), HasSubstr("HOME"));
    EXPECT_TRUE(serves(cache));
    EXPECT_TRUE(serves(cache));
    EXPECT_EQ(compiler.calls(), 1);
    path = cache.get(request, compiler)->path;
    EXPECT_FALSE(cache.prune({}).ok());
    EXPECT_TRUE(cache.list().empty());
  }
  EXPECT_FALSE(is_file(path));
}

TEST_F(CodeCacheProcessTest, RootThatCannotBeCreatedIsExplained) {
  ASSERT_TRUE(write_file(scratch / "file", "").ok());
  CodeCacheOptions blocked = options();
  blocked.root = scratch / "file/root";
  CodeCache cache(blocked, counters);
  EXPECT_EQ(cache.root(), "");
  EXPECT_THAT(cache.root_problem().message(), HasSubstr("file"));
  EXPECT_TRUE(serves(cache));
}

TEST_F(CodeCacheProcessTest, KernelIsServedWhenTheRootTakesNoBuilds) {
  ASSERT_TRUE(make_folders(scratch / "root/abi1").ok());
  ASSERT_TRUE(write_file(scratch / "root/abi1/building", "in the way").ok());
  CodeCache cache(options(), counters);
  EXPECT_TRUE(serves(cache));
  EXPECT_TRUE(serves(cache));
  EXPECT_EQ(compiler.calls(), 1);
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(CodeCacheProcessTest, FullDiskCostsTheSharingAndNotTheKernel) {
  ASSERT_TRUE(make_folders(scratch / "disk").ok());
  compiler.binary_bytes = 1 << 20;
  const int code = exit_code_of(start_child([&] {
    // A small disk of our own, in a mount namespace that ends with this child.
    const int namespaces = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
    const uid_t user = geteuid();
    if (unshare(namespaces) != 0) return 77;
    if (user != 0) std::ofstream("/proc/self/uid_map") << "0 " << user << " 1\n";
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (mount("tmpfs", (scratch / "disk").c_str(), "tmpfs", 0, "size=256k,mode=0700") != 0) return 77;
    CodeCacheOptions full = options();
    full.root = scratch / "disk/store";
    CodeCache cache(full, counters);
    if (cache.root().empty()) return 1;
    if (!serves(cache)) return 2;
    if (!cache.list().empty() || !fs::is_empty(scratch / "disk/store/abi1/building")) return 3;
    // What fits is stored.
    compiler.binary_bytes = 100;
    request.source = "int small;\n";
    if (!serves(cache)) return 4;
    return cache.list().size() == 1 && cache.list()[0].valid ? 0 : 5;
  }));
  if (code == 77) GTEST_SKIP() << "this user may not mount a small file system";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tilewright
