// SPDX-License-Identifier: MIT
// AMD code objects: whatever the bytes are, what is told of them is possible.
#include "device/hip/object/code_object.hpp"
#include "fuzz/fuzz_target.hpp"
#include "support/amd_object.hpp"

namespace tilewright::fuzz {

std::vector<std::string> code_object_seeds() {
  test::AmdObjectSpec fixed;
  fixed.flags = 0xA3F;
  fixed.target = "amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack-";
  return {test::make_amd_object(), test::make_amd_object(fixed)};
}

void run_code_object(std::string_view input) {
  // Of its own size, so that a sanitizer sees every byte too far.
  const std::vector<char> image(input.begin(), input.end());
  const Result<AmdObjectInfo> info = read_amd_object(std::as_bytes(std::span(image)));
  if (!info) {
    require(info.status().code() == StatusCode::kCorrupt, "damage is called damage: " + info.status().to_string());
    return;
  }
  require(!info->kernels.empty(), "an object has a kernel");
  for (const AmdKernel& kernel : info->kernels) {
    require(!kernel.name.empty() && kernel.arg_bytes <= kernel.kernarg_bytes, "arguments lie inside their segment");
    require(kernel.wave_size == 32 || kernel.wave_size == 64, "a wave has 32 or 64 lanes");
  }
}

}  // namespace tilewright::fuzz
