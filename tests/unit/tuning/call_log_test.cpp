// SPDX-License-Identifier: MIT
// Shapes from a program's log: what is counted, what is passed over.
#include <gtest/gtest.h>

#include "core/log.hpp"
#include "dispatch/problem_instance.hpp"
#include "support/toy_operator.hpp"
#include "tuning/capture/call_log.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

TEST(CallLog, CallsAreCountedAndThoseThatTookMostTimeComeFirst) {
  const CallLog log = parse_call_log(
      "tilewright info call: gemm,m=1:n=2:k=3,cost,gemm/f/t/s/c,10.00\n"
      "tilewright info call: gemm,m=4:n=2:k=3,tuned,gemm/f/t/s/c,500.5\r\n"
      "tilewright info call: gemm,m=1:n=2:k=3,generic,gemm/f/t/s/c,20\n");
  ASSERT_EQ(log.calls.size(), 2u);
  EXPECT_EQ(log.calls[0].problem, "m=4:n=2:k=3");
  EXPECT_EQ(log.calls[0].calls, 1);
  EXPECT_DOUBLE_EQ(log.calls[0].total_us, 500.5);
  EXPECT_EQ(log.calls[1].calls, 2);
  EXPECT_DOUBLE_EQ(log.calls[1].total_us, 30);
  EXPECT_EQ(log.calls[1].source, "generic");
  EXPECT_EQ(log.lines, 3);
  EXPECT_EQ(log.damaged, 0);
}

TEST(CallLog, OtherLinesAreNoneAndATornOneCostsItself) {
  const CallLog log = parse_call_log(
      "server: listening\n"
      "tilewright warn tuned: row ignored: call: gemm,x\n"
      "12:00:01 worker-3 | tilewright info call: gemm,m=1:n=2:k=3,cost,r,1.5\n"
      "tilewright info call: gemm,m=1:n=2:k=3,cost,r\n"
      "tilewright info call: gemm,m=1:n=2:k=3,cost,r,fast\n"
      "tilewright info call: gemm,m=1:n=2:k=3,cost,r,1,2\n"
      "tilewright info call: ,m=1:n=2:k=3,cost,r,1\n"
      "tilewright info call: gemm,m=1:n=2:k=3,cost,r,-1\n"
      "tilewright info call: gem");
  ASSERT_EQ(log.calls.size(), 1u);
  EXPECT_EQ(log.calls[0].calls, 1);
  EXPECT_EQ(log.lines, 7);
  EXPECT_EQ(log.damaged, 6);
  EXPECT_TRUE(parse_call_log("").calls.empty());
}

TEST(CallLog, WhatTheLibraryLogsIsRead) {
  const test::ScratchFolder folder;
  test::offer_toy_kernels({"plain"});
  const std::unique_ptr<ContextImpl> context = test::toy_context(folder.path());
  ASSERT_NE(context, nullptr);
  const Operator& op = test::toy_operator();
  const std::vector<std::byte> problem = test::toy_problem(64);
  auto instance = op.instantiate(problem, context->device(), {});
  ASSERT_TRUE(instance.ok());
  (*instance)->fill(1, InputData::kNormal);
  const LogLevel before = log_enabled(LogLevel::kInfo) ? LogLevel::kInfo : LogLevel::kOff;
  testing::internal::CaptureStderr();
  set_log_level(LogLevel::kInfo);
  const Status status = context->run(op, problem, (*instance)->bindings(0), {}, "");
  set_log_level(before);
  const CallLog log = parse_call_log(testing::internal::GetCapturedStderr());
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(log.calls.size(), 1u);
  EXPECT_EQ(log.damaged, 0);
  EXPECT_EQ(log.calls[0].op, op.name());
  EXPECT_EQ(log.calls[0].problem, op.problem_text(problem));
  EXPECT_GT(log.calls[0].total_us, 0);
}

}  // namespace
}  // namespace tilewright
