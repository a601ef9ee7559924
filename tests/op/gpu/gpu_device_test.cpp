// SPDX-License-Identifier: MIT
// The CUDA device on a GPU: code, launches and memory.
#include "op/gpu/gpu_test.hpp"

#include <cstdio>

#include "jit/nvrtc/cubin_info.hpp"
#include "support/child_program.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct Counter {
  int* data;
  int count;
};
// data[i] += i + 1
constexpr const char* kCount = R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < a.count) a.data[i] += i + 1;
}
)";

class GpuDeviceTest : public test::GpuTest {};

TEST_F(GpuDeviceTest, AKernelRunsAndItsResultIsThere) {
  const auto kernel = load(*device, kCount);
  ASSERT_NE(kernel, nullptr);
  const Counter args{static_cast<int*>(zeros(*device, 4000)), 1000};
  const LaunchShape shape{.grid = {4, 1, 1}, .threads = 256};
  ASSERT_TRUE(launch(*device, *kernel, args, shape).ok());
  ASSERT_TRUE(launch(*device, *kernel, args, shape).ok());
  const std::vector<int> values = read<int>(*device, args.data, 1000);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], 2 * (i + 1));
}

TEST_F(GpuDeviceTest, TheSpecIsThatOfTheGpu) {
  const DeviceSpec& spec = device->spec();
  EXPECT_GT(spec.units, 0);
  EXPECT_GT(spec.l2_bytes, int64_t{1} << 20);
  EXPECT_GT(spec.memory_bytes, int64_t{1} << 30);
  EXPECT_FALSE(spec.part.empty());
  EXPECT_GT(device->available_memory(), 0);
  EXPECT_LE(device->available_memory(), spec.memory_bytes);
}

TEST_F(GpuDeviceTest, BlocksOfAClusterKnowEachOther) {
  if (!hopper()) GTEST_SKIP() << "clusters need sm_90a";
  const auto kernel = load(*device, R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  __shared__ int mine;
  mine = blockIdx.x;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  unsigned rank, there, value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(&mine));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank ^ 1));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there));
  a.data[blockIdx.x] = value;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
)");
  ASSERT_NE(kernel, nullptr);
  const Counter args{static_cast<int*>(zeros(*device, 64)), 0};
  LaunchShape shape{.grid = {8, 1, 1}, .cluster = {4, 1, 1}, .threads = 32};
  const Status launched = launch(*device, *kernel, args, shape);
  ASSERT_TRUE(launched.ok()) << launched.message();
  EXPECT_THAT(read<int>(*device, args.data, 8), ElementsAre(1, 0, 3, 2, 5, 4, 7, 6));
  shape = {.grid = {16, 1, 1}, .cluster = {16, 1, 1}, .threads = 32};  // beyond what every part can place
  EXPECT_TRUE(launch(*device, *kernel, args, shape).ok());
  EXPECT_TRUE(device->synchronize().ok());
}

TEST_F(GpuDeviceTest, AProgrammaticEdgeKeepsTheOrderThatTheKernelWaitsFor) {
  if (!hopper()) GTEST_SKIP() << "programmatic edges need sm_90a";
  const auto slow = load(*device, R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  for (int i = 0; i < 2000; ++i) __nanosleep(100);
  a.data[0] = 41;
}
)");
  const auto waits = load(*device, R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  a.data[0] += 1;
}
)");
  ASSERT_TRUE(slow != nullptr && waits != nullptr);
  const Counter args{static_cast<int*>(zeros(*device, 64)), 0};
  const test::GpuStream stream(0);
  ASSERT_TRUE(launch(*device, *slow, args, {.threads = 1}, stream.launch()).ok());
  ASSERT_TRUE(launch(*device, *waits, args, {.threads = 1, .programmatic_edge = true},
                     {.stream = stream.get(), .programmatic_edge = true})
                  .ok());
  ASSERT_TRUE(stream.wait());
  EXPECT_THAT(read<int>(*device, args.data, 1), ElementsAre(42));
}

TEST_F(GpuDeviceTest, ABlockCanHaveAllTheSharedMemoryAndNotMore) {
  const auto kernel = load(*device, R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  extern __shared__ int block[];
  block[a.count / 4 - 1] = 7;
  __syncthreads();
  a.data[0] = block[a.count / 4 - 1];
}
)");
  ASSERT_NE(kernel, nullptr);
  const auto most = static_cast<uint32_t>(device->spec().arch->shared_bytes);
  const Counter args{static_cast<int*>(zeros(*device, 64)), static_cast<int>(most)};
  const Status launched = launch(*device, *kernel, args, {.threads = 1, .shared_bytes = most});
  ASSERT_TRUE(launched.ok()) << launched.message();
  EXPECT_THAT(read<int>(*device, args.data, 1), ElementsAre(7));
  EXPECT_THAT(launch(*device, *kernel, args, {.threads = 1, .shared_bytes = most + 1024}).message(),
              AllOf(HasSubstr("test/kernel"), HasSubstr("dynamic shared memory, allowed")));
}

