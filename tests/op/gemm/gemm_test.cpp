// SPDX-License-Identifier: MIT
// gemm through the public API: results, promises, sizes at the edges. Compiling is off: what is always built serves.
#include "tilewright/gemm.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "op/gemm/built_context.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

// Runs a problem from its text on guarded, poisoned buffers and returns the verdict.
VerifyReport run_text(const std::string& text, uint64_t seed = 1, int units = 0, const std::string& recipe = "") {
  const Operator& op = gemm_operator();
  Result<std::vector<std::byte>> problem = op.parse_problem(text);
  EXPECT_TRUE(problem.ok()) << problem.status().to_string();
  auto instance = op.instantiate(*problem, test::built_context().impl().device(), {});
  EXPECT_TRUE(instance.ok()) << instance.status().to_string();
  (*instance)->fill(seed, InputData::kNormal);
  (*instance)->poison();
  Exec exec;
  exec.units = units;
  const Status status = test::built_context().impl().run(op, *problem, (*instance)->bindings(), exec, recipe);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return (*instance)->verify();
}

class GemmShapes : public testing::TestWithParam<const char*> {};

TEST_P(GemmShapes, EveryDtypeLayoutAndWeightFormMatchesTheReference) {
  for (const char* types :
       {"a=f32", "a=bf16", "a=f16", "a=i8:d=f32:scale_a=f32:scale_b=f32", "a=bf16:d=f32", "a=f32:d=f16"}) {
    for (const char* layout : {"rcr", "rrr", "crr", "ccr", "rcr:packed=1", "rrc"}) {
      const std::string text = std::string(GetParam()) + ":" + types + ":layout=" + layout;
      for (int units : {1, 2}) {
        const VerifyReport report = run_text(text, 3, units);
        EXPECT_TRUE(report.passed) << text << " units=" << units << ": " << report.failure;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GemmShapes,
                         testing::Values("m=1:n=1:k=1", "m=1:n=257:k=129", "m=3:n=16:k=2", "m=16:n=48:k=64",
                                         "m=17:n=31:k=33", "m=33:n=100:k=257", "m=64:n=128:k=512", "m=130:n=70:k=300",
                                         "m=5:n=40:k=70:batch=3"));

TEST(Gemm, EpiloguesMatchTheReference) {
  for (const char* act : {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "clamp"}) {
    for (const char* rest : {"", ":bias=bf16", ":c=f32:alpha=1", ":gate=separated:bias=f32", ":gate=interleaved",
                             ":steps=add.bf16+act.relu+mul.f16.0.0.1", ":gate=separated:steps=mul.f32+add.f32.0.1.0"}) {
      for (const char* weights : {"", ":packed=1"}) {
        const std::string text = std::string("m=19:n=74:k=65:a=bf16:act=") + act + rest + weights;
        const VerifyReport report = run_text(text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST(Gemm, EveryCandidateOfEveryFamilyThatIsBuiltMatchesTheReference) {
  for (const char* text :
       {"m=1:n=200:k=300:a=bf16:packed=1", "m=7:n=200:k=300:a=bf16",
        "m=40:n=90:k=200:a=bf16:packed=1:bias=f32:act=silu", "m=40:n=90:k=200:a=f32", "m=9:n=90:k=200:a=f16:packed=1",
        "m=40:n=90:k=200:a=i8:d=bf16:scale_a=f32:scale_b=f32", "m=2:n=90:k=200:a=i8:d=f32:packed=1:gate=separated"}) {
    const Operator& op = gemm_operator();
    Result<std::vector<std::byte>> problem = op.parse_problem(text);
    ASSERT_TRUE(problem.ok());
    ContextImpl& impl = test::built_context().impl();
    auto choices = impl.dispatcher().choices(op, *problem, impl.spec(0), *impl.tables(), "", nullptr);
    ASSERT_TRUE(choices.ok()) << choices.status().to_string();
    int ran = 0;
    for (const Choice& choice : *choices) {
      if (!impl.dispatcher().built(op, choice.recipe)) continue;
      const std::string recipe = print_recipe(op.families(), choice.recipe);
      const VerifyReport report = run_text(text, 5, 0, recipe);
      EXPECT_TRUE(report.passed) << text << " " << recipe << ": " << report.failure;
      ++ran;
    }
    // Below AVX2 there is the generic kernel only.
    EXPECT_GE(ran, runs_on("x86-64-v3", impl.spec(0).arch->target) ? 2 : 1) << text;
  }
}

TEST(Gemm, EmptyOutputsAreLeftAloneAndZeroKAppliesTheEpilogue) {
  float bias[4] = {1, -2, 3, -4}, d[8];
  std::fill_n(d, 8, 99.0f);
  GemmCall call;
  call.a = TensorView::contiguous(nullptr, DType::kF32, {2, 0});
  call.b = TensorView::contiguous(nullptr, DType::kF32, {0, 4});
  call.d = TensorView::contiguous(d, DType::kF32, {2, 4});
  call.bias = TensorView::contiguous(bias, DType::kF32, {4});
  call.activation = Activation::kRelu;
  ASSERT_TRUE(gemm(test::built_context(), call).ok());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(d[i], std::max(bias[i % 4], 0.0f));
  call.a.shape[0] = call.d.shape[0] = 0;
  std::fill_n(d, 8, 99.0f);
  ASSERT_TRUE(gemm(test::built_context(), call).ok());
  EXPECT_EQ(d[0], 99.0f);
}

TEST(Gemm, QuestionsAboutEmptyProblemsAreAnswered) {
  for (const char* text : {"m=0:n=4:k=4", "m=4:n=0:k=4", "m=4:n=4:k=0", "m=4:n=4:k=4:batch=0", "m=0:n=0:k=0"}) {
    for (const char* more : {":a=f32", ":a=bf16:packed=1", ":a=i8:d=f32"}) {
      const std::vector<std::byte> problem = *gemm_operator().parse_problem(std::string(text) + more);
      const Result<QueryResult> query = test::built_context().impl().query(gemm_operator(), problem, 0, "");
      ASSERT_TRUE(query.ok()) << text << more << ": " << query.status().to_string();
      EXPECT_EQ(query->source, "generic") << text << more;
      EXPECT_TRUE(test::built_context().impl().explain(gemm_operator(), problem, 0, "").ok()) << text << more;
    }
  }
}

TEST(Gemm, BetaZeroDoesNotReadNaNAndInPlaceAddWorks) {
  alignas(64) float a[4 * 8], b[8 * 4], d[16];
  for (float& x : a) x = 1;
  for (float& x : b) x = 2;
  std::fill_n(d, 16, NAN);
  GemmCall call;
  call.a = TensorView::contiguous(a, DType::kF32, {4, 8});
  call.b = TensorView::contiguous(b, DType::kF32, {8, 4});
  call.d = TensorView::contiguous(d, DType::kF32, {4, 4});
  call.c = call.d;
  ASSERT_TRUE(gemm(test::built_context(), call).ok());
  for (float x : d) EXPECT_EQ(x, 16.0f);
  call.beta = 1;
  ASSERT_TRUE(gemm(test::built_context(), call).ok());
  for (float x : d) EXPECT_EQ(x, 32.0f);
}

TEST(Gemm, NaNAndInfinityInInputsReachTheOutput) {
  alignas(64) float a[8 * 40], b[40 * 8], d[64];
  for (int packed = 0; packed < 2; ++packed) {
    std::fill_n(a, 8 * 40, 1.0f);
    std::fill_n(b, 40 * 8, 1.0f);
    a[2 * 40 + 39] = NAN;
    a[5 * 40 + 1] = INFINITY;
    GemmCall call;
    call.a = TensorView::contiguous(a, DType::kF32, {8, 40});
    call.b = TensorView::contiguous(b, DType::kF32, {40, 8});
    call.d = TensorView::contiguous(d, DType::kF32, {8, 8});
    std::vector<uint8_t> memory(static_cast<size_t>(*gemm_packed_bytes(DType::kF32, 8, 40)) + 64);
    void* out = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    if (packed) {
      ASSERT_TRUE(gemm_pack_weights(test::built_context(), call.b, out, static_cast<int64_t>(memory.size()) - 63).ok());
      call.b = *gemm_packed_view(out, static_cast<int64_t>(memory.size()) - 63);
    }
    ASSERT_TRUE(gemm(test::built_context(), call).ok());
    for (int n = 0; n < 8; ++n) {
      EXPECT_TRUE(std::isnan(d[2 * 8 + n]));
      EXPECT_TRUE(std::isinf(d[5 * 8 + n]));
      EXPECT_EQ(d[3 * 8 + n], 40.0f);
    }
  }
}

// Bits of row 0 for the same row in problems of different M, place and unit budget.
TEST(Gemm, BatchInvariantRowsHaveTheSameBitsWhateverMPlaceAndUnits) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}) {
    for (const bool packed : {false, true}) {
      constexpr int64_t kM = 70, kN = 50, kK = 333;
      std::vector<uint8_t> a(kM * kK * 4), b(kN * kK * 4),
          memory(static_cast<size_t>(*gemm_packed_bytes(dtype, kN, kK)) + 64);
      for (int64_t i = 0; i < kM * kK; ++i)
        store_element(dtype, a.data(), i,
                      dtype == DType::kI8 ? double((i * 37) % 255 - 127) : std::sin(double(i % kK) * 1.7 + 1));
      // Every row of A is the same row.
      for (int64_t i = 0; i < kN * kK; ++i)
        store_element(dtype, b.data(), i,
                      dtype == DType::kI8 ? double((i * 91) % 255 - 127) : std::cos(double(i) * 0.3));
      const int64_t size = dtype_bits(dtype) / 8;
      for (int64_t m = 1; m < kM; ++m) std::memcpy(a.data() + m * kK * size, a.data(), static_cast<size_t>(kK * size));
      void* out = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
      std::vector<float> first;
      for (const int64_t m : {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{16}, int64_t{17}, int64_t{33}, kM}) {
        for (int units : {1, 2}) {
          std::vector<float> d(static_cast<size_t>(m * kN));
          GemmCall call;
          call.a = TensorView::contiguous(a.data(), dtype, {m, kK});
          call.b = TensorView::contiguous(b.data(), dtype, {kN, kK}).transposed();
          call.d = TensorView::contiguous(d.data(), DType::kF32, {m, kN});
          call.options.batch_invariant = true;
          if (packed) {
            ASSERT_TRUE(gemm_pack_weights(test::built_context(), call.b, out, *gemm_packed_bytes(dtype, kN, kK)).ok());
            call.b = *gemm_packed_view(out, *gemm_packed_bytes(dtype, kN, kK));
          }
          Exec exec;
          exec.units = units;
          const Status status = gemm(test::built_context(), call, exec);
          ASSERT_TRUE(status.ok()) << status.to_string();
          if (first.empty()) first.assign(d.begin(), d.begin() + kN);
          for (int64_t row = 0; row < m; ++row) {
            ASSERT_EQ(std::memcmp(first.data(), d.data() + row * kN, kN * sizeof(float)), 0)
                << dtype_name(dtype) << " packed=" << packed << " m=" << m << " row=" << row << " units=" << units;
          }
        }
      }
    }
  }
}

TEST(Gemm, BatchInvariantRowsOfNarrowWeightsHaveTheSameBitsWhateverMIs) {
  constexpr int64_t kM = 40, kN = 50, kK = 384;
  std::vector<uint16_t> a(kM * kK), scales(kN * kK / 128, 0x3555);
  std::vector<uint8_t> b(kN * kK / 2);
  for (size_t i = 0; i < a.size(); ++i) {
    store_element(DType::kBf16, a.data(), static_cast<int64_t>(i), std::sin(static_cast<double>(i % kK) * 1.7));
  }
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 91);
  std::vector<float> first;
  for (const int64_t m : {int64_t{1}, int64_t{5}, int64_t{16}, int64_t{17}, kM}) {
    std::vector<float> d(static_cast<size_t>(m * kN));
    GemmCall call;
    call.a = TensorView::contiguous(a.data(), DType::kBf16, {m, kK});
    call.b = TensorView::contiguous(b.data(), DType::kU4, {kN, kK}).transposed();
    call.scale_b = TensorView::contiguous(scales.data(), DType::kF16, {kN, kK / 128}).transposed();
    call.scale_group_b = {1, 128};
    call.d = TensorView::contiguous(d.data(), DType::kF32, {m, kN});
    call.options.batch_invariant = true;
    const Status status = gemm(test::built_context(), call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (first.empty()) first.assign(d.begin(), d.begin() + kN);
    for (int64_t row = 0; row < m; ++row) {
      ASSERT_EQ(std::memcmp(first.data(), d.data() + row * kN, kN * sizeof(float)), 0) << "m=" << m << " row " << row;
    }
  }
}

// Their tolerance is that of tensor cores; here every order and rounding is known.
TEST(Gemm, EightBitFloatsGiveTheBitsOfTheSameNumbersInF32) {
  constexpr int64_t kM = 37, kN = 45, kK = 300;
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    std::vector<uint8_t> a(kM * kK), b(kN * kK);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 37 % 0x7C | (i % 3 == 0 ? 0x80 : 0));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 53 % 0x7C | (i % 5 == 0 ? 0x80 : 0));
    std::vector<float> wide_a(a.size()), wide_b(b.size()), scale(kM, 0.5f), d(kM * kN), wide_d(kM * kN);
    for (size_t i = 0; i < a.size(); ++i) wide_a[i] = static_cast<float>(load_element(dtype, a.data(), int64_t(i)));
    for (size_t i = 0; i < b.size(); ++i) wide_b[i] = static_cast<float>(load_element(dtype, b.data(), int64_t(i)));
    const auto run = [&](DType type, void* x, void* y, std::vector<float>& out) {
      GemmCall call;
      call.a = TensorView::contiguous(x, type, {kM, kK});
      call.b = TensorView::contiguous(y, type, {kN, kK}).transposed();
      call.d = TensorView::contiguous(out.data(), DType::kF32, {kM, kN});
      call.scale_a = TensorView::contiguous(scale.data(), DType::kF32, {kM, 1});
      call.options.recipe = "gemm/gemm_generic/x86-64/any/run_time=1";
      const Status status = gemm(test::built_context(), call);
      EXPECT_TRUE(status.ok()) << status.to_string();
    };
    run(dtype, a.data(), b.data(), d);
    run(DType::kF32, wide_a.data(), wide_b.data(), wide_d);
    EXPECT_EQ(std::memcmp(d.data(), wide_d.data(), d.size() * sizeof(float)), 0) << dtype_name(dtype);
  }
}

TEST(Gemm, PackedWeightsUnpackToTheSameBytesAndDamagedOnesAreRefused) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{37, 45}, {64, 64}, {1, 1}, {0, 5}, {5, 0}, {130, 17}}) {
      for (const bool k_contiguous : {true, false}) {
        const size_t size = static_cast<size_t>(dtype_bits(dtype) / 8);
        std::vector<uint8_t> b(static_cast<size_t>(n * k) * size + 1), back(b.size());
        for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 31 + 7);
        const int64_t bytes = *gemm_packed_bytes(dtype, n, k);
        std::vector<uint8_t> memory(static_cast<size_t>(bytes) + 64);
        void* out = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
        auto view = [&](void* data) {
          return k_contiguous ? TensorView::contiguous(data, dtype, {n, k}).transposed()
                              : TensorView::contiguous(data, dtype, {k, n});
        };
        ASSERT_TRUE(gemm_pack_weights(test::built_context(), view(b.data()), out, bytes).ok());
        Result<TensorView> packed = gemm_packed_view(out, bytes);
        ASSERT_TRUE(packed.ok()) << packed.status().to_string();
        ASSERT_TRUE(gemm_unpack_weights(test::built_context(), *packed, view(back.data())).ok());
        EXPECT_EQ(std::memcmp(b.data(), back.data(), static_cast<size_t>(n * k) * size), 0)
            << dtype_name(dtype) << " " << k << "x" << n;
        EXPECT_FALSE(gemm_packed_view(out, bytes - 1).ok());
        static_cast<uint8_t*>(out)[4] ^= 1;  // version
        EXPECT_EQ(gemm_packed_view(out, bytes).status().code(), StatusCode::kCorrupt);
        static_cast<uint8_t*>(out)[0] ^= 1;  // magic
        EXPECT_EQ(gemm_packed_view(out, bytes).status().code(), StatusCode::kCorrupt);
      }
    }
  }
}

