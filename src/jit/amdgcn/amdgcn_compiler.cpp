// SPDX-License-Identifier: MIT
#include "jit/amdgcn/amdgcn_compiler.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "jit/amdgcn/hip_source.hpp"
#include "jit/flags.hpp"

namespace tilewright {
namespace {

// A bare code object; a user's own flags are not reachable.
constexpr const char* kProgramFlags[] = {"--no-default-config", "-x", "hip", "--offload-device-only",
                                         "--no-gpu-bundle-output"};

// "AMD clang version 20.0.0git (...)" -> 20; 0 = not clang.
int clang_major(std::string_view version_line) {
  constexpr std::string_view kWords = "clang version ";
  const size_t at = version_line.find(kWords);
  return at == std::string_view::npos ? 0 : std::atoi(std::string(version_line.substr(at + kWords.size())).c_str());
}

Result<std::string> find_tool(const std::vector<std::string>& program, const std::string& name) {
  Result<std::string> answer = ask_program(program, "-print-prog-name=" + name);
  if (!answer) return answer;
  // What clang does not find it repeats as it was asked for.
  std::string path = first_line_of(*answer);
  if (path.starts_with('/')) return path;
  return Status(StatusCode::kNotFound, fmt::format("'{}' has no {}", program.front(), name));
}

}  // namespace

// The version line of a program that can compile for AMD GPUs, or why it cannot.
Result<std::string> AmdgcnCompiler::check(const std::vector<std::string>& program) {
  Result<std::string> version = ask_program(program, "--version");
  if (!version) return version;
  const std::string line = first_line_of(*version);
  if (clang_major(line) < kOldestAmdClang) {
    return Status(StatusCode::kUnsupported, fmt::format("{}; allowed: clang {} or later", line, kOldestAmdClang));
  }
  Result<std::string> targets = ask_program(program, "--print-targets");
  if (!targets) return targets;
  if (targets->find(" amdgcn ") == std::string::npos) {
    return Status(StatusCode::kUnsupported, fmt::format("{} without the target amdgcn", line));
  }
  if (Result<std::string> linker = find_tool(program, "lld"); !linker) {
    return Status(StatusCode::kUnsupported, fmt::format("{} without its linker lld", line));
  }
  return line;
}

void AmdgcnCompiler::find() const {
  Result<FoundProgram> found = find_compiler(candidates_, check);
  if (found) {
    program_ = std::move(*found);
  } else {
    status_ = Status(found.status().code(),
                     fmt::format("jit: no clang for AMD GPUs: {}; install clang {} or later and its lld, or set "
                                 "TILEWRIGHT_AMDCLANG",
                                 found.status().message(), kOldestAmdClang));
  }
}

const std::string& AmdgcnCompiler::identity() const {
  std::call_once(found_once_, [this] { find(); });
  return program_.identity;
}

Status AmdgcnCompiler::available() const {
  std::call_once(found_once_, [this] { find(); });
  return status_;
}

Result<std::string> AmdgcnCompiler::tool(const std::string& name) const {
  if (Status status = available(); !status) return status;
  return find_tool(program_.argv, name);
}

Result<std::string> AmdgcnCompiler::compile(const CompileRequest& request, const std::string& folder,
                                            const std::atomic<bool>* stop) {
  if (Status status = available(); !status) return status;
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  ProgramCompile compile{program_.argv, kHipSourceFile, hip_source(request), kHipBinaryFile, seconds_limit_};
  compile.argv.insert(compile.argv.end(), std::begin(kProgramFlags), std::end(kProgramFlags));
  compile.argv.insert(compile.argv.end(), hip_flags().begin(), hip_flags().end());
  compile.argv.insert(compile.argv.end(), flags->begin(), flags->end());
  compile.argv.insert(compile.argv.end(), {"-I", kIncludeFolder, "-o", kHipBinaryFile, kHipSourceFile});
  return run_compile(request, compile, folder, stop);
}

}  // namespace tilewright
