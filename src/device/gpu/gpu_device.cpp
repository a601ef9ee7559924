// SPDX-License-Identifier: MIT
#include "device/gpu/gpu_device.hpp"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <iterator>

#include "device/gpu/graph_burst.hpp"

namespace tilewright::gpu {

Result<void*> GpuDevice::allocate(int64_t bytes) {
  if (bytes < 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: allocate: bytes = {}, allowed: 0 or more", where(), bytes));
  }
  const DeviceScope scope(*runtime_);
  const RelaxedCapture relaxed(runtime_->functions());
  void* data = nullptr;
  Code code = scope.code();
  if (code == kSuccess) code = runtime_->functions().allocate(&data, static_cast<size_t>(bytes < 1 ? 1 : bytes));
  if (Status s = runtime_->check(code, fmt::format("{}: {} bytes of memory", where(), bytes)); !s) return s;
  return data;
}

void GpuDevice::deallocate(void* data, int64_t) {
  if (data == nullptr) return;
  const DeviceScope scope(*runtime_);
  runtime_->functions().free(data);
}

Status GpuDevice::copy_from_host(void* to, const void* from, int64_t bytes) {
  return on_device("copy from the host",
                   [&] { return runtime_->functions().copy_from_host(to, from, static_cast<size_t>(bytes)); });
}

Status GpuDevice::copy_to_host(void* to, const void* from, int64_t bytes) {
  return on_device("copy to the host",
                   [&] { return runtime_->functions().copy_to_host(to, from, static_cast<size_t>(bytes)); });
}

Status GpuDevice::fill(void* to, uint8_t value, int64_t bytes) {
  return on_device("fill", [&] {
    const Code code = runtime_->functions().fill(to, value, static_cast<size_t>(bytes), nullptr);
    return code == kSuccess ? runtime_->functions().synchronize_stream(nullptr) : code;
  });
}

Status GpuDevice::synchronize() {
  return on_device("waiting for its kernels", [&] { return runtime_->functions().synchronize(); });
}

int64_t GpuDevice::available_memory() {
  size_t free_bytes = 0, total = 0;
  const Status s = on_device("memory", [&] { return runtime_->functions().memory_info(&free_bytes, &total); });
  return s ? static_cast<int64_t>(free_bytes) : 0;
}

Result<std::unique_ptr<Burst>> GpuDevice::make_burst(const TurnedCall& call, int first_turn, int count) {
  return make_graph_burst(*runtime_, *burst_streams_, call, first_turn, count);
}

Status GpuDevice::check_artifact(const Artifact& artifact, ArtifactKind kind, std::string_view what) const {
  const std::string& name = artifact.key.empty() ? artifact.entry : artifact.key;
  if (!runs_on(artifact.target, spec_.arch->target)) {
    return Status(StatusCode::kUnsupported, fmt::format("{}: '{}' is code for target '{}', this device runs '{}'; not "
                                                        "loaded",
                                                        where(), name, artifact.target, spec_.arch->target));
  }
  if (artifact.kind != kind) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: '{}' is no {}; this device loads nothing else", where(), name, what));
  }
  return {};
}

Status GpuDevice::refuse_kernel(std::string_view loaded_by) const {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: launch: the kernel was loaded by {}", where(), loaded_by));
}

std::string part_of_name(const std::string& name) {
  if (const PartSpec* part = find_part(name)) return std::string(part->name);
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      text += static_cast<char>(std::tolower(byte));
    } else if (!text.empty() && text.back() != '_') {
      text += '_';
    }
  }
  while (!text.empty() && text.back() == '_') text.pop_back();
  return text;
}

Result<std::vector<std::byte>> read_artifact(const Artifact& artifact) {
  std::ifstream file(artifact.path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty())
    return Status(StatusCode::kIoError, fmt::format("'{}' cannot be read, or is empty", artifact.path));
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return std::vector<std::byte>(begin, begin + bytes.size());
}

}  // namespace tilewright::gpu
