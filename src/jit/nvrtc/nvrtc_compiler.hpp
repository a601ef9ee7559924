// SPDX-License-Identifier: MIT
// NVRTC as a Compiler: one instance's source becomes a cubin, in this process, without files or a toolkit's headers.
#pragma once

#include <mutex>
#include <optional>

#include "jit/compiler.hpp"
#include "jit/nvrtc/nvrtc_library.hpp"

namespace tilewright {

class NvrtcCompiler final : public Compiler {
 public:
  // `names`: libraries in order of preference; the first that opens is used, at the first question.
  explicit NvrtcCompiler(std::vector<std::string> names, double seconds_limit = 300)
      : names_(std::move(names)), seconds_limit_(seconds_limit) {}

  std::string_view name() const override { return "nvrtc"; }
  ArtifactKind kind() const override { return ArtifactKind::kCubin; }
  const std::string& identity() const override;
  std::string base_flags() const override;
  Status available() const override;
  // Safe from many threads, which compile at the same time.
  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override;

 private:
  void find() const;

  const std::vector<std::string> names_;
  const double seconds_limit_;
  mutable std::once_flag found_once_;
  mutable std::optional<nvrtc::Library> library_;
  mutable std::string identity_;
  mutable Status status_;
};

}  // namespace tilewright
