// SPDX-License-Identifier: MIT
// The host compiler, the programs it runs, and the headers that an instance reaches.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/environment.hpp"
#include "jit/code_cache.hpp"
#include "jit/flags.hpp"
#include "jit/host_compiler.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/support_objects.hpp"
#include "jit/system/process.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::make_request;
using test::ScopedVariable;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kToyInstance = R"(
extern "C" void tw_entry(const void* args, unsigned unit, unsigned units) {
  static_cast<int*>(const_cast<void*>(args))[unit] = static_cast<int>(100 * units + unit);
}
)";

// ---- Programs ----------------------------------------------------------------------------------------------------------

Result<ProcessResult> run_shell(const std::string& script, double seconds = 60) {
  ProcessOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.seconds = seconds;
  options.set = {"TW_SET=one", "LC_ALL=C"};
  options.unset = {"TW_UNSET"};
  return run_process(options);
}

TEST(Process, OutputOfBothStreamsAndTheExitCodeComeBack) {
  Result<ProcessResult> run = run_shell("echo out; echo err >&2; exit 7");
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->exit_code, 7);
  EXPECT_EQ(run->output, "out\nerr\n");
  EXPECT_FALSE(run->ok());
  EXPECT_EQ(run->describe(), "exit code 7");
}

TEST(Process, VariablesAreSetAndHidden) {
  const ScopedVariable hidden("TW_UNSET", "x");
  const ScopedVariable replaced("TW_SET", "two");
  EXPECT_EQ(run_shell("echo $TW_SET-$TW_UNSET")->output, "one-\n");
}

TEST(Process, ASignalIsReported) {
  Result<ProcessResult> run = run_shell("kill -9 $$");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->signal, SIGKILL);
  EXPECT_THAT(run->describe(), HasSubstr("signal 9"));
}

TEST(Process, TheTimeLimitEndsTheProgramAndItsChildren) {
  const ScratchFolder scratch;
  const std::string marker = scratch / "pid";
  Result<ProcessResult> run = run_shell("sleep 3600 & echo $! > " + marker + "; wait", 0.3);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->timed_out);
  const pid_t grandchild = static_cast<pid_t>(std::stol(*read_file(marker)));
  // Its new parent takes a moment to collect it.
  bool gone = false;
  for (int i = 0; i < 10000 && !gone; ++i) {
    const Result<std::string> stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
    gone = !stat.ok() || stat->find(") Z ") != std::string::npos;
    if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(gone);
}

TEST(Process, AProgramIsStoppedFromAnotherThread) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop = true;
  });
  ProcessOptions options;
  options.argv = {"/bin/sleep", "3600"};
  options.seconds = 3600;
  options.stop = &stop;
  Result<ProcessResult> run = run_process(options);
  other.join();
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->stopped);
  EXPECT_FALSE(run->timed_out);
  EXPECT_EQ(run->describe(), "stopped");
}

TEST(Process, AProgramThatClosesItsOutputAndHangsIsEndedToo) {
  Result<ProcessResult> run = run_shell("exec >&- 2>&-; exec sleep 3600", 0.3);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->timed_out);
}

TEST(Process, EndlessOutputIsCut) {
  Result<ProcessResult> run = run_shell("head -c 3000000 /dev/zero");
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->ok());
  EXPECT_EQ(run->output.size(), kMaxProcessOutput);
  for (const size_t most : {size_t{10}, size_t{2'500'000}}) {
    ProcessOptions options;
    options.argv = {"/bin/sh", "-c", "head -c 3000000 /dev/zero"};
    options.most_output = most;
    run = run_process(options);
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->output.size(), most);
  }
}

TEST(Process, AMissingProgramIsAnErrorWithItsName) {
  ProcessOptions options;
  options.argv = {"/no/such/program"};
  EXPECT_THAT(run_process(options).status().message(), HasSubstr("/no/such/program"));
}

TEST(Process, WorksInAProgramThatIgnoresChildren) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  Result<ProcessResult> run = run_shell("echo done");
  signal(SIGCHLD, before);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->output, "done\n");
}

