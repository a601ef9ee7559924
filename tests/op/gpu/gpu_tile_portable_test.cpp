// SPDX-License-Identifier: MIT
// Each primitive of kernels/tile/portable on a GPU: what lane holds what, what is zero, what is rounded how. The twins of
// tests/emulated/cuda claim the same.
#include <cmath>
#include <random>

#include "op/gpu/gpu_test.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright {
namespace {

struct WordArgs {
  const unsigned* in;
  unsigned* out;
  int count;
};

class GpuTilePortable : public test::GpuTest {
 protected:
  // One warp runs `body` with `in`, `out`, `count`, `lane` and the address `shared` of 8 KiB of shared memory.
  std::vector<unsigned> run(const std::string& body, const std::vector<unsigned>& in, size_t out_count,
                            unsigned threads = 32, unsigned blocks = 1) {
    const auto kernel = load(*device,
                             "#include \"gemm/gpu/gemm_activation_gpu.cuh\"\n#include \"tile/portable/convert.cuh\"\n"
                             "#include \"tile/portable/mma.cuh\"\n#include \"tile/portable/shared_tile.cuh\"\n"
                             "using namespace tilewright;\n"
                             "struct Args { const unsigned* in; unsigned* out; int count; };\n"
                             "extern \"C\" __global__ void tw_test(const __grid_constant__ Args a) {\n"
                             "  const unsigned* in = a.in; unsigned* out = a.out; const int lane = threadIdx.x % 32;\n"
                             "  const unsigned shared = shared_address(dynamic_shared());\n" +
                                 body + "\n}\n");
    if (kernel == nullptr) return {};
    void* source = zeros(*device, static_cast<int64_t>(in.size() * 4));
    void* target = zeros(*device, static_cast<int64_t>(out_count * 4));
    EXPECT_TRUE(device->copy_from_host(source, in.data(), static_cast<int64_t>(in.size() * 4)).ok());
    const WordArgs args{static_cast<const unsigned*>(source), static_cast<unsigned*>(target),
                        static_cast<int>(in.size())};
    const LaunchShape shape{.grid = {blocks, 1, 1}, .threads = threads, .shared_bytes = 8192};
    const Status status = launch(*device, *kernel, args, shape);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(device->synchronize().ok());
    return read<unsigned>(*device, target, out_count);
  }
  static std::vector<unsigned> random_words(size_t count) {
    std::mt19937 random(1);
    std::vector<unsigned> words(count);
    for (unsigned& word : words) word = random();
    return words;
  }
};

TEST_F(GpuTilePortable, LdmatrixGivesEachLaneItsPairsOfARowOrOfAColumn) {
  const std::vector<unsigned> words = random_words(128);  // four matrices, a row is four words
  const auto element = [&](size_t matrix, size_t row, size_t column) {
    return words[matrix * 32 + row * 4 + column / 2] >> (column % 2 * 16) & 0xFFFFu;
  };
  for (const bool transposed : {false, true}) {
    const auto got =
        run(fmt::format("for (int i = 0; i < 4; ++i) store_shared(shared + (lane * 4 + i) * 4, in[lane * 4 + i]);\n"
                        "__syncthreads(); unsigned r[4]; load_matrices{}(r, shared + lane * 16);\n"
                        "for (int i = 0; i < 4; ++i) out[lane * 4 + i] = r[i];",
                        transposed ? "_transposed" : ""),
            words, 128);
    ASSERT_EQ(got.size(), 128u);
    for (size_t lane = 0; lane < 32; ++lane) {
      const size_t g = lane / 4, t = lane % 4 * 2;
      for (size_t i = 0; i < 4; ++i) {
        const unsigned want =
            transposed ? element(i, t, g) | element(i, t + 1, g) << 16 : element(i, g, t) | element(i, g, t + 1) << 16;
        EXPECT_EQ(got[lane * 4 + i], want) << "lane " << lane << ", matrix " << i << ", transposed " << transposed;
      }
    }
  }
}

// Rows of A and columns of B as 32 bytes each; small integers, so that every product and sum is exact.
TEST_F(GpuTilePortable, AMatrixInstructionMultipliesRowsOfABySmallIntegersExactly) {
  struct Type {
    DType dtype;
    size_t per_word;
    unsigned (*code)(float);
  };
  const Type types[] = {{DType::kF32, 1, [](float x) { return __builtin_bit_cast(unsigned, x); }},
                        {DType::kBf16, 2, [](float x) { return unsigned{narrow<bf16>(x).bits}; }},
                        {DType::kF16, 2, [](float x) { return unsigned{narrow<f16>(x).bits}; }},
                        {DType::kI8, 4, [](float x) { return static_cast<unsigned>(static_cast<int>(x)) & 0xFFu; }},
                        {DType::kF8E4M3, 4, [](float x) { return unsigned{narrow<e4m3>(x).bits}; }},
                        {DType::kF8E5M2, 4, [](float x) { return unsigned{narrow<e5m2>(x).bits}; }}};
  for (const Type& type : types) {
    SCOPED_TRACE(dtype_name(type.dtype));
    const size_t depth = 8 * type.per_word;
    std::mt19937 random(2);
    std::vector<float> a(16 * depth), b(8 * depth);
    for (auto* side : {&a, &b}) {
      for (float& x : *side) x = static_cast<float>(static_cast<int>(random() % 7) - 3);
    }
    std::vector<unsigned> words;
    for (const auto* side : {&a, &b}) {
      for (size_t i = 0; i < side->size(); i += type.per_word) {
        unsigned word = 0;
        for (size_t j = 0; j < type.per_word; ++j) word |= type.code((*side)[i + j]) << (32 / type.per_word * j);
        words.push_back(word);
      }
    }
    const auto got = run(
        fmt::format("const unsigned* b = in + 128; const int g = lane / 4, t = lane % 4; using M = Mma<DType({})>;\n"
                    "const unsigned f[4] = {{in[g * 8 + t], in[(g + 8) * 8 + t], in[g * 8 + t + 4], in[(g + 8) * 8 + t "
                    "+ 4]}};\n"
                    "M::Accumulator c[4] = {{1, 1, 1, 1}}; M::run(c, f, b[g * 8 + t], b[g * 8 + t + 4]);\n"
                    "for (int i = 0; i < 4; ++i) ((float*)out)[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];",
                    static_cast<int>(type.dtype)),
        words, 128);
    ASSERT_EQ(got.size(), 128u);
    for (size_t m = 0; m < 16; ++m) {
      for (size_t n = 0; n < 8; ++n) {
        float want = 1;
        for (size_t k = 0; k < depth; ++k) want += a[m * depth + k] * b[n * depth + k];
        EXPECT_EQ(__builtin_bit_cast(float, got[m * 8 + n]), want) << m << ", " << n;
      }
    }
  }
}

TEST_F(GpuTilePortable, EveryEightBitFloatWidensExactlyWithAndWithoutItsInstruction) {
  std::vector<unsigned> words(64);
  for (unsigned i = 0; i < 64; ++i) words[i] = 0x03020100u + 0x04040404u * i;
  for (const char* function : {"widen_e4m3", "widen_e4m3_by_bits", "widen_e5m2"}) {
    SCOPED_TRACE(function);
    const auto got =
        run(fmt::format("for (int i = lane; i < 64; i += 32) {{ const F16Pairs p = {}(in[i]); out[2 * i] = "
                        "p.low; out[2 * i + 1] = p.high; }}",
                        function),
            words, 128);
    ASSERT_EQ(got.size(), 128u);
    for (unsigned code = 0; code < 256; ++code) {
      const auto bits = static_cast<unsigned char>(code);
      const float want = std::string_view(function) == "widen_e5m2" ? widen(e5m2{bits}) : widen(e4m3{bits});
      const float value = widen(f16{static_cast<unsigned short>(got[code / 2] >> (code % 2 * 16))});
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(value)) << code;
      } else {
        EXPECT_EQ(__builtin_bit_cast(unsigned, value), __builtin_bit_cast(unsigned, want)) << code;
      }
    }
  }
}

