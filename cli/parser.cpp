// SPDX-License-Identifier: MIT
#include "parser.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace tilewright::cli {
namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
  return names;
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
void print_usage_error(const CLI::App& program, const CLI::ParseError& error) {
  std::string name = "tilewright";
  const CLI::App* command = chosen(&program, name);
  std::string line = error.what();
  const std::string commands = join(names_of_commands(*command));
  const std::vector<std::string> extras = command->remaining(true);
  const bool missing_command = !commands.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!extras.empty() && (missing_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)) {
    const bool is_command = !commands.empty() && !extras.front().starts_with("-");
    line = fmt::format("{} '{}' is unknown; allowed: {}", is_command ? "command" : "argument", extras.front(),
                       is_command ? commands : join(names_of_options(*command)));
  } else if (missing_command) {
    line = fmt::format("a command is missing; allowed: {}", commands);
  }
  fmt::print(stderr, "{}: {}\n{} --help shows its arguments\n", name, line, name);
}

}  // namespace

CLI::App& add_command_body(CLI::App& parent, Invocation& invocation, const CommandText& text,
                           const std::function<void(Arguments&)>& declare, std::function<Result<ExitCode>()> run) {
  CLI::App* command = parent.add_subcommand(text.name, text.summary);
  command->footer(fmt::format("Examples:\n{}\n\n{}", text.examples, kExitCodeHelp));
  if (text.hidden) command->group("");
  Arguments arguments(*command);
  declare(arguments);
  // CLI11 calls a command after the commands inside it.
  command->callback([run = std::move(run), command, &invocation] {
    if (command->get_subcommands().empty()) invocation.run = run;
  });
  return *command;
}

CLI::App& add_command_group(CLI::App& parent, const CommandText& text) {
  CLI::App* group = parent.add_subcommand(text.name, text.summary);
  group->footer(fmt::format("Examples:\n{}\n\n{}", text.examples, kExitCodeHelp));
  group->require_subcommand(1);
  return *group;
}

std::optional<int> parse_command_line(int argc, char** argv, std::span<const AddCommand> commands,
                                      Invocation& invocation) {
  constexpr int kNameColumns = 34;
  CLI::App program("Operators for AI inference and training, and the tools that tune and check them.", "tilewright");
  program.set_version_flag("--version", "tilewright " TILEWRIGHT_VERSION);
  program.require_subcommand(1);
  program.footer(
      fmt::format("tilewright COMMAND --help shows a command's arguments and examples.\n\n{}", kExitCodeHelp));
  program.get_formatter()->column_width(kNameColumns);
  for (const AddCommand add : commands) add(program, invocation);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return program.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    print_usage_error(program, error);
    return static_cast<int>(ExitCode::kUsage);
  }
  return std::nullopt;
}

}  // namespace tilewright::cli