// ---- The host compiler -------------------------------------------------------------------------------------------------

class HostCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  std::string new_folder(const char* name) {
    EXPECT_TRUE(make_folders(scratch / name).ok());
    return scratch / name;
  }
  static std::string log_of(const std::string& folder) { return *read_file(folder + "/build.log"); }

  ScratchFolder scratch;
};

TEST_F(HostCompilerTest, AnInstanceCompilesLoadsAndRuns) {
  const std::string folder = new_folder("build");
  Result<std::string> binary = host_compiler().compile(make_request(kToyInstance), folder, nullptr);
  ASSERT_TRUE(binary.ok()) << binary.status().message();
  void* object = dlopen((folder + "/" + *binary).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(object, nullptr) << dlerror();
  const auto entry = reinterpret_cast<CpuEntry>(dlsym(object, "tw_entry"));
  ASSERT_NE(entry, nullptr);
  int out[3] = {};
  for (uint32_t unit = 0; unit < 3; ++unit) entry(out, unit, 3);
  EXPECT_THAT(out, ElementsAre(300, 301, 302));
  dlclose(object);
}

// The instance of a gemm kernel as its family writes it, for a target that every compiler knows.
CompileRequest gemm_request() {
  CompileRequest request = make_request(
      "#include \"gemm/cpu/gemm_support_cpu.hpp\"\n#include \"gemm/cpu/gemv_cpu.hpp\"\nextern \"C\" void "
      "tw_entry(const void* "
      "args, "
      "unsigned unit, unsigned units) { tilewright::gemv_cpu<tilewright::GemvCpuConfig{.dtype=tilewright::DType::kF32,"
      ".mma=tilewright::CpuMma::kFmaAvx2,.packed=true,.rows=2,.panels=1,.prefetch=0}>(*static_cast<const "
      "tilewright::GemmArgs*>(args), unit, units); }\n");
  request.target = "x86-64-v3";
  return request;
}

TEST_F(HostCompilerTest, WhatInstancesShareComesCompiledWithTheLibrary) {
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor == ArchVendor::kX86 && arch.target != "x86-64-v4-amx") {
      EXPECT_EQ(support_object(arch.target).substr(0, 4),
                "\x7f"
                "ELF")
          << arch.target;
    }
  }
  const std::string folder = new_folder("build");
  Result<std::string> binary = host_compiler().compile(gemm_request(), folder, nullptr);
  ASSERT_TRUE(binary.ok()) << binary.status().message();
  EXPECT_THAT(log_of(folder), HasSubstr("-DTILEWRIGHT_LINKED_SUPPORT"));
  EXPECT_FALSE(fs::exists(folder + "/support.o"));
  EXPECT_NE(host_compiler().linked_digest(gemm_request()), "");
  EXPECT_EQ(host_compiler().linked_digest(make_request(kToyInstance)), "");
}

TEST_F(HostCompilerTest, WithHeadersOfAFolderNothingOfTheLibraryIsLinked) {
  const char* const source = std::getenv("TILEWRIGHT_SOURCE_DIR");
  const ScopedVariable kernels("TILEWRIGHT_KERNEL_DIR",
                               std::string(source ? source : TILEWRIGHT_SOURCE_DIR) + "/kernels");
  const std::string folder = new_folder("build");
  Result<std::string> binary = host_compiler().compile(gemm_request(), folder, nullptr);
  ASSERT_TRUE(binary.ok()) << binary.status().message();
  EXPECT_THAT(log_of(folder), Not(HasSubstr("TILEWRIGHT_LINKED_SUPPORT")));
  EXPECT_EQ(host_compiler().linked_digest(gemm_request()), "");
}

