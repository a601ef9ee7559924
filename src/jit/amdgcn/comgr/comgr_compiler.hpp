// SPDX-License-Identifier: MIT
// ROCm's comgr as a Compiler: where HIP's runtime is installed without its compilers. It makes what clang makes, in this
// process: one compile at a time, and none is ended before it is done.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/amdgcn/comgr/comgr_library.hpp"
#include "jit/amdgcn/hip_source.hpp"
#include "jit/compiler.hpp"

namespace tilewright {

class ComgrCompiler final : public Compiler {
 public:
  // `seconds_limit`: how long one waits for the others.
  explicit ComgrCompiler(std::vector<std::string> library_names, double seconds_limit = 300)
      : names_(std::move(library_names)), seconds_limit_(seconds_limit) {}

  // As of the program that it does the work of: a pack that one filled serves the other.
  std::string_view name() const override { return kAmdClangName; }
  ArtifactKind kind() const override { return ArtifactKind::kAmdObject; }
  // Its version and that of the clang in it.
  const std::string& identity() const override;
  std::string base_flags() const override { return hip_base_flags(); }
  Status available() const override;
  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override;

 private:
  void find() const;
  Status open() const;

  const std::vector<std::string> names_;
  const double seconds_limit_;
  mutable std::once_flag found_once_;
  mutable std::optional<comgr::Library> library_;
  mutable std::vector<std::string> targets_;  // "gfx942"
  mutable std::string identity_;
  mutable Status status_;
};

}  // namespace tilewright