TEST_F(GpuTilePortable, AnAsynchronousCopyBringsWhatIsThereAndZeros) {
  const std::vector<unsigned> words = random_words(64);
  const auto* source = reinterpret_cast<const unsigned char*>(words.data());
  for (const size_t bytes : {16u, 8u, 4u}) {
    const auto got =
        run(fmt::format("for (int i = 0; i < 4; ++i) store_shared(shared + lane * 16 + i * 4, 0xFFFFFFFFu);\n"
                        "__syncthreads(); copy_async<{0}>(shared + lane * {0}, (const char*)in + lane % 2 * {0}, "
                        "lane % {1}); commit_copies(); wait_copies<0>(); __syncthreads();\n"
                        "for (int i = lane; i < 8 * {0}; i += 32) out[i] = ((const unsigned*)dynamic_shared())[i];",
                        bytes, bytes + 1),
            words, 8 * bytes);
    ASSERT_EQ(got.size(), 8 * bytes);
    const auto* target = reinterpret_cast<const unsigned char*>(got.data());
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < bytes; ++i) {
        EXPECT_EQ(target[lane * bytes + i], i < lane % (bytes + 1) ? source[lane % 2 * bytes + i] : 0)
            << "lane " << lane << ", byte " << i << " of " << bytes;
      }
    }
  }
}

