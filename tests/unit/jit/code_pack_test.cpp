// SPDX-License-Identifier: MIT
// Ahead-of-time packs: what is found in them without a compiler, what damage costs, whom they are taken from.
#include "jit/cache/code_pack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "device/cpu/shared_object.hpp"
#include "device/device.hpp"
#include "jit/code_cache.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::make_request;
using test::ScopedVariable;
using testing::HasSubstr;

class CodePackTest : public test::CodeCacheFixture {
 protected:
  std::string pack_path(const std::string& name = "a") const { return scratch / (name + ".twpack"); }
  CodeCacheOptions packed(JitMode mode = JitMode::kOff) const {
    CodeCacheOptions made = options(mode);
    made.packs = {pack_path()};
    made.library_packs = false;
    return made;
  }
  PackedCode code_of(const CompileRequest& made_from, const std::string& code) {
    PackedCode packed;
    packed.entry.content = *CodeCache::content_digest(made_from, compiler);
    packed.entry.name = made_from.name;
    packed.entry.target = made_from.target;
    packed.entry.entry = made_from.entry;
    packed.entry.compiler = "some compiler 1";
    packed.code = code;
    return packed;
  }
  void write(std::vector<PackedCode> entries, const std::string& name = "a") {
    const Status status = write_pack(pack_path(name), std::move(entries));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static std::string image(const Result<Artifact>& artifact) {
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    if (!artifact.ok()) return "";
    return {reinterpret_cast<const char*>(artifact->image.data()), artifact->image.size()};
  }
  void flip_byte(int64_t at) {
    std::fstream file(pack_path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }
};

TEST_F(CodePackTest, ServesWithoutACompilerWithoutARootAndWithCompilingOff) {
  write({code_of(request, "the code"), code_of(make_request("int other;\n"), "other code")});
  compiler.status = Status(StatusCode::kNotFound, "no compiler");
  CodeCacheOptions bare = packed();
  bare.root = "";
  CodeCache cache(bare, counters);
  EXPECT_TRUE(cache.has(request, compiler));
  const Result<Artifact> artifact = cache.get(request, compiler);
  EXPECT_EQ(image(artifact), "the code");
  EXPECT_EQ(artifact->target, "x86-64");
  EXPECT_EQ(artifact->entry, "tw_entry");
  EXPECT_EQ(counters.cache_pack_hits.load(), 1u);
  EXPECT_EQ(counters.compiles.load(), 0u);
  EXPECT_EQ(compiler.calls(), 0);
  EXPECT_FALSE(cache.has(make_request("int third;\n"), compiler));
}

TEST_F(CodePackTest, IsAskedBeforeTheDiskAndNotWhenCompilingIsForced) {
  EXPECT_TRUE(open().get(request, compiler).ok());
  write({code_of(request, "from the pack")});
  EXPECT_EQ(image(CodeCache(packed(JitMode::kOn), counters).get(request, compiler)), "from the pack");
  EXPECT_EQ(bytes(CodeCache(packed(JitMode::kForce), counters).get(request, compiler)), compiler.binary(request));
}

TEST_F(CodePackTest, CodeOfAnotherTargetSourceOrEntryIsNotServed) {
  write({code_of(request, "the code")});
  CodeCache cache(packed(), counters);
  CompileRequest other = request;
  other.target = "x86-64-v3";
  EXPECT_FALSE(cache.has(other, compiler));
  other = request;
  other.source += " ";
  EXPECT_FALSE(cache.has(other, compiler));
  // A pack that lies: the right digest in front of another target's code, or of another entry.
  PackedCode lie = code_of(request, "the code");
  lie.entry.target = "x86-64-v3";
  write({lie});
  EXPECT_FALSE(CodeCache(packed(), counters).has(request, compiler));
  lie = code_of(request, "the code");
  lie.entry.entry = "tw_other";
  write({lie});
  EXPECT_FALSE(CodeCache(packed(), counters).has(request, compiler));
}

TEST_F(CodePackTest, TheSameEntriesMakeTheSameFile) {
  const CompileRequest other = make_request("int other;\n");
  write({code_of(request, "1"), code_of(other, "2")}, "a");
  write({code_of(other, "2"), code_of(request, "1")}, "b");
  EXPECT_EQ(*read_file(pack_path("a")), *read_file(pack_path("b")));
}

TEST_F(CodePackTest, AFolderOfPacksIsSearchedInTheOrderOfNames) {
  ASSERT_TRUE(make_folders(scratch / "packs").ok());
  write({code_of(request, "second")}, "packs/b");
  write({code_of(request, "first")}, "packs/a");
  ASSERT_TRUE(write_file(scratch / "packs/readme.txt", "no pack").ok());
  CodeCacheOptions made = packed();
  made.packs = {scratch / "missing.twpack", scratch / "packs"};
  EXPECT_EQ(image(CodeCache(made, counters).get(request, compiler)), "first");
  EXPECT_EQ(counters.cache_corrupt.load(), 0u);
}

TEST_F(CodePackTest, ADamagedEntryIsAMissAndTheOthersServe) {
  const CompileRequest other = make_request("int other;\n");
  write({code_of(request, std::string(1000, 'a')), code_of(other, std::string(1000, 'b'))});
  Result<CodePack> pack = CodePack::open(pack_path(), 0);
  ASSERT_TRUE(pack.ok()) << pack.status().message();
  flip_byte(pack->find(*CodeCache::content_digest(request, compiler), "x86-64")->offset + 500);
  CodeCache cache(packed(JitMode::kOn), counters);
  EXPECT_FALSE(cache.has(request, compiler));
  EXPECT_EQ(bytes(cache.get(request, compiler)), compiler.binary(request));
  EXPECT_EQ(counters.cache_corrupt.load(), 1u);  // looked at once
  EXPECT_EQ(image(cache.get(other, compiler)), std::string(1000, 'b'));
}

TEST_F(CodePackTest, DamageAnywhereInTheFileIsNeverServedAndNeverEndsTheProcess) {
  write({code_of(request, "the code of this kernel")});
  const std::string good = *read_file(pack_path());
  for (size_t at = 0; at < good.size(); at += at < 700 ? 1 : 13) {
    ASSERT_TRUE(write_file(pack_path(), good).ok());
    flip_byte(static_cast<int64_t>(at));
    chmod(pack_path().c_str(), 0644);
    CodeCache cache(packed(), counters);
    const Result<Artifact> artifact = cache.get(request, compiler);
    if (artifact.ok()) {
      EXPECT_EQ(image(artifact), "the code of this kernel") << "byte " << at;
    }
  }
  for (size_t length = 0; length < good.size(); length += 7) {
    ASSERT_TRUE(write_file(pack_path(), good.substr(0, length)).ok());
    CodeCache cache(packed(), counters);
    const Result<Artifact> artifact = cache.get(request, compiler);
    if (artifact.ok()) {
      EXPECT_EQ(image(artifact), "the code of this kernel") << length << " bytes";
    }
  }
}

TEST_F(CodePackTest, AFileThatIsCutShortWhileItIsOpenIsAMiss) {
  write({code_of(request, std::string(100000, 'a'))});
  CodeCache cache(packed(), counters);
  fs::resize_file(pack_path(), 300);
  EXPECT_FALSE(cache.get(request, compiler).ok());
  EXPECT_EQ(counters.cache_corrupt.load(), 1u);
}

TEST_F(CodePackTest, APackOfAnotherVersionIsExplained) {
  write({code_of(request, "the code")});
  std::string text = *read_file(pack_path());
  text.replace(text.find("pack 1"), 6, "pack 9");
  ASSERT_TRUE(write_file(pack_path(), text).ok());
  const Status status = CodePack::open(pack_path(), 0).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("format version 9"));
  EXPECT_THAT(status.message(), HasSubstr("prebuild"));
}

TEST_F(CodePackTest, APackThatOthersCanWriteToOrOwnIsRefused) {
  write({code_of(request, "the code")});
  ASSERT_EQ(chmod(pack_path().c_str(), 0664), 0);
  EXPECT_THAT(CodePack::open(pack_path(), 0).status().message(), HasSubstr("others may write"));
  EXPECT_FALSE(CodeCache(packed(), counters).has(request, compiler));
  ASSERT_EQ(chmod(pack_path().c_str(), 0644), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(pack_path().c_str(), 65534, 65534), 0);
  EXPECT_THAT(CodePack::open(pack_path(), 0).status().message(), HasSubstr("belongs to user 65534"));
  // The owner of the library itself is trusted with its packs.
  EXPECT_TRUE(CodePack::open(pack_path(), 65534).ok());
}

TEST_F(CodePackTest, PacksComeFromTheEnvironment) {
  const ScopedVariable variable("TILEWRIGHT_PACKS", "/a.twpack::/b");
  EXPECT_THAT(code_cache_options_from_environment().packs, testing::ElementsAre("/a.twpack", "/b"));
}

// ---- From bytes in memory to a function -------------------------------------------------------------------------------

TEST_F(CodePackTest, ObjectsFromMemoryLoadSideBySideAndLeaveNoFile) {
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<std::shared_ptr<const LoadedKernel>> kernels;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(make_folders(scratch / ("build" + std::to_string(i))).ok());
    const CompileRequest made = make_request(
        "extern \"C\" void tw_entry(const void* args, unsigned, unsigned) { *(int*)args = " + std::to_string(40 + i) +
        "; }\n");
    const std::string folder = scratch / ("build" + std::to_string(i));
    Result<std::string> binary = host_compiler().compile(made, folder, nullptr);
    ASSERT_TRUE(binary.ok()) << binary.status().message();
    const std::string code = *read_file(folder + "/" + *binary);
    remove_tree(folder);
    Artifact artifact;
    artifact.target = made.target;
    artifact.entry = made.entry;
    artifact.image.assign(reinterpret_cast<const std::byte*>(code.data()),
                          reinterpret_cast<const std::byte*>(code.data()) + code.size());
    Result<std::shared_ptr<const LoadedKernel>> kernel = device->load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    kernels.push_back(*kernel);
  }
  for (int i = 0; i < 3; ++i) {
    int out = 0;
    int* const place = &out;
    // The entry gets the bytes of its arguments; here these are the number itself.
    alignas(64) std::byte args[sizeof(int)] = {};
    ASSERT_TRUE(device->launch(*kernels[static_cast<size_t>(i)], args, {1}, {}).ok());
    std::memcpy(place, args, sizeof(out));
    EXPECT_EQ(out, 40 + i);
  }
}

TEST_F(CodePackTest, BytesThatAreNoObjectAreAnErrorWithTheLoadersWords) {
  const std::string text = "no object";
  const Result<std::shared_ptr<SharedObject>> object =
      SharedObject::open_image(std::as_bytes(std::span(text.data(), text.size())), "nothing");
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace tilewright
