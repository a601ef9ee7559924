// SPDX-License-Identifier: MIT
// Numerics contracts: "seq:<mma>" results depend on nothing but the operands, and twins equal their instructions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "core/fields.hpp"
#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "op/instances/kernel_runner.hpp"

namespace tilewright {
namespace {

// D's bytes of the kernel on `text`; the run must also be right.
std::vector<unsigned char> bits(const KernelTarget& target, const KernelUnderTest& kernel, const std::string& text,
                                const RunOptions& options = {}) {
  KernelRun run(text, options);
  EXPECT_EQ(run.run(kernel), "") << kernel_name(target, kernel) << "\n  " << text;
  return run.output();
}

std::string text_for(const KernelUnderTest& kernel, const std::string& shape, bool packed) {
  const DType dtype = kernel_dtype(kernel) == DType::kNone ? DType::kF32 : kernel_dtype(kernel);
  return fmt::format("{}:a={}:d=f32{}", shape, dtype_name(dtype), packed ? ":packed=1" : "");
}
bool takes_packed(const KernelUnderTest& kernel) { return kernel.kind != KernelKind::kGemv || kernel.gemv.packed; }

TEST(GemmKernelBits, BlockingAndUnitsChangeNoBit) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    const std::string text = text_for(kernel, "m=37:n=100:k=333", takes_packed(kernel));
    const std::vector<unsigned char> whole = bits(target, kernel, text);
    RunOptions blocked;
    blocked.knobs = {16, 32, 64};
    EXPECT_EQ(bits(target, kernel, text, blocked), whole) << kernel_name(target, kernel);
    blocked.knobs = {48, 48, 128};
    blocked.units = 5;
    EXPECT_EQ(bits(target, kernel, text, blocked), whole) << kernel_name(target, kernel);
  });
}

// D of one unit is large enough to be written past the caches, that of one of four is not.
TEST(GemmKernelBits, HowALargeDIsWrittenChangesNoBit) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    if (kernel.kind != KernelKind::kGemm || kernel.gemm.tile_n != 32) return;
    if (kernel.gemm.tile_m != 32 && kernel.gemm.tile_m != 14) return;
    for (const char* rest : {"n=1024:d=bf16:bias=bf16:scale_a=f32", "n=512:d=f32:act=relu",
                             "n=2048:gate=separated:act=silu:d=f16", "n=1021:d=bf16:sd=0.1056.1"}) {
      const std::string text = fmt::format("m=1050:k=40:a={}:packed=1:{}", dtype_name(kernel_dtype(kernel)), rest);
      const std::vector<unsigned char> streamed = bits(target, kernel, text);
      RunOptions shared;
      shared.units = 4;
      KernelRun run(text, shared);
      EXPECT_EQ(run.execute(kernel), "") << kernel_name(target, kernel);
      EXPECT_EQ(run.output(), streamed) << kernel_name(target, kernel) << " " << rest;
    }
  });
}

// D's bytes where a step that does nothing sends all tiles through memory.
std::vector<unsigned char> bits_through_memory(const KernelUnderTest& kernel, KernelRun& run) {
  run.mutable_args().epilogue.step_count = 1;
  run.mutable_args().epilogue.steps[0] = {};
  EXPECT_EQ(run.execute(kernel), "");
  return run.output();
}
bool stores_from_registers(const KernelUnderTest& kernel) {
  if (kernel.kind != KernelKind::kGemm) return false;
  const CpuMma mma = kernel.gemm.mma;
  return mma == CpuMma::kDotBf16 || mma == CpuMma::kDotI8 || mma == CpuMma::kFmaAvx512;
}

// Whole register tiles go straight to D where little follows. Of 41 rows and 70 columns some tiles are not whole.
TEST(GemmKernelBits, TilesStraightFromRegistersChangeNoBit) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    if (!stores_from_registers(kernel)) return;
    const int rows = 3 * kernel.gemm.tile_m - 1;
    for (const char* rest : {"d=bf16:bias=bf16:scale_a=f32:scale_b=f32", "d=bf16:scale_a=f32:scale_b=f32",
                             "d=f32:scale_b=f32.0.0.0", "d=f16:bias=f32", "d=f32", "d=bf16", "d=f16"}) {
      const std::string text =
          fmt::format("m={}:n=70:k=141:a={}:packed=1:{}", rows, dtype_name(kernel_dtype(kernel)), rest);
      const std::vector<unsigned char> straight = bits(target, kernel, text);
      KernelRun through_memory(text);
      EXPECT_EQ(bits_through_memory(kernel, through_memory), straight) << kernel_name(target, kernel) << " " << rest;
    }
  });
}

