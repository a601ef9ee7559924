// SPDX-License-Identifier: MIT
#include "peer/peer_isa.hpp"

#include <cstdlib>

#include "core/environment.hpp"

namespace tilewright::cli {
namespace {

struct TargetIsa {
  const char *target, *onednn, *mkl, *aten, *openblas;
};
constexpr TargetIsa kTargets[] = {
    {"x86-64", "SSE41", "SSE4_2", "default", "Nehalem"},
    {"x86-64-v3", "AVX2", "AVX2", "avx2", "Haswell"},
    {"x86-64-v4", "AVX512_CORE", "AVX512", "avx512", "SkylakeX"},
    {"x86-64-v4-bf16", "AVX512_CORE_BF16", "AVX512", "avx512", "Cooperlake"},
};

}  // namespace

std::vector<std::pair<const char*, const char*>> peer_isa_variables(std::string_view target) {
  for (const TargetIsa& t : kTargets) {
    if (target != t.target) continue;
    return {{"ONEDNN_MAX_CPU_ISA", t.onednn},
            {"MKL_ENABLE_INSTRUCTIONS", t.mkl},
            {"ATEN_CPU_CAPABILITY", t.aten},
            {"OPENBLAS_CORETYPE", t.openblas}};
  }
  return {};
}

void hold_peers_to_target() {
  const auto target = environment("TILEWRIGHT_CPU_TARGET");
  if (!target) return;
  for (const auto& [name, value] : peer_isa_variables(*target)) setenv(name, value, /*overwrite=*/0);
}

}  // namespace tilewright::cli