TEST(Gemm, UnalignedPointersWork) {
  std::vector<uint8_t> a(7 * 33 * 2 + 8), b(33 * 21 * 2 + 8), d(7 * 21 * 2 + 8), e(7 * 21 * 2 + 8);
  GemmCall call;
  for (int shift : {2, 6}) {
    auto fill = [&](std::vector<uint8_t>& v, int64_t count) {
      for (int64_t i = 0; i < count; ++i) store_element(DType::kBf16, v.data() + shift, i, std::sin(double(i)));
    };
    fill(a, 7 * 33), fill(b, 33 * 21);
    call.a = TensorView::contiguous(a.data() + shift, DType::kBf16, {7, 33});
    call.b = TensorView::contiguous(b.data() + shift, DType::kBf16, {33, 21});
    call.d = TensorView::contiguous(d.data() + shift, DType::kBf16, {7, 21});
    ASSERT_TRUE(gemm(test::built_context(), call).ok());
    call.d.data = e.data() + shift;
    ASSERT_TRUE(gemm_reference(call).ok());
    for (int64_t i = 0; i < 7 * 21; ++i) {
      EXPECT_NEAR(load_element(DType::kBf16, d.data() + shift, i), load_element(DType::kBf16, e.data() + shift, i),
                  0.05);
    }
  }
}

