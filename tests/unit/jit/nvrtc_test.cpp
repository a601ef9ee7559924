// SPDX-License-Identifier: MIT
// NVRTC as a compiler: what it makes goes through code cache and packs like everything else.
#include "jit/nvrtc/nvrtc_compiler.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "arch/arch_spec.hpp"
#include "jit/amdgcn/amd_compilers.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::ScopedVariable;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kKernel = R"(#include "tile/common/dtype.hpp"
struct Args { float* data; int count; };
extern "C" __global__ void __launch_bounds__(256) tw_entry(const __grid_constant__ Args args) {
  __shared__ float block[64];
  block[threadIdx.x % 64] = args.data[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < args.count) args.data[threadIdx.x] = block[63 - threadIdx.x % 64] + tilewright::kDTypeCount;
}
)";

CompileRequest kernel(const std::string& target = "sm_90a", const std::string& source = kKernel) {
  CompileRequest request = test::make_request(source);
  request.target = target;
  return request;
}

class NvrtcTest : public test::CodeCacheFixture {
 protected:
  void SetUp() override {
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
  }
  std::string new_folder(const std::string& name) const {
    EXPECT_TRUE(make_folders(scratch / name).ok());
    return scratch / name;
  }
};

TEST(NvrtcLibraryTest, WithoutNvrtcEveryPlaceThatWasTriedIsNamed) {
  NvrtcCompiler absent({"libno_such_nvrtc.so.1", "libm.so.6"});
  const Status status = absent.available();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("libno_such_nvrtc.so.1"), HasSubstr("libm.so.6: NVRTC 0.0, not whole"),
                                      HasSubstr("nvidia-cuda-nvrtc"), HasSubstr("TILEWRIGHT_NVRTC")));
  EXPECT_EQ(absent.identity(), "");
}

TEST(NvrtcLibraryTest, TheEnvironmentNamesOneLibraryAndNoOther) {
  const ScopedVariable named("TILEWRIGHT_NVRTC", "/opt/libnvrtc.so");
  EXPECT_THAT(nvrtc::library_names(), testing::ElementsAre("/opt/libnvrtc.so"));
}

TEST(NvrtcLibraryTest, EachTargetHasTheCompilerOfItsVendor) {
  EXPECT_EQ(&compiler_for("x86-64-v4"), &host_compiler());
  EXPECT_EQ(&compiler_for("sm_90a"), &nvrtc_compiler());
  EXPECT_EQ(&compiler_for("sm_80"), &nvrtc_compiler());
  EXPECT_EQ(&compiler_for("gfx942"), &amd_compiler());
  EXPECT_EQ(&compiler_for("gfx1201"), &amd_compiler());
}

TEST_F(NvrtcTest, AKernelBecomesACubinOfItsTargetThroughTheCache) {
  for (const char* target : {"sm_90a", "sm_80"}) {
    CodeCache cache = open();
    const Result<Artifact> made = cache.get(kernel(target), nvrtc_compiler());
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(made->kind, ArtifactKind::kCubin);
    EXPECT_EQ(made->target, target);
    const Result<CubinInfo> info = read_cubin(made->image);
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_EQ(info->capability, std::string(target) == "sm_80" ? 80 : 90);

    CodeCache later = open(JitMode::kOff);
    const Result<Artifact> found = later.get(kernel(target), nvrtc_compiler());
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->image, made->image);
  }
}

TEST_F(NvrtcTest, TheSameSourceMakesTheSameBytes) {
  const std::string one = new_folder("one"), two = new_folder("two");
  ASSERT_TRUE(nvrtc_compiler().compile(kernel(), one, nullptr).ok());
  ASSERT_TRUE(nvrtc_compiler().compile(kernel(), two, nullptr).ok());
  EXPECT_EQ(*read_file(one + "/instance.cubin"), *read_file(two + "/instance.cubin"));
}

TEST_F(NvrtcTest, ErrorsCarryNvrtcsOwnWords) {
  CodeCache cache = open();
  const Status status = cache.get(kernel("sm_90a", "int x = no_such_name;\n"), nvrtc_compiler()).status();
  EXPECT_EQ(status.code(), StatusCode::kCompileFailed);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("sm_90a"), HasSubstr("instance.cu(1)"), HasSubstr("no_such_name")));
}

