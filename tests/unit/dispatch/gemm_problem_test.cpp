// SPDX-License-Identifier: MIT
#include "ops/gemm/problem/gemm_problem.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tilewright {
namespace {

struct Matrices {
  alignas(64) float a[64 * 64]{}, b[64 * 64]{}, c[64 * 64]{}, d[64 * 64]{};
  GemmCall call;
  Matrices() {
    call.a = TensorView::contiguous(a, DType::kF32, {8, 16});
    call.b = TensorView::contiguous(b, DType::kF32, {16, 12});
    call.d = TensorView::contiguous(d, DType::kF32, {8, 12});
  }
  Status make() {
    GemmProblem p;
    GemmBindings bindings;
    return make_gemm_problem(call, true, p, bindings);
  }
};

void expect_refused(const Status& status, const char* word) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("gemm: "), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

TEST(GemmProblem, AcceptsThePlainCall) { EXPECT_TRUE(Matrices().make().ok()); }

TEST(GemmProblem, RefusalsNameTheArgumentItsValueAndWhatIsAllowed) {
  {
    Matrices m;
    m.call.b.shape[0] = 15;
    expect_refused(m.make(), "'b' has shape [15, 12]: its second-to-last size must be K = 16");
  }
  {
    Matrices m;
    m.call.a.dtype = DType::kI32;
    expect_refused(m.make(), "'a' is i32, allowed: f32, f16, bf16, i8, e4m3, e5m2, e4m3fnuz, e5m2fnuz");
  }
  {
    Matrices m;
    m.call.b.dtype = DType::kBf16;
    expect_refused(m.make(), "both must have one dtype");
  }
  {
    Matrices m;
    m.call.d.shape[0] = 9;
    expect_refused(m.make(), "'d' has shape [9, 12], expected [8, 12]");
  }
  {
    Matrices m;
    m.call.bias = TensorView::contiguous(m.c, DType::kF32, {11});
    expect_refused(m.make(), "'bias' has shape [11], which does not broadcast to [1, 8, 12]");
  }
  {
    Matrices m;
    m.call.beta = 1;
    expect_refused(m.make(), "'beta' is 1 and 'c' is missing");
  }
  {
    Matrices m;
    m.call.gate = GateMode::kSeparated;
    m.call.b.shape[1] = 11;
    expect_refused(m.make(), "'gate' needs an even N, got N = 11");
  }
  {
    Matrices m;
    m.call.activation = Activation::kClamp;
    m.call.low = 2, m.call.high = 1;
    expect_refused(m.make(), "clamps to [2, 1]");
  }
  {
    Matrices m;
    m.call.scale_a = TensorView::contiguous(m.c, DType::kF32, {12});
    expect_refused(m.make(), "'scale_a' varies along N");
  }
  {
    Matrices m;
    m.call.a.data = nullptr;
    expect_refused(m.make(), "'a' has a null data pointer");
  }
  {
    Matrices m;
    m.call.a.device = {DeviceKind::kCuda, 1};
    expect_refused(m.make(), "a on cuda:1");
  }
}

TEST(GemmProblem, OverlapOfDWithAnInputIsRefusedUnlessItIsInPlace) {
  {
    Matrices m;
    m.call.a.data = m.d + 4;
    expect_refused(m.make(), "'d' overlaps 'a'");
  }
  {
    Matrices m;
    m.call.b.data = m.d;
    expect_refused(m.make(), "'d' overlaps 'b'");
  }
  {
    Matrices m;
    m.call.c = m.call.d;
    m.call.beta = 1;
    EXPECT_TRUE(m.make().ok());
    m.call.c.data = m.d + 1;
    expect_refused(m.make(), "'d' overlaps 'c'");
  }
  {
    Matrices m;
    m.call.steps.push_back(GemmStep::add(m.call.d));
    EXPECT_TRUE(m.make().ok());
    m.call.bias = TensorView::contiguous(m.d, DType::kF32, {12});
    expect_refused(m.make(), "'d' overlaps 'bias'");
  }
  {
    Matrices m;
    m.call.d.stride[0] = 11;
    expect_refused(m.make(), "'d' overlaps itself");
    m.call.d.stride[0] = 0;
    expect_refused(m.make(), "'d' overlaps itself");
  }
}

TEST(GemmProblem, EightBitFloatsMultiplyWhatTheyMayAndHaveNoPackedForm) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    Matrices m;
    m.call.a.dtype = m.call.b.dtype = dtype;
    EXPECT_TRUE(m.make().ok());
    for (const DType other : {DType::kF8E4M3, DType::kF8E5M2, DType::kF4E2M1, DType::kF16, DType::kBf16}) {
      m.call.b.dtype = other;
      EXPECT_TRUE(m.make().ok());
    }
    for (const DType other : {DType::kF32, DType::kI8, DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz}) {
      m.call.b.dtype = other;
      expect_refused(m.make(), "both must have one dtype");
    }
    m.call.d.dtype = m.call.a.dtype;
    m.call.b.dtype = dtype;
    expect_refused(m.make(), "argument 'd' is e");
  }
  EXPECT_THAT(parse_gemm_problem("m=1:n=16:k=16:a=bf16:packed=fragments").status().message(),
              testing::HasSubstr("argument 'b' is bf16 packed on an NVIDIA GPU, allowed: e2m1, i4, u4"));
  EXPECT_THAT(parse_gemm_problem("m=1:n=16:k=16:a=e4m3:packed=1").status().message(),
              testing::HasSubstr("'b' is packed e4m3, allowed: f32, f16, bf16, i8"));
  EXPECT_EQ(parse_gemm_problem("m=1:n=16:k=16:a=e5m2")->d_dtype, DType::kBf16);
  EXPECT_EQ(parse_gemm_problem("m=1:n=16:k=16:a=e2m1")->d_dtype, DType::kBf16);
}

