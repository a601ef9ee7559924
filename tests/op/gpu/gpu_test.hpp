// SPDX-License-Identifier: MIT
// What tests on a CUDA device share: the device, kernels compiled on the spot, streams. Skipped with the reason where there is
// no GPU or no NVRTC.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "device/cuda/driver/context_scope.hpp"
#include "dispatch/registry/family.hpp"
#include "jit/compiler.hpp"
#include "jit/system/files.hpp"

namespace tilewright::test {

// A stream of a device's primary context.
class GpuStream {
 public:
  // `priority`: below 0 before others.
  explicit GpuStream(int device, int priority = 0) : driver_(**cuda::driver()), device_(device) {
    driver_.cuDevicePrimaryCtxRetain(&context_, device_);
    const cuda::ContextScope scope(driver_, context_);
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto create = reinterpret_cast<int (*)(cuda::CuStream*, unsigned, int)>(
        library == nullptr ? nullptr : dlsym(library, "cuStreamCreateWithPriority"));
    EXPECT_TRUE(create != nullptr && create(&stream_, gpu::kStreamNonBlocking, priority) == 0);
    if (library != nullptr) dlclose(library);
  }
  ~GpuStream() {
    {
      const cuda::ContextScope scope(driver_, context_);
      driver_.destroy_stream(stream_);
    }
    driver_.cuDevicePrimaryCtxRelease_v2(device_);
  }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  LaunchContext launch() const { return {.stream = stream_}; }
  cuda::CuStream get() const { return stream_; }
  cuda::CuContext context() const { return context_; }
  bool wait() const {
    const cuda::ContextScope scope(driver_, context_);
    return driver_.synchronize_stream(stream_) == gpu::kSuccess;
  }

 private:
  const cuda::Driver& driver_;
  const cuda::CuDevice device_;
  cuda::CuContext context_ = nullptr;
  cuda::CuStream stream_ = nullptr;
};

// What a stream captured, replayed on it.
class GpuGraph {
 public:
  explicit GpuGraph(const GpuStream& stream) : driver_(**cuda::driver()), stream_(stream) {
    const cuda::ContextScope scope(driver_, stream_.context());
    begun_ = driver_.begin_capture(stream_.get(), gpu::CaptureMode::kGlobal) == gpu::kSuccess;
  }
  ~GpuGraph() {
    const cuda::ContextScope scope(driver_, stream_.context());
    if (exec_ != nullptr) driver_.destroy_graph_exec(exec_);
    if (graph_ != nullptr) driver_.destroy_graph(graph_);
  }
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  Status end() {
    const cuda::ContextScope scope(driver_, stream_.context());
    if (!begun_) return Status(StatusCode::kDeviceError, "the capture did not begin");
    if (Status s = cuda::check(driver_, driver_.end_capture(stream_.get(), &graph_), "end of capture"); !s) return s;
    return cuda::check(driver_, driver_.instantiate(&exec_, graph_, 0), "graph");
  }
  bool replay() const {
    const cuda::ContextScope scope(driver_, stream_.context());
    return driver_.launch_graph(exec_, stream_.get()) == gpu::kSuccess && stream_.wait();
  }

 private:
  const cuda::Driver& driver_;
  const GpuStream& stream_;
  bool begun_ = false;
  gpu::Graph graph_ = nullptr;
  gpu::GraphExec exec_ = nullptr;
};

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const Result<int> count = cuda_device_count();
    if (!count || *count == 0) GTEST_SKIP() << (count ? "no CUDA device" : count.status().message());
    devices = *count;
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
    device = open(0);
    if (device == nullptr) GTEST_SKIP() << "cuda:0 cannot be opened";
    folder = *make_unique_folder(std::filesystem::temp_directory_path().string(), "tilewright-gpu-");
  }
  void TearDown() override {
    if (!folder.empty()) remove_tree(folder);
  }

  static std::unique_ptr<Device> open(int index) {
    Result<std::unique_ptr<Device>> opened = make_cuda_device(index);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened ? std::move(*opened) : nullptr;
  }
  bool hopper() const { return device->spec().arch->target == "sm_90a"; }

  // A kernel "tw_test" in CUDA C++, for the device's target or another.
  Result<Artifact> compile(const std::string& source, const std::string& target = "") const {
    CompileRequest request;
    request.name = "test";
    request.entry = "tw_test";
    request.target = target.empty() ? std::string(device->spec().arch->target) : target;
    request.source = source;
    Result<std::string> made = make_unique_folder(folder, "build-");
    if (!made) return made.status();
    Result<std::string> file = nvrtc_compiler().compile(request, *made, nullptr);
    if (!file) return file.status();
    Artifact artifact;
    artifact.kind = ArtifactKind::kCubin;
    artifact.target = request.target;
    artifact.entry = request.entry;
    artifact.key = "test/kernel";
    artifact.path = *made + "/" + *file;
    return artifact;
  }
  std::shared_ptr<const LoadedKernel> load(Device& on, const std::string& source) const {
    const Result<Artifact> artifact = compile(source);
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    if (!artifact) return nullptr;
    auto kernel = on.load(*artifact);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel ? *kernel : nullptr;
  }

  // The instance of a family at a key, compiled once.
  std::shared_ptr<const LoadedKernel> kernel_of(const KernelFamily& family, const KernelKey& key) {
    auto& kernel = kernels_[key.text];
    if (kernel != nullptr || family.backend() == Backend::kVendor) return kernel;
    const Result<CompileRequest> request = family.source(key);
    EXPECT_TRUE(request.ok()) << request.status().message();
    if (!request) return nullptr;
    const std::string build = *make_unique_folder(folder, "build-");
    const Result<std::string> file = nvrtc_compiler().compile(*request, build, nullptr);
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file) return nullptr;
    Artifact artifact;
    artifact.kind = ArtifactKind::kCubin;
    artifact.target = request->target;
    artifact.entry = request->entry;
    artifact.key = key.text;
    artifact.path = build + "/" + *file;
    auto loaded = device->load(artifact);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (loaded) kernel = *loaded;
    return kernel;
  }

  template <class Args>
  static Status launch(Device& on, const LoadedKernel& kernel, const Args& args, const LaunchShape& shape,
                       const LaunchContext& context = {}) {
    return on.launch(kernel, std::as_bytes(std::span(&args, 1)), shape, context);
  }
  template <class T>
  static std::vector<T> read(Device& on, const void* data, size_t count) {
    std::vector<T> values(count);
    const Status s = on.copy_to_host(values.data(), data, static_cast<int64_t>(count * sizeof(T)));
    EXPECT_TRUE(s.ok()) << s.message();
    return values;
  }
  // Zeroed; lives as long as the device.
  static void* zeros(Device& on, int64_t bytes) {
    Result<void*> data = on.allocate(bytes);
    EXPECT_TRUE(data.ok() && on.fill(*data, 0, bytes).ok());
    return data ? *data : nullptr;
  }

  int devices = 0;
  std::unique_ptr<Device> device;
  std::string folder;

 private:
  std::map<std::string, std::shared_ptr<const LoadedKernel>> kernels_;
};

}  // namespace tilewright::test
