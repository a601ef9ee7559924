// SPDX-License-Identifier: MIT
// Kernels of AMD targets as shared objects of the host compiler, for the emulated devices (docs/devices/emulation.md).
#pragma once

#include <string>

#include "jit/compiler.hpp"

namespace tilewright {

// The request's source is an AMD kernel with a TILEWRIGHT_EMULATED_ENTRY of the request's entry; tile/emu/amdgcn.hpp is
// included before it.
class EmulatedCompiler final : public Compiler {
 public:
  explicit EmulatedCompiler(Compiler& host) : host_(host) {}

  std::string_view name() const override { return "emulated-c++"; }
  ArtifactKind kind() const override { return ArtifactKind::kEmulated; }
  const std::string& identity() const override { return host_.identity(); }
  Status available() const override { return host_.available(); }
  std::string base_flags() const override;
  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override;

 private:
  Compiler& host_;
};

// Over host_compiler().
Compiler& emulated_compiler();

}  // namespace tilewright