TEST(Gemm, AForcedRecipeRunsAndAnIllegalOneIsRefused) {
  float a[16], b[16], d[16];
  GemmCall call;
  call.a = TensorView::contiguous(a, DType::kF32, {4, 4});
  call.b = TensorView::contiguous(b, DType::kF32, {4, 4});
  call.d = TensorView::contiguous(d, DType::kF32, {4, 4});
  call.options.recipe = "gemm/gemm_generic/x86-64/any/run_time=1";
  EXPECT_TRUE(gemm(test::built_context(), call).ok());
  Result<QueryResult> query = gemm_query(test::built_context(), call);
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->source, "forced");
  for (const char* recipe : {"nonsense", "gemm/nobody/x86-64/any/run_time=1", "gemm/gemm_generic/x86-64/any/run_time=2",
                             "gemm/gemm_cpu/sm_90a/dtype=f32/"
                             "dtype=f32:mma=fma_avx2:tile_m=6:tile_n=16:prefetch=0@block_m=1:block_n=1:block_k=1"}) {
    call.options.recipe = recipe;
    EXPECT_FALSE(gemm(test::built_context(), call).ok()) << recipe;
  }
}

TEST(Gemm, ExplainNamesTheChoiceAndEveryRefusal) {
  GemmCall call;
  call.a = TensorView::contiguous(nullptr, DType::kBf16, {64, 128});
  call.b = TensorView::contiguous(nullptr, DType::kBf16, {32, 128}).transposed();
  call.d = TensorView::contiguous(nullptr, DType::kBf16, {64, 32});
  Result<std::string> text = gemm_explain(test::built_context(), call);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_NE(text->find("chosen"), std::string::npos);
  EXPECT_NE(text->find("gemm_generic"), std::string::npos) << *text;
  EXPECT_NE(text->find("gemv_cpu: M = 64, allowed: at most 16"), std::string::npos) << *text;
}

