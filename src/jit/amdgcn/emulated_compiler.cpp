// SPDX-License-Identifier: MIT
#include "jit/amdgcn/emulated_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/arch_spec.hpp"

namespace tilewright {
namespace {

// Every load and store calls the emulation (kernels/tile/emu/memory_callbacks.hpp), as wide as the source has it; code
// stays in the order of the source, and no call of an instruction is made two.
constexpr const char* kEmulatedFlags[] = {
    "-Og",
    "-fsanitize=thread,alignment",
    "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize",
    "-fno-optimize-sibling-calls",
    "-fno-unroll-loops",
    "-ftrivial-auto-var-init=pattern",
};
constexpr const char* kGccFlags[] = {
    "-fno-reorder-blocks",
    "-fno-thread-jumps",
    "-fno-crossjumping",
    "-fno-tree-tail-merge",
    "-fno-split-paths",
    "-fno-unswitch-loops",
    "-fno-store-merging",
    "-mmemcpy-strategy=libcall:-1:noalign",
    "-mmemset-strategy=libcall:-1:noalign",
    "-Wno-psabi",
};
constexpr const char* kClangFlags[] = {"-mllvm", "-tsan-instrument-read-before-write=1"};

// What clang defines for the target, as far as kernels ask for it.
std::vector<std::string> target_macros(const ArchSpec& arch) {
  const std::string target(arch.target);
  const std::string generation = target.starts_with("gfx9") ? "9" : target.substr(3, 2);
  return {fmt::format("-DTILEWRIGHT_EMULATED_TARGET=\"{}\"", target),
          fmt::format("-D__{}__=1", target),
          fmt::format("-D__GFX{}__=1", generation),
          fmt::format("-D__AMDGCN_WAVEFRONT_SIZE={}", arch.wave_size),
          fmt::format("-D__AMDGCN_WAVEFRONT_SIZE__={}", arch.wave_size),
          "-D__AMDGCN__=1",
          "-D__AMDGPU__=1"};
}

}  // namespace

std::string EmulatedCompiler::base_flags() const {
  return fmt::format("{} {} {} {}", host_.base_flags(), fmt::join(kEmulatedFlags, " "), fmt::join(kGccFlags, " "),
                     fmt::join(kClangFlags, " "));
}

Result<std::string> EmulatedCompiler::compile(const CompileRequest& request, const std::string& folder,
                                              const std::atomic<bool>* stop) {
  Result<const ArchSpec*> arch = require_arch(request.target);
  if (!arch) return arch.status();
  if ((*arch)->vendor != ArchVendor::kAmd) {
    return Status(StatusCode::kInvalidArgument, fmt::format("jit: {} is no target that is emulated", request.target));
  }
  if (Status status = available(); !status) return status;
  CompileRequest host = request;
  host.target = runs_on("x86-64-v3", cpu_info().target) ? "x86-64-v3" : "x86-64";
  host.flags.assign(std::begin(kEmulatedFlags), std::end(kEmulatedFlags));
  if (identity().starts_with("gcc")) {
    host.flags.insert(host.flags.end(), std::begin(kGccFlags), std::end(kGccFlags));
  } else {
    host.flags.insert(host.flags.end(), std::begin(kClangFlags), std::end(kClangFlags));
  }
  for (std::string& macro : target_macros(**arch)) host.flags.push_back(std::move(macro));
  host.flags.insert(host.flags.end(), request.flags.begin(), request.flags.end());
  host.source = "#include \"tile/emu/amdgcn.hpp\"\n#line 1 \"kernel\"\n" + request.source;
  return host_.compile(host, folder, stop);
}

Compiler& emulated_compiler() {
  static auto* const compiler = new EmulatedCompiler(host_compiler());  // never destroyed, as the one below it
  return *compiler;
}

}  // namespace tilewright
