// SPDX-License-Identifier: MIT
#include "device/cuda/cuda_kernel.hpp"

#include <fmt/format.h>

#include "device/cuda/driver/context_scope.hpp"
#include "device/gpu/gpu_device.hpp"

namespace tilewright::cuda {
namespace {

constexpr int kMaxCluster = 16;        // blocks
constexpr int kReservedShared = 1024;  // bytes

}  // namespace

Status CudaKernel::refuse(std::string_view message) const {
  return Status(StatusCode::kInvalidArgument, fmt::format("cuda:{}: '{}': {}", place_.index, name_, message));
}

Result<std::shared_ptr<const LoadedKernel>> CudaKernel::load(const Place& place, const Artifact& artifact) {
  std::shared_ptr<CudaKernel> kernel(new CudaKernel(place, artifact.key.empty() ? artifact.entry : artifact.key));
  if (Status s = kernel->load_code(artifact); !s) return s;
  return std::shared_ptr<const LoadedKernel>(std::move(kernel));
}

Status CudaKernel::load_code(const Artifact& artifact) {
  const Driver& d = *place_.driver;
  const std::string what = fmt::format("cuda:{}: loading '{}'", place_.index, name_);
  std::vector<std::byte> read;
  if (artifact.image.empty()) {
    Result<std::vector<std::byte>> image = gpu::read_artifact(artifact);
    if (!image) return image.status();
    read = std::move(*image);
  }
  const std::vector<std::byte>& image = artifact.image.empty() ? read : artifact.image;

  const ContextScope scope(d, place_.context);
  if (Status s = check(d, scope.result(), what); !s) return s;
  const RelaxedCapture relaxed(d);
  const CuResult loaded = d.cuLibraryLoadData(&library_, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (Status s = check(d, loaded, what); !s) return s;
  CuKernel kernel = nullptr;
  if (Status s = check(d, d.cuLibraryGetKernel(&kernel, library_, artifact.entry.c_str()),
                       fmt::format("{}: entry '{}'", what, artifact.entry));
      !s) {
    return s;
  }

  // Shared memory beyond 48 KiB, and clusters that not every part can place, must be asked for.
  const auto read_attribute = [&](FunctionAttribute attribute, int& value) {
    return check(d, d.cuKernelGetAttribute(&value, attribute, kernel, place_.device), what);
  };
  if (Status s = read_attribute(FunctionAttribute::kSharedBytes, static_shared_); !s) return s;
  if (Status s = read_attribute(FunctionAttribute::kMaxThreadsPerBlock, max_threads_); !s) return s;
  const auto allow = [&](FunctionAttribute attribute, int value) {
    return check(d, d.cuKernelSetAttribute(attribute, value, kernel, place_.device), what);
  };
  // Some versions count in the static memory what the system reserves of each block, which is not in the limit.
  if (static_shared_ >= kReservedShared &&
      allow(FunctionAttribute::kMaxDynamicSharedBytes, place_.shared_limit - static_shared_ + kReservedShared).ok()) {
    static_shared_ -= kReservedShared;
  } else if (Status s = allow(FunctionAttribute::kMaxDynamicSharedBytes, place_.shared_limit - static_shared_); !s) {
    return s;
  }
  if (place_.capability_major >= 9) {
    if (Status s = allow(FunctionAttribute::kNonPortableClusterAllowed, 1); !s) return s;
  }

  // One argument, the struct, or none. Asking for a second one would be an error that debuggers report.
  if (d.cuKernelGetParamInfo != nullptr) {
    size_t offset = 0, bytes = 0;
    if (d.cuKernelGetParamInfo(kernel, 0, &offset, &bytes) == CuResult::kSuccess) arg_bytes_ = bytes;
  }
  return check(d, d.cuKernelGetFunction(&function_, kernel), what);
}

CudaKernel::~CudaKernel() {
  if (library_ == nullptr) return;
  const ContextScope scope(*place_.driver, place_.context);
  const RelaxedCapture relaxed(*place_.driver);
  place_.driver->cuLibraryUnload(library_);
}

Status CudaKernel::check_shape(std::span<const std::byte> args, const LaunchShape& shape) const {
  if (arg_bytes_ != 0 && args.size() != arg_bytes_) {
    return refuse(fmt::format("launch with {} bytes of arguments, the kernel takes {}", args.size(), arg_bytes_));
  }
  if (shape.shared_bytes > static_cast<uint32_t>(place_.shared_limit - static_shared_)) {
    return refuse(fmt::format("launch with {} bytes of dynamic shared memory, allowed: at most {} ({} are static)",
                              shape.shared_bytes, place_.shared_limit - static_shared_, static_shared_));
  }
  if (shape.threads == 0 || shape.threads > static_cast<uint32_t>(max_threads_)) {
    return refuse(fmt::format("launch with {} threads a block, allowed: 1 .. {}", shape.threads, max_threads_));
  }
  const uint64_t blocks = uint64_t{shape.cluster[0]} * shape.cluster[1] * shape.cluster[2];
  if (blocks == 0 || blocks > kMaxCluster || (blocks > 1 && place_.capability_major < 9)) {
    return refuse(fmt::format("launch with clusters of {} blocks, allowed: {}", blocks,
                              place_.capability_major < 9 ? "1" : fmt::format("1 .. {}", kMaxCluster)));
  }
  for (size_t i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] % shape.cluster[i] != 0) {
      return refuse(fmt::format("launch with grid[{}] = {}, allowed: multiples of the cluster's {}, from 1 on", i,
                                shape.grid[i], shape.cluster[i]));
    }
  }
  return {};
}

