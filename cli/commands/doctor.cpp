// SPDX-License-Identifier: MIT
// tilewright doctor: what could keep tilewright from running well here, one line each, with a remedy.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "arch/cpuid.hpp"
#include "command.hpp"
#include "core/environment.hpp"
#include "device/hip/object/code_object.hpp"
#include "jit/amdgcn/amd_compilers.hpp"
#include "jit/system/files.hpp"
#include "output/numbers.hpp"
#include "peer/find_peers.hpp"

extern char** environ;

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

struct DoctorOptions {
  OutputOptions output;
};

enum class Verdict { kOk, kWarn, kFail };
constexpr const char* kVerdictNames[] = {"ok", "warn", "fail"};
constexpr Tone kVerdictTones[] = {Tone::kGood, Tone::kWarning, Tone::kBad};

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string what;    // "compiler"
  std::string detail;  // what was found
  std::string remedy;  // what to do; "" when all is well
};

Finding check_compiler() {
  Compiler& compiler = host_compiler();
  constexpr const char* kRemedy =
      "install g++ or clang++, or name one in TILEWRIGHT_CXX; always-built kernels serve "
      "until then";
  if (Status s = compiler.available(); !s) return {Verdict::kWarn, "compiler", s.message(), kRemedy};
  // A compiler that prints its version may still not link.
  std::error_code error;
  Result<std::string> folder = make_unique_folder(fs::temp_directory_path(error).string(), "tilewright-doctor-");
  if (!folder)
    return {Verdict::kWarn, "compiler", folder.status().message(), "make the folder for temporary files writable"};
  const ScopedFolder scoped(*folder);
  const std::string target(cpu_info().target.empty() ? "x86-64" : cpu_info().target);
  CompileRequest request;
  request.name = "doctor";
  request.source = "extern \"C\" void tilewright_doctor(const void*, unsigned, unsigned) {}\n";
  request.entry = "tilewright_doctor";
  request.target = target;
  Result<std::string> built = compiler.compile(request, *folder, nullptr);
  if (!built) {
    std::string words = built.status().message();
    return {Verdict::kFail, "compiler", words.substr(0, words.find('\n', words.find("error:"))), kRemedy};
  }
  const std::string& identity = compiler.identity();
  return {Verdict::kOk, "compiler", identity.substr(0, identity.find_first_of(";\n")), ""};
}

Finding check_amd_compiler() {
  constexpr const char* kWhat = "AMD compiler";
  constexpr const char* kRemedy =
      "install clang 20 or later with lld (Debian: clang-22 lld-22), or name one in TILEWRIGHT_AMDCLANG, or ROCm 7's "
      "libamd_comgr in TILEWRIGHT_COMGR; no kernel of an AMD GPU is compiled until then";
  Compiler& compiler = amd_compiler();
  if (Status s = compiler.available(); !s) return {Verdict::kWarn, kWhat, s.message(), kRemedy};
  std::vector<std::string> targets;
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor != ArchVendor::kAmd) continue;
    const Result<Artifact> made =
        compile_probe("extern \"C\" __global__ void tilewright_doctor() {}\n", "tilewright_doctor", arch.target);
    const Status status = made ? amd_object_matches(made->image, arch.target) : made.status();
    if (!status) {
      const std::string& words = status.message();
      return {Verdict::kWarn, kWhat, words.substr(0, words.find('\n', words.find("error:"))), kRemedy};
    }
    targets.emplace_back(arch.target);
  }
  return {Verdict::kOk, kWhat, fmt::format("{}; compiles for {}", compiler.identity(), join(targets)), ""};
}

Finding check_cache(CodeCache& cache) {
  if (cache.root().empty()) {
    return {Verdict::kFail, "code cache", cache.root_problem().ok() ? "no folder" : cache.root_problem().message(),
            "set TILEWRIGHT_CACHE_DIR to a folder that only you can write to"};
  }
  int64_t bytes = 0, damaged = 0;
  const std::vector<CacheEntryInfo> entries = cache.list();
  for (const CacheEntryInfo& entry : entries) {
    bytes += entry.bytes;
    damaged += entry.valid || entry.other_version ? 0 : 1;  // those of other versions lie there as they should
  }
  const std::string detail = fmt::format("{}: {} kernels, {}", cache.root(), entries.size(), print_bytes(bytes));
  if (damaged == 0) return {Verdict::kOk, "code cache", detail, ""};
  return {Verdict::kWarn, "code cache", fmt::format("{}, {} damaged", detail, damaged),
          "they are compiled again when needed; tilewright cache verify lists them"};
}

