// SPDX-License-Identifier: MIT
// Weights of AWQ, GPTQ and AITER to plain ones and back: each against the format written down a second time, element by
// element, and gemm of what came in against the dequantised values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "op/gemm/built_context.hpp"
#include "tile/common/numeric.hpp"
#include "tilewright/stored_weights.hpp"
#include "tilewright/tilewright.h"

namespace tilewright {
namespace {

using test::built_context;
using testing::HasSubstr;

// Column n of a word in AWQ stands at nibble kAwqNibble[n % 8].
constexpr int kAwqNibble[] = {0, 4, 1, 5, 2, 6, 3, 7};

// A quantised weight as integers, and as AWQ or GPTQ store it.
struct Quantised {
  WeightFormat format;
  int bits;
  int64_t k, n, groups;
  std::vector<int> codes, zeros;  // [K, N], [G, N]; zero points as they mean
  std::vector<int32_t> words, zero_words;
  std::vector<int32_t> group_of;  // [K]

  int64_t per_word() const { return 32 / bits; }
  int shift(int64_t n_or_k) const {
    return bits * (format == WeightFormat::kAwq ? kAwqNibble[n_or_k % 8] : static_cast<int>(n_or_k % per_word()));
  }
  void store() {
    const bool awq = format == WeightFormat::kAwq;
    words.assign(static_cast<size_t>(k * n / per_word()), 0);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = awq ? i * (n / 8) + j / 8 : i / per_word() * n + j;
        words[at] |= static_cast<int32_t>(static_cast<uint32_t>(codes[i * n + j]) << shift(awq ? j : i));
      }
    }
    const int less = format == WeightFormat::kGptq ? 1 : 0;
    zero_words.assign(static_cast<size_t>(groups * n / per_word()), 0);
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t j = 0; j < n; ++j) {
        zero_words[g * (n / per_word()) + j / per_word()] |=
            static_cast<int32_t>(static_cast<uint32_t>(zeros[g * n + j] - less) << shift(j));
      }
    }
  }
  StoredWeights stored() {
    const bool awq = format == WeightFormat::kAwq;
    StoredWeights out;
    out.format = format;
    out.weight =
        TensorView::contiguous(words.data(), DType::kI32, {awq ? k : k / per_word(), awq ? n / per_word() : n});
    out.zeros = TensorView::contiguous(zero_words.data(), DType::kI32, {groups, n / per_word()});
    return out;
  }
};

Quantised random_weight(WeightFormat format, int bits, int64_t k, int64_t n, int64_t groups, unsigned seed) {
  std::mt19937 random(seed);
  Quantised w{format, bits, k, n, groups, {}, {}, {}, {}, {}};
  const int less = format == WeightFormat::kGptq ? 1 : 0, most = (1 << bits) - 1;
  std::uniform_int_distribution<int> code(0, most), zero(less, most + less);
  for (int64_t i = 0; i < k * n; ++i) w.codes.push_back(code(random));
  for (int64_t i = 0; i < groups * n; ++i) w.zeros.push_back(zero(random));
  if (groups > 0 && n > 0) w.zeros.front() = most + less;  // the largest there is
  for (int64_t i = 0; i < k; ++i) w.group_of.push_back(static_cast<int32_t>(i * groups / k));
  w.store();
  return w;
}

// Memory of a plain tensor, poisoned, with neighbours along K or N and room behind each line.
struct Plain {
  std::vector<uint8_t> bytes;
  TensorView view;
  Plain(DType dtype, int64_t k, int64_t n, bool along_k, int64_t room) {
    const int64_t line = ((along_k ? k : n) + 1) / 2 * 2 + room;
    bytes.assign(static_cast<size_t>(dtype_bytes(dtype, line * std::max<int64_t>(along_k ? n : k, 1))), 0xA5);
    view = TensorView::strided(bytes.data(), dtype, {k, n}, {along_k ? 1 : line, along_k ? line : 1});
  }
  double at(int64_t k, int64_t n) const {
    return load_element(view.dtype, view.data, k * view.stride[0] + n * view.stride[1]);
  }
};

class WordFormats : public testing::TestWithParam<std::pair<WeightFormat, int>> {};

