// SPDX-License-Identifier: MIT
// tilewright kernels inspect: what the code of one GPU kernel says without running it: registers, spills, memory, and for
// AMD GPUs occupancy, the instructions of the main loop and the limits of a compute unit.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "jit/amdgcn/inspection/inspection.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/system/files.hpp"
#include "ops/op_list.hpp"
#include "output/numbers.hpp"

namespace tilewright::cli {
namespace {

struct InspectOptions {
  std::string key, target;
  int64_t shared_bytes = -1;
  OutputOptions output;
};

Status not_found(std::string message) { return Status(StatusCode::kNotFound, std::move(message)); }

// The family that a key names, or what there is instead.
Result<const KernelFamily*> require_family(const KernelKey& key) {
  std::vector<std::string> ops;
  for (const Operator* op : all_operators()) {
    ops.emplace_back(op->name());
    if (op->name() != key.op) continue;
    if (const KernelFamily* family = find_family(op->families(), key.family)) return family;
    std::vector<std::string> families;
    for (const KernelFamily* family : op->families()) families.emplace_back(family->name());
    return not_found(
        fmt::format("key '{}': {} has no family '{}'; known: {}", key.text, key.op, key.family, join(families)));
  }
  return not_found(fmt::format("key '{}': operator '{}' is unknown; known: {}", key.text, key.op, join(ops)));
}

// The key, on the target that was asked for. Knobs of a recipe are not part of the code.
Result<KernelKey> chosen_key(const InspectOptions& options) {
  Result<KernelKey> key = parse_key(options.key.substr(0, options.key.find('@')));
  if (!key || options.target.empty()) return key;
  return make_key(key->op, key->family, options.target, key->signature(), key->config());
}

class Report {
 public:
  explicit Report(Document& document) : document_(document) {}
  void fact(const char* name, const char* label, Value value, const std::string& text) {
    document_.fact(name, std::move(value), text.empty() ? "" : fmt::format("{:15} {}", label, text));
  }
  void number(const char* name, int64_t value) { document_.fact(name, value, ""); }

