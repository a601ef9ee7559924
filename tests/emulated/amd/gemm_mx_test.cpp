// SPDX-License-Identifier: MIT
// gemm_amd with block scales, launched by hand on emulated gfx950: what no problem of random data has, scales from 2^-127 to
// 2^127 and NaN, last groups that K cuts short, and scales of strides of their own, against float64.
#include <cmath>

#include "core/fields.hpp"
#include "emulated/amd/amd_kernels.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright::emu {
namespace {

struct Operand {
  DType dtype;
  int64_t outer, k;
  bool along_k;
  std::vector<unsigned char> codes;  // two a byte of e2m1
  // [outer][groups], or with `across` [groups][outer].
  std::vector<unsigned char> scales;
  int64_t groups, stride_outer, stride_group;

  Operand(DType type, int64_t rows, int64_t depth, bool contiguous_k, bool across, unsigned seed)
      : dtype(type), outer(rows), k(depth), along_k(contiguous_k), groups((depth + 31) / 32) {
    codes.resize(static_cast<size_t>(rows * depth * dtype_bits(type) / 8));
    scales.resize(static_cast<size_t>(rows * groups));
    stride_outer = across ? 1 : groups, stride_group = across ? rows : 1;
    const auto next = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 16; };
    for (unsigned char& code : codes) {
      do code = static_cast<unsigned char>(next());
      while (type == DType::kF8E4M3 ? (code & 0x7F) == 0x7F : type == DType::kF8E5M2 && (code & 0x7F) >= 0x60);
    }
    for (unsigned char& scale : scales) scale = static_cast<unsigned char>(120 + next() % 15);
  }
  unsigned char& scale(int64_t row, int64_t group) {
    return scales[static_cast<size_t>(row * stride_outer + group * stride_group)];
  }
  double value(int64_t row, int64_t at) const {
    const auto place = static_cast<size_t>(along_k ? row * k + at : at * outer + row);
    if (dtype == DType::kF4E2M1) return widen(e2m1x2{codes[place / 2]}, static_cast<int>(place % 2));
    return dtype == DType::kF8E4M3 ? widen(e4m3{codes[place]}) : widen(e5m2{codes[place]});
  }
};

struct Shape {
  int64_t m, n, k;
};

class AmdBlockScales : public testing::Test {
 protected:
  void SetUp() override { TILEWRIGHT_SKIP_WITHOUT_FIBERS(); }

  static GemmAmdConfig config(DType a, DType b, int scale_copy, int direct) {
    GemmAmdConfig c{};
    c.dtype = a, c.b_dtype = b, c.wave = 64, c.mma = 32, c.a_copy = c.b_copy = 16, c.scale = DType::kE8M0,
    c.scale_copy = scale_copy;
    c.tile_m = 128, c.tile_n = 64, c.tile_k = 128, c.waves_m = c.waves_n = 2, c.direct = direct, c.stages = 2;
    c.epilogue = EpilogueKind::kPlain, c.d_dtype = DType::kF32;
    return c;
  }

