// SPDX-License-Identifier: MIT
// The host C++ compiler as a Compiler: one instance's source becomes a shared object.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "jit/compiler.hpp"
#include "jit/program/compiler_program.hpp"

namespace tilewright {

class HostCompiler final : public Compiler {
 public:
  // `candidates`: commands in order of preference ("g++", "/opt/bin/clang++", "ccache g++"); the first that
  // answers is used. The first question runs the programs; later ones are free.
  explicit HostCompiler(std::vector<std::string> candidates, double seconds_limit = 300);

  std::string_view name() const override { return "host-c++"; }
  ArtifactKind kind() const override { return ArtifactKind::kHostObject; }
  // Versions, machine and base flags as the program tells them; its path is no part of it.
  const std::string& identity() const override;
  Status available() const override;
  std::string base_flags() const override;
  std::string linked_digest(const CompileRequest& request) const override;
  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override;

 private:
  void find() const;
  std::vector<std::string> command_line(const std::vector<std::string>& flags, bool linked_support) const;

  const std::vector<std::string> candidates_;
  const double seconds_limit_;
  mutable std::once_flag found_once_;
  mutable FoundProgram program_;
  mutable Status status_;
  mutable std::mutex linked_mutex_;
  mutable std::map<const char*, std::string> linked_digests_;  // of objects in the library, which never change
};

}  // namespace tilewright
