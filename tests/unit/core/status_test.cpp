// SPDX-License-Identifier: MIT
#include "tilewright/status.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace tilewright {
namespace {

TEST(StatusValue, DefaultIsOkAndCarriesNothing) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(static_cast<bool>(status));
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.to_string(), "ok");
}

TEST(StatusValue, ErrorPrintsItsCodeAndMessageAndCopiesShareThem) {
  const Status status(StatusCode::kInvalidArgument, "gemm: a has rank 1; allowed: 2, 3");
  const Status copy = status;
  EXPECT_FALSE(copy.ok());
  EXPECT_EQ(copy.to_string(), "invalid_argument: gemm: a has rank 1; allowed: 2, 3");
  EXPECT_EQ(&copy.message(), &status.message());
}

TEST(StatusValue, OkCodeWithAMessageIsStillOk) { EXPECT_TRUE(Status(StatusCode::kOk, "ignored").ok()); }

TEST(StatusValue, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    names.insert(status_code_name(static_cast<StatusCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(StatusCode::kInternal) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(status_code_name(static_cast<StatusCode>(999)), "unknown");
}

TEST(ResultValue, HoldsAValueThatCanBeMovedOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 5);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultValue, HoldsTheReasonWhenThereIsNoValue) {
  const Result<int> result(Status(StatusCode::kNotFound, "no such kernel"));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
}

TEST(ResultValue, AnOkStatusIsNoValueAndBecomesAnError) {
  const Result<int> result((Status()));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace tilewright
