// SPDX-License-Identifier: MIT
// Build step: prints the translation units with every always-built instance, two a CPU target (products of matrices, and
// all others), and the table that names them. The sources are those that the JIT compiles, so that an instance is the
// same function wherever it comes from.
//   tilewright_geninst FOLDER            instances of every target
//   tilewright_geninst FOLDER --reached  of targets that the CPU of this machine chooses from; the others' are empty
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "arch/arch_spec.hpp"
#include "dispatch/registry/family.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

// Rewrites only what changed: the build then recompiles only that.
bool write_if_changed(const std::string& path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == text) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

struct Unit {
  std::set<std::string> includes;
  std::string body;
};

// An instance's source is include lines, then one function; shared lines stand once in a unit.
void add_source(const std::string& source, Unit& unit) {
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("#include", 0) == 0) {
      unit.includes.insert(line);
    } else {
      unit.body += line + "\n";
    }
  }
}

constexpr const char* kParts[] = {"products", "rows"};
const char* part_of(const Operator& op) { return kParts[std::string_view(op.name()).ends_with("gemm") ? 0 : 1]; }

// All products that the CPU runs, and of other kernels those of its own vectors and the generic ones, as it never chooses
// narrower ones.
bool reached_here(const ArchSpec& arch, std::string_view part) {
  const std::string_view here = cpu_info().target;
  if (!runs_on(arch.target, here)) return false;
  return part == kParts[0] || arch.mma.empty() || arch.vector_bytes == find_arch(here)->vector_bytes;
}

int run(const std::string& folder, bool only_reached) {
  std::map<std::string, Unit> units;
  std::string declarations, rows;
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor != ArchVendor::kX86) continue;
    for (const char* part : kParts) units[fmt::format("{}_{}", part, arch.target)];
    for (const Operator* op : all_operators()) {
      const char* part = part_of(*op);
      if (only_reached && !reached_here(arch, part)) continue;
      std::vector<const KernelFamily*> families(op->families().begin(), op->families().end());
      families.insert(families.end(), op->helper_families().begin(), op->helper_families().end());
      for (const KernelFamily* family : families) {
        for (const KernelKey& key : family->builtin_keys(arch.target)) {
          Result<CompileRequest> request = family->source(key);
          if (!request) {
            std::fprintf(stderr, "%s: %s\n", key.text.c_str(), request.status().to_string().c_str());
            return 1;
          }
          add_source(request->source, units[fmt::format("{}_{}", part, arch.target)]);
          declarations += fmt::format("extern \"C\" void {}(const void*, unsigned, unsigned);\n", request->entry);
          // A target that this build's compiler refuses has no unit: its rows stay out.
          rows += fmt::format(
              "#ifdef TILEWRIGHT_HAVE_{}\n    {{\"{}\", reinterpret_cast<const void*>(&{})}},\n#endif\n",
              [&] {
                std::string id(arch.target);
                for (char& c : id) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                return id;
              }(),
              key.text, request->entry);
        }
      }
    }
  }
  for (const auto& [name, unit] : units) {
    std::string text = fmt::format("// Generated: always-built instances, {}.\n", name);
    for (const std::string& include : unit.includes) text += include + "\n";
    text += unit.body;
    if (!write_if_changed(fmt::format("{}/instances_{}.cpp", folder, name), text)) return 1;
  }
  const std::string table = fmt::format(
      "// Generated: the table of always-built instances.\n#include \"dispatch/registry/family.hpp\"\n\n{}\nnamespace "
      "tilewright {{\n\n"
      "std::span<const BuiltinInstance> builtin_instances() {{\n  static const BuiltinInstance kInstances[] = {{\n{}"
      "    {{nullptr, nullptr}}}};\n"
      "  return std::span<const BuiltinInstance>(kInstances, std::size(kInstances) - 1);\n}}\n\n}}  // namespace "
      "tilewright\n",
      declarations, rows);
  return write_if_changed(folder + "/builtin_instances.cpp", table) ? 0 : 1;
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) {
  const bool only_reached = argc == 3 && std::string_view(argv[2]) == "--reached";
  if (argc != 2 && !only_reached) {
    std::fprintf(stderr, "usage: tilewright_geninst FOLDER [--reached]\n");
    return 2;
  }
  return tilewright::run(argv[1], only_reached);
}
