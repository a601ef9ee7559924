// SPDX-License-Identifier: MIT
#include "device/cpu/run_on_units.hpp"

namespace tilewright {

Status run_on_units(Device& cpu, const char* name, CpuEntry entry, std::span<const std::byte> args) {
  Artifact artifact;
  artifact.kind = ArtifactKind::kBuiltin;
  artifact.target = cpu.spec().arch->target;
  artifact.entry = name;
  artifact.address = reinterpret_cast<const void*>(entry);
  const Result<std::shared_ptr<const LoadedKernel>> kernel = cpu.load(artifact);
  if (!kernel) return kernel.status();
  return cpu.launch(**kernel, args, {static_cast<uint32_t>(cpu.spec().units)}, {});
}

}  // namespace tilewright
