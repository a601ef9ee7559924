// SPDX-License-Identifier: MIT
// Look-ups in the table that scripts/generate/generate_arch_table.py makes from arch_specs.json.
#include "arch/arch_spec.hpp"

#include "arch/cpuid.hpp"

namespace tilewright {

namespace {

#include "arch_table.inc"

}  // namespace

std::span<const ArchSpec> arch_specs() { return kArchSpecs; }

std::span<const CpuidBit> cpuid_bits() { return kCpuidBits; }

const ArchSpec* find_arch(std::string_view target) {
  for (const ArchSpec& arch : kArchSpecs) {
    if (arch.target == target) return &arch;
  }
  return nullptr;
}

Result<const ArchSpec*> require_arch(std::string_view target) {
  if (const ArchSpec* arch = find_arch(target)) return arch;
  std::string known;
  for (const ArchSpec& arch : kArchSpecs) {
    if (!known.empty()) known += ", ";
    known += arch.target;
  }
  return Status(StatusCode::kNotFound, "target '" + std::string(target) + "' is unknown; known: " + known);
}

bool runs_on(std::string_view code_target, std::string_view device_target) {
  for (const ArchSpec* arch = find_arch(device_target); arch != nullptr; arch = find_arch(arch->base)) {
    if (arch->target == code_target) return true;
  }
  return false;
}

const MmaSpec* find_mma(const ArchSpec& arch, std::string_view name) {
  for (const MmaSpec& mma : arch.mma) {
    if (mma.name == name) return &mma;
  }
  return nullptr;
}

std::string peak_name(const MmaSpec& mma) {
  std::string name(mma.name);
  if (name.find('_') != std::string::npos) return name;
  const DType type = mma.input == DType::kF16 ? DType::kBf16 : mma.input == DType::kF8E5M2 ? DType::kF8E4M3 : mma.input;
  return name + "_" + dtype_name(type);
}

const PartSpec* find_part(std::string_view id) {
  for (const ArchSpec& arch : kArchSpecs) {
    for (const PartSpec& part : arch.parts) {
      for (const std::string_view known : part.ids) {
        if (known == id) return &part;
      }
    }
  }
  return nullptr;
}

const PartSpec* find_part(const ArchSpec& arch, std::string_view name) {
  for (const PartSpec& part : arch.parts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

}  // namespace tilewright
