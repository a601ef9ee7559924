// SPDX-License-Identifier: MIT
// Profiler ranges: who hears them, in which order, and what is left of a trace.
#include "core/profile/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/log.hpp"
#include "jit/system/files.hpp"
#include "jit/system/process.hpp"
#include "support/child_program.hpp"
#include "tilewright/profile.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFakeProfiler = TILEWRIGHT_BINARY_DIR "/tests/libfake_profiler.so";  // tests/support/profiler

// What callbacks heard, thread by thread.
struct Heard {
  std::mutex mutex;
  std::map<std::thread::id, std::vector<std::string>> events;

  void add(std::string event) {
    const std::lock_guard lock(mutex);
    events[std::this_thread::get_id()].push_back(std::move(event));
  }
  ProfileCallbacks callbacks() {
    return {[](void* user, const char* name) { static_cast<Heard*>(user)->add(name); },
            [](void* user) { static_cast<Heard*>(user)->add("pop"); }, this};
  }
};

class Profile : public testing::Test {
 protected:
  ~Profile() override { EXPECT_TRUE(set_profile_callbacks({}).ok()); }
  Heard heard_;
};

TEST_F(Profile, CallbacksHearNestedPairsInOrderOnEachThread) {
  ASSERT_TRUE(set_profile_callbacks(heard_.callbacks()).ok());
  EXPECT_TRUE(profile_enabled());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        const ProfileRange outer("gemm", "plan");
        {
          const ProfileRange inner("gemm", "dispatch");
        }
        const ProfileRange second("gemm", "load", "a key");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(heard_.events.size(), 4u);
  for (const auto& [thread, events] : heard_.events) {
    ASSERT_EQ(events.size(), 50u * 6);
    for (size_t i = 0; i < events.size(); i += 6) {
      EXPECT_THAT(
          std::vector<std::string>(events.begin() + static_cast<long>(i), events.begin() + static_cast<long>(i + 6)),
          ElementsAre("tilewright:gemm:plan", "tilewright:gemm:dispatch", "pop", "tilewright:gemm:load", "pop", "pop"));
    }
  }
}

TEST_F(Profile, ARangeEndsWithTheCallbacksThatItBeganWith) {
  Heard later;
  ASSERT_TRUE(set_profile_callbacks(heard_.callbacks()).ok());
  {
    const ProfileRange range("gemm", "launch");
    ASSERT_TRUE(set_profile_callbacks(later.callbacks()).ok());
  }
  EXPECT_THAT(heard_.events[std::this_thread::get_id()], ElementsAre("tilewright:gemm:launch", "pop"));
  EXPECT_TRUE(later.events.empty());
}

TEST_F(Profile, WhenNobodyListensNothingIsCalled) {
  ASSERT_TRUE(set_profile_callbacks(heard_.callbacks()).ok());
  ASSERT_TRUE(set_profile_callbacks({}).ok());
  EXPECT_FALSE(profile_enabled());
  {
    const ProfileRange range("gemm", "launch");
  }
  EXPECT_TRUE(heard_.events.empty());
}

TEST_F(Profile, OneCallbackWithoutTheOtherIsRefused) {
  const Status status = set_profile_callbacks({[](void*, const char*) {}, nullptr, nullptr});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'pop'"));
}

TEST_F(Profile, LongNamesAreCutAndStayStrings) {
  ASSERT_TRUE(set_profile_callbacks(heard_.callbacks()).ok());
  {
    const ProfileRange range("gemm", std::string(1000, 'x'));
  }
  const std::string& name = heard_.events[std::this_thread::get_id()].front();
  EXPECT_EQ(name.size(), 127u);
}

// ---- TILEWRIGHT_PROFILE, in children: it is read once a process ------------------------------------------------------

int two_ranges() {
  const ProfileRange outer("gemm", "plan");
  const ProfileRange inner("gemm", "load", R"(a "quoted" \ key)");
  return 0;
}
const test::ChildProgram kTwoRanges("profile-two-ranges", two_ranges);

int ranges_of_threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) two_ranges();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
const test::ChildProgram kRangesOfThreads("profile-ranges-of-threads", ranges_of_threads);

int killed() {
  two_ranges();
  return ::raise(SIGKILL);
}
const test::ChildProgram kKilled("profile-killed", killed);

