// SPDX-License-Identifier: MIT
// Clang for AMD GPUs as a compiler: which program is taken, what it is given, and that what it makes goes through the code
// cache. The program here is a script; tests/compile/amd has the real one.
#include "jit/amdgcn/amdgcn_compiler.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "jit/amdgcn/amd_compilers.hpp"
#include "jit/cache/code_pack.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::ScopedVariable;
using testing::AllOf;
using testing::HasSubstr;

class AmdgcnCompilerTest : public test::CodeCacheFixture {
 protected:
  // A program that answers as clang does, and "compiles" by repeating its arguments and its source.
  std::string fake_clang(const std::string& version, const std::string& targets = "    amdgcn      - AMD GCN GPUs",
                         const std::string& linker = "/opt/lld") {
    const std::string path = scratch / ("clang" + std::to_string(++programs_));
    EXPECT_TRUE(
        write_file(path, "#!/bin/sh\ncase $1 in\n--version) echo '" + version + "' ;;\n--print-targets) echo '" +
                             targets + "' ;;\n-print-prog-name=*) echo '" + linker +
                             "' ;;\n*) if grep -q wrong instance.hip; then echo 'instance.hip:1: wrong'; exit 1; "
                             "fi; { echo \"$@\"; cat instance.hip; find include -type f; } >instance.hsaco ;;\n"
                             "esac\n")
            .ok());
    chmod(path.c_str(), 0755);
    return path;
  }
  CompileRequest kernel(const std::string& source = "#include \"tile/common/dtype.hpp\"\nint x;\n") {
    CompileRequest made = test::make_request(source);
    made.target = "gfx942";
    return made;
  }
  std::string made_text(const Artifact& artifact) {
    return {reinterpret_cast<const char*>(artifact.image.data()), artifact.image.size()};
  }

 private:
  int programs_ = 0;
};

TEST_F(AmdgcnCompilerTest, WithoutOneEveryProgramThatWasTriedIsNamedWithAReason) {
  AmdgcnCompiler none({"/no/clang", fake_clang("Debian clang version 19.1.7 (1)"),
                       fake_clang("clang version 22.1.0", "    x86 - 32-bit"),
                       fake_clang("clang version 22.1.0", "    amdgcn      - AMD GCN GPUs", "lld"),
                       fake_clang("gcc 12")});
  const Status status = none.available();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("'/no/clang' (not found)"), HasSubstr("19.1.7 (1); allowed: clang 20 or later"),
                    HasSubstr("without the target amdgcn"), HasSubstr("without its linker lld"), HasSubstr("gcc 12"),
                    HasSubstr("TILEWRIGHT_AMDCLANG")));
  EXPECT_EQ(none.identity(), "");
  EXPECT_EQ(none.tool("llvm-objdump").status().code(), StatusCode::kNotFound);
  CodeCache cache = open();
  EXPECT_THAT(cache.get(kernel(), none).status().message(), HasSubstr("for gfx942 needs a compiler"));
}

TEST_F(AmdgcnCompilerTest, TheFirstThatServesIsTaken) {
  AmdgcnCompiler found({"/no/clang", fake_clang("clang version 18.0.0"), fake_clang("AMD clang version 20.0.0git (x)"),
                        fake_clang("clang version 22.1.0")});
  ASSERT_TRUE(found.available().ok()) << found.available().message();
  EXPECT_EQ(found.identity(), "AMD clang version 20.0.0git (x)");
  EXPECT_EQ(*found.tool("llvm-objdump"), "/opt/lld");
}

TEST_F(AmdgcnCompilerTest, ROCmsIsLookedForWhereTheEnvironmentSays) {
  const ScopedVariable rocm("ROCM_PATH", "/opt/rocm-7");
  EXPECT_EQ(rocm_clang(), "/opt/rocm-7/llvm/bin/clang");
  EXPECT_EQ(plain_clangs().front(), "clang-23");
}

TEST_F(AmdgcnCompilerTest, SourceFlagsAndHeadersReachItAndTheObjectTheCache) {
  AmdgcnCompiler clang({fake_clang("clang version 22.1.0")});
  CompileRequest asked = kernel();
  asked.flags = {"-DEXTRA=1"};
  const Result<Artifact> made = open().get(asked, clang);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->kind, ArtifactKind::kAmdObject);
  EXPECT_EQ(made->target, "gfx942");
  EXPECT_THAT(made_text(*made),
              AllOf(HasSubstr("-x hip --offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc"),
                    HasSubstr("--offload-arch=gfx942 -DEXTRA=1 -I include"),
                    HasSubstr("#include \"tile/amd/prelude.hpp\"\n#line 1 \"instance.hip\"\n"), HasSubstr("int x;"),
                    HasSubstr("include/tile/amd/prelude.hpp"), HasSubstr("include/tile/common/dtype.hpp")));
  CodeCache later = open(JitMode::kOff);
  const Result<Artifact> found = later.get(asked, clang);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->image, made->image);
}

TEST_F(AmdgcnCompilerTest, APackServesItsObjectWithoutTheCompiler) {
  AmdgcnCompiler none({"/no/clang"});
  PackedCode packed;
  packed.entry.content = *CodeCache::content_digest(kernel(), none);
  packed.entry.name = "kernel", packed.entry.target = "gfx942", packed.entry.entry = "tw_entry";
  packed.entry.kind = ArtifactKind::kAmdObject, packed.entry.compiler = "clang version 22.1.0";
  packed.code = "an object";
  ASSERT_TRUE(write_pack(scratch / "a.twpack", {packed}).ok());
  CodeCacheOptions with_pack = options(JitMode::kOff);
  with_pack.packs = {scratch / "a.twpack"};
  CodeCache cache(with_pack, counters);
  const Result<Artifact> found = cache.get(kernel(), none);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->kind, ArtifactKind::kAmdObject);
  EXPECT_EQ(made_text(*found), "an object");
}

TEST_F(AmdgcnCompilerTest, TheDigestCoversCompilerTargetAndPrelude) {
  AmdgcnCompiler one({fake_clang("clang version 22.1.0")}), other({fake_clang("clang version 22.1.1")});
  CompileRequest gfx950 = kernel();
  gfx950.target = "gfx950";
  const Digest digest = *CodeCache::digest(kernel(), one);
  EXPECT_NE(digest, *CodeCache::digest(kernel(), other));
  EXPECT_NE(digest, *CodeCache::digest(gfx950, one));
  EXPECT_EQ(*CodeCache::content_digest(kernel(), one), *CodeCache::content_digest(kernel(), other));

  const std::string kernels = scratch / "kernels";
  ASSERT_TRUE(make_folders(kernels + "/tile/amd").ok());
  ASSERT_TRUE(write_file(kernels + "/tile/amd/prelude.hpp", "// another\n").ok());
  const CompileRequest bare = kernel("int x;\n");
  const Digest content = *CodeCache::content_digest(bare, one);
  const ScopedVariable folder("TILEWRIGHT_KERNEL_DIR", kernels);
  EXPECT_NE(content, *CodeCache::content_digest(bare, one));
}

TEST_F(AmdgcnCompilerTest, ErrorsCarryClangsOwnWords) {
  AmdgcnCompiler clang({fake_clang("clang version 22.1.0")});
  const Status status = open().get(kernel("wrong"), clang).status();
  EXPECT_EQ(status.code(), StatusCode::kCompileFailed);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("for gfx942"), HasSubstr("instance.hip:1: wrong")));
}

}  // namespace
}  // namespace tilewright
