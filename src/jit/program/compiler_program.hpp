// SPDX-License-Identifier: MIT
// A compiler that is a program of the machine: found by its name, asked what it is, run on one instance in a folder of
// its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.hpp"

namespace tilewright {

// "ccache g++" -> {path of ccache, "g++"}; empty when there is no such program on PATH.
std::vector<std::string> resolve_command(const std::string& command);

// All that the program prints when it is asked one thing; the error says how it ended.
Result<std::string> ask_program(std::vector<std::string> program, const std::string& question);
std::string first_line_of(std::string_view text);

struct FoundProgram {
  std::vector<std::string> argv;  // path and its fixed arguments
  std::string identity;
};
// The first of `candidates` that is there and that `identify` takes for a compiler. The error lists all, each with its
// reason: "tried 'c++' (not found), ...".
Result<FoundProgram> find_compiler(
    const std::vector<std::string>& candidates,
    const std::function<Result<std::string>(const std::vector<std::string>& argv)>& identify);

struct ProgramCompile {
  std::vector<std::string> argv;  // relative names, so that no path gets into the binary
  const char* source_name;
  std::string source;  // the instance, with what the compiler needs in front
  const char* binary_name;
  double seconds;  // then it is killed with its children
};

// Where the instance's headers lie while it is compiled: an argument after -I.
inline constexpr const char* kIncludeFolder = "include";

// Writes source and headers into `folder`, runs the program there, leaves its words in the log and removes the headers.
Result<std::string> run_compile(const CompileRequest& request, const ProgramCompile& compile, const std::string& folder,
                                const std::atomic<bool>* stop);

}  // namespace tilewright