int forked() {
  two_ranges();
  const pid_t child = ::fork();
  if (child == 0) {
    two_ranges();
    std::exit(0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  two_ranges();
  return status;
}
const test::ChildProgram kForked("profile-forked", forked);

class ProfileTools : public testing::Test {
 protected:
  // What the child printed.
  std::string run(const char* program, const std::string& profile, std::vector<std::string> more = {}) {
    ProcessOptions options;
    options.argv = {"/proc/self/exe", program};
    options.folder = scratch_.path();
    options.set = std::move(more);
    options.set.push_back("TILEWRIGHT_PROFILE=" + profile);
    options.set.push_back("TILEWRIGHT_LOG=warn");
    options.set.push_back("FAKE_PROFILER_LOG=" + log_);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    options.argv[0] = self;
    Result<ProcessResult> result = run_process(options);
    if (!result.ok()) return result.status().to_string();
    result_ = *result;
    return result->output;
  }
  std::vector<std::string> heard() const {
    std::vector<std::string> lines;
    std::istringstream text(read_file(log_) ? *read_file(log_) : "");
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  static auto pairs_of(const std::string& api) {
    return ElementsAre(api + " push tilewright:gemm:plan", api + " push tilewright:gemm:load", api + " pop -",
                       api + " pop -");
  }
  std::vector<nlohmann::json> events_of(const std::string& file) const {
    const auto text = read_file(file);
    if (!text.ok()) return {};
    return nlohmann::json::parse(*text).get<std::vector<nlohmann::json>>();
  }

  test::ScratchFolder scratch_;
  const std::string log_ = scratch_ / "heard";
  ProcessResult result_;
};

TEST_F(ProfileTools, NamedLibrariesHearOfNvtxAndRoctxRanges) {
  EXPECT_EQ(run("profile-two-ranges", "nvtx:" + kFakeProfiler), "");
  EXPECT_THAT(heard(), pairs_of("nvtx"));
  std::filesystem::remove(log_);
  EXPECT_EQ(run("profile-two-ranges", "roctx:" + kFakeProfiler), "");
  EXPECT_THAT(heard(), pairs_of("roctx"));
}

TEST_F(ProfileTools, AToolOfNvtx3HearsThroughItsInjectionLibrary) {
  EXPECT_EQ(run("profile-two-ranges", "nvtx", {"NVTX_INJECTION64_PATH=" + kFakeProfiler}), "");
  EXPECT_THAT(heard(), pairs_of("injection"));
}

TEST_F(ProfileTools, LibrariesAreFoundByTheirUsualNames) {
  for (const auto& [tool, file] : {std::pair{"nvtx", "libnvToolsExt.so.1"}, {"roctx", "libroctx64.so.4"}}) {
    std::filesystem::create_symlink(kFakeProfiler, scratch_ / file);
    EXPECT_EQ(run("profile-two-ranges", tool, {"LD_LIBRARY_PATH=" + scratch_.path()}), "");
    EXPECT_THAT(heard(), pairs_of(tool));
    std::filesystem::remove(log_);
  }
}

TEST_F(ProfileTools, AMissingLibraryIsOneWarningAndNothingElse) {
  const std::string output = run("profile-ranges-of-threads", "nvtx:/nowhere/libnone.so");
  EXPECT_EQ(result_.exit_code, 0) << output;
  EXPECT_THAT(output, HasSubstr("'nvtx:/nowhere/libnone.so' is ignored: /nowhere/libnone.so: cannot open"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
}

TEST_F(ProfileTools, AToolThatNobodyKnowsIsNamedWithThoseThatExist) {
  EXPECT_THAT(run("profile-two-ranges", "off,vtune"),
              HasSubstr("'vtune' is ignored: allowed: off, nvtx, roctx, trace"));
}

TEST_F(ProfileTools, OffTellsNobody) {
  EXPECT_EQ(run("profile-two-ranges", "off", {"NVTX_INJECTION64_PATH=" + kFakeProfiler}), "");
  EXPECT_TRUE(heard().empty());
}

TEST_F(ProfileTools, TheTraceFileParsesAndItsEventsNest) {
  const std::string file = scratch_ / "trace.json";
  EXPECT_EQ(run("profile-ranges-of-threads", "trace:" + file), "");
  const std::vector<nlohmann::json> events = events_of(file);
  ASSERT_EQ(events.size(), 4u * 500 * 2);
  std::map<int, std::vector<nlohmann::json>> threads;
  for (const nlohmann::json& event : events) {
    EXPECT_EQ(event["ph"], "X");
    threads[event["tid"]].push_back(event);
  }
  ASSERT_EQ(threads.size(), 4u);
  for (const auto& [thread, own] : threads) {
    // An event is written when it ends: the inner one first.
    for (size_t i = 0; i < own.size(); i += 2) {
      EXPECT_EQ(own[i]["name"], "tilewright:gemm:load");
      EXPECT_EQ(own[i]["args"]["detail"], R"(a "quoted" \ key)");
      EXPECT_EQ(own[i + 1]["name"], "tilewright:gemm:plan");
      const double begin = own[i]["ts"], end = begin + own[i]["dur"].get<double>();
      const double outer = own[i + 1]["ts"], outer_end = outer + own[i + 1]["dur"].get<double>();
      EXPECT_LE(outer, begin);
      EXPECT_LE(end, outer_end + 2e-3) << "times are printed in nanoseconds";
    }
  }
}

TEST_F(ProfileTools, AKilledProgramLeavesATraceThatParses) {
  const std::string file = scratch_ / "trace.json";
  run("profile-killed", "trace:" + file);
  EXPECT_EQ(result_.signal, SIGKILL);
  EXPECT_FALSE(events_of(file).empty());
}

TEST_F(ProfileTools, AForkedChildWritesAFileOfItsOwn) {
  const std::string file = scratch_ / "trace.json";
  EXPECT_EQ(run("profile-forked", "trace:" + file), "");
  EXPECT_EQ(result_.exit_code, 0);
  EXPECT_EQ(events_of(file).size(), 4u);
  int others = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    if (entry.path() == file) continue;
    EXPECT_EQ(events_of(entry.path().string()).size(), 2u) << entry.path();
    ++others;
  }
  EXPECT_EQ(others, 1);
}

TEST_F(ProfileTools, ATraceWithoutANameIsNamedByItsProcess) {
  EXPECT_EQ(run("profile-two-ranges", "trace"), "");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::MatchesRegex("tilewright-trace\\.[0-9]+\\.json"));
    EXPECT_EQ(events_of(entry.path().string()).size(), 2u);
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(ProfileTools, ATraceThatCannotBeWrittenIsOneWarning) {
  const std::string output = run("profile-ranges-of-threads", "trace:/nowhere/trace.json");
  EXPECT_EQ(result_.exit_code, 0);
  EXPECT_THAT(output, HasSubstr("cannot open '/nowhere/trace.json'"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
}

}  // namespace
}  // namespace tilewright
