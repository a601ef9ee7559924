// SPDX-License-Identifier: MIT
#include "jit/amdgcn/inspection/disassembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "jit/system/files.hpp"
#include "jit/system/process.hpp"

namespace tilewright {
namespace {

constexpr size_t kMostDisassembly = 64 << 20;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<uint64_t> hex_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// "0000000000001600 <tw_entry>:" -> address and name.
std::optional<std::pair<uint64_t, std::string_view>> symbol_line(std::string_view line) {
  const size_t open = line.find(" <");
  if (open == std::string_view::npos || !line.ends_with(">:") || line.front() == ' ' || line.front() == '\t') return {};
  const auto address = hex_number(line);
  if (!address) return std::nullopt;
  return std::pair{*address, line.substr(open + 2, line.size() - open - 4)};
}

std::string plain_mnemonic(std::string_view text) {
  for (const std::string_view suffix : {"_e32", "_e64", "_dpp8", "_dpp", "_sdwa"}) {
    // "_e64_dpp" has two.
    if (text.ends_with(suffix)) return plain_mnemonic(text.substr(0, text.size() - suffix.size()));
  }
  return std::string(text);
}

// "... <tw_entry+0xc0>" behind the address: where a branch goes, relative to the symbol that it names.
std::optional<uint64_t> branch_target(std::string_view comment, std::string_view symbol, uint64_t start) {
  const size_t open = comment.find('<');
  if (open == std::string_view::npos || !comment.substr(open + 1).starts_with(symbol)) return std::nullopt;
  const std::string_view rest = comment.substr(open + 1 + symbol.size());
  if (rest.starts_with(">")) return start;
  if (!rest.starts_with("+0x")) return std::nullopt;
  const auto offset = hex_number(rest.substr(3));
  if (!offset) return std::nullopt;
  return start + *offset;
}

// "\tv_mov_b32_e32 v7, 0      // 000000001618: 7E0E0280". Lines without an address are no instructions.
std::optional<AmdInstruction> instruction_line(std::string_view line, std::string_view symbol, uint64_t start) {
  const size_t comment = line.rfind("// ");
  if (comment == std::string_view::npos) return std::nullopt;
  const std::string_view behind = line.substr(comment + 3);
  const auto address = hex_number(behind);
  const std::string_view words = trimmed(line.substr(0, comment));
  if (!address || words.empty()) return std::nullopt;
  AmdInstruction instruction;
  instruction.address = *address;
  const size_t space = words.find_first_of(" \t");
  instruction.mnemonic = plain_mnemonic(words.substr(0, space));
  if (space != std::string_view::npos) instruction.operands = trimmed(words.substr(space));
  if (instruction.mnemonic.find("branch") != std::string::npos) {
    instruction.target = branch_target(behind, symbol, start);
  }
  return instruction;
}

size_t matrix_instructions(std::span<const AmdInstruction> code, const AmdLoop& loop) {
  return static_cast<size_t>(std::count_if(code.begin() + static_cast<ptrdiff_t>(loop.begin),
                                           code.begin() + static_cast<ptrdiff_t>(loop.end),
                                           [](const AmdInstruction& i) { return is_matrix(i.mnemonic); }));
}

bool holds(const AmdLoop& outer, const AmdLoop& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end && outer != inner;
}

}  // namespace

bool is_matrix(std::string_view mnemonic) {
  return mnemonic.starts_with("v_mfma_") || mnemonic.starts_with("v_smfmac_") || mnemonic.starts_with("v_wmma_") ||
         mnemonic.starts_with("v_swmmac_");
}

Result<std::vector<AmdInstruction>> parse_disassembly(std::string_view text, std::string_view symbol) {
  std::vector<AmdInstruction> code;
  bool inside = false;
  uint64_t start = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    if (const auto found = symbol_line(line)) {
      if (inside) break;
      inside = found->second == symbol;
      start = found->first;
    } else if (inside) {
      if (auto instruction = instruction_line(line, symbol, start)) code.push_back(std::move(*instruction));
    }
  }
  // What fills the code up to the next kernel.
  while (!code.empty() && (code.back().mnemonic == "s_code_end" || code.back().mnemonic == "s_nop")) code.pop_back();
  if (code.empty()) {
    return Status(StatusCode::kNotFound, fmt::format("disassembly: no instructions of '{}' in it", symbol));
  }
  return code;
}

Result<std::vector<AmdInstruction>> disassemble(const std::string& objdump, std::span<const std::byte> object,
                                                const std::string& symbol) {
  std::error_code error;
  const std::string parent = std::filesystem::temp_directory_path(error).string();
  Result<std::string> made = make_unique_folder(error ? "/tmp" : parent, "tilewright-disassembly-");
  if (!made) return made.status();
  const ScopedFolder folder(*made);
  const std::string file = folder.path() + "/object.hsaco";
  if (Status s = write_file(file, {reinterpret_cast<const char*>(object.data()), object.size()}); !s) return s;
  ProcessOptions options;
  options.argv = {objdump, "-d", "--disassemble-symbols=" + symbol, file};
  options.set = {"LC_ALL=C"};
  options.most_output = kMostDisassembly;
  Result<ProcessResult> run = run_process(options);
  if (!run) return run.status();
  if (!run->ok() || run->output.size() >= kMostDisassembly) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("'{}': {}: {}", objdump, run->describe(), run->output.substr(0, 400)));
  }
  return parse_disassembly(run->output, symbol);
}

std::vector<AmdLoop> find_loops(std::span<const AmdInstruction> code) {
  std::map<size_t, size_t> ends;  // begin -> end, of branches to one place the last
  for (size_t i = 0; i < code.size(); ++i) {
    if (!code[i].target || *code[i].target > code[i].address) continue;
    const auto first = std::lower_bound(code.begin(), code.end(), *code[i].target,
                                        [](const AmdInstruction& a, uint64_t at) { return a.address < at; });
    size_t& end = ends[static_cast<size_t>(first - code.begin())];
    end = std::max(end, i + 1);
  }
  std::vector<AmdLoop> loops;
  for (const auto& [begin, end] : ends) loops.push_back({begin, end});
  return loops;
}

std::optional<AmdLoop> find_main_loop(std::span<const AmdInstruction> code) {
  struct Found {
    AmdLoop loop;
    size_t matrix, size;
  };
  std::vector<Found> all;
  for (const AmdLoop& loop : find_loops(code)) {
    all.push_back({loop, matrix_instructions(code, loop), loop.end - loop.begin});
  }
  const bool matrix = std::any_of(all.begin(), all.end(), [](const Found& f) { return f.matrix > 0; });
  if (matrix) std::erase_if(all, [](const Found& f) { return f.matrix == 0; });
  const Found* best = nullptr;
  for (const Found& found : all) {
    const bool innermost =
        std::none_of(all.begin(), all.end(), [&](const Found& other) { return holds(found.loop, other.loop); });
    if (!innermost) continue;
    if (best == nullptr || std::pair(found.matrix, found.size) > std::pair(best->matrix, best->size)) best = &found;
  }
  if (best == nullptr) return std::nullopt;
  return best->loop;
}

}  // namespace tilewright