Finding check_cpu() {
  const CpuInfo& cpu = cpu_info();
  const std::string detail = fmt::format("{}, target {}, part {}", cpu.brand, cpu.target, cpu.part);
  if (cpu.target.empty() || cpu.target == "x86-64") {
    return {Verdict::kWarn, "CPU", detail,
            "only the generic kernel runs here; AVX2 and FMA are the least the others need"};
  }
  if (auto lowered = environment("TILEWRIGHT_CPU_TARGET")) {
    return {Verdict::kWarn, "CPU", fmt::format("{}; TILEWRIGHT_CPU_TARGET={}", detail, *lowered),
            "unset TILEWRIGHT_CPU_TARGET to use everything the CPU has"};
  }
  return {Verdict::kOk, "CPU", detail, ""};
}

Finding check_cores() {
  const int cores = cpu_info().cores;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (cores < online) {
    return {Verdict::kWarn, "cores",
            fmt::format("{} of {} cores: affinity or a cgroup quota holds the rest back", cores, online),
            "times are those of the cores that may be used"};
  }
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > 0.5 * cores) {
    return {Verdict::kWarn, "cores", fmt::format("{} cores, load {:.1f}", cores, load),
            "other programs take time from the cores: measure when they are done"};
  }
  return {Verdict::kOk, "cores", fmt::format("{}", cores), ""};
}

Finding check_amx() {
  if (!cpu_has("amx_tile")) return {Verdict::kOk, "AMX", "the CPU has none", ""};
  if (request_amx()) return {Verdict::kOk, "AMX", "allowed", ""};
  return {Verdict::kWarn, "AMX", "the CPU has it, the system refuses it",
          "Linux 5.16 or newer is needed, and a container that allows arch_prctl"};
}

Finding check_huge_pages() {
  Result<std::string> text = read_file("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!text) return {Verdict::kWarn, "huge pages", "not known", "large operands may cost more page walks"};
  const size_t open = text->find('['), close = text->find(']');
  const std::string mode = open < close ? text->substr(open + 1, close - open - 1) : *text;
  if (mode == "never") {
    return {Verdict::kWarn, "huge pages", "never",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root: large operands run faster"};
  }
  return {Verdict::kOk, "huge pages", mode, ""};
}

Finding check_tables(ContextImpl& context) {
  const std::shared_ptr<const TunedTable> tables = context.tables();
  const DeviceSpec spec = context.spec(0);
  int here = 0, lost = 0;
  for (const TunedRow* row : tables->rows()) {
    if (row->target != spec.arch->target || row->part != spec.part) continue;
    ++here;
    const Operator* op = context.find_op(row->op);
    if (op == nullptr || !parse_recipe(op->families(), row->recipe)) ++lost;
  }
  const std::string detail =
      fmt::format("{} rows, {} for this device, digest {}", tables->size(), here, tables->digest().hex().substr(0, 12));
  if (lost > 0) {
    return {Verdict::kWarn, "tuned tables", fmt::format("{}; {} name a kernel that is unknown", detail, lost),
            "tune again with --retune"};
  }
  if (here == 0) {
    return {Verdict::kWarn, "tuned tables", detail,
            "tilewright tune --model llama-3.1-8b; the cost model chooses until then"};
  }
  return {Verdict::kOk, "tuned tables", detail, ""};
}

Finding check_data_folder() {
  const std::string folder = user_data_dir();
  if (folder.empty()) {
    return {Verdict::kWarn, "data folder", "none: no home directory",
            "set TILEWRIGHT_DATA_DIR, where tuned rows are kept"};
  }
  // The nearest folder that exists decides.
  fs::path nearest = folder;
  std::error_code error;
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
  if (access(nearest.c_str(), W_OK) != 0) {
    return {Verdict::kWarn, "data folder", folder + " cannot be written",
            "set TILEWRIGHT_DATA_DIR to a folder that you can write to"};
  }
  return {Verdict::kOk, "data folder", folder, ""};
}

Finding check_vendor_libraries() {
  constexpr const char* kWhat = "GPU libraries";
  const Result<int> count = cuda_device_count();
  if (!count || *count == 0) return {Verdict::kOk, kWhat, "none asked for: no GPU", ""};
  if (environment("TILEWRIGHT_VENDOR") == "off") return {Verdict::kOk, kWhat, "switched off by TILEWRIGHT_VENDOR", ""};
  const Result<std::unique_ptr<Device>> device = make_cuda_device(0);
  if (!device) return {Verdict::kWarn, kWhat, device.status().message(), "see docs/devices/cuda.md"};
  std::vector<std::string> found;
  for (const VendorLibrary& library : (*device)->spec().vendor->list()) {
    if (!library.status) {
      return {Verdict::kWarn, kWhat, library.status.message(),
              "name cuBLASLt in TILEWRIGHT_CUBLASLT: tune then measures its algorithms too"};
    }
    found.push_back(fmt::format("{} {} ({})", library.name, library.version, library.path));
  }
  return {Verdict::kOk, kWhat, join(found), ""};
}

Finding check_amd_gpus() {
  constexpr const char* kWhat = "AMD GPUs";
  const Result<int> count = hip_device_count();
  if (!count && count.status().code() == StatusCode::kNotFound) {
    return {Verdict::kOk, kWhat, "none; " + count.status().message(), ""};
  }
  if (!count) return {Verdict::kWarn, kWhat, count.status().message(), "see docs/devices/hip.md"};
  std::vector<std::string> found;
  for (int i = 0; i < *count; ++i) {
    const Result<std::unique_ptr<Device>> device = make_hip_device(i);
    if (!device) return {Verdict::kWarn, kWhat, device.status().message(), "see docs/devices/hip.md"};
    const DeviceSpec& spec = (*device)->spec();
    found.push_back(fmt::format("{} {} ({}, {})", to_string(spec.id), spec.name, spec.arch->target, spec.driver));
  }
  return {Verdict::kOk, kWhat, join(found), ""};
}

Finding check_torch() {
  Result<PeerProgram> torch = find_torch();
  if (torch) return {Verdict::kOk, "PyTorch", fmt::format("{} ({})", torch->name, torch->argv.front()), ""};
  return {Verdict::kWarn, "PyTorch", torch.status().message(),
          "pip install torch, or name a Python that has it in TILEWRIGHT_PYTHON: tune and bench compare with it"};
}

Finding check_environment() {
  std::vector<std::string> set, unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("TILEWRIGHT_")) continue;
    bool known = false;
    for (const EnvironmentVariable& variable : environment_variables()) known |= name == variable.name;
    (known ? set : unknown).push_back(std::string(known ? text : name));
  }
  if (!unknown.empty()) {
    std::vector<std::string> names;
    for (const EnvironmentVariable& variable : environment_variables()) names.emplace_back(variable.name);
    return {Verdict::kWarn, "environment", fmt::format("{} is read by nobody", join(unknown)), "known: " + join(names)};
  }
  return {Verdict::kOk, "environment", set.empty() ? "nothing set" : join(set), ""};
}

