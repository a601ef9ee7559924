// SPDX-License-Identifier: MIT
// What every command is made of: options declared on a CLI::App, and a body that runs after parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
void add_bench_command(CLI::App& program, Invocation& invocation);
void add_verify_command(CLI::App& program, Invocation& invocation);
void add_explain_command(CLI::App& program, Invocation& invocation);
void add_kernels_command(CLI::App& program, Invocation& invocation);
void add_prebuild_command(CLI::App& program, Invocation& invocation);
void add_cache_command(CLI::App& program, Invocation& invocation);
void add_report_command(CLI::App& program, Invocation& invocation);
void add_doctor_command(CLI::App& program, Invocation& invocation);

// A subcommand whose body is run(options); `declare` adds its options. The options live as long as the program.
template <class Options, class Run>
CLI::App* add_command(CLI::App& parent, Invocation& invocation, const char* name, const char* summary,
                      const std::string& examples, const std::function<void(CLI::App&, Options&)>& declare, Run run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = parent.add_subcommand(name, summary);
  command->footer("Examples:\n" + examples + "\n\n" + kExitCodeHelp);
  declare(*command, *options);
  command->callback([options, run, &invocation] { invocation.run = [options, run] { return run(*options); }; });
  return command;
}

// Validators whose messages name the allowed set; CLI11 puts the argument's name before them.
CLI::Validator one_of(std::vector<std::string> allowed);
CLI::Validator integer_in(int64_t low, int64_t high);
CLI::Validator number_above(double low);

// --threads, 0 = all.
void add_threads_option(CLI::App& command, int& threads);

// A context over every operator; `jit` as in ContextOptions.
Result<std::unique_ptr<ContextImpl>> open_context(int threads, const std::string& jit = "");

// A line on stderr that is no error: "tilewright: ...".
void note(std::string_view line);

// "a, b, c".
std::string join(const std::vector<std::string>& words, std::string_view between = ", ");
std::vector<std::string> split_words(std::string_view text, char separator);

}  // namespace tilewright::cli