TEST_P(WordFormats, EachCodeAndZeroPointComesInAndGoesBack) {
  const auto [format, bits] = GetParam();
  for (const auto& [k, n, groups] : {std::array<int64_t, 3>{8, 8, 1}, {136, 200, 17}, {320, 72, 5}, {64, 8, 64}}) {
    for (const DType dtype : {DType::kU4, DType::kI4, DType::kI8}) {
      if ((dtype == DType::kI8) != (bits == 8)) continue;
      for (const bool along_k : {true, false}) {
        SCOPED_TRACE(testing::Message() << k << " x " << n << " " << dtype_name(dtype) << (along_k ? " nk" : " kn"));
        Quantised w = random_weight(format, bits, k, n, groups, static_cast<unsigned>(k + n));
        const int less = dtype == DType::kU4 ? 0 : 1 << (bits - 1);
        Plain b(dtype, k, n, along_k, 4), zero(DType::kF16, groups, n, along_k, 0);
        const Status in = import_weights(built_context(), w.stored(), {b.view, zero.view, {}});
        ASSERT_TRUE(in.ok()) << in.to_string();
        for (int64_t i = 0; i < k * n; ++i) ASSERT_EQ(b.at(i / n, i % n), w.codes[i] - less) << i;
        for (int64_t i = 0; i < groups * n; ++i) ASSERT_EQ(zero.at(i / n, i % n), w.zeros[i] - less) << i;
        if (dtype_bits(dtype) == 4) {
          EXPECT_EQ(b.bytes[(along_k ? k : n) / 2], 0xA5) << "bytes behind a line are written";
        }

        Quantised back = w;
        std::fill(back.words.begin(), back.words.end(), -1);
        std::fill(back.zero_words.begin(), back.zero_words.end(), 0x5A5A5A5A);
        const Status out = export_weights(built_context(), {b.view, zero.view, {}}, back.stored());
        ASSERT_TRUE(out.ok()) << out.to_string();
        EXPECT_EQ(back.words, w.words);
        EXPECT_EQ(back.zero_words, w.zero_words);
      }
    }
  }
}

TEST_P(WordFormats, ZeroPointsThatATypeCannotHoldAreRefused) {
  const auto [format, bits] = GetParam();
  const DType dtype = bits == 4 ? DType::kU4 : DType::kI8;
  Quantised w = random_weight(format, bits, 64, 16, 2, 5);
  Plain b(dtype, 64, 16, true, 0), narrow(dtype, 2, 16, true, 0);
  const Status in = import_weights(built_context(), w.stored(), {b.view, narrow.view, {}});
  // Only GPTQ's first form has one more than a code: 16 of 4 bits, 128 of 8 less 128.
  if (format != WeightFormat::kGptq) {
    EXPECT_TRUE(in.ok()) << in.to_string();
  } else {
    EXPECT_THAT(in.to_string(), HasSubstr(bits == 4 ? "group 0, column 0 is 16, which u4 does not hold"
                                                    : "group 0, column 0 is 128, which i8 does not hold"));
  }
}

TEST_P(WordFormats, SymmetricWeightsNeedNoZeroPoints) {
  const auto [format, bits] = GetParam();
  const int half = 1 << (bits - 1);
  Quantised w = random_weight(format, bits, 64, 16, 2, 6);
  std::fill(w.zeros.begin(), w.zeros.end(), half);
  w.store();
  Plain b(bits == 4 ? DType::kI4 : DType::kI8, 64, 16, true, 0);
  const Status in = import_weights(built_context(), w.stored(), {b.view, {}, {}});
  ASSERT_TRUE(in.ok()) << in.to_string();
  for (int64_t i = 0; i < 64 * 16; ++i) ASSERT_EQ(b.at(i / 16, i % 16), w.codes[i] - half);
  // Without stored ones too, and the way back fills them in.
  StoredWeights bare = w.stored();
  bare.zeros = {};
  EXPECT_TRUE(import_weights(built_context(), bare, {b.view, {}, {}}).ok());
  Quantised back = w;
  std::fill(back.zero_words.begin(), back.zero_words.end(), 0);
  ASSERT_TRUE(export_weights(built_context(), {b.view, {}, {}}, back.stored()).ok());
  EXPECT_EQ(back.zero_words, w.zero_words);
  // One that is not half of the range cannot be left out.
  w.zeros[17] = half + 1;
  w.store();
  EXPECT_THAT(import_weights(built_context(), w.stored(), {b.view, {}, {}}).to_string(),
              HasSubstr("the zero point of group 1, column 1 is 1, not 0: argument 'zero_b' is needed"));
}