TEST_F(GpuDeviceTest, StaticSharedMemoryIsTakenFromTheLimit) {
  const auto kernel = load(*device, R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  __shared__ int own[256];
  extern __shared__ int block[];
  own[threadIdx.x] = block[threadIdx.x] = a.count;
  __syncthreads();
  a.data[threadIdx.x] = own[255 - threadIdx.x] + block[255 - threadIdx.x];
}
)");
  ASSERT_NE(kernel, nullptr);
  const auto most = static_cast<uint32_t>(device->spec().arch->shared_bytes);
  const Counter args{static_cast<int*>(zeros(*device, 1024)), 21};
  const Status launched = launch(*device, *kernel, args, {.threads = 256, .shared_bytes = most - 1024});
  ASSERT_TRUE(launched.ok()) << launched.message();
  EXPECT_THAT(read<int>(*device, args.data, 256), Each(42));
  EXPECT_FALSE(launch(*device, *kernel, args, {.threads = 256, .shared_bytes = most}).ok());
}

TEST_F(GpuDeviceTest, CodeForAnotherTargetIsRefusedBeforeTheDriver) {
  const Result<Artifact> artifact = compile(kCount, hopper() ? "sm_80" : "sm_90a");
  ASSERT_TRUE(artifact.ok());
  EXPECT_THAT(device->load(*artifact).status().message(), HasSubstr("not loaded"));
}

TEST_F(GpuDeviceTest, WhatIsNoCodeIsRefusedWithCudasName) {
  Result<Artifact> artifact = compile(kCount);
  ASSERT_TRUE(artifact.ok());
  Artifact other = *artifact;
  other.entry = "tw_other";
  EXPECT_THAT(device->load(other).status().message(), AllOf(HasSubstr("tw_other"), HasSubstr("CUDA_ERROR_NOT_FOUND")));
  artifact->image.assign(1000, std::byte{1});
  EXPECT_THAT(device->load(*artifact).status().message(), AllOf(HasSubstr("test/kernel"), HasSubstr("CUDA_ERROR_")));
  EXPECT_TRUE(device->synchronize().ok());
}

TEST_F(GpuDeviceTest, ArgumentsOfAnotherSizeAreRefused) {
  const auto kernel = load(*device, kCount);
  ASSERT_NE(kernel, nullptr);
  EXPECT_THAT(launch(*device, *kernel, int64_t{0}, {.threads = 32}).message(),
              HasSubstr("8 bytes of arguments, the kernel takes 16"));
}

TEST_F(GpuDeviceTest, MemoryBeyondFourGiBIsFilledAndCopied) {
  const int64_t bytes = (int64_t{1} << 32) + 4096;
  if (device->available_memory() < 2 * bytes) GTEST_SKIP() << "the GPU has less than 8 GiB left";
  Result<void*> data = device->allocate(bytes);
  ASSERT_TRUE(data.ok()) << data.status().message();
  char* const begin = static_cast<char*>(*data);
  ASSERT_TRUE(device->fill(begin, 3, bytes).ok());
  ASSERT_TRUE(device->copy_from_host(begin + bytes - 4, "\1\2\3\4", 4).ok());
  EXPECT_THAT(read<char>(*device, begin + bytes - 6, 6), ElementsAre(3, 3, 1, 2, 3, 4));
  EXPECT_THAT(read<char>(*device, begin, 2), ElementsAre(3, 3));
  device->deallocate(*data, bytes);
}

