// SPDX-License-Identifier: MIT
#include "core/text_fields.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

struct Taken {
  int64_t m = -1;
  DType x = DType::kNone;
  bool flag = false;
  std::string_view strides;

  Status take(std::string_view text) {
    return for_each_text_field(text, [this](TextField& field) {
      field.read("m", m), field.read("x", x), field.read("flag", flag), field.read("sx", strides);
    });
  }
};

TEST(TextFields, StandInAnyOrderAndMayBeLeftOut) {
  Taken all;
  ASSERT_TRUE(all.take("sx=1.2:flag=1:x=bf16:m=7").ok());
  EXPECT_EQ(all.m, 7);
  EXPECT_EQ(all.x, DType::kBf16);
  EXPECT_TRUE(all.flag);
  EXPECT_EQ(all.strides, "1.2");

  Taken one;
  ASSERT_TRUE(one.take("m=3").ok());
  EXPECT_EQ(one.m, 3);
  EXPECT_EQ(one.x, DType::kNone);
  Taken none;
  ASSERT_TRUE(none.take("").ok());
  EXPECT_EQ(none.m, -1);
}

TEST(TextFields, ARefusalBeginsWithTheFieldAndIsTheLastOneRead) {
  const struct {
    const char *text, *message;
  } kCases[] = {
      {"m=3:k=4:flag=1", "k=4: none of its fields"},   {"m=3::flag=1", ": none of its fields"},
      {"m=3x:flag=1", "m=3x: '3x' is not an integer"}, {"m:flag=1", "m: '' is not an integer"},
      {"m=1:flag=2", "flag=2: 2 is outside [0, 1]"},   {"M=1", "M=1: none of its fields"},
  };
  for (const auto& c : kCases) {
    Taken taken;
    const Status status = taken.take(c.text);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_EQ(status.message(), c.message) << c.text;
    EXPECT_FALSE(taken.flag) << c.text;  // no field behind a refused one is read
  }
}

}  // namespace
}  // namespace tilewright