INSTANTIATE_TEST_SUITE_P(Formats, WordFormats,
                         testing::Values(std::pair{WeightFormat::kAwq, 4}, std::pair{WeightFormat::kGptq, 4},
                                         std::pair{WeightFormat::kGptq, 8}, std::pair{WeightFormat::kGptqV2, 4},
                                         std::pair{WeightFormat::kGptqV2, 8}),
                         [](const auto& info) {
                           return std::string(weight_format_name(info.param.first)) + "_" +
                                  std::to_string(info.param.second);
                         });

TEST(StoredWeightsTest, ActOrderBringsTheRowsOfAGroupTogether) {
  constexpr int64_t kK = 200, kN = 24, kGroup = 64;  // the last group is short
  Quantised w = random_weight(WeightFormat::kGptqV2, 4, kK, kN, 4, 9);
  for (int64_t i = 0; i < kK; ++i) w.group_of[i] = static_cast<int32_t>(i / kGroup);
  std::shuffle(w.group_of.begin(), w.group_of.end(), std::mt19937(3));
  StoredWeights stored = w.stored();
  stored.group_index = TensorView::contiguous(w.group_of.data(), DType::kI32, {kK});
  Plain b(DType::kU4, kK, kN, true, 0), zero(DType::kU4, 4, kN, false, 0);
  EXPECT_THAT(import_weights(built_context(), stored, {b.view, zero.view, {}}).to_string(),
              HasSubstr("'group_index' mixes groups along K: argument 'order' is needed"));
  std::vector<int32_t> order(kK, -1);
  const TensorView order_view = TensorView::contiguous(order.data(), DType::kI32, {kK});
  const Status in = import_weights(built_context(), stored, {b.view, zero.view, order_view});
  ASSERT_TRUE(in.ok()) << in.to_string();
  std::vector<bool> seen(kK);
  for (int64_t i = 0; i < kK; ++i) {
    ASSERT_TRUE(order[i] >= 0 && order[i] < kK && !seen[order[i]]);
    seen[order[i]] = true;
    EXPECT_EQ(w.group_of[order[i]], i / kGroup);
    for (int64_t j = 0; j < kN; ++j) ASSERT_EQ(b.at(i, j), w.codes[order[i] * kN + j]);
  }
  // Where the rows lie in groups already, the order is none.
  for (int64_t i = 0; i < kK; ++i) w.group_of[i] = static_cast<int32_t>(i / kGroup);
  EXPECT_TRUE(import_weights(built_context(), stored, {b.view, zero.view, {}}).ok());
  ASSERT_TRUE(import_weights(built_context(), stored, {b.view, zero.view, order_view}).ok());
  for (int64_t i = 0; i < kK; ++i) ASSERT_EQ(order[i], i);
}

TEST(StoredWeightsTest, GemmOfWhatCameInIsThatOfTheDequantisedValues) {
  constexpr int64_t kM = 3, kK = 256, kN = 40, kGroup = 64, kGroups = 4;
  for (const WeightFormat format : {WeightFormat::kAwq, WeightFormat::kGptq}) {
    SCOPED_TRACE(weight_format_name(format));
    Quantised w = random_weight(format, 4, kK, kN, kGroups, 11);
    StoredWeights stored = w.stored();
    if (format == WeightFormat::kGptq) {
      std::shuffle(w.group_of.begin(), w.group_of.end(), std::mt19937(4));
      stored.group_index = TensorView::contiguous(w.group_of.data(), DType::kI32, {kK});
    }
    Plain b(DType::kU4, kK, kN, true, 0), zero(DType::kI8, kGroups, kN, false, 0);
    std::vector<int32_t> order(kK);
    const TensorView order_view = TensorView::contiguous(order.data(), DType::kI32, {kK});
    ASSERT_TRUE(import_weights(built_context(), stored, {b.view, zero.view, order_view}).ok());

    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<f16> a(kM * kK), ordered(kM * kK), scale(kGroups * kN);
    for (f16& value : a) value = narrow<f16>(normal(random));
    for (f16& value : scale) value = narrow<f16>(0.01F + 0.01F * std::abs(normal(random)));
    for (int64_t i = 0; i < kM * kK; ++i) ordered[i] = a[i / kK * kK + order[i % kK]];
    std::vector<float> d(kM * kN, NAN);
    GemmCall call;
    call.a = TensorView::contiguous(ordered.data(), DType::kF16, {kM, kK});
    call.b = b.view;
    call.d = TensorView::contiguous(d.data(), DType::kF32, {kM, kN});
    call.scale_b = TensorView::contiguous(scale.data(), DType::kF16, {kGroups, kN});
    call.scale_group_b = {1, kGroup};
    call.zero_b = zero.view;
    const Status status = gemm(built_context(), call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (int64_t m = 0; m < kM; ++m) {
      for (int64_t n = 0; n < kN; ++n) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < kK; ++k) {
          const int64_t group = w.group_of[k];
          const double term =
              widen(a[m * kK + k]) * (w.codes[k * kN + n] - w.zeros[group * kN + n]) * widen(scale[group * kN + n]);
          sum += term, size += std::abs(term);
        }
        ASSERT_NEAR(d[m * kN + n], sum, kK * 0x1p-23 * size) << m << ", " << n;
      }
    }
  }
}

