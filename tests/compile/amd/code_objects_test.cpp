// SPDX-License-Identifier: MIT
// Kernels for AMD GPUs compile without a GPU and without ROCm: for every target, through the code cache, with the matrix
// instruction that they name, without spills and scratch.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "compile/amd/matrix_words.hpp"
#include "device/hip/object/code_object.hpp"
#include "jit/amdgcn/amdgcn_compiler.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// One tile of bf16 through LDS: each wave multiplies what another one brought.
const std::string kKernel = std::string(test::kMatrixWords) + R"(#include "tile/common/numeric.hpp"
using Narrow = tilewright::FloatFormat<8, 7, 127, tilewright::FloatFlavour::kIeee>;
struct Args {
  const Operand *a, *b;
  unsigned short* d;
  int steps;
};
template <class T>
T larger(T x, T y) { return x < y ? y : x; }  // without __device__, as in the common headers
extern "C" __global__ void __launch_bounds__(256, 2) tw_entry(const __grid_constant__ Args args) {
  __shared__ Operand block[256];
  const unsigned thread = __builtin_amdgcn_workitem_id_x();
  Sum sum = {};
  for (int step = 0; step < args.steps; ++step) {
    block[thread] = args.b[step * 256 + thread];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    sum = TW_MULTIPLY(args.a[step * 256 + thread], block[thread ^ 128], sum);
    __builtin_amdgcn_s_barrier();
  }
  args.d[__builtin_amdgcn_workgroup_id_x() * 256 + thread] = Narrow::narrow(larger(sum[0], sum[1]));
}
)";

CompileRequest kernel(const std::string& target, const std::string& source = kKernel) {
  CompileRequest request = test::make_request(source);
  request.target = target;
  return request;
}

class AmdCodeObjects : public test::CodeCacheFixture {
 protected:
  void SetUp() override {
    if (Status status = amdgcn_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  std::string new_folder(const std::string& name) const {
    EXPECT_TRUE(make_folders(scratch / name).ok());
    return scratch / name;
  }
  // All targets at the same time.
  std::map<std::string, Result<Artifact>> compile_all(CodeCache& cache) {
    std::map<std::string, Result<Artifact>> made;
    for (const char* target : test::kAmdTargets) made.emplace(target, Status(StatusCode::kInternal, "not compiled"));
    std::vector<std::thread> threads;
    for (auto& [target, result] : made) {
      threads.emplace_back([&cache, &target, &result] { result = cache.get(kernel(target), amdgcn_compiler()); });
    }
    for (std::thread& thread : threads) thread.join();
    return made;
  }
};

TEST_F(AmdCodeObjects, EveryTargetCompilesAtTheSameTimeOnceAndWithoutSpills) {
  CodeCache cache = open();
  for (const auto& [target, made] : compile_all(cache)) {
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(made->kind, ArtifactKind::kAmdObject);
    const Result<AmdObjectInfo> info = read_amd_object(made->image);
    ASSERT_TRUE(info.ok()) << target << ": " << info.status().message();
    EXPECT_EQ(info->target, target);
    const bool cdna = target.starts_with("gfx9");
    EXPECT_EQ(info->xnack, cdna ? AmdFeature::kAny : AmdFeature::kUnsupported);
    EXPECT_EQ(info->sramecc, cdna ? AmdFeature::kAny : AmdFeature::kUnsupported);
    ASSERT_EQ(info->kernels.size(), 1u);
    const AmdKernel& read = info->kernels[0];
    EXPECT_EQ(read.name, "tw_entry");
    EXPECT_EQ(read.arg_bytes, 32);
    EXPECT_EQ(read.kernarg_bytes, 32) << "nothing hidden is asked for";
    const int operand = target == "gfx90a" || target == "gfx942" ? 8 : target == "gfx1100" ? 32 : 16;
    EXPECT_EQ(read.lds_bytes, 256 * operand);
    EXPECT_EQ(read.scratch_bytes, 0);
    EXPECT_EQ(read.vgpr_spills, 0);
    EXPECT_EQ(read.sgpr_spills, 0);
    EXPECT_FALSE(read.dynamic_stack);
    EXPECT_THAT(read.vgprs, AllOf(testing::Gt(8), testing::Lt(64)));
    EXPECT_THAT(read.sgprs, AllOf(testing::Gt(4), testing::Lt(64)));
    EXPECT_EQ(read.wave_size, cdna ? 64 : 32);
    EXPECT_EQ(read.max_threads, 256);
    EXPECT_GT(read.code_bytes, 128);
    for (const char* device : test::kAmdTargets) {
      EXPECT_EQ(amd_object_matches(made->image, device).ok(), target == device) << target << " on " << device;
    }
  }
  EXPECT_EQ(counters.compiles.load(), std::size(test::kAmdTargets));

  CodeCache later = open(JitMode::kOff);
  for (const auto& [target, found] : compile_all(later)) EXPECT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(counters.compiles.load(), std::size(test::kAmdTargets));
}

TEST_F(AmdCodeObjects, TheMatrixInstructionOfEachTargetStandsInTheCode) {
  const Result<std::string> objdump = amdgcn_compiler().tool("llvm-objdump");
  if (!objdump) GTEST_SKIP() << objdump.status().message();
  CodeCache cache = open();
  for (const auto& [target, made] : compile_all(cache)) {
    ASSERT_TRUE(made.ok()) << made.status().message();
    const std::string file = scratch / target, text = file + ".s";
    ASSERT_TRUE(write_file(file, {reinterpret_cast<const char*>(made->image.data()), made->image.size()}).ok());
    if (std::system(fmt::format("'{}' -d '{}' >'{}' 2>&1", *objdump, file, text).c_str()) != 0) {
      GTEST_SKIP() << *objdump << " does not run: " << *read_file(text);
    }
    const char* const instruction = target == "gfx90a"   ? "v_mfma_f32_32x32x8bf16_1k"
                                    : target == "gfx942" ? "v_mfma_f32_32x32x8_bf16"
                                    : target == "gfx950" ? "v_mfma_f32_32x32x16_bf16"
                                                         : "v_wmma_f32_16x16x16_bf16";
    const std::string code = *read_file(text);
    EXPECT_THAT(code, AllOf(HasSubstr(instruction), HasSubstr("s_barrier"))) << target;
    EXPECT_THAT(code, testing::Not(HasSubstr("scratch_"))) << target;
  }
}

TEST_F(AmdCodeObjects, TheSameSourceMakesTheSameBytes) {
  const std::string one = new_folder("one"), two = new_folder("two");
  const Result<std::string> first = amdgcn_compiler().compile(kernel("gfx942"), one, nullptr);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(amdgcn_compiler().compile(kernel("gfx942"), two, nullptr).ok());
  EXPECT_EQ(*read_file(one + "/" + *first), *read_file(two + "/" + *first));
}

TEST_F(AmdCodeObjects, SpillsAndDynamicMemoryAreSeen) {
  const char* const source = R"(struct Args { float* data; int at; };
extern "C" __global__ void __launch_bounds__(64) tw_entry(const __grid_constant__ Args args) {
  extern __shared__ float block[];
  float many[100];
  for (int i = 0; i < 100; ++i) many[i] = args.data[i];
  block[__builtin_amdgcn_workitem_id_x()] = many[args.at];
  args.data[0] = block[args.at];
}
)";
  CodeCache cache = open();
  const Result<Artifact> made = cache.get(kernel("gfx1100", source), amdgcn_compiler());
  ASSERT_TRUE(made.ok()) << made.status().message();
  const AmdKernel read = read_amd_object(made->image)->kernels.at(0);
  EXPECT_GE(read.scratch_bytes, 400);
  EXPECT_EQ(read.lds_bytes, 0) << "what a launch adds is not counted";
  EXPECT_EQ(read.max_threads, 64);
}

TEST_F(AmdCodeObjects, ErrorsCarryClangsOwnWords) {
  CodeCache cache = open();
  const Status status = cache.get(kernel("gfx942", "int x = no_such_name;\n"), amdgcn_compiler()).status();
  EXPECT_EQ(status.code(), StatusCode::kCompileFailed);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("gfx942"), HasSubstr("instance.hip:1:"), HasSubstr("no_such_name")));
  // What a target does not have.
  EXPECT_THAT(cache
                  .get(kernel("gfx1100", R"(extern "C" __global__ void tw_entry(long* d) {
  *d = __builtin_amdgcn_s_memrealtime() + __builtin_amdgcn_mfma_f32_32x32x1f32(1.f, 1.f, {}, 0, 0, 0)[0];
})"),
                       amdgcn_compiler())
                  .status()
                  .message(),
              HasSubstr("mfma"));
}