TEST_F(NvrtcTest, HeadersOfTheHostAndOfAToolkitAreNotReachable) {
  for (const char* header : {"<cuda_bf16.h>", "<stdio.h>", "<vector>"}) {
    const std::string source = std::string("#include ") + header + "\n";
    EXPECT_FALSE(nvrtc_compiler().compile(kernel("sm_90a", source), new_folder("build"), nullptr).ok()) << header;
  }
}

TEST_F(NvrtcTest, ManyThreadsCompileAtTheSameTime) {
  std::vector<std::thread> threads;
  std::vector<Status> results(8);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::string source = kKernel + ("\n__device__ int unused" + std::to_string(i) + ";\n");
      results[i] = nvrtc_compiler().compile(kernel("sm_90a", source), new_folder(std::to_string(i)), nullptr).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) EXPECT_TRUE(result.ok()) << result.message();
}

TEST_F(NvrtcTest, ACompileThatIsStoppedMakesNothing) {
  const std::atomic<bool> stop{true};
  const std::string folder = new_folder("build");
  EXPECT_EQ(nvrtc_compiler().compile(kernel(), folder, &stop).status().code(), StatusCode::kCompileDisabled);
  EXPECT_FALSE(is_file(folder + "/instance.cubin"));
}

TEST_F(NvrtcTest, CompilersOfDifferentTargetsDoNotTakeEachOthersEntriesForStale) {
  CodeCache cache = open();
  ASSERT_TRUE(cache.get(kernel(), nvrtc_compiler()).ok());
  PruneOptions stale;
  stale.stale = true;
  const Result<PruneReport> report = cache.prune(stale);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->removed.empty()) << report->removed[0].reason;
}

TEST_F(NvrtcTest, ACubinTellsRegistersMemoryAndArguments) {
  CodeCache cache = open();
  const Result<Artifact> made = cache.get(kernel(), nvrtc_compiler());
  ASSERT_TRUE(made.ok());
  const CubinInfo info = *read_cubin(made->image);
  ASSERT_EQ(info.kernels.size(), 1u);
  const CubinKernel& read = info.kernels[0];
  EXPECT_EQ(read.name, "tw_entry");
  EXPECT_THAT(read.registers, AllOf(testing::Gt(4), testing::Lt(64)));
  EXPECT_EQ(read.local_bytes, 0);
  EXPECT_EQ(read.shared_bytes, 256);
  EXPECT_EQ(read.arg_bytes, 16);
  EXPECT_EQ(read.max_threads, 256);
  EXPECT_GT(read.code_bytes, 128);

  // An array that no register can hold.
  const char* const spilling = R"(struct Args { float* data; int at; };
extern "C" __global__ void tw_entry(const __grid_constant__ Args args) {
  float many[100];
  for (int i = 0; i < 100; ++i) many[i] = args.data[i];
  args.data[0] = many[args.at];
}
)";
  const Result<Artifact> spills = cache.get(kernel("sm_80", spilling), nvrtc_compiler());
  ASSERT_TRUE(spills.ok()) << spills.status().message();
  EXPECT_GE(read_cubin(spills->image)->kernels.at(0).local_bytes, 400);
}

TEST_F(NvrtcTest, ACubinTellsOfArrivalsThatOvertakeLoads) {
  const auto overtaking = [&](const std::string& arrival, const std::string& load = "ld.shared.b32 %0") {
    const std::string source = R"(#include "tile/sm90/barrier.cuh"
struct Args { unsigned* data; };
namespace sm90 = tilewright::sm90;
extern "C" __global__ void tw_entry(const __grid_constant__ Args a) {
  __shared__ sm90::Barrier barrier;
  __shared__ unsigned words[64];
  if (threadIdx.x == 0) sm90::init(barrier, 64);
  words[threadIdx.x] = a.data[threadIdx.x];
  __syncthreads();
  unsigned word;
  asm volatile(")" + load + R"(, [%1];" : "=r"(word) : "r"(sm90::shared_address(words + 63 - threadIdx.x)) : "memory");
  )" + arrival + R"(
  a.data[threadIdx.x] = word;
}
)";
    CodeCache cache = open();
    const Result<Artifact> made = cache.get(kernel("sm_90a", source), nvrtc_compiler());
    EXPECT_TRUE(made.ok()) << made.status().message();
    const Result<CubinInfo> info = made ? read_cubin(made->image) : made.status();
    EXPECT_TRUE(info.ok());
    return info ? info->kernels.at(0).overtaking_arrivals : -1;
  };
  EXPECT_EQ(overtaking("sm90::arrive(barrier);"), 1);
  EXPECT_EQ(overtaking("sm90::arrive_after(barrier, word);"), 0);
  EXPECT_EQ(overtaking("sm90::arrive_after_where(threadIdx.x % 2 == 0, barrier, word);"), 0);
  constexpr const char* kMatrix = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}";
  EXPECT_EQ(overtaking("sm90::arrive(barrier);", kMatrix), 1);
  EXPECT_EQ(overtaking("sm90::arrive_after(barrier, word);", kMatrix), 0);
}

