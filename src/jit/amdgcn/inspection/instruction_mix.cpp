// SPDX-License-Identifier: MIT
#include "jit/amdgcn/inspection/instruction_mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "tile/emu/matrix/scaled.hpp"

namespace tilewright {
namespace {

using emu::MatrixElement;
using emu::MatrixLayout;
using emu::MatrixTarget;

constexpr std::string_view kTargetNames[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

bool begins(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return text.starts_with(p); });
}
bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// "offset:16 lds": a word of its own.
bool has_modifier(const AmdInstruction& instruction, std::string_view word) {
  const std::string padded = " " + instruction.operands + " ";
  return contains(padded, fmt::format(" {} ", word));
}

// "cbsz:4" -> 4, 0 without.
int modifier_value(const AmdInstruction& instruction, std::string_view name) {
  const size_t at = instruction.operands.find(fmt::format("{}:", name));
  if (at == std::string::npos) return 0;
  return std::atoi(instruction.operands.c_str() + at + name.size() + 1);
}

std::string_view element_name(MatrixElement e) {
  switch (e) {
    case MatrixElement::kF64: return "f64";
    case MatrixElement::kF32: return "f32";
    case MatrixElement::kXf32: return "xf32";
    case MatrixElement::kF16: return "f16";
    case MatrixElement::kBf16: return "bf16";
    case MatrixElement::kI8: return "i8";
    case MatrixElement::kIu8: return "iu8";
    case MatrixElement::kIu4: return "iu4";
    case MatrixElement::kF8: return "fp8";
    case MatrixElement::kB8: return "bf8";
    case MatrixElement::kF8f6f4: return "f8f6f4";
    case MatrixElement::kI32: return "i32";
  }
  return "";
}

InstructionClass memory_class(const AmdInstruction& instruction) {
  const std::string_view name = instruction.mnemonic;
  if (contains(name, "_inv") || contains(name, "_wb")) return InstructionClass::kHint;
  if (contains(name, "_load_lds") || (contains(name, "_load") && has_modifier(instruction, "lds"))) {
    return InstructionClass::kDirectToLds;
  }
  return contains(name, "_load") ? InstructionClass::kGlobalLoad : InstructionClass::kGlobalStore;
}

InstructionClass lds_class(std::string_view name) {
  if (begins(name, {"ds_read", "ds_load"})) return InstructionClass::kLdsRead;
  if (begins(name, {"ds_write", "ds_store"})) return InstructionClass::kLdsWrite;
  return InstructionClass::kLdsOther;
}

InstructionClass scalar_class(std::string_view name) {
  if (begins(name, {"s_waitcnt", "s_wait_"})) return InstructionClass::kWait;
  // gfx12: the signal goes ahead, the wait is where waves meet.
  if (name == "s_barrier" || name == "s_barrier_wait") return InstructionClass::kBarrier;
  if (begins(name, {"s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call", "s_endpgm"})) {
    return InstructionClass::kBranch;
  }
  if (begins(name,
             {"s_nop", "s_setprio", "s_delay_alu", "s_clause", "s_sleep", "s_barrier_signal", "s_dcache", "s_icache",
              "s_set_inst_prefetch", "s_inst_prefetch", "s_prefetch", "s_sethalt", "s_sendmsg", "s_code_end"})) {
    return InstructionClass::kHint;
  }
  return begins(name, {"s_load", "s_buffer_load"}) ? InstructionClass::kScalarLoad : InstructionClass::kScalar;
}

InstructionClass vector_class(std::string_view name) {
  if (is_matrix(name)) return InstructionClass::kMatrix;
  if (name.starts_with("v_accvgpr_")) return InstructionClass::kAccumulatorMove;
  // Bytes and halves are packed by permutations.
  if (begins(name, {"v_cvt_", "v_pack_", "v_perm_b32", "v_scalef32_"})) return InstructionClass::kVectorConversion;
  const std::string_view operation = name.starts_with("v_dual_") ? name.substr(7) : name.substr(2);
  if (begins(operation,
             {"lshl",      "lshr",   "ashr",   "and_",      "or_",     "or3",     "xor",           "xnor",
              "not_",      "bfe",    "bfi",    "bfm",       "alignb",  "mbcnt",   "readfirstlane", "readlane",
              "writelane", "add_co", "addc",   "add_co_ci", "sub_co",  "subb",    "subrev_co",     "mad_u",
              "mad_i",     "mad_co", "mul_lo", "mul_hi",    "mul_u32", "mul_i32", "ffb",           "bcnt"})) {
    return InstructionClass::kVectorInteger;
  }
  const bool arithmetic = begins(operation, {"add", "sub", "min", "max", "cmp", "med3"});
  const bool integer = contains(operation, "_u32") || contains(operation, "_i32") || contains(operation, "_nc_") ||
                       contains(operation, "_u64") || contains(operation, "_i64") || contains(operation, "_u16") ||
                       contains(operation, "_i16");
  return arithmetic && integer ? InstructionClass::kVectorInteger : InstructionClass::kVectorOther;
}

// LLVM, SISchedule.td: "F16 or F32 transcendental instructions (these are quarter rate)".
bool quarter_rate(std::string_view name) {
  return begins(name, {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"});
}

}  // namespace

InstructionClass class_of(const AmdInstruction& instruction) {
  const std::string_view name = instruction.mnemonic;
  if (name.starts_with("v_")) return vector_class(name);
  if (name.starts_with("ds_")) return lds_class(name);
  if (name.starts_with("scratch_")) return InstructionClass::kScratch;
  if (begins(name, {"global_", "flat_", "buffer_", "tbuffer_"})) return memory_class(instruction);
  return name.starts_with("s_") ? scalar_class(name) : InstructionClass::kHint;
}

int lane_bytes(const AmdInstruction& instruction) {
  const std::string_view name = instruction.mnemonic;
  if (!begins(name, {"ds_", "global_", "flat_", "buffer_", "tbuffer_", "scratch_"})) return 0;
  const int times = contains(name, "read2") || contains(name, "write2") || contains(name, "_2addr_") ? 2 : 1;
  struct Width {
    std::string_view word;
    int bytes;
  };
  // The first that stands in the name: wider words before those that they begin with.
  constexpr Width kWidths[] = {
      {"_dwordx4", 16}, {"_dwordx3", 12}, {"_dwordx2", 8}, {"_dword", 4}, {"_b128", 16},  {"_b96", 12},   {"_b64", 8},
      {"_b32", 4},      {"_ubyte", 1},    {"_sbyte", 1},   {"_byte", 1},  {"_ushort", 2}, {"_sshort", 2}, {"_short", 2},
      {"_d16_u8", 1},   {"_d16_i8", 1},   {"_u8", 1},      {"_i8", 1},    {"_b8", 1},     {"_u16", 2},    {"_i16", 2},
      {"_b16", 2},      {"_d16_b16", 2},  {"_u64", 8},     {"_i64", 8},   {"_f64", 8},    {"_x2", 8}};
  for (const Width& width : kWidths) {
    if (contains(name, width.word)) return times * width.bytes;
  }
  return class_of(instruction) == InstructionClass::kHint ? 0 : 4 * times;
}

std::string isa_mnemonic(const emu::MatrixInstruction& row, MatrixTarget target) {
  std::string name = row.name;
  if (row.layout != MatrixLayout::kMfma) {
    for (const std::string_view suffix : {"_gfx12", "_w32", "_tied"}) {
      if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    }
    return "v_" + name;
  }
  // gfx90a writes what clang writes; later the types stand apart and the blocks are named. A scale is one more word.
  if (target == MatrixTarget::kGfx90a) return "v_" + name;
  const std::string_view a = element_name(row.a), b = element_name(row.b);
  const std::string blocks = row.blocks > 1 ? fmt::format("_{}b", row.blocks) : "";
  const bool eight_bits = row.a == MatrixElement::kF8 || row.a == MatrixElement::kB8;
  return fmt::format("v_mfma_{}_{}x{}x{}{}_{}", element_name(row.d), row.m, row.n, row.k, blocks,
                     eight_bits ? fmt::format("{}_{}", a, b) : std::string(a));
}

MatrixUse matrix_use(const AmdInstruction& instruction, MatrixTarget target) {
  MatrixUse use{instruction.mnemonic, -1, 0, 1};
  std::string name = instruction.mnemonic;
  if (constexpr std::string_view kScaled = "v_mfma_scale_"; name.starts_with(kScaled)) {
    name = "v_mfma_" + name.substr(kScaled.size());
  }
  for (int row = 0; row < emu::matrix_rows::kCount; ++row) {
    const emu::MatrixInstruction& known = emu::matrix_rows::kRows[row];
    if (!known.on(target) || isa_mnemonic(known, target) != name) continue;
    use.row = row;
    use.cycles = known.cycles[static_cast<int>(target)];
    if (known.a == MatrixElement::kF8f6f4) {
      const auto format = [&](const char* field) {
        return static_cast<emu::F8f6f4>(modifier_value(instruction, field));
      };
      use.cycles = emu::f8f6f4_cycles(known, format("cbsz"), format("blgp"));
    }
    return use;
  }
  return use;
}

Result<MatrixTarget> matrix_target(std::string_view target) {
  for (size_t i = 0; i < std::size(kTargetNames); ++i) {
    if (kTargetNames[i] == target) return static_cast<MatrixTarget>(i);
  }
  return Status(StatusCode::kNotFound,
                fmt::format("target '{}' is no AMD GPU's; known: gfx90a, gfx942, gfx950, gfx1100, "
                            "gfx1201",
                            target));
}

InstructionMix instruction_mix(std::span<const AmdInstruction> code, MatrixTarget target, int lanes) {
  InstructionMix mix;
  mix.instructions = static_cast<int>(code.size());
  for (const AmdInstruction& instruction : code) {
    const InstructionClass kind = class_of(instruction);
    ClassCount& count = mix.classes[static_cast<size_t>(kind)];
    ++count.count;
    if (const int64_t bytes = lane_bytes(instruction); bytes > 0) {
      count.bytes += lanes * bytes;
      count.word_bytes += lanes * std::max<int64_t>(4, bytes);
    }
    if (quarter_rate(instruction.mnemonic)) ++mix.quarter_rate;
    if (instruction.mnemonic == "s_nop") mix.nop_states += std::atoi(instruction.operands.c_str()) + 1;
    if (kind != InstructionClass::kMatrix) continue;
    const MatrixUse use = matrix_use(instruction, target);
    const auto known = std::find_if(mix.matrix.begin(), mix.matrix.end(), [&](const MatrixUse& m) {
      return m.mnemonic == use.mnemonic && m.cycles == use.cycles;
    });
    if (known != mix.matrix.end()) {
      ++known->count;
    } else {
      mix.matrix.push_back(use);
    }
  }
  std::sort(mix.matrix.begin(), mix.matrix.end(),
            [](const MatrixUse& x, const MatrixUse& y) { return x.mnemonic < y.mnemonic; });
  return mix;
}

}  // namespace tilewright
