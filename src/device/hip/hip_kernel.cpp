// SPDX-License-Identifier: MIT
#include "device/hip/hip_kernel.hpp"

#include <fmt/format.h>

#include "device/gpu/gpu_device.hpp"
#include "device/hip/object/code_object.hpp"

namespace tilewright::hip {

Status HipKernel::refuse(std::string_view message) const {
  return Status(StatusCode::kInvalidArgument, fmt::format("{}: '{}': {}", runtime_.name(), name_, message));
}

Result<std::shared_ptr<const LoadedKernel>> HipKernel::load(const HipRuntime& runtime, const HipLimits& limits,
                                                            const Artifact& artifact) {
  std::shared_ptr<HipKernel> kernel(
      new HipKernel(runtime, limits, artifact.key.empty() ? artifact.entry : artifact.key));
  if (Status s = kernel->load_code(artifact); !s) return s;
  return std::shared_ptr<const LoadedKernel>(std::move(kernel));
}

// Made for this processor and its settings, whole, and with the entry.
Status HipKernel::look_at(std::span<const std::byte> image, const std::string& entry, const std::string& what) {
  const auto told = [&](const Status& s) { return Status(s.code(), fmt::format("{}: {}", what, s.message())); };
  if (Status s = amd_object_matches(image, limits_.processor); !s) return told(s);
  const Result<AmdObjectInfo> info = read_amd_object(image);
  if (!info) return told(info.status());
  for (const AmdKernel& kernel : info->kernels) {
    if (kernel.name != entry) continue;
    arg_bytes_ = static_cast<size_t>(kernel.arg_bytes);
    return {};
  }
  return Status(StatusCode::kNotFound, fmt::format("{}: the code object has no entry '{}'", what, entry));
}

Status HipKernel::load_code(const Artifact& artifact) {
  const Driver& d = runtime_.driver();
  const std::string what = fmt::format("{}: loading '{}'", runtime_.name(), name_);
  std::vector<std::byte> read;
  if (artifact.image.empty()) {
    Result<std::vector<std::byte>> image = gpu::read_artifact(artifact);
    if (!image) return Status(image.status().code(), fmt::format("{}: {}", what, image.status().message()));
    read = std::move(*image);
  }
  const std::vector<std::byte>& image = artifact.image.empty() ? read : artifact.image;
  if (!d.emulated) {
    if (Status s = look_at(image, artifact.entry, what); !s) return s;
  }

  const gpu::DeviceScope scope(runtime_);
  if (Status s = check(d, scope.code(), what); !s) return s;
  const gpu::RelaxedCapture relaxed(d);
  if (Status s = check(d, d.hipModuleLoadData(&module_, image.data()), what); !s) return s;
  if (Status s = check(d, d.hipModuleGetFunction(&function_, module_, artifact.entry.c_str()),
                       fmt::format("{}: entry '{}'", what, artifact.entry));
      !s) {
    return s;
  }
  const auto read_attribute = [&](FunctionAttribute attribute, int& value) {
    return check(d, d.hipFuncGetAttribute(&value, attribute, function_), what);
  };
  if (Status s = read_attribute(FunctionAttribute::kSharedBytes, static_lds_); !s) return s;
  return read_attribute(FunctionAttribute::kMaxThreadsPerBlock, max_threads_);
}

HipKernel::~HipKernel() {
  if (module_ == nullptr) return;
  const gpu::DeviceScope scope(runtime_);
  const gpu::RelaxedCapture relaxed(runtime_.driver());
  runtime_.driver().hipModuleUnload(module_);
}

Status HipKernel::check_shape(std::span<const std::byte> args, const LaunchShape& shape) const {
  if (arg_bytes_ != 0 && args.size() != arg_bytes_) {
    return refuse(fmt::format("launch with {} bytes of arguments, the kernel takes {}", args.size(), arg_bytes_));
  }
  if (shape.shared_bytes > static_cast<uint32_t>(limits_.lds_bytes - static_lds_)) {
    return refuse(fmt::format("launch with {} bytes of dynamic LDS, allowed: at most {} ({} are static)",
                              shape.shared_bytes, limits_.lds_bytes - static_lds_, static_lds_));
  }
  if (shape.threads == 0 || shape.threads > static_cast<uint32_t>(max_threads_)) {
    return refuse(fmt::format("launch with {} work-items a workgroup, allowed: 1 .. {}", shape.threads, max_threads_));
  }
  if (uint64_t{shape.cluster[0]} * shape.cluster[1] * shape.cluster[2] != 1) {
    return refuse("launch with clusters, which AMD GPUs do not have");
  }
  if (shape.cooperative) return refuse("launch of blocks that wait for each other, which no kernel for AMD GPUs is");
  // HIP counts work-items along each side of the grid, in 32 bits.
  const uint64_t most[] = {UINT32_MAX / shape.threads, UINT32_MAX, UINT32_MAX};
  for (size_t i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > most[i]) {
      return refuse(fmt::format("launch with grid[{}] = {}, allowed: 1 .. {}", i, shape.grid[i], most[i]));
    }
  }
  return {};
}

Status HipKernel::launch(std::span<const std::byte> args, const LaunchShape& shape,
                         const LaunchContext& context) const {
  if (Status s = check_shape(args, shape); !s) return s;
  const Driver& d = runtime_.driver();
  const gpu::DeviceScope scope(runtime_);
  size_t bytes = args.size();
  void* extra[] = {kArgumentBuffer, const_cast<std::byte*>(args.data()), kArgumentBytes, &bytes, kArgumentEnd};
  gpu::Code code = scope.code();
  if (code == gpu::kSuccess) {
    code = d.hipModuleLaunchKernel(function_, shape.grid[0], shape.grid[1], shape.grid[2], shape.threads, 1, 1,
                                   shape.shared_bytes, context.stream, nullptr, args.empty() ? nullptr : extra);
  }
  if (code == gpu::kSuccess) return {};
  return check(d, code,
               fmt::format("{}: launch of '{}' (grid {} x {} x {}, {} work-items, {} bytes of LDS)", runtime_.name(),
                           name_, shape.grid[0], shape.grid[1], shape.grid[2], shape.threads, shape.shared_bytes));
}

}  // namespace tilewright::hip