TEST_F(HostCompilerTest, SourceAndLogStayBesideTheBinaryAndHeadersDoNot) {
  const std::string folder = new_folder("build");
  const CompileRequest request = make_request("#include \"tile/common/dtype.hpp\"\n" + std::string(kToyInstance));
  ASSERT_TRUE(host_compiler().compile(request, folder, nullptr).ok());
  EXPECT_THAT(*read_file(folder + "/instance.cpp"), EndsWith(request.source));
  EXPECT_THAT(log_of(folder), HasSubstr("-march=x86-64"));
  EXPECT_THAT(log_of(folder), HasSubstr("-fno-exceptions"));
  EXPECT_FALSE(fs::exists(folder + "/include"));
}

TEST_F(HostCompilerTest, TheBinaryDoesNotDependOnWhereItWasBuilt) {
  const std::string one = new_folder("one"), two = new_folder("two/deeper");
  CompileRequest request = make_request("#include \"tile/common/dtype.hpp\"\n" + std::string(kToyInstance) +
                                        "extern \"C\" __attribute__((visibility(\"default\"))) const char* tw_file() "
                                        "{ return __FILE__; }\n");
  ASSERT_TRUE(host_compiler().compile(request, one, nullptr).ok());
  ASSERT_TRUE(host_compiler().compile(request, two, nullptr).ok());
  EXPECT_EQ(*read_file(one + "/instance.so"), *read_file(two + "/instance.so"));
  EXPECT_THAT(*read_file(one + "/instance.so"), Not(HasSubstr(scratch.path())));
}

