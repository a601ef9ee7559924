// SPDX-License-Identifier: MIT
#include "ops/gemm/families/gemm_pack_family.hpp"

#include <fmt/format.h>

namespace tilewright {

Status GemmPackFamily::supports(ProblemRef, const DeviceSpec&) const {
  return unsupported(fmt::format("{}: packs weights; it does not multiply", kind_.name));
}

Result<CompileRequest> GemmPackFamily::source(const KernelKey& asked) const {
  if (!kind_.compiles(asked.target) || !(asked == key(asked.target))) {
    return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", kind_.name, asked.text));
  }
  CompileRequest request;
  request.target = asked.target;
  request.name = kind_.name;
  request.entry = kind_.entry(asked);
  request.source = kind_.source(request.entry);
  return request;
}

std::vector<KernelKey> GemmPackFamily::builtin_keys(std::string_view target) const {
  if (!kind_.compiles(target) || !kind_.is_carried(target)) return {};
  return {key(target)};
}

}  // namespace tilewright