TEST_F(AmdCodeObjects, HeadersOfTheHostAndOfRocmAreNotReachable) {
  for (const char* header : {"<hip/hip_runtime.h>", "<stdint.h>", "<vector>"}) {
    const std::string source = std::string("#include ") + header + "\n";
    EXPECT_FALSE(amdgcn_compiler().compile(kernel("gfx942", source), new_folder("build"), nullptr).ok()) << header;
  }
}

TEST_F(AmdCodeObjects, ACompileThatIsStoppedMakesNothing) {
  const std::atomic<bool> stop{true};
  const std::string folder = new_folder("build");
  EXPECT_EQ(amdgcn_compiler().compile(kernel("gfx942"), folder, &stop).status().code(), StatusCode::kCompileDisabled);
  EXPECT_FALSE(is_file(folder + "/instance.hsaco"));
}

TEST_F(AmdCodeObjects, ADamagedObjectIsRefusedAndNeverReadBeyondItsEnd) {
  CodeCache cache = open();
  const Result<Artifact> made = cache.get(kernel("gfx942"), amdgcn_compiler());
  ASSERT_TRUE(made.ok()) << made.status().message();
  for (size_t bytes = 0; bytes < made->image.size(); bytes += 7) {
    const std::vector<std::byte> cut(made->image.begin(), made->image.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_EQ(read_amd_object(cut).status().code(), StatusCode::kCorrupt) << bytes;
  }
  for (size_t at = 0; at < made->image.size(); ++at) {
    std::vector<std::byte> changed = made->image;
    changed[at] ^= std::byte{0xFF};
    (void)read_amd_object(changed);  // whatever it says, it stays inside
  }
}

// Printed, never compared: ctest --verbose -R AmdCodeObjects.
TEST_F(AmdCodeObjects, TheTimeOfACompileIsTold) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(amdgcn_compiler().compile(kernel("gfx942"), new_folder(std::to_string(i)), nullptr).ok());
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  fmt::print("{}: p50 of {} compiles for gfx942: {:.0f} ms\n", amdgcn_compiler().identity(), times.size(), times[2]);
}

}  // namespace
}  // namespace tilewright
