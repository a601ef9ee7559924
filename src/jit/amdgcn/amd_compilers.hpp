// SPDX-License-Identifier: MIT
// Which compiler makes code for AMD GPUs here.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "jit/amdgcn/amdgcn_compiler.hpp"

namespace tilewright {

// The first of several compilers that is there. Its error has all their reasons.
class FirstCompiler final : public Compiler {
 public:
  explicit FirstCompiler(std::vector<Compiler*> compilers) : compilers_(std::move(compilers)) {}

  std::string_view name() const override { return compilers_.front()->name(); }
  ArtifactKind kind() const override { return compilers_.front()->kind(); }
  const std::string& identity() const override { return chosen().identity(); }
  std::string base_flags() const override { return compilers_.front()->base_flags(); }
  Status available() const override;
  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override;

 private:
  Compiler& chosen() const;

  const std::vector<Compiler*> compilers_;  // none of them is owned; all of one name and kind, with the same flags
  mutable std::once_flag chosen_once_;
  mutable Compiler* chosen_ = nullptr;
  mutable Status status_;
};

// $TILEWRIGHT_AMDCLANG alone, else $TILEWRIGHT_COMGR alone; else ROCm's clang, ROCm's comgr, and the newest plain clang.
Compiler& amd_compiler();

// What is tried, in order of preference.
std::string rocm_clang();
std::vector<std::string> plain_clangs();

}  // namespace tilewright