 private:
  Document& document_;
};

Table occupancy_table(const AmdOccupancy& o) {
  Table table("occupancy", {{"limit", "workgroups at a time, by"},
                            {"workgroups", "workgroups", Align::kRight},
                            {"waves", "waves a SIMD", Align::kRight}});
  const auto add = [&](const char* name, int held) {
    table.add({text_cell(name), count_cell(held), number_cell(o.waves(held), print_significant(o.waves(held)))});
  };
  add("vector_registers", o.by_registers);
  add("scalar_registers", o.by_scalars);
  add("lds", o.by_lds);
  add("slots", o.by_slots);
  return table;
}

Table mix_table(const InstructionMix& mix) {
  Table table("mix", {{"class", ""},
                      {"name", "instructions"},
                      {"count", "count", Align::kRight},
                      {"bytes", "bytes a wave", Align::kRight},
                      {"cycles", "cycles each", Align::kRight}});
  for (const MatrixUse& use : mix.matrix) {
    table.add({text_cell("matrix"), text_cell(use.mnemonic), count_cell(use.count), absent(),
               use.cycles > 0 ? count_cell(use.cycles) : absent()});
  }
  for (int i = 0; i < kInstructionClasses; ++i) {
    const auto kind = static_cast<InstructionClass>(i);
    const ClassCount& count = mix.of(kind);
    if (kind == InstructionClass::kMatrix || count.count == 0) continue;
    table.add({text_cell(kInstructionClassNames[i]), text_cell(kInstructionClassNames[i]), count_cell(count.count),
               count.bytes > 0 ? count_cell(count.bytes) : absent(), absent()});
  }
  return table;
}

Table pipe_table(const ThroughputBound& bound) {
  Table table("pipes",
              {{"pipe", "pipe"}, {"cycles", "cycles", Align::kRight}, {"of_limit", "of the limit", Align::kRight}});
  for (const PipeLoad& pipe : bound.pipes) {
    const double share = bound.cycles > 0 ? pipe.cycles / bound.cycles : 0;
    const bool limit = std::string_view(pipe.name) == bound.limit;
    table.add({text_cell(pipe.name, limit ? Tone::kStrong : Tone::kPlain),
               number_cell(pipe.cycles, fmt::format("{:.0f}", pipe.cycles)), number_cell(share, print_percent(share))});
  }
  return table;
}

void report_loop(const AmdInspection& found, Report& report, Document& document) {
  const ThroughputBound& bound = found.bound;
  report.number("instructions", found.instructions);
  report.number("loop_instructions", found.mix.instructions);
  report.fact("loop_at", "main loop", found.loop_at ? Value(static_cast<int64_t>(*found.loop_at)) : Value(),
              found.loop_at ? fmt::format("{} of {} instructions, at +{:#x}", found.mix.instructions,
                                          found.instructions, *found.loop_at)
                            : fmt::format("none: all {} instructions count once", found.instructions));
  document.add(mix_table(found.mix));
  if (const int multiplied = found.mix.count(InstructionClass::kMatrix); multiplied > 0) {
    int64_t bytes = 0;
    for (const auto kind : {InstructionClass::kLdsRead, InstructionClass::kLdsWrite, InstructionClass::kDirectToLds}) {
      bytes += found.mix.bytes(kind);
    }
    const double each = static_cast<double>(bytes) / multiplied;
    report.fact("lds_bytes_per_matrix", "LDS", each,
                fmt::format("{} bytes for each matrix instruction", print_significant(each)));
  }
  if (!found.bound_problem.ok()) {
    report.fact("bound_problem", "no bound", found.bound_problem.message(), found.bound_problem.message());
    return;
  }
  document.add(pipe_table(bound));
  report.fact("limit", "limit", std::string(bound.limit),
              fmt::format("{}: {:.0f} cycles an iteration of all {} waves that a unit holds", bound.limit, bound.cycles,
                          std::max(1, found.occupancy.workgroups) * found.occupancy.waves_per_workgroup));
  document.fact("limit_cycles", bound.cycles, "");
  document.fact("matrix_limit", bound.matrix_limit, "");
  report.fact("matrix_busy", "matrix pipe", bound.matrix_busy,
              fmt::format("{:.1f} % busy at best", 100 * bound.matrix_busy));
  if (found.lint_problem.ok()) {
    report.fact("mca_block_rthroughput", "llvm-mca", found.lint_throughput,
                fmt::format("block reciprocal throughput {}", print_significant(found.lint_throughput, 6)));
  } else {
    report.fact("mca_block_rthroughput", "llvm-mca", Value(), found.lint_problem.message());
  }
}

Status report_amd(std::span<const std::byte> image, const CompileRequest& request, int64_t launch_bytes,
                  Document& document) {
  AmdInspectOptions options;
  options.source = request.source;
  options.launch_lds = launch_bytes;
  options.lint = true;
  Result<AmdInspection> found = inspect_amd_kernel(amdgcn_compiler(), image, request.entry, options);
  if (!found) return found.status();
  const AmdKernel& k = found->kernel;
  const AmdOccupancy& o = found->occupancy;
  Report report(document);
  report.fact("code_bytes", "code", k.code_bytes, print_bytes(k.code_bytes));
  report.fact("vgprs", "registers", int64_t{k.vgprs},
              fmt::format("{} vector ({} of them accumulation), {} scalar", k.vgprs, k.agprs, k.sgprs));
  report.number("agprs", k.agprs);
  report.number("sgprs", k.sgprs);
  report.fact("vgpr_spills", "spills", int64_t{k.vgpr_spills},
              fmt::format("{} vector, {} scalar; scratch {} bytes", k.vgpr_spills, k.sgpr_spills, k.scratch_bytes));
  report.number("sgpr_spills", k.sgpr_spills);
  report.number("scratch_bytes", k.scratch_bytes);
  report.fact("lds_bytes", "LDS", k.lds_bytes,
              fmt::format("{} bytes, {} more by the launch", k.lds_bytes, launch_bytes));
  report.number("launch_lds_bytes", launch_bytes);
  report.fact("max_threads", "workgroup", int64_t{k.max_threads},
              fmt::format("{} work-items in {} waves of {}", k.max_threads, o.waves_per_workgroup, k.wave_size));
  report.number("wave_size", k.wave_size);
  document.add(occupancy_table(o));
  const double waves = o.waves(o.workgroups);
  const std::string declared =
      found->declared_waves == 0 ? "none declared" : fmt::format("declared {}", found->declared_waves);
  report.fact("waves", "occupancy", waves,
              fmt::format("{} waves a SIMD in {} workgroups, {}", print_significant(waves), o.workgroups, declared));
  report.number("workgroups", o.workgroups);
  report.number("declared_waves", found->declared_waves);
  if (found->code_problem.ok()) {
    report_loop(*found, report, document);
  } else {
    report.fact("code_problem", "main loop", found->code_problem.message(), found->code_problem.message());
  }
  return {};
}

Status report_nvidia(std::span<const std::byte> image, const CompileRequest& request, int64_t launch_bytes,
                     Document& document) {
  Result<CubinInfo> info = read_cubin(image);
  if (!info) return info.status();
  const auto kernel = std::find_if(info->kernels.begin(), info->kernels.end(),
                                   [&](const CubinKernel& known) { return known.name == request.entry; });
  if (kernel == info->kernels.end()) return not_found(fmt::format("cubin: no kernel '{}' in it", request.entry));
  Report report(document);
  report.fact("code_bytes", "code", kernel->code_bytes, print_bytes(kernel->code_bytes));
  report.fact("registers", "registers", int64_t{kernel->registers}, fmt::format("{} a thread", kernel->registers));
  report.fact("local_bytes", "local memory", kernel->local_bytes,
              fmt::format("{} bytes a thread (spills, and arrays that are no registers)", kernel->local_bytes));
  report.fact("spill_instructions", "spills",
              int64_t{kernel->count(Sass::kLocalLoad) + kernel->count(Sass::kLocalStore)},
              fmt::format("{} loads, {} stores", kernel->count(Sass::kLocalLoad), kernel->count(Sass::kLocalStore)));
  report.fact("shared_bytes", "shared memory", kernel->shared_bytes,
              fmt::format("{} bytes, {} more by the launch", kernel->shared_bytes, launch_bytes));
  report.number("launch_shared_bytes", launch_bytes);
  report.fact("max_threads", "block", int64_t{kernel->max_threads}, fmt::format("{} threads", kernel->max_threads));
  return {};
}

Result<ExitCode> run_inspect(const InspectOptions& options) {
  Result<KernelKey> key = chosen_key(options);
  if (!key) return key.status();
  Result<const ArchSpec*> arch = require_arch(key->target);
  if (!arch) return arch.status();
  Result<const KernelFamily*> family = require_family(*key);
  if (!family) return family.status();
  if ((*family)->backend() == Backend::kVendor) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("'{}' is code of a vendor's library: there is no source to compile", (*family)->name()));
  }
  if ((*arch)->vendor == ArchVendor::kX86) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("target '{}' is a CPU: inspect reads the code of GPU kernels", key->target));
  }
  Result<CompileRequest> request = (*family)->source(*key);
  if (!request) return request.status();
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  Result<Artifact> artifact = (*context)->cache().get(*request, compiler_for(key->target));
  if (!artifact) return artifact.status();
  std::vector<std::byte> image = std::move(artifact->image);
  if (image.empty()) {
    Result<std::string> file = read_file(artifact->path);
    if (!file) return file.status();
    const auto* const bytes = reinterpret_cast<const std::byte*>(file->data());
    image.assign(bytes, bytes + file->size());
  }

  const int64_t launch_bytes = options.shared_bytes >= 0 ? options.shared_bytes : (*family)->launch_shared_bytes(*key);
  Document document("kernels inspect");
  document.fact("key", key->text, fmt::format("{:15} {}", "kernel", key->text));
  document.fact("target", key->target, fmt::format("{:15} {} ({})", "target", key->target, (*arch)->family));
  const bool amd = (*arch)->vendor == ArchVendor::kAmd;
  const Status status = amd ? report_amd(image, *request, launch_bytes, document)
                            : report_nvidia(image, *request, launch_bytes, document);
  if (!status) return status;
  document.print(options.output);
  return ExitCode::kOk;
}

}  // namespace

void add_inspect_command(CLI::App& kernels, Invocation& invocation) {
  add_command<InspectOptions>(
      kernels, invocation,
      {"inspect", "Tell what the code of a GPU kernel says: registers, spills, occupancy, limits of the main loop",
       "  tilewright explain --gemm 4096x4096x4096:bf16 --device emu:gfx942   keys of the candidates\n"
       "  tilewright kernels inspect KEY\n"
       "  tilewright kernels inspect KEY --target gfx950 --json               the same kernel for another target"},
      [](Arguments& arguments, InspectOptions& options) {
        arguments.positional(
            "key", options.key,
            "the kernel, as `kernels`, `prebuild` and `explain` print it; knobs after @ are passed over");
        arguments.text("--target", options.target, "NAME", "compile for this target instead of the key's");
        arguments.integer("--shared", options.shared_bytes, 0, int64_t{1} << 20,
                          "bytes of LDS or shared memory that a launch adds (default: as the family says)");
        add_output_arguments(arguments, options.output);
      },
      run_inspect);
}

}  // namespace tilewright::cli
