// SPDX-License-Identifier: MIT
// What every command is made of: arguments that are declared before parsing, and a body that runs after it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.hpp"
#include "dispatch/context_impl.hpp"
#include "exit_code.hpp"
#include "output/document.hpp"

namespace tilewright::cli {

// What the command line chose; main() runs it.
struct Invocation {
  std::function<Result<ExitCode>()> run;
};

// One subcommand. Each adds itself to the program.
using AddCommand = void (*)(CLI::App& program, Invocation& invocation);
void add_devices_command(CLI::App& program, Invocation& invocation);
void add_arch_command(CLI::App& program, Invocation& invocation);
void add_tune_command(CLI::App& program, Invocation& invocation);
void add_tune_worker_command(CLI::App& program, Invocation& invocation);
void add_peer_worker_command(CLI::App& program, Invocation& invocation);
void add_compare_command(CLI::App& program, Invocation& invocation);
void add_tables_command(CLI::App& program, Invocation& invocation);
void add_bench_command(CLI::App& program, Invocation& invocation);
void add_verify_command(CLI::App& program, Invocation& invocation);
void add_explain_command(CLI::App& program, Invocation& invocation);
void add_kernels_command(CLI::App& program, Invocation& invocation);
void add_inspect_command(CLI::App& kernels, Invocation& invocation);  // of `kernels`
void add_prebuild_command(CLI::App& program, Invocation& invocation);
void add_export_command(CLI::App& program, Invocation& invocation);
void add_cache_command(CLI::App& program, Invocation& invocation);
void add_report_command(CLI::App& program, Invocation& invocation);
void add_doctor_command(CLI::App& program, Invocation& invocation);

struct CommandText {
  const char* name;
  const char* summary;
  const char* examples;  // lines for --help
  bool hidden = false;   // not in the list of commands
};
CLI::App& add_command_body(CLI::App& parent, Invocation& invocation, const CommandText& text,
                           const std::function<void(Arguments&)>& declare, std::function<Result<ExitCode>()> run);
// A command that only has commands of its own.
CLI::App& add_command_group(CLI::App& parent, const CommandText& text);

// A subcommand whose body is run(options); the options live as long as the program. It may get commands of its own.
template <class Options>
CLI::App& add_command(CLI::App& parent, Invocation& invocation, const CommandText& text,
                      void (*declare)(Arguments&, Options&), Result<ExitCode> (*run)(const Options&)) {
  auto options = std::make_shared<Options>();
  return add_command_body(
      parent, invocation, text, [&](Arguments& arguments) { declare(arguments, *options); },
      [options, run] { return run(*options); });
}

// A context over every operator, which works on `device`: "cpu", "cuda:1", or "cuda" for the first; "hip" alike.
Result<std::unique_ptr<ContextImpl>> open_context(int threads, const std::string& device = "cpu");
Result<DeviceId> parse_device_argument(std::string_view text);

// A line on stderr that is no error: "tilewright: ...".
void note(std::string_view line);

// "a, b, c".
std::string join(const std::vector<std::string>& words, std::string_view between = ", ");
// Empty words are left out.
std::vector<std::string> split_words(std::string_view text, char separator);

}  // namespace tilewright::cli
