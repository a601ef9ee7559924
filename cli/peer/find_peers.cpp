// SPDX-License-Identifier: MIT
#include "peer/find_peers.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "command.hpp"
#include "core/environment.hpp"
#include "core/fields.hpp"
#include "resources.hpp"

namespace tilewright::cli {
namespace {

constexpr double kAnswerSeconds = 30;

std::vector<std::string> pythons() {
  if (auto named = environment("TILEWRIGHT_PYTHON")) return {*named};
  std::vector<std::string> candidates;
  const std::string venv = source_root().empty() ? "" : source_root() + "/build/venv/bin/python";
  std::error_code error;
  if (!venv.empty() && std::filesystem::exists(venv, error)) candidates.push_back(venv);
  candidates.emplace_back("python3");
  return candidates;
}

// One line that `python` prints; "" without one.
std::string ask_python(const std::string& python, const std::string& program) {
  LineChild child;
  // A fresh interpreter, asked through the same pipe that peers use.
  if (!child.start({python, "-c", "input()\n" + program})) return "";
  const Result<std::string> line = child.ask("", kAnswerSeconds);
  return line ? *line : "";
}

// Files of the Pythons' environments that match a pattern below the environment's or the packages' folder.
std::vector<std::string> python_files(const std::string& in_prefix, const std::string& in_packages) {
  std::vector<std::string> files;
  for (const std::string& python : pythons()) {
    const std::string line =
        ask_python(python, fmt::format("import glob, sys, sysconfig\n"
                                       "found = glob.glob(sys.prefix + '/{}') if '{}' else []\n"
                                       "for name in ('purelib', 'platlib'):\n"
                                       "    if '{}': found += glob.glob(sysconfig.get_paths()[name] + '/{}')\n"
                                       "print(';'.join(found), flush=True)",
                                       in_prefix, in_prefix, in_packages, in_packages));
    for (std::string& file : split_words(line, ';')) files.push_back(std::move(file));
  }
  return files;
}

// "peer oneDNN 2.6.3" from `tilewright peer-worker onednn --library PATH`.
Result<PeerProgram> probe_library(const std::string& kind, const std::string& library,
                                  std::vector<std::string> dtypes) {
  PeerProgram program{kind, "", {program_path(), "peer-worker", kind, "--library", library}, std::move(dtypes), {}};
  LineChild child;
  if (Status s = child.start(program.argv); !s) return s;
  Result<std::string> hello = child.ask("hello", kAnswerSeconds);
  if (!hello) return hello.status();
  if (!hello->starts_with("peer ")) return Status(StatusCode::kNotFound, *hello);
  program.name = hello->substr(5);
  return program;
}

// "oneDNN 2.6.3" -> {2, 6, 3}.
std::vector<int64_t> version_of(const std::string& name) {
  std::vector<int64_t> parts;
  for (const std::string& word : split_words(name.substr(name.find(' ') + 1), '.')) {
    int64_t value = 0;
    if (!fields_detail::parse_integer(word, 0, 1 << 30, value)) break;
    parts.push_back(value);
  }
  return parts;
}

}  // namespace

Result<PeerProgram> find_torch() {
  const std::vector<std::string> candidates = pythons();
  for (const std::string& python : candidates) {
    const std::string version =
        ask_python(python, "import importlib.metadata as m; print(m.version('torch'), flush=True)");
    if (version.empty()) continue;
    Result<std::string> script = find_resource("scripts/peer_torch.py");
    if (!script) return script.status();
    return PeerProgram{"torch",
                       "PyTorch " + version.substr(0, version.find('+')),
                       {python, *script},
                       {"f32", "f16", "bf16", "i8"},
                       {"u4", "i4", "i8"},
                       /*rows=*/true};
  }
  return Status(StatusCode::kNotFound, fmt::format("PyTorch is not installed for {}", join(candidates)));
}

Result<PeerProgram> find_torch_on_gpu(int gpu) {
  Result<PeerProgram> torch = find_torch();
  if (!torch) return torch;
  torch->argv.push_back(fmt::format("cuda:{}", gpu));  // also PyTorch's name for AMD's
  torch->products = false;                             // the vendor's library is a family of our own
  return torch;
}

Result<PeerProgram> find_openblas() {
  std::vector<std::string> libraries = {"libopenblas.so.0", "libopenblas.so"};
  for (std::string& file : python_files("", "numpy.libs/*openblas*")) libraries.push_back(std::move(file));
  for (const std::string& library : libraries) {
    if (Result<PeerProgram> found = probe_library("openblas", library, {"f32"})) return found;
  }
  return Status(StatusCode::kNotFound, "OpenBLAS is not installed (scripts/install --bench)");
}

Result<PeerProgram> find_onednn() {
  std::vector<std::string> libraries = {"libdnnl.so.3", "libdnnl.so.2"};
  for (std::string& file : python_files("lib/libdnnl.so.[23]", "")) libraries.push_back(std::move(file));
  if (auto named = environment("TILEWRIGHT_ONEDNN")) libraries = {*named};
  Result<PeerProgram> best = Status(StatusCode::kNotFound, "oneDNN is not installed (scripts/install --bench)");
  for (const std::string& library : libraries) {
    Result<PeerProgram> found = probe_library("onednn", library, {"f32", "f16", "bf16", "i8"});
    if (found && (!best || version_of(found->name) > version_of(best->name))) best = std::move(found);
  }
  return best;
}

void hold_peers_to_target(std::string_view target) {
  struct Isa {
    const char *target, *onednn, *mkl, *aten, *openblas;
  };
  static constexpr Isa kIsas[] = {
      {"x86-64", "SSE41", "SSE4_2", "default", "Nehalem"},
      {"x86-64-v3", "AVX2", "AVX2", "avx2", "Haswell"},
      {"x86-64-v4", "AVX512_CORE", "AVX512", "avx512", "SkylakeX"},
      {"x86-64-v4-bf16", "AVX512_CORE_BF16", "AVX512", "avx512", "Cooperlake"},
  };
  for (const Isa& isa : kIsas) {
    if (target != isa.target) continue;
    setenv("ONEDNN_MAX_CPU_ISA", isa.onednn, /*overwrite=*/0);
    setenv("MKL_ENABLE_INSTRUCTIONS", isa.mkl, 0);
    setenv("ATEN_CPU_CAPABILITY", isa.aten, 0);
    setenv("OPENBLAS_CORETYPE", isa.openblas, 0);
  }
}

}  // namespace tilewright::cli
