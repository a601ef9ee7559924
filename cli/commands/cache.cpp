// SPDX-License-Identifier: MIT
// tilewright cache: where compiled kernels lie, whether they are sound, and making room.
#include <fmt/format.h>

#include <map>

#include "command.hpp"
#include "output/numbers.hpp"

namespace tilewright::cli {
namespace {

struct CacheOptions {
  int64_t keep_mb = -1, days = -1;
  bool stale = false, dry_run = false;
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

const char* name_of(CacheLayer::Kind kind) {
  switch (kind) {
    case CacheLayer::Kind::kPack: return "pack";
    case CacheLayer::Kind::kReadRoot: return "read root";
    case CacheLayer::Kind::kRoot: break;
  }
  return "root";
}

// What a layer holds, from the entries whose path is it or lies below it.
struct Contents {
  int64_t entries = 0, bytes = 0, damaged = 0;
  std::map<std::string, int64_t> targets;
};
Contents contents_of(const CacheLayer& layer, const std::vector<CacheEntryInfo>& entries) {
  Contents found;
  for (const CacheEntryInfo& entry : entries) {
    if (entry.path != layer.path && !entry.path.starts_with(layer.path + "/")) continue;
    if (entry.digest.empty()) continue;  // a pack that is not used
    ++found.entries;
    found.bytes += entry.bytes;
    found.damaged += entry.valid || entry.other_version ? 0 : 1;
    if (entry.valid) ++found.targets[entry.target];
  }
  return found;
}

Table layer_table(const std::vector<CacheLayer>& layers, const std::vector<CacheEntryInfo>& entries) {
  Table table("layers", {{"kind", "layer"},
                         {"path", "path"},
                         {"entries", "kernels", Align::kRight},
                         {"bytes", "size", Align::kRight},
                         {"targets", "targets"},
                         {"state", "state"},
                         {"problem", "why"}});
  for (const CacheLayer& layer : layers) {
    const Contents found = contents_of(layer, entries);
    std::vector<std::string> targets;
    for (const auto& [target, count] : found.targets) targets.push_back(fmt::format("{} {}", count, target));
    const bool unused = !layer.problem.ok();
    table.add({text_cell(name_of(layer.kind)), text_cell(layer.path),
               count_cell(found.entries, fmt::format("{}", found.entries)),
               count_cell(found.bytes, print_bytes(found.bytes)), text_cell(join(targets)),
               unused              ? text_cell("not used", Tone::kBad)
               : found.damaged > 0 ? text_cell(fmt::format("{} damaged", found.damaged), Tone::kBad)
               : layer.writable    ? text_cell("writable", Tone::kGood)
                                   : text_cell("read only", Tone::kGood),
               text_cell(layer.problem.message())});
  }
  return table;
}

Result<ExitCode> run_path(const CacheOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_cache();
  if (!context) return context.status();
  Document document("cache path");
  document.fact("path", (*context)->cache().root(), (*context)->cache().root());
  // Scripts read the line above; further layers follow only where there are some.
  const std::vector<CacheLayer> layers = (*context)->cache().layers();
  if (layers.size() > 1 || options.output.form() != Form::kText) {
    Table table("layers", {{"kind", "layer"}, {"path", "path"}, {"problem", "why it is not used"}});
    for (const CacheLayer& layer : layers) {
      table.add({text_cell(name_of(layer.kind)), text_cell(layer.path), text_cell(layer.problem.message())});
    }
    document.add(std::move(table));
  }
  document.print(options.output);
  return ExitCode::kOk;
}

std::string print_age(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / 60);
  return seconds < 2 * kDay ? fmt::format("{:.0f} h", seconds / kHour) : fmt::format("{:.0f} days", seconds / kDay);
}

Table entry_table(const std::vector<CacheEntryInfo>& entries) {
  Table table("entries", {{"name", "entry"},
                          {"target", "target"},
                          {"bytes", "size", Align::kRight},
                          {"age_seconds", "age", Align::kRight},
                          {"created", ""},
                          {"compiler", ""},
                          {"library", ""},
                          {"digest", ""},
                          {"path", ""},
                          {"valid", "state"},
                          {"problem", "why"}});
  for (const CacheEntryInfo& entry : entries) {
    const char* state = entry.valid ? "ok" : entry.other_version ? "other version" : "damaged";
    const bool sound = entry.valid || entry.other_version;
    table.add({text_cell(entry.name), text_cell(entry.target), count_cell(entry.bytes, print_bytes(entry.bytes)),
               number_cell(entry.age_seconds, print_age(entry.age_seconds)), text_cell(entry.created),
               text_cell(entry.compiler), text_cell(entry.library), text_cell(entry.digest), text_cell(entry.path),
               flag_cell(entry.valid, state, sound ? Tone::kGood : Tone::kBad), text_cell(entry.problem)});
  }
  return table;
}

Result<ExitCode> list_entries(const CacheOptions& options, const char* command, bool damaged_only) {
  Result<std::unique_ptr<ContextImpl>> context = open_cache();
  if (!context) return context.status();
  CodeCache& cache = (*context)->cache();
  std::vector<CacheEntryInfo> entries = cache.list_all();
  const Table layers = layer_table(cache.layers(), entries);
  const size_t all = entries.size();
  int64_t bytes = 0, damaged = 0;
  const auto is_damaged = [](const CacheEntryInfo& entry) { return !entry.valid && !entry.other_version; };
  for (const CacheEntryInfo& entry : entries) {
    bytes += entry.bytes;
    damaged += is_damaged(entry) ? 1 : 0;
  }
  if (damaged_only) std::erase_if(entries, [&](const CacheEntryInfo& entry) { return !is_damaged(entry); });
  Document document(command);
  if (!entries.empty() || options.output.csv) document.add(entry_table(entries));
  if (!options.output.csv && (cache.layers().size() > 1 || all > 0)) document.add(layers);
  document.fact("path", cache.root(), "");
  document.fact("count", static_cast<int64_t>(all), "");
  document.fact("bytes", bytes, "");
  document.fact("damaged", damaged,
                fmt::format("{}: {} entries, {}, {} damaged", cache.root(), all, print_bytes(bytes), damaged));
  document.print(options.output);
  return damaged_only && damaged > 0 ? ExitCode::kCheckFailed : ExitCode::kOk;
}

Result<ExitCode> run_info(const CacheOptions& options) { return list_entries(options, "cache info", false); }
Result<ExitCode> run_cache_verify(const CacheOptions& options) { return list_entries(options, "cache verify", true); }

Result<ExitCode> run_prune(const CacheOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_cache();
  if (!context) return context.status();
  PruneOptions prune;
  if (options.keep_mb >= 0) prune.keep_bytes = options.keep_mb << 20;
  if (options.days >= 0) prune.max_age_seconds = static_cast<double>(options.days) * 24 * 3600;
  prune.stale = options.stale;
  prune.dry_run = options.dry_run;
  // Without a criterion everything goes.
  if (!prune.keep_bytes && !prune.max_age_seconds && !prune.stale) prune.keep_bytes = 0;
  Result<PruneReport> report = (*context)->cache().prune(prune);
  if (!report) return report.status();
  Document document("cache prune");
  if (!report->removed.empty() || options.output.csv) {
    Table table("removed", {{"path", "folder"}, {"bytes", "size", Align::kRight}, {"reason", "why"}});
    for (const PruneReport::Item& item : report->removed) {
      table.add({text_cell(item.path), count_cell(item.bytes, print_bytes(item.bytes)), text_cell(item.reason)});
    }
    document.add(std::move(table));
  }
  document.fact("freed_bytes", prune.dry_run ? 0 : report->bytes,
                fmt::format("{} {}", print_bytes(report->bytes), prune.dry_run ? "would be freed" : "freed"));
  document.fact("count", static_cast<int64_t>(report->removed.size()), "");
  document.fact("dry_run", prune.dry_run, "");
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_cache_command(CLI::App& program, Invocation& invocation) {
  CLI::App& cache =
      add_command_group(program, {"cache", "Show, check and prune the code cache",
                                  "  tilewright cache info\n"
                                  "  tilewright cache verify               exit code 1 when an entry is damaged\n"
                                  "  tilewright cache prune --keep 256 --stale"});
  constexpr auto kOutputOnly = [](Arguments& arguments, CacheOptions& options) {
    add_output_arguments(arguments, options.output);
  };
  add_command<CacheOptions>(
      cache, invocation, {"path", "Print the folder of the cache, and its further layers", "  tilewright cache path"},
      kOutputOnly, run_path);
  add_command<CacheOptions>(
      cache, invocation,
      {"info", "List entries and layers: sizes, ages, targets, compilers", "  tilewright cache info --json"},
      kOutputOnly, run_info);
  add_command<CacheOptions>(
      cache, invocation,
      {"verify", "Check every entry of every layer against its digest; list damaged ones", "  tilewright cache verify"},
      kOutputOnly, run_cache_verify);
  add_command<CacheOptions>(
      cache, invocation,
      {"prune", "Remove entries of the cache's folder; without a criterion all of them",
       "  tilewright cache prune --keep 256          the oldest, until 256 MiB are left\n"
       "  tilewright cache prune --older-than 30     what is older than 30 days\n"
       "  tilewright cache prune --stale --dry-run   what other versions and compilers left; only say so"},
      [](Arguments& arguments, CacheOptions& options) {
        arguments.integer("--keep", options.keep_mb, 0, int64_t{1} << 40, "MiB to keep; the oldest entries go");
        arguments.integer("--older-than", options.days, 0, 100000, "remove what is older than so many days");
        arguments.flag("--stale", options.stale,
                       "remove what other versions and other compilers made, and what is damaged");
        arguments.flag("--dry-run", options.dry_run, "say what would be removed, remove nothing");
        add_output_arguments(arguments, options.output);
      },
      run_prune);
}

}  // namespace tilewright::cli
