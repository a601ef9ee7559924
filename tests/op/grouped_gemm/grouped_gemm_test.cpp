// SPDX-License-Identifier: MIT
// grouped_gemm through the public API: numbers that can be counted by hand, groups of every kind, and what is refused.
#include "tilewright/grouped_gemm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "dispatch/context_impl.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

constexpr float kPoison = -7777;
const float kNan = std::numeric_limits<float>::quiet_NaN();

Context& shared_context() {
  static const std::unique_ptr<Context> context = [] {
    ContextOptions options;
    options.jit = "off";
    options.user_tables = false;
    options.cpu_units = 2;
    return std::move(*Context::create(options));
  }();
  return *context;
}

// A [rows, K] of row numbers, B of group g constant g + 1: D of row r in group g is K * r * (g + 1).
struct Counted {
  static constexpr int64_t kN = 5, kK = 3;
  int64_t rows, groups;
  std::vector<float> a, b, d;
  std::vector<int32_t> sizes, offsets, gather, scatter;
  int32_t status = 0;
  GroupedGemmCall call;

  Counted(int64_t rows_, int64_t groups_) : rows(rows_), groups(groups_) {
    a.resize(static_cast<size_t>(rows * kK));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i / kK);
    b.resize(static_cast<size_t>(groups * kN * kK));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i / (kN * kK) + 1);
    d.assign(static_cast<size_t>(rows * kN), kPoison);
    call.gemm.a = TensorView::contiguous(a.data(), DType::kF32, {rows, kK});
    call.gemm.b = TensorView::contiguous(b.data(), DType::kF32, {groups, kN, kK}).transposed();
    call.gemm.d = TensorView::contiguous(d.data(), DType::kF32, {rows, kN});
    call.status = TensorView::contiguous(&status, DType::kI32, {1});
  }
  static TensorView view(std::vector<int32_t>& numbers) {
    return TensorView::contiguous(numbers.data(), DType::kI32, {static_cast<int64_t>(numbers.size())});
  }
  Status run() {
    if (!sizes.empty()) call.sizes = view(sizes);
    if (!offsets.empty()) call.offsets = view(offsets);
    if (!gather.empty()) call.gather = view(gather);
    if (!scatter.empty()) call.scatter = view(scatter);
    return grouped_gemm(shared_context(), call);
  }
  // Row `row` of D is that of A's row `of` with group `group`; group -1: untouched.
  void expect_row(int64_t row, int64_t of, int64_t group) const {
    for (int64_t n = 0; n < kN; ++n) {
      const float want = group < 0 ? kPoison : static_cast<float>(kK * of * (group + 1));
      EXPECT_EQ(d[static_cast<size_t>(row * kN + n)], want) << "row " << row << " column " << n;
    }
  }
  void expect_groups(const std::vector<int>& group_of_row) const {
    for (size_t r = 0; r < group_of_row.size(); ++r) {
      expect_row(static_cast<int64_t>(r), static_cast<int64_t>(r), group_of_row[r]);
    }
  }
};

TEST(GroupedGemm, SizesPutGroupsOneAfterAnother) {
  Counted c(9, 4);
  c.sizes = {2, 0, 3, 1};
  ASSERT_TRUE(c.run().ok());
  c.expect_groups({0, 0, 2, 2, 2, 3, -1, -1, -1});
  EXPECT_EQ(c.status, 0);
}

TEST(GroupedGemm, AlignedGroupsLeavePaddingAlone) {
  Counted c(12, 3);
  c.sizes = {2, 5, 1};
  c.call.alignment = 4;
  for (const size_t row : {2, 3, 9, 10, 11}) std::fill_n(c.a.begin() + static_cast<ptrdiff_t>(row * 3), 3, kNan);
  // The third begins at 12, where nothing is left.
  ASSERT_TRUE(c.run().ok());
  c.expect_groups({0, 0, -1, -1, 1, 1, 1, 1, 1, -1, -1, -1});
  EXPECT_EQ(c.status, 1);
}

