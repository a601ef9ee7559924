// SPDX-License-Identifier: MIT
// What an AMD code object says of itself: the processor that it was made for, and of each kernel registers, memory, spills
// and arguments. Read from the ELF file and its metadata note (versions 4 to 6 of the format: "User Guide for AMDGPU
// Backend" of LLVM, Code Object Metadata and ELF Code Object), without a GPU and without ROCm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

struct AmdArgument {
  std::string kind;  // "by_value", "global_buffer", "hidden_block_count_x" ...
  int64_t offset = 0, bytes = 0;
  // Filled by HIP, not by the caller of a launch.
  bool hidden() const { return kind.starts_with("hidden_"); }
};

struct AmdKernel {
  std::string name;
  int64_t kernarg_bytes = 0;  // with what is hidden
  int64_t arg_bytes = 0;      // what the caller passes: to the end of the last argument that is not hidden
  std::vector<AmdArgument> args;
  int64_t lds_bytes = 0;      // static, a workgroup
  int64_t scratch_bytes = 0;  // a work-item: spills, and arrays that are no registers
  bool dynamic_stack = false;
  int vgprs = 0;  // of a lane, with the accumulation registers where both share one file (gfx90a and later CDNA)
  int agprs = 0;
  int sgprs = 0;
  int vgpr_spills = 0, sgpr_spills = 0;
  int wave_size = 0;
  int max_threads = 0;  // of a workgroup, as declared
  int64_t code_bytes = 0;
};

// A feature that is fixed when a process starts: code is made for one setting, or for either.
enum class AmdFeature : uint8_t { kUnsupported, kAny, kOff, kOn };

struct AmdObjectInfo {
  std::string target;  // "gfx942"
  AmdFeature xnack = AmdFeature::kUnsupported, sramecc = AmdFeature::kUnsupported;
  std::vector<AmdKernel> kernels;
};

// kCorrupt for anything but a whole code object whose parts agree, whatever the bytes are.
Result<AmdObjectInfo> read_amd_object(std::span<const std::byte> image);

// Whether a device runs the code, and if not, why. `device` is a processor with its settings as HIP names them, such as
// "gfx942:sramecc+:xnack-"; of a setting that it leaves out nothing is known.
Status amd_object_matches(std::span<const std::byte> image, std::string_view device);

}  // namespace tilewright
