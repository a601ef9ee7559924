// SPDX-License-Identifier: MIT
// TILEWRIGHT_LOG is read once a process, so what it does is seen in children of this program.
#include "core/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

struct ChildRun {
  std::string out, err;
};

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string scratch(const std::string& name) {
  return fmt::format("{}tilewright_log_{}_{}", testing::TempDir(), ::getpid(), name);
}

// Runs one DISABLED_ test of this program with TILEWRIGHT_LOG set.
ChildRun run_child(const char* test, const char* log) {
  const std::string out = scratch("out"), err = scratch("err");
  const std::string command = fmt::format(
      "{} /proc/{}/exe --gtest_also_run_disabled_tests --gtest_brief=1 --gtest_filter=LogOutput.DISABLED_Child{} >{} "
      "2>{}",
      log == nullptr ? std::string("env -u TILEWRIGHT_LOG") : fmt::format("TILEWRIGHT_LOG='{}'", log), ::getpid(), test,
      out, err);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  ChildRun run{slurp(out), slurp(err)};
  ::unlink(out.c_str());
  ::unlink(err.c_str());
  return run;
}

TEST(LogOutput, DISABLED_ChildOneLineALevel) {
  log(LogLevel::kError, "gemm", "e{}", 1);
  log(LogLevel::kWarn, "gemm", "w{}", 2);
  log(LogLevel::kInfo, "gemm", "i{}\nsecond", 3);
  log(LogLevel::kDebug, "gemm", "d{}", 4);
  log(LogLevel::kOff, "gemm", "never");
}

TEST(LogOutput, DISABLED_ChildManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) log(LogLevel::kInfo, "thread", "{}", std::string(100, static_cast<char>('a' + t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LogOutput, NothingIsPrintedUnlessAsked) {
  EXPECT_EQ(run_child("OneLineALevel", nullptr).err, "");
  EXPECT_EQ(run_child("OneLineALevel", "off").err, "");
  EXPECT_EQ(run_child("OneLineALevel", "").err, "");
}

TEST(LogOutput, ALevelShowsItselfAndWorseOneLineAnEvent) {
  EXPECT_EQ(run_child("OneLineALevel", "info").err,
            "tilewright error gemm: e1\ntilewright warn gemm: w2\ntilewright info gemm: i3\\nsecond\n");
  EXPECT_EQ(run_child("OneLineALevel", "error").err, "tilewright error gemm: e1\n");
  EXPECT_THAT(run_child("OneLineALevel", "debug").err, HasSubstr("debug gemm: d4\n"));
}

TEST(LogOutput, APathTakesTheLinesAndKeepsOlderOnes) {
  const std::string path = scratch("file");
  EXPECT_EQ(run_child("OneLineALevel", ("error:" + path).c_str()).err, "");
  EXPECT_EQ(run_child("OneLineALevel", ("error:" + path).c_str()).err, "");
  EXPECT_EQ(slurp(path), "tilewright error gemm: e1\ntilewright error gemm: e1\n");
  ::unlink(path.c_str());
}

TEST(LogOutput, APathThatCannotBeOpenedIsNamedAndStandardErrorServes) {
  const ChildRun run = run_child("OneLineALevel", "error:/nonexistent/folder/log");
  EXPECT_THAT(run.err, HasSubstr("'/nonexistent/folder/log', which cannot be opened (No such file or directory)"));
  EXPECT_THAT(run.err, HasSubstr("tilewright error gemm: e1\n"));
}

TEST(LogOutput, AnUnknownLevelIsNamedWithTheAllowedOnes) {
  const ChildRun run = run_child("OneLineALevel", "verbose");
  EXPECT_THAT(run.err, HasSubstr("TILEWRIGHT_LOG='verbose' names no level; allowed: off, error, warn, info, debug"));
  EXPECT_THAT(run.err, Not(HasSubstr("e1")));
}

TEST(LogOutput, LinesOfSeveralThreadsDoNotMix) {
  std::istringstream lines(run_child("ManyThreads", "info").err);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string text = line.substr(std::string("tilewright info thread: ").size());
    ASSERT_EQ(text, std::string(100, text.at(0)));
  }
  EXPECT_EQ(count, 2000);
}

TEST(LogLevels, CanBeChangedWhileRunning) {
  set_log_level(LogLevel::kWarn);
  EXPECT_TRUE(log_enabled(LogLevel::kError));
  EXPECT_TRUE(log_enabled(LogLevel::kWarn));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_FALSE(log_enabled(LogLevel::kOff));
  set_log_level(LogLevel::kOff);
  EXPECT_FALSE(log_enabled(LogLevel::kError));
}

TEST(LogLevels, AWarningThatStandsOnceIsNewOnlyOnce) {
  EXPECT_TRUE(log_first_time("log_test: a"));
  EXPECT_FALSE(log_first_time("log_test: a"));
  EXPECT_TRUE(log_first_time("log_test: b"));
}

}  // namespace
}  // namespace tilewright
