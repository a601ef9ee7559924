// SPDX-License-Identifier: MIT
// Scales of groups along K: what a call may pass, the text and the signature that they have, what refuses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <vector>

#include "arch/arch_spec.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

// A [40, 300] e4m3, B [300, 260] e4m3, D [40, 260] f32, DeepSeek's scales.
struct BlockCall {
  std::vector<uint8_t> memory = std::vector<uint8_t>(size_t{1} << 18);
  GemmCall call;

  BlockCall() {
    call.a = TensorView::contiguous(at(0), DType::kF8E4M3, {40, 300});
    call.b = TensorView::contiguous(at(16384), DType::kF8E4M3, {260, 300}).transposed();
    call.d = TensorView::contiguous(at(98304), DType::kF32, {40, 260});
    call.scale_a = TensorView::contiguous(at(163840), DType::kF32, {40, 3});
    call.scale_b = TensorView::contiguous(at(180224), DType::kF32, {3, 3}).transposed();
    call.scale_group_a = {1, 128};
    call.scale_group_b = {128, 128};
  }
  uint8_t* at(int64_t byte) { return memory.data() + byte; }
  Status make(GemmProblem* out = nullptr) {
    GemmProblem p;
    GemmBindings bindings;
    const Status status = make_gemm_problem(call, true, p, bindings);
    if (out != nullptr) *out = p;
    return status;
  }
  void expect_refused(const char* words) {
    const Status status = make();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
};

TEST(GemmScales, AddressesOfGroupsThatAreNotAlignedStandInTheText) {
  BlockCall c;
  for (TensorView* t : {&c.call.a, &c.call.b, &c.call.d, &c.call.scale_a, &c.call.scale_b}) {
    t->data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(t->data) + 15) / 16 * 16);
    t->device = {DeviceKind::kHip, 0};
  }
  c.call.scale_a.data = static_cast<uint8_t*>(c.call.scale_a.data) + 4;
  GemmProblem p;
  ASSERT_TRUE(c.make(&p).ok()) << c.make().to_string();
  EXPECT_EQ(p.scale_a.shortfall, 2);
  EXPECT_EQ(p.scale_b.shortfall, 0);
  const std::string text = print_gemm_problem(p);
  EXPECT_THAT(text, HasSubstr("align=16.16.16.16.16.4.16"));
  const Result<GemmProblem> again = parse_gemm_problem(text);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(std::memcmp(&*again, &p, sizeof(p)), 0);
  EXPECT_THAT(parse_gemm_problem("m=2:n=2:k=32:a=e4m3:scale_a=f32:align=16.16.16.16.16.4.16").status().message(),
              HasSubstr("scales of groups, which are absent"));
  EXPECT_THAT(parse_gemm_problem("m=2:n=2:k=32:a=e4m3:align=16.16.16.16").status().message(),
              HasSubstr("three, five, seven or eight"));
}

TEST(GemmScales, ACallsGroupsBecomeAProblem) {
  BlockCall c;
  GemmProblem p;
  ASSERT_TRUE(c.make(&p).ok()) << c.make().to_string();
  EXPECT_EQ(print_gemm_problem(p), "m=40:n=260:k=300:a=e4m3:d=f32:layout=rcr:scale_a=f32.1x128:scale_b=f32.128x128");
  // As DeepGEMM wants A's: neighbours along M.
  c.call.scale_a = TensorView::contiguous(c.at(163840), DType::kF32, {3, 40}).transposed();
  ASSERT_TRUE(c.make(&p).ok());
  EXPECT_THAT(print_gemm_problem(p), HasSubstr(":scale_a=f32.1x128.0.1.40:"));
  EXPECT_EQ(gemm_signature(p).core, "a=e4m3:b=e4m3:layout=rcr:scale_a=f32.1x128.c:scale_b=f32.128x128.c");
  // Of one operand only, of the other per tensor.
  c.call.scale_a = TensorView::contiguous(c.at(163840), DType::kF32, {});
  c.call.scale_group_a = {};
  ASSERT_TRUE(c.make(&p).ok());
  EXPECT_EQ(gemm_signature(p).core, "a=e4m3:b=e4m3:layout=rcr:scale_b=f32.128x128.c");
  EXPECT_EQ(gemm_signature(p).epilogue, "d=f32:scale_a=f32");
}