// All exponents, random mantissas, and what is special.
std::vector<unsigned> sample_floats() {
  std::vector<unsigned> bits = {0, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x477FF000u, 0x7F7FFFFFu};
  std::mt19937 random(3);
  while (bits.size() < 1u << 16) bits.push_back(random());
  return bits;
}

TEST_F(GpuTilePortable, ConversionsRoundToNearestEvenAndKeepNan) {
  const std::vector<unsigned> in = sample_floats();
  const auto got =
      run("for (int i = blockIdx.x * 256 + threadIdx.x; i < a.count; i += 256 * gridDim.x) {\n"
          "  const float x = __uint_as_float(in[i]); out[3 * i] = pack_bf16(x, -x); out[3 * i + 1] = pack_f16(x, -x);\n"
          "  out[3 * i + 2] = narrow_bf16(x) | unsigned(narrow_f16(x)) << 16; }",
          in, 3 * in.size(), 256, 32);
  ASSERT_EQ(got.size(), 3 * in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const float x = __builtin_bit_cast(float, in[i]);
    const auto expect_code = [&](unsigned code, unsigned want) {
      EXPECT_EQ(code, std::isnan(x) ? 0x7FFFu : want) << x;
    };
    expect_code(got[3 * i] & 0xFFFF, narrow<bf16>(x).bits), expect_code(got[3 * i] >> 16, narrow<bf16>(-x).bits);
    expect_code(got[3 * i + 1] & 0xFFFF, narrow<f16>(x).bits), expect_code(got[3 * i + 1] >> 16, narrow<f16>(-x).bits);
    expect_code(got[3 * i + 2] & 0xFFFF, narrow<bf16>(x).bits), expect_code(got[3 * i + 2] >> 16, narrow<f16>(x).bits);
  }
}

TEST_F(GpuTilePortable, ApproximationsKeepTheirBounds) {
  const std::vector<unsigned> in = sample_floats();
  const auto got =
      run("for (int i = blockIdx.x * 256 + threadIdx.x; i < a.count; i += 256 * gridDim.x) {\n"
          "  const float x = __uint_as_float(in[i]); float* y = (float*)out + 4 * i;\n"
          "  y[0] = exp2_approx(x); y[1] = reciprocal_approx(x); y[2] = at_least(x, -1.0f); y[3] = at_most(x, 1.0f); }",
          in, 4 * in.size(), 256, 32);
  ASSERT_EQ(got.size(), 4 * in.size());
  constexpr double kU = 0x1p-24, kSmallest = 0x1p-126, kLargest = 0x1p127;
  for (size_t i = 0; i < in.size(); ++i) {
    const float x = __builtin_bit_cast(float, in[i]);
    const auto y = [&](size_t j) { return __builtin_bit_cast(float, got[4 * i + j]); };
    if (std::isnan(x)) {
      for (size_t j = 0; j < 4; ++j) EXPECT_TRUE(std::isnan(y(j))) << j;
      continue;
    }
    const double power = std::exp2(static_cast<double>(x)), inverse = 1.0 / static_cast<double>(x);
    if (power >= kSmallest && power <= kLargest) {
      EXPECT_LE(std::fabs(y(0) - power), 4 * kU * power) << x;
    }
    if (power < kSmallest) {
      EXPECT_LE(y(0), kSmallest) << x;
    }
    if (std::fabs(x) >= kSmallest && std::fabs(inverse) >= kSmallest && std::fabs(inverse) <= kLargest) {
      EXPECT_LE(std::fabs(y(1) - inverse), 2 * kU * std::fabs(inverse)) << x;
    }
    EXPECT_EQ(y(2), x < -1.0f ? -1.0f : x);
    EXPECT_EQ(y(3), x > 1.0f ? 1.0f : x);
  }
}

}  // namespace
}  // namespace tilewright
