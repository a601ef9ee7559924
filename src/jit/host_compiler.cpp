// SPDX-License-Identifier: MIT
#include "jit/host_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/arch_spec.hpp"
#include "core/environment.hpp"
#include "jit/flags.hpp"
#include "jit/support_objects.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

constexpr const char* kHostSource = "instance.cpp";
constexpr const char* kHostBinary = "instance.so";
constexpr const char* kSupportFile = "support.o";

constexpr const char* kCompileFlags[] = {
#include "jit/host_flags.inc"
};
// No start files and no C++ runtime: loading such an object touches libc and libm only, which are there already. An
// unresolved symbol fails here, with the linker's words, instead of at dlopen.
constexpr const char* kLinkFlags[] = {"-nostdlib", "-Wl,--as-needed,-z,defs", "-lm", "-lgcc", "-lc"};

// The object to link with the instance; "" = the instance is compiled whole, as always when the headers are those of a
// folder and not the library's.
std::string_view linked_support(const CompileRequest& request) {
  if (request.source.find("_support_cpu.hpp\"") == std::string::npos || environment("TILEWRIGHT_KERNEL_DIR")) return {};
  return support_object(request.target);
}

Result<std::string> ask(const std::vector<std::string>& program, const char* question) {
  Result<std::string> answer = ask_program(program, question);
  return answer ? Result<std::string>(first_line_of(*answer)) : answer;
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
  Result<FoundProgram> found = find_compiler(candidates_, identify);
  if (found) {
    program_ = std::move(*found);
  } else {
    status_ = Status(found.status().code(),
                     fmt::format("jit: no host C++ compiler: {}; install g++ or clang++, or set TILEWRIGHT_CXX",
                                 found.status().message()));
  }
}

const std::string& HostCompiler::identity() const {
  std::call_once(found_once_, [this] { find(); });
  return program_.identity;
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
  std::vector<std::string> argv = program_.argv;
  argv.insert(argv.end(), std::begin(kCompileFlags), std::end(kCompileFlags));
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"-pipe", "-shared", "-I", kIncludeFolder, "-o", kHostBinary, kHostSource});
  // The code is the same, sooner: gcc does not look for garbage.
  if (program_.identity.starts_with("gcc"))
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

  const std::string support_file = folder + "/" + kSupportFile;
  const std::string_view support = linked_support(request);
  if (!support.empty()) {
    if (Status status = write_file(support_file, support); !status) return status;
  }
  const ProgramCompile compile{command_line(*flags, !support.empty()), kHostSource,
                               entry_declaration(request.entry) + request.source, kHostBinary, seconds_limit_};
  Result<std::string> binary = run_compile(request, compile, folder, stop);
  remove_tree(support_file);
  return binary;
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