// AITER's own words: view(-1, N / 16, 16, K / 32, pieces, values of a piece).permute(0, 1, 3, 4, 2, 5), a piece 16 bytes.
TEST(StoredWeightsTest, AiterWeightsComeInAndGoBack) {
  for (const auto& [dtype, batch] :
       {std::pair{DType::kBf16, 1}, {DType::kF8E4M3, 3}, {DType::kF4E2M1, 2}, {DType::kI8, 1}}) {
    SCOPED_TRACE(dtype_name(dtype));
    const int64_t n = 48, k = 192, size = dtype_bits(dtype) == 16 ? 2 : 1;
    const int64_t row = dtype_bytes(dtype, k), values = row / size;  // elements as AITER counts them
    std::vector<uint8_t> plain(static_cast<size_t>(batch * n * row)), shuffled, got(plain.size(), 0xA5),
        back(plain.size());
    std::mt19937 random(2);
    for (uint8_t& byte : plain) byte = static_cast<uint8_t>(random());
    const int64_t piece = 16 / size, pieces = 32 / piece;
    for (int64_t e = 0; e < batch; ++e) {
      for (int64_t n0 = 0; n0 < n / 16; ++n0) {
        for (int64_t k0 = 0; k0 < values / 32; ++k0) {
          for (int64_t p = 0; p < pieces; ++p) {
            for (int64_t n1 = 0; n1 < 16; ++n1) {
              const int64_t from = (e * n + n0 * 16 + n1) * row + (k0 * 32 + p * piece) * size;
              shuffled.insert(shuffled.end(), plain.begin() + from, plain.begin() + from + 16);
            }
          }
        }
      }
    }
    StoredWeights stored;
    stored.format = WeightFormat::kAiter;
    stored.weight = TensorView::contiguous(shuffled.data(), dtype, {batch, n, k});
    PlainWeights weight;
    weight.b = TensorView::contiguous(got.data(), dtype, {batch, n, k}).transposed();
    const Status in = import_weights(built_context(), stored, weight);
    ASSERT_TRUE(in.ok()) << in.to_string();
    EXPECT_EQ(got, plain);
    stored.weight.data = back.data();
    ASSERT_TRUE(export_weights(built_context(), weight, stored).ok());
    EXPECT_EQ(back, shuffled);
  }
}

