// SPDX-License-Identifier: MIT
#include "jit/host_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "arch/arch_spec.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/support_objects.hpp"
#include "jit/system/files.hpp"
#include "jit/system/process.hpp"

namespace tilewright {
namespace {

constexpr const char* kHostSource = "instance.cpp";
constexpr const char* kHostBinary = "instance.so";
constexpr const char* kIncludeFolder = "include";
constexpr const char* kSupportFile = "support.o";

constexpr const char* kCompileFlags[] = {
#include "jit/host_flags.inc"
};
// No start files and no C++ runtime: loading such an object touches libc and libm only, which are there already. An
// unresolved symbol fails here, with the linker's words, instead of at dlopen.
constexpr const char* kLinkFlags[] = {"-nostdlib", "-Wl,--as-needed,-z,defs", "-lm", "-lgcc", "-lc"};

// What would change what is compiled without being part of the digest, and what is meant for the host program alone.
constexpr const char* kHiddenVariables[] = {
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "LD_PRELOAD"};

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

// "ccache g++" -> {path of ccache, "g++"}; empty when there is no such program.
std::vector<std::string> resolve_command(const std::string& command) {
  if (std::string whole = find_program(command); !whole.empty()) return {whole};
  std::vector<std::string> words = split_words(command);
  if (words.empty()) return {};
  words[0] = find_program(words[0]);
  return words[0].empty() ? std::vector<std::string>() : words;
}

// The object to link with the instance; "" = the instance is compiled whole, as always when the headers are those of a
// folder and not the library's.
std::string_view linked_support(const CompileRequest& request) {
  if (request.source.find("_support_cpu.hpp\"") == std::string::npos || environment("TILEWRIGHT_KERNEL_DIR")) return {};
  return support_object(request.target);
}

// The first line of what the program prints for `question`.
Result<std::string> ask(std::vector<std::string> program, const char* question) {
  program.push_back(question);
  Result<ProcessResult> run = run_process(process_options(program, "", 20));
  if (!run) return run.status();
  const std::string line = run->output.substr(0, run->output.find('\n'));
  if (!run->ok() || line.empty()) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("'{} {}': {}: {}", program[0], question, run->describe(), line));
  }
  return line;
}

// gcc prints the name it was called by ("c++ (Debian 12.2.0-14) 12.2.0"); the same compiler has one identity.
std::string without_program_name(const std::string& line) {
  const size_t space = line.find(' ');
  return line.compare(space == std::string::npos ? line.size() : space, 2, " (") == 0 ? "gcc" + line.substr(space)
                                                                                      : line;
}

// Everything is hidden but the entry: the same source, compiled into the library, exports nothing. The compiler's line
// numbers stay those of the source.
std::string entry_declaration(const std::string& entry) {
  return fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) void {}(const void*, unsigned, unsigned);\n"
      "#line 1 \"{}\"\n",
      entry, kHostSource);
}

std::string all_base_flags() { return fmt::format("{} {}", fmt::join(kCompileFlags, " "), fmt::join(kLinkFlags, " ")); }

Result<std::string> identify(const std::vector<std::string>& program) {
  Result<std::string> version = ask(program, "--version");
  if (!version) return version.status();
  Result<std::string> machine = ask(program, "-dumpmachine");
  if (!machine) return machine.status();
  Result<std::string> full = ask(program, "-dumpfullversion");  // gcc; clang knows -dumpversion only
  if (!full) full = ask(program, "-dumpversion");
  if (!full) return full.status();
  return fmt::format("{}; {}; {}; {}", without_program_name(*version), *machine, *full, all_base_flags());
}

}  // namespace

HostCompiler::HostCompiler(std::vector<std::string> candidates, double seconds_limit)
    : candidates_(std::move(candidates)), seconds_limit_(seconds_limit) {}

void HostCompiler::find() const {
  std::string tried;
  for (const std::string& candidate : candidates_) {
    std::vector<std::string> program = resolve_command(candidate);
    std::string reason = "not found";
    if (!program.empty()) {
      Result<std::string> identity = identify(program);
      if (identity.ok()) {
        program_ = std::move(program);
        identity_ = std::move(*identity);
        log(LogLevel::kInfo, "jit", "host compiler: {} ({})", fmt::join(program_, " "), identity_);
        return;
      }
      reason = identity.status().message();
    }
    tried += fmt::format("{}'{}' ({})", tried.empty() ? "" : ", ", candidate, reason);
  }
  status_ = Status(StatusCode::kNotFound,
                   fmt::format("jit: no host C++ compiler: tried {}; install g++ or clang++, or set TILEWRIGHT_CXX",
                               tried.empty() ? "nothing" : tried));
}

