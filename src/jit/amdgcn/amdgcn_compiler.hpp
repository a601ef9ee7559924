// SPDX-License-Identifier: MIT
// Clang for AMD GPUs as a Compiler: one instance's HIP source becomes a code object that the driver loads. No ROCm is
// needed: neither its headers nor its device libraries are used.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "jit/amdgcn/hip_source.hpp"
#include "jit/compiler.hpp"
#include "jit/program/compiler_program.hpp"

namespace tilewright {

class AmdgcnCompiler final : public Compiler {
 public:
  // `candidates`: commands in order of preference; the first that is new enough, knows the target and has its linker is
  // used. The first question runs the programs; later ones are free.
  explicit AmdgcnCompiler(std::vector<std::string> candidates, double seconds_limit = 300)
      : candidates_(std::move(candidates)), seconds_limit_(seconds_limit) {}

  std::string_view name() const override { return kAmdClangName; }
  ArtifactKind kind() const override { return ArtifactKind::kAmdObject; }
  const std::string& identity() const override;
  std::string base_flags() const override { return hip_base_flags(); }
  Status available() const override;
  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override;

  // The path of a tool that came with the compiler, such as "llvm-objdump".
  Result<std::string> tool(const std::string& name) const;

 private:
  void find() const;
  static Result<std::string> check(const std::vector<std::string>& program);

  const std::vector<std::string> candidates_;
  const double seconds_limit_;
  mutable std::once_flag found_once_;
  mutable FoundProgram program_;
  mutable Status status_;
};

// $TILEWRIGHT_AMDCLANG, else ROCm's, else the newest plain one: a program, with the tools beside it.
AmdgcnCompiler& amdgcn_compiler();

}  // namespace tilewright