TEST(GemmScales, RefusalsNameTheArgument) {
  using Change = void (*)(BlockCall&);
  const std::pair<Change, const char*> refusals[] = {
      {[](BlockCall& c) { c.call.scale_group_a = {64, 128}; },
       "argument 'scale_group_a' is 64 x 128, allowed: 1 or 128 x 16, 32, 64, 128"},
      {[](BlockCall& c) { c.call.scale_group_b = {128, 256}; }, "argument 'scale_group_b' is 128 x 256, allowed"},
      {[](BlockCall& c) { c.call.scale_group_b = {128, 0}; }, "argument 'scale_group_b' is 128 x 0 (all of K)"},
      {[](BlockCall& c) { c.call.scale_group_a = {1, -16}; }, "argument 'scale_group_a' is 1 x -16"},
      {[](BlockCall& c) { c.call.scale_group_a = {1, 384}; }, "argument 'scale_group_a' is 1 x 384"},
      {[](BlockCall& c) { c.call.scale_a = {}; }, "argument 'scale_a' is missing and 'scale_group_a' is 1 x 128"},
      {[](BlockCall& c) { c.call.scale_group_a = {1, 64}; },
       "argument 'scale_a' has shape [40, 3], expected [40, 5]: groups of 1 x 64 of M and K"},
      {[](BlockCall& c) { c.call.scale_b = c.call.scale_a; },
       "argument 'scale_b' has shape [40, 3], expected [3, 3]: groups of 128 x 128 of N and K"},
      {[](BlockCall& c) { c.call.scale_a = TensorView::contiguous(c.at(0), DType::kF32, {}); },
       "argument 'scale_a' has shape [], expected [40, 3]"},
      {[](BlockCall& c) { c.call.scale_a.dtype = DType::kI8; },
       "argument 'scale_a' is i8, allowed for groups along K: f32, f16, bf16, e8m0, e4m3"},
      {[](BlockCall& c) { c.call.scale_b.dtype = DType::kF8E5M2; }, "argument 'scale_b' is e5m2, allowed"},
      {[](BlockCall& c) { c.call.scale_a.data = nullptr; }, "argument 'scale_a' has a null data pointer"},
      {[](BlockCall& c) { c.call.scale_a.device = {DeviceKind::kCuda, 0}; }, "argument 'scale_a' is on cuda:0"},
      {[](BlockCall& c) { c.call.scale_a.data = c.call.d.data; }, "argument 'd' overlaps 'scale_a'"},
      {[](BlockCall& c) { c.call.scale_b.stride[0] = int64_t{1} << 60; }, "strides of 'scale_b' reach beyond"},
      {[](BlockCall& c) { c.call.scale_group_a = {}; },
       "argument 'scale_a' has shape [40, 3], which does not broadcast"},
      {[](BlockCall& c) {
         c.call.scale_group_a = {};
         c.call.scale_a = TensorView::contiguous(c.at(0), DType::kE8M0, {40, 1});
       },
       "argument 'scale_a' is e8m0, allowed: f32"}};
  for (const auto& [change, words] : refusals) {
    BlockCall c;
    change(c);
    c.expect_refused(words);
  }
}

// A [3, 300] bf16, B [300, 40] u4 of a weight [40, 300], groups of 128 with f16 scales and zero points, two a byte.
struct ZeroCall : BlockCall {
  ZeroCall() {
    call.a = TensorView::contiguous(at(0), DType::kBf16, {3, 300});
    call.b = TensorView::contiguous(at(16384), DType::kU4, {40, 300}).transposed();
    call.d = TensorView::contiguous(at(98304), DType::kBf16, {3, 40});
    call.scale_a = {};
    call.scale_b = TensorView::contiguous(at(163840), DType::kF16, {40, 3}).transposed();
    call.zero_b = TensorView::contiguous(at(180224), DType::kU4, {40, 3}).transposed();
    call.scale_group_a = {};
    call.scale_group_b = {1, 128};
  }
};

