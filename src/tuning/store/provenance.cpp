// SPDX-License-Identifier: MIT
#include "tuning/store/provenance.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/digest.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

// Whose kernels stand in kernels/tile/<folder> and kernels/<op>/<folder>.
struct Folder {
  std::string_view name;
  bool x86, nvidia, amd;
};
constexpr Folder kFolders[] = {
    {"cpu", true, false, false},  {"gpu", false, true, true},        {"portable", false, true, false},
    {"sm90", false, true, false}, {"generated", false, true, false}, {"cdna", false, false, true},
    {"rdna", false, false, true}, {"amd", false, false, true},       {"emu", false, false, true}};

bool code_runs_on(const Folder& folder, ArchVendor vendor) {
  switch (vendor) {
    case ArchVendor::kX86: return folder.x86;
    case ArchVendor::kNvidia: return folder.nvidia;
    case ArchVendor::kAmd: return folder.amd;
  }
  return true;
}

// "cublaslt-13.1.2"; "" without one.
std::string libraries_of(const DeviceSpec& spec) {
  std::string text;
  if (spec.vendor == nullptr) return text;
  for (const VendorLibrary& library : spec.vendor->list()) {
    if (library.status.ok()) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", library.name, library.version);
  }
  return text;
}

}  // namespace

bool is_kernel_source(std::string_view path, const DeviceSpec& spec) {
  const size_t first = path.find('/'), second = path.find('/', first + 1);
  if (first == std::string_view::npos) return false;
  if (second == std::string_view::npos || spec.arch == nullptr) return true;
  const auto* const folder = std::ranges::find(kFolders, path.substr(first + 1, second - first - 1), &Folder::name);
  return folder == std::end(kFolders) || code_runs_on(*folder, spec.arch->vendor);
}

Result<std::vector<std::pair<std::string, std::string>>> kernel_sources(std::string_view op, const DeviceSpec& spec) {
  // What compilers put in front, and the operator's own headers: they include the rest.
  std::string source;
  if (spec.arch != nullptr && spec.arch->vendor == ArchVendor::kAmd) {
    source += spec.id.kind == DeviceKind::kEmulated ? "#include \"tile/emu/amdgcn.hpp\"\n"
                                                    : "#include \"tile/amd/prelude.hpp\"\n";
  }
  for (const EmbeddedHeader& header : embedded_headers()) {
    const bool own = header.path.substr(0, header.path.find('/')) == op;
    if (own && is_kernel_source(header.path, spec)) source += fmt::format("#include \"{}\"\n", header.path);
  }
  Result<std::vector<std::pair<std::string, std::string>>> headers = reachable_headers(source);
  if (headers) std::erase_if(*headers, [&](const auto& header) { return !is_kernel_source(header.first, spec); });
  return headers;
}

std::string kernel_sources_digest(std::string_view op, const DeviceSpec& spec) {
  const auto headers = kernel_sources(op, spec);
  if (!headers) return {};
  Digester digester;
  for (const auto& [path, text] : *headers) digester.update(path).update(text);
  return digester.finish().short_hex();
}

std::string TuningEnvironment::id() const {
  Digester digester;
  digester.update(library).update(kernels).update(compiler).update(target).update(part).update(std::to_string(units));
  if (!libraries.empty()) digester.update(libraries);
  return digester.finish().short_hex();
}

TuningEnvironment tuning_environment(ContextImpl& context, int units) {
  const DeviceSpec spec = context.spec(units);
  Digester kernels;
  for (const Operator* op : context.ops()) kernels.update(kernel_sources_digest(op->name(), spec));
  TuningEnvironment e;
  e.library = TILEWRIGHT_VERSION;
  e.kernels = kernels.finish().hex();
  const Compiler& compiler = compiler_of(spec);
  e.compiler = compiler.available().ok() ? compiler.identity() : "-";
  e.target = spec.arch != nullptr ? spec.arch->target : "";
  e.part = spec.part;
  e.libraries = libraries_of(spec);
  e.units = spec.units;
  return e;
}

std::string short_compiler_name(const DeviceSpec& spec) {
  const Compiler& compiler = compiler_of(spec);
  if (!compiler.available().ok()) return "-";
  const std::string& identity = compiler.identity();
  std::string name = identity.substr(0, identity.find(';'));
  std::replace_if(name.begin(), name.end(), [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, ' ');
  return name.empty() ? "-" : name;
}

void set_provenance(TunedRow& row, const DeviceSpec& spec) {
  row.library = TILEWRIGHT_VERSION;
  row.kernels = kernel_sources_digest(row.op, spec);
  row.compiler = short_compiler_name(spec);
  row.driver = spec.driver.empty() ? "-" : spec.driver;
  if (const std::string libraries = libraries_of(spec); !libraries.empty()) row.driver += " " + libraries;
  row.date = utc_now();
}

std::vector<std::string> stale_reasons(const TunedRow& row, const DeviceSpec& spec) {
  TunedRow now;
  now.op = row.op;
  set_provenance(now, spec);
  std::vector<std::string> reasons;
  const auto compare = [&reasons](const char* what, const std::string& then, const std::string& here) {
    if (then != here) reasons.push_back(fmt::format("{} {} -> {}", what, then.empty() ? "unknown" : then, here));
  };
  compare("library", row.library, now.library);
  if (row.kernels != now.kernels) reasons.emplace_back("kernel sources changed");
  compare("compiler", row.compiler, now.compiler);
  compare("driver", row.driver, now.driver);
  return reasons;
}

}  // namespace tilewright
