// SPDX-License-Identifier: MIT
// From argv to the command that it names.
#pragma once

#include <optional>
#include <span>

#include "command.hpp"

namespace tilewright::cli {

// The exit code when everything is said already (--help, --version, a usage error); else `invocation` is set.
std::optional<int> parse_command_line(int argc, char** argv, std::span<const AddCommand> commands,
                                      Invocation& invocation);

}  // namespace tilewright::cli
