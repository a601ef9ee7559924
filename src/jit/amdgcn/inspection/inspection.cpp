// SPDX-License-Identifier: MIT
#include "jit/amdgcn/inspection/inspection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "jit/system/files.hpp"
#include "jit/system/process.hpp"

namespace tilewright {
namespace {

// "Block RThroughput: 10.0" of the loop's instructions.
Result<double> ask_mca(const std::string& mca, const std::string& target, std::span<const AmdInstruction> code) {
  std::error_code error;
  const std::string parent = std::filesystem::temp_directory_path(error).string();
  Result<std::string> made = make_unique_folder(error ? "/tmp" : parent, "tilewright-mca-");
  if (!made) return made.status();
  const ScopedFolder folder(*made);
  const std::string file = folder.path() + "/loop.s";
  std::string text;
  for (const AmdInstruction& instruction : code) {
    if (!instruction.target) text += fmt::format("{} {}\n", instruction.mnemonic, instruction.operands);
  }
  if (Status s = write_file(file, text); !s) return s;
  ProcessOptions options;
  options.argv = {mca, "-mtriple=amdgcn", "-mcpu=" + target, "-iterations=1", "-instruction-info=0", file};
  options.set = {"LC_ALL=C"};
  Result<ProcessResult> run = run_process(options);
  if (!run) return run.status();
  constexpr std::string_view kWord = "Block RThroughput:";
  const size_t at = run->output.find(kWord);
  if (!run->ok() || at == std::string::npos) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("llvm-mca: {}: {}", run->describe(), run->output.substr(0, 200)));
  }
  return std::strtod(run->output.c_str() + at + kWord.size(), nullptr);
}

Status read_code(const AmdgcnCompiler& compiler, std::span<const std::byte> object, const AmdUnit& unit, bool lint,
                 AmdInspection& inspection) {
  Result<std::string> objdump = compiler.tool("llvm-objdump");
  if (!objdump) return objdump.status();
  Result<std::vector<AmdInstruction>> code = disassemble(*objdump, object, inspection.kernel.name);
  if (!code) return code.status();
  inspection.instructions = static_cast<int>(code->size());
  std::span<const AmdInstruction> part = *code;
  if (const auto loop = find_main_loop(*code)) {
    part = part.subspan(loop->begin, loop->end - loop->begin);
    inspection.loop_at = part.front().address - code->front().address;
  }
  inspection.mix = instruction_mix(part, unit.target, unit.lanes);
  // A kernel that fits nowhere is bounded as if one workgroup ran.
  Result<ThroughputBound> bound = throughput_bound(inspection.mix, unit, inspection.occupancy.waves_per_workgroup,
                                                   std::max(1, inspection.occupancy.workgroups));
  inspection.bound_problem = bound.status();
  if (bound) inspection.bound = std::move(*bound);
  if (!lint) return {};
  Result<std::string> mca = compiler.tool("llvm-mca");
  Result<double> answer = mca ? ask_mca(*mca, inspection.target, part) : Result<double>(mca.status());
  inspection.lint_problem = answer.status();
  if (answer) inspection.lint_throughput = *answer;
  return {};
}

}  // namespace

Result<AmdInspection> inspect_amd_kernel(const AmdgcnCompiler& compiler, std::span<const std::byte> object,
                                         const std::string& entry, const AmdInspectOptions& options) {
  Result<AmdObjectInfo> info = read_amd_object(object);
  if (!info) return info.status();
  const auto kernel = std::find_if(info->kernels.begin(), info->kernels.end(),
                                   [&](const AmdKernel& known) { return known.name == entry; });
  if (kernel == info->kernels.end()) {
    return Status(StatusCode::kNotFound, fmt::format("AMD code object: no kernel '{}' in it", entry));
  }
  Result<emu::MatrixTarget> target = matrix_target(info->target);
  if (!target) return target.status();
  const AmdUnit& unit = amd_unit(*target);
  if (kernel->wave_size != unit.lanes) {
    return Status(StatusCode::kUnsupported, fmt::format("'{}' runs in waves of {} lanes; {} is looked at with {}",
                                                        entry, kernel->wave_size, info->target, unit.lanes));
  }
  AmdInspection inspection;
  inspection.target = info->target;
  inspection.kernel = *kernel;
  inspection.occupancy = amd_occupancy(unit, *kernel, options.launch_lds);
  inspection.declared_waves = declared_waves(options.source);
  inspection.code_problem = read_code(compiler, object, unit, options.lint, inspection);
  return inspection;
}

}  // namespace tilewright