TEST(GroupedGemm, OffsetsSayWhereGroupsBeginOrEnd) {
  Counted begin(9, 3);
  begin.offsets = {1, 3, 3, 7};
  ASSERT_TRUE(begin.run().ok());
  begin.expect_groups({-1, 0, 0, 2, 2, 2, 2, -1, -1});

  Counted end(9, 3);
  end.offsets = {2, 2, 6};  // as torch._grouped_mm
  ASSERT_TRUE(end.run().ok());
  end.expect_groups({0, 0, 2, 2, 2, 2, -1, -1, -1});

  Counted both(9, 3);
  both.offsets = {6, 0, 4};
  both.sizes = {3, 2, 1};
  ASSERT_TRUE(both.run().ok());
  both.expect_groups({1, 1, -1, -1, 2, -1, 0, 0, 0});
  EXPECT_EQ(begin.status + end.status + both.status, 0);
}

TEST(GroupedGemm, NumbersPastTheRowsAreClampedAndFlagged) {
  Counted sizes(6, 4);
  sizes.sizes = {4, -3, 5, std::numeric_limits<int32_t>::max()};
  ASSERT_TRUE(sizes.run().ok());
  sizes.expect_groups({0, 0, 0, 0, 2, 2});
  EXPECT_EQ(sizes.status, 1);

  Counted offsets(6, 3);
  offsets.offsets = {-2, 3, 1, 100};
  ASSERT_TRUE(offsets.run().ok());
  offsets.expect_groups({-1, 2, 2, 2, 2, 2});
  EXPECT_EQ(offsets.status, 1);

  Counted both(6, 3);
  both.offsets = {std::numeric_limits<int32_t>::max(), 4, 2};
  both.sizes = {2, std::numeric_limits<int32_t>::max(), 1};
  both.call.status = {};  // nobody asks
  ASSERT_TRUE(both.run().ok());
  both.expect_groups({-1, -1, 2, -1, 1, 1});
  EXPECT_EQ(both.status, 0);
}

TEST(GroupedGemm, AllRowsMayBeOneGroupAndThereMayBeMoreGroupsThanRows) {
  Counted one(70, 256);
  one.sizes.assign(256, 0);
  one.sizes[200] = 70;
  ASSERT_TRUE(one.run().ok());
  one.expect_groups(std::vector<int>(70, 200));

  Counted none(70, 256);
  none.sizes.assign(256, 0);
  ASSERT_TRUE(none.run().ok());
  none.expect_groups(std::vector<int>(70, -1));

  Counted single(1, 1);
  single.sizes = {1};
  ASSERT_TRUE(single.run().ok());
  single.expect_groups({0});
}

TEST(GroupedGemm, IndicesNameRowsOfAAndOfD) {
  Counted gathered(4, 2);
  gathered.d.assign(6 * Counted::kN, kPoison);
  gathered.call.gemm.d = TensorView::contiguous(gathered.d.data(), DType::kF32, {6, Counted::kN});
  gathered.sizes = {2, 3};
  gathered.gather = {3, 0, 3, -1, 1, 2};
  ASSERT_TRUE(gathered.run().ok());
  const int64_t from[] = {3, 0, 3, -1, 1};
  for (int64_t r = 0; r < 5; ++r) gathered.expect_row(r, from[r], from[r] < 0 ? -1 : r < 2 ? 0 : 1);
  gathered.expect_row(5, 0, -1);
  EXPECT_EQ(gathered.status, 0);

  // Adapters per row: rows sorted by adapter come from where they are and go back there, plus what is there.
  Counted adapters(4, 2);
  adapters.sizes = {1, 3};
  adapters.gather = adapters.scatter = {2, 0, 3, 1};
  adapters.call.gemm.beta = 1;
  adapters.d.assign(4 * Counted::kN, 100);
  adapters.call.gemm.c = adapters.call.gemm.d;
  ASSERT_TRUE(adapters.run().ok());
  for (int64_t r = 0; r < 4; ++r) {
    EXPECT_EQ(adapters.d[static_cast<size_t>(r * Counted::kN)], 100 + static_cast<float>(3 * r * (r == 2 ? 1 : 2)));
  }

  Counted outside(4, 1);
  outside.sizes = {4};
  outside.scatter = {1, 4, 0, 1000000};
  ASSERT_TRUE(outside.run().ok());
  outside.expect_row(0, 2, 0);
  outside.expect_row(1, 0, 0);
  outside.expect_row(2, 0, -1);
  outside.expect_row(3, 0, -1);
  EXPECT_EQ(outside.status, 1);
}