TEST(GemmScales, ZeroPointsStandBesideTheScalesOfGroups) {
  ZeroCall c;
  GemmProblem p;
  ASSERT_TRUE(c.make(&p).ok()) << c.make().to_string();
  EXPECT_EQ(print_gemm_problem(p), "m=3:n=40:k=300:a=bf16:b=u4:layout=rcr:scale_b=f16.1x128:zero_b=u4");
  EXPECT_EQ(gemm_signature(p).core, "a=bf16:b=u4:layout=rcr:scale_b=f16.1x128.c:zero_b=u4.c");
  // As AWQ and GPTQ have them: neighbours along N, though the scales are not.
  c.call.zero_b = TensorView::contiguous(c.at(180224), DType::kI8, {3, 40});
  ASSERT_TRUE(c.make(&p).ok()) << c.make().to_string();
  EXPECT_THAT(print_gemm_problem(p), HasSubstr(":zero_b=i8.0.1.40"));
  EXPECT_EQ(gemm_signature(p).core, "a=bf16:b=u4:layout=rcr:scale_b=f16.1x128.c:zero_b=i8.r");
  EXPECT_EQ(print_gemm_problem(resize_gemm_problem(p, 1, 64, 512)),
            "m=1:n=64:k=512:a=bf16:b=u4:layout=rcr:scale_b=f16.1x128:zero_b=i8.0.1.64");
  // They count among the bytes that are moved.
  c.call.zero_b = {};
  GemmProblem without;
  ASSERT_TRUE(c.make(&without).ok());
  EXPECT_EQ(gemm_bytes_moved(p) - gemm_bytes_moved(without), 120);
  // Addresses that are not aligned.
  for (TensorView* t : {&c.call.a, &c.call.b, &c.call.d, &c.call.scale_b}) {
    t->data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(t->data) + 15) / 16 * 16);
    t->device = {DeviceKind::kHip, 0};
  }
  c.call.zero_b = TensorView::contiguous(static_cast<uint8_t*>(c.call.scale_b.data) + 16385, DType::kI8, {3, 40},
                                         {DeviceKind::kHip, 0});
  ASSERT_TRUE(c.make(&p).ok()) << c.make().to_string();
  const Result<GemmProblem> again = parse_gemm_problem(print_gemm_problem(p));
  ASSERT_TRUE(again.ok()) << print_gemm_problem(p) << again.status().to_string();
  EXPECT_THAT(print_gemm_problem(p), HasSubstr("align=16.16.16.16.16.16.16.1"));
  EXPECT_EQ(std::memcmp(&*again, &p, sizeof(p)), 0);
  EXPECT_THAT(parse_gemm_problem("m=2:n=2:k=32:b=u4:scale_b=f16.1x32:align=16.16.16.16.16.16.16.1").status().message(),
              HasSubstr("zero points, which are absent"));
}

TEST(GemmScales, RefusalsOfZeroPointsNameTheArgument) {
  using Change = void (*)(ZeroCall&);
  const std::pair<Change, const char*> refusals[] = {
      {[](ZeroCall& c) { c.call.b = TensorView::contiguous(c.at(0), DType::kBf16, {300, 40}); },
       "argument 'zero_b' is for weights of i8, i4 or u4 with f16 or bf16, 'b' is bf16 and 'a' bf16"},
      {[](ZeroCall& c) { c.call.scale_b = {}, c.call.scale_group_b = {}; },
       "argument 'zero_b' needs scales of groups along K"},
      {[](ZeroCall& c) { c.call.zero_b = c.call.scale_b.transposed(), c.call.zero_b.dtype = DType::kU4; },
       "argument 'zero_b' has shape [40, 3], expected [3, 40]: groups of 1 x 128 of N and K"},
      {[](ZeroCall& c) { c.call.zero_b.dtype = DType::kE8M0; },
       "argument 'zero_b' is e8m0, allowed: i8, i4, u4, f32, f16, bf16"},
      {[](ZeroCall& c) { c.call.zero_b.data = nullptr; }, "argument 'zero_b' has a null data pointer"},
      {[](ZeroCall& c) { c.call.zero_b.device = {DeviceKind::kCuda, 0}; }, "argument 'zero_b' is on cuda:0"},
      {[](ZeroCall& c) { c.call.zero_b.data = c.call.d.data; }, "argument 'd' overlaps 'zero_b'"},
      {[](ZeroCall& c) { c.call.zero_b.stride[0] = int64_t{1} << 60; }, "strides of 'zero_b' reach beyond"},
      {[](ZeroCall& c) { c.call.a.dtype = DType::kF32; },
       "argument 'b' is u4 and 'a' is f32: both must have one dtype"},
      {[](ZeroCall& c) { c.call.a.dtype = DType::kU4; }, "argument 'a' is u4, allowed: f32, f16"},
      {[](ZeroCall& c) { c.call.b.dtype = DType::kI32; },
       "argument 'b' is i32, allowed: f32, f16, bf16, i8, e4m3, e5m2, e4m3fnuz, e5m2fnuz, e2m1, i4, u4"}};
  for (const auto& [change, words] : refusals) {
    ZeroCall c;
    change(c);
    c.expect_refused(words);
  }
}