TEST(GemmProblem, Tf32IsAQuestionOfF32AndPartOfTheProblem) {
  Matrices m;
  m.call.options.allow_tf32 = true;
  GemmProblem p;
  GemmBindings bindings;
  ASSERT_TRUE(make_gemm_problem(m.call, true, p, bindings).ok());
  EXPECT_EQ(p.allow_tf32, m.call.a.dtype == DType::kF32);
  const GemmProblem allowed = *parse_gemm_problem("m=1:n=16:k=16:a=f32:allow_tf32=1");
  EXPECT_EQ(allowed.allow_tf32, 1);
  EXPECT_THAT(print_gemm_problem(allowed), testing::HasSubstr("allow_tf32=1"));
  EXPECT_NE(gemm_signature(allowed).core, gemm_signature(*parse_gemm_problem("m=1:n=16:k=16:a=f32")).core);
  EXPECT_THAT(parse_gemm_problem("m=1:n=16:k=16:a=bf16:allow_tf32=1").status().message(),
              testing::HasSubstr("'allow_tf32' is for f32, 'a' is bf16"));
}

TEST(GemmProblem, FastAccumulationIsAQuestionOfEightBitFloatsAndPartOfTheProblem) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2}) {
    Matrices m;
    m.call.a.dtype = m.call.b.dtype = dtype;
    m.call.options.allow_fast_accum = true;
    GemmProblem p;
    GemmBindings bindings;
    ASSERT_TRUE(make_gemm_problem(m.call, true, p, bindings).ok());
    EXPECT_EQ(p.allow_fast_accum, is_ocp_f8(dtype));
  }
  const GemmProblem allowed = *parse_gemm_problem("m=1:n=16:k=16:a=e5m2:allow_fast_accum=1");
  EXPECT_EQ(allowed.allow_fast_accum, 1);
  EXPECT_EQ(print_gemm_problem(allowed), "m=1:n=16:k=16:a=e5m2:layout=rcr:allow_fast_accum=1");
  EXPECT_EQ(gemm_signature(allowed).core, "a=e5m2:b=e5m2:layout=rcr:allow_fast_accum=1");
  EXPECT_THAT(parse_gemm_problem("m=1:n=16:k=16:a=bf16:allow_fast_accum=1").status().message(),
              testing::HasSubstr("'allow_fast_accum' is for e4m3 and e5m2, 'a' is bf16"));
}

TEST(GemmProblem, ProgrammaticEdgesAreAProblemOfTheirOwnWhoseRowsOfOrdinaryEdgesServeToo) {
  const GemmProblem edged = *parse_gemm_problem("m=1:n=16:k=16:a=bf16:programmatic_edge=1");
  EXPECT_EQ(print_gemm_problem(edged), "m=1:n=16:k=16:a=bf16:layout=rcr:programmatic_edge=1");
  const ProblemSignature s = gemm_signature(edged);
  const ProblemSignature plain = gemm_signature(*parse_gemm_problem("m=1:n=16:k=16:a=bf16"));
  EXPECT_EQ(s.core, plain.core + ":programmatic_edge=1");
  EXPECT_EQ(s.other_core, plain.core);
  EXPECT_EQ(plain.other_core, "");
}

TEST(GemmProblem, CIsNotReadWhenBetaIsZero) {
  Matrices m;
  m.call.c = TensorView::contiguous(nullptr, DType::kF32, {3, 3});  // would not even broadcast
  EXPECT_TRUE(m.make().ok());
}

