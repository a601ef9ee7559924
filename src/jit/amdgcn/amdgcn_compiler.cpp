// SPDX-License-Identifier: MIT
#include "jit/amdgcn/amdgcn_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/program/compiler_program.hpp"

namespace tilewright {
namespace {

constexpr const char* kHipSource = "instance.hip";
constexpr const char* kHipBinary = "instance.hsaco";
constexpr int kOldestClang = 20;  // the first that knows gfx950

// A bare code object of the version that every ROCm from 6.0 on loads, from freestanding headers alone: nothing of the
// host's or of ROCm's is reachable, nor are a user's own flags. Without a name of the unit the same source makes the same
// bytes.
constexpr const char* kHipFlags[] = {"--no-default-config",
                                     "-x",
                                     "hip",
                                     "--offload-device-only",
                                     "--no-gpu-bundle-output",
                                     "-nogpulib",
                                     "-nogpuinc",
                                     "-nostdinc",
                                     "-nostdinc++",
                                     "-std=c++20",
                                     "-O3",
                                     "-ffp-contract=off",
                                     "-mcode-object-version=5",
                                     "-fuse-cuid=none"};
// HIP's words come from a kernel header. Line numbers stay those of the source.
constexpr std::string_view kPrologue = "#include \"tile/amd/prelude.hpp\"\n#line 1 \"instance.hip\"\n";

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
  if (clang_major(line) < kOldestClang) {
    return Status(StatusCode::kUnsupported, fmt::format("{}; allowed: clang {} or later", line, kOldestClang));
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
  std::vector<std::string> tried;
  for (const std::string& candidate : candidates_) {
    std::vector<std::string> program = resolve_command(candidate);
    std::string reason = "not found";
    if (!program.empty()) {
      Result<std::string> version = check(program);
      if (version.ok()) {
        program_ = std::move(program);
        identity_ = std::move(*version);
        log(LogLevel::kInfo, "jit", "AMD compiler: {} ({})", fmt::join(program_, " "), identity_);
        return;
      }
      reason = version.status().message();
    }
    tried.push_back(fmt::format("'{}' ({})", candidate, reason));
  }
  status_ = Status(StatusCode::kNotFound,
                   fmt::format("jit: no compiler for AMD GPUs: tried {}; install clang {} or later and "
                               "its lld, or set TILEWRIGHT_AMDCLANG",
                               fmt::join(tried, ", "), kOldestClang));
}

const std::string& AmdgcnCompiler::identity() const {
  std::call_once(found_once_, [this] { find(); });
  return identity_;
}

Status AmdgcnCompiler::available() const {
  std::call_once(found_once_, [this] { find(); });
  return status_;
}

std::string AmdgcnCompiler::base_flags() const {
  std::string flags = fmt::format("{} {}", fmt::join(kHipFlags, " "), kPrologue);
  // What the prologue includes stands in no request.
  if (const auto headers = find_kernel_headers(kPrologue); headers.ok()) {
    for (const auto& header : *headers) flags += header->digest.hex();
  }
  return flags;
}

Result<std::string> AmdgcnCompiler::tool(const std::string& name) const {
  if (Status status = available(); !status) return status;
  return find_tool(program_, name);
}

Result<std::string> AmdgcnCompiler::compile(const CompileRequest& request, const std::string& folder,
                                            const std::atomic<bool>* stop) {
  if (Status status = available(); !status) return status;
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  ProgramCompile compile{program_, kHipSource, std::string(kPrologue) + request.source, kHipBinary, seconds_limit_};
  compile.argv.insert(compile.argv.end(), std::begin(kHipFlags), std::end(kHipFlags));
  compile.argv.insert(compile.argv.end(), flags->begin(), flags->end());
  compile.argv.insert(compile.argv.end(), {"-I", kIncludeFolder, "-o", kHipBinary, kHipSource});
  return run_compile(request, compile, folder, stop);
}

std::vector<std::string> AmdgcnCompiler::programs() {
  if (const auto named = environment("TILEWRIGHT_AMDCLANG"); named && !named->empty()) return {*named};
  const std::string rocm = environment("ROCM_PATH").value_or("/opt/rocm");
  return {rocm + "/llvm/bin/clang", "clang-23", "clang-22", "clang-21", "clang-20", "clang"};
}

AmdgcnCompiler& amdgcn_compiler() {
  // Never destroyed: background threads of other static objects may still compile.
  static AmdgcnCompiler* const compiler = new AmdgcnCompiler(AmdgcnCompiler::programs());
  return *compiler;
}

}  // namespace tilewright