TEST(GemmScales, ABatchHasItsOwnScalesOrSharesThem) {
  BlockCall c;
  c.call.a = TensorView::contiguous(c.at(0), DType::kF8E4M3, {2, 10, 300});
  c.call.d = TensorView::contiguous(c.at(98304), DType::kF32, {2, 10, 260});
  c.call.scale_a = TensorView::contiguous(c.at(163840), DType::kF32, {2, 10, 3});
  GemmProblem p;
  ASSERT_TRUE(c.make(&p).ok()) << c.make().to_string();
  EXPECT_EQ(p.scale_a.stride_batch, 30);
  EXPECT_EQ(p.scale_b.stride_batch, 0);
  c.call.scale_a.shape[0] = 3;
  c.expect_refused("argument 'scale_a' has shape [3, 10, 3], expected [10, 3] or [2, 10, 3]");
}

TEST(GemmScales, TextRoundTrips) {
  std::mt19937_64 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const char* const inputs[] = {"a=e4m3", "a=e5m2:b=e4m3", "a=e2m1", "a=bf16:b=e2m1", "a=i8", "a=f32", "a=e4m3:b=f16"};
  const char* const types[] = {"f32", "f16", "bf16", "e8m0", "e4m3"};
  const int depths[] = {16, 32, 64, 128};
  const char* const weights[] = {"a=bf16:b=u4", "a=f16:b=i4", "a=bf16:b=i8"};
  const char* const zeros[] = {"u4", "i4", "i8", "f16", "bf16", "f32"};
  for (int i = 0; i < 1000; ++i) {
    std::string text = fmt::format("m={}:n={}:k={}:batch={}:{}", pick(0, 300), pick(0, 300), pick(0, 300), pick(0, 3),
                                   inputs[pick(0, 6)]);
    for (const char* name : {"scale_a", "scale_b"}) {
      if (pick(0, 3) == 0) continue;
      text += fmt::format(":{}={}.{}x{}", name, types[pick(0, 4)], pick(0, 1) == 0 ? 1 : 128, depths[pick(0, 3)]);
      if (pick(0, 1) == 0) text += fmt::format(".{}.{}.{}", pick(0, 400), pick(-3, 40), pick(0, 300));
    }
    if (i % 4 == 0) {
      text =
          fmt::format("m=5:n={}:k={}:batch={}:{}:scale_b=f16.{}x{}:zero_b={}", pick(0, 300), pick(0, 300), pick(0, 3),
                      weights[pick(0, 2)], pick(0, 1) == 0 ? 1 : 128, depths[pick(0, 3)], zeros[pick(0, 5)]);
      if (pick(0, 1) == 0) text += fmt::format(".{}.{}.{}", pick(0, 400), pick(-3, 40), pick(0, 300));
    }
    const Result<GemmProblem> p = parse_gemm_problem(text);
    ASSERT_TRUE(p.ok()) << text << ": " << p.status().to_string();
    const Result<GemmProblem> again = parse_gemm_problem(print_gemm_problem(*p));
    ASSERT_TRUE(again.ok()) << print_gemm_problem(*p) << ": " << again.status().to_string();
    EXPECT_EQ(std::memcmp(&*p, &*again, sizeof(GemmProblem)), 0) << text << "\n" << print_gemm_problem(*p);
  }
  for (const char* text :
       {"scale_a=f32.2x32", "scale_a=f32.1x8", "scale_a=f32.1x", "scale_a=i8.1x32", "scale_a=f32.1x32.1",
        "scale_b=e5m2.1x32", "scale_b=e8m0", "scale_b=f32.1x0", "scale_b=f32.128x0", "scale_a=f32.0.0.1",
        "scale_b=f32.0.1.0", "b=i8", "b=e4m3fnuz", "b=f32", "b=u4", "scale_b=f32.1x32:zero_b=i8"}) {
    const Result<GemmProblem> p = parse_gemm_problem(std::string("m=4:n=4:k=64:a=e4m3:") + text);
    EXPECT_FALSE(p.ok()) << text;
  }
}

