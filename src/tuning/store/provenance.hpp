// SPDX-License-Identifier: MIT
// Where a measured row comes from, and whether it still speaks of what runs here now.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/context_impl.hpp"

namespace tilewright {

// Whether kernels/<path> may be part of this vendor's kernels: it stands in no folder of another vendor's.
bool is_kernel_source(std::string_view path, const DeviceSpec& spec);
// The headers, by path, that an operator's kernels for this device may be made of: its own, and what they include.
Result<std::vector<std::pair<std::string, std::string>>> kernel_sources(std::string_view op, const DeviceSpec& spec);
// Digest (16 digits) of all of them.
std::string kernel_sources_digest(std::string_view op, const DeviceSpec& spec);

// What must be equal for a measured row to be worth keeping.
struct TuningEnvironment {
  std::string library, kernels;  // version; digest of the operators' kernel sources
  std::string compiler;          // full identity
  std::string target, part;
  int units = 0;
  std::string libraries = {};  // of the vendor: "cublaslt-13.1.2"

  std::string id() const;
};
TuningEnvironment tuning_environment(ContextImpl& context, int units);
// "gcc (Debian 12.2.0-14) 12.2.0", as tuned rows name it; "-" without a compiler.
std::string short_compiler_name(const DeviceSpec& spec);

// Library, kernel sources, compiler, driver and vendor's libraries of this process, as a row of `op` names them.
void set_provenance(TunedRow& row, const DeviceSpec& spec);
// What has changed since the row was measured, a phrase each: "kernel sources", "compiler gcc 12.2.0 -> 13.1.0". Empty: the
// row is fresh.
std::vector<std::string> stale_reasons(const TunedRow& row, const DeviceSpec& spec);

}  // namespace tilewright
