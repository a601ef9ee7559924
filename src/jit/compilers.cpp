// SPDX-License-Identifier: MIT
// Which compiler makes the code of a target.
#include <filesystem>

#include "arch/arch_spec.hpp"
#include "jit/amdgcn/amd_compilers.hpp"
#include "jit/amdgcn/emulated_compiler.hpp"
#include "jit/compiler.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
Compiler& compiler_for(std::string_view target, bool emulated) {
  const ArchSpec* arch = find_arch(target);
  if (arch == nullptr) return host_compiler();  // which refuses it, with the list of targets
  switch (arch->vendor) {
    case ArchVendor::kX86: return host_compiler();
    case ArchVendor::kNvidia: return nvrtc_compiler();
    case ArchVendor::kAmd:
      if (emulated) return emulated_compiler();
      return amd_compiler();
  }
  return host_compiler();
}

Result<Artifact> compile_probe(const std::string& source, const std::string& entry, std::string_view target) {
  CompileRequest request;
  request.name = entry;
  request.entry = entry;
  request.source = source;
  request.target = target;
  std::error_code ignored;
  Result<std::string> made =
      make_unique_folder(std::filesystem::temp_directory_path(ignored).string(), "tilewright-probe-");
  if (!made) return made.status();
  const ScopedFolder folder(std::move(*made));
  Compiler& compiler = compiler_for(target);
  Result<std::string> file = compiler.compile(request, folder.path(), nullptr);
  if (!file) return file.status();
  Result<std::string> code = read_file(folder.path() + "/" + *file);
  if (!code) return code.status();
  Artifact artifact;
  artifact.kind = compiler.kind();
  artifact.target = request.target;
  artifact.entry = entry;
  const auto* const bytes = reinterpret_cast<const std::byte*>(code->data());
  artifact.image.assign(bytes, bytes + code->size());
  return artifact;
}

}  // namespace tilewright
