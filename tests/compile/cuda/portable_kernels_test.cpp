// SPDX-License-Identifier: MIT
// The kernels of every NVIDIA GPU compile for each target without a GPU, and what they take keeps to its budget: no
// spills, registers that let the declared number of blocks share an SM, the shared memory that the host asks for.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "compile/key_samples.hpp"
#include "core/fields.hpp"
#include "gemm/gemm_scale_args.hpp"
#include "gemm/portable/gemm_portable_shape.hpp"
#include "gemm/portable/gemv_gpu_args.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/nvrtc/nvrtc_compiler.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

constexpr int kRegistersOfAnSm = 65536;

const KernelFamily* const kFamilies[] = {&gemv_gpu_family(), &gemm_portable_family(), &gemm_generic_gpu_family()};

struct Kernel {
  const KernelFamily* family;
  KernelKey key;
};

class PortableKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  // Threads share the list; a compile is about a second.
  void compile_all(const std::vector<KernelKey>& keys) {
    std::vector<Kernel> kernels;
    for (const KernelKey& key : keys) kernels.push_back({find_family(kFamilies, key.family), key});
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < kernels.size(); i = next++) compile(kernels[i], i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void compile(const Kernel& kernel, size_t index) {
    const Result<CompileRequest> request = kernel.family->source(kernel.key);
    ASSERT_TRUE(request.ok()) << request.status().message();
    const std::string folder = scratch_ / std::to_string(index);
    ASSERT_TRUE(make_folders(folder).ok());
    const Result<std::string> file = nvrtc_compiler().compile(*request, folder, nullptr);
    ASSERT_TRUE(file.ok()) << kernel.key.text << "\n" << file.status().message();
    const std::string image = *read_file(folder + "/" + *file);
    const Result<CubinInfo> info = read_cubin(std::as_bytes(std::span(image)));
    ASSERT_TRUE(info.ok()) << info.status().message();
    ASSERT_EQ(info->kernels.size(), 1u);
    check(kernel, info->kernels.front());
  }
  void check(const Kernel& kernel, const CubinKernel& made) {
    EXPECT_EQ(made.local_bytes, 0) << "spills: " << kernel.key.text;
    EXPECT_EQ(made.shared_bytes, 0) << "static shared memory: " << kernel.key.text;
    const size_t arg_bytes = kernel.family->generic() ? sizeof(GemmScaledArgs) : sizeof(GemmArgs);
    EXPECT_EQ(made.arg_bytes, static_cast<int64_t>(arg_bytes)) << kernel.key.text;
    if (kernel.family == &gemv_gpu_family()) return check_gemv(kernel, made);
    GemmPortableConfig config;
    if (kernel.family != &gemm_portable_family()) {
      EXPECT_LE(made.registers, 128) << kernel.key.text;
      return;
    }
    ASSERT_TRUE(parse_fields(kernel.key.config(), config).ok());
    const GemmPortableShape shape = gemm_portable_shape(config);
    EXPECT_EQ(made.max_threads, shape.threads) << kernel.key.text;
    EXPECT_LE(made.registers * shape.threads * shape.blocks, kRegistersOfAnSm)
        << made.registers << " registers: " << kernel.key.text;
    EXPECT_LE(shape.shared_bytes, find_arch(kernel.key.target)->shared_bytes) << kernel.key.text;
    // The instructions that the config names: a step of K of every warp's tile, and copies that nobody waits for at once.
    const int tile = config.tile_m / config.warps_m * (config.tile_n / config.warps_n) / (16 * 8);
    const int multiplies = config.mma == PortableMma::kFma ? 0 : tile * config.tile_k * shape.size / 32;
    EXPECT_EQ(made.count(config.dtype == DType::kI8 ? Sass::kMmaInt : Sass::kMmaFloat) % std::max(multiplies, 1), 0)
        << kernel.key.text;
    EXPECT_EQ(made.count(config.dtype == DType::kI8 ? Sass::kMmaInt : Sass::kMmaFloat) > 0, multiplies > 0)
        << kernel.key.text;
    const bool by_small_elements = config.a_copy == 0 && config.b_copy == 0 && shape.size < 4;
    EXPECT_EQ(made.count(Sass::kAsyncCopy) > 0, !by_small_elements) << kernel.key.text;
    EXPECT_EQ(made.count(Sass::kLocalLoad) + made.count(Sass::kLocalStore), 0) << kernel.key.text;
  }

  static void check_gemv(const Kernel& kernel, const CubinKernel& made) {
    GemvGpuConfig config;
    ASSERT_TRUE(parse_fields(kernel.key.config(), config).ok());
    EXPECT_EQ(made.max_threads, gemv_gpu_threads(config)) << kernel.key.text;
    EXPECT_LE(made.registers * gemv_gpu_threads(config) * config.blocks, kRegistersOfAnSm)
        << made.registers << " registers: " << kernel.key.text;
  }

  test::ScratchFolder scratch_;
};

