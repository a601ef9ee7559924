// SPDX-License-Identifier: MIT
#include "jit/amdgcn/hip_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "jit/kernel_headers.hpp"

namespace tilewright {
namespace {

// Code objects of the version that every ROCm from 6.0 on loads, from freestanding headers alone: nothing of the host's or of
// ROCm's is reachable. Without a name of the unit the same source makes the same bytes.
constexpr const char* kHipFlags[] = {"-nogpulib",      "-nogpuinc", "-nostdinc",         "-nostdinc++",
                                     "-std=c++20",     "-O3",       "-ffp-contract=off", "-mcode-object-version=5",
                                     "-fuse-cuid=none"};
// HIP's words come from a kernel header. Line numbers stay those of the source.
constexpr std::string_view kHipPrologue = "#include \"tile/amd/prelude.hpp\"\n#line 1 \"instance.hip\"\n";

}  // namespace

std::span<const char* const> hip_flags() { return kHipFlags; }

std::string hip_source(const CompileRequest& request) { return std::string(kHipPrologue) + request.source; }

std::string hip_base_flags() {
  std::string flags = fmt::format("{} {}", fmt::join(kHipFlags, " "), kHipPrologue);
  // What the prologue includes stands in no request.
  if (const auto headers = find_kernel_headers(kHipPrologue); headers.ok()) {
    for (const auto& header : *headers) flags += header->digest.hex();
  }
  return flags;
}

}  // namespace tilewright