Result<ExitCode> run_doctor(const DoctorOptions& options) {
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  const Finding findings[] = {check_cpu(),
                              check_cores(),
                              check_amx(),
                              check_huge_pages(),
                              check_compiler(),
                              check_amd_compiler(),
                              check_cache((*context)->cache()),
                              check_data_folder(),
                              check_tables(**context),
                              check_vendor_libraries(),
                              check_amd_gpus(),
                              check_torch(),
                              check_environment()};
  Table table("findings", {{"verdict", "state"}, {"what", "what"}, {"detail", "found"}, {"remedy", "remedy"}});
  bool failed = false;
  for (const Finding& f : findings) {
    const int verdict = static_cast<int>(f.verdict);
    table.add({text_cell(kVerdictNames[verdict], kVerdictTones[verdict]), text_cell(f.what), text_cell(f.detail),
               text_cell(f.remedy)});
    failed |= f.verdict == Verdict::kFail;
  }
  if (options.output.form() == Form::kText) {
    // Remedies are sentences: each under its finding instead of in a column.
    const bool colours = colours_wanted(stdout);
    for (const Finding& f : findings) {
      const int verdict = static_cast<int>(f.verdict);
      fmt::print("{} {:12} {}\n", toned(fmt::format("{:4}", kVerdictNames[verdict]), kVerdictTones[verdict], colours),
                 f.what, f.detail);
      if (!f.remedy.empty()) fmt::print("{:18}{}\n", "", toned("-> " + f.remedy, Tone::kFaint, colours));
    }
  } else {
    Document document("doctor");
    document.add(std::move(table));
    document.print(options.output);
  }
  return failed ? ExitCode::kCheckFailed : ExitCode::kOk;
}

}  // namespace

void add_doctor_command(CLI::App& program, Invocation& invocation) {
  add_command<DoctorOptions>(
      program, invocation,
      {"doctor", "Check compilers, cache, CPU, tables and PyTorch; name remedies",
       "  tilewright doctor\n"
       "  tilewright doctor --json                  exit code 1 when something fails"},
      [](Arguments& arguments, DoctorOptions& options) { add_output_arguments(arguments, options.output); },
      run_doctor);
}

}  // namespace tilewright::cli