// AITER's own words: padded to 256 x 8, view(R / 32, 2, 16, C / 8, 2, 4).permute(0, 3, 5, 2, 4, 1).
TEST(StoredWeightsTest, AiterScalesComeInAndGoBack) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{256, 8}, {300, 13}, {1, 1}}) {
    const int64_t r = (rows + 255) / 256 * 256, c = (columns + 7) / 8 * 8;
    std::vector<uint8_t> scale(static_cast<size_t>(rows * columns)), shuffled, got(scale.size(), 0xA5);
    std::mt19937 random(7);
    for (uint8_t& byte : scale) byte = static_cast<uint8_t>(random());
    for (int64_t r0 = 0; r0 < r / 32; ++r0) {
      for (int64_t c0 = 0; c0 < c / 8; ++c0) {
        for (int64_t c2 = 0; c2 < 4; ++c2) {
          for (int64_t r2 = 0; r2 < 16; ++r2) {
            for (int64_t c1 = 0; c1 < 2; ++c1) {
              for (int64_t r1 = 0; r1 < 2; ++r1) {
                const int64_t at_row = r0 * 32 + r1 * 16 + r2, at_column = c0 * 8 + c1 * 4 + c2;
                shuffled.push_back(at_row < rows && at_column < columns ? scale[at_row * columns + at_column] : 0);
              }
            }
          }
        }
      }
    }
    StoredWeights stored;
    stored.format = WeightFormat::kAiterScales;
    stored.weight = TensorView::contiguous(shuffled.data(), DType::kE8M0, {r, c});
    PlainWeights plain;
    plain.b = TensorView::contiguous(got.data(), DType::kE8M0, {rows, columns}).transposed();
    const Status in = import_weights(built_context(), stored, plain);
    ASSERT_TRUE(in.ok()) << in.to_string();
    EXPECT_EQ(got, scale);
    std::vector<uint8_t> back(shuffled.size(), 0xA5);
    stored.weight.data = back.data();
    ASSERT_TRUE(export_weights(built_context(), plain, stored).ok());
    EXPECT_EQ(back, shuffled);
  }
}

TEST(StoredWeightsTest, NothingIsWrittenForEmptyWeights) {
  Quantised w = random_weight(WeightFormat::kAwq, 4, 0, 16, 0, 1);
  StoredWeights stored = w.stored();
  stored.zeros = {};
  PlainWeights plain;
  plain.b = TensorView::contiguous(nullptr, DType::kU4, {0, 16});
  EXPECT_TRUE(import_weights(built_context(), stored, plain).ok());
  EXPECT_TRUE(export_weights(built_context(), plain, stored).ok());
}

TEST(StoredWeightsTest, RefusalsNameFormatArgumentAndWhatIsAllowed) {
  const auto refusal = [](const StoredWeights& stored, const PlainWeights& plain) {
    return import_weights(built_context(), stored, plain).to_string();
  };
  Quantised w = random_weight(WeightFormat::kGptq, 4, 64, 16, 2, 1);
  Plain b(DType::kU4, 64, 16, true, 0), zero(DType::kI8, 2, 16, true, 0);
  const PlainWeights plain{b.view, zero.view, {}};
  StoredWeights stored = w.stored();
  ASSERT_TRUE(import_weights(built_context(), stored, plain).ok());

  stored.format = WeightFormat::kAwq;
  EXPECT_THAT(refusal(stored, plain),
              HasSubstr("import_weights (awq): argument 'weight' has shape [8, 16], expected [64, 2]"));
  stored = w.stored();
  stored.weight.dtype = DType::kF32;
  EXPECT_THAT(refusal(stored, plain), HasSubstr("argument 'weight' is f32, allowed: i32"));
  stored = w.stored();
  stored.zeros.shape[0] = 1;
  EXPECT_THAT(refusal(stored, plain), HasSubstr("argument 'zero_b' has shape [2, 16], expected [1, 16]"));
  stored = w.stored();
  stored.weight.device = {DeviceKind::kCuda, 0};
  EXPECT_THAT(refusal(stored, plain), HasSubstr("argument 'weight' is on cuda:0, allowed: cpu"));
  std::vector<int32_t> index(64, 0);
  stored = w.stored();
  stored.group_index = TensorView::contiguous(index.data(), DType::kI32, {64});
  index[5] = 7;
  EXPECT_THAT(refusal(stored, plain), HasSubstr("argument 'group_index' has 7 at row 5, allowed: 0 to 1"));
  index[5] = 1;
  EXPECT_THAT(refusal(stored, {b.view, zero.view, stored.group_index}), testing::Not(HasSubstr("one length")));
  index.assign(64, 1);
  index[0] = 0;
  EXPECT_THAT(refusal(stored, plain), HasSubstr("gives group 1 63 rows and group 0 1: one length for all"));

  stored = w.stored();
  PlainWeights odd = plain;
  odd.b.stride[1] = 65;
  EXPECT_THAT(refusal(stored, odd),
              HasSubstr("has strides [1, 65], allowed for 4-bit types: 1 along K or N, the other even"));
  odd.b = TensorView::contiguous(b.bytes.data(), DType::kF8E4M3, {64, 16});
  EXPECT_THAT(refusal(stored, odd), HasSubstr("argument 'b' is e4m3, allowed: u4, i4, i8"));
  odd = plain;
  odd.zero_b.dtype = DType::kE8M0;
  EXPECT_THAT(refusal(stored, odd), HasSubstr("argument 'zero_b' is e8m0, allowed: i8, i4, u4, f32, f16, bf16"));

  stored = {};
  stored.format = WeightFormat::kAiter;
  std::vector<uint8_t> bytes(64 * 64);
  stored.weight = TensorView::contiguous(bytes.data(), DType::kI8, {40, 64});
  odd = {};
  odd.b = TensorView::contiguous(bytes.data(), DType::kI8, {40, 64}).transposed();
  EXPECT_THAT(refusal(stored, odd), HasSubstr("'b' has N = 40 and K = 64, allowed: multiples of 16 and 32"));
  odd.zero_b = zero.view;
  EXPECT_THAT(refusal(stored, odd), HasSubstr("argument 'zero_b' is given, allowed for awq and gptq"));

  EXPECT_EQ(parse_weight_format("gptq_v2").value(), WeightFormat::kGptqV2);
  EXPECT_THAT(parse_weight_format("exl2").status().to_string(),
              HasSubstr("none of: awq, gptq, gptq_v2, aiter, aiter_scales"));

  Quantised exported = w;
  zero.view.dtype = DType::kI8;
  std::fill(zero.bytes.begin(), zero.bytes.end(), uint8_t{0});
  EXPECT_THAT(export_weights(built_context(), plain, exported.stored()).to_string(),
              HasSubstr("column 0 is 0, allowed: whole numbers from 1 to 16"));
}