const std::string& HostCompiler::identity() const {
  std::call_once(found_once_, [this] { find(); });
  return identity_;
}

std::string HostCompiler::base_flags() const { return all_base_flags(); }

std::string HostCompiler::linked_digest(const CompileRequest& request) const {
  const std::string_view object = linked_support(request);
  if (object.empty()) return "";
  // Asked for with every kernel that may be chosen: half a megabyte is digested once.
  const std::lock_guard lock(linked_mutex_);
  std::string& digest = linked_digests_[object.data()];
  if (digest.empty()) digest = digest_of(object).hex();
  return digest;
}

Status HostCompiler::available() const {
  std::call_once(found_once_, [this] { find(); });
  return status_;
}

std::vector<std::string> HostCompiler::command_line(const std::vector<std::string>& flags, bool linked_support) const {
  std::vector<std::string> argv = program_;
  argv.insert(argv.end(), std::begin(kCompileFlags), std::end(kCompileFlags));
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"-pipe", "-shared", "-I", kIncludeFolder, "-o", kHostBinary, kHostSource});
  // The code is the same, sooner: gcc does not look for garbage.
  if (identity_.starts_with("gcc"))
    argv.insert(argv.end(), {"--param=ggc-min-expand=1000", "--param=ggc-min-heapsize=600000"});
  // Of the support object only what the instance calls stays.
  if (linked_support) argv.insert(argv.end(), {"-DTILEWRIGHT_LINKED_SUPPORT", kSupportFile, "-Wl,--gc-sections"});
  argv.insert(argv.end(), std::begin(kLinkFlags), std::end(kLinkFlags));
  return argv;
}

Result<std::string> HostCompiler::compile(const CompileRequest& request, const std::string& folder,
                                          const std::atomic<bool>* stop) {
  if (Status status = available(); !status) return status;
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  Result<std::vector<std::shared_ptr<const KernelHeader>>> headers = find_kernel_headers(request.source);
  if (!headers) return headers.status();

  // Everything by relative names, so that no path gets into the binary.
  const std::string include = folder + "/" + kIncludeFolder;
  for (const auto& header : *headers) {
    const std::string path = include + "/" + header->path;
    if (Status status = make_folders(path.substr(0, path.rfind('/'))); !status) return status;
    if (Status status = write_file(path, header->text); !status) return status;
  }
  const std::string source = entry_declaration(request.entry) + request.source;
  if (Status status = write_file(folder + "/" + kHostSource, source); !status) return status;

  const std::string support_file = folder + "/" + kSupportFile;
  const std::string_view support = linked_support(request);
  if (!support.empty()) {
    if (Status status = write_file(support_file, support); !status) return status;
  }

  const std::vector<std::string> argv = command_line(*flags, !support.empty());
  ProcessOptions options = process_options(argv, folder, seconds_limit_);
  options.stop = stop;
  Result<ProcessResult> run = run_process(options);
  if (!run) return run.status();
  if (run->stopped) {
    return Status(StatusCode::kCompileDisabled, fmt::format("jit: the compile of '{}' was stopped", request.name));
  }
  const std::string text = fmt::format("{}\n{}", fmt::join(argv, " "), run->output);
  if (Status status = write_file(folder + "/" + kCompileLogFile, text); !status) return status;
  remove_tree(include);
  remove_tree(support_file);
  if (run->ok() && is_file(folder + "/" + kHostBinary)) return std::string(kHostBinary);
  return Status(run->timed_out ? StatusCode::kTimeout : StatusCode::kCompileFailed,
                fmt::format("jit: '{}' for {} does not compile: {}{}\n{}", request.name, request.target,
                            run->describe(), run->timed_out ? fmt::format(" of {} s", seconds_limit_) : "",
                            run->output.substr(0, kMaxCompilerWords)));
}

Compiler& host_compiler() {
  // Never destroyed: background threads of other static objects may still compile.
  static Compiler* const compiler = [] {
    if (const auto chosen = environment("TILEWRIGHT_CXX"); chosen && !chosen->empty()) {
      return new HostCompiler({*chosen});
    }
    std::vector<std::string> candidates;
    if (const auto cxx = environment("CXX"); cxx && !cxx->empty()) candidates.push_back(*cxx);
    candidates.insert(candidates.end(), {"c++", "g++", "clang++"});
    return new HostCompiler(std::move(candidates));
  }();
  return *compiler;
}

}  // namespace tilewright