TEST(GemmScales, TextOfZeroPointsIsADtypeBesideGroups) {
  for (const char* text :
       {"zero_b=u4", "scale_b=f16:zero_b=u4", "scale_b=f16.1x32:zero_b=u4.1x32", "scale_b=f16.1x32:zero_b=u4.1.2",
        "scale_b=f16.1x32:zero_b=e8m0", "scale_b=f16.1x32:zero_b="}) {
    EXPECT_FALSE(parse_gemm_problem(std::string("m=4:n=4:k=64:b=u4:") + text).ok()) << text;
  }
}

TEST(GemmScales, ResizingKeepsGroupsAndTheirOrder) {
  const auto resized = [](const char* text) {
    return print_gemm_problem(resize_gemm_problem(*parse_gemm_problem(text), 33, 260, 259));
  };
  EXPECT_EQ(resized("m=1:n=64:k=64:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128"),
            "m=33:n=260:k=259:a=e4m3:layout=rcr:scale_a=f32.1x128:scale_b=f32.128x128");
  EXPECT_EQ(resized("m=8:n=64:k=256:a=e4m3:scale_a=f32.1x128.0.1.8"),
            "m=33:n=260:k=259:a=e4m3:layout=rcr:scale_a=f32.1x128.0.1.33");
  EXPECT_EQ(resized("m=8:n=64:k=256:a=e2m1:scale_b=e8m0.1x32.0.0.1"),
            "m=33:n=260:k=259:a=e2m1:layout=rcr:scale_b=e8m0.1x32.0.0.1");
}

TEST(GemmScales, KernelsThatHaveNoneOfThemSaySo) {
  DeviceSpec gpu;
  gpu.units = 132;
  for (const char* target : {"sm_90a", "gfx942", "x86-64-v4"}) {
    gpu.arch = find_arch(target);
    ASSERT_NE(gpu.arch, nullptr);
    gpu.id = {gpu.arch->vendor == ArchVendor::kNvidia ? DeviceKind::kCuda
              : gpu.arch->vendor == ArchVendor::kAmd  ? DeviceKind::kHip
                                                      : DeviceKind::kCpu,
              0};
    for (const char* text : {"m=64:n=256:k=256:a=bf16:scale_a=f32.1x128", "m=64:n=256:k=256:a=bf16:scale_b=e8m0.1x32",
                             "m=256:n=256:k=256:a=bf16:b=e4m3:layout=rrr", "m=64:n=256:k=256:a=e2m1",
                             "m=1:n=256:k=256:a=f16:b=e2m1:layout=rrr", "m=64:n=256:k=256:a=bf16:b=i8:packed=1",
                             "m=64:n=256:k=256:b=u4:layout=rrr:scale_b=f16.1x128:zero_b=f16"}) {
      const GemmProblem p = *parse_gemm_problem(text);
      int served = 0;
      for (const KernelFamily* family : gemm_operator().families()) {
        const Status status = family->supports(erase(p), gpu);
        EXPECT_TRUE(!status.ok() || family->generic()) << family->name() << " takes " << text;
        EXPECT_TRUE(status.ok() || !status.message().empty());
        served += status.ok() ? 1 : 0;
      }
      EXPECT_EQ(served, 1) << text << " on " << target;
    }
  }
}

TEST(GemmScales, SignaturesWithoutGroupsAreWhatTheyWere) {
  const ProblemSignature s = gemm_signature(*parse_gemm_problem("m=9:n=64:k=32:a=e4m3:scale_a=f32:scale_b=f32.0.0.0"));
  EXPECT_EQ(s.core, "a=e4m3:b=e4m3:layout=rcr");
  EXPECT_EQ(s.epilogue, "d=bf16:scale_a=f32m:scale_b=f32");
}

}  // namespace
}  // namespace tilewright