TEST(GroupedGemm, MaskedRowsAreNeitherReadNorWritten) {
  constexpr int64_t kGroups = 4, kM = 3, kN = 2, kK = 2;
  std::vector<float> a(kGroups * kM * kK, 1), b(kGroups * kN * kK, 2), d(kGroups * kM * kN, kPoison);
  std::vector<int32_t> counts = {2, 0, 7, -1};
  const int64_t valid[] = {2, 0, 3, 0};
  for (int64_t g = 0; g < kGroups; ++g) {
    for (int64_t m = valid[g]; m < kM; ++m) std::fill_n(a.begin() + (g * kM + m) * kK, kK, kNan);
  }
  int32_t status = 0;
  GroupedGemmCall call;
  call.mode = GroupMode::kMasked;
  call.gemm.a = TensorView::contiguous(a.data(), DType::kF32, {kGroups, kM, kK});
  call.gemm.b = TensorView::contiguous(b.data(), DType::kF32, {kGroups, kK, kN});
  call.gemm.d = TensorView::contiguous(d.data(), DType::kF32, {kGroups, kM, kN});
  call.sizes = Counted::view(counts);
  call.status = TensorView::contiguous(&status, DType::kI32, {});
  ASSERT_TRUE(grouped_gemm(shared_context(), call).ok());
  for (int64_t i = 0; i < kGroups * kM * kN; ++i) {
    const int64_t g = i / (kM * kN), m = i / kN % kM;
    EXPECT_EQ(d[static_cast<size_t>(i)], m < valid[g] ? 4 : kPoison) << g << " " << m;
  }
  EXPECT_EQ(status, 1);
}

// Weight gradients: B^T of a group's rows times its gradients; a group without rows gives zeros, and the epilogue of zeros.
TEST(GroupedGemm, RaggedKSumsOverTheRowsOfEachGroup) {
  constexpr int64_t kGroups = 3, kM = 2, kN = 3, kT = 6;
  std::vector<float> x(kT * kM), y(kT * kN), d(kGroups * kM * kN, kPoison), bias = {10, 20, 30};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / kM);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % kN + 1);
  std::fill_n(x.begin() + 5 * kM, kM, kNan);  // in no group
  std::vector<int32_t> offsets = {0, 2, 2, 5};
  GroupedGemmCall call;
  call.mode = GroupMode::kRaggedK;
  call.gemm.a = TensorView::contiguous(x.data(), DType::kF32, {kT, kM}).transposed();
  call.gemm.b = TensorView::contiguous(y.data(), DType::kF32, {kT, kN});
  call.gemm.d = TensorView::contiguous(d.data(), DType::kF32, {kGroups, kM, kN});
  call.gemm.bias = TensorView::contiguous(bias.data(), DType::kF32, {kGroups, 1});
  call.offsets = Counted::view(offsets);
  ASSERT_TRUE(grouped_gemm(shared_context(), call).ok());
  const float sums[] = {0 + 1, 0, 2 + 3 + 4};
  for (int64_t i = 0; i < kGroups * kM * kN; ++i) {
    const auto g = static_cast<size_t>(i / (kM * kN));
    EXPECT_EQ(d[static_cast<size_t>(i)], sums[g] * static_cast<float>(i % kN + 1) + bias[g]) << i;
  }
}

