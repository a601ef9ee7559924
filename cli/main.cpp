// SPDX-License-Identifier: MIT
// The program `tilewright`: parses the command line, runs one command, turns its status into an exit code.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "command.hpp"

namespace tilewright::cli {
namespace {

constexpr AddCommand kCommands[] = {
    add_devices_command, add_arch_command,    add_tune_command,    add_bench_command,  add_verify_command,
    add_explain_command, add_kernels_command, add_prebuild_command, add_cache_command, add_report_command,
    add_doctor_command,  add_tune_worker_command,
};

int exit_code(ExitCode code) { return static_cast<int>(code); }

std::string command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return join(names);
}

std::string option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
  return join(names);
}

// The innermost command that was named.
const CLI::App* chosen(const CLI::App* app, std::string& name) {
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return app;
}

// CLI11's words, and what is allowed where it leaves that out.
int usage_error(const CLI::App& program, const CLI::ParseError& error) {
  std::string name = "tilewright";
  const CLI::App* command = chosen(&program, name);
  std::string line = error.what();
  const std::string commands = command_names(*command);
  const std::vector<std::string> extras = command->remaining(true);
  const bool missing_command = !commands.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!extras.empty() && (missing_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)) {
    const bool is_command = !commands.empty() && !extras.front().starts_with("-");
    line = fmt::format("{} '{}' is unknown; allowed: {}", is_command ? "command" : "argument", extras.front(),
                       is_command ? commands : option_names(*command));
  } else if (missing_command) {
    line = fmt::format("a command is missing; allowed: {}", commands);
  }
  fmt::print(stderr, "{}: {}\n{} --help shows its arguments\n", name, line, name);
  return exit_code(ExitCode::kUsage);
}

int run(int argc, char** argv) {
  CLI::App program("Operators for AI inference and training, and the tools that tune and check them.", "tilewright");
  program.set_version_flag("--version", "tilewright " TILEWRIGHT_VERSION);
  program.require_subcommand(1);
  program.footer(std::string("tilewright COMMAND --help shows a command's arguments and examples.\n\n") + kExitCodeHelp);
  program.get_formatter()->column_width(34);
  Invocation invocation;
  for (const AddCommand add : kCommands) add(program, invocation);

  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return program.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return usage_error(program, error);
  }
  const Result<ExitCode> code = invocation.run();
  if (std::fflush(stdout) != 0) return exit_code(ExitCode::kEnvironment);
  if (code) return exit_code(*code);
  fmt::print(stderr, "tilewright: {}\n", code.status().to_string());
  return exit_code(exit_code_of(code.status()));
}

}  // namespace
}  // namespace tilewright::cli

int main(int argc, char** argv) {
  // A child that ended shows as an error of the write to it.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return tilewright::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tilewright: out of memory\n", stderr);
    return static_cast<int>(tilewright::cli::ExitCode::kEnvironment);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tilewright: internal: %s\n", error.what());
    return static_cast<int>(tilewright::cli::ExitCode::kInternal);
  }
}