class SlowPortableKernels : public PortableKernels {};

std::vector<KernelKey> prebuilt_keys(const std::string& target) {
  std::vector<KernelKey> keys;
  for (const KernelFamily* family : kFamilies) {
    for (const KernelKey& key : family->builtin_keys(target)) keys.push_back(key);
  }
  EXPECT_GT(keys.size(), 16u);
  return keys;
}

// The best candidate of problems that take each way through the kernel.
std::vector<KernelKey> keys_of_each_way(const std::string& target) {
  DeviceSpec device;
  device.arch = find_arch(target);
  device.units = 108;
  std::vector<KernelKey> keys;
  for (const char* text :
       {"m=4096:n=4096:k=4096:a=bf16:layout=rrr", "m=4096:n=4096:k=4096:a=bf16:layout=crr:bias=bf16:act=gelu",
        "m=4096:n=4096:k=4096:a=f16:layout=ccr:c=f16", "m=4096:n=4094:k=4094:a=bf16:align=4.4.4",
        "m=4095:n=4095:k=4095:a=bf16", "m=4096:n=4096:k=4096:a=i8:layout=rrr:scale_a=f32:scale_b=f32",
        "m=4096:n=8192:k=4096:a=bf16:gate=separated:act=silu", "m=4096:n=8192:k=4096:a=bf16:gate=interleaved:act=silu",
        "m=16:n=4096:k=4096:a=bf16", "m=100:n=4096:k=4096:a=i8", "m=4096:n=4096:k=4096:a=f32:layout=crr",
        "m=100:n=100:k=100:a=f32:steps=add.f32+act.gelu", "m=4096:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32",
        "m=16:n=4096:k=4096:a=e5m2:alpha=1:layout=rrr", "m=4096:n=4096:k=4096:a=f32:allow_tf32=1",
        "m=100:n=4096:k=4096:a=f32:layout=crr:allow_tf32=1"}) {
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    EXPECT_TRUE(problem.ok()) << problem.status().message();
    const std::vector<Candidate> found = gemm_portable_family().candidates(erase(*problem), device);
    EXPECT_FALSE(found.empty()) << text;
    if (!found.empty()) keys.push_back(found.front().step.key);
  }
  // Every cut of the work of gemv_gpu, with what it must carry to D.
  for (const char* text :
       {"m=1:n=4096:k=4096:a=bf16", "m=8:n=4096:k=4096:a=f16:d=f32:bias=f32:act=gelu",
        "m=4:n=4096:k=4096:a=i8:scale_a=f32:scale_b=f32", "m=1:n=4096:k=4096:a=e4m3:scale_a=f32:scale_b=f32",
        "m=8:n=4096:k=4096:a=e5m2:scale_a=f32:scale_b=f32", "m=2:n=4096:k=4096:a=bf16:c=bf16",
        "m=1:n=8192:k=4096:a=bf16:gate=separated:act=silu", "m=1:n=8192:k=4096:a=bf16:gate=interleaved:act=silu"}) {
    const Result<GemmProblem> problem = parse_gemm_problem(text);
    EXPECT_TRUE(problem.ok()) << problem.status().message();
    EXPECT_TRUE(gemv_gpu_family().supports(erase(*problem), device)) << text;
    for (const Candidate& found : gemv_gpu_family().candidates(erase(*problem), device)) {
      keys.push_back(found.step.key);
    }
  }
  // tf32, which no problem asks for yet.
  GemmPortableConfig tf32{
      DType::kF32, PortableMma::kTf32,   Major::kK,         Major::kK,       16,         16, 128, 128, 16, 2, 2,
      4,           EpilogueKind::kPlain, Activation::kNone, GateMode::kNone, DType::kF32};
  keys.push_back(make_key("gemm", "gemm_portable", target, "dtype=f32", print_fields(tf32)));
  return keys;
}

// The kernels of the slow lane that hold a type, a layout, a copy, a gate, or an epilogue for the first time.
TEST_P(PortableKernels, OneOfEachKindKeepsToItsBudget) {
  std::vector<KernelKey> keys = prebuilt_keys(GetParam());
  for (const KernelKey& key : keys_of_each_way(GetParam())) keys.push_back(key);
  compile_all(
      test::one_of_each_value(keys, {"dtype", "mma", "a_major", "b_major", "a_copy", "b_copy", "epilogue", "gate"}));
}

TEST_P(SlowPortableKernels, EveryPrebuiltOneKeepsToItsBudget) { compile_all(prebuilt_keys(GetParam())); }
TEST_P(SlowPortableKernels, EachLayoutCopyGateAndEpilogueKeepsToItsBudget) {
  compile_all(keys_of_each_way(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(, PortableKernels, testing::Values("sm_80", "sm_90a"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(, SlowPortableKernels, testing::Values("sm_80", "sm_90a"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tilewright
