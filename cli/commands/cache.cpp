// SPDX-License-Identifier: MIT
// tilewright cache: where compiled kernels lie, whether they are sound, and making room.
#include <fmt/format.h>

#include "command.hpp"
#include "output/numbers.hpp"

namespace tilewright::cli {
namespace {

struct CacheOptions {
  int64_t keep_mb = 0;
  OutputOptions output;
};

// The cache of the environment; an error when its root cannot be used.
Result<std::unique_ptr<ContextImpl>> open_cache() {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (context && (*context)->cache().root().empty()) {
    const Status& problem = (*context)->cache().root_problem();
    return problem.ok() ? Status(StatusCode::kNotFound,
                                 "the code cache has no root: neither TILEWRIGHT_CACHE_DIR nor a "
                                 "home directory is set")
                        : problem;
  }
  return context;
}

Result<ExitCode> run_path(const CacheOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_cache();
  if (!context) return context.status();
  Document document("cache path");
  document.fact("path", (*context)->cache().root(), (*context)->cache().root());
  document.print(options.output);
  return ExitCode::kOk;
}

Table entry_table(const std::vector<CacheEntryInfo>& entries) {
  Table table("entries", {{"name", "entry"},
                          {"target", "target"},
                          {"bytes", "size", Align::kRight},
                          {"created", "created"},
                          {"compiler", ""},
                          {"digest", ""},
                          {"valid", "state"},
                          {"problem", "why"}});
  for (const CacheEntryInfo& entry : entries) {
    Cell state = flag_cell(entry.valid, entry.valid ? "ok" : "damaged", entry.valid ? Tone::kGood : Tone::kBad);
    table.add({text_cell(entry.name), text_cell(entry.target), count_cell(entry.bytes, print_bytes(entry.bytes)),
               text_cell(entry.created), text_cell(entry.compiler), text_cell(entry.digest), std::move(state),
               text_cell(entry.problem)});
  }
  return table;
}

Result<ExitCode> list_entries(const CacheOptions& options, const char* command, bool damaged_only) {
  Result<std::unique_ptr<ContextImpl>> context = open_cache();
  if (!context) return context.status();
  std::vector<CacheEntryInfo> entries = (*context)->cache().list();
  const size_t all = entries.size();
  int64_t bytes = 0, damaged = 0;
  for (const CacheEntryInfo& entry : entries) {
    bytes += entry.bytes;
    damaged += entry.valid ? 0 : 1;
  }
  if (damaged_only) std::erase_if(entries, [](const CacheEntryInfo& entry) { return entry.valid; });
  Document document(command);
  if (!entries.empty() || options.output.csv) document.add(entry_table(entries));
  document.fact("path", (*context)->cache().root(), "");
  document.fact("count", static_cast<int64_t>(all), "");
  document.fact("bytes", bytes, "");
  document.fact(
      "damaged", damaged,
      fmt::format("{}: {} entries, {}, {} damaged", (*context)->cache().root(), all, print_bytes(bytes), damaged));
  document.print(options.output);
  return damaged_only && damaged > 0 ? ExitCode::kCheckFailed : ExitCode::kOk;
}

Result<ExitCode> run_info(const CacheOptions& options) { return list_entries(options, "cache info", false); }
Result<ExitCode> run_verify(const CacheOptions& options) { return list_entries(options, "cache verify", true); }

Result<ExitCode> run_prune(const CacheOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_cache();
  if (!context) return context.status();
  Result<int64_t> freed = (*context)->cache().prune(options.keep_mb << 20);
  if (!freed) return freed.status();
  Document document("cache prune");
  document.fact("freed_bytes", *freed, fmt::format("{} freed", print_bytes(*freed)));
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_cache_command(CLI::App& program, Invocation& invocation) {
  CLI::App& cache =
      add_command_group(program, {"cache", "Show, check and prune the code cache",
                                  "  tilewright cache info\n"
                                  "  tilewright cache verify               exit code 1 when an entry is damaged\n"
                                  "  tilewright cache prune --keep 256"});
  constexpr auto kOutputOnly = [](Arguments& arguments, CacheOptions& options) {
    add_output_arguments(arguments, options.output);
  };
  add_command<CacheOptions>(cache, invocation, {"path", "Print the folder of the cache", "  tilewright cache path"},
                            kOutputOnly, run_path);
  add_command<CacheOptions>(cache, invocation, {"info", "List the entries", "  tilewright cache info --json"},
                            kOutputOnly, run_info);
  add_command<CacheOptions>(
      cache, invocation,
      {"verify", "Check every entry against its digest; list damaged ones", "  tilewright cache verify"}, kOutputOnly,
      run_verify);
  add_command<CacheOptions>(
      cache, invocation, {"prune", "Remove the oldest entries", "  tilewright cache prune --keep 256    keep 256 MiB"},
      [](Arguments& arguments, CacheOptions& options) {
        arguments.integer("--keep", options.keep_mb, 0, int64_t{1} << 40, "MiB to keep (0: remove everything)");
        add_output_arguments(arguments, options.output);
      },
      run_prune);
}

}  // namespace tilewright::cli
