// SPDX-License-Identifier: MIT
// The program `tilewright`: runs one command and turns its status into an exit code.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "parser.hpp"

namespace tilewright::cli {
namespace {

constexpr AddCommand kCommands[] = {
    add_devices_command, add_arch_command,     add_tune_command,        add_bench_command,
    add_compare_command, add_tables_command,   add_verify_command,      add_explain_command,
    add_kernels_command, add_prebuild_command, add_export_command,      add_cache_command,
    add_report_command,  add_doctor_command,   add_tune_worker_command, add_peer_worker_command,
};

int run(int argc, char** argv) {
  Invocation invocation;
  if (const std::optional<int> done = parse_command_line(argc, argv, kCommands, invocation)) return *done;
  const Result<ExitCode> code = invocation.run();
  if (std::fflush(stdout) != 0) return static_cast<int>(ExitCode::kEnvironment);
  if (code) return static_cast<int>(*code);
  fmt::print(stderr, "tilewright: {}\n", code.status().to_string());
  return static_cast<int>(exit_code_of(code.status()));
}

}  // namespace
}  // namespace tilewright::cli

int main(int argc, char** argv) {
  using tilewright::cli::ExitCode;
  // A child that ended shows as an error of the write to it.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return tilewright::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tilewright: out of memory\n", stderr);
    return static_cast<int>(ExitCode::kEnvironment);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tilewright: internal: %s\n", error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}
