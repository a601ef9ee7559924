// SPDX-License-Identifier: MIT
// The supervisor's handle on a worker child: protocol, limits, replacement.
#include <gtest/gtest.h>

#include "support/toy_operator.hpp"
#include "tuning/worker/worker_process.hpp"

namespace tilewright {
namespace {

using End = WorkerReply::End;

class WorkerProcessTest : public testing::Test {
 protected:
  WorkerProcessTest() : worker_({test::toy_worker(), {}, 60}) {
    worker_.set_problem(Record("problem")
                            .set("op", "toy")
                            .set("problem", "n=100")
                            .set("units", int64_t{1})
                            .set("seeds", int64_t{2})
                            .set("rotations", int64_t{2}));
  }
  WorkerReply verify(const std::string& kernel, WorkerLimits limits = {}) {
    return worker_.call(Record("verify").set("recipe", test::toy_recipe(kernel)).set("extent", "quick"), limits, {});
  }
  WorkerProcess worker_;
};

TEST_F(WorkerProcessTest, RecordsKeepEveryCharacter) {
  const std::string odd("a\tb\nc\\d=e\r\0f", 12);
  const Record record = Record("verb").set("text", odd).set("number", 0.1).set("integer", int64_t{-5});
  EXPECT_EQ(record.line().find('\n'), std::string::npos);
  Result<Record> back = Record::parse(record.line());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->verb(), "verb");
  EXPECT_EQ(back->get("text"), odd);
  EXPECT_EQ(back->number("number"), 0.1);
  EXPECT_EQ(back->integer("integer"), -5);
  EXPECT_FALSE(back->has("absent"));
  for (const char* damaged : {"", "verb\tfield", "verb\tx=\\q", "verb\tx=\\"})
    EXPECT_FALSE(Record::parse(damaged).ok()) << damaged;
}

TEST_F(WorkerProcessTest, GoodKernelPassesAndIsTimed) {
  EXPECT_EQ(verify("plain").record.integer("passed"), 1);
  const WorkerReply timed = worker_.call(Record("time")
                                             .set("recipes", test::toy_recipe("plain") + " " + test::toy_recipe("slow"))
                                             .set("seconds", 0.01)
                                             .set("min_samples", int64_t{5})
                                             .set("max_samples", int64_t{5}),
                                         {}, {});
  ASSERT_EQ(timed.end, End::kAnswered) << timed.reason;
  for (const char* samples : {"samples0", "samples1"}) {
    const std::string_view text = timed.record.get(samples);
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 5) << text;
  }
  EXPECT_EQ(worker_.starts(), 1);
}

TEST_F(WorkerProcessTest, CrashNamesTheSignalAndTheNextRequestFindsANewWorker) {
  const WorkerReply reply = verify("crash");
  EXPECT_EQ(reply.end, End::kCrashed);
  EXPECT_NE(reply.reason.find("crashed in 'verify' with SIGSEGV"), std::string::npos) << reply.reason;
  EXPECT_EQ(verify("plain").end, End::kAnswered) << "the problem is set up again by itself";
  EXPECT_EQ(worker_.starts(), 2);
}

TEST_F(WorkerProcessTest, TimeLimitKillsAndNamesIt) {
  const WorkerReply reply = verify("hang", {0.2, int64_t{1} << 30});
  EXPECT_EQ(reply.end, End::kTimedOut);
  EXPECT_NE(reply.reason.find("0.2 s"), std::string::npos) << reply.reason;
  EXPECT_EQ(verify("plain").end, End::kAnswered);
}

TEST_F(WorkerProcessTest, MemoryLimitKillsAndNamesIt) {
  const WorkerReply reply = verify("memory", {30, int64_t{64} << 20});
  EXPECT_EQ(reply.end, End::kOutOfMemory);
  EXPECT_NE(reply.reason.find("64 MiB"), std::string::npos) << reply.reason;
  EXPECT_EQ(verify("plain").end, End::kAnswered);
}

TEST_F(WorkerProcessTest, RefusalsCarryTheWorkersWords) {
  EXPECT_EQ(verify("refuses").end, End::kRefused);
  const WorkerReply unknown = worker_.call(Record("dance"), {}, {});
  EXPECT_EQ(unknown.end, End::kRefused);
  EXPECT_NE(unknown.reason.find("'dance'"), std::string::npos);
  worker_.set_problem(Record("problem").set("op", "nothing"));
  const WorkerReply reply = verify("plain");
  EXPECT_EQ(reply.end, End::kNoWorker);
  EXPECT_NE(reply.reason.find("no operator 'nothing'"), std::string::npos) << reply.reason;
}

TEST_F(WorkerProcessTest, SeveralWorkersRunAtOnce) {
  WorkerProcess other({test::toy_worker(), {}, 60});
  other.set_problem(Record("problem")
                        .set("op", "toy")
                        .set("problem", "n=100")
                        .set("units", int64_t{1})
                        .set("seeds", int64_t{2})
                        .set("rotations", int64_t{0}));
  const Record compile = Record("compile").set("recipe", test::toy_recipe("plain"));
  worker_.begin(compile, {}, {});
  other.begin(compile, {}, {});
  WorkerProcess* both[] = {&worker_, &other};
  int answered = 0;
  while (worker_.busy() || other.busy()) {
    WorkerProcess::wait(both, {});
    for (WorkerProcess* w : both) {
      if (w->ready()) answered += w->take().end == End::kAnswered;
    }
  }
  EXPECT_EQ(answered, 2);
}

TEST_F(WorkerProcessTest, MissingProgramIsAnError) {
  WorkerProcess missing({{"/nonexistent/program"}, {}, 5});
  const Status status = missing.ensure({});
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("/nonexistent/program"), std::string::npos);
}

}  // namespace
}  // namespace tilewright
