// SPDX-License-Identifier: MIT
// tilewright arch: targets, and what is legal on one.
#include <fmt/format.h>

#include "command.hpp"
#include "output/numbers.hpp"

namespace tilewright::cli {
namespace {

struct ArchOptions {
  std::string target;
  OutputOptions output;
};

constexpr const char* kVendorNames[] = {"x86", "nvidia", "amd"};
const char* vendor_name(ArchVendor vendor) { return kVendorNames[static_cast<int>(vendor)]; }

std::string words(std::span<const std::string_view> views) { return fmt::format("{}", fmt::join(views, " ")); }

std::string shape(const MmaSpec& mma) { return fmt::format("{}x{}x{}", mma.m, mma.n, mma.k); }

Cell word_cell(std::string_view word) { return word.empty() ? absent() : text_cell(std::string(word)); }
Cell positive_cell(int64_t value) { return value > 0 ? count_cell(value) : absent(); }
Cell positive_bytes(int64_t bytes) { return bytes > 0 ? count_cell(bytes, print_bytes(bytes)) : absent(); }

Table target_table() {
  Table table("targets", {{"target", "target"},
                          {"base", "base"},
                          {"vendor", "vendor"},
                          {"family", "family"},
                          {"here", "here"},
                          {"parts", "parts"}});
  const std::string_view own = cpu_info().target;
  for (const ArchSpec& arch : arch_specs()) {
    std::vector<std::string_view> parts;
    for (const PartSpec& part : arch.parts) parts.push_back(part.name);
    const bool here = runs_on(arch.target, own);
    Cell here_cell = arch.target == own ? text_cell("best", Tone::kGood) : text_cell(here ? "runs" : "no");
    table.add({text_cell(std::string(arch.target)), word_cell(arch.base), text_cell(vendor_name(arch.vendor)),
               word_cell(arch.family), std::move(here_cell), word_cell(words(parts))});
  }
  return table;
}

Table mma_table(const ArchSpec& arch) {
  Table table("mma", {{"name", "instruction"},
                      {"input", "input"},
                      {"accumulator", "accumulator"},
                      {"shape", "m x n x k", Align::kRight},
                      {"ops_per_cycle", "ops a cycle", Align::kRight}});
  for (const MmaSpec& mma : arch.mma) {
    table.add(
        {text_cell(std::string(mma.name)), text_cell(dtype_name(mma.input)), text_cell(dtype_name(mma.accumulator)),
         text_cell(shape(mma)),
         mma.ops_per_cycle > 0 ? number_cell(mma.ops_per_cycle, fmt::format("{:g}", mma.ops_per_cycle)) : absent()});
  }
  return table;
}

Table part_table(const ArchSpec& arch) {
  Table table("parts", {{"name", "part"},
                        {"ids", "ids"},
                        {"units", "units", Align::kRight},
                        {"memory_gib", "memory GiB", Align::kRight},
                        {"memory_gbps", "memory GB/s", Align::kRight},
                        {"l2_bytes", "L2", Align::kRight},
                        {"last_level_bytes", "last level", Align::kRight}});
  for (const PartSpec& part : arch.parts) {
    auto number = [](double value) { return value > 0 ? number_cell(value, print_significant(value, 4)) : absent(); };
    table.add({text_cell(std::string(part.name)), word_cell(fmt::format("{}", fmt::join(part.ids, ", "))),
               positive_cell(part.units), number(part.memory_gib), number(part.memory_gbps),
               positive_bytes(part.l2_bytes), positive_bytes(part.last_level_bytes)});
  }
  return table;
}

// AMD GPUs: how waves share a tile, and what one wave computes at a time.
Table wave_table(const ArchSpec& arch) {
  Table table("wave_layouts", {{"m", "waves m", Align::kRight}, {"n", "n", Align::kRight}, {"k", "k", Align::kRight}});
  for (const WaveLayout& layout : arch.wave_layouts) {
    table.add({count_cell(layout.m), count_cell(layout.n), count_cell(layout.k)});
  }
  return table;
}

Table warp_tile_table(const ArchSpec& arch) {
  Table table(
      "warp_tiles",
      {{"a", "A"}, {"b", "B"}, {"m", "m", Align::kRight}, {"n", "n", Align::kRight}, {"k", "k", Align::kRight}});
  for (const WarpTile& tile : arch.warp_tiles) {
    table.add({text_cell(dtype_name(tile.a)), text_cell(dtype_name(tile.b)), count_cell(tile.m), count_cell(tile.n),
               count_cell(tile.k)});
  }
  return table;
}

void describe(const ArchSpec& arch, Document& document) {
  auto fact = [&](const char* name, const char* label, Value value, const std::string& text) {
    document.fact(name, std::move(value), text.empty() ? "" : fmt::format("{:17} {}", label, text));
  };
  fact("target", "target", std::string(arch.target), std::string(arch.target));
  fact("base", "runs code of", std::string(arch.base), std::string(arch.base));
  fact("family", "family", std::string(arch.family), fmt::format("{} ({})", arch.family, vendor_name(arch.vendor)));
  fact("vector_bytes", "vector", int64_t{arch.vector_bytes}, fmt::format("{} bytes", arch.vector_bytes));
  fact("registers", "registers", int64_t{arch.registers}, fmt::format("{}", arch.registers));
  if (arch.vendor != ArchVendor::kX86) {
    fact("wave_size", "wave", int64_t{arch.wave_size}, fmt::format("{} lanes", arch.wave_size));
    fact("shared_bytes", "shared memory", arch.shared_bytes, print_bytes(arch.shared_bytes));
    fact("max_threads", "threads at most", int64_t{arch.max_threads}, fmt::format("{}", arch.max_threads));
  }
  fact("fp8", "fp8", std::string(arch.fp8), std::string(arch.fp8));
  fact("features", "needs", words(arch.features), words(arch.features));
  fact("flags", "compiler flags", words(arch.flags), words(arch.flags));
  for (Table table : {mma_table(arch), part_table(arch), wave_table(arch), warp_tile_table(arch)}) {
    if (table.size() > 0) document.add(std::move(table));
  }
}

Result<ExitCode> run_arch(const ArchOptions& options) {
  Document document("arch");
  if (options.target.empty()) {
    document.add(target_table());
  } else {
    Result<const ArchSpec*> arch = require_arch(options.target);
    if (!arch) return arch.status();
    describe(**arch, document);
  }
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_arch_command(CLI::App& program, Invocation& invocation) {
  add_command<ArchOptions>(
      program, invocation,
      {"arch", "List targets; show what is legal on one",
       "  tilewright arch\n"
       "  tilewright arch x86-64-v4-amx             instructions, parts, compiler flags\n"
       "  tilewright arch gfx942 --json"},
      [](Arguments& arguments, ArchOptions& options) {
        arguments.positional("target", options.target, "the target to show; without it: the list of targets");
        add_output_arguments(arguments, options.output);
      },
      run_arch);
}

}  // namespace tilewright::cli
