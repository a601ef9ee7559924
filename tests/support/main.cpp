// SPDX-License-Identifier: MIT
// main() of every test program: GoogleTest's, except that a run in which every test was skipped ends with 77, which
// ctest reports as skipped instead of passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/child_program.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (argc == 2) {
    const auto& children = tilewright::test::child_programs();
    if (const auto child = children.find(argv[1]); child != children.end()) return child->second();
  }
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) return failed;
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  const bool all_skipped = run.skipped_test_count() > 0 && run.successful_test_count() == 0;
  return all_skipped ? kSkipped : 0;
}