TEST_F(GpuDeviceTest, ATensorMapBringsABoxFromTheAddressOfTheCall) {
  if (!hopper()) GTEST_SKIP() << "tensor maps need sm_90a";
  const auto kernel = load(*device, R"(#include "tile/sm90/tma.cuh"
struct Args { tilewright::TensorMap map; float* out; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  using namespace tilewright::sm90;
  __shared__ alignas(128) float box[4 * 8];
  __shared__ Barrier barrier;
  init(barrier, 1);
  fence_barrier_init();
  arrive_expect_bytes(barrier, sizeof(box));
  load_box(a.map, box, barrier, 4, 2, 0);
  wait(barrier, 0);
  for (int i = 0; i < 4 * 8; ++i) a.out[i] = box[i];
}
)");
  ASSERT_NE(kernel, nullptr);
  struct Args {
    TensorMap map;
    float* out;
  } args{};
  TensorMapSpec spec;
  spec.dtype = DType::kF32;
  spec.rank = 3;
  spec.dims = {10, 5, 1};
  spec.strides = {4, 64, 640};  // rows of 16
  spec.box = {8, 4, 1};
  auto* const map = reinterpret_cast<std::byte*>(&args.map);
  const Status encoded = device->encode_tensor_map(spec, map);
  ASSERT_TRUE(encoded.ok()) << encoded.message();
  std::vector<float> data(160);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  for (int call = 0; call < 2; ++call) {
    void* const matrix = zeros(*device, 640);
    args.out = static_cast<float*>(zeros(*device, 128));
    for (float& value : data) value += 1000;
    ASSERT_TRUE(device->copy_from_host(matrix, data.data(), 640).ok());
    ASSERT_TRUE(device->set_tensor_map_address(map, matrix).ok());
    const Status launched = launch(*device, *kernel, args, {.threads = 1});
    ASSERT_TRUE(launched.ok()) << launched.message();
    const std::vector<float> out = read<float>(*device, args.out, 32);
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < 8; ++column) {
        const bool inside = 2 + row < 5 && 4 + column < 10;
        const float want = inside ? data[(2 + row) * 16 + 4 + column] : 0;
        EXPECT_EQ(out[row * 8 + column], want) << "call " << call << ", row " << row << ", column " << column;
      }
    }
  }
}

TEST_F(GpuDeviceTest, LimitsAreMeasured) {
  const Result<DeviceLimits> limits = device->measure_limits(0.5, compile_probe);
  ASSERT_TRUE(limits.ok()) << limits.status().message();
  EXPECT_GT(limits->read_gbps_all, limits->read_gbps_unit);
  EXPECT_GT(limits->read_gbps_unit, 0);
  EXPECT_GT(limits->copy_gbps_all, 0);
  EXPECT_GT(limits->launch_us, 0);
  EXPECT_GT(limits->graph_node_us, 0);
}

// A fault ends the context for good, so it happens in a process of its own.
int fault() {
  Result<std::unique_ptr<Device>> device = make_cuda_device(0);
  if (!device) return 1;
  char folder[] = "/tmp/tilewright-fault-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  CompileRequest request;
  request.name = "fault";
  request.entry = "tw_test";
  request.target = (*device)->spec().arch->target;
  request.source = kCount;
  Result<std::string> file = nvrtc_compiler().compile(request, folder, nullptr);
  Artifact artifact;
  artifact.kind = ArtifactKind::kCubin;
  artifact.target = request.target;
  artifact.entry = request.entry;
  artifact.path = std::string(folder) + "/" + (file ? *file : "");
  Result<std::shared_ptr<const LoadedKernel>> kernel = (*device)->load(artifact);
  remove_tree(folder);
  if (!kernel) return 1;
  const Counter args{reinterpret_cast<int*>(0x1000), 100};
  const Status launched = (*device)->launch(**kernel, std::as_bytes(std::span(&args, 1)), {.threads = 32}, {});
  const Status waited = (*device)->synchronize();
  int value = 0;
  const Status copied = (*device)->copy_to_host(&value, args.data, 4);
  std::printf("launch: %s\nwait: %s\ncopy: %s\n", launched.to_string().c_str(), waited.to_string().c_str(),
              copied.to_string().c_str());
  return 0;
}
const test::ChildProgram kFault("gpu_fault", &fault);

TEST_F(GpuDeviceTest, AFaultOfAKernelComesOutOfTheWaitWithCudasName) {
  std::string output(4096, '\0');
  FILE* const child = popen((std::filesystem::read_symlink("/proc/self/exe").string() + " gpu_fault").c_str(), "r");
  ASSERT_NE(child, nullptr);
  output.resize(fread(output.data(), 1, output.size(), child));
  EXPECT_EQ(pclose(child), 0);
  EXPECT_THAT(output, HasSubstr("launch: ok"));
  EXPECT_THAT(output,
              HasSubstr("wait: device_error: cuda:0: waiting for its kernels: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_THAT(output, HasSubstr("copy: device_error: cuda:0: copy to the host: CUDA_ERROR_"));
}

}  // namespace
}  // namespace tilewright
