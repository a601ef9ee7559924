// SPDX-License-Identifier: MIT
#include "jit/program/compiler_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/system/files.hpp"
#include "jit/system/process.hpp"

namespace tilewright {
namespace {

// What would change what is compiled without being part of the digest, and what is meant for the host program alone.
constexpr const char* kHiddenVariables[] = {
    "CCC_OVERRIDE_OPTIONS", "CPATH",     "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",  "LD_PRELOAD"};

ProcessOptions process_options(std::vector<std::string> argv, std::string folder, double seconds) {
  ProcessOptions options;
  options.argv = std::move(argv);
  options.folder = std::move(folder);
  options.seconds = seconds;
  options.set = {"LC_ALL=C"};
  // The compiler's own temporary files go where the build is: private, and removed with it.
  if (!options.folder.empty()) options.set.push_back("TMPDIR=" + options.folder);
  options.unset.assign(std::begin(kHiddenVariables), std::end(kHiddenVariables));
  return options;
}

// A program by its name, as a shell finds it. Links are not followed: a compiler driver looks at its own name.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : std::string();
  const std::string path = environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (std::string_view folders = path; !folders.empty();) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    // An empty entry means the current folder; code from there is not wanted.
    if (folder.empty() || folder.front() != '/') continue;
    std::string candidate = fmt::format("{}/{}", folder, name);
    if (is_file(candidate) && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace

std::vector<std::string> resolve_command(const std::string& command) {
  if (std::string whole = find_program(command); !whole.empty()) return {whole};
  std::vector<std::string> words = split_words(command);
  if (words.empty()) return {};
  words[0] = find_program(words[0]);
  return words[0].empty() ? std::vector<std::string>() : words;
}

std::string first_line_of(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

Result<std::string> ask_program(std::vector<std::string> program, const std::string& question) {
  program.push_back(question);
  Result<ProcessResult> run = run_process(process_options(program, "", 20));
  if (!run) return run.status();
  if (!run->ok() || run->output.find_first_not_of(" \n") == std::string::npos) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("'{} {}': {}: {}", program[0], question, run->describe(), first_line_of(run->output)));
  }
  return std::move(run->output);
}

Result<FoundProgram> find_compiler(
    const std::vector<std::string>& candidates,
    const std::function<Result<std::string>(const std::vector<std::string>& argv)>& identify) {
  std::vector<std::string> tried;
  for (const std::string& candidate : candidates) {
    FoundProgram found{resolve_command(candidate), ""};
    std::string reason = "not found";
    if (!found.argv.empty()) {
      Result<std::string> identity = identify(found.argv);
      if (identity.ok()) {
        found.identity = std::move(*identity);
        log(LogLevel::kInfo, "jit", "compiler: {} ({})", fmt::join(found.argv, " "), found.identity);
        return found;
      }
      reason = identity.status().message();
    }
    tried.push_back(fmt::format("'{}' ({})", candidate, reason));
  }
  return Status(StatusCode::kNotFound,
                tried.empty() ? "tried nothing" : fmt::format("tried {}", fmt::join(tried, ", ")));
}

Result<std::string> run_compile(const CompileRequest& request, const ProgramCompile& compile, const std::string& folder,
                                const std::atomic<bool>* stop) {
  Result<std::vector<std::shared_ptr<const KernelHeader>>> headers = find_kernel_headers(compile.source);
  if (!headers) return headers.status();
  const std::string include = folder + "/" + kIncludeFolder;
  for (const auto& header : *headers) {
    const std::string path = include + "/" + header->path;
    if (Status status = make_folders(path.substr(0, path.rfind('/'))); !status) return status;
    if (Status status = write_file(path, header->text); !status) return status;
  }
  if (Status status = write_file(folder + "/" + compile.source_name, compile.source); !status) return status;

  ProcessOptions options = process_options(compile.argv, folder, compile.seconds);
  options.stop = stop;
  Result<ProcessResult> run = run_process(options);
  if (!run) return run.status();
  if (run->stopped) {
    return Status(StatusCode::kCompileDisabled, fmt::format("jit: the compile of '{}' was stopped", request.name));
  }
  const std::string text = fmt::format("{}\n{}", fmt::join(compile.argv, " "), run->output);
  if (Status status = write_file(folder + "/" + kCompileLogFile, text); !status) return status;
  remove_tree(include);
  if (run->ok() && is_file(folder + "/" + compile.binary_name)) return std::string(compile.binary_name);
  return Status(run->timed_out ? StatusCode::kTimeout : StatusCode::kCompileFailed,
                fmt::format("jit: '{}' for {} does not compile: {}{}\n{}", request.name, request.target,
                            run->describe(), run->timed_out ? fmt::format(" of {} s", compile.seconds) : "",
                            run->output.substr(0, kMaxCompilerWords)));
}

}  // namespace tilewright