  static void check(GemmAmdConfig c, const Shape& shape, Operand& a, Operand& b) {
    c.a_major = a.along_k ? Major::kK : Major::kMn, c.b_major = b.along_k ? Major::kK : Major::kMn;
    SCOPED_TRACE(print_fields(c) + fmt::format(" {}x{}x{}", shape.m, shape.n, shape.k));
    ASSERT_EQ(gemm_amd_refusal(c), nullptr) << gemm_amd_refusal(c);
    const std::string kernel = fmt::format("gemm_amd<tilewright::GemmAmdConfig{}>", cpp_initializer(c));
    const std::string source = gpu_instance_source(ArchVendor::kAmd, "gemm/amd/gemm_amd.hpp", "mx", kernel,
                                                   "GemmAmdArgs", gemm_amd_shape(c).threads, 1);
    const Result<EmulatedObject> object = compile_amd(source, "gfx950");
    ASSERT_TRUE(object.ok()) << object.status().to_string();

    std::vector<float> d(static_cast<size_t>(shape.m * shape.n), -1);
    GemmAmdArgs args{};
    args.tiles = gemm_amd_tiles(c, shape.m, shape.n, shape.k, 1, 0);
    args.xcds = 8, args.band = 8;
    GemmArgs& g = args.gemm;
    g.m = shape.m, g.n = shape.n, g.k = shape.k, g.batch = 1, g.a = a.codes.data(), g.b = b.codes.data();
    g.stride_a_m = a.along_k ? shape.k : 1, g.stride_a_k = a.along_k ? 1 : shape.m;
    g.stride_b_n = b.along_k ? shape.k : 1, g.stride_b_k = b.along_k ? 1 : shape.n;
    g.epilogue.alpha = 1, g.epilogue.d = d.data(), g.epilogue.stride_d_m = shape.n, g.epilogue.stride_d_n = 1;
    g.epilogue.d_dtype = DType::kF32;
    args.scale.a = {a.scales.data(), 0, a.stride_outer, a.stride_group, 1, 32, DType::kE8M0};
    args.scale.b = {b.scales.data(), 0, b.stride_outer, b.stride_group, 1, 32, DType::kE8M0};
    AmdLaunch launch(*object, "mx");
    launch.value(args).allow("a", &a.codes).allow("b", &b.codes).allow("d", &d, false);
    launch.allow("scales of a", &a.scales).allow("scales of b", &b.scales);
    launch.shape({args.tiles.count, 1, 1}, {static_cast<uint32_t>(gemm_amd_shape(c).threads), 1, 1},
                 static_cast<uint32_t>(gemm_amd_shape(c).lds_bytes));
    launch.run_clean();
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t at = 0; at < shape.k; ++at) {
          const double product = a.value(i, at) * b.value(j, at) *
                                 static_cast<double>(widen(e8m0{a.scale(i, at / 32)})) *
                                 static_cast<double>(widen(e8m0{b.scale(j, at / 32)}));
          sum += product, size += std::abs(product);
        }
        const float found = d[static_cast<size_t>(i * shape.n + j)];
        if (std::isnan(sum)) {
          ASSERT_TRUE(std::isnan(found)) << i << ", " << j << ": " << found;
        } else {
          ASSERT_NEAR(found, sum, size * static_cast<double>(shape.k) * 0x1p-24) << i << ", " << j;
        }
      }
    }
  }
};

TEST_F(AmdBlockScales, ScalesOfEverySizeAndNanAreThoseOfTheirOwnRowsAndGroups) {
  for (const int direct : {0, 1}) {
    const Shape shape{130, 66, 256};
    Operand a(DType::kF8E4M3, shape.m, shape.k, true, false, 1), b(DType::kF4E2M1, shape.n, shape.k, true, false, 2);
    // 2^-127 of one goes with 2^127 of the other; a zero of either; NaN reaches its row or column and no other.
    for (int64_t i = 0; i < shape.m; ++i) a.scale(i, 3) = 0;
    for (int64_t j = 0; j < shape.n; ++j) b.scale(j, 3) = 254;
    a.scale(7, 1) = 230, a.scale(129, 7) = 255, b.scale(65, 0) = 255, b.scale(64, 5) = 1;
    check(config(a.dtype, b.dtype, 4, direct), shape, a, b);
  }
}

TEST_F(AmdBlockScales, TheLastGroupOfKMayBeShortAndScalesMayLieAcross) {
  const Shape shape{36, 40, 208};
  Operand a(DType::kF8E5M2, shape.m, shape.k, false, true, 3), b(DType::kF8E4M3, shape.n, shape.k, true, false, 4);
  check(config(a.dtype, b.dtype, 1, 0), shape, a, b);
}

}  // namespace
}  // namespace tilewright::emu
