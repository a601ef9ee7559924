// SPDX-License-Identifier: MIT
#include "jit/amdgcn/inspection/compute_unit.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace tilewright {
namespace {

constexpr int64_t round_up(int64_t value, int64_t granule) { return (value + granule - 1) / granule * granule; }

// LLVM, GCNSubtarget::getOccupancyWithNumSGPRs of gfx8 and gfx9: 800 registers a SIMD.
int waves_by_scalars(int sgprs, int most) { return sgprs <= 80 ? most : sgprs <= 88 ? 9 : sgprs <= 100 ? 8 : 7; }

}  // namespace

AmdOccupancy amd_occupancy(const AmdUnit& unit, const AmdKernel& kernel, int64_t launch_lds) {
  AmdOccupancy result;
  result.simds = unit.simds;
  result.waves_per_workgroup = std::max(1, (kernel.max_threads + unit.lanes - 1) / unit.lanes);
  const int waves = result.waves_per_workgroup;
  const auto workgroups = [&](int waves_of_simd) { return waves_of_simd * unit.simds / waves; };

  const int64_t registers = round_up(std::max(1, kernel.vgprs), unit.granule);
  result.by_registers = workgroups(std::min<int>(unit.waves, static_cast<int>(unit.registers / registers)));
  const int by_scalars = unit.scalar_limit ? waves_by_scalars(kernel.sgprs, unit.waves) : unit.waves;
  result.by_scalars = workgroups(std::min(unit.waves, by_scalars));
  result.by_slots = waves == 1 ? workgroups(unit.waves) : std::min(unit.workgroups, workgroups(unit.waves));
  const int64_t lds = round_up(kernel.lds_bytes + launch_lds, unit.lds_granule);
  result.by_lds =
      lds == 0 ? result.by_slots : static_cast<int>(std::min<int64_t>(unit.lds_bytes / lds, result.by_slots));
  result.workgroups = std::min({result.by_registers, result.by_scalars, result.by_slots, result.by_lds});
  return result;
}

int declared_waves(std::string_view source) {
  // What stands in front of the number, up to the comma before it.
  struct Form {
    std::string_view word;
    int commas;
  };
  for (const Form& form : {Form{"TILEWRIGHT_KERNEL(", 2}, Form{"__launch_bounds__(", 1}}) {
    const size_t at = source.find(form.word);
    if (at == std::string_view::npos) continue;
    std::string_view arguments = source.substr(at + form.word.size());
    arguments = arguments.substr(0, arguments.find(')'));
    size_t comma = arguments.find(',');
    for (int i = 1; i < form.commas && comma != std::string_view::npos; ++i) comma = arguments.find(',', comma + 1);
    return comma == std::string_view::npos ? 0 : std::atoi(std::string(arguments.substr(comma + 1)).c_str());
  }
  return 0;
}

}  // namespace tilewright
