// SPDX-License-Identifier: MIT
#include "core/fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "gemm/gemm_args.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

struct Sample {
  DType dtype;
  bool packed;
  int8_t small;
  int64_t large;
  float scale;
  double exact;
  bool operator==(const Sample&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("packed", self.packed);
    visit("small", self.small);
    visit("large", self.large);
    visit("scale", self.scale);
    visit("exact", self.exact);
  }
};

constexpr Sample kSample{DType::kBf16, true, -5, INT64_MIN, 0.1f, 1e300};
constexpr const char* kSampleText = "dtype=bf16:packed=1:small=-5:large=-9223372036854775808:scale=0.1:exact=1e+300";

TEST(Fields, PrintIsStableBecauseTablesStoreIt) {
  EXPECT_EQ(print_fields(kSample), kSampleText);
  EXPECT_EQ(print_fields(GemmCpuConfig{DType::kBf16, CpuMma::kAmxBf16, 32, 32, 0}),
            "dtype=bf16:mma=amx_bf16:tile_m=32:tile_n=32:prefetch=0");
}

TEST(Fields, ParseIsTheInverseOfPrint) {
  Sample parsed{};
  const Status status = parse_fields(kSampleText, parsed);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(parsed, kSample);
}

TEST(Fields, EveryFloatParsesBackToItself) {
  std::mt19937 random(11);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (value != value) continue;
    float parsed = 0;
    ASSERT_TRUE(fields_detail::parse_value(fmt::format("{}", value), parsed).ok());
    ASSERT_EQ(parsed, value);
  }
}

TEST(Fields, ParseRefusesWhatPrintWouldNotSayAndNamesTheField) {
  const struct {
    const char *from, *to, *message;
  } kCases[] = {
      {"bf16", "fp99", "field 'dtype': 'fp99' is none of: none, f32"},
      {"packed=1", "packed=2", "field 'packed': 2 is outside [0, 1]"},
      {"packed=1:", "", "expected field 'packed', got 'small=-5'"},
      {"small=-5", "small=-129", "field 'small': -129 is outside [-128, 127]"},
      {"small=-5", "small=5x", "field 'small': '5x' is not an integer"},
      {"small=-5", "small=", "field 'small': '' is not an integer"},
      {"-9223372036854775808", "9223372036854775808", "field 'large': 9223372036854775808 is outside"},
      {"scale=0.1", "scale=0.1f", "field 'scale': '0.1f' is not a number"},
      {"1e+300", "1e+999", "field 'exact': '1e+999' is not a number in range"},
      {"exact=1e+300", "exact=1:more=2", "unexpected text after the last field: 'more=2'"},
      {":exact=1e+300", "", "expected field 'exact', got ''"},
  };
  for (const auto& c : kCases) {
    std::string text = kSampleText;
    text.replace(text.find(c.from), std::string(c.from).size(), c.to);
    Sample parsed{};
    const Status status = parse_fields(text, parsed);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(c.message)) << text;
  }
}

TEST(Fields, CppInitializerBuildsTheSameStruct) {
  EXPECT_EQ(cpp_initializer(GemvCpuConfig{DType::kI8, CpuMma::kDotI8, true, 4, 2, 0}),
            "{.dtype=decltype(tilewright::GemvCpuConfig::dtype)(8 /* i8 */), "
            ".mma=decltype(tilewright::GemvCpuConfig::mma)(4 /* dot_i8_vnni */), "
            ".packed=true, .rows=4, .panels=2, .prefetch=0}");
  // The text above, compiled.
  constexpr GemvCpuConfig kConfig{.dtype = decltype(tilewright::GemvCpuConfig::dtype)(8 /* i8 */),
                                  .mma = decltype(tilewright::GemvCpuConfig::mma)(4 /* dot_i8_vnni */),
                                  .packed = true,
                                  .rows = 4,
                                  .panels = 2,
                                  .prefetch = 0};
  static_assert(kConfig == GemvCpuConfig{DType::kI8, CpuMma::kDotI8, true, 4, 2, 0});
}

}  // namespace
}  // namespace tilewright