TEST_F(NvrtcTest, ACubinTellsWhichInstructionsStandInIt) {
  const auto read = [&](const std::string& target, const std::string& body) {
    CodeCache cache = open();
    const Result<Artifact> made = cache.get(
        kernel(target,
               "struct Args { float* data; };\nextern \"C\" __global__ void tw_entry(const __grid_constant__ Args a) "
               "{\n  __shared__ alignas(128) char block[1024];\n" +
                   body + "\n}\n"),
        nvrtc_compiler());
    EXPECT_TRUE(made.ok()) << made.status().message();
    const Result<CubinInfo> info = made ? read_cubin(made->image) : made.status();
    EXPECT_TRUE(info.ok());
    return info ? info->kernels.at(0) : CubinKernel();
  };
  const CubinKernel hopper = read("sm_90a", R"(
  float d[4] = {};
  unsigned long long operand = threadIdx.x;
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3}, %4, %4, p, 1, 1, 0, 0;}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(operand));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(block));
  int x = threadIdx.x;
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];" ::"l"(a.data), "r"(x),
               "r"(address) : "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  a.data[threadIdx.x] = d[0] + d[1] + d[2] + d[3] + block[threadIdx.x];)");
  EXPECT_EQ(hopper.count(Sass::kWgmmaFloat), 1);
  EXPECT_EQ(hopper.count(Sass::kTensorStore), 1);
  EXPECT_EQ(hopper.count(Sass::kWaitForKernel), 1);
  for (const Sass absent : {Sass::kWgmmaFp8, Sass::kWgmmaInt, Sass::kTensorLoad, Sass::kMmaFloat, Sass::kMmaInt,
                            Sass::kAsyncCopy, Sass::kLocalLoad, Sass::kLocalStore, Sass::kAllowNextKernel}) {
    EXPECT_EQ(hopper.count(absent), 0) << static_cast<int>(absent);
  }
  const CubinKernel ampere = read("sm_80", R"(
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(block));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(a.data));
  asm volatile("cp.async.wait_all;" ::: "memory");
  float d[4] = {};
  unsigned x = threadIdx.x;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x));
  a.data[threadIdx.x] = d[0] + d[1] + d[2] + d[3] + block[threadIdx.x];)");
  EXPECT_EQ(ampere.count(Sass::kMmaFloat), 1);
  EXPECT_EQ(ampere.count(Sass::kAsyncCopy), 1);
  EXPECT_EQ(ampere.count(Sass::kWgmmaFloat), 0);

  // What is loaded in front of a wait for kernels, and from a table that the code brings along.
  EXPECT_EQ(hopper.early_loads, 0);
  EXPECT_EQ(hopper.table_loads, 0);
  const CubinKernel early = read("sm_90a", R"(
  static constexpr float kTable[] = {3, 1, 4, 1, 5, 9, 2, 6};
  const float x = a.data[threadIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  a.data[threadIdx.x] = x * a.data[threadIdx.x + 64] + kTable[threadIdx.x % 8] + block[threadIdx.x];)");
  EXPECT_EQ(early.early_loads, 1);
  EXPECT_GE(early.table_loads, 1);
}

TEST_F(NvrtcTest, ADamagedCubinIsRefusedAndNeverReadBeyondItsEnd) {
  CodeCache cache = open();
  const Result<Artifact> made = cache.get(kernel(), nvrtc_compiler());
  ASSERT_TRUE(made.ok());
  for (size_t bytes = 0; bytes < made->image.size(); bytes += 37) {
    const std::vector<std::byte> cut(made->image.begin(), made->image.begin() + static_cast<ptrdiff_t>(bytes));
    const Result<CubinInfo> info = read_cubin(cut);
    EXPECT_EQ(info.status().code(), bytes < 64 ? StatusCode::kCorrupt : info.status().code());
  }
  for (size_t at = 0; at < made->image.size(); ++at) {
    std::vector<std::byte> changed = made->image;
    changed[at] ^= std::byte{0xFF};
    (void)read_cubin(changed);  // whatever it says, it stays inside
  }
}

}  // namespace
}  // namespace tilewright