TEST(GemmProblem, TextRoundTripsForRandomProblems) {
  std::mt19937_64 random(5);
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  const DType inputs[] = {DType::kF32, DType::kF16, DType::kBf16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2};
  const DType outputs[] = {DType::kF32, DType::kF16, DType::kBf16};
  for (int i = 0; i < 2000; ++i) {
    std::string text = "m=" + std::to_string(pick(0, 40)) + ":n=" + std::to_string(2 * pick(0, 40)) +
                       ":k=" + std::to_string(pick(0, 40));
    if (pick(0, 3) == 0) text += ":batch=" + std::to_string(pick(0, 4));
    text += std::string(":a=") + dtype_name(inputs[pick(0, 5)]) + ":d=" + dtype_name(outputs[pick(0, 2)]);
    text += std::string(":layout=") + (pick(0, 1) ? 'r' : 'c') + (pick(0, 1) ? 'r' : 'c') + (pick(0, 1) ? 'r' : 'c');
    const bool packable = text.find(":a=e") == std::string::npos;
    if (pick(0, 3) == 0 && packable) text += ":packed=1";
    if (pick(0, 3) == 0) text += ":gate=interleaved";
    if (pick(0, 3) == 0) text += ":bias=bf16";
    if (pick(0, 3) == 0) text += ":c=f32.0.1.100";
    if (pick(0, 3) == 0) text += ":scale_a=f32:scale_b=f32";
    if (pick(0, 3) == 0) text += ":act=gelu";
    if (pick(0, 3) == 0) text += ":steps=add.bf16+act.relu+mul.f16.0.0.1";
    if (pick(0, 3) == 0) text += ":sa=5000.100.2";
    if (pick(0, 3) == 0) text += ":deterministic=1:batch_invariant=1:alpha=1";
    if (pick(0, 3) == 0) text += ":programmatic_edge=1";
    Result<GemmProblem> p = parse_gemm_problem(text);
    ASSERT_TRUE(p.ok()) << text << ": " << p.status().to_string();
    Result<GemmProblem> again = parse_gemm_problem(print_gemm_problem(*p));
    ASSERT_TRUE(again.ok()) << print_gemm_problem(*p) << ": " << again.status().to_string();
    EXPECT_EQ(std::memcmp(&*p, &*again, sizeof(GemmProblem)), 0) << text << "\n" << print_gemm_problem(*p);
  }
}

TEST(GemmProblem, WeightsPackedForNvidiaGpusHaveSizesOfTheirOwn) {
  const GemmProblem p = *parse_gemm_problem("m=1:n=70:k=200:batch=3:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32");
  EXPECT_EQ(p.b_packed, kPackedFragments);
  EXPECT_EQ(p.stride_b_batch, 2 * 2 * 4096);  // of 64 columns and 128 of K
  const GemmProblem again = *parse_gemm_problem(print_gemm_problem(p));
  EXPECT_EQ(std::memcmp(&p, &again, sizeof(GemmProblem)), 0) << print_gemm_problem(p);
}

TEST(GemmProblem, MalformedTextIsRefusedWithTheItem) {
  for (const char* text : {"",
                           "m=1",
                           "m=1:n=2",
                           "m=1:n=2:k=x",
                           "m=-1:n=2:k=3",
                           "m=1:n=2:k=3:a=f64",
                           "m=1:n=2:k=3:layout=rc",
                           "m=1:n=2:k=3:layout=abc",
                           "m=1:n=2:k=3:color=red",
                           "m=1:n=2:k=3:m=4",
                           "m=1:n=2:k=3:sa=1.2",
                           "m=1:n=2:k=3:steps=add",
                           "m=1:n=2:k=3:steps=act.swish",
                           "m=1:n=2:k=3:bias=i8",
                           "m=1:n=3:k=3:gate=separated",
                           "m=99999999999999999999:n=2:k=3",
                           "m=281474976710656:n=281474976710656:k=1",
                           "m=4:n=4:k=4:sd=0.1.1",
                           "m=1:n=2:k=3:scale_a=bf16",
                           "m=1:n=2:k=3:packed=2",
                           "m=1:n=2:k=3:steps=act.relu+act.relu+act.relu+act.relu+act.relu+act.relu+act.relu"}) {
    Result<GemmProblem> p = parse_gemm_problem(text);
    EXPECT_FALSE(p.ok()) << text;
    EXPECT_FALSE(p.status().message().empty()) << text;
  }
}

TEST(GemmProblem, SignatureSeparatesCoreEpilogueSizesAndBucket) {
  const GemmProblem p = *parse_gemm_problem("m=9:n=64:k=32:a=bf16:packed=1:bias=bf16:act=gelu");
  const ProblemSignature s = gemm_signature(p);
  EXPECT_EQ(s.core, "a=bf16:b=bf16:layout=rpr");
  EXPECT_EQ(s.epilogue, "d=bf16:bias=bf16n:act=gelu");
  EXPECT_EQ(s.sizes, "m=9:n=64:k=32:batch=1");
  EXPECT_EQ(s.bucket, "m<=16:n=64:k=32:batch=1");
}

TEST(GemmProblem, ResizingKeepsWhatBroadcasts) {
  const GemmProblem p = *parse_gemm_problem("m=9:n=64:k=32:a=i8:d=f32:scale_a=f32:scale_b=f32:bias=f32:steps=add.f32");
  const GemmProblem q = resize_gemm_problem(p, 3, 10, 7);
  EXPECT_EQ(print_gemm_problem(q), "m=3:n=10:k=7:a=i8:d=f32:layout=rcr:scale_a=f32:scale_b=f32:bias=f32:steps=add.f32");
}

}  // namespace
}  // namespace tilewright