Status CudaKernel::launch(std::span<const std::byte> args, const LaunchShape& shape,
                          const LaunchContext& context) const {
  if (Status s = check_shape(args, shape); !s) return s;
  const Driver& d = *place_.driver;
  const ContextScope scope(d, place_.context);

  LaunchAttribute attributes[3];
  unsigned count = 0;
  if (shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > 1) {
    LaunchAttribute& cluster = attributes[count++];
    cluster.id = LaunchAttributeId::kClusterDimension;
    cluster.value.cluster = {shape.cluster[0], shape.cluster[1], shape.cluster[2]};
  }
  const bool edge_given = shape.stage_edge || (shape.programmatic_edge && context.programmatic_edge);
  if (edge_given && place_.capability_major >= 9) {
    LaunchAttribute& edge = attributes[count++];
    edge.id = LaunchAttributeId::kProgrammaticStreamSerialization;
    edge.value.programmatic_stream_serialization_allowed = 1;
  }
  if (shape.cooperative) {
    LaunchAttribute& whole = attributes[count++];
    whole.id = LaunchAttributeId::kCooperative;
    whole.value.cooperative = 1;
  }
  const LaunchConfig config{shape.grid[0],
                            shape.grid[1],
                            shape.grid[2],
                            shape.threads,
                            1,
                            1,
                            shape.shared_bytes,
                            static_cast<CuStream>(context.stream),
                            attributes,
                            count};
  void* params[] = {const_cast<std::byte*>(args.data())};
  CuResult result = scope.result();
  if (result == CuResult::kSuccess) result = d.cuLaunchKernelEx(&config, function_, params, nullptr);
  if (result == CuResult::kSuccess) return {};
  return check(d, result,
               fmt::format("cuda:{}: launch of '{}' (grid {} x {} x {}, cluster {} x {} x {}, {} threads, {} bytes of "
                           "shared memory)",
                           place_.index, name_, shape.grid[0], shape.grid[1], shape.grid[2], shape.cluster[0],
                           shape.cluster[1], shape.cluster[2], shape.threads, shape.shared_bytes));
}

}  // namespace tilewright::cuda
