// SPDX-License-Identifier: MIT
// Which compiler makes the code of a target.
#include <fmt/format.h>

#include "arch/arch_spec.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

// Stands where a vendor's compiler is not known.
class NoCompiler final : public Compiler {
 public:
  std::string_view name() const override { return "none"; }
  ArtifactKind kind() const override { return ArtifactKind::kAmdObject; }
  const std::string& identity() const override { return identity_; }
  Status available() const override {
    return Status(StatusCode::kUnsupported, "jit: there is no compiler for AMD targets");
  }
  Result<std::string> compile(const CompileRequest&, const std::string&, const std::atomic<bool>*) override {
    return available();
  }

 private:
  const std::string identity_;
};

}  // namespace

Compiler& compiler_for(std::string_view target) {
  static NoCompiler none;
  const ArchSpec* arch = find_arch(target);
  if (arch == nullptr) return host_compiler();  // which refuses it, with the list of targets
  switch (arch->vendor) {
    case ArchVendor::kX86: return host_compiler();
    case ArchVendor::kNvidia: return nvrtc_compiler();
    case ArchVendor::kAmd: break;
  }
  return none;
}

}  // namespace tilewright