TEST(Gemm, ATooSmallWorkspaceIsRefusedAndTheQueriedSizeWorks) {
  std::vector<float> a(64 * 64), b(64 * 64), d(64 * 64);
  GemmCall call;
  call.a = TensorView::contiguous(a.data(), DType::kF32, {64, 64});
  call.b = TensorView::contiguous(b.data(), DType::kF32, {64, 64});
  call.d = TensorView::contiguous(d.data(), DType::kF32, {64, 64});
  Result<QueryResult> query = gemm_query(test::built_context(), call);
  ASSERT_TRUE(query.ok());
  if (query->workspace_bytes == 0) GTEST_SKIP() << "the chosen kernel needs no workspace";
  std::vector<uint8_t> workspace(static_cast<size_t>(query->workspace_bytes) + 64);
  Exec exec;
  exec.workspace = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  exec.workspace_bytes = query->workspace_bytes;
  EXPECT_TRUE(gemm(test::built_context(), call, exec).ok());
  exec.workspace_bytes -= 1;
  EXPECT_EQ(gemm(test::built_context(), call, exec).code(), StatusCode::kInvalidArgument);
}

TEST(Gemm, AnInstanceCompiledNowMatchesTheReferenceAndIsThereNextTime) {
  if (!host_compiler().available().ok()) GTEST_SKIP() << host_compiler().available().to_string();
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("tilewright_jit_{}", getpid());
  const Operator& op = gemm_operator();
  const auto problem = *op.parse_problem("m=21:n=100:k=130:a=f32:packed=1:bias=f32:act=gelu");
  for (const uint64_t compiles : {1, 0}) {
    ContextOptions options;
    options.jit = "on";
    options.cache_dir = root.string();
    options.user_tables = false;
    auto fresh = *Context::create(options);
    ContextImpl& impl = fresh->impl();
    // The first candidate that is not always built.
    auto choices = *impl.dispatcher().choices(op, problem, impl.spec(0), *impl.tables(), "", nullptr);
    std::string recipe;
    for (const Choice& choice : choices) {
      RegistryEntry entry;
      const bool builtin = impl.registry().find(choice.recipe.steps[0].key.text, entry) && entry.builtin != nullptr;
      if (recipe.empty() && !builtin) recipe = print_recipe(op.families(), choice.recipe);
    }
    if (recipe.empty()) GTEST_SKIP() << "every kernel for " << impl.spec(0).arch->target << " is always built";
    auto instance = *op.instantiate(problem, impl.device(), {});
    instance->fill(2, InputData::kNormal);
    instance->poison();
    const Status status = impl.run(op, problem, instance->bindings(), {}, recipe);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const VerifyReport report = instance->verify();
    EXPECT_TRUE(report.passed) << recipe << ": " << report.failure;
    EXPECT_EQ(snapshot(impl.counters()).compiles, compiles);
  }
  std::filesystem::remove_all(root);
}