TEST(GroupedGemm, TheReferenceIsTheSameFunction) {
  Counted c(9, 4), reference(9, 4);
  c.sizes = reference.sizes = {2, 0, 30, 1};
  ASSERT_TRUE(c.run().ok());
  reference.call.sizes = Counted::view(reference.sizes);
  ASSERT_TRUE(grouped_gemm_reference(reference.call).ok());
  EXPECT_EQ(c.d, reference.d);
  EXPECT_EQ(reference.status, 1);
}

TEST(GroupedGemm, PackedWeightsOfEveryGroupServe) {
  Counted c(9, 4);
  c.sizes = {2, 0, 3, 1};
  const int64_t bytes = *gemm_packed_bytes(DType::kF32, Counted::kN, Counted::kK, 4);
  std::vector<uint8_t> memory(static_cast<size_t>(bytes) + 64);
  void* const packed = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  ASSERT_TRUE(gemm_pack_weights(shared_context(), c.call.gemm.b, packed, bytes).ok());
  c.call.gemm.b = *gemm_packed_view(packed, bytes);
  const Status status = c.run();
  ASSERT_TRUE(status.ok()) << status.to_string();
  c.expect_groups({0, 0, 2, 2, 2, 3, -1, -1, -1});
}

TEST(GroupedGemm, EmptySizesAreLegal) {
  Counted no_rows(0, 3);
  no_rows.sizes = {0, 0, 0};
  EXPECT_TRUE(no_rows.run().ok());
  Counted no_groups(2, 0);
  int32_t none = 0;
  no_groups.call.sizes = TensorView::contiguous(&none, DType::kI32, {0});
  EXPECT_TRUE(no_groups.run().ok());
  no_groups.expect_groups({-1, -1});

  // K = 0 sums to 0.
  Counted c(2, 1);
  c.sizes = {1};
  c.call.gemm.a = TensorView::contiguous(c.a.data(), DType::kF32, {2, 0});
  c.call.gemm.b = TensorView::contiguous(c.b.data(), DType::kF32, {1, 0, Counted::kN});
  ASSERT_TRUE(c.run().ok());
  EXPECT_EQ(c.d[0], 0);
  c.expect_row(1, 0, -1);
}

TEST(GroupedGemm, ARepeatedCallReadsTheNumbersAnew) {
  Counted c(6, 2);
  c.sizes = {1, 1};
  ASSERT_TRUE(c.run().ok());
  c.expect_groups({0, 1, -1, -1, -1, -1});
  c.sizes[0] = 3, c.sizes[1] = 2;
  ASSERT_TRUE(c.run().ok());
  c.expect_groups({0, 0, 0, 1, 1, -1});
}