TEST_F(HostCompilerTest, OnlyTheEntryIsExported) {
  const std::string folder = new_folder("build");
  const std::string other = "extern \"C\" __attribute__((used)) int tw_helper() { return 1; }\n";
  ASSERT_TRUE(host_compiler().compile(make_request(kToyInstance + other), folder, nullptr).ok());
  void* object = dlopen((folder + "/instance.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(object, nullptr) << dlerror();
  EXPECT_NE(dlsym(object, "tw_entry"), nullptr);
  EXPECT_EQ(dlsym(object, "tw_helper"), nullptr);
  dlclose(object);
}

TEST_F(HostCompilerTest, TheBinaryNeedsNoCppRuntime) {
  const std::string folder = new_folder("build");
  ASSERT_TRUE(host_compiler().compile(make_request(kToyInstance), folder, nullptr).ok());
  EXPECT_THAT(*read_file(folder + "/instance.so"), Not(HasSubstr("libstdc++")));
}

TEST_F(HostCompilerTest, ErrorTextOfTheCompilerReachesTheCallerOfTheCache) {
  Counters counters;
  CodeCacheOptions options;
  options.root = scratch / "root";
  CodeCache cache(options, counters);
  const Result<Artifact> artifact = cache.get(make_request("int x = no_such_name;\n", "my kernel"), host_compiler());
  EXPECT_EQ(artifact.status().code(), StatusCode::kCompileFailed);
  EXPECT_THAT(artifact.status().message(), HasSubstr("my kernel"));
  EXPECT_THAT(artifact.status().message(), HasSubstr("instance.cpp:1"));
  EXPECT_THAT(artifact.status().message(), HasSubstr("no_such_name"));
  EXPECT_EQ(counters.compile_failures.load(), 1u);
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(HostCompilerTest, AnUnresolvedSymbolIsACompileErrorAndNotALoadError) {
  const std::string source =
      "extern \"C\" void tw_no_such_function();\n"
      "extern \"C\" void tw_entry(const void*, unsigned, unsigned) { tw_no_such_function(); }\n";
  const Result<std::string> binary = host_compiler().compile(make_request(source), new_folder("build"), nullptr);
  EXPECT_EQ(binary.status().code(), StatusCode::kCompileFailed);
  EXPECT_THAT(binary.status().message(), HasSubstr("tw_no_such_function"));
}

TEST_F(HostCompilerTest, ACompilerThatHangsIsEndedAtItsLimit) {
  const std::string program = scratch / "hanging-c++";
  ASSERT_TRUE(
      write_file(program, "#!/bin/sh\ncase \"$1\" in --version|-dump*) echo \"hang (1) 1\";; *) sleep 3600;; esac\n")
          .ok());
  chmod(program.c_str(), 0755);
  HostCompiler compiler({program}, 0.2);
  ASSERT_TRUE(compiler.available().ok()) << compiler.available().message();
  const Result<std::string> binary = compiler.compile(make_request(kToyInstance), new_folder("build"), nullptr);
  EXPECT_EQ(binary.status().code(), StatusCode::kTimeout);
}

TEST_F(HostCompilerTest, IncludePathsOfTheEnvironmentHaveNoSay) {
  ASSERT_TRUE(make_folders(scratch / "foreign").ok());
  ASSERT_TRUE(write_file(scratch / "foreign/foreign.h", "int foreign;\n").ok());
  const ScopedVariable cpath("CPATH", scratch / "foreign");
  const ScopedVariable cplus("CPLUS_INCLUDE_PATH", scratch / "foreign");
  EXPECT_FALSE(host_compiler().compile(make_request("#include <foreign.h>\n"), new_folder("build"), nullptr).ok());
}

std::string compiler_on_path() {
  Result<ProcessResult> run = run_shell("command -v c++ || command -v g++ || command -v clang++");
  return run.ok() ? run->output.substr(0, run->output.find('\n')) : "";
}

TEST_F(HostCompilerTest, IdentityIsThatOfTheProgramAndNotOfItsPath) {
  const std::string path = compiler_on_path();
  if (path.empty()) GTEST_SKIP() << "no compiler on PATH";
  const std::string wrapper = scratch / "another name";
  ASSERT_TRUE(write_file(wrapper, "#!/bin/sh\nexec " + path + " \"$@\"\n").ok());
  chmod(wrapper.c_str(), 0755);
  const HostCompiler direct({path}), wrapped({wrapper}), with_argument({"env " + path});
  EXPECT_NE(direct.identity(), "");
  EXPECT_EQ(direct.identity(), wrapped.identity());
  EXPECT_EQ(direct.identity(), with_argument.identity());
  EXPECT_THAT(direct.identity(), Not(HasSubstr(path)));
}

TEST(HostCompilerChoice, TheFirstCandidateThatAnswersIsUsedAndFailuresAreNamed) {
  const ScratchFolder scratch;
  const std::string silent = scratch / "silent", good = scratch / "good";
  ASSERT_TRUE(write_file(silent, "#!/bin/sh\nexit 3\n").ok());
  ASSERT_TRUE(write_file(good, "#!/bin/sh\necho \"good (Test 1-2) $1\"\n").ok());
  chmod(silent.c_str(), 0755);
  chmod(good.c_str(), 0755);
  const HostCompiler second({"/no/such/compiler", silent, good});
  EXPECT_TRUE(second.available().ok());
  EXPECT_THAT(second.identity(), HasSubstr("gcc (Test 1-2) --version"));
  EXPECT_THAT(second.identity(), HasSubstr("-dumpmachine"));
  EXPECT_THAT(second.identity(), HasSubstr("-dumpfullversion"));
  const HostCompiler none({"/no/such/compiler", silent});
  EXPECT_EQ(none.identity(), "");
  EXPECT_EQ(none.available().code(), StatusCode::kNotFound);
  EXPECT_THAT(none.available().message(), HasSubstr("'/no/such/compiler' (not found)"));
  EXPECT_THAT(none.available().message(), HasSubstr("exit code 3"));
  EXPECT_THAT(none.available().message(), HasSubstr("TILEWRIGHT_CXX"));
}

TEST(HostCompilerChoice, AMissingCompilerIsReportedByTheCacheWithTheInstance) {
  const ScratchFolder scratch;
  Counters counters;
  CodeCacheOptions options;
  options.root = scratch / "root";
  HostCompiler none({"/no/such/compiler"});
  CodeCache cache(options, counters);
  EXPECT_FALSE(cache.has(make_request(kToyInstance), none));
  const Status status = cache.get(make_request(kToyInstance, "my kernel"), none).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("my kernel"));
  EXPECT_THAT(status.message(), HasSubstr("TILEWRIGHT_CXX"));
}

// ---- Flags and headers -------------------------------------------------------------------------------------------------

TEST(Flags, TargetFlagsComeFirstAndWordsAreSplit) {
  CompileRequest request = make_request("");
  request.flags = {"  -DX=1 -DY ", "", "-O2"};
  EXPECT_THAT(*all_flags(request), ElementsAre("-march=x86-64", "-DX=1", "-DY", "-O2"));
}

TEST(KernelHeaders, QuotedIncludesAreFoundHoweverTheyAreWritten) {
  EXPECT_THAT(quoted_includes("#include \"a.hpp\"\n  #  include\t\"b/c.hpp\" // x\n#include <d>\n#include \"a.hpp\"\n"
                              "// #include \"e.hpp\"\nint x; #include \"f.hpp\"\n#include \"g.hpp\""),
              ElementsAre("a.hpp", "b/c.hpp", "g.hpp"));
}

std::vector<std::string> paths_of(std::string_view source) {
  auto headers = reachable_headers(source);
  EXPECT_TRUE(headers.ok()) << headers.status().message();
  std::vector<std::string> paths;
  if (headers.ok()) {
    for (const auto& [path, text] : *headers) paths.push_back(path);
  }
  return paths;
}

class KernelFolderTest : public testing::Test {
 protected:
  void add(const std::string& path, const std::string& text) {
    const std::string full = scratch / ("kernels/" + path);
    ASSERT_TRUE(make_folders(full.substr(0, full.rfind('/'))).ok());
    ASSERT_TRUE(write_file(full, text).ok());
  }
  ScratchFolder scratch;
  ScopedVariable folder{"TILEWRIGHT_KERNEL_DIR", scratch / "kernels"};
};

TEST_F(KernelFolderTest, TheClosureIsTransitiveSortedAndSurvivesCycles) {
  add("z.hpp", "#include \"tile/a.hpp\"\n");
  add("tile/a.hpp", "#include \"b.hpp\"\n#include \"../z.hpp\"\n");  // b.hpp: beside the includer first
  add("tile/b.hpp", "#include \"c.hpp\"\n");                         // c.hpp: from the kernel folder
  add("b.hpp", "wrong\n");
  add("c.hpp", "");
  EXPECT_THAT(paths_of("#include \"z.hpp\"\n"), ElementsAre("c.hpp", "tile/a.hpp", "tile/b.hpp", "z.hpp"));
}

TEST_F(KernelFolderTest, AMissingHeaderIsNamedWithItsIncluder) {
  add("a.hpp", "#include \"lost.hpp\"\n");
  const auto headers = reachable_headers("#include \"a.hpp\"\n");
  EXPECT_EQ(headers.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(headers.status().message(), HasSubstr("a.hpp"));
  EXPECT_THAT(headers.status().message(), HasSubstr("lost.hpp"));
  EXPECT_THAT(headers.status().message(), HasSubstr("TILEWRIGHT_KERNEL_DIR"));
}

TEST_F(KernelFolderTest, APathOutOfTheFolderIsNotFollowed) {
  ASSERT_TRUE(write_file(scratch / "outside.hpp", "").ok());
  add("a.hpp", "");
  EXPECT_FALSE(reachable_headers("#include \"../outside.hpp\"\n").ok());
  EXPECT_FALSE(reachable_headers("#include \"" + (scratch / "outside.hpp") + "\"\n").ok());
}

TEST_F(KernelFolderTest, AFolderReplacesTheCarriedHeadersInTheCompileToo) {
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  add("mine/value.hpp", "#include \"tile/more.hpp\"\nconstexpr int kValue = 40 + kMore;\n");
  add("tile/more.hpp", "constexpr int kMore = 2;\n");
  ASSERT_TRUE(make_folders(scratch / "build").ok());
  const Result<std::string> binary = host_compiler().compile(
      make_request("#include \"mine/value.hpp\"\nstatic_assert(kValue == 42);\n"), scratch / "build", nullptr);
  EXPECT_TRUE(binary.ok()) << binary.status().message();
}

}  // namespace
}  // namespace tilewright
