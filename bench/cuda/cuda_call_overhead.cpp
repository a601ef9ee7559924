// SPDX-License-Identifier: MIT
// What a call of gemm() on a CUDA device costs the host above a bare launch by the driver: a problem that was seen before,
// new pointers each time. `cuda_call_overhead [M N K]`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "device/cuda/driver/context_scope.hpp"
#include "dispatch/context_impl.hpp"
#include "jit/compiler.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 100;  // between two waits: fewer than the driver queues
constexpr int kRounds = 201;

// A kernel that does nothing, launched by the driver alone with the shape and as many bytes of arguments as the real one.
class BareLaunch {
 public:
  Status load(const Device& device, const Stage& stage) {
    shape_ = stage.shape;
    args_.resize(stage.args.size());
    const std::string source = fmt::format(
        "struct Args {{ char bytes[{}]; }};\n"
        "extern \"C\" __global__ void tw_empty(const __grid_constant__ Args) {{}}\n",
        args_.size());
    Result<Artifact> artifact = compile_probe(source, "tw_empty", device.spec().arch->target);
    if (!artifact) return artifact.status();
    cuda::CuLibrary library = nullptr;
    cuda::CuKernel kernel = nullptr;
    cuda::CuResult result = driver_.cuDevicePrimaryCtxRetain(&context_, device.spec().id.index);
    const cuda::ContextScope scope(driver_, context_);
    const auto next = [&](auto call) {
      if (result == cuda::CuResult::kSuccess) result = call();
    };
    next([&] {
      return driver_.cuLibraryLoadData(&library, artifact->image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    });
    next([&] { return driver_.cuLibraryGetKernel(&kernel, library, "tw_empty"); });
    next([&] {
      return driver_.cuKernelSetAttribute(cuda::FunctionAttribute::kMaxDynamicSharedBytes,
                                          static_cast<int>(shape_.shared_bytes), kernel, device.spec().id.index);
    });
    next([&] { return driver_.cuKernelGetFunction(&function_, kernel); });
    return cuda::check(driver_, result, "bare launch");
  }
  void run() {
    cuda::LaunchAttribute cluster;
    cluster.id = cuda::LaunchAttributeId::kClusterDimension;
    cluster.value.cluster = {shape_.cluster[0], shape_.cluster[1], shape_.cluster[2]};
    const unsigned attributes = shape_.cluster[0] * shape_.cluster[1] * shape_.cluster[2] > 1 ? 1 : 0;
    const cuda::LaunchConfig config{shape_.grid[0],      shape_.grid[1], shape_.grid[2], shape_.threads, 1, 1,
                                    shape_.shared_bytes, nullptr,        &cluster,       attributes};
    void* params[] = {args_.data()};
    driver_.cuLaunchKernelEx(&config, function_, params, nullptr);
  }
  cuda::CuContext context() const { return context_; }

 private:
  const cuda::Driver& driver_ = **cuda::driver();
  cuda::CuContext context_ = nullptr;
  cuda::CuFunction function_ = nullptr;
  LaunchShape shape_;
  std::vector<std::byte> args_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Body>
double nanoseconds(const Body& body) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kCalls; ++i) body(i);
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kCalls;
}

Status measure(int64_t m, int64_t n, int64_t k) {
  Result<std::unique_ptr<Context>> context = Context::create();
  if (!context) return context.status();
  Result<OpenDevice*> opened = (*context)->impl().open_device("gemm", {DeviceKind::kCuda, 0});
  if (!opened) return opened.status();
  Device& device = *(*opened)->device;

  // Two sets of operands, taken in turn.
  const DeviceId id = device.spec().id;
  std::array<GemmCall, 2> calls;
  for (GemmCall& call : calls) {
    const auto tensor = [&](int64_t rows, int64_t columns) -> Result<TensorView> {
      Result<void*> data = device.allocate(rows * columns * 2);
      if (!data) return data.status();
      if (Status s = device.fill(*data, 0, rows * columns * 2); !s) return s;
      return TensorView::contiguous(*data, DType::kBf16, {rows, columns}, id);
    };
    const Result<TensorView> a = tensor(m, k), b = tensor(n, k), d = tensor(m, n);
    if (!a || !b || !d) return Status(StatusCode::kOutOfMemory, "no memory for the operands");
    call.a = *a, call.b = b->transposed(), call.d = *d;
  }
  Status failed;
  const auto call = [&](int i) {
    if (Status s = gemm(**context, calls[static_cast<size_t>(i) % 2]); !s) failed = s;
  };
  call(0);
  if (!failed) return failed;
  Result<QueryResult> query = gemm_query(**context, calls[0]);
  if (!query) return query.status();
  GemmProblem problem;
  GemmBindings bindings;
  if (Status s = make_gemm_problem(calls[0], true, problem, bindings); !s) return s;
  Result<std::shared_ptr<const Plan>> plan =
      (*context)->impl().plan(gemm_operator(), erase(problem), 0, {}, true, nullptr, *opened);
  if (!plan) return plan.status();
  BareLaunch bare;
  if (Status s = bare.load(device, (*plan)->stages.front()); !s) return s;

  const cuda::ContextScope current((**cuda::driver()), bare.context());  // as in a program that uses CUDA
  std::vector<double> bare_ns, gemm_ns, above;
  for (int round = 0; round < kRounds; ++round) {
    bare_ns.push_back(nanoseconds([&](int) { bare.run(); }));
    if (Status s = device.synchronize(); !s) return s;
    gemm_ns.push_back(nanoseconds(call));
    if (Status s = device.synchronize(); !s) return s;
    above.push_back(gemm_ns.back() - bare_ns.back());
  }
  fmt::print("{} on {}, {}\n", fmt::format("{}x{}x{} bf16", m, n, k), device.spec().name, query->recipe);
  fmt::print("bare launch      {:6.0f} ns\n", median(bare_ns));
  fmt::print("gemm()           {:6.0f} ns\n", median(gemm_ns));
  fmt::print("above, in pairs  {:6.0f} ns\n", median(above));
  return failed;
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) {
  const auto size = [&](int index, int64_t fallback) {
    return argc > index ? std::strtoll(argv[index], nullptr, 10) : fallback;
  };
  const tilewright::Status status = tilewright::measure(size(1, 16), size(2, 256), size(3, 256));
  if (!status.ok()) fmt::print(stderr, "cuda_call_overhead: {}\n", status.to_string());
  return status.ok() ? 0 : 1;
}