TEST(GroupedGemm, RefusalsNameArgumentValueAndAllowedSet) {
  const auto refusal = [](const std::function<void(Counted&)>& change) {
    Counted c(6, 3);
    c.sizes = {1, 2, 3};
    c.call.sizes = Counted::view(c.sizes);
    change(c);
    const std::vector<int32_t> unused = std::move(c.sizes);
    const Status status = c.run();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(c.d, std::vector<float>(c.d.size(), kPoison));
    return status.message();
  };
  static std::vector<int32_t> numbers(8, 0);
  const auto some = [](int64_t count) { return TensorView::contiguous(numbers.data(), DType::kI32, {count}); };
  EXPECT_EQ(refusal([](Counted& c) { c.call.sizes = {}; }), "grouped_gemm: argument 'sizes' is missing, or 'offsets'");
  EXPECT_EQ(refusal([&](Counted& c) { c.call.sizes = some(4); }),
            "grouped_gemm: argument 'sizes' has shape [4], expected [3]");
  EXPECT_EQ(refusal([](Counted& c) { c.call.sizes.dtype = DType::kF32; }),
            "grouped_gemm: argument 'sizes' is f32, allowed: i32");
  EXPECT_EQ(refusal([&](Counted& c) { c.call.offsets = some(5); }),
            "grouped_gemm: argument 'offsets' has shape [5], expected [3] or [4]");
  EXPECT_EQ(refusal([](Counted& c) { c.call.gemm.d.shape[1] = 4; }),
            "grouped_gemm: argument 'd' has shape [6, 4], expected 5 columns");
  EXPECT_EQ(
      refusal([](Counted& c) { c.call.gemm.a.shape[1] = 2; }),
      "grouped_gemm: argument 'b' has shape [3, 3, 5]: its second-to-last size must be K = 2 (the last size of 'a' "
      "[6, 2])");
  EXPECT_EQ(refusal([&](Counted& c) { c.call.scatter = some(5); }),
            "grouped_gemm: argument 'scatter' has shape [5], expected [6]: one for each row of 'a'");
  EXPECT_EQ(refusal([](Counted& c) { c.call.alignment = 0; }),
            "grouped_gemm: argument 'alignment' is 0, allowed: 1 to 2^20");
  EXPECT_THAT(refusal([](Counted& c) { c.call.mode = GroupMode::kMasked; }), HasSubstr("grouped_gemm: argument"));
  EXPECT_EQ(refusal([](Counted& c) { c.call.status.dtype = DType::kI8; }),
            "grouped_gemm: argument 'status' is i8 [1] on cpu, expected one i32 on cpu");
  EXPECT_EQ(refusal([](Counted& c) { c.call.sizes = TensorView::contiguous(c.d.data() + 3, DType::kI32, {3}); }),
            "grouped_gemm: argument 'd' overlaps 'sizes'");
  EXPECT_EQ(refusal([](Counted& c) { c.call.gemm.a.data = c.d.data(); }), "grouped_gemm: argument 'd' overlaps 'a'");
  EXPECT_THAT(refusal([&](Counted& c) {
                c.call.gather = some(6);
                c.call.gemm.a.data = c.d.data();
              }),
              HasSubstr("'d' overlaps 'a'"));
  EXPECT_EQ(refusal([](Counted& c) { c.call.gemm.d.stride[0] = 0; }).substr(0, 44),
            "grouped_gemm: argument 'd' overlaps itself: ");
}

TEST(GroupedGemm, ProblemsFromTextAreValidatedToo) {
  const auto message = [](const char* text) { return parse_grouped_gemm_problem(text).status().message(); };
  EXPECT_EQ(message("m=4:n=4:k=4"), "grouped_gemm problem text: 'groups' is missing");
  EXPECT_EQ(message("groups=2:batch=2:m=4:n=4:k=4"), "grouped_gemm problem text: 'batch' is called 'groups' here");
  EXPECT_EQ(message("mode=masked:groups=2:gather=4:m=4:n=4:k=4"),
            "grouped_gemm: indices are for mode contiguous, mode is masked");
  EXPECT_EQ(message("mode=ragged_k:groups=2:m=4:n=4:k=64:a=e4m3:scale_a=f32.1x32:scale_b=f32.1x32"),
            "grouped_gemm: scales of groups along K are for modes contiguous and masked");
  EXPECT_EQ(message("groups=2:extents=ends:align_rows=8:m=4:n=4:k=4"),
            "grouped_gemm: argument 'alignment' is 8: only sizes alone, not of mode masked, leave room for it");
}

TEST(GroupedGemm, ExplainAndQueryNameTheChoice) {
  Counted c(6, 3);
  c.sizes = {1, 2, 3};
  c.call.sizes = Counted::view(c.sizes);
  const Result<std::string> text = grouped_gemm_explain(shared_context(), c.call);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_THAT(*text, HasSubstr("grouped_gemm_generic"));
  EXPECT_TRUE(grouped_gemm_prepare(shared_context(), c.call).ok());
  const Result<QueryResult> query = grouped_gemm_query(shared_context(), c.call);
  ASSERT_TRUE(query.ok()) << query.status().to_string();
  EXPECT_TRUE(query->built);
}

}  // namespace
}  // namespace tilewright