// Scales are looked through for what makes a value subnormal, which an instruction would take for zero: the last row's, the
// last column's, either alone or only both together; zeros, infinities and NaN among them, a NaN behind the first column's, too.
TEST(GemmKernelBits, SubnormalValuesStayWhateverTheScales) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    if (!stores_from_registers(kernel) || kernel_dtype(kernel) != DType::kI8) return;
    const int rows = 2 * kernel.gemm.tile_m, columns = 4 * kernel.gemm.tile_n;
    const std::string text = fmt::format("m={}:n={}:k=9:a=i8:packed=1:d=bf16:scale_a=f32:scale_b=f32", rows, columns);
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    for (auto [row, column] : {std::pair{1e-43f, 1.0f},
                               {1.0f, -1e-43f},
                               {1e-21f, 1e-22f},
                               {-1e-22f, 1e-21f},
                               {0.0f, 1.0f},
                               {1.0f, nan},
                               {inf, 1e-43f}}) {
      for (const bool first : {false, true}) {
        std::vector<float> of_rows(static_cast<size_t>(rows), 1.5f), of_columns(static_cast<size_t>(columns), 0.75f);
        of_rows.back() = row, (first ? of_columns.front() : of_columns.back()) = column;
        if (first) of_columns[16] = nan;
        const auto with_scales = [&](KernelRun& run) {
          run.mutable_args().epilogue.scale_a.data = of_rows.data();
          run.mutable_args().epilogue.scale_b.data = of_columns.data();
        };
        KernelRun straight(text), through_memory(text);
        with_scales(straight), with_scales(through_memory);
        EXPECT_EQ(straight.execute(kernel), "") << kernel_name(target, kernel);
        EXPECT_EQ(bits_through_memory(kernel, through_memory), straight.output())
            << kernel_name(target, kernel) << " " << row << " " << column << " " << first;
      }
    }
  });
}

TEST(GemmKernelBits, PackedAndPlainWeightsGiveTheSameBits) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    if (kernel.kind == KernelKind::kGemv) return;
    KernelRun plain(text_for(kernel, "m=20:n=50:k=141", false)), packed(text_for(kernel, "m=20:n=50:k=141", true));
    std::vector<unsigned char> copy(static_cast<size_t>(packed_batch_bytes(plain.args().b_dtype, 50, 141)) + 64);
    unsigned char* aligned = copy.data() + (64 - reinterpret_cast<uintptr_t>(copy.data()) % 64) % 64;
    const GemmArgs& from = plain.args();
    const GemmPackArgs pack = {50,
                               141,
                               1,
                               from.b,
                               0,
                               from.stride_b_k,
                               from.stride_b_n,
                               aligned,
                               packed_batch_bytes(from.b_dtype, 50, 141),
                               from.b_dtype};
    target.pack(&pack, 0, 1);
    packed.mutable_args().a = from.a;
    packed.mutable_args().b = aligned;
    plain.run(kernel);
    packed.run(kernel);
    EXPECT_EQ(plain.output(), packed.output()) << kernel_name(target, kernel);
  });
}

// A row's bits do not depend on M or on its place.
TEST(GemmKernelBits, MChangesNoBitOfARow) {
  for_each_kernel([](const KernelTarget& target, const KernelUnderTest& kernel) {
    // A's rows are all the same row.
    const bool packed = takes_packed(kernel);
    const std::vector<unsigned char> one = bits(target, kernel, text_for(kernel, "m=1:n=40:k=100:sa=0.0.1", packed));
    for (int m : {2, 5, 16, 33}) {
      const std::vector<unsigned char> all =
          bits(target, kernel, text_for(kernel, fmt::format("m={}:n=40:k=100:sa=0.0.1", m), packed));
      for (int row = 0; row < m; ++row) {
        EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + row * static_cast<long>(one.size())))
            << kernel_name(target, kernel) << " m " << m << " row " << row;
      }
    }
  });
}

// Kernels with the same mma and dtype agree across tiles, targets (twins included) and families, as their numerics id
// says. The baseline has no fused multiply-add, so fma and the dots differ there.
TEST(GemmKernelBits, EqualNumericsIdsGiveEqualBits) {
  std::map<std::string, std::pair<std::string, std::vector<unsigned char>>> seen;
  for_each_kernel([&](const KernelTarget& target, const KernelUnderTest& kernel) {
    if (kernel.kind == KernelKind::kGeneric) return;
    const CpuMma mma = kernel.kind == KernelKind::kGemm ? kernel.gemm.mma : kernel.gemv.mma;
    const bool fused = std::string_view(target.target) != "";
    if (!fused && kernel_dtype(kernel) != DType::kI8) return;
    const bool packed = takes_packed(kernel);
    std::string id = fmt::format("{} {}", dtype_name(kernel_dtype(kernel)), kCpuMmaNames[static_cast<int>(mma)]);
    if (mma == CpuMma::kFmaAvx512) id = fmt::format("{} fma_avx2", dtype_name(kernel_dtype(kernel)));  // both "seq:fma"
    if (!packed) id += " lanes16";
    const std::vector<unsigned char> mine = bits(target, kernel, text_for(kernel, "m=11:n=50:k=777", packed));
    const auto [it, fresh] = seen.try_emplace(id, kernel_name(target, kernel), mine);
    EXPECT_EQ(it->second.second, mine) << id << ": " << it->second.first << " and " << kernel_name(target, kernel);
  });
}

}  // namespace
}  // namespace tilewright