TEST(StoredWeightsTest, TheCAbiReadsAndWritesTheSame) {
  static_assert(TILEWRIGHT_WEIGHTS_AITER_SCALES == static_cast<int>(WeightFormat::kAiterScales));
  Quantised w = random_weight(WeightFormat::kAwq, 4, 16, 8, 2, 3);
  std::vector<uint8_t> b(16 * 4, 0xA5), zero(2 * 8, 0xA5);
  const auto tensor = [](void* data, TwDLDataType type, int64_t* shape, int64_t* strides) {
    return TwDLTensor{data, {TW_DL_CPU, 0}, 2, type, shape, strides, 0};
  };
  int64_t words_shape[] = {16, 1}, zeros_shape[] = {2, 1}, b_shape[] = {16, 8}, b_strides[] = {1, 16},
          zero_shape[] = {2, 8};
  const TwDLTensor words = tensor(w.words.data(), {TW_DL_INT, 32, 1}, words_shape, nullptr);
  const TwDLTensor zeros = tensor(w.zero_words.data(), {TW_DL_INT, 32, 1}, zeros_shape, nullptr);
  const TwDLTensor weight = tensor(b.data(), {TW_DL_UINT, 4, 1}, b_shape, b_strides);
  const TwDLTensor points = tensor(zero.data(), {TW_DL_INT, 8, 1}, zero_shape, nullptr);
  tilewright_stored_weights stored = tilewright_stored_weights_defaults();
  tilewright_plain_weights plain = tilewright_plain_weights_defaults();
  EXPECT_EQ(tilewright_import_weights(nullptr, &stored, &plain), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("stored->weight"));
  stored.weight = &words, stored.zeros = &zeros, stored.format = 9;
  plain.b = &weight, plain.zero_b = &points;
  EXPECT_EQ(tilewright_import_weights(nullptr, &stored, &plain), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(tilewright_last_error(), HasSubstr("argument 'format' is 9, allowed: 0 to 4"));
  stored.format = TILEWRIGHT_WEIGHTS_AWQ;
  ASSERT_EQ(tilewright_import_weights(nullptr, &stored, &plain), TILEWRIGHT_OK) << tilewright_last_error();
  for (int64_t i = 0; i < 16 * 8; ++i) {
    ASSERT_EQ(load_element(DType::kU4, b.data(), i % 8 * 16 + i / 8), w.codes[i]);
  }
  for (int64_t i = 0; i < 2 * 8; ++i) ASSERT_EQ(zero[i], w.zeros[i]);
  const std::vector<int32_t> had = w.words;
  std::fill(w.words.begin(), w.words.end(), -1);
  ASSERT_EQ(tilewright_export_weights(nullptr, &plain, &stored), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(w.words, had);
}

}  // namespace
}  // namespace tilewright