// Address space without memory: only touched pages exist.
struct Sparse {
  char* data;
  size_t bytes;
  explicit Sparse(size_t size) : bytes(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
  }
  ~Sparse() {
    if (data != nullptr) munmap(data, bytes);
  }
};

TEST(Gemm, OffsetsBeyondTwoToThe31ElementsAndBytesAreRight) {
  constexpr int64_t kFar = (int64_t{1} << 31) + 8;  // elements between rows
  for (const bool wide_m : {true, false}) {
    const int64_t m = wide_m ? 40 : 3;
    constexpr int64_t kN = 3, kK = 5;
    Sparse a(static_cast<size_t>((m - 1) * kFar + kK) * 2), b(static_cast<size_t>((kN - 1) * kFar + kK) * 2),
        d(static_cast<size_t>((m - 1) * kFar + kN) * 4);
    if (a.data == nullptr || b.data == nullptr || d.data == nullptr)
      GTEST_SKIP() << "no address space for sparse buffers";
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < kK; ++j) store_element(DType::kBf16, a.data, i * kFar + j, double(i + j));
    }
    for (int64_t i = 0; i < kN; ++i) {
      for (int64_t j = 0; j < kK; ++j) store_element(DType::kBf16, b.data, i * kFar + j, double(i - j));
    }
    GemmCall call;
    call.a = TensorView::strided(a.data, DType::kBf16, {m, kK}, {kFar, 1});
    call.b = TensorView::strided(b.data, DType::kBf16, {kK, kN}, {1, kFar});
    call.d = TensorView::strided(d.data, DType::kF32, {m, kN}, {kFar, 1});
    for (const char* recipe : {"", "gemm/gemm_generic/x86-64/any/run_time=1"}) {
      call.options.recipe = recipe;
      const Status status = gemm(test::built_context(), call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t n = 0; n < kN; ++n) {
          double want = 0;
          for (int64_t j = 0; j < kK; ++j) want += double(i + j) * double(n - j);
          EXPECT_EQ(load_element(DType::kF32, d.data, i * kFar + n), want);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
